/* mblob_executor_*: what every program does with a model, over the functions that executors
 * have. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "core/call/call.h"
#include "core/library/library.h"
#include "core/loaded/loaded.h"
#include "exec/common/storage.h"

/* A type that describes exactly one argument and takes nothing else from the arguments of
 * mblob_call. */
static int check_type(const char *who, const char *type) {
  int depth = 0;
  for (const char *p = type; *p; p++) {
    depth += (*p == '[') - (*p == ']');
    if (*p == '*' || (*p == ',' && depth == 0))
      return mb_fail(MBLOB_E_ARGUMENT, "%s: type \"%s\": expected one type, without *", who, type);
  }
  if (strcmp(type, "tensor") != 0 && !strchr(type, '['))
    return mb_fail(MBLOB_E_ARGUMENT, "%s: type \"%s\": expected DTYPE[dimensions] or tensor", who,
                   type);
  return MBLOB_OK;
}

/* "str,TYPE" or "int64,TYPE" on the heap. */
static int join_types(const char *who, const char *first, const char *type, char **out) {
  int status = check_type(who, type);
  if (!status && asprintf(out, "%s,%s", first, type) < 0) status = mb_fail_memory(strlen(type));
  return status;
}

/* ---- kinds of executors ---------------------------------------------------------------------- */

/* Virtual machines, Relay's and Relax's, have several functions, each with its inputs. They know which is
 * the model, and are given a handle of NULL for its name. */
static bool is_relax(const mblob_module *module) {
  return strcmp(mblob_module_type_key(module), "relax.VirtualMachine") == 0;
}

static bool is_machine(const mblob_module *module) {
  return is_relax(module) || strcmp(mblob_module_type_key(module), "VirtualMachine") == 0;
}

static bool makes_machines(const char *key) {
  return mb_list_has(
      MB_KEY_RELAY_EXECUTABLE "," MB_KEY_RELAX_EXECUTABLE "," MB_KEY_RELAX_EXECUTABLE_OF_0_16, key);
}

/* Call a function that gives a module. */
static int make_module(mblob_module *from, const char *name, TVMValue *args, const int *codes,
                       int count, mblob_module **out) {
  mblob_function *make = NULL;
  TVMValue made = {.v_handle = NULL};
  int code = kTVMNullptr;
  int status = mblob_module_function(from, name, 0, &make);
  if (!status) status = mblob_function_call(make, args, codes, count, &made, &code);
  mblob_function_release(make);
  if (status) return status;
  if (code == kTVMModuleHandle) {
    *out = made.v_handle;
    return MBLOB_OK;
  }
  mblob_value_release(made, code);
  return mb_fail(MBLOB_E_ARGUMENT,
                 "mblob_executor_create: '%s' of module '%s' makes no executor, but %s", name,
                 mblob_module_type_key(from), mb_type_code_name(code));
}

static int make_machine(mblob_module *executable, const char *name, int device_type, int device_id,
                        mblob_module **out) {
  const bool named =
      name && strcmp(mblob_module_type_key(executable), MB_KEY_RELAY_EXECUTABLE) != 0;
  const int code = kTVMStr;
  TVMValue arg = {.v_str = name};
  int status = make_module(executable, "vm_load_executable", &arg, &code, named, out);
  if (!status)
    status = mblob_call(*out, is_relax(*out) ? "vm_initialization" : "init", "int,int,int",
                        device_type, device_id, (int)VM_POOLED);
  if (status) {
    mblob_module_release(*out);
    *out = NULL;
  }
  return status;
}

static bool is_model(const mblob_module *module) {
  const char *key = mblob_module_type_key(module);
  return makes_machines(key) ||
         mb_list_has(MB_KEY_GRAPH_FACTORY "," MB_KEY_GRAPH_RUNTIME_FACTORY "," MB_KEY_AOT_FACTORY,
                     key);
}

/* The error about a library, or data, that a program takes for a model. */
static int no_model(mblob_module *module) {
  const char *key = mblob_module_type_key(module);
  const size_t count = mblob_module_import_count(module);
  for (size_t i = 0; i < count; i++) {
    const mblob_module *other = mblob_module_import_at(module, i);
    if (is_model(other))
      return mb_fail(MBLOB_E_NOT_FOUND, "module '%s' is no model; its import %zu ('%s') is", key, i,
                     mblob_module_type_key(other));
  }
  return mb_fail(MBLOB_E_NOT_FOUND, "module '%s' has no model", key);
}

/* Errors begin with the name of the function that the program called. */
static int of_method(int status, const char *method, const char *function) {
  if (status) mb_error_rename(method, function);
  return status;
}

/* ---- the public functions -------------------------------------------------------------------- */

int mblob_executor_create(mblob_module *factory, const char *name, int device_type, int device_id,
                          mblob_module **out) {
  if (out) *out = NULL;
  if (MB_IS_NULL(factory) || MB_IS_NULL(out)) return MBLOB_E_ARGUMENT;
  if (makes_machines(mblob_module_type_key(factory)))
    return make_machine(factory, name, device_type, device_id, out);
  TVMValue args[2] = {{.v_int64 = device_type}, {.v_int64 = device_id}};
  const int codes[2] = {kTVMArgInt, kTVMArgInt};
  const int status = make_module(factory, name ? name : "default", args, codes, 2, out);
  const bool is_other = factory->is_library || mblob_module_is_data(factory);
  return status == MBLOB_E_NOT_FOUND && is_other ? no_model(factory) : status;
}

int mblob_executor_set_input(mblob_module *executor, const char *name, const char *type,
                             const void *data) {
  char *types = NULL;
  if (MB_IS_NULL(executor) || MB_IS_NULL(name) || MB_IS_NULL(type) || MB_IS_NULL(data))
    return MBLOB_E_ARGUMENT;
  const bool machine = is_machine(executor);
  const char *method = machine ? "set_one_input" : "set_input";
  int status = join_types(__func__, machine ? "handle,str" : "str", type, &types);
  if (!status)
    status = machine ? mblob_call(executor, method, types, NULL, name, data)
                     : mblob_call(executor, method, types, name, data);
  free(types);
  return of_method(status, method, __func__);
}

int mblob_executor_run(mblob_module *executor) {
  if (MB_IS_NULL(executor)) return MBLOB_E_ARGUMENT;
  const bool machine = is_machine(executor);
  const char *method = machine ? "invoke_stateful" : "run";
  const int status = mblob_call(executor, method, machine ? "handle" : "", NULL);
  return of_method(status, method, __func__);
}

int mblob_executor_get_output(mblob_module *executor, int64_t index, const char *type, void *data) {
  char *types = NULL;
  if (MB_IS_NULL(executor) || MB_IS_NULL(type) || MB_IS_NULL(data)) return MBLOB_E_ARGUMENT;
  const bool relax = is_relax(executor);
  const char *method = relax ? "copy_output" : "get_output";
  int status = join_types(__func__, relax ? "handle,int64" : "int64", type, &types);
  if (!status)
    status = relax ? mblob_call(executor, method, types, NULL, index, data)
                   : mblob_call(executor, method, types, index, data);
  free(types);
  return of_method(status, method, __func__);
}

int mblob_executor_params(mblob_module *executor, void **out) {
  if (out) *out = NULL;
  if (MB_IS_NULL(executor) || MB_IS_NULL(out)) return MBLOB_E_ARGUMENT;
  if (!is_relax(executor))
    return mb_fail(MBLOB_E_ARGUMENT, "module '%s' is no machine of Relax",
                   mblob_module_type_key(executor));
  return mblob_call(executor, "get_params", "-> object", out);
}

int mblob_executor_count(mblob_module *executor, int end, size_t *out) {
  struct mb_executor_io ignored;
  if (out) *out = 0;
  if (MB_IS_NULL(executor) || MB_IS_NULL(out)) return MBLOB_E_ARGUMENT;
  return mb_builtin_describe(executor, end, SIZE_MAX, out, &ignored);
}

int mblob_executor_info(mblob_module *executor, int end, size_t i, mblob_tensor_info *out) {
  struct mb_executor_io found = {.name = ""};
  size_t count = 0;
  if (MB_IS_NULL(executor) || MB_IS_NULL(out)) return MBLOB_E_ARGUMENT;
  mb_tensor_describe("", NULL, out);
  int status = mb_builtin_describe(executor, end, i, &count, &found);
  if (!status && i >= count)
    status = mb_fail_argument(MB_ARGUMENT_INDEX, "no %s %zu; there are %zu",
                              end == MBLOB_OUTPUTS ? "output" : "input", i, count);
  if (status) return status;
  mb_tensor_describe(found.name, found.tensor, out);
  out->flags = found.flags;
  return MBLOB_OK;
}
