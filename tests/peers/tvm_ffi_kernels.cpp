// Kernels in the style of those that tvm_ffi's own tests compile, over the headers of apache-tvm-ffi.
#define TVM_FFI_DLL_EXPORT_INCLUDE_METADATA 1
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/string.h>

namespace ffi = tvm::ffi;

static void fill(const ffi::TensorView &x, const ffi::TensorView &y, float step) {
  if (x.ndim() != 1 || y.ndim() != 1 || x.size(0) != y.size(0))
    TVM_FFI_THROW(ValueError) << "expected two vectors of one size";
  const float *from = static_cast<const float *>(x.data_ptr());
  float *to = static_cast<float *>(y.data_ptr());
  for (int64_t i = 0; i < x.size(0); ++i) to[i] = from[i] + step;
}

static void add_one(ffi::TensorView x, ffi::TensorView y) { fill(x, y, 1); }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(add_one, add_one);
TVM_FFI_DLL_EXPORT_TYPED_FUNC_DOC(add_one, "Writes x + 1 to y.");

static ffi::Tensor return_add_one(ffi::TensorView x) {
  ffi::Tensor made =
      ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, x.shape(), x.dtype(), x.device());
  fill(x, made, 1);
  return made;
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(return_add_one, return_add_one);

static int64_t sum(ffi::Array<int64_t> row) {
  int64_t all = 0;
  for (int64_t item : row) all += item;
  return all;
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(sum, sum);
