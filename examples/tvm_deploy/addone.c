/* y = x + 1 for tensors of any size, as a packed function of TVM: build lib.so of it as
 * ../README.md shows. */
#include <tvm/runtime/c_backend_api.h>

static int64_t elements(const DLTensor *t) {
  int64_t count = 1;
  for (int32_t i = 0; i < t->ndim; ++i) count *= t->shape[i];
  return count;
}

static int is_float_vector(const TVMValue *args, const int *codes, int i) {
  const DLTensor *t = args[i].v_handle;
  return (codes[i] == kTVMDLTensorHandle || codes[i] == kTVMNDArrayHandle) &&
         t->dtype.code == kDLFloat && t->dtype.bits == 32 && t->dtype.lanes == 1 && !t->strides;
}

TVM_DLL int addone(TVMValue *args, int *type_codes, int num_args, TVMValue *ret, int *ret_code,
                   void *resource);

int addone(TVMValue *args, int *type_codes, int num_args, TVMValue *ret, int *ret_code,
           void *resource) {
  (void)ret, (void)ret_code, (void)resource;
  if (num_args != 2 || !is_float_vector(args, type_codes, 0) ||
      !is_float_vector(args, type_codes, 1)) {
    TVMAPISetLastError("addone: expected two compact float32 tensors");
    return -1;
  }
  const DLTensor *x = args[0].v_handle, *y = args[1].v_handle;
  if (elements(x) != elements(y)) {
    TVMAPISetLastError("addone: x and y differ in size");
    return -1;
  }
  const float *from = (const float *)((const char *)x->data + x->byte_offset);
  float *to = (float *)((char *)y->data + y->byte_offset);
  for (int64_t i = 0; i < elements(x); ++i) to[i] = from[i] + 1.0f;
  return 0;
}
