// NDArray: making, copying, views, DLPack, ownership.
#include <tvm/runtime/device_api.h>

#include <cstring>
#include <vector>

#include "test_face.h"

using namespace tvm::runtime;

namespace {

const DLDevice kCpu{kDLCPU, 0};
const DLDataType kFloat32{kDLFloat, 32, 1};

NDArray Counting(int64_t size) {
  NDArray array = NDArray::Empty({size}, kFloat32, kCpu);
  for (int64_t i = 0; i < size; ++i) static_cast<float *>(array->data)[i] = static_cast<float>(i);
  return array;
}

float At(const NDArray &array, int64_t i) {
  return reinterpret_cast<float *>(static_cast<char *>(array->data) + array->byte_offset)[i];
}

void ArraysAreMadeAndCopied() {
  NDArray a = NDArray::Empty({2, 3}, kFloat32, kCpu);
  REQUIRE(a.Shape() == (ShapeTuple{2, 3}) && a.DataType() == DataType::Float(32) && a->ndim == 2);
  REQUIRE(reinterpret_cast<uintptr_t>(a->data) % kAllocAlignment == 0 && a.IsContiguous());
  const float values[6] = {0, 1, 2, 3, 4, 5};
  float back[6] = {};
  a.CopyFromBytes(values, sizeof(values));
  NDArray b = NDArray::Empty({6}, kFloat32, kCpu);
  b.CopyFrom(a);
  b.CopyToBytes(back, sizeof(back));
  REQUIRE(std::memcmp(values, back, sizeof(values)) == 0);
  NDArray c = a.CopyTo(kCpu);
  static_cast<float *>(a->data)[0] = 9;
  REQUIRE(!c.same_as(a) && At(c, 0) == 0 && c.Shape() == a.Shape());
  a.CopyTo(c);
  REQUIRE(At(c, 0) == 9);
  std::vector<int64_t> shape = {4};
  DLTensor external = *b.operator->();
  c.CopyTo(&external);
  REQUIRE(At(b, 0) == 9);
  REQUIRE(NDArray::Empty(shape, DataType::Int(64), kCpu).DataType() == DataType::Int(64));
  REQUIRE(Has(Thrown([&] { a.CopyFromBytes(values, 4); }), "24 bytes"));
  REQUIRE(Has(Thrown([&] { a.CopyFrom(NDArray::Empty({5}, kFloat32, kCpu)); }), "bytes"));
  REQUIRE(
      Has(Thrown([] { NDArray::Empty({2}, kFloat32, DLDevice{kDLMetal, 0}); }), "device type 8"));
  REQUIRE(Has(Thrown([] { NDArray::Empty({-1}, kFloat32, kCpu); }), "shape[0] is -1"));
  REQUIRE(Has(Thrown([] { NDArray().Shape(); }), "null"));
}

void ViewsKeepTheMemory() {
  NDArray view;
  {
    NDArray array = Counting(12);
    view = array.CreateView({3, 4}, kFloat32);
    REQUIRE(view->data == array->data);
    REQUIRE(Has(Thrown([&] { array.CreateView({13}, kFloat32); }), "needs 52 bytes"));
    REQUIRE(Has(Thrown([&] { array.CreateView({12}, kFloat32, 4); }), "from byte 4"));
    REQUIRE(Has(Thrown([&] { array.CreateView({-1}, kFloat32); }), "extent is -1"));
    REQUIRE(Has(Thrown([&] { array.CreateView({1}, kFloat32, 49); }), "from byte 49"));
  }
  NDArray part = view.CreateView({2}, kFloat32, 8);
  NDArray bytes = part.CreateView({8}, DataType::UInt(8));
  view = nullptr;
  REQUIRE(At(part, 0) == 2 && At(part, 1) == 3 && bytes.Shape()[0] == 8);
  float copy[2] = {};
  part.CopyToBytes(copy, sizeof(copy));
  REQUIRE(copy[1] == 3);
}

void TensorsComeAndGoThroughDLPack() {
  DLManagedTensor *managed = Counting(5).ToDLPack();
  NDArray again = NDArray::FromDLPack(managed);
  REQUIRE(At(again, 4) == 4 && again->data == managed->dl_tensor.data);
  DLManagedTensor *unused = again.ToDLPack();
  unused->deleter(unused);
  static int deleted = 0;
  int64_t shape[1] = {2};
  float data[2] = {5, 6};
  DLTensor tensor = {};
  tensor.data = data;
  tensor.device = kCpu;
  tensor.ndim = 1;
  tensor.dtype = kFloat32;
  tensor.shape = shape;
  DLManagedTensor mine = {tensor, nullptr, [](DLManagedTensor *) { ++deleted; }};
  {
    NDArray a = NDArray::FromDLPack(&mine), b = a;
    a = nullptr;
    REQUIRE(deleted == 0 && At(b, 1) == 6);
  }
  REQUIRE(deleted == 1);
  const NDArray external = NDArray::FromExternalDLTensor(tensor);
  REQUIRE(external->data == data && external->shape != shape);
}

void ArraysAreCounted() {
  NDArray a = Counting(2), none;
  REQUIRE(a.use_count() == 1 && a.unique() && a.get() != nullptr);
  {
    const NDArray b = a;
    REQUIRE(a.use_count() == 2 && !a.unique() && a.get() == b.get() && b.same_as(a));
    const NDArray view = a.CreateView({2}, kFloat32);
    REQUIRE(a.use_count() == 3 && view.unique());
  }
  REQUIRE(a.unique() && none.use_count() == 0 && !none.defined() && none.get() == nullptr);
}

void ShapesComeInManyForms() {
  const std::vector<int64_t> extents = {2, 3};
  const ShapeTuple shape = extents;
  REQUIRE(NDArray::Empty(extents, kFloat32, kCpu).Shape() == shape);
  REQUIRE(NDArray::Empty({2, 3}, {kDLFloat, 32, 1}, {kDLCPU, 0}).Shape() == shape);
  REQUIRE(NDArray::Empty(shape, DataType::Float(32), kCpu, NullOpt).Shape() == shape);
  REQUIRE(NDArray::Empty(shape, kFloat32, kCpu, String("global")).Shape() == shape);
  REQUIRE(Has(Thrown([&] { NDArray::Empty(shape, kFloat32, kCpu, String("global.texture")); }),
              "no memory scope 'global.texture'"));
  REQUIRE(Counting(6).CreateView(extents, kFloat32).Shape() == shape);
  const std::vector<int64_t> back = Counting(6).Shape();
  REQUIRE(back.size() == 1 && back[0] == 6);
  REQUIRE(Has(Thrown([] { NDArray::Empty({2}, DLDataType{77, 32, 1}, kCpu); }),
              "no data type has the code 77"));
  REQUIRE(Has(Thrown([] { NDArray::Empty({2}, DLDataType{kDLFloat, 32, 0}, kCpu); }), "0 lanes"));
}

void ObjectRefsShareOneObject() {
  NDArray array = Counting(3);
  ObjectRef any = array;
  REQUIRE(any == array && any.defined() && Downcast<NDArray>(any).same_as(array));
  REQUIRE(Has(Thrown([&] { Downcast<Module>(any); }), "type code 13, expected 9"));
  REQUIRE(!Downcast<Module>(ObjectRef()).defined());
  NDArray moved = std::move(array);
  NDArray &same = moved;
  moved = same;
  REQUIRE(!array.defined() && moved.defined() && array == nullptr && moved != nullptr);  // NOLINT
  REQUIRE(OnesFromSecondUnit(4).Shape()[0] == 4);
}

void ADeviceIsTheHost() {
  DeviceAPI *host = DeviceAPI::Get(kCpu);
  void *data = host->AllocDataSpace(kCpu, 100, kAllocAlignment, kFloat32);
  REQUIRE(data);
  host->FreeDataSpace(kCpu, data);
  const int64_t shape[2] = {3, 5};
  data = host->AllocDataSpace(kCpu, 2, shape, kFloat32, String("global"));
  std::memset(data, 1, 3 * 5 * sizeof(float));
  host->FreeDataSpace(kCpu, data);
  void *scratch = host->AllocWorkspace(kCpu, 1000),
       *typed = host->AllocWorkspace(kCpu, 64, kFloat32);
  REQUIRE(reinterpret_cast<uintptr_t>(scratch) % kTempAllocaAlignment == 0 && scratch != typed);
  std::memset(scratch, 1, 1000);
  host->FreeWorkspace(kCpu, typed);
  host->FreeWorkspace(kCpu, scratch);
  REQUIRE(host->AllocWorkspace(kCpu, 1000) == scratch);  // kept for the next one
  host->FreeWorkspace(kCpu, scratch);
  int nobody = 0;
  REQUIRE(Has(Thrown([&] { host->FreeWorkspace(kCpu, &nobody); }), "not allocated by this thread"));
  REQUIRE(Has(Thrown([&] { host->AllocWorkspace(DLDevice{kDLMetal, 0}, 8); }), "device type 8"));
  REQUIRE(Has(Thrown([&] { host->AllocDataSpace(kCpu, 2, nullptr, kFloat32); }), "shape is NULL"));
  host->SetDevice(kCpu);
  TVMStreamHandle stream = host->CreateStream(kCpu);
  host->SetStream(kCpu, stream);
  host->SyncStreamFromTo(kCpu, stream, nullptr);
  host->FreeStream(kCpu, stream);
  NDArray a = Counting(2), b = Counting(2);
  static_cast<float *>(a->data)[0] = 8;
  host->CopyDataFromTo(const_cast<DLTensor *>(a.operator->()),
                       const_cast<DLTensor *>(b.operator->()), nullptr);
  host->StreamSync(kCpu, nullptr);
  REQUIRE(At(b, 0) == 8);
  REQUIRE(!DeviceAPI::Get(DLDevice{kDLMetal, 0}, true));
  REQUIRE(Has(Thrown([] { DeviceAPI::Get(DLDevice{kDLMetal, 0}); }), "device type 8"));
}

}  // namespace

void TestArrays() {
  ArraysAreMadeAndCopied();
  ViewsKeepTheMemory();
  TensorsComeAndGoThroughDLPack();
  ArraysAreCounted();
  ShapesComeInManyForms();
  ObjectRefsShareOneObject();
  ADeviceIsTheHost();
}
