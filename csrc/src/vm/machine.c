/* Modules of the key VirtualMachine: inputs and outputs of functions, and the calls. */
#define _GNU_SOURCE
#include "vm/machine.h"

#include <stdlib.h>

#include "array.h"
#include "error.h"
#include "executor/names.h"
#include "executor/tensors.h"
#include "runtime.h"
#include "vm/adt.h"

enum allocator { NAIVE = 1, POOLED = 2 }; /* TVM's numbers */

/* ---- making ---------------------------------------------------------------------------------- */

static void clear_outputs(struct vm_slots *slots) {
  while (slots->output_count) mb_array_release(slots->outputs[--slots->output_count]);
  free(slots->outputs);
  slots->outputs = NULL;
}

static void clear_inputs(struct vm_slots *slots, size_t count) {
  for (size_t i = 0; slots->values && i < count; i++) vm_value_clear(&slots->values[i]);
  free(slots->values);
  slots->values = NULL;
}

static void close_machine(void *object) {
  struct vm_machine *m = object;
  vm_value_clear(&m->result);
  for (size_t i = 0; m->slots && i < m->exec->function_count; i++) {
    clear_inputs(&m->slots[i], m->exec->functions[i].param_count);
    clear_outputs(&m->slots[i]);
  }
  for (size_t i = 0; m->constants && i < m->exec->constant_count; i++)
    if (m->constants[i]) mb_array_release(m->constants[i]);
  free(m->slots);
  free(m->constants);
  free(m->primitives);
  free(m->registers);
  free(m->frames);
  free(m->args);
  free(m->codes);
  vm_pool_close(m->pool);
  mblob_module_release(m->module);
  free(m);
}

static int find_primitive(const struct vm_executable *exec, const char *name, mblob_function **out) {
  int status = MBLOB_OK, first = MBLOB_OK;
  struct mb_saved_error error = {0};
  *out = NULL;
  for (size_t i = 0; !*out && i < mblob_module_import_count(exec->module); i++) {
    status = mb_module_find(mblob_module_import_at(exec->module, i), name, true, out);
    if (status && !first) {
      first = status;
      mb_error_save(&error);
    }
  }
  if (!*out)
    status = first
                 ? mb_error_restore(&error)
                 : mb_fail(MBLOB_E_NOT_FOUND, "no primitive function '%s' in what the program imports", name);
  if (first) mb_saved_error_free(&error);
  return *out ? MBLOB_OK : status;
}

static int fill(struct vm_machine *m) {
  const struct vm_executable *exec = m->exec;
  int status = vm_pool_new(&m->pool);
  m->slots = calloc(exec->function_count + 1, sizeof(*m->slots));
  m->constants = calloc(exec->constant_count + 1, sizeof(*m->constants));
  m->primitives = calloc(exec->primitives.count + 1, sizeof(*m->primitives));
  if (!status && (!m->slots || !m->constants || !m->primitives))
    status = mb_fail_memory(exec->constant_count * sizeof(*m->constants));
  for (size_t i = 0; !status && i < exec->primitives.count; i++)
    status = find_primitive(exec, exec->primitives.names[i], &m->primitives[i]);
  return status;
}

/* ---- devices --------------------------------------------------------------------------------- */

static int check_devices(const struct vm_executable *exec) {
  if (!exec->foreign_device) return MBLOB_OK;
  return mb_fail(MBLOB_E_INCOMPATIBLE,
                 "the program needs a device of type %d, and no runtime for it is in this process",
                 (int)exec->foreign_device);
}

/* Triples of device type, device id and kind of allocator. All memory is the host's, so they only have to
 * name it. */
static int init(struct vm_machine *m, struct mb_call *call) {
  int status =
      call->count && call->count % 3 == 0
          ? MBLOB_OK
          : mb_fail(MBLOB_E_ARGUMENT, "expected triples (device type, device id, allocator), found %d values",
                    call->count);
  bool host = false, pooled = false;
  for (int i = 0; !status && i < call->count; i += 3) {
    int64_t device[3] = {0};
    for (int k = 0; !status && k < 3; k++) status = mb_call_int(call, i + k, &device[k]);
    if (!status && device[2] != NAIVE && device[2] != POOLED)
      status =
          mb_fail(MBLOB_E_ARGUMENT, "allocator %lld, expected 1 (naive) or 2 (pooled)", (long long)device[2]);
    if (!status && device[0] == kDLCPU) {
      host = true;
      pooled = device[2] == POOLED;
    }
  }
  if (!status) status = check_devices(m->exec);
  if (!status && !host)
    status = mb_fail(MBLOB_E_INCOMPATIBLE, "none of the devices is the cpu, which runs the program");
  if (!status) vm_pool_keep(m->pool, pooled);
  return status;
}

/* ---- inputs and outputs ---------------------------------------------------------------------- */

static int function_argument(const struct vm_machine *m, const struct mb_call *call, int i, size_t *out) {
  const char *name = NULL;
  int status = mb_call_text(call, i, &name);
  if (status) return status;
  const struct vm_function *function = vm_function_find(m->exec, name);
  if (!function) return mblob_last_error_info()->status;
  *out = (size_t)(function - m->exec->functions);
  return MBLOB_OK;
}

static int need_slots(struct vm_machine *m, size_t function) {
  struct vm_slots *slots = &m->slots[function];
  size_t count = m->exec->functions[function].param_count;
  if (!slots->values) slots->values = calloc(count + 1, sizeof(*slots->values));
  return slots->values ? MBLOB_OK : mb_fail_memory(count * sizeof(*slots->values));
}

static int set_param(struct vm_machine *m, size_t function, size_t param, const struct mb_call *call, int i) {
  struct vm_value value = {.kind = VM_NOTHING};
  int status = need_slots(m, function);
  if (!status) status = vm_value_argument(call, i, &value);
  if (status)
    mb_error_prefix(m->exec->functions[function].params[param]);
  else
    vm_register_set(&m->slots[function].values[param], value);
  return status;
}

/* All parameters of a function, from argument `first` on. */
static int set_params(struct vm_machine *m, size_t function, const struct mb_call *call, int first) {
  const struct vm_function *f = &m->exec->functions[function];
  if (call->count < first || (size_t)(call->count - first) != f->param_count)
    return mb_fail(MBLOB_E_ARGUMENT, "function '%s' takes %zu arguments, found %d", f->name, f->param_count,
                   call->count - first);
  int status = MBLOB_OK;
  for (size_t i = 0; !status && i < f->param_count; i++)
    status = set_param(m, function, i, call, first + (int)i);
  return status;
}

static int set_input(struct vm_machine *m, struct mb_call *call) {
  size_t function = 0;
  int status = function_argument(m, call, 0, &function);
  return status ? status : set_params(m, function, call, 1);
}

static struct mb_names params_of(const struct vm_function *f) {
  return (struct mb_names){"input", (const char *const *)f->params, f->param_count};
}

static int set_one_input(struct vm_machine *m, struct mb_call *call) {
  size_t function = 0, param = 0;
  int status = mb_call_expect(call, 3, 3);
  if (!status) status = function_argument(m, call, 0, &function);
  if (status) return status;
  const struct mb_names names = params_of(&m->exec->functions[function]);
  status = mb_names_argument(&names, call, 1, &param);
  return status ? status : set_param(m, function, param, call, 2);
}

/* Where the results of the next call go. An array is kept, other memory must live until then. */
static int set_outputs(struct vm_machine *m, struct mb_call *call) {
  size_t function = 0;
  int status = mb_call_expect(call, 2, INT32_MAX);
  if (!status) status = function_argument(m, call, 0, &function);
  if (status) return status;
  struct vm_slots slots = {.outputs = calloc((size_t)call->count, sizeof(DLTensor *))};
  if (!slots.outputs) return mb_fail_memory((size_t)call->count * sizeof(DLTensor *));
  for (int i = 1; !status && i < call->count; i++) {
    DLTensor *given = NULL;
    status = mb_call_tensor(call, i, &given);
    if (!status)
      status = mb_tensor_borrow("output", given, given, call->codes[i] == kTVMNDArrayHandle,
                                &slots.outputs[slots.output_count]);
    if (!status) slots.output_count++;
  }
  if (status) {
    clear_outputs(&slots);
    return status;
  }
  clear_outputs(&m->slots[function]);
  m->slots[function].outputs = slots.outputs;
  m->slots[function].output_count = slots.output_count;
  return MBLOB_OK;
}

static int get_input_index(struct vm_machine *m, struct mb_call *call) {
  const char *name = NULL;
  size_t function = 0;
  int status = mb_call_expect(call, 2, 2);
  if (!status) status = mb_call_text(call, 0, &name);
  if (!status) status = function_argument(m, call, 1, &function);
  if (status) return status;
  const struct vm_function *f = &m->exec->functions[function];
  int64_t found = -1; /* TVM's answer for an unknown name */
  for (size_t i = 0; found < 0 && i < f->param_count; i++)
    if (strcmp(f->params[i], name) == 0) found = (int64_t)i;
  mb_call_return_int(call, found);
  return MBLOB_OK;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static int check_inputs(const struct vm_machine *m, size_t function) {
  const struct vm_function *f = &m->exec->functions[function];
  const struct vm_value *values = m->slots[function].values;
  for (size_t i = 0; i < f->param_count; i++)
    if (!values || values[i].kind == VM_NOTHING)
      return mb_fail(MBLOB_E_ARGUMENT, "input '%s' of function '%s' has not been set", f->params[i], f->name);
  return MBLOB_OK;
}

/* The outputs are the array that was returned, or the fields of a tuple. */
static size_t output_count(const struct vm_machine *m) {
  return m->result.kind == VM_ADT ? m->result.u.compound->count : m->result.kind != VM_NOTHING;
}

static struct vm_value output_at(const struct vm_machine *m, size_t i) {
  return m->result.kind == VM_ADT ? m->result.u.compound->fields[i] : m->result;
}

static int copy_outputs(const struct vm_machine *m, const struct vm_slots *slots) {
  int status = MBLOB_OK;
  if (slots->output_count != output_count(m))
    return mb_fail(MBLOB_E_ARGUMENT, "%zu outputs were set, the function returned %zu", slots->output_count,
                   output_count(m));
  for (size_t i = 0; !status && i < slots->output_count; i++) {
    struct vm_value value = output_at(m, i);
    status = value.kind == VM_ARRAY ? mb_tensor_assign("output", slots->outputs[i], value.u.array)
                                    : mb_fail(MBLOB_E_ARGUMENT, "output %zu is %s, expected an array", i,
                                              vm_kind_name(value.kind));
  }
  return status;
}

static int run(struct vm_machine *m, size_t function) {
  struct vm_slots *slots = &m->slots[function];
  int status = check_devices(m->exec);
  if (!status) status = check_inputs(m, function);
  if (!status) status = vm_machine_run(m, function, slots->values);
  if (!status && slots->outputs) {
    status = copy_outputs(m, slots);
    clear_outputs(slots);
  }
  return status;
}

static int run_named(struct vm_machine *m, struct mb_call *call) {
  size_t function = 0;
  int status = function_argument(m, call, 0, &function);
  if (!status && call->count > 1) status = set_params(m, function, call, 1);
  return status ? status : run(m, function);
}

static int invoke(struct vm_machine *m, struct mb_call *call) {
  int status = run_named(m, call);
  return status ? status : vm_value_return(m->result, m->exec, call);
}

static int invoke_stateful(struct vm_machine *m, struct mb_call *call) { return run_named(m, call); }

/* Function, type and id of the device that results should be on, inputs. */
static int invoke_return_to_device(struct vm_machine *m, struct mb_call *call) {
  size_t function = 0;
  int64_t device = 0;
  int status = function_argument(m, call, 0, &function);
  if (!status) status = mb_call_int(call, 1, &device);
  if (!status && device != kDLCPU)
    status = mb_fail(MBLOB_E_INCOMPATIBLE, "results on a device of type %lld: only the cpu (1) is here",
                     (long long)device);
  if (!status) status = set_params(m, function, call, 3);
  if (!status) status = run(m, function);
  return status ? status : vm_value_return(m->result, m->exec, call);
}

static int need_result(const struct vm_machine *m) {
  if (m->result.kind != VM_NOTHING) return MBLOB_OK;
  return mb_fail(MBLOB_E_ARGUMENT, "there is no output: no function has returned yet");
}

static int get_num_outputs(struct vm_machine *m, struct mb_call *call) {
  int status = need_result(m);
  if (!status) mb_call_return_int(call, (int64_t)output_count(m));
  return status;
}

/* The array that is the result of `call` goes to the tensor in argument 1 instead. */
static int copy_result(struct mb_call *call) {
  DLTensor *to = NULL;
  int status = mb_call_tensor(call, 1, &to);
  if (!status && call->result->code != kTVMNDArrayHandle)
    status = mb_fail(MBLOB_E_ARGUMENT, "the output is no tensor");
  size_t size = 0;
  if (!status) status = mb_tensor_check(to, &size);
  if (!status) status = mb_tensor_match("output", call->result->value.v_handle, to);
  if (!status) status = mb_tensor_assign("output", to, call->result->value.v_handle);
  mb_return_drop(call->result);
  return status;
}

/* (index), or (index, tensor to copy to) */
static int get_output(struct vm_machine *m, struct mb_call *call) {
  int64_t i = 0;
  int status = mb_call_expect(call, 1, 2);
  if (!status) status = mb_call_int(call, 0, &i);
  if (!status) status = need_result(m);
  if (status) return status;
  if (i < 0 || (uint64_t)i >= output_count(m))
    return mb_fail(MBLOB_E_ARGUMENT, "no output %lld; there are %zu", (long long)i, output_count(m));
  status = vm_value_return(output_at(m, (size_t)i), m->exec, call);
  return status || call->count == 1 ? status : copy_result(call);
}

/* Instructions that a call may execute, bytes of storage that may be in use at once; 0: no limit. */
static int set_limits(struct vm_machine *m, struct mb_call *call) {
  int64_t instructions = 0, bytes = 0;
  int status = mb_call_expect(call, 2, 2);
  if (!status) status = mb_call_int(call, 0, &instructions);
  if (!status) status = mb_call_int(call, 1, &bytes);
  if (!status && (instructions < 0 || bytes < 0)) status = mb_fail(MBLOB_E_ARGUMENT, "a limit is negative");
  if (status) return status;
  m->instruction_limit = (uint64_t)instructions;
  vm_pool_limit(m->pool, (size_t)bytes);
  return MBLOB_OK;
}

/* ---- the module ------------------------------------------------------------------------------ */

static const struct {
  const char *name;
  int (*call)(struct vm_machine *m, struct mb_call *call);
} operations[] = {
    {"init", init},
    {"set_input", set_input},
    {"set_one_input", set_one_input},
    {"set_outputs", set_outputs},
    {"get_input_index", get_input_index},
    {"invoke", invoke},
    {"invoke_stateful", invoke_stateful},
    {"invoke_return_to_device", invoke_return_to_device},
    {"get_output", get_output},
    {"get_num_outputs", get_num_outputs},
    {"set_limits", set_limits},
};

/* One call at a time: a second one, from another thread or from a primitive, is an error. */
static int call_alone(void *object, struct mb_call *call) {
  struct vm_machine *m = object;
  size_t i = 0;
  while (strcmp(operations[i].name, call->method) != 0) i++;
  if (atomic_flag_test_and_set_explicit(&m->busy, memory_order_acquire))
    return mb_fail(MBLOB_E_ARGUMENT, "the machine is in another call; use one VirtualMachine per thread");
  int status = operations[i].call(m, call);
  atomic_flag_clear_explicit(&m->busy, memory_order_release);
  return status;
}

static const struct mb_method methods[] = {{"init", call_alone},
                                           {"set_input", call_alone},
                                           {"set_one_input", call_alone},
                                           {"set_outputs", call_alone},
                                           {"get_input_index", call_alone},
                                           {"invoke", call_alone},
                                           {"invoke_stateful", call_alone},
                                           {"invoke_return_to_device", call_alone},
                                           {"get_output", call_alone},
                                           {"get_num_outputs", call_alone},
                                           {"set_limits", call_alone},
                                           {NULL, NULL}};

static const struct mb_class machine_class = {
    .type_key = "VirtualMachine", .methods = methods, .close = close_machine};

int vm_machine_create(const struct vm_executable *exec, mblob_module **out) {
  struct vm_machine *m = calloc(1, sizeof(*m));
  *out = NULL;
  if (!m) return mb_fail_memory(sizeof(*m));
  m->exec = exec;
  m->module = mblob_module_retain(exec->module);
  atomic_flag_clear(&m->busy);
  int status = fill(m);
  if (!status) status = mb_native_create(&machine_class, m, out);
  if (status) close_machine(m);
  return status;
}
