/* array_stream.h - arrays as bytes: what NDArray::Save writes and Load reads, of ndarray.h.
 *
 * Little endian: u64 magic, u64 0, i32 device type and i32 device id (the cpu's), i32 ndim, the
 * dtype (u8 code, u8 bits, u16 lanes), i64 shape[ndim], i64 bytes, the elements in row-major
 * order. */
#ifndef TVM_RUNTIME_ARRAY_STREAM_H_
#define TVM_RUNTIME_ARRAY_STREAM_H_

#include <tvm/runtime/ndarray.h>

#include <algorithm>
#include <limits>

MBLOB_FACE_BEGIN

inline constexpr uint64_t kTVMNDArrayMagic = UINT64_C(0xDD5E40F096B4A13F);

namespace detail {

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
inline constexpr bool kSwapsBytes = true;
#else
inline constexpr bool kSwapsBytes = false;
#endif

/* Turn numbers of `size` bytes between the order of files and this machine's. */
inline void TurnNumbers(void *data, std::size_t size, std::size_t count) {
  char *at = static_cast<char *>(data);
  for (; kSwapsBytes && size > 1 && count > 0; --count, at += size) std::reverse(at, at + size);
}

template <typename T, typename Stream>
void WriteNumber(Stream *stream, T value) {
  TurnNumbers(&value, sizeof(value), 1);
  stream->Write(&value, sizeof(value));
}

template <typename Stream>
void ReadBytes(Stream *stream, void *data, std::size_t size, const char *what) {
  if (size != 0 && stream->Read(data, size) != size)
    throw InternalError(std::string("NDArray::Load: the stream ends in the array's ") + what);
}

template <typename T, typename Stream>
T ReadNumber(Stream *stream, const char *what) {
  T value = 0;
  ReadBytes(stream, &value, sizeof(value), what);
  TurnNumbers(&value, sizeof(value), 1);
  return value;
}

[[noreturn]] inline void RefuseArray(const std::string &why) {
  throw InternalError("NDArray::Load: " + why);
}

/* Bytes of one element in a file, which has no vectors. */
inline std::size_t StoredElementSize(DLDataType dtype) {
  if (dtype.lanes != 1 || dtype.bits == 0)
    throw InternalError("NDArray: no elements of type " + DLDataType2String(dtype) +
                        " can be stored");
  return (static_cast<std::size_t>(dtype.bits) + 7) / 8;
}

/* The shape that comes next, and how many bytes its elements have. */
template <typename Stream>
std::vector<int64_t> ReadShape(Stream *stream, int32_t ndim, std::size_t *bytes) {
  if (ndim < 0 || ndim > 64) RefuseArray("ndim is " + std::to_string(ndim) + ", expected 0 to 64");
  std::vector<int64_t> shape;
  uint64_t count = 1,
           limit = static_cast<uint64_t>(std::numeric_limits<std::ptrdiff_t>::max()) / *bytes;
  for (int32_t i = 0; i < ndim; ++i) shape.push_back(ReadNumber<int64_t>(stream, "shape"));
  for (const int64_t extent : shape)
    if (extent < 0) RefuseArray("an extent of its shape is " + std::to_string(extent));
  const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  for (std::size_t i = 0; !empty && i < shape.size(); ++i) {
    if (static_cast<uint64_t>(shape[i]) > limit / count)
      RefuseArray("its shape has more bytes than memory can");
    count *= static_cast<uint64_t>(shape[i]);
  }
  *bytes *= empty ? 0 : static_cast<std::size_t>(count);
  return shape;
}

}  // namespace detail

/* A tensor of any device with compact rows. */
template <typename Stream>
bool SaveDLTensor(Stream *stream, const DLTensor *tensor) {
  const std::size_t size = detail::StoredElementSize(tensor->dtype), bytes = GetDataSize(*tensor);
  detail::WriteNumber(stream, kTVMNDArrayMagic);
  detail::WriteNumber(stream, uint64_t{0});
  detail::WriteNumber(stream, static_cast<int32_t>(kDLCPU));
  detail::WriteNumber(stream, int32_t{0});
  detail::WriteNumber(stream, tensor->ndim);
  detail::WriteNumber(stream, tensor->dtype.code);
  detail::WriteNumber(stream, tensor->dtype.bits);
  detail::WriteNumber(stream, tensor->dtype.lanes);
  for (int32_t i = 0; i < tensor->ndim; ++i) detail::WriteNumber(stream, tensor->shape[i]);
  detail::WriteNumber(stream, static_cast<int64_t>(bytes));
  std::vector<char> data(bytes);
  if (bytes != 0)
    detail::CheckCall(
        TVMArrayCopyToBytes(const_cast<DLTensor *>(tensor), data.data(), data.size()));
  detail::TurnNumbers(data.data(), size, bytes / size);
  if (bytes != 0) stream->Write(data.data(), data.size());
  return true;
}

template <typename Stream>
void NDArray::Save(Stream *stream) const {
  SaveDLTensor(stream, Defined());
}

template <typename Stream>
bool NDArray::Load(Stream *stream) {
  if (detail::ReadNumber<uint64_t>(stream, "magic") != kTVMNDArrayMagic)
    detail::RefuseArray("the stream has no array here (wrong magic)");
  (void)detail::ReadNumber<uint64_t>(stream, "header");
  const auto device_type = detail::ReadNumber<int32_t>(stream, "device");
  (void)detail::ReadNumber<int32_t>(stream, "device");
  if (device_type != kDLCPU)
    detail::RefuseArray("it is stored for device type " + std::to_string(device_type));
  const auto ndim = detail::ReadNumber<int32_t>(stream, "ndim");
  DLDataType dtype;
  dtype.code = detail::ReadNumber<uint8_t>(stream, "dtype");
  dtype.bits = detail::ReadNumber<uint8_t>(stream, "dtype");
  dtype.lanes = detail::ReadNumber<uint16_t>(stream, "dtype");
  const std::size_t size = detail::StoredElementSize(dtype);
  std::size_t bytes = size;
  const std::vector<int64_t> shape = detail::ReadShape(stream, ndim, &bytes);
  const auto declared = detail::ReadNumber<int64_t>(stream, "byte count");
  if (declared < 0 || static_cast<uint64_t>(declared) != bytes)
    detail::RefuseArray("it declares " + std::to_string(declared) + " bytes, its shape has " +
                        std::to_string(bytes));
  NDArray array = Empty(ShapeTuple(shape.begin(), shape.end()), dtype, Device{kDLCPU, 0});
  detail::ReadBytes(stream, array->data, bytes, "elements");
  detail::TurnNumbers(array->data, size, bytes / size);
  *this = array;
  return true;
}

MBLOB_FACE_END

#endif /* TVM_RUNTIME_ARRAY_STREAM_H_ */
