/* TVM's C API for modules and functions (tvm/runtime/c_runtime_api.h): thin over mblob.h. Handles are the
 * same objects: TVMModuleHandle is a mblob_module, TVMFunctionHandle a mblob_function. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <tvm/runtime/c_runtime_api.h>

#include "return_value.h"
#include "runtime.h"

static int result(int status) { return status ? -1 : 0; }

int TVMModLoadFromFile(const char *file_name, const char *format, TVMModuleHandle *out) {
  mblob_module *module = NULL;
  (void)format; /* the content decides */
  if (!out) return result(mb_fail(MBLOB_E_ARGUMENT, "TVMModLoadFromFile: out is NULL"));
  int status = mblob_open(file_name, NULL, &module);
  *out = module;
  return result(status);
}

int TVMModImport(TVMModuleHandle mod, TVMModuleHandle dep) { return result(mblob_module_import(mod, dep)); }

int TVMModGetFunction(TVMModuleHandle mod, const char *func_name, int query_imports, TVMFunctionHandle *out) {
  mblob_function *function = NULL;
  if (!mod || !func_name || !out)
    return result(mb_fail(MBLOB_E_ARGUMENT, "TVMModGetFunction: an argument is NULL"));
  int status = mb_module_find(mod, func_name, query_imports != 0, &function);
  *out = status ? NULL : mblob_function_retain(function);
  return result(status);
}

int TVMModFree(TVMModuleHandle mod) {
  mblob_module_release(mod);
  return 0;
}

int TVMFuncFree(TVMFunctionHandle func) {
  mblob_function_release(func);
  return 0;
}

int TVMCbArgToReturn(TVMValue *value, int *code) {
  if (!value || !code) return result(mb_fail(MBLOB_E_ARGUMENT, "TVMCbArgToReturn: an argument is NULL"));
  mb_value_retain(*value, *code);
  return 0;
}

int TVMFuncCreateFromCFunc(TVMPackedCFunc func, void *resource_handle, TVMPackedCFuncFinalizer fin,
                           TVMFunctionHandle *out) {
  mblob_function *function = NULL;
  if (!out) return result(mb_fail(MBLOB_E_ARGUMENT, "TVMFuncCreateFromCFunc: out is NULL"));
  int status = mblob_function_create(func, resource_handle, fin, &function);
  *out = function;
  return result(status);
}

/* ---- global functions ---------------------------------------------------------------------------------- */

int TVMFuncRegisterGlobal(const char *name, TVMFunctionHandle f, int override) {
  return result(mblob_register_global(name, f, override));
}

int TVMFuncGetGlobal(const char *name, TVMFunctionHandle *out) {
  mblob_function *function = NULL;
  if (!name || !out) return result(mb_fail(MBLOB_E_ARGUMENT, "TVMFuncGetGlobal: an argument is NULL"));
  int status = mb_global_get(name, &function);
  *out = function;
  return result(status);
}

int TVMFuncRemoveGlobal(const char *name) {
  if (!name) return result(mb_fail(MBLOB_E_ARGUMENT, "TVMFuncRemoveGlobal: name is NULL"));
  return result(mb_global_remove(name));
}

/* The list that the calling thread got last. */
static __thread const char **listed;
static pthread_key_t listed_key;
static pthread_once_t listed_once = PTHREAD_ONCE_INIT;

static void make_key(void) { (void)pthread_key_create(&listed_key, free); }

__attribute__((destructor)) static void process_exit(void) {
  free(listed);
  listed = NULL;
}

int TVMFuncListGlobalNames(int *out_size, const char ***out_array) {
  const char **names = NULL;
  size_t count = 0;
  if (!out_size || !out_array)
    return result(mb_fail(MBLOB_E_ARGUMENT, "TVMFuncListGlobalNames: an argument is NULL"));
  int status = mb_global_names(&names, &count);
  if (status) return result(status);
  free(listed);
  listed = names;
  (void)pthread_once(&listed_once, make_key);
  (void)pthread_setspecific(listed_key, listed);
  *out_size = (int)count;
  *out_array = names;
  return 0;
}
