/* TVM's C API for modules and functions (tvm/runtime/c_runtime_api.h): thin over mblob.h. Handles are the
 * same objects: TVMModuleHandle is a mblob_module, TVMFunctionHandle a mblob_function. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <tvm/runtime/c_runtime_api.h>

#include "core/argument.h"
#include "core/return_value.h"
#include "core/runtime.h"

static int result(int status) { return status ? -1 : 0; }

int TVMModLoadFromFile(const char *file_name, const char *format, TVMModuleHandle *out) {
  mblob_module *module = NULL;
  (void)format; /* the content decides */
  if (MB_IS_NULL(out)) return -1;
  *out = NULL;
  if (MB_IS_NULL(file_name)) return -1;
  int status = mblob_open(file_name, NULL, &module);
  *out = module;
  return result(status);
}

int TVMModImport(TVMModuleHandle mod, TVMModuleHandle dep) {
  if (MB_NO_MODULE(mod) || MB_NO_MODULE(dep)) return -1;
  return result(mblob_module_import(mod, dep));
}

int TVMModGetFunction(TVMModuleHandle mod, const char *func_name, int query_imports, TVMFunctionHandle *out) {
  mblob_function *function = NULL;
  if (MB_IS_NULL(out)) return -1;
  *out = NULL;
  if (MB_NO_MODULE(mod) || MB_IS_NULL(func_name)) return -1;
  int status = mb_module_find(mod, func_name, query_imports ? MB_WITH_IMPORTS : MB_ITSELF, &function);
  *out = status ? NULL : mblob_function_retain(function);
  return result(status);
}

int TVMModFree(TVMModuleHandle mod) {
  if (mod && MB_NO_MODULE(mod)) return -1;
  mblob_module_release(mod);
  return 0;
}

int TVMFuncFree(TVMFunctionHandle func) {
  if (func && MB_NO_FUNCTION(func)) return -1;
  mblob_function_release(func);
  return 0;
}

int TVMCbArgToReturn(TVMValue *value, int *code) {
  if (MB_IS_NULL(value) || MB_IS_NULL(code)) return -1;
  mb_value_retain(*value, *code);
  return 0;
}

int TVMFuncCreateFromCFunc(TVMPackedCFunc func, void *resource_handle, TVMPackedCFuncFinalizer fin,
                           TVMFunctionHandle *out) {
  mblob_function *function = NULL;
  if (MB_IS_NULL(out)) return -1;
  *out = NULL;
  if (mb_is_null(__func__, "func", (const void *)(uintptr_t)func)) return -1;
  int status = mblob_function_create(func, resource_handle, fin, &function);
  *out = function;
  return result(status);
}

/* ---- global functions ---------------------------------------------------------------------------------- */

int TVMFuncRegisterGlobal(const char *name, TVMFunctionHandle f, int override) {
  if (MB_IS_NULL(name) || MB_NO_FUNCTION(f)) return -1;
  return result(mblob_register_global(name, f, override));
}

int TVMFuncGetGlobal(const char *name, TVMFunctionHandle *out) {
  mblob_function *function = NULL;
  if (MB_IS_NULL(out)) return -1;
  *out = NULL;
  if (MB_IS_NULL(name)) return -1;
  int status = mb_global_get(name, &function);
  *out = function;
  return result(status);
}

int TVMFuncRemoveGlobal(const char *name) {
  if (MB_IS_NULL(name)) return -1;
  return result(mb_global_remove(name));
}

/* The list that the calling thread got last. */
static __thread const char **listed;
static struct mb_thread_end at_end = MB_THREAD_END(free);

__attribute__((destructor)) static void process_exit(void) {
  free(listed);
  listed = NULL;
}

int TVMFuncListGlobalNames(int *out_size, const char ***out_array) {
  const char **names = NULL;
  size_t count = 0;
  if (MB_IS_NULL(out_size) || MB_IS_NULL(out_array)) return -1;
  int status = mb_global_names(&names, &count);
  if (status) return result(status);
  free(listed);
  listed = names;
  mb_thread_end_set(&at_end, listed);
  *out_size = (int)count;
  *out_array = names;
  return 0;
}
