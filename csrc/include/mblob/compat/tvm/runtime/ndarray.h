/* ndarray.h - NDArray: a counted tensor; reads as a DLTensor through `->`. Memory is the host's. */
#ifndef TVM_RUNTIME_NDARRAY_H_
#define TVM_RUNTIME_NDARRAY_H_

#include <tvm/runtime/container/optional.h>
#include <tvm/runtime/container/shape_tuple.h>
#include <tvm/runtime/container/string.h>
#include <tvm/runtime/data_type.h>
#include <tvm/runtime/object.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

MBLOB_FACE_BEGIN

/* True if the elements lie in row-major order without gaps. */
inline bool IsContiguous(const DLTensor &t) {
  int64_t expected = 1;
  for (int32_t i = t.ndim; t.strides && i-- > 0; expected *= t.shape[i])
    if (t.shape[i] != 1 && t.strides[i] != expected) return false;
  return true;
}

/* Bytes of the elements, without gaps. */
inline std::size_t GetDataSize(const DLTensor &t) {
  std::size_t size = (static_cast<std::size_t>(t.dtype.bits) * t.dtype.lanes + 7) / 8;
  for (int32_t i = 0; i < t.ndim; ++i) size *= static_cast<std::size_t>(t.shape[i]);
  return size;
}

inline constexpr std::size_t kArrayAlignment =
    64; /* bytes; what kernels of TVM 0.10 and later assume */

class MBLOB_HIDDEN NDArray : public ObjectRef {
 public:
  static constexpr int kTypeCode = kTVMNDArrayHandle;
  /* What an array's handle points to. */
  struct Container {
    DLTensor dl_tensor;
    static constexpr uint32_t RuntimeTypeIndex() { return TypeIndex::kRuntimeNDArray; }
  };
  using ContainerType = Container;

  NDArray() = default;
  NDArray(std::nullptr_t) {} /* NOLINT */
  explicit NDArray(detail::Owned array) : ObjectRef(array, kTypeCode) {}

  /* The tensor; null for a null array. It may be passed on as DLTensor * while this array lives. */
  const DLTensor *operator->() const { return tensor(); }
  const Container *get() const { return static_cast<const Container *>(handle()); }
  ShapeTuple Shape() const {
    return ShapeTuple(Defined()->shape, Defined()->shape + Defined()->ndim);
  }
  runtime::DataType DataType() const { return runtime::DataType(Defined()->dtype); }
  bool IsContiguous() const { return runtime::IsContiguous(*Defined()); }
  void reset() { *this = NDArray(); }

  /* Copies of all elements. Both sides are contiguous and have the same number of bytes. */
  void CopyFrom(const DLTensor *other) const { CopyFromTo(other, Defined()); }
  void CopyFrom(const NDArray &other) const { CopyFromTo(other.Defined(), Defined()); }
  void CopyTo(DLTensor *other) const { CopyFromTo(Defined(), other); }
  void CopyTo(const NDArray &other) const { CopyFromTo(Defined(), other.Defined()); }
  NDArray CopyTo(const Device &device, const Optional<String> &mem_scope = NullOpt) const {
    NDArray copy = Empty(Shape(), Defined()->dtype, device, mem_scope);
    copy.CopyFrom(*this);
    return copy;
  }
  void CopyFromBytes(const void *data, std::size_t nbytes) const {
    detail::CheckCall(TVMArrayCopyFromBytes(Defined(), const_cast<void *>(data), nbytes));
  }
  void CopyToBytes(void *data, std::size_t nbytes) const {
    detail::CheckCall(TVMArrayCopyToBytes(Defined(), data, nbytes));
  }
  static void CopyFromTo(const DLTensor *from, DLTensor *to, TVMStreamHandle stream = nullptr) {
    detail::CheckCall(TVMArrayCopyFromTo(const_cast<DLTensor *>(from), to, stream));
  }

  /* Other extents, and maybe another type, over this array's memory, from a byte of it on. */
  NDArray CreateView(ShapeTuple shape, DLDataType dtype, uint64_t relative_byte_offset = 0) const;

  /* `mem_scope`: "global", which is all that the host has. */
  static NDArray Empty(const ShapeTuple &shape, DLDataType dtype, Device device,
                       const Optional<String> &mem_scope = NullOpt) {
    TVMArrayHandle handle = nullptr;
    if (mem_scope.defined() && !mem_scope.value().empty() && mem_scope.value() != "global")
      throw InternalError("NDArray::Empty: the host has no memory scope '" +
                          std::string(mem_scope.value()) + "'; it has: global");
    detail::CheckCall(TVMArrayAlloc(shape.data(), static_cast<int>(shape.size()), dtype.code,
                                    dtype.bits, dtype.lanes, device.device_type, device.device_id,
                                    &handle));
    return NDArray(detail::Owned{handle});
  }
  /* The tensor becomes the array's when this succeeds. */
  static NDArray FromDLPack(DLManagedTensor *tensor) {
    TVMArrayHandle handle = nullptr;
    detail::CheckCall(TVMArrayFromDLPack(tensor, &handle));
    return NDArray(detail::Owned{handle});
  }
  /* Memory that stays somebody else's and outlives the array. */
  static NDArray FromExternalDLTensor(const DLTensor &tensor);
  static NDArray NewFromDLTensor(const DLTensor *tensor, const Device &device) {
    NDArray copy =
        Empty(ShapeTuple(tensor->shape, tensor->shape + tensor->ndim), tensor->dtype, device);
    copy.CopyFrom(tensor);
    return copy;
  }
  /* True if FromExternalDLTensor serves: the memory is that device's, and as aligned as kernels
   * assume. */
  static bool AbilityOfZeroCopyForDLTensor(const DLTensor *tensor, const Device &device) {
    const auto address = reinterpret_cast<uintptr_t>(tensor->data) + tensor->byte_offset;
    return tensor->device.device_type == device.device_type &&
           tensor->device.device_id == device.device_id && address % kArrayAlignment == 0;
  }

  /* In the form of parameter files (array_stream.h). `Stream` is a dmlc::Stream or has its Read
   * and Write. */
  template <typename Stream>
  void Save(Stream *stream) const;
  /* The array becomes what the stream has next. Throws if that is no array, or ends too early. */
  template <typename Stream>
  bool Load(Stream *stream);

  /* To be given back through its deleter. */
  DLManagedTensor *ToDLPack() const {
    DLManagedTensor *tensor = nullptr;
    detail::CheckCall(TVMArrayToDLPack(Defined(), &tensor));
    return tensor;
  }

 private:
  struct Managed;
  static NDArray Adopt(std::unique_ptr<Managed> managed);

  DLTensor *tensor() const { return static_cast<DLTensor *>(handle()); }
  DLTensor *Defined() const {
    if (!defined()) throw InternalError("NDArray: the array is null");
    return tensor();
  }
};

/* A tensor that keeps `owner` (may be null) as long as it lives. */
struct NDArray::Managed {
  Managed(const DLTensor &view, ShapeTuple extents, NDArray of)
      : shape(std::move(extents)), owner(std::move(of)) {
    tensor.dl_tensor = view;
    tensor.dl_tensor.ndim = static_cast<int32_t>(shape.size());
    tensor.dl_tensor.shape = shape.data();
    tensor.dl_tensor.strides = nullptr;
    tensor.manager_ctx = this;
    tensor.deleter = Delete;
  }
  static void Delete(DLManagedTensor *self) { delete static_cast<Managed *>(self->manager_ctx); }

  std::vector<int64_t> shape;
  NDArray owner;
  DLManagedTensor tensor = {};
};

inline NDArray NDArray::Adopt(std::unique_ptr<Managed> managed) {
  NDArray array = FromDLPack(&managed->tensor);
  (void)managed.release(); /* the array's now */
  return array;
}

inline NDArray NDArray::CreateView(ShapeTuple shape, DLDataType dtype,
                                   uint64_t relative_byte_offset) const {
  if (!IsContiguous()) throw InternalError("NDArray::CreateView: the array is not contiguous");
  auto managed = std::make_unique<Managed>(*Defined(), std::move(shape), *this);
  DLTensor &view = managed->tensor.dl_tensor;
  view.dtype = dtype;
  view.byte_offset += relative_byte_offset;
  for (int64_t extent : managed->shape)
    if (extent < 0)
      throw InternalError("NDArray::CreateView: an extent is " + std::to_string(extent));
  const std::size_t have = GetDataSize(*Defined()), want = GetDataSize(view);
  if (relative_byte_offset > have || want > have - relative_byte_offset)
    throw InternalError("NDArray::CreateView: the view needs " + std::to_string(want) +
                        " bytes from byte " + std::to_string(relative_byte_offset) +
                        " on, the array has " + std::to_string(have));
  return Adopt(std::move(managed));
}

inline NDArray NDArray::FromExternalDLTensor(const DLTensor &tensor) {
  if (!runtime::IsContiguous(tensor)) throw InternalError("NDArray: the tensor is not contiguous");
  return Adopt(std::make_unique<Managed>(
      tensor, ShapeTuple(tensor.shape, tensor.shape + tensor.ndim), NDArray()));
}

MBLOB_FACE_END

#include <tvm/runtime/array_stream.h>
/* Which programs expect with this header. */
#include <tvm/runtime/packed_func.h>

namespace tvm {
using runtime::NDArray;
}

#endif /* TVM_RUNTIME_NDARRAY_H_ */
