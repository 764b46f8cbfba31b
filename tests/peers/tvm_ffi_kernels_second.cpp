// A second source of the library of tvm_ffi_kernels.cpp.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

static void add_two(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  const float *from = static_cast<const float *>(x.data_ptr());
  for (int64_t i = 0; i < x.size(0); ++i) static_cast<float *>(y.data_ptr())[i] = from[i] + 2;
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(add_two, add_two);
