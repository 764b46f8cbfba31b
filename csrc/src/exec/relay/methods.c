/* Functions of machines, under the names of TVM's VirtualMachine. */
#include <stddef.h>
#include <string.h>

#include "base/base.h"
#include "exec/common/common.h"
#include "exec/relay/adt.h"
#include "exec/relay/machine.h"

/* One triple: device type, device id, kind of allocator. */
static int init_device(const struct vm_machine *m, const struct mb_call *call, int i, bool *host,
                       bool *pooled) {
  int64_t device[3] = {0};
  int status = MBLOB_OK;
  for (int k = 0; !status && k < 3; k++) status = mb_call_int(call, i + k, &device[k]);
  if (status) return status;
  if (device[2] != VM_NAIVE && device[2] != VM_POOLED)
    return mb_fail(MBLOB_E_ARGUMENT, "allocator %lld, expected 1 (naive) or 2 (pooled)",
                   (long long)device[2]);
  if (device[0] < 1 || device[0] > INT16_MAX || device[1] < 0 || device[1] > INT32_MAX)
    return mb_fail(MBLOB_E_ARGUMENT, "(%lld, %lld) is no device", (long long)device[0],
                   (long long)device[1]);
  if (device[0] == kDLCPU) {
    *host = true;
    *pooled = device[2] == VM_POOLED;
  }
  return vm_machine_check_device(m->exec, (DLDevice){(DLDeviceType)device[0], (int32_t)device[1]});
}

/* All memory is the host's, so the devices only have to name it. */
VM_METHOD(init) {
  bool host = false, pooled = false;
  int status = MBLOB_OK;
  if (!call->count || call->count % 3)
    return mb_fail_argument(MB_ARGUMENT_COUNT,
                            "expected triples (device type, device id, allocator), found %d values",
                            call->count);
  for (int i = 0; !status && i < call->count; i += 3)
    status = init_device(m, call, i, &host, &pooled);
  if (!status) status = vm_machine_check_devices(m->exec);
  if (!status && !host)
    status =
        mb_fail(MBLOB_E_INCOMPATIBLE, "none of the devices is the cpu, which runs the program");
  if (!status) vm_pool_keep(m->pool, pooled);
  return status;
}

VM_METHOD(load_late_bound_consts) { return vm_bind_late_constants(m->exec, call); }

/* ---- inputs and outputs ---------------------------------------------------------------------- */

VM_METHOD(set_input) {
  size_t function = 0;
  int status = vm_function_argument(m, call, 0, &function);
  return status ? status : vm_inputs_set(m, function, call, 1);
}

VM_METHOD(set_one_input) {
  size_t function = 0, param = 0;
  int status = mb_call_expect(call, 3, 3);
  if (!status) status = vm_function_argument(m, call, 0, &function);
  if (status) return status;
  const struct vm_function *f = &m->exec->functions[function];
  const struct mb_names names = {"input", (const char *const *)f->params, f->param_count};
  status = mb_names_argument(&names, call, 1, &param);
  return status ? status : vm_inputs_set_one(m, function, param, call, 2);
}

/* Where the results of the next call go. An array is kept, other memory must live until then. */
VM_METHOD(set_outputs) {
  size_t function = 0;
  int status = mb_call_expect(call, 2, INT32_MAX);
  if (!status) status = vm_function_argument(m, call, 0, &function);
  return status ? status : vm_outputs_set(m, function, call);
}

VM_METHOD(get_input_index) {
  const char *name = NULL;
  size_t function = 0;
  int status = mb_call_expect(call, 2, 2);
  if (!status) status = mb_call_text(call, 0, &name);
  if (!status) status = vm_function_argument(m, call, 1, &function);
  if (status) return status;
  const struct vm_function *f = &m->exec->functions[function];
  int64_t found = -1; /* TVM's answer for an unknown name */
  for (size_t i = 0; found < 0 && i < f->param_count; i++)
    if (strcmp(f->params[i], name) == 0) found = (int64_t)i;
  mb_call_return_int(call, found);
  return MBLOB_OK;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* (function) on the inputs that were set, which stay; (function, inputs...) on these, once. */
static int run_named(struct vm_machine *m, const struct mb_call *call) {
  size_t function = 0;
  int status = vm_function_argument(m, call, 0, &function);
  if (status) return status;
  return call->count > 1 ? vm_run_given(m, function, call, 1) : vm_run_kept(m, function);
}

VM_METHOD(invoke) {
  int status = run_named(m, call);
  return status ? status : vm_value_return(m->result, m->exec, call);
}

VM_METHOD(invoke_stateful) { return run_named(m, call); }

/* Function, type and id of the device that results should be on, inputs. */
VM_METHOD(invoke_return_to_device) {
  size_t function = 0;
  int64_t device = 0;
  int status = vm_function_argument(m, call, 0, &function);
  if (!status) status = mb_call_int(call, 1, &device);
  if (!status && device != kDLCPU)
    status =
        mb_fail(MBLOB_E_INCOMPATIBLE, "results on a device of type %lld: only the cpu (1) is here",
                (long long)device);
  if (!status) status = vm_run_given(m, function, call, 3);
  return status ? status : vm_value_return(m->result, m->exec, call);
}

/* (function, repeat = 1): see vm_profile_run. */
VM_METHOD(profile) {
  size_t function = 0;
  int64_t repeat = 1;
  int status = mb_call_expect(call, 1, 2);
  if (!status) status = vm_function_argument(m, call, 0, &function);
  if (!status && call->count > 1) status = mb_call_int(call, 1, &repeat);
  if (status) return status;
  if (repeat < 1)
    return mb_fail(MBLOB_E_ARGUMENT, "repeat %lld, expected at least 1", (long long)repeat);
  return vm_profile_run(m, function, repeat, call);
}

/* ---- results --------------------------------------------------------------------------------- */

static int need_result(const struct vm_machine *m) {
  if (m->result.kind != VM_NOTHING) return MBLOB_OK;
  return mb_fail(MBLOB_E_ARGUMENT, "there is no output: no function has returned yet");
}

VM_METHOD(get_num_outputs) {
  int status = mb_call_expect(call, 0, 0);
  if (!status) status = need_result(m);
  if (!status) mb_call_return_int(call, (int64_t)vm_result_count(m));
  return status;
}

/* The array that is the result of `call` goes to the tensor in argument 1 instead. */
static int copy_result(struct mb_call *call) {
  DLTensor *to = NULL;
  int status = mb_call_tensor(call, 1, &to);
  if (!status && call->result->code != kTVMNDArrayHandle)
    status = mb_fail(MBLOB_E_ARGUMENT, "the output is no tensor");
  if (!status) status = mb_tensor_assign_output("output", to, call->result->value.v_handle);
  mb_return_drop(call->result);
  return status;
}

/* (index), or (index, tensor to copy to) */
VM_METHOD(get_output) {
  int64_t i = 0;
  int status = mb_call_expect(call, 1, 2);
  if (!status) status = mb_call_int(call, 0, &i);
  if (!status) status = need_result(m);
  if (status) return status;
  if (i < 0 || (uint64_t)i >= vm_result_count(m))
    return mb_fail_argument(MB_ARGUMENT_INDEX, "no output %lld; there are %zu", (long long)i,
                            vm_result_count(m));
  status = vm_value_return(vm_result_at(m, (size_t)i), m->exec, call);
  return status || call->count == 1 ? status : copy_result(call);
}

int vm_machine_describe(void *machine, bool outputs, size_t i, size_t *count,
                        struct mb_executor_io *out) {
  const struct vm_machine *m = machine;
  const struct vm_function *f = vm_function_find(m->exec, VM_MODEL);
  struct vm_value value = {.kind = VM_NOTHING};
  if (!f) return mblob_last_error_info()->status;
  if (outputs) {
    int status = need_result(m);
    if (status) return status;
    *count = vm_result_count(m);
    if (i < *count) value = vm_result_at(m, i);
  } else {
    const struct vm_slots *slots = &m->slots[f - m->exec->functions];
    *count = f->param_count;
    if (i < *count) out->name = f->params[i];
    if (i < *count && slots->values) value = slots->values[i];
  }
  if (value.kind == VM_ARRAY) out->tensor = value.u.array;
  return MBLOB_OK;
}

/* Instructions that a call may execute, bytes of storage that may be in use at once; 0: no
 * limit. */
VM_METHOD(set_limits) {
  int64_t instructions = 0, bytes = 0;
  int status = mb_call_expect(call, 2, 2);
  if (!status) status = mb_call_int(call, 0, &instructions);
  if (!status) status = mb_call_int(call, 1, &bytes);
  if (!status && (instructions < 0 || bytes < 0))
    status = mb_fail(MBLOB_E_ARGUMENT, "a limit is negative");
  if (status) return status;
  m->instruction_limit = (uint64_t)instructions;
  vm_pool_limit(m->pool, (size_t)bytes);
  return MBLOB_OK;
}

const struct mb_method vm_machine_methods[] = {
    {"init", vm_init},
    {"load_late_bound_consts", vm_load_late_bound_consts},
    {"set_input", vm_set_input},
    {"set_one_input", vm_set_one_input},
    {"set_outputs", vm_set_outputs},
    {"get_input_index", vm_get_input_index},
    {"invoke", vm_invoke},
    {"invoke_stateful", vm_invoke_stateful},
    {"invoke_return_to_device", vm_invoke_return_to_device},
    {"get_output", vm_get_output},
    {"get_num_outputs", vm_get_num_outputs},
    {"profile", vm_profile},
    {"set_limits", vm_set_limits},
    {"", NULL}};
