/* relax_system_host X Y : the program that is linked in under the prefix "mlp_", on float32[3,16] in
 * the file X; writes float32[3,4] to Y. */
#include <mblob.h>
#include <stdio.h>
#include <tvm/runtime/c_runtime_api.h>

static float x[48], y[12];

static int run(mblob_module *vm) {
  mblob_function *forward = NULL;
  int64_t shape[2] = {3, 16};
  DLTensor in = {.data = x, .device = {kDLCPU, 0}, .ndim = 2, .dtype = {kDLFloat, 32, 1}};
  in.shape = shape;
  const TVMValue arg = {.v_handle = &in};
  const int code = kTVMDLTensorHandle;
  TVMValue ret;
  int ret_code = 0;
  int status = mblob_module_function(vm, "forward", 0, &forward);
  if (!status) status = mblob_function_call(forward, &arg, &code, 1, &ret, &ret_code);
  mblob_function_release(forward);
  if (status) return status;
  const DLTensor *out = ret.v_handle;
  for (int i = 0; i < 12; i++) y[i] = ((const float *)out->data)[i];
  return TVMArrayFree(ret.v_handle);
}

int main(int argc, char **argv) {
  mblob_module *lib = NULL, *vm = NULL;
  FILE *file = argc == 3 ? fopen(argv[1], "rb") : NULL;
  if (!file || fread(x, sizeof(x), 1, file) != 1) return 2;
  (void)fclose(file);
  int status = mblob_system_lib("mlp_", &lib);
  if (!status) status = mblob_executor_create(lib, NULL, kDLCPU, 0, &vm);
  if (!status) status = run(vm);
  if (status) fprintf(stderr, "%s\n", mblob_last_error());
  mblob_module_release(vm);
  mblob_module_release(lib);
  file = status ? NULL : fopen(argv[2], "wb");
  return !file || fwrite(y, sizeof(y), 1, file) != 1 || fclose(file);
}
