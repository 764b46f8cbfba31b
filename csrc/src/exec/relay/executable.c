/* Modules of the key VMExecutable: a program of the Relay virtual machine, and machines that run
 * it. */
#define _GNU_SOURCE
#include "exec/relay/executable.h"
#include "exec/relay/relay.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "exec/common/common.h"
#include "exec/relay/machine.h"

const struct vm_function *vm_function_find(const struct vm_executable *exec, const char *name) {
  const struct vm_function *found = mb_map_get(&exec->by_name, name);
  const struct mb_names names = {"function", (const char *const *)exec->globals.names,
                                 exec->globals.count};
  if (!found) (void)mb_names_unknown(&names, &(struct mb_name){name, -1});
  return found;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void close_vm_executable(void *object) {
  struct vm_executable *exec = object;
  for (size_t i = 0; i < exec->constant_count; i++) mb_stored_array_clear(&exec->constants[i]);
  vm_executable_free(exec);
  free(exec->owned);
  free(exec->rewritten);
  mb_lock_destroy(&exec->lock);
  free(exec);
}

static int read_executable(const void *code, uint64_t size, int64_t entry,
                           struct vm_executable **out) {
  *out = calloc(1, sizeof(**out));
  if (!*out) return mb_fail_memory(sizeof(**out));
  mb_lock_init(&(*out)->lock);
  int status = vm_executable_read(*out, code, size, entry);
  for (size_t i = 0; !status && i < (*out)->constant_count; i++)
    if (!(*out)->constants[i].name) status = mb_stored_array_align(&(*out)->constants[i]);
  if (!status) return MBLOB_OK;
  close_vm_executable(*out);
  *out = NULL;
  return status;
}

/* The payload is one string: the code. */
static int open_vm_executable(const mblob_module_info *info, void **object) {
  struct mb_cursor c = {info->payload, 0, info->payload_size, (int64_t)info->index};
  struct mb_slice code;
  struct vm_executable *exec = NULL;
  bool ok = mb_read_string(&c, &code, "code");
  int status = ok ? read_executable(code.data, code.size, (int64_t)info->index, &exec)
                  : mblob_last_error_info()->status;
  if (status) {
    mb_error_prefix(info->type_key);
    return status;
  }
  exec->module = info->module;
  *object = exec;
  return MBLOB_OK;
}

static int load_executable(const struct mb_call *call, mblob_module **out) {
  const void *code = NULL;
  size_t size = 0;
  mblob_module *library = NULL;
  struct vm_executable *exec = NULL;
  int status = mb_call_expect(call, 1, 2);
  if (!status) status = mb_call_bytes(call, 0, &code, &size);
  if (!status && call->count == 2 && call->codes[1] != kTVMNullptr)
    status = mb_call_module(call, 1, &library);
  if (status) return status;
  void *copy = malloc(size ? size : 1);
  if (!copy) return mb_fail_memory(size);
  if (size) memcpy(copy, code, size);
  status = read_executable(copy, size, MB_UNKNOWN, &exec);
  if (status) {
    free(copy);
    return status;
  }
  exec->owned = copy;
  status = mb_builtin_create(&mb_vm_executable_class, exec, out);
  if (status) {
    close_vm_executable(exec);
    return status;
  }
  exec->module = *out;
  status = library ? mblob_module_import(*out, library) : MBLOB_OK;
  if (status) mblob_module_release(*out);
  return status;
}

int mb_vm_load_executable(TVMValue *args, int *codes, int count, TVMRetValueHandle ret,
                          void *resource) {
  struct mb_call call = {.method = "runtime.Load_Executable",
                         .args = args,
                         .codes = codes,
                         .count = count,
                         .result = ret};
  mblob_module *module = NULL;
  (void)resource;
  int status = load_executable(&call, &module);
  if (status)
    mb_error_prefix(call.method);
  else
    mb_call_return_module(&call, module);
  return status;
}

/* ---- methods --------------------------------------------------------------------------------- */

static int vm_load_executable(void *object, struct mb_call *call) {
  struct vm_executable *exec = object;
  mblob_module *machine = NULL;
  int status = mb_call_expect(call, 0, 0);
  if (!status) status = vm_machine_create(exec, &machine);
  if (!status) mb_call_return_module(call, machine);
  return status;
}

static int get_lib(void *object, struct mb_call *call) {
  const struct vm_executable *exec = object;
  mblob_module *library = mblob_module_import_at(exec->module, 0);
  int status = mb_call_expect(call, 0, 0);
  if (!status && library) mb_call_return_module(call, mblob_module_retain(library));
  return status;
}

static int save(void *object, struct mb_call *call) {
  struct vm_executable *exec = object;
  int status = mb_call_expect(call, 0, 0);
  if (status) return status;
  mb_lock(&exec->lock);
  TVMByteArray code = {(const char *)exec->code, (size_t)exec->code_size};
  status = mb_return_set(call->result, (TVMValue){.v_handle = &code}, kTVMBytes);
  mb_unlock(&exec->lock);
  return status;
}

static int executable_function_argument(const struct vm_executable *exec,
                                        const struct mb_call *call,
                                        const struct vm_function **out) {
  const char *name = NULL;
  int status = mb_call_text(call, 0, &name);
  if (status) return status;
  *out = vm_function_find(exec, name);
  return *out ? MBLOB_OK : mblob_last_error_info()->status;
}

static int vm_get_function_arity(void *object, struct mb_call *call) {
  const struct vm_function *function = NULL;
  int status = executable_function_argument(object, call, &function);
  if (!status) mb_call_return_int(call, (int64_t)function->param_count);
  return status;
}

static int vm_get_function_param_name(void *object, struct mb_call *call) {
  const struct vm_function *function = NULL;
  int64_t i = 0;
  int status = executable_function_argument(object, call, &function);
  if (!status) status = mb_call_int(call, 1, &i);
  if (status) return status;
  if (i < 0 || (uint64_t)i >= function->param_count)
    return mb_fail_argument(MB_ARGUMENT_INDEX, "function '%s' has no parameter %lld; it has %zu",
                            function->name, (long long)i, function->param_count);
  return mb_call_return_text(call, function->params[i]);
}

/* The text, which is freed; NULL after an error. */
static int return_name_list(struct mb_call *call, char *text) {
  int status = text ? mb_call_return_text(call, text) : mblob_last_error_info()->status;
  free(text);
  return status;
}

static int get_bytecode(void *object, struct mb_call *call) {
  return return_name_list(call, vm_list_bytecode(object));
}
static int get_stats(void *object, struct mb_call *call) {
  return return_name_list(call, vm_list_stats(object));
}
static int get_constants(void *object, struct mb_call *call) {
  return return_name_list(call, vm_list_constants(object));
}
static int get_primitives(void *object, struct mb_call *call) {
  return return_name_list(call, vm_list_primitives(object));
}
static int get_virtual_devices(void *object, struct mb_call *call) {
  return return_name_list(call, vm_list_devices(object));
}

/* Names of functions, or of primitives, one per line. */
static int return_names(const struct vm_names *names, struct mb_call *call) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return mb_fail_memory(0);
  for (size_t i = 0; i < names->count; i++)
    (void)fprintf(out, "%s%s", i ? "\n" : "", names->names[i]);
  return mb_call_return_stream(call, out, &text, &size);
}

static int vm_get_function_names(void *object, struct mb_call *call) {
  return return_names(&((struct vm_executable *)object)->globals, call);
}

static int get_primitive_names(void *object, struct mb_call *call) {
  return return_names(&((struct vm_executable *)object)->primitives, call);
}

static const struct mb_method vm_methods[] = {
    {"vm_load_executable", vm_load_executable},
    {"load_late_bound_consts", vm_bind_late_constants},
    {"load_late_bound_consts_from_map", vm_load_late_bound_consts_from_map},
    {"move_late_bound_consts", vm_move_late_bound_consts},
    {"get_late_bound_consts", vm_get_late_bound_consts},
    {"get_lib", get_lib},
    {"save", save},
    {"get_function_arity", vm_get_function_arity},
    {"get_function_param_name", vm_get_function_param_name},
    {"get_bytecode", get_bytecode},
    {"get_stats", get_stats},
    {"get_constants", get_constants},
    {"get_primitives", get_primitives},
    {"get_virtual_devices", get_virtual_devices},
    {"get_function_names", vm_get_function_names},
    {"get_primitive_names", get_primitive_names},
    {"", NULL}};

const struct mb_class mb_vm_executable_class = {.type_key = MB_KEY_RELAY_EXECUTABLE,
                                                .methods = vm_methods,
                                                .open = open_vm_executable,
                                                .close = close_vm_executable};
