/* Functions of machines, under the names of TVM's VirtualMachine. */
#include <stdlib.h>
#include <string.h>

#include "core/device/device.h"
#include "exec/relax/machine.h"

/* ---- ready ----------------------------------------------------------------------------------- */

/* One triple: device type, device id, kind of allocator. */
static int read_device(const struct mb_call *call, int i, int64_t device[3]) {
  char name[MB_DEVICE_TEXT];
  int status = MBLOB_OK;
  for (int k = 0; !status && k < 3; k++) status = relax_int(call, i + k, &device[k]);
  if (status) return status;
  if (device[2] != VM_NAIVE && device[2] != VM_POOLED)
    return mb_fail(MBLOB_E_KERNEL, "InternalError: Unknown allocator type: %lld",
                   (long long)device[2]);
  if (device[0] < 1 || device[0] > INT16_MAX || device[1] < 0 || device[1] > INT32_MAX)
    return mb_fail(MBLOB_E_ARGUMENT, "(%lld, %lld) is no device", (long long)device[0],
                   (long long)device[1]);
  if (mb_device_is_host((int)device[0])) return MBLOB_OK;
  const DLDevice other = {(DLDeviceType)device[0], (int32_t)device[1]};
  return mb_fail(MBLOB_E_INCOMPATIBLE, "device %s (type %d): virtual machines run on the cpu only",
                 mb_device_text(other, name), (int)device[0]);
}

/* A second call is a fresh start. */
static int vm_initialization(void *object, struct mb_call *call) {
  struct relax_machine *m = object;
  int64_t device[3] = {0};
  DLDevice *devices = NULL;
  int status = MBLOB_OK;
  if (!call->count || call->count % 3)
    return mb_fail_coded(
        MBLOB_E_KERNEL, MB_ARGUMENT_COUNT,
        "InternalError: expected triples (device type, device id, allocator), found %d "
        "values",
        call->count);
  devices = calloc((size_t)call->count / 3, sizeof(*devices));
  if (!devices) return mb_fail_memory((size_t)call->count * sizeof(*devices));
  for (int i = 0; !status && i < call->count; i += 3) {
    status = read_device(call, i, device);
    devices[i / 3] = (DLDevice){kDLCPU, device[0] == kDLCPU ? (int32_t)device[1] : 0};
  }
  struct relax_activation activation;
  if (!status) status = relax_enter(m, &activation);
  if (status) {
    free(devices);
    return status;
  }
  if (m->nesting > 1) {
    status = mb_fail(MBLOB_E_ARGUMENT, "the machine is in a call");
  } else {
    DLDevice *before = m->devices;
    m->devices = devices;
    m->device_count = (size_t)call->count / 3;
    devices = before;
    status = relax_machine_prepare(m, device[2] == VM_POOLED);
  }
  free(devices);
  relax_leave(&activation);
  return status;
}

static int need_ready(const struct relax_machine *m) {
  if (m->ready) return MBLOB_OK;
  return mb_fail(MBLOB_E_KERNEL,
                 "RuntimeError: the machine is not ready; call vm_initialization first");
}

/* No name (a handle of NULL): the machine's model. */
static int relax_function_argument(const struct relax_machine *m, const struct mb_call *call, int i,
                                   const struct relax_function **out) {
  const char *name = NULL;
  int status = mb_call_is_null(call, i) ? MBLOB_OK : relax_name(call, i, &name);
  if (status) return status;
  *out = relax_function_find(m, name);
  return *out ? MBLOB_OK : mblob_last_error_info()->status;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static void free_relax_values(struct relax_value *values, size_t count) {
  for (size_t i = 0; values && i < count; i++) relax_clear(&values[i]);
  free(values);
}

/* Arguments from `first` on as values that are kept: borrowed tensors are copied. */
static int take_values(const struct relax_machine *m, const struct mb_call *call, int first,
                       struct relax_value **out, size_t *count) {
  *count = (size_t)(call->count - first);
  *out = calloc(*count + 1, sizeof(**out));
  if (!*out) return mb_fail_memory(*count * sizeof(**out));
  int status = MBLOB_OK;
  for (size_t i = 0; i < *count; i++) (*out)[i].code = kTVMNullptr;
  for (size_t i = 0; !status && i < *count; i++) {
    const int at = first + (int)i;
    status = relax_take(m, call->args[at], call->codes[at], &(*out)[i], NULL);
  }
  if (!status) return MBLOB_OK;
  free_relax_values(*out, *count);
  *out = NULL;
  return status;
}

#define NOT_SET (-1) /* code of an input that was never set */

/* Values without the parameters that the program was packed with, which are the function's last inputs: room
 * for these, which a stateful call sets. */
static int make_input_room(const struct relax_machine *m, const struct relax_function *f,
                           struct relax_value **values, size_t *count) {
  const size_t taken = f->num_args > 0 ? (size_t)f->num_args : 0;
  size_t inputs = 0;
  enum relax_place place;
  if (*count >= taken) return MBLOB_OK;
  int status = relax_parameters_place(m, f, &inputs, &place);
  if (status || *count + inputs != taken) return status;
  struct relax_value *larger = realloc(*values, taken * sizeof(**values));
  if (!larger) return mb_fail_memory(taken * sizeof(**values));
  while (*count < taken) larger[(*count)++].code = NOT_SET;
  *values = larger;
  return MBLOB_OK;
}

static int keep_inputs(struct relax_machine *m, const struct relax_function *f,
                       struct relax_value *values, size_t count) {
  int status = make_input_room(m, f, &values, &count);
  if (status) {
    free_relax_values(values, count);
    return status;
  }
  if (f->num_args < 0 || (uint64_t)f->num_args != count) {
    free_relax_values(values, count);
    return mb_fail_coded(
        MBLOB_E_KERNEL, MB_ARGUMENT_COUNT,
        "InternalError: The number of provided parameters doesn't match the number of "
        "arguments for %s: expected %lld, found %zu",
        f->name, (long long)(f->num_args < 0 ? 0 : f->num_args), count);
  }
  struct relax_slots *slots = &m->slots[f - m->exec->functions];
  free_relax_values(slots->inputs, slots->inputs ? count : 0);
  slots->inputs = values;
  slots->has_inputs = true;
  return MBLOB_OK;
}

static int set_relax_input(void *object, struct mb_call *call) {
  struct relax_machine *m = object;
  const struct relax_function *f = NULL;
  struct relax_value *values = NULL;
  size_t count = 0;
  int status = need_ready(m);
  if (!status) status = relax_function_argument(m, call, 0, &f);
  if (!status) status = take_values(m, call, 1, &values, &count);
  return status ? status : keep_inputs(m, f, values, count);
}

/* As many as arguments, or as names of them: of a packed function, files may differ in these. */
static int make_inputs(const struct relax_function *f, struct relax_slots *slots) {
  const size_t named = f->param_count, taken = f->num_args > 0 ? (size_t)f->num_args : 0;
  const size_t count = named > taken ? named : taken;
  if (slots->inputs) return MBLOB_OK;
  slots->inputs = calloc(count + 1, sizeof(*slots->inputs));
  if (!slots->inputs) return mb_fail_memory(count * sizeof(*slots->inputs));
  for (size_t i = 0; i < count; i++) slots->inputs[i].code = NOT_SET;
  slots->has_inputs = true;
  return MBLOB_OK;
}

/* (function, name or index, value): one input, for all calls from now on */
static int set_one_input(void *object, struct mb_call *call) {
  struct relax_machine *m = object;
  const struct relax_function *f = NULL;
  struct relax_value value;
  size_t param = 0;
  int status = need_ready(m);
  if (!status) status = relax_expect(call, 3);
  if (!status) status = relax_function_argument(m, call, 0, &f);
  if (status) return status;
  const struct mb_names names = {"input", (const char *const *)f->params, f->param_count};
  status = mb_names_argument(&names, call, 1, &param);
  if (!status) status = relax_take(m, call->args[2], call->codes[2], &value, NULL);
  if (status) return status;
  struct relax_slots *slots = &m->slots[f - m->exec->functions];
  status = make_inputs(f, slots);
  if (status)
    relax_clear(&value);
  else
    relax_set(&slots->inputs[param], value);
  return status;
}

static bool has_unset(const struct relax_function *f, const struct relax_slots *slots) {
  bool found = !slots->inputs;
  for (int64_t i = 0; !found && i < f->num_args; i++) found = slots->inputs[i].code == NOT_SET;
  return found;
}

/* The parameters that the program was packed with are its last inputs where nobody set these. */
static int set_parameters(struct relax_machine *m, const struct relax_function *f,
                          struct relax_slots *slots) {
  size_t inputs = 0, i = 0;
  enum relax_place place;
  int status = relax_parameters_place(m, f, &inputs, &place);
  if (!status && inputs) status = make_inputs(f, slots);
  for (; !status && i < inputs; i++) {
    struct relax_value *input = &slots->inputs[(size_t)f->num_args - inputs + i], given;
    if (input->code != NOT_SET) continue;
    given = (struct relax_value){m->params.value, m->params.code};
    if (place != RELAX_TUPLE) {
      const size_t at = (size_t)f->num_args - inputs + i;
      const size_t item = place == RELAX_BY_NAME ? relax_parameter_named(m, f, at) : i;
      given = (struct relax_value){mb_object_value(m->params.value.v_handle, item),
                                   mb_object_item(m->params.value.v_handle, item)->code};
    }
    relax_retain(given);
    relax_set(input, given);
  }
  return status;
}

static int check_relax_inputs(const struct relax_function *f, const struct relax_value *inputs) {
  for (size_t i = 0; inputs && (int64_t)i < f->num_args; i++)
    if (inputs[i].code == NOT_SET)
      return mb_fail(MBLOB_E_KERNEL, "ValueError: input '%s' of function '%s' has not been set",
                     i < f->param_count ? f->params[i] : "", f->name);
  return MBLOB_OK;
}

/* The last argument is a module, whose get_params() is the last input. */
static int set_input_with_param_module(void *object, struct mb_call *call) {
  struct relax_machine *m = object;
  const struct relax_function *f = NULL;
  struct relax_value *values = NULL, params = {.code = kTVMNullptr};
  size_t count = 0;
  mblob_module *module = NULL;
  mblob_function *get = NULL;
  int status = need_ready(m);
  if (!status) status = relax_function_argument(m, call, 0, &f);
  if (!status) status = mb_call_module(call, call->count - 1, &module);
  if (!status) status = mb_module_need(module, "get_params", MB_ITSELF, &get);
  if (!status) status = relax_call_function(get, false, NULL, NULL, 0, &params);
  mblob_function_release(get);
  if (!status) status = take_values(m, call, 1, &values, &count);
  if (!status)
    relax_set(&values[count - 1], params);
  else
    relax_clear(&params);
  return status ? status : keep_inputs(m, f, values, count);
}

/* ---- stateful calls -------------------------------------------------------------------------- */

static int run_values(struct relax_machine *m, const struct relax_function *f,
                      const struct relax_value *values, struct relax_value *result) {
  struct relax_activation activation;
  const struct relax_arguments arguments = {NULL, NULL, 0, values,
                                            f->num_args > 0 ? (size_t)f->num_args : 0};
  int status = relax_check_stack();
  if (!status) status = relax_enter(m, &activation);
  if (status) return status;
  status = relax_run(m, f, &arguments, result);
  if (status) relax_tell_failure(m);
  relax_leave(&activation);
  return status;
}

static int invoke_stateful(void *object, struct mb_call *call) {
  struct relax_machine *m = object;
  const struct relax_function *f = NULL;
  struct relax_value result = {.code = kTVMNullptr};
  int status = need_ready(m);
  if (!status) status = relax_expect(call, 1);
  if (!status) status = relax_function_argument(m, call, 0, &f);
  if (status) return status;
  struct relax_slots *slots = &m->slots[f - m->exec->functions];
  if (has_unset(f, slots)) status = set_parameters(m, f, slots);
  if (status) return status;
  if (!slots->has_inputs && f->num_args != 0)
    return mb_fail(MBLOB_E_KERNEL,
                   "ValueError: No inputs set for stateful call of %s; use `set_input` first.",
                   f->name);
  status = check_relax_inputs(f, slots->inputs);
  if (!status) status = run_values(m, f, slots->inputs, &result);
  if (status) return status;
  relax_set(&slots->output, result);
  slots->has_output = true;
  return MBLOB_OK;
}

/* What the last stateful call of a function gave, borrowed. */
static int saved_output(const struct relax_machine *m, const struct relax_function *f,
                        struct relax_value *out) {
  const struct relax_slots *slots = &m->slots[f - m->exec->functions];
  *out = slots->output;
  if (slots->has_output) return MBLOB_OK;
  return mb_fail(
      MBLOB_E_KERNEL,
      "ValueError: No output saved for call of \"%s\"; use `invoke_stateful` to call it first.",
      f->name);
}

/* The same, or number `i` of a tuple if there are as many. */
static int output_at(const struct relax_machine *m, const struct relax_function *f, size_t i,
                     size_t *count, struct relax_value *out) {
  int status = saved_output(m, f, out);
  const struct mb_object *array = relax_object(out->value, out->code, MB_ARRAY_TYPE);
  *count = array ? mb_object_count(array) : 1;
  if (array && i < *count)
    *out = (struct relax_value){mb_object_value(array, i), mb_object_item(array, i)->code};
  return status;
}

/* The value that argument 0 names and the others lead to, borrowed. */
static int find_output(struct relax_machine *m, const struct mb_call *call, TVMValue *value,
                       int *code) {
  const struct relax_function *f = NULL;
  struct relax_value saved = {.code = kTVMNullptr};
  int status = relax_function_argument(m, call, 0, &f);
  if (!status) status = saved_output(m, f, &saved);
  *value = saved.value;
  *code = saved.code;
  for (int i = 1; !status && i < call->count; i++) {
    const struct mb_object *array = relax_object(*value, *code, MB_ARRAY_TYPE);
    int64_t index = 0;
    status = relax_int(call, i, &index);
    if (!status && !array)
      status = mb_fail(MBLOB_E_KERNEL,
                       "ValueError: Attempted to index into an object that is not an Array.");
    if (!status && (index < 0 || (uint64_t)index >= mb_object_count(array)))
      status = mb_fail_coded(MBLOB_E_KERNEL, MB_ARGUMENT_INDEX,
                             "IndexError: Invalid index (%lld >= %zu).", (long long)index,
                             mb_object_count(array));
    if (status) return status;
    *value = mb_object_value(array, (size_t)index);
    *code = mb_object_item(array, (size_t)index)->code;
  }
  return status;
}

static int get_output_arity(void *object, struct mb_call *call) {
  TVMValue value;
  int code = kTVMNullptr;
  int status = find_output(object, call, &value, &code);
  if (status) return status;
  const struct mb_object *array = relax_object(value, code, MB_ARRAY_TYPE);
  mb_call_return_int(call, array ? (int64_t)mb_object_count(array) : -1);
  return MBLOB_OK;
}

static int get_relax_output(void *object, struct mb_call *call) {
  TVMValue value;
  int code = kTVMNullptr;
  int status = find_output(object, call, &value, &code);
  if (!status && relax_object(value, code, MB_ARRAY_TYPE))
    status = mb_fail(MBLOB_E_KERNEL,
                     "ValueError: `get_output` cannot return a tuple for RPC compatibility. Please "
                     "specify another index argument.");
  if (status) return status;
  const struct relax_value found = {value, code};
  relax_retain(found);
  return code == kTVMStr ? mb_return_set(call->result, value, code)
                         : relax_give(found, call->result);
}

/* (function, index, tensor): output `index`, of a tuple or of one, to the memory of the tensor */
static int copy_relax_output(void *object, struct mb_call *call) {
  struct relax_value value;
  const struct relax_function *f = NULL;
  int64_t index = 0;
  size_t count = 0;
  DLTensor *to = NULL;
  int status = relax_expect(call, 3);
  if (!status) status = relax_function_argument(object, call, 0, &f);
  if (!status) status = saved_output(object, f, &value);
  if (!status) status = relax_int(call, 1, &index);
  if (!status) status = relax_tensor(call, 2, &to);
  if (!status) status = output_at(object, f, (size_t)index, &count, &value);
  if (status) return status;
  if (index < 0 || (uint64_t)index >= count)
    return mb_fail_argument(MB_ARGUMENT_INDEX, "no output %lld; there are %zu", (long long)index,
                            count);
  if (value.code != kTVMNDArrayHandle)
    return mb_fail(MBLOB_E_ARGUMENT, "output %lld is no tensor: %s", (long long)index,
                   relax_key(value.value, value.code));
  return mb_tensor_assign_output("output", to, value.value.v_handle);
}

/* ---- closures -------------------------------------------------------------------------------- */

static int call_value(struct mb_call *call, int first) {
  TVMValue ret = {.v_int64 = 0};
  int ret_code = kTVMNullptr;
  if (call->count <= first || call->codes[first] != kTVMPackedFuncHandle)
    return mb_fail(
        MBLOB_E_KERNEL, "InternalError: Function expects a closure or ffi::Function, found %s",
        call->count > first ? relax_key(call->args[first], call->codes[first]) : "nothing");
  int status =
      mblob_function_call(call->args[first].v_handle, call->args + first + 1,
                          call->codes + first + 1, call->count - first - 1, &ret, &ret_code);
  if (status || ret_code == kTVMStr || ret_code == kTVMBytes)
    return status ? status : mb_return_set(call->result, ret, ret_code);
  relax_return(call, ret, ret_code);
  return MBLOB_OK;
}

static int relax_invoke_given_closure(void *object, struct mb_call *call) {
  int status = need_ready(object);
  return status ? status : call_value(call, 0);
}

static int save_named(struct relax_machine *m, const struct relax_function *f, const char *name,
                      struct relax_value *values, size_t count, bool drops_result) {
  mblob_function *function = NULL;
  int status = MBLOB_OK;
  const struct relax_function *known = mb_map_get(&m->exec->by_name, name);
  function = mb_map_get(&m->named, name);
  if (!function) {
    char *key = known ? known->name : strdup(name);
    status = key ? relax_closure_new(m, f, NULL, 0, true, &function) : mb_fail_memory(strlen(name));
    if (!status && !mb_map_put(&m->named, key, function)) {
      mblob_function_release(function);
      status = MBLOB_E_MEMORY;
    }
    if (status && !known) free(key);
  }
  if (status)
    free_relax_values(values, count);
  else
    relax_closure_rebind(relax_closure_of(function), f, values, count, drops_result);
  return status;
}

/* (name, name to save it under, whether it gives its result, arguments...) */
static int save_function(void *object, struct mb_call *call) {
  struct relax_machine *m = object;
  const struct relax_function *f = NULL;
  struct relax_value *values = NULL;
  const char *name = NULL;
  size_t count = 0;
  int64_t gives = 0;
  int status = need_ready(m);
  if (!status && call->count < 3) status = relax_expect(call, 3);
  if (!status) status = relax_function_argument(m, call, 0, &f);
  if (!status && f->kind == RELAX_PACKED)
    status = mb_fail(MBLOB_E_KERNEL,
                     "InternalError: Cannot support closure with function kind 0: '%s'", f->name);
  if (!status) status = relax_name(call, 1, &name);
  if (!status) status = relax_int(call, 2, &gives);
  if (!status) status = take_values(m, call, 3, &values, &count);
  return status ? status : save_named(m, f, name, values, count, !gives);
}

/* ---- facts ----------------------------------------------------------------------------------- */

int relax_machine_describe(void *machine, bool outputs, size_t i, size_t *count,
                           struct mb_executor_io *out) {
  const struct relax_machine *m = machine;
  const struct relax_function *f = relax_function_find(m, NULL);
  struct relax_value value = {.code = kTVMNullptr};
  if (!f) return mblob_last_error_info()->status;
  int status = MBLOB_OK;
  if (outputs) {
    status = output_at(m, f, i, count, &value);
  } else if (i < (*count = f->param_count)) {
    const struct relax_slots *slots = &m->slots[f - m->exec->functions];
    out->name = f->params[i];
    if (slots->inputs) value = slots->inputs[i];
  }
  if (value.code == kTVMNDArrayHandle) out->tensor = value.value.v_handle;
  return status;
}

static int relax_get_function_arity(void *object, struct mb_call *call) {
  const struct relax_function *f = NULL;
  int status = relax_function_argument(object, call, 0, &f);
  if (!status) mb_call_return_int(call, (int64_t)f->param_count);
  return status;
}

static int relax_get_function_param_name(void *object, struct mb_call *call) {
  const struct relax_function *f = NULL;
  int64_t i = 0;
  int status = relax_function_argument(object, call, 0, &f);
  if (!status) status = relax_int(call, 1, &i);
  if (status) return status;
  if (i < 0 || (uint64_t)i >= f->param_count)
    return mb_fail(MBLOB_E_KERNEL, "ValueError: Invalid index for %s (%lld out of %zu)", f->name,
                   (long long)i, f->param_count);
  return mb_call_return_text(call, f->params[i]);
}

/* The tuple of the program's parameters. */
static int get_params(void *object, struct mb_call *call) {
  const struct relax_machine *m = object;
  int status = relax_expect(call, 0);
  return status ? status : mb_return_set(call->result, m->params.value, m->params.code);
}

/* How many of the function's last inputs need not be set, as the program has parameters for them. */
static int get_param_inputs(void *object, struct mb_call *call) {
  const struct relax_machine *m = object;
  const struct relax_function *f = NULL;
  size_t inputs = 0;
  enum relax_place place;
  int status = relax_function_argument(m, call, 0, &f);
  if (!status) status = relax_parameters_place(m, f, &inputs, &place);
  if (!status) mb_call_return_int(call, (int64_t)inputs);
  return status;
}

/* (function or None), or (name of a global function, args...), which gives it */
static int set_instrument(void *object, struct mb_call *call) {
  struct relax_machine *m = object;
  TVMByteArray text;
  const char *name = NULL;
  struct relax_value made = {.code = kTVMNullptr};
  int status = call->count >= 1 ? MBLOB_OK : relax_expect(call, 1);
  if (status) return status;
  if (mb_value_text(call->args[0], call->codes[0], &text)) {
    mblob_function *factory = NULL;
    status = relax_name(call, 0, &name);
    if (!status) status = mb_global_get(name, &factory);
    if (!status && !factory)
      status = mb_fail(MBLOB_E_KERNEL, "InternalError: Cannot find factory %s", name);
    if (!status)
      status = relax_call_function(factory, false, call->args + 1, call->codes + 1, call->count - 1,
                                   &made);
    mblob_function_release(factory);
  } else {
    made = (struct relax_value){call->args[0], call->codes[0]};
    relax_retain(made);
  }
  if (!status && made.code != kTVMPackedFuncHandle && made.code != kTVMNullptr)
    status = relax_mismatch(call, 0, "ffi.Function");
  if (status) {
    relax_clear(&made);
    return status;
  }
  mblob_function_release(m->instrument);
  m->instrument = made.code == kTVMNullptr ? NULL : made.value.v_handle;
  return MBLOB_OK;
}

static int profile_relax(void *object, struct mb_call *call) {
  int status = need_ready(object);
  return status ? status : relax_profile_run(object, call);
}

/* Instructions that a call may execute, bytes of storage that may be in use at once, calls inside
 * each other; 0: no limit, of calls the one that holds without this. */
static int set_limits(void *object, struct mb_call *call) {
  struct relax_machine *m = object;
  int64_t limits[3] = {0};
  int status = call->count == 2 || call->count == 3 ? MBLOB_OK : relax_expect(call, 3);
  for (int i = 0; !status && i < call->count; i++) status = relax_int(call, i, &limits[i]);
  if (!status && (limits[0] < 0 || limits[1] < 0 || limits[2] < 0))
    status = mb_fail(MBLOB_E_ARGUMENT, "a limit is negative");
  if (status) return status;
  m->instruction_limit = (uint64_t)limits[0];
  vm_pool_limit(m->pool, (size_t)limits[1]);
  m->call_limit = limits[2] ? (size_t)limits[2] : RELAX_CALL_LIMIT;
  return MBLOB_OK;
}

const struct mb_method relax_machine_methods[] = {
    {"vm_initialization", vm_initialization},
    {"set_input", set_relax_input},
    {"set_one_input", set_one_input},
    {"set_input_with_param_module", set_input_with_param_module},
    {"invoke_stateful", invoke_stateful},
    {"get_output", get_relax_output},
    {"copy_output", copy_relax_output},
    {"get_output_arity", get_output_arity},
    {"invoke_closure", relax_invoke_given_closure},
    {"save_function", save_function},
    {"get_function_arity", relax_get_function_arity},
    {"get_function_param_name", relax_get_function_param_name},
    {"get_params", get_params},
    {"get_param_inputs", get_param_inputs},
    {"set_instrument", set_instrument},
    {"profile", profile_relax},
    {"set_limits", set_limits},
    {"", NULL}};
