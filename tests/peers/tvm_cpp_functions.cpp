// packed_func_test and ndarray_test of TVM 0.14, in words of our own.
#include <tvm/runtime/container/array.h>
#include <tvm/runtime/packed_func.h>
#include <tvm/runtime/registry.h>

#include <functional>

#include "cases.h"

using namespace tvm::runtime;

namespace {
NDArray Scalar() { return NDArray::Empty({}, String2DLDataType("float32"), Device{kDLCPU, 0}); }
DLTensor Tensor(int64_t *shape, int64_t *strides) {
  DLTensor t = {};
  t.dtype = String2DLDataType("float32");
  t.shape = shape;
  t.strides = strides;
  t.ndim = 3;
  return t;
}
}  // namespace

CASE(PackedFunc, Basic) {
  int x = 0;
  DLTensor a = {};
  const String name = PackedFunc([&](TVMArgs args, TVMRetValue *rv) {
    EXPECT(args.num_args == 3 && args.values[0].v_float64 == 1.0);
    EXPECT(args.type_codes[0] == kTVMArgFloat && args.values[1].v_handle == &a);
    EXPECT(args.type_codes[1] == kTVMDLTensorHandle && args.values[2].v_handle == &x);
    EXPECT(args.type_codes[2] == kTVMOpaqueHandle);
    *rv = String("a");
  })(1.0, &a, static_cast<void *>(&x));
  EXPECT(name == "a");
}

CASE(PackedFunc, NDArray) {
  const NDArray x = Scalar();
  static_cast<float *>(x->data)[0] = 10.0f;
  EXPECT(x.use_count() == 1);
  const PackedFunc forward([](TVMArgs args, TVMRetValue *rv) { *rv = args[0]; });
  const NDArray back = PackedFunc([&](TVMArgs args, TVMRetValue *rv) {
    const NDArray y = args[0];
    DLTensor *tensor = args[0];
    EXPECT(tensor == x.operator->() && x.same_as(y) && x.use_count() == 2);
    *rv = forward(y);
  })(x);
  EXPECT(back.use_count() == 2 && back.same_as(x));
}

CASE(PackedFunc, str) {
  const std::string back = PackedFunc([](TVMArgs args, TVMRetValue *rv) {
    EXPECT(args.num_args == 1);
    const std::string x = args[0];
    const String y = args[0];
    EXPECT(x == "hello" && y == "hello");
    *rv = x;
  })("hello");
  EXPECT(back == "hello");
  PackedFunc([](TVMArgs args, TVMRetValue *) {
    const String s = args[0];
    EXPECT(args.num_args == 1 && s == "hello");
  })(String("hello"));
}

CASE(PackedFunc, func) {
  const PackedFunc next([](TVMArgs args, TVMRetValue *rv) { *rv = args[0].operator int() + 1; });
  const int two = PackedFunc([](TVMArgs args, TVMRetValue *rv) {
    const PackedFunc f = args[0];
    *rv = f(args[1]).operator int();
  })(next, 1);
  EXPECT(two == 2);
  EXPECT(PackedFunc([](TVMArgs args, TVMRetValue *rv) { *rv = args[1]; })(2, 100).operator int() ==
         100);
  const int last = PackedFunc([&](TVMArgs args, TVMRetValue *rv) {
    *rv = args[0];
    *rv = next(args[0].operator PackedFunc()(args[1], 1));
  })(next, 100);
  EXPECT(last == 102);
}

CASE(PackedFunc, Type) {
  const PackedFunc parsed([](TVMArgs args, TVMRetValue *rv) {
    const DataType type = args[0];
    *rv = type;
  });
  const PackedFunc given([](TVMArgs args, TVMRetValue *rv) { *rv = args[0]; });
  EXPECT(parsed("int32").operator DataType() == DataType::Int(32));
  EXPECT(parsed("float").operator DataType() == DataType::Float(32));
  EXPECT(given("float32x2").operator DataType() == DataType::Float(32, 2));
}

CASE(PackedFunc, AsTVMRetValue) {
  const ObjectRef object =
      PackedFunc([](TVMArgs args, TVMRetValue *rv) { *rv = args[0].operator int() + 1; });
  TVMRetValue value;
  value = object;
  EXPECT(value.operator PackedFunc()(1).operator int() == 2);
}

CASE(PackedFunc, ObjectConversion) {
  TVMRetValue rv;
  const NDArray x = Scalar();
  rv = ObjectRef();
  EXPECT(rv.type_code() == kTVMNullptr);
  rv = x;
  EXPECT(rv.type_code() == kTVMNDArrayHandle);
  rv = ObjectRef(x);
  EXPECT(rv.type_code() == kTVMNDArrayHandle);
  EXPECT(rv.operator NDArray().same_as(x) && rv.operator ObjectRef().same_as(x));
  EXPECT(!rv.IsObjectRef<Module>());
  const PackedFunc see([&](TVMArgs args, TVMRetValue *) {
    EXPECT(args[0].type_code() == kTVMNDArrayHandle && args[0].operator NDArray().same_as(x));
    EXPECT(args[0].operator ObjectRef().same_as(x));
    EXPECT(args[1].operator ObjectRef().get() == nullptr);
    EXPECT(args[1].operator NDArray().get() == nullptr);
    EXPECT(args[1].operator Module().get() == nullptr);
    EXPECT(args[1].operator Array<NDArray>().get() == nullptr);
    EXPECT(!args[0].IsObjectRef<PackedFunc>());
  });
  see(x, ObjectRef());
  see(ObjectRef(x), NDArray());
  const Module m = (*Registry::Get("runtime.SystemLib"))();
  rv = m;
  EXPECT(rv.type_code() == kTVMModuleHandle && rv.operator Module().same_as(m));
  rv = ObjectRef(m);
  EXPECT(rv.type_code() == kTVMModuleHandle && rv.operator ObjectRef().same_as(m));
  EXPECT(!rv.IsObjectRef<NDArray>());
}

CASE(TypedPackedFunc, HighOrder) {
  using Int1 = TypedPackedFunc<int(int)>;
  using Int2 = TypedPackedFunc<int(int, int)>;
  TypedPackedFunc<Int1(Int2, int)> bind;
  bind = [](Int2 f, int value) -> Int1 { return Int1([f, value](int x) { return f(value, x); }); };
  const auto add = [](int x, int y) { return x + y; };
  EXPECT(bind(Int2(add), 1)(2) == 3);
  const PackedFunc erased = bind(Int2(add), 1);
  EXPECT(erased(3).operator int() == 4);
  Int1 typed;
  typed = bind.packed()(Int2(add), 1);
  EXPECT(typed(3) == 4);
}

CASE(TypedPackedFunc, Deduce) {
  using tvm::runtime::detail::function_signature;
  TypedPackedFunc<int(float)> typed;
  const auto lambda = [](int x) -> int { return x + 1; };
  std::function<void(float)> function;
  static_assert(std::is_same_v<function_signature<decltype(typed)>::FType, int(float)>);
  static_assert(std::is_same_v<function_signature<decltype(lambda)>::FType, int(int)>);
  static_assert(std::is_same_v<function_signature<decltype(function)>::FType, void(float)>);
}

CASE(NDArrayTest, IsContiguous_ContiguousStride) {
  int64_t shape[] = {10, 12, 24}, strides[] = {12 * 24, 24, 1};
  EXPECT(IsContiguous(Tensor(shape, strides)));
}
CASE(NDArrayTest, IsContiguous_NullStride) {
  int64_t shape[] = {10, 12, 24};
  EXPECT(IsContiguous(Tensor(shape, nullptr)));
}
CASE(NDArrayTest, IsContiguous_AnyStrideForSingular) {
  int64_t shape[] = {5, 1, 10}, strides[] = {10, 4, 1};
  EXPECT(IsContiguous(Tensor(shape, strides)));
}
CASE(NDArrayTest, IsContiguous_UncontiguousStride) {
  int64_t shape[] = {5, 1, 10}, strides[] = {11, 1, 1};
  EXPECT(!IsContiguous(Tensor(shape, strides)));
}
