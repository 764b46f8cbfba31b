/* In the style of rust/tvm-rt: objects of the runtime by their counted handles, and modules that import
 * one another. Arguments: the kernel's library, the model's library. */
#include <stdio.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>

#define OK(call) \
  if (call) return printf("%d: %s\n", __LINE__, TVMGetLastError()), 1

static int global(const char *name, TVMValue *args, int *codes, int count, TVMValue *ret,
                  int *code) {
  TVMFunctionHandle f;
  if (TVMFuncGetGlobal(name, &f) || !f) return -1;
  int status = TVMFuncCall(f, args, codes, count, ret, code);
  TVMFuncFree(f);
  return status;
}

int main(int argc, char **argv) {
  TVMModuleHandle kernels, model;
  TVMValue args[2], ret, text;
  int codes[2], code;
  unsigned index, string_index;
  if (argc != 3) return 1;
  OK(TVMModLoadFromFile(argv[1], "so", &kernels));
  OK(TVMModLoadFromFile(argv[2], "so", &model));
  OK(TVMModImport(model, kernels));
  args[0].v_handle = model;
  codes[0] = kTVMModuleHandle;
  OK(global("runtime.ModuleImportsSize", args, codes, 1, &ret, &code));
  printf("%d ", (int)ret.v_int64);
  OK(global("runtime.ModuleGetTypeKey", args, codes, 1, &ret, &code));
  printf("%s ", code == kTVMStr ? ret.v_str : "?");

  TVMByteArray bytes = {"tensor", 6};
  args[0].v_handle = &bytes;
  codes[0] = kTVMBytes;
  OK(global("runtime.String", args, codes, 1, &text, &code));
  if (code != kTVMObjectHandle) return 1;
  OK(TVMObjectRetain(text.v_handle));
  OK(TVMObjectGetTypeIndex(text.v_handle, &index));
  OK(TVMObjectTypeKey2Index("runtime.String", &string_index));
  OK(TVMObjectFree(text.v_handle));
  args[0] = args[1] = text;
  codes[0] = codes[1] = kTVMObjectHandle;
  OK(global("runtime.Array", args, codes, 2, &ret, &code));
  args[0] = ret;
  OK(global("runtime.ArraySize", args, codes, 1, &ret, &code));
  printf("%d %d", index == string_index, (int)ret.v_int64);
  OK(TVMObjectFree(args[0].v_handle));
  OK(TVMObjectFree(text.v_handle));
  OK(TVMModFree(kernels));
  return TVMModFree(model);
}
