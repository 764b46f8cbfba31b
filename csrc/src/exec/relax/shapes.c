/* Builtins about shapes and the numbers in them. */
#include <stdlib.h>
#include <string.h>

#include "exec/relax/machine.h"

/* What a code in front of a number means. */
enum { EQUAL_TO_NUMBER = 0, STORE = 1, ANYTHING = 2, EQUAL_TO_STORED = 3 };

/* "CTX", the text in the last argument of a builtin. */
static const char *context_text(const struct mb_call *call) {
  TVMByteArray text;
  const int last = call->count - 1;
  return last >= 0 && mb_value_text(call->args[last], call->codes[last], &text) ? text.data : "";
}

/* ---- the heap -------------------------------------------------------------------------------- */

struct heap {
  int64_t *data;
  int64_t count;
};

static int heap_argument(const struct mb_call *call, int i, bool needed, struct heap *out) {
  DLTensor *t = NULL;
  *out = (struct heap){NULL, 0};
  if (!needed && i < call->count && call->codes[i] == kTVMNullptr) return MBLOB_OK;
  int status = relax_tensor(call, i, &t);
  if (status) return status;
  const bool fits = t->ndim == 1 && t->dtype.code == kDLInt && t->dtype.bits == 64 &&
                    t->dtype.lanes == 1 && mb_device_is_host((int)t->device.device_type) &&
                    mb_is_compact(t);
  if (!fits)
    return mb_fail_coded(MBLOB_E_KERNEL, MB_ARGUMENT_TYPE,
                         "TypeError: %s: argument #%d is no heap of shapes", call->method, i);
  *out = (struct heap){(int64_t *)(void *)((char *)t->data + t->byte_offset), t->shape[0]};
  return MBLOB_OK;
}

static int slot_of(const struct heap *heap, int64_t i, int64_t **out) {
  *out = i >= 0 && i < heap->count ? &heap->data[i] : NULL;
  if (*out) return MBLOB_OK;
  return mb_fail(MBLOB_E_KERNEL, "InternalError: slot %lld of a heap of %lld", (long long)i,
                 (long long)heap->count);
}

/* ---- match_shape ----------------------------------------------------------------------------- */

/* The dimensions of a tensor or a shape. */
struct dimensions {
  const int64_t *extents;
  const struct mb_object *shape;
  int64_t count;
};

static int64_t extent(const struct dimensions *d, int64_t i) {
  return d->shape ? mb_object_item(d->shape, (size_t)i)->value.v_int64 : d->extents[i];
}

static int dimensions_of(const struct mb_call *call, int i, struct dimensions *out) {
  const int code = i < call->count ? call->codes[i] : kTVMNullptr;
  if (code == kTVMNDArrayHandle || code == kTVMDLTensorHandle) {
    const DLTensor *t = call->args[i].v_handle;
    *out = (struct dimensions){t->shape, NULL, t->ndim};
    return MBLOB_OK;
  }
  struct mb_object *shape = i < call->count ? relax_extents(call->args[i], code) : NULL;
  if (!shape)
    return mb_fail(MBLOB_E_KERNEL, "TypeError: Cannot convert from type `%s` to `ffi.Shape`",
                   i < call->count ? relax_key(call->args[i], code) : "None");
  *out = (struct dimensions){NULL, shape, (int64_t)mb_object_count(shape)};
  return MBLOB_OK;
}

static int match(const struct mb_call *call, const char *what, const struct heap *heap,
                 int64_t code, int64_t number, int64_t found) {
  int64_t *slot = NULL;
  if (code == ANYTHING) return MBLOB_OK;
  if (code == EQUAL_TO_NUMBER)
    return found == number
               ? MBLOB_OK
               : mb_fail(MBLOB_E_KERNEL,
                         "RuntimeError: Check failed: (%lld vs. %lld) : %s match_cast error, %s "
                         "mismatch to specified constant.",
                         (long long)found, (long long)number, context_text(call), what);
  if (code != STORE && code != EQUAL_TO_STORED)
    return mb_fail(MBLOB_E_KERNEL, "InternalError: Unknown match code: %lld", (long long)code);
  int status = slot_of(heap, number, &slot);
  if (status) return status;
  if (code == STORE) {
    *slot = found;
    return MBLOB_OK;
  }
  if (*slot == found) return MBLOB_OK;
  return mb_fail(
      MBLOB_E_KERNEL,
      "RuntimeError: Check failed: (%lld vs. %lld) : %s match_cast error, %s mismatch to a "
      "previous populated value.",
      (long long)found, (long long)*slot, context_text(call), what);
}

static void put_dimension(char text[40], int64_t i) {
  static const char digits[] = "0123456789";
  size_t at = 7;
  (void)memcpy(text, " shape[", 7);
  if (i >= 10) text[at++] = digits[i / 10 % 10];
  text[at++] = digits[i % 10];
  text[at++] = ']';
  text[at] = 0;
}

/* (value, heap or None, n, (code, number) * n, context) */
static int match_shape(void *unused, struct mb_call *call) {
  (void)unused;
  struct dimensions found = {NULL, NULL, 0};
  struct heap heap;
  int64_t rank = 0;
  int status = call->count >= 4 ? MBLOB_OK : relax_expect(call, 4);
  if (!status) status = dimensions_of(call, 0, &found);
  if (!status) status = heap_argument(call, 1, false, &heap);
  if (!status) status = relax_int(call, 2, &rank);
  if (status) return status;
  if (rank < 0 || rank > call->count || 3 + 2 * rank + 1 != call->count)
    return mb_fail(MBLOB_E_KERNEL, "InternalError: %s: %d arguments for %lld dimensions",
                   call->method, call->count, (long long)rank);
  if (found.count != rank)
    return mb_fail(
        MBLOB_E_KERNEL,
        "RuntimeError: Check failed: (%lld vs. %lld) : %s match_cast shape size mismatch.",
        (long long)found.count, (long long)rank, context_text(call));
  for (int64_t i = 0; !status && i < rank; i++) {
    int64_t code = 0, number = 0;
    const int at = (int)(3 + 2 * i);
    status = relax_int(call, at, &code);
    if (!status) status = relax_int(call, at + 1, &number);
    const int64_t dimension = extent(&found, i);
    if (status || code == ANYTHING || (code == EQUAL_TO_NUMBER && dimension == number)) continue;
    char what[40];
    put_dimension(what, i);
    status = match(call, what, &heap, code, number, dimension);
  }
  return status;
}

/* (int, heap, code, number, context) */
static int match_prim_value(void *unused, struct mb_call *call) {
  (void)unused;
  struct heap heap;
  int64_t value = 0, code = 0, number = 0;
  int status = relax_expect(call, 5);
  if (!status && call->codes[0] != kTVMArgInt && call->codes[0] != kTVMArgBool)
    status = mb_fail(MBLOB_E_KERNEL, "TypeError: Cannot convert from type `%s` to `int`",
                     relax_key(call->args[0], call->codes[0]));
  if (!status) value = call->args[0].v_int64;
  if (!status) status = heap_argument(call, 1, true, &heap);
  if (!status) status = relax_int(call, 2, &code);
  if (!status) status = relax_int(call, 3, &number);
  return status ? status : match(call, "PrimExpr", &heap, code, number, value);
}

/* ---- making ---------------------------------------------------------------------------------- */

static int made_number(const struct heap *heap, int64_t code, int64_t number, int64_t *out) {
  int64_t *slot = NULL;
  if (code == EQUAL_TO_NUMBER) {
    *out = number;
    return MBLOB_OK;
  }
  if (code != STORE)
    return mb_fail(MBLOB_E_KERNEL, "InternalError: Invalid shape code: %lld", (long long)code);
  int status = slot_of(heap, number, &slot);
  if (!status) *out = *slot;
  return status;
}

/* (heap, code, number) */
static int make_prim_value(void *unused, struct mb_call *call) {
  (void)unused;
  struct heap heap;
  int64_t code = 0, number = 0, value = 0;
  int status = relax_expect(call, 3);
  if (!status) status = heap_argument(call, 0, true, &heap);
  if (!status) status = relax_int(call, 1, &code);
  if (!status) status = relax_int(call, 2, &number);
  if (!status) status = made_number(&heap, code, number, &value);
  if (!status) mb_call_return_int(call, value);
  return status;
}

/* (heap or None, n, (code, number) * n) */
static int make_relax_shape(void *unused, struct mb_call *call) {
  (void)unused;
  struct heap heap;
  int64_t rank = 0;
  struct mb_object *shape = NULL;
  int status = call->count >= 2 ? MBLOB_OK : relax_expect(call, 2);
  if (!status) status = heap_argument(call, 0, false, &heap);
  if (!status) status = relax_int(call, 1, &rank);
  if (status) return status;
  if (rank < 0 || rank > call->count || 2 + 2 * rank != call->count)
    return mb_fail(MBLOB_E_KERNEL, "InternalError: %s: %d arguments for %lld dimensions",
                   call->method, call->count, (long long)rank);
  int64_t *extents = mb_block_take((size_t)rank * sizeof(*extents));
  if (!extents) return mb_fail_memory((size_t)rank * sizeof(*extents));
  for (int64_t i = 0; !status && i < rank; i++) {
    int64_t code = 0, number = 0;
    status = relax_int(call, (int)(2 + 2 * i), &code);
    if (!status) status = relax_int(call, (int)(3 + 2 * i), &number);
    if (!status) status = made_number(&heap, code, number, &extents[i]);
  }
  if (!status) status = mb_object_new_shape(extents, (size_t)rank, &shape);
  mb_block_give(extents, (size_t)rank * sizeof(*extents));
  if (!status) relax_return_object(call, shape);
  return status;
}

static int relax_shape_of(void *unused, struct mb_call *call) {
  (void)unused;
  struct mb_object *shape = NULL;
  int status = relax_expect(call, 1);
  if (status) return status;
  const bool is_tensor =
      call->codes[0] == kTVMNDArrayHandle || call->codes[0] == kTVMDLTensorHandle;
  if (!is_tensor || !call->args[0].v_handle)
    return mb_fail(MBLOB_E_KERNEL,
                   "TypeError: vm.builtin.shape_of expects a Tensor or DLTensor*, but get %s",
                   relax_key(call->args[0], call->codes[0]));
  const DLTensor *t = call->args[0].v_handle;
  status = mb_object_new_shape(t->shape, (size_t)t->ndim, &shape);
  if (!status) relax_return_object(call, shape);
  return status;
}

/* ---- numbers in tensors ---------------------------------------------------------------------- */

/* The tensor in memory of the host: itself, or a copy, which is to be released. */
static int on_host(DLTensor *t, DLTensor **out, DLTensor **made) {
  *made = NULL;
  *out = t;
  if (mb_device_is_host((int)t->device.device_type)) return MBLOB_OK;
  int status = vm_tensor_new(t->ndim, t->shape, t->dtype, made);
  if (!status) status = mb_array_copy(t, *made, NULL);
  *out = *made;
  return status;
}

static int scalar_type(DLDataType dtype) {
  char text[MB_DTYPE_TEXT];
  return mb_fail(MBLOB_E_KERNEL, "InternalError: Unknown scalar int type: %s",
                 mb_dtype_text(dtype, text));
}

static int element(const DLTensor *t, size_t i, int64_t *out) {
  const char *data = (const char *)t->data + t->byte_offset;
  int8_t byte;
  int16_t half;
  int32_t word;
  switch (t->dtype.bits) {
    case 1:
    case 8: memcpy(&byte, data + i, 1), *out = byte; return MBLOB_OK;
    case 16: memcpy(&half, data + 2 * i, 2), *out = half; return MBLOB_OK;
    case 32: memcpy(&word, data + 4 * i, 4), *out = word; return MBLOB_OK;
    case 64: memcpy(out, data + 8 * i, 8); return MBLOB_OK;
    default: return scalar_type(t->dtype);
  }
}

static int condition_of_tensor(DLTensor *given, int64_t *out) {
  DLTensor *t = NULL, *made = NULL;
  size_t size = 0;
  char text[MB_DTYPE_TEXT];
  if (given->dtype.code != kDLInt && given->dtype.code != kDLUInt)
    return mb_fail(MBLOB_E_KERNEL,
                   "InternalError: a condition of type %s, expected int, uint or bool",
                   mb_dtype_text(given->dtype, text));
  int status = mb_tensor_size(given, &size);
  if (!status && !size)
    status = mb_fail(MBLOB_E_KERNEL, "ValueError: a condition that is a tensor without elements");
  if (!status) status = on_host(given, &t, &made);
  if (!status) status = element(t, 0, out);
  if (made) mb_array_release(made);
  return status;
}

static int read_if_cond(void *unused, struct mb_call *call) {
  (void)unused;
  int64_t value = 0;
  int status = relax_expect(call, 1);
  if (status) return status;
  if (call->codes[0] == kTVMArgInt || call->codes[0] == kTVMArgBool)
    value = call->args[0].v_int64;
  else if ((call->codes[0] == kTVMNDArrayHandle || call->codes[0] == kTVMDLTensorHandle) &&
           call->args[0].v_handle)
    status = condition_of_tensor(call->args[0].v_handle, &value);
  else
    status = mb_fail(MBLOB_E_KERNEL, "TypeError: Cannot convert from type `%s` to `ffi.Tensor`",
                     relax_key(call->args[0], call->codes[0]));
  if (!status) relax_return(call, (TVMValue){.v_int64 = value != 0}, kTVMArgBool);
  return status;
}

static int tensor_to_shape(void *unused, struct mb_call *call) {
  (void)unused;
  DLTensor *given = NULL, *t = NULL, *made = NULL;
  struct mb_object *shape = NULL;
  int status = relax_expect(call, 1);
  if (!status) status = relax_tensor(call, 0, &given);
  if (status) return status;
  if (given->ndim != 1)
    return mb_fail(MBLOB_E_KERNEL,
                   "InternalError: a tensor of %d dimensions is no shape, expected 1",
                   (int)given->ndim);
  const DLDataType dtype = given->dtype;
  if (dtype.code != kDLInt || dtype.lanes != 1 || dtype.bits < 16) return scalar_type(dtype);
  const size_t count = (size_t)given->shape[0];
  status = on_host(given, &t, &made);
  int64_t *extents = status ? NULL : mb_block_take_unset(count * sizeof(*extents));
  if (!status && !extents) status = mb_fail_memory(count * sizeof(*extents));
  for (size_t i = 0; !status && i < count; i++) status = element(t, i, &extents[i]);
  if (!status) status = mb_object_new_shape(extents, count, &shape);
  if (extents) mb_block_give(extents, count * sizeof(*extents));
  if (made) mb_array_release(made);
  if (!status) relax_return_object(call, shape);
  return status;
}

const struct mb_method relax_shape_functions[] = {{"vm.builtin.match_shape", match_shape},
                                                  {"vm.builtin.match_prim_value", match_prim_value},
                                                  {"vm.builtin.make_prim_value", make_prim_value},
                                                  {"vm.builtin.make_shape", make_relax_shape},
                                                  {"vm.builtin.shape_of", relax_shape_of},
                                                  {"vm.builtin.read_if_cond", read_if_cond},
                                                  {"vm.builtin.tensor_to_shape", tensor_to_shape},
                                                  {"", NULL}};
