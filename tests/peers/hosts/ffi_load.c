/* In the style of tvm-ffi's examples/stable_c_abi/src/load.c: a library, its function and the call by
 * the C API alone, over global functions. Argument: the library. */
#include <stdio.h>
#include <string.h>
#include <tvm/ffi/c_api.h>

static TVMFFIObjectHandle global(const char *name) {
  TVMFFIByteArray text = {name, strlen(name)};
  TVMFFIObjectHandle function = NULL;
  return TVMFFIFunctionGetGlobal(&text, &function) ? NULL : function;
}

static TVMFFIAny text(const char *chars) {
  TVMFFIAny any = {.type_index = kTVMFFIRawStr};
  any.v_c_str = chars;
  return any;
}

int main(int argc, char **argv) {
  float x[5] = {1, 2, 3, 4, 5}, y[5];
  int64_t shape[1] = {5}, strides[1] = {1};
  DLTensor from = {x, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, shape, strides, 0}, to = from;
  TVMFFIAny args[3], module = {.type_index = kTVMFFINone}, function = module, none = module;
  TVMFFIObjectHandle load = global("ffi.Module.load_from_file.so"),
                     get_function = global("ffi.ModuleGetFunction"), error = NULL;
  to.data = y;
  if (argc != 2 || !load || !get_function || global("ffi.Nobody")) return 1;
  args[0] = text(argv[1]);
  args[1] = (TVMFFIAny){.type_index = kTVMFFISmallStr};
  if (TVMFFIFunctionCall(load, args, 2, &module)) return 2;
  args[0] = module;
  args[1] = text("nobody");
  args[2] = (TVMFFIAny){.type_index = kTVMFFIBool};
  if (TVMFFIFunctionCall(get_function, args, 3, &function) || function.type_index != kTVMFFINone)
    return 3;
  args[1] = text("add_one");
  if (TVMFFIFunctionCall(get_function, args, 3, &function)) return 4;
  args[0] = args[1] = (TVMFFIAny){.type_index = kTVMFFIDLTensorPtr};
  args[0].v_ptr = &from;
  args[1].v_ptr = &to;
  if (TVMFFIFunctionCall(function.v_obj, args, 2, &none)) return 5;
  for (int i = 0; i < 5; ++i) printf("%g ", (double)y[i]);
  if (TVMFFIFunctionCall(function.v_obj, args, 1, &none) == 0) return 6;
  TVMFFIErrorMoveFromRaised(&error);
  const TVMFFIErrorCell *cell =
      (const TVMFFIErrorCell *)((const char *)error + sizeof(TVMFFIObject));
  printf("%.*s", (int)cell->kind.size, cell->kind.data);
  TVMFFIObjectDecRef(error);
  TVMFFIObjectDecRef(function.v_obj);
  TVMFFIObjectDecRef(module.v_obj);
  TVMFFIObjectDecRef(get_function);
  return TVMFFIObjectDecRef(load);
}
