/* In the style of tvm-ffi's examples/stable_c_abi/src/load.c: the library and the call by the C API
 * alone. Argument: the library, whose functions need no runtime but what is linked here. */
#include <dlfcn.h>
#include <stdio.h>
#include <tvm/ffi/c_api.h>

int main(int argc, char **argv) {
  float x[5] = {1, 2, 3, 4, 5}, y[5];
  int64_t shape[1] = {5}, strides[1] = {1};
  DLTensor from = {x, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, shape, strides, 0}, to = from;
  TVMFFIAny args[2], result;
  TVMFFIObjectHandle function = NULL, error = NULL;
  void *library = argc == 2 ? dlopen(argv[1], RTLD_LAZY | RTLD_LOCAL) : NULL;
  if (!library) return puts(dlerror()), 1;
  union {
    void *address;
    TVMFFISafeCallType call;
  } add_one = {dlsym(library, "__tvm_ffi_add_one")};
  to.data = y;
  args[0].type_index = args[1].type_index = kTVMFFIDLTensorPtr;
  args[0].zero_padding = args[1].zero_padding = 0;
  args[0].v_ptr = &from;
  args[1].v_ptr = &to;
  result.type_index = kTVMFFINone;
  result.zero_padding = 0;
  if (!add_one.address || TVMFFIFunctionCreate(NULL, add_one.call, NULL, &function) ||
      TVMFFIFunctionCall(function, args, 2, &result))
    return 1;
  for (int i = 0; i < 5; ++i) printf("%g ", (double)y[i]);
  if (TVMFFIFunctionCall(function, args, 1, &result) == 0) return 1;
  TVMFFIErrorMoveFromRaised(&error);
  const TVMFFIErrorCell *cell =
      (const TVMFFIErrorCell *)((const char *)error + sizeof(TVMFFIObject));
  printf("%.*s", (int)cell->kind.size, cell->kind.data);
  TVMFFIObjectDecRef(error);
  return TVMFFIObjectDecRef(function);
}
