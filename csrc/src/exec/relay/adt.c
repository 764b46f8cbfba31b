#include "exec/relay/adt.h"
#include "exec/relay/relay.h"

#include <stdlib.h>

#include "base/base.h"
#include "core/device/device.h"
#include "exec/common/common.h"
#include "exec/relay/executable.h"
#include "format/format.h"

struct adt {
  struct vm_value value; /* VM_ADT, counted */
  const struct vm_executable *exec;
  mblob_module *owner; /* of `exec`, counted; NULL of one that a caller made */
};

static const struct mb_class adt_class; /* defined below */

/* ---- out ------------------------------------------------------------------------------------- */

static bool is_constant(const struct vm_executable *exec, const DLTensor *array) {
  uintptr_t data = (uintptr_t)array->data;
  for (size_t i = 0; exec && i < exec->constant_count; i++) {
    const DLTensor *constant = &exec->constants[i].view;
    size_t size = 0;
    if (!constant->data || mb_tensor_size(constant, &size)) continue;
    uintptr_t start = (uintptr_t)constant->data;
    if (data >= start && data - start < size) return true;
  }
  return false;
}

static int return_array(DLTensor *array, const struct vm_executable *exec, struct mb_call *call) {
  DLTensor *copy = NULL;
  if (!is_constant(exec, array)) {
    mb_array_retain(array);
    mb_call_return_array(call, array);
    return MBLOB_OK;
  }
  int status = mb_array_new((DLDevice){kDLCPU, 0}, array->ndim, array->shape, array->dtype, &copy);
  if (status) return status;
  status = mb_tensor_assign("result", copy, array);
  if (status)
    mb_array_release(copy);
  else
    mb_call_return_array(call, copy);
  return status;
}

static int return_adt(struct vm_value value, const struct vm_executable *exec,
                      struct mb_call *call) {
  mblob_module *module = NULL;
  struct adt *adt = malloc(sizeof(*adt));
  if (!adt) return mb_fail_memory(sizeof(*adt));
  *adt = (struct adt){value, exec, exec ? mblob_module_retain(exec->module) : NULL};
  vm_value_retain(value);
  int status = mb_builtin_create(&adt_class, adt, &module);
  if (status)
    adt_class.close(adt);
  else
    mb_call_return_module(call, module);
  return status;
}

int vm_value_return(struct vm_value value, const struct vm_executable *exec, struct mb_call *call) {
  if (value.kind == VM_ARRAY) return return_array(value.u.array, exec, call);
  if (value.kind == VM_ADT) return return_adt(value, exec, call);
  return mb_fail(MBLOB_E_ARGUMENT, "the result is %s, expected an array or a tuple",
                 vm_kind_name(value.kind));
}

/* ---- in -------------------------------------------------------------------------------------- */

static bool is_usable(const DLTensor *t) {
  return mb_device_is_host((int)t->device.device_type) && !t->strides && !t->byte_offset &&
         (uintptr_t)t->data % MB_DEFAULT_ALIGNMENT == 0;
}

static int tensor_argument(const struct mb_call *call, int i, struct vm_value *out) {
  DLTensor *given = NULL, *copy = NULL;
  size_t size = 0;
  int status = mb_call_tensor(call, i, &given);
  if (!status) status = mb_tensor_check(given, &size);
  if (status) return status;
  if (call->codes[i] == kTVMNDArrayHandle && is_usable(given)) {
    mb_array_retain(given);
    copy = given;
  } else {
    status = mb_array_new((DLDevice){kDLCPU, 0}, given->ndim, given->shape, given->dtype, &copy);
    if (!status) status = mb_tensor_assign("argument", copy, given);
    if (status && copy) mb_array_release(copy);
  }
  if (!status) *out = (struct vm_value){.kind = VM_ARRAY, .u.array = copy};
  return status;
}

int vm_value_argument(const struct mb_call *call, int i, struct vm_value *out) {
  mblob_module *module = NULL;
  if (i >= call->count || call->codes[i] != kTVMModuleHandle) return tensor_argument(call, i, out);
  int status = mb_call_module(call, i, &module);
  if (status) return status;
  const struct adt *adt = mb_builtin_object(module, &adt_class);
  if (!adt)
    return mb_fail_argument(
        MB_ARGUMENT_TYPE,
        "argument %d: a module of the key '%s', expected a tensor or a tuple (%s)", i,
        mblob_module_type_key(module), adt_class.type_key);
  vm_value_retain(adt->value);
  *out = adt->value;
  return MBLOB_OK;
}

/* ---- the module ------------------------------------------------------------------------------ */

static void close_adt(void *object) {
  struct adt *adt = object;
  vm_value_clear(&adt->value);
  mblob_module_release(adt->owner);
  free(adt);
}

static int adt_get_tag(void *object, struct mb_call *call) {
  const struct adt *adt = object;
  mb_call_return_int(call, adt->value.u.compound->tag);
  return mb_call_expect(call, 0, 0);
}

static int adt_get_size(void *object, struct mb_call *call) {
  const struct adt *adt = object;
  mb_call_return_int(call, (int64_t)adt->value.u.compound->count);
  return mb_call_expect(call, 0, 0);
}

static int adt_get_field(void *object, struct mb_call *call) {
  const struct adt *adt = object;
  const struct vm_compound *compound = adt->value.u.compound;
  int64_t i = 0;
  int status = mb_call_expect(call, 1, 1);
  if (!status) status = mb_call_int(call, 0, &i);
  if (status) return status;
  if (i < 0 || (uint64_t)i >= compound->count)
    return mb_fail_argument(MB_ARGUMENT_INDEX, MB_TEXT_NO_FIELD, (long long)i, compound->count);
  return vm_value_return(compound->fields[i], adt->exec, call);
}

static const struct mb_method adt_methods[] = {
    {"get_tag", adt_get_tag}, {"get_size", adt_get_size}, {"get_field", adt_get_field}, {"", NULL}};

static const struct mb_class adt_class = {
    .type_key = "runtime.ADT", .methods = adt_methods, .close = close_adt};

/* ---- made by callers ------------------------------------------------------------------------- */

static int make_adt(struct mb_call *call, int64_t tag, int first) {
  struct vm_compound *compound = NULL;
  int status = vm_compound_new(tag, (size_t)(call->count - first), &compound);
  if (status) return status;
  struct vm_value value = {.kind = VM_ADT, .u.compound = compound};
  for (int i = first; !status && i < call->count; i++)
    status = vm_value_argument(call, i, &compound->fields[i - first]);
  if (!status) status = vm_value_return(value, NULL, call);
  vm_value_clear(&value);
  if (status) mb_error_prefix(call->method);
  return status;
}

int mb_vm_tuple(TVMValue *args, int *codes, int count, TVMRetValueHandle ret, void *resource) {
  struct mb_call call = {
      .method = "runtime.Tuple", .args = args, .codes = codes, .count = count, .result = ret};
  (void)resource;
  return make_adt(&call, 0, 0);
}

int mb_vm_adt(TVMValue *args, int *codes, int count, TVMRetValueHandle ret, void *resource) {
  struct mb_call call = {
      .method = "runtime.ADT", .args = args, .codes = codes, .count = count, .result = ret};
  int64_t tag = 0;
  (void)resource;
  int status = mb_call_int(&call, 0, &tag);
  return status ? status : make_adt(&call, tag, 1);
}
