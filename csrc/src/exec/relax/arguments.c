/* Arguments of builtins, with the errors and kinds of TVM's typed functions. */
#include "exec/relax/machine.h"

int relax_expect(const struct mb_call *call, int count) {
  if (call->count == count) return MBLOB_OK;
  return mb_fail(
      MBLOB_E_KERNEL,
      "TypeError: Mismatched number of arguments when calling: `%s`. Expected %d but got "
      "%d arguments",
      call->method, count, call->count);
}

int relax_mismatch(const struct mb_call *call, int i, const char *expected) {
  return mb_fail(MBLOB_E_KERNEL,
                 "TypeError: Mismatched type on argument #%d when calling: `%s`. Expected `%s` but "
                 "got `%s`",
                 i, call->method, expected,
                 i < call->count ? relax_key(call->args[i], call->codes[i]) : "nothing");
}

int relax_int(const struct mb_call *call, int i, int64_t *out) {
  const int code = i < call->count ? call->codes[i] : -1;
  if (code != kTVMArgInt && code != kTVMArgBool) return relax_mismatch(call, i, "int");
  *out = call->args[i].v_int64;
  return MBLOB_OK;
}

int relax_dtype(const struct mb_call *call, int i, DLDataType *out) {
  TVMByteArray text;
  if (i < call->count && call->codes[i] == kTVMDataType) {
    *out = call->args[i].v_type;
    return MBLOB_OK;
  }
  if (i < call->count && mb_value_text(call->args[i], call->codes[i], &text) &&
      mb_dtype_parse_stored(text.data, text.size, out))
    return MBLOB_OK;
  return relax_mismatch(call, i, "DataType");
}

int relax_name(const struct mb_call *call, int i, const char **out) {
  TVMByteArray text;
  if (i >= call->count || !mb_value_text(call->args[i], call->codes[i], &text))
    return relax_mismatch(call, i, "ffi.String");
  *out = text.data;
  return strlen(text.data) == text.size
             ? MBLOB_OK
             : mb_fail_argument(MB_ARGUMENT_VALUE,
                                "argument %d: the name has a NUL inside, after "
                                "'%s'",
                                i, text.data);
}

int relax_tensor(const struct mb_call *call, int i, DLTensor **out) {
  const int code = i < call->count ? call->codes[i] : -1;
  *out = code == kTVMNDArrayHandle || code == kTVMDLTensorHandle ? call->args[i].v_handle : NULL;
  return *out ? MBLOB_OK : relax_mismatch(call, i, "ffi.Tensor");
}

struct mb_object *relax_extents(TVMValue value, int code) {
  struct mb_object *shape = relax_object(value, code, MB_SHAPE_TYPE),
                   *array = shape ? NULL : relax_object(value, code, MB_ARRAY_TYPE);
  for (size_t i = 0; array && i < mb_object_count(array); i++)
    if (mb_object_item(array, i)->code != kTVMArgInt) array = NULL;
  return shape ? shape : array;
}

int relax_shape(const struct mb_call *call, int i, struct mb_object **out) {
  *out = i < call->count ? relax_extents(call->args[i], call->codes[i]) : NULL;
  return *out ? MBLOB_OK : relax_mismatch(call, i, "ffi.Shape");
}

int relax_array(const struct mb_call *call, int i, struct mb_object **out) {
  *out = i < call->count ? relax_object(call->args[i], call->codes[i], MB_ARRAY_TYPE) : NULL;
  return *out ? MBLOB_OK : relax_mismatch(call, i, "ffi.Array");
}

int relax_context(const struct mb_call *call, struct relax_machine **out) {
  const struct relax_activation *running =
      call->count && call->codes[0] == kTVMOpaqueHandle ? relax_running() : NULL;
  while (running && running->machine != call->args[0].v_handle) running = running->outer;
  *out = running ? running->machine : NULL;
  if (*out) return MBLOB_OK;
  return mb_fail_coded(
      MBLOB_E_KERNEL, MB_ARGUMENT_VALUE,
      "InternalError: %s: argument #0 is not the machine that runs (ctx_ptr == this)",
      call->method);
}

void relax_return(struct mb_call *call, TVMValue value, int code) {
  mb_return_drop(call->result);
  call->result->value = value;
  call->result->code = code;
}

void relax_return_object(struct mb_call *call, struct mb_object *object) {
  relax_return(call, (TVMValue){.v_handle = object}, kTVMObjectHandle);
}
