#define _GNU_SOURCE
#include "exec/aot/executor.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/call/call.h"
#include "core/library/library.h"
#include "core/loaded/loaded.h"
#include "core/device/device.h"
#include "exec/aot/metadata.h"
#include "exec/aot/profile.h"
#include "exec/common/common.h"
#include "format/format.h"

/* The entry function takes inputs, outputs and, if the model plans its memory itself, one pool
 * of constants and its workspace pools: all tensors, in this order. */
struct aot_executor {
  mblob_module *factory; /* counted: keeps the code, the metadata and the entry function */
  mblob_function *entry;
  const struct mb_aot_metadata *metadata;
  const char **names; /* of inputs, then of outputs */
  struct mb_names inputs, outputs;
  DLTensor **arrays; /* counted */
  TVMValue *args;    /* the same arrays */
  int *codes;
  size_t count, capacity;
};

/* ---- making ---------------------------------------------------------------------------------- */

static void close_executor(void *object) {
  struct aot_executor *e = object;
  while (e->count) mb_array_release(e->arrays[--e->count]);
  free(e->arrays);
  free(e->args);
  free(e->codes);
  free(e->names);
  mblob_module_release(e->factory);
  free(e);
}

/* Takes the reference over. */
static void put_value_at(struct aot_executor *e, size_t i, DLTensor *array) {
  e->arrays[i] = array;
  e->args[i].v_handle = array;
  e->codes[i] = kTVMDLTensorHandle;
}

static int add_layout(struct aot_executor *e, int64_t ndim, const int64_t *shape,
                      DLDataType dtype) {
  DLTensor *array = NULL;
  int status = mb_array_new((DLDevice){kDLCPU, 0}, (int)ndim, shape, dtype, &array);
  if (!status) put_value_at(e, e->count++, array);
  return status;
}

static int add_tensors(struct aot_executor *e, const struct mb_aot_tensor *list, int64_t count) {
  int status = MBLOB_OK;
  for (int64_t i = 0; !status && i < count; i++) {
    status = add_layout(e, list[i].ndim, list[i].shape, list[i].dtype);
    if (status) mb_error_prefix(list[i].name);
  }
  return status;
}

static int add_bytes(struct aot_executor *e, int64_t size) {
  return add_layout(e, 1, &size, (DLDataType){kDLUInt, 8, 1});
}

/* The data of a stored constant: a view into its record. */
static int read_aot_constant(const struct mb_aot_constant *constant, DLTensor *out, size_t *size) {
  struct mb_cursor c = {constant->record, 0, (uint64_t)constant->size, MB_UNKNOWN};
  if (!mb_array_read(&c, out)) return mblob_last_error_info()->status;
  int status = out->dtype.lanes == 1
                   ? mb_tensor_size(out, size)
                   : mb_fail(MBLOB_E_FORMAT, "constant: elements have %d lanes", out->dtype.lanes);
  if (!status && (int64_t)*size > INT32_MAX - constant->byte_offset) /* as TVM limits the pool */
    status = mb_fail(MBLOB_E_FORMAT, "constant: %zu bytes at %lld are too much for a pool", *size,
                     (long long)constant->byte_offset);
  if (status) free(out->shape);
  return status;
}

static int add_constant_pool(struct aot_executor *e) {
  const struct mb_aot_metadata *m = e->metadata;
  int64_t total = 0;
  int status = MBLOB_OK;
  for (int pass = 0; !status && pass < 2; pass++) { /* how large, then fill */
    if (pass) status = add_bytes(e, total);
    for (int64_t i = 0; !status && i < m->constant_pool_count; i++) {
      DLTensor constant;
      size_t size = 0;
      status = read_aot_constant(&m->constant_pools[i], &constant, &size);
      if (status) break;
      int64_t begin = m->constant_pools[i].byte_offset, end = begin + (int64_t)size;
      if (!pass && end > total) total = end;
      if (pass && size) memcpy((char *)e->arrays[e->count - 1]->data + begin, constant.data, size);
      free(constant.shape);
    }
  }
  return status;
}

static int add_pools(struct aot_executor *e) {
  const struct mb_aot_metadata *m = e->metadata;
  if (!m->workspace_pool_count) return MBLOB_OK;
  int status = add_constant_pool(e);
  for (int64_t i = 0; !status && i < m->workspace_pool_count; i++) {
    const struct mb_aot_tensor *pool = &m->workspace_pools[i];
    DLTensor t = {.ndim = (int32_t)pool->ndim,
                  .dtype = pool->dtype,
                  .shape = (int64_t *)(uintptr_t)pool->shape};
    size_t size = 0;
    status = mb_tensor_size(&t, &size);
    if (!status) status = add_bytes(e, (int64_t)size);
  }
  return status;
}

static int fill_values(struct aot_executor *e) {
  const struct mb_aot_metadata *m = e->metadata;
  size_t inputs = (size_t)m->input_count, outputs = (size_t)m->output_count;
  e->capacity = inputs + outputs + 1 + (size_t)m->workspace_pool_count;
  e->arrays = calloc(e->capacity, sizeof(*e->arrays));
  e->args = calloc(e->capacity + 1,
                   sizeof(*e->args)); /* kernels may use one slot behind the last argument */
  e->codes = calloc(e->capacity + 1, sizeof(*e->codes));
  e->names = calloc(inputs + outputs + 1, sizeof(*e->names));
  if (!e->arrays || !e->args || !e->codes || !e->names)
    return mb_fail_memory(e->capacity * sizeof(*e->args));
  for (size_t i = 0; i < inputs; i++) e->names[i] = m->inputs[i].name;
  for (size_t i = 0; i < outputs; i++) e->names[inputs + i] = m->outputs[i].name;
  e->inputs = (struct mb_names){"input", e->names, inputs};
  e->outputs = (struct mb_names){"output", e->names + inputs, outputs};
  int status = add_tensors(e, m->inputs, m->input_count);
  if (!status) status = add_tensors(e, m->outputs, m->output_count);
  if (!status) status = add_pools(e);
  return status;
}

static int set_params(struct aot_executor *e, const struct mb_stored_arrays *params) {
  int status = MBLOB_OK;
  for (size_t i = 0; !status && i < e->inputs.count; i++) {
    const struct mb_stored_array *param = mb_stored_arrays_find(params, e->inputs.names[i]);
    if (param) status = mb_tensor_assign(param->name, e->arrays[i], &param->view);
  }
  return status;
}

/* Which of them, for errors: "input 'data'". */
#define IO_LABEL 96
static const char *io_label_of(const struct mb_names *names, size_t i, char label[IO_LABEL]) {
  (void)snprintf(label, IO_LABEL, "%s '%.80s'", names->kind, names->names[i]);
  return label;
}

/* ---- methods --------------------------------------------------------------------------------- */

/* Memory that set_input_zero_copy lent is left as it is: it may be read-only. */
static int assign_input(struct aot_executor *e, size_t i, const DLTensor *from) {
  DLTensor *to = e->arrays[i], *own = NULL;
  char label[IO_LABEL];
  int status = mb_array_is_view(to) ? mb_array_new(to->device, to->ndim, to->shape, to->dtype, &own)
                                    : MBLOB_OK;
  if (!status) status = mb_tensor_assign(io_label_of(&e->inputs, i, label), own ? own : to, from);
  if (!own) return status;
  mb_array_release(status ? own : to);
  if (!status) put_value_at(e, i, own);
  return status;
}

static int set_aot_input(void *object, struct mb_call *call) {
  struct aot_executor *e = object;
  DLTensor *from = NULL;
  size_t i = 0;
  int status = mb_call_expect(call, 2, 2);
  if (!status) status = mb_names_argument(&e->inputs, call, 0, &i);
  if (!status) status = mb_call_tensor(call, 1, &from);
  return status ? status : assign_input(e, i, from);
}

/* Use the caller's memory from now on: an array is kept, other memory must outlive the executor. */
static int set_zero_copy(struct aot_executor *e, const struct mb_names *names, size_t first,
                         struct mb_call *call) {
  DLTensor *given = NULL, *view = NULL;
  char label[IO_LABEL];
  size_t i = 0;
  int status = mb_call_expect(call, 2, 2);
  if (!status) status = mb_names_argument(names, call, 0, &i);
  if (!status) status = mb_call_tensor(call, 1, &given);
  if (!status)
    status = mb_tensor_borrow(io_label_of(names, i, label), e->arrays[first + i], given,
                              call->codes[1] == kTVMNDArrayHandle, &view);
  if (status) return status;
  mb_array_release(e->arrays[first + i]);
  put_value_at(e, first + i, view);
  return MBLOB_OK;
}

static int set_input_zero_copy(void *object, struct mb_call *call) {
  struct aot_executor *e = object;
  return set_zero_copy(e, &e->inputs, 0, call);
}

static int set_output_zero_copy(void *object, struct mb_call *call) {
  struct aot_executor *e = object;
  return set_zero_copy(e, &e->outputs, e->inputs.count, call);
}

/* The array itself, or with a second argument: copy it there. */
static int get_io(struct aot_executor *e, const struct mb_names *names, size_t first,
                  struct mb_call *call) {
  DLTensor *to = NULL;
  size_t i = 0;
  int status = mb_call_expect(call, 1, 2);
  if (!status) status = mb_names_argument(names, call, 0, &i);
  if (status) return status;
  DLTensor *array = e->arrays[first + i];
  if (call->count == 2) {
    status = mb_call_tensor(call, 1, &to);
    char label[IO_LABEL];
    return status ? status : mb_tensor_assign_output(io_label_of(names, i, label), to, array);
  }
  mb_array_retain(array);
  mb_call_return_array(call, array);
  return MBLOB_OK;
}

static int get_input(void *object, struct mb_call *call) {
  struct aot_executor *e = object;
  return get_io(e, &e->inputs, 0, call);
}

static int get_aot_output(void *object, struct mb_call *call) {
  struct aot_executor *e = object;
  return get_io(e, &e->outputs, e->inputs.count, call);
}

static int run_aot(void *object, struct mb_call *call) {
  struct aot_executor *e = object;
  int status = mb_call_expect(call, 0, 0);
  if (!status) status = mblob_function_call(e->entry, e->args, e->codes, (int)e->count, NULL, NULL);
  return status;
}

/* (repeat = 1): see mb_aot_profile. */
static int profile_aot(void *object, struct mb_call *call) {
  struct aot_executor *e = object;
  int64_t repeat = 1;
  int status = mb_call_expect(call, 0, 1);
  if (!status && call->count) status = mb_call_int(call, 0, &repeat);
  if (!status && repeat < 1)
    status = mb_fail(MBLOB_E_ARGUMENT, "repeat %lld, expected at least 1", (long long)repeat);
  return status ? status : mb_aot_profile(e->entry, e->args, e->codes, (int)e->count, repeat, call);
}

static int get_num_inputs(void *object, struct mb_call *call) {
  const struct aot_executor *e = object;
  mb_call_return_int(call, (int64_t)e->inputs.count);
  return mb_call_expect(call, 0, 0);
}

static int get_num_outputs(void *object, struct mb_call *call) {
  const struct aot_executor *e = object;
  mb_call_return_int(call, (int64_t)e->outputs.count);
  return mb_call_expect(call, 0, 0);
}

static int get_index(const struct mb_names *names, struct mb_call *call) {
  size_t i = 0;
  int status = mb_call_expect(call, 1, 1);
  if (!status) status = mb_names_argument(names, call, 0, &i);
  if (!status) mb_call_return_int(call, (int64_t)i);
  return status;
}

static int get_input_index(void *object, struct mb_call *call) {
  return get_index(&((struct aot_executor *)object)->inputs, call);
}

static int get_output_index(void *object, struct mb_call *call) {
  return get_index(&((struct aot_executor *)object)->outputs, call);
}

static int get_input_name(void *object, struct mb_call *call) {
  const struct aot_executor *e = object;
  size_t i = 0;
  int status = mb_call_expect(call, 1, 1);
  if (!status) status = mb_names_argument(&e->inputs, call, 0, &i);
  return status ? status : mb_call_return_text(call, e->inputs.names[i]);
}

static int describe_io(void *object, bool outputs, size_t i, size_t *count,
                       struct mb_executor_io *out) {
  const struct aot_executor *e = object;
  const struct mb_names *names = outputs ? &e->outputs : &e->inputs;
  *count = names->count;
  if (i < *count)
    *out =
        (struct mb_executor_io){names->names[i], e->arrays[outputs ? e->inputs.count + i : i], 0};
  return MBLOB_OK;
}

static int get_input_info(void *object, struct mb_call *call) {
  return mb_names_return_info(describe_io, object, false, call);
}

static int get_output_info(void *object, struct mb_call *call) {
  return mb_names_return_info(describe_io, object, true, call);
}

static const struct mb_method aot_methods[] = {{"set_input", set_aot_input},
                                               {"set_input_zero_copy", set_input_zero_copy},
                                               {"set_output_zero_copy", set_output_zero_copy},
                                               {"get_input", get_input},
                                               {"get_output", get_aot_output},
                                               {"run", run_aot},
                                               {"profile", profile_aot},
                                               {"get_num_inputs", get_num_inputs},
                                               {"get_num_outputs", get_num_outputs},
                                               {"get_input_index", get_input_index},
                                               {"get_output_index", get_output_index},
                                               {"get_input_name", get_input_name},
                                               {"get_input_info", get_input_info},
                                               {"get_output_info", get_output_info},
                                               {"", NULL}};

static const struct mb_class aot_executor_class = {.type_key = "AotExecutor",
                                                   .methods = aot_methods,
                                                   .describe = describe_io,
                                                   .close = close_executor};

int mb_aot_executor_create(mblob_module *factory, const struct mb_stored_arrays *params,
                           mblob_module **out) {
  struct aot_executor *e = calloc(1, sizeof(*e));
  *out = NULL;
  if (!e) return mb_fail_memory(sizeof(*e));
  e->factory = mblob_module_retain(factory);
  int status = mb_aot_metadata_get(factory, &e->metadata, &e->entry);
  if (!status) status = fill_values(e);
  if (!status) status = set_params(e, params);
  if (!status) status = mb_builtin_create(&aot_executor_class, e, out);
  if (status) close_executor(e);
  return status;
}
