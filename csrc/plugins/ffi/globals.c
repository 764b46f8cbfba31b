#include "globals.h"

#include <string.h>

#include "common.h"
#include "containers.h"

/* Functions of the runtime, under their names in tvm_ffi. */
static const struct {
  char name[32], runtime[36];
} aliases[] = {{"ffi.Array", "runtime.Array"},
               {"ffi.ArrayGetItem", "runtime.ArrayGetItem"},
               {"ffi.ArraySize", "runtime.ArraySize"},
               {"ffi.FunctionRemoveGlobal", "mblob.GlobalRemove"},
               {"ffi.Map", "runtime.Map"},
               {"ffi.MapCount", "runtime.MapCount"},
               {"ffi.MapGetItem", "runtime.MapGetItem"},
               {"ffi.MapSize", "runtime.MapSize"},
               {"ffi.Module.load_from_file.so", "runtime.ModuleLoadFromFile"},
               {"ffi.ModuleGetKind", "runtime.ModuleGetTypeKey"},
               {"ffi.ModuleImplementsFunction", "runtime.ModuleImplementsFunction"},
               {"ffi.ModuleLoadFromFile", "runtime.ModuleLoadFromFile"},
               {"ffi.Shape", "runtime.ShapeTuple"},
               {"ffi.String", "runtime.String"},
               {"ffi.SystemLib", "runtime.SystemLib"}};

/* (module, name, whether its imports are asked, too) -> a function, or nothing */
static int get_function(TVMValue *args, int *codes, int count, TVMRetValueHandle ret,
                        void *unused) {
  const mblob_host *host = mb_plugin_host();
  mblob_function *function = NULL;
  (void)unused;
  if (count != 3 || codes[0] != kTVMModuleHandle || codes[1] != kTVMStr ||
      (codes[2] != kTVMArgInt && codes[2] != kTVMArgBool))
    return mb_fail(MBLOB_E_ARGUMENT,
                   "TypeError: ffi.ModuleGetFunction: expected a module, a name"
                   " and whether its imports are asked, too"),
           -1;
  int status =
      host->module_function(args[0].v_handle, args[1].v_str, args[2].v_int64 != 0, &function);
  if (status == MBLOB_E_NOT_FOUND) return 0;
  if (!status)
    status = host->return_value(ret, (TVMValue){.v_handle = function}, kTVMPackedFuncHandle);
  if (function) host->function_release(function);
  return status ? -1 : 0;
}

/* (-1) -> how many names; (i) -> one of them */
static int list_names(TVMValue *args, int *codes, int count, TVMRetValueHandle ret, void *names) {
  TVMValue found = {.v_handle = NULL}, given[2] = {{.v_handle = names}, {.v_int64 = 0}};
  const int container[2] = {kTVMObjectHandle, kTVMArgInt};
  int code = kTVMNullptr;
  if (count != 1 || codes[0] != kTVMArgInt)
    return mb_fail(MBLOB_E_ARGUMENT, "TypeError: names of global functions: expected an int"), -1;
  given[1] = args[0];
  int status = args[0].v_int64 < 0
                   ? mb_call_global("runtime.ArraySize", given, container, 1, &found, &code)
                   : mb_call_global("runtime.ArrayGetItem", given, container, 2, &found, &code);
  if (!status) status = mb_plugin_host()->return_value(ret, found, code);
  mb_plugin_host()->value_release(found, code);
  return status ? -1 : 0;
}

static void release_names(void *names) {
  mb_plugin_host()->value_release((TVMValue){.v_handle = names}, kTVMObjectHandle);
}

/* () -> list_names over the names of now */
static int names_functor(TVMValue *args, int *codes, int count, TVMRetValueHandle ret,
                         void *unused) {
  const mblob_host *host = mb_plugin_host();
  TVMValue names = {.v_handle = NULL};
  mblob_function *function = NULL;
  int code = kTVMNullptr;
  (void)args, (void)codes, (void)count, (void)unused;
  int status = mb_call_global("mblob.GlobalNames", NULL, NULL, 0, &names, &code);
  if (!status) status = host->function_create(list_names, names.v_handle, release_names, &function);
  if (!function) host->value_release(names, code);
  if (!status)
    status = host->return_value(ret, (TVMValue){.v_handle = function}, kTVMPackedFuncHandle);
  if (function) host->function_release(function);
  return status ? -1 : 0;
}

int mb_global_of_tvm_ffi(const char *name, mblob_function **out) {
  const mblob_host *host = mb_plugin_host();
  *out = NULL;
  if (strcmp(name, "ffi.ModuleGetFunction") == 0)
    return host->function_create(get_function, NULL, NULL, out);
  if (strcmp(name, "ffi.FunctionListGlobalNamesFunctor") == 0)
    return host->function_create(names_functor, NULL, NULL, out);
  for (size_t i = 0; i < sizeof(aliases) / sizeof(*aliases); i++)
    if (strcmp(name, aliases[i].name) == 0) return host->global_function(aliases[i].runtime, out);
  return MBLOB_E_NOT_FOUND;
}
