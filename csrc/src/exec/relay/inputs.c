/* Inputs of the functions of a program, and the places for their results. */
#include <stdlib.h>

#include "base/base.h"
#include "core/device/device.h"
#include "exec/common/common.h"
#include "exec/relay/adt.h"
#include "exec/relay/machine.h"

/* ---- slots ----------------------------------------------------------------------------------- */

static void clear_outputs(struct vm_slots *slots) {
  while (slots->output_count) mb_array_release(slots->outputs[--slots->output_count]);
  free(slots->outputs);
  slots->outputs = NULL;
}

static void free_vm_values(struct vm_value *values, size_t count) {
  for (size_t i = 0; values && i < count; i++) vm_value_clear(&values[i]);
  free(values);
}

void vm_slots_clear(struct vm_slots *slots, size_t param_count) {
  free_vm_values(slots->values, param_count);
  slots->values = NULL;
  clear_outputs(slots);
}

/* ---- inputs ---------------------------------------------------------------------------------- */

int vm_function_argument(const struct vm_machine *m, const struct mb_call *call, int i,
                         size_t *out) {
  const char *name = VM_MODEL;
  int status = mb_call_is_null(call, i) ? MBLOB_OK : mb_call_text(call, i, &name);
  if (status) return status;
  const struct vm_function *function = vm_function_find(m->exec, name);
  if (!function) return mblob_last_error_info()->status;
  *out = (size_t)(function - m->exec->functions);
  return MBLOB_OK;
}

/* Argument `i` of a call as a value for the parameter `param`. */
static int read_value(const struct vm_function *f, size_t param, const struct mb_call *call, int i,
                      struct vm_value *out) {
  int status = vm_value_argument(call, i, out);
  if (status) {
    mb_error_prefix(f->params[param]);
    mb_error_prefix(f->name);
  }
  return status;
}

/* One value for each parameter, to be freed. */
static int read_values(const struct vm_function *f, const struct mb_call *call, int first,
                       struct vm_value **out) {
  *out = NULL;
  if (call->count < first || (size_t)(call->count - first) != f->param_count)
    return mb_fail_argument(MB_ARGUMENT_COUNT, "function '%s': " MB_TEXT_COUNT, f->name, "expected",
                            (int)f->param_count, f->param_count == 1 ? "" : "s", "",
                            call->count - first);
  struct vm_value *values = calloc(f->param_count + 1, sizeof(*values));
  if (!values) return mb_fail_memory(f->param_count * sizeof(*values));
  int status = MBLOB_OK;
  for (size_t i = 0; !status && i < f->param_count; i++)
    status = read_value(f, i, call, first + (int)i, &values[i]);
  if (status)
    free_vm_values(values, f->param_count);
  else
    *out = values;
  return status;
}

int vm_inputs_set(struct vm_machine *m, size_t function, const struct mb_call *call, int first) {
  const struct vm_function *f = &m->exec->functions[function];
  struct vm_value *values = NULL;
  int status = read_values(f, call, first, &values);
  if (status) return status;
  free_vm_values(m->slots[function].values, f->param_count);
  m->slots[function].values = values;
  return MBLOB_OK;
}

int vm_inputs_set_one(struct vm_machine *m, size_t function, size_t param,
                      const struct mb_call *call, int i) {
  const struct vm_function *f = &m->exec->functions[function];
  struct vm_slots *slots = &m->slots[function];
  struct vm_value value = {.kind = VM_NOTHING};
  if (!slots->values) slots->values = calloc(f->param_count + 1, sizeof(*slots->values));
  if (!slots->values) return mb_fail_memory(f->param_count * sizeof(*slots->values));
  int status = read_value(f, param, call, i, &value);
  if (!status) vm_register_set(&slots->values[param], value);
  return status;
}

static int check_vm_inputs(const struct vm_machine *m, size_t function) {
  const struct vm_function *f = &m->exec->functions[function];
  const struct vm_value *values = m->slots[function].values;
  for (size_t i = 0; i < f->param_count; i++)
    if (!values || values[i].kind == VM_NOTHING)
      return mb_fail(MBLOB_E_ARGUMENT, "input '%s' of function '%s' has not been set", f->params[i],
                     f->name);
  return MBLOB_OK;
}

/* ---- outputs --------------------------------------------------------------------------------- */

int vm_outputs_set(struct vm_machine *m, size_t function, const struct mb_call *call) {
  struct vm_slots slots = {.outputs = calloc((size_t)call->count, sizeof(DLTensor *))};
  int status = slots.outputs ? MBLOB_OK : mb_fail_memory((size_t)call->count * sizeof(DLTensor *));
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

size_t vm_result_count(const struct vm_machine *m) {
  return m->result.kind == VM_ADT ? m->result.u.compound->count : m->result.kind != VM_NOTHING;
}

struct vm_value vm_result_at(const struct vm_machine *m, size_t i) {
  return m->result.kind == VM_ADT ? m->result.u.compound->fields[i] : m->result;
}

static int copy_outputs(const struct vm_machine *m, const struct vm_slots *slots) {
  int status = MBLOB_OK;
  if (slots->output_count != vm_result_count(m))
    return mb_fail(MBLOB_E_ARGUMENT, "%zu outputs were set, the function returned %zu",
                   slots->output_count, vm_result_count(m));
  for (size_t i = 0; !status && i < slots->output_count; i++) {
    struct vm_value value = vm_result_at(m, i);
    status = value.kind == VM_ARRAY
                 ? mb_tensor_assign_output("output", slots->outputs[i], value.u.array)
                 : mb_fail(MBLOB_E_ARGUMENT, "output %zu is %s, expected an array", i,
                           vm_kind_name(value.kind));
  }
  return status;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static int run_function(struct vm_machine *m, size_t function, const struct vm_value *values) {
  struct vm_slots *slots = &m->slots[function];
  int status = vm_machine_check_devices(m->exec);
  if (!status && !m->complete) status = vm_late_bound_check(m->exec);
  m->complete = !status;
  if (!status) status = vm_machine_run(m, function, values);
  if (!status && slots->outputs) {
    status = copy_outputs(m, slots);
    clear_outputs(slots);
  }
  return status;
}

int vm_run_kept(struct vm_machine *m, size_t function) {
  int status = check_vm_inputs(m, function);
  return status ? status : run_function(m, function, m->slots[function].values);
}

int vm_run_given(struct vm_machine *m, size_t function, const struct mb_call *call, int first) {
  const struct vm_function *f = &m->exec->functions[function];
  struct vm_value *values = NULL;
  int status = read_values(f, call, first, &values);
  if (!status) status = run_function(m, function, values);
  free_vm_values(values, f->param_count);
  return status;
}
