/* Builtins that check values, and those that make and read tuples. */
#include "exec/relax/annotations.h"
#include "exec/relax/machine.h"

static const char *text_at(const struct mb_call *call, int i) {
  TVMByteArray text;
  return i < call->count && mb_value_text(call->args[i], call->codes[i], &text) ? text.data : "";
}

static const char *key_of(const struct mb_call *call) {
  return relax_key(call->args[0], call->codes[0]);
}

/* (value, rank or -1, type or None, context), or without the type */
static int check_tensor_info(void *unused, struct mb_call *call) {
  (void)unused;
  char expected[MB_DTYPE_TEXT], found[MB_DTYPE_TEXT];
  int64_t rank = 0;
  int status = call->count == 3 || call->count == 4 ? MBLOB_OK : relax_expect(call, 4);
  if (status) return status;
  const char *context = text_at(call, call->count - 1);
  const bool is_tensor =
      call->codes[0] == kTVMNDArrayHandle || call->codes[0] == kTVMDLTensorHandle;
  const DLTensor *t = is_tensor ? call->args[0].v_handle : NULL;
  if (!t)
    return mb_fail(MBLOB_E_KERNEL, "TypeError: %s expect a Tensor but get %s", context,
                   key_of(call));
  status = relax_int(call, 1, &rank);
  if (status) return status;
  if (rank != -1 && rank != t->ndim)
    return mb_fail(MBLOB_E_KERNEL, "ValueError: %s expect Tensor with ndim %lld but get %d",
                   context, (long long)rank, (int)t->ndim);
  if (call->count == 3 || call->codes[2] == kTVMNullptr) return MBLOB_OK;
  DLDataType dtype;
  status = relax_dtype(call, 2, &dtype);
  if (status) return status;
  if (relax_same_dtype(dtype, t->dtype) || (dtype.code == kDLOpaqueHandle && !dtype.bits))
    return MBLOB_OK;
  return mb_fail(MBLOB_E_KERNEL, "ValueError: %s expect Tensor with dtype %s but get %s", context,
                 mb_dtype_text(dtype, expected), mb_dtype_text(t->dtype, found));
}

/* True if a value is an object to TVM. */
static bool is_object(const struct mb_call *call) {
  const int code = call->codes[0];
  return relax_is_counted(code) || code == kTVMNullptr || code == kTVMStr;
}

/* (value, rank or -1, context) */
static int check_shape_info(void *unused, struct mb_call *call) {
  (void)unused;
  int64_t rank = 0;
  int status = relax_expect(call, 3);
  if (!status && !is_object(call)) status = relax_mismatch(call, 0, "ffi.Object");
  if (!status) status = relax_int(call, 1, &rank);
  if (status) return status;
  const struct mb_object *shape = relax_object(call->args[0], call->codes[0], MB_SHAPE_TYPE);
  if (!shape)
    return mb_fail(MBLOB_E_KERNEL, "TypeError: %s expect a Shape but get %s", text_at(call, 2),
                   key_of(call));
  if (rank == -1 || (uint64_t)rank == mb_object_count(shape)) return MBLOB_OK;
  return mb_fail(MBLOB_E_KERNEL, "ValueError: %s expect Shape with ndim %lld but get %zu",
                 text_at(call, 2), (long long)rank, mb_object_count(shape));
}

/* (value, count, context) */
static int check_tuple_info(void *unused, struct mb_call *call) {
  (void)unused;
  int64_t count = 0;
  int status = relax_expect(call, 3);
  if (!status && !is_object(call)) status = relax_mismatch(call, 0, "ffi.Object");
  if (!status) status = relax_int(call, 1, &count);
  if (status) return status;
  const struct mb_object *array = relax_object(call->args[0], call->codes[0], MB_ARRAY_TYPE);
  if (!array)
    return mb_fail(MBLOB_E_KERNEL, "TypeError: %s expect a Tuple but get %s", text_at(call, 2),
                   key_of(call));
  if (count == (int64_t)mb_object_count(array)) return MBLOB_OK;
  return mb_fail(
      MBLOB_E_KERNEL,
      "ValueError: %s expect a Tuple with %lld elements,  but get a Tuple with %zu elements.",
      text_at(call, 2), (long long)count, mb_object_count(array));
}

static int cannot_convert(const struct mb_call *call, const char *to) {
  return mb_fail(MBLOB_E_KERNEL, "TypeError: Cannot convert from type `%s` to `%s`", key_of(call),
                 to);
}

/* (value, type, context) */
static int check_prim_value_info(void *unused, struct mb_call *call) {
  (void)unused;
  char text[MB_DTYPE_TEXT];
  int status = relax_expect(call, 3);
  DLDataType dtype;
  if (!status) status = relax_dtype(call, 1, &dtype);
  if (status) return status;
  const int code = call->codes[0];
  const bool is_int = code == kTVMArgInt || code == kTVMArgBool;
  if (is_object(call))
    return mb_fail(MBLOB_E_KERNEL,
                   "TypeError: %s, expected dtype %s, but received ObjectRef of type %s",
                   text_at(call, 2), mb_dtype_text(dtype, text), key_of(call));
  switch (dtype.code) {
    case kDLInt:
    case kDLUInt: return is_int ? MBLOB_OK : cannot_convert(call, dtype.bits == 1 ? "bool" : "int");
    case kDLFloat:
    case kDLBfloat:
      return is_int || code == kTVMArgFloat ? MBLOB_OK : cannot_convert(call, "float");
    case kDLOpaqueHandle:
      if (dtype.bits) return code == kTVMOpaqueHandle ? MBLOB_OK : cannot_convert(call, "void*");
      break;
    default: break;
  }
  return mb_fail(MBLOB_E_KERNEL, "TypeError: %s, unsupported dtype %s", text_at(call, 2),
                 mb_dtype_text(dtype, text));
}

/* (value, context) */
static int check_func_info(void *unused, struct mb_call *call) {
  (void)unused;
  int status = relax_expect(call, 2);
  if (!status && !is_object(call)) status = relax_mismatch(call, 0, "ffi.Object");
  if (status || call->codes[0] == kTVMPackedFuncHandle) return status;
  return mb_fail(MBLOB_E_KERNEL, "TypeError: %s expect a Function but get %s", text_at(call, 1),
                 key_of(call));
}

/* (value, context) */
static int check_string_info(void *unused, struct mb_call *call) {
  (void)unused;
  TVMByteArray text;
  int status = relax_expect(call, 2);
  if (status || mb_value_text(call->args[0], call->codes[0], &text)) return status;
  return mb_fail(MBLOB_E_KERNEL, "TypeError: %s expect a string but get %s", text_at(call, 1),
                 key_of(call));
}

/* ---- tuples ---------------------------------------------------------------------------------- */

int relax_item_argument(const struct mb_call *call, struct mb_object **array, int64_t *i) {
  int status = relax_expect(call, 2);
  if (!status) status = relax_array(call, 0, array);
  if (!status) status = relax_int(call, 1, i);
  if (!status && (*i < 0 || (uint64_t)*i >= mb_object_count(*array)))
    status = mb_fail(MBLOB_E_KERNEL, "IndexError: Index %lld out of bounds %zu", (long long)*i,
                     mb_object_count(*array));
  return status;
}

static int tuple_getitem(void *unused, struct mb_call *call) {
  (void)unused;
  struct mb_object *array = NULL;
  int64_t i = 0;
  int status = relax_item_argument(call, &array, &i);
  return status ? status
                : mb_return_set(call->result, mb_object_value(array, (size_t)i),
                                mb_object_item(array, (size_t)i)->code);
}

const struct mb_method relax_check_functions[] = {
    {"vm.builtin.check_tensor_info", check_tensor_info},
    {"vm.builtin.check_shape_info", check_shape_info},
    {"vm.builtin.check_tuple_info", check_tuple_info},
    {"vm.builtin.check_prim_value_info", check_prim_value_info},
    {"vm.builtin.check_func_info", check_func_info},
    {"vm.builtin.check_string_info", check_string_info},
    {"vm.builtin.make_tuple", mb_object_make_array},
    {"vm.builtin.tuple_getitem", tuple_getitem},
    {"", NULL}};
