/* Builtins that make closures, and those that call functions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/relax/machine.h"

static mblob_function *function_at(const struct mb_call *call, int i) {
  return i < call->count && call->codes[i] == kTVMPackedFuncHandle ? call->args[i].v_handle : NULL;
}

/* (closure, values...): the values stand behind its arguments, in front of those bound before. */
static int make_closure(void *unused, struct mb_call *call) {
  (void)unused;
  const struct relax_closure *inner = relax_closure_of(function_at(call, 0));
  if (!inner || !inner->link->machine) return relax_mismatch(call, 0, "relax.vm.Closure");
  struct relax_machine *m = inner->link->machine;
  const size_t count = (size_t)call->count - 1 + inner->count;
  struct relax_value *bound = mb_block_take((count + 1) * sizeof(*bound));
  mblob_function *made = NULL;
  if (!bound) return mb_fail_memory(count * sizeof(*bound));
  size_t i = 0;
  int status = MBLOB_OK;
  for (; !status && i + 1 < (size_t)call->count; i++)
    status = relax_take(m, call->args[i + 1], call->codes[i + 1], &bound[i], NULL);
  const size_t own = i;
  for (size_t k = 0; !status && k < inner->count; k++) bound[i++] = inner->bound[k];
  if (!status) status = relax_closure_new(m, inner->function, bound, count, false, &made);
  for (size_t k = 0; k < own; k++) relax_clear(&bound[k]);
  mb_block_give(bound, (count + 1) * sizeof(*bound));
  if (!status) mb_call_return_function(call, made);
  return status;
}

/* Call a function that is a value; what it gives is the result of `call`. */
static int forward(mblob_function *function, const TVMValue *args, const int *codes, int count,
                   struct mb_call *call) {
  TVMValue ret = {.v_int64 = 0};
  int ret_code = kTVMNullptr;
  int status = mblob_function_call(function, args, codes, count, &ret, &ret_code);
  if (!status && (ret_code == kTVMStr || ret_code == kTVMBytes))
    return mb_return_set(call->result, ret, ret_code);
  if (!status) status = mb_value_keep_aligned(&ret, ret_code);
  if (!status) relax_return(call, ret, ret_code);
  return status;
}

/* Room for so many arguments; their codes lie behind them. */
static int take_row(size_t count, TVMValue **args, int **codes) {
  if (count > INT16_MAX)
    return mb_fail(MBLOB_E_KERNEL, "InternalError: %zu arguments, at most 32767 can be passed",
                   count);
  *args = mb_block_take(count * (sizeof(**args) + sizeof(**codes)));
  if (!*args) return mb_fail_memory(count * sizeof(**args));
  *codes = (int *)(*args + count);
  return MBLOB_OK;
}

/* The same as `forward`, and the room is given back. */
static int forward_row(mblob_function *function, TVMValue *args, const int *codes, size_t count,
                       struct mb_call *call) {
  int status = forward(function, args, codes, (int)count, call);
  mb_block_give(args, count * (sizeof(*args) + sizeof(*codes)));
  return status;
}

/* (machine, function, args...) */
int relax_invoke_closure(void *unused, struct mb_call *call) {
  (void)unused;
  struct relax_machine *m = NULL;
  int status = relax_context(call, &m);
  mblob_function *function = status ? NULL : function_at(call, 1);
  if (!status && !function)
    status = mb_fail(MBLOB_E_KERNEL,
                     "InternalError: Function expects a closure or ffi::Function, found %s",
                     call->count > 1 ? relax_key(call->args[1], call->codes[1]) : "nothing");
  return status ? status
                : forward(function, call->args + 2, call->codes + 2, call->count - 2, call);
}

/* (function, tensors..., shape): the dimensions become arguments. */
static int call_tir_dyn(void *unused, struct mb_call *call) {
  (void)unused;
  struct mb_object *shape = NULL;
  mblob_function *function = function_at(call, 0);
  if (!function) return relax_mismatch(call, 0, "ffi.Function");
  TVMValue *args = NULL;
  int *codes = NULL, status = relax_shape(call, call->count - 1, &shape);
  if (status) return status;
  const size_t tensors = call->count > 2 ? (size_t)call->count - 2 : 0,
               count = tensors + mb_object_count(shape);
  status = take_row(count, &args, &codes);
  if (status) return status;
  const bool borrows = mblob_function_argument_mode(function) == MBLOB_ARGUMENTS_FFI;
  for (size_t i = 0; i < tensors; i++) {
    args[i] = call->args[i + 1];
    codes[i] = call->codes[i + 1];
    if (borrows && codes[i] == kTVMNDArrayHandle) codes[i] = kTVMDLTensorHandle;
  }
  for (size_t i = tensors; i < count; i++) { /* kTVMArgInt is 0 */
    args[i].v_int64 = mb_object_item(shape, i - tensors)->value.v_int64;
    codes[i] = kTVMArgInt;
  }
  return forward_row(function, args, codes, count, call);
}

/* (None, name of a global function, text of a line, args...) */
static int invoke_debug_func(void *unused, struct mb_call *call) {
  (void)unused;
  const char *name = NULL;
  mblob_function *function = NULL;
  if (call->count < 3) return relax_expect(call, 3);
  int status = relax_name(call, 1, &name);
  if (!status) status = mb_global_get(name, &function);
  if (!status && !function)
    status = mb_fail(MBLOB_E_KERNEL,
                     "ValueError: %s is not found. Use the decorator `@register_func(\"%s\")` to "
                     "register it.",
                     name, name);
  if (!status)
    status =
        mblob_function_call(function, call->args + 2, call->codes + 2, call->count - 2, NULL, NULL);
  mblob_function_release(function);
  return status;
}

static int call_with_items(mblob_function *function, const struct mb_object *array,
                           struct mb_call *call) {
  const size_t count = array ? mb_object_count(array) : 0;
  TVMValue *args = NULL;
  int *codes = NULL, status = take_row(count, &args, &codes);
  if (status) return status;
  for (size_t i = 0; i < count; i++) {
    args[i] = mb_object_value(array, i);
    codes[i] = mb_object_item(array, i)->code;
  }
  return forward_row(function, args, codes, count, call);
}

/* (machine, closure, tuple of arguments, id [, shape]): nothing is captured, the closure runs. */
static int run_or_capture(void *unused, struct mb_call *call) {
  (void)unused;
  struct relax_machine *m = NULL;
  struct mb_object *array = NULL;
  int status = call->count == 4 || call->count == 5 ? MBLOB_OK : relax_expect(call, 4);
  if (!status) status = relax_context(call, &m);
  if (!status && !function_at(call, 1)) status = relax_mismatch(call, 1, "relax.vm.Closure");
  if (!status) status = relax_array(call, 2, &array);
  return status ? status : call_with_items(function_at(call, 1), array, call);
}

/* (machine, closure, id): what it allocates, each time anew. */
static int get_cached_alloc(void *unused, struct mb_call *call) {
  (void)unused;
  struct relax_machine *m = NULL;
  int status = relax_expect(call, 3);
  if (!status) status = relax_context(call, &m);
  if (!status && !function_at(call, 1)) status = relax_mismatch(call, 1, "relax.vm.Closure");
  return status ? status : call_with_items(function_at(call, 1), NULL, call);
}

/* ---- functions of Python ----------------------------------------------------------------------- */

#define PY_FUNC "vm.py_func." /* in front of their names, in the registry */

static int py_name(const struct mb_call *call, char name[256]) {
  const char *text = NULL;
  int status = relax_name(call, 0, &text);
  if (status || snprintf(name, 256, PY_FUNC "%s", text) < 256) return status;
  return mb_fail(MBLOB_E_KERNEL, "ValueError: a name of %zu bytes is too long", strlen(text));
}

/* (name, function) */
static int register_py_func(void *unused, struct mb_call *call) {
  (void)unused;
  char name[256];
  int status = relax_expect(call, 2);
  if (!status) status = py_name(call, name);
  if (!status && !function_at(call, 1)) status = relax_mismatch(call, 1, "ffi.Function");
  return status ? status : mb_global_register(name, function_at(call, 1), true);
}

static int find_py_func(const struct mb_call *call, mblob_function **out) {
  char name[256];
  *out = NULL;
  int status = py_name(call, name);
  if (!status) status = mb_global_get(name, out);
  if (!status && !*out)
    status = mb_fail(MBLOB_E_KERNEL, "InternalError: Python function '%s' not found in registry",
                     name + sizeof(PY_FUNC) - 1);
  return status;
}

/* (name) */
static int get_py_func(void *unused, struct mb_call *call) {
  (void)unused;
  mblob_function *function = NULL;
  int status = relax_expect(call, 1);
  if (!status) status = find_py_func(call, &function);
  if (!status) mb_call_return_function(call, function);
  return status;
}

/* (name, tuple of arguments) */
static int call_py_func(void *unused, struct mb_call *call) {
  (void)unused;
  mblob_function *function = NULL;
  struct mb_object *array = NULL;
  int status = relax_expect(call, 2);
  if (!status) status = relax_array(call, 1, &array);
  if (!status) status = find_py_func(call, &function);
  if (!status) status = call_with_items(function, array, call);
  mblob_function_release(function);
  return status;
}

static int clear_py_funcs(void *unused, struct mb_call *call) {
  (void)unused;
  const char **names = NULL;
  size_t count = 0;
  int status = relax_expect(call, 0);
  if (!status) status = mb_global_names(&names, &count);
  for (size_t i = 0; !status && i < count; i++)
    if (strncmp(names[i], PY_FUNC, sizeof(PY_FUNC) - 1) == 0) (void)mb_global_remove(names[i]);
  free(names);
  return status;
}

const struct mb_method relax_closure_functions[] = {
    {"vm.builtin.register_py_func", register_py_func},
    {"vm.builtin.get_py_func", get_py_func},
    {"vm.builtin.call_py_func", call_py_func},
    {"vm.builtin.clear_py_func_registry", clear_py_funcs},
    {"vm.builtin.make_closure", make_closure},
    {"vm.builtin.invoke_closure", relax_invoke_closure},
    {"vm.builtin.call_tir_dyn", call_tir_dyn},
    {"vm.builtin.invoke_debug_func", invoke_debug_func},
    {"vm.builtin.cuda_graph.run_or_capture", run_or_capture},
    {"vm.builtin.cuda_graph.get_cached_alloc", get_cached_alloc},
    {"", NULL}};
