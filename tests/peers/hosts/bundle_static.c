/* In the style of apps/bundle_deploy/demo_static.c and bundle_static.c: one C program that has the
 * kernels, over the C API of packed functions. Arguments: the graph's JSON, the parameters. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>

static char *read_all(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  char *data = NULL;
  if (!file) return NULL;
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  data = malloc(*size + 1);
  if (data && fread(data, 1, *size, file) == *size) data[*size] = 0;
  fclose(file);
  return data;
}

static void check(int status) {
  if (!status) return;
  fprintf(stderr, "%s\n", TVMGetLastError());
  exit(1);
}

static TVMValue call(TVMFunctionHandle f, TVMValue *args, int *codes, int count) {
  TVMValue ret = {0};
  int code;
  check(TVMFuncCall(f, args, codes, count, &ret, &code));
  return ret;
}

static TVMFunctionHandle method(TVMModuleHandle module, const char *name) {
  TVMFunctionHandle f = NULL;
  check(TVMModGetFunction(module, name, 0, &f));
  assert(f);
  return f;
}

int main(int argc, char **argv) {
  float x[6] = {0, 1, 2, 3, 4, 5}, y[6];
  int64_t shape[2] = {2, 3};
  size_t json_size, params_size;
  TVMFunctionHandle system_lib, create;
  assert(argc == 3);
  char *json = read_all(argv[1], &json_size), *params = read_all(argv[2], &params_size);
  check(TVMFuncGetGlobal("runtime.SystemLib", &system_lib));
  check(TVMFuncGetGlobal("tvm.graph_executor.create", &create));
  TVMValue args[4] = {{.v_str = json}, call(system_lib, NULL, NULL, 0)};
  args[2].v_int64 = kDLCPU;
  args[3].v_int64 = 0;
  int codes[4] = {kTVMStr, kTVMModuleHandle, kTVMArgInt, kTVMArgInt};
  TVMModuleHandle executor = call(create, args, codes, 4).v_handle;

  TVMByteArray bytes = {params, params_size};
  args[0].v_handle = &bytes;
  codes[0] = kTVMBytes;
  call(method(executor, "load_params"), args, codes, 1);

  DLTensor tensor = {x, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, NULL, 0};
  args[0].v_str = "x";
  args[1].v_handle = &tensor;
  codes[0] = kTVMStr;
  codes[1] = kTVMDLTensorHandle;
  call(method(executor, "set_input"), args, codes, 2);
  call(method(executor, "run"), NULL, NULL, 0);
  tensor.data = y;
  args[0].v_int64 = 0;
  codes[0] = kTVMArgInt;
  call(method(executor, "get_output"), args, codes, 2);
  for (int i = 0; i < 6; ++i) printf("%g ", (double)y[i]);
  check(TVMModFree(executor));
  free(json);
  free(params);
  return 0;
}
