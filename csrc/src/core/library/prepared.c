/* Calls of functions whose types are read first: mblob_prepare, mblob_call_prepared and mblob_call. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/call/call.h"
#include "core/device/device.h"
#include "core/library/call_text.h"

static __attribute__((cold)) int out_of_range(const mblob_prepared *c, const struct mb_argument *a,
                                              long long value) {
  return mb_fail(MBLOB_E_ARGUMENT, "%s: argument %zu of \"%s\": %lld is no %s", c->name, a->number,
                 c->types, value, a->word->name);
}

/* A number that arrives wider than it is. */
static bool fits_word(const struct mb_word *word, int64_t value) {
  const uint64_t signs = *word->name == 'i' ? UINT64_C(1) << (word->bits - 1) : 0;
  return word->bits >= 64 || ((uint64_t)value + signs) >> word->bits == 0;
}

/* The packed convention has 64 bits with a sign. A function that is known to take 64 bits
 * without one gets them as they are; to others what is above INT64_MAX would be negative. */
static int take_uint64(const mblob_prepared *c, const struct mb_argument *a, uint64_t value,
                       TVMValue *out) {
  out->v_int64 = (int64_t)value;
  if (value <= INT64_MAX || a->takes_uint64) return MBLOB_OK;
  return mb_fail(
      MBLOB_E_ARGUMENT,
      "%s: argument %zu of \"%s\": %llu is above INT64_MAX, and the library does not say that the function takes a "
      "uint64_t there: it would see a negative number",
      c->name, a->number, c->types, (unsigned long long)value);
}

static int check_number(const mblob_prepared *c, const struct mb_argument *a, int64_t value) {
  if (!fits_word(a->word, value)) return out_of_range(c, a, value);
  if (value < 0 && a->takes_uint64)
    return mb_fail(MBLOB_E_ARGUMENT,
                   "%s: argument %zu of \"%s\": expected 0 or more for a uint64_t, found %lld",
                   c->name, a->number, c->types, (long long)value);
  return MBLOB_OK;
}

/* Weights lie in memory that may not be written: a function that is known to write there would
 * end the process. */
static int check_writable(const mblob_prepared *c, const struct mb_argument *a, const DLTensor *t) {
  if (t->device.device_type != kDLCPU ||
      (uintptr_t)t->data + t->byte_offset - c->blob >= a->guarded)
    return MBLOB_OK;
  return mb_call_wrong(c, a->number,
                       "the function writes there, and the tensor is in the library, which is "
                       "read-only; pass memory of your own");
}

/* Copy data that is less aligned than the kernel needs; the same array is copied once. */
static __attribute__((cold)) int align_array(mblob_prepared *c, struct mb_argument *a) {
  DLTensor *t = &a->tensor;
  const size_t needed = a->misaligned + 1;
  if (!a->size) { /* nobody reads there, but kernels look at the address */
    t->data = (void *)((uintptr_t)t->data & ~a->misaligned);
    return MBLOB_OK;
  }
  for (struct mb_argument *before = c->arguments; before < a; ++before)
    if (before->original == t->data && before->size == a->size) {
      t->data = before->tensor.data; /* written back with that one */
      return MBLOB_OK;
    }
  const size_t place = needed > MB_TENSOR_ALIGNMENT ? needed : MB_TENSOR_ALIGNMENT;
  const size_t room = (a->size + place - 1) / place * place;
  void *copy = aligned_alloc(place, room);
  if (!copy) return mb_fail_memory(room);
  a->original = t->data;
  t->data = memcpy(copy, a->original, a->size);
  c->cleans = true;
  return MBLOB_OK;
}

/* A tensor in a tuple: containers have only counted ones. */
static __attribute__((cold)) int view_tensor(mblob_prepared *c, struct mb_argument *a,
                                             TVMValue *value, int *code) {
  int status = mb_array_view(value->v_handle, NULL, mb_array_release_owner, &a->view);
  value->v_handle = a->view;
  *code = kTVMNDArrayHandle;
  c->cleans = true;
  return status;
}

/* The extents that the text leaves open, mostly one. What is of no usual size is measured, which refuses it. */
static inline __attribute__((always_inline)) int take_extents(mblob_prepared *c,
                                                              struct mb_argument *a,
                                                              va_list *args) {
  ptrdiff_t size = a->step;
  bool is_odd = !size;
  uint32_t open = a->open;
  if (open) do {
      const int64_t extent = a->tensor.shape[__builtin_ctz(open)] = va_arg(*args, int64_t);
      is_odd |= extent <= 0 || __builtin_mul_overflow(size, extent, &size);
      open &= open - 1;
    } while (__builtin_expect(open != 0, 0));
  a->size = (size_t)size;
  return __builtin_expect(is_odd, 0) && a->passed == AS_ARRAY ? mb_call_measure(c, a) : MBLOB_OK;
}

static __attribute__((cold)) int take_open_extents(mblob_prepared *c, struct mb_argument *a,
                                                   va_list *args) {
  return take_extents(c, a, args);
}

/* An array whose pointer is not used as it is. */
static __attribute__((cold)) int take_other(mblob_prepared *c, struct mb_argument *a,
                                            TVMValue *value, int *code) {
  int status = check_writable(c, a, &a->tensor);
  if (!a->tensor.data && a->size) status = mb_call_wrong(c, a->number, "the pointer is NULL");
  if (status) return status;
  if (a->is_inner) return view_tensor(c, a, value, code);
  return (uintptr_t)a->tensor.data & a->misaligned ? align_array(c, a) : MBLOB_OK;
}

static __attribute__((cold)) int take_object(mblob_prepared *c, struct mb_argument *a, int status,
                                             TVMValue *value, int *code) {
  c->cleans = true;
  if (status) return status;
  *value = a->made;
  *code = a->made_code = kTVMObjectHandle;
  return MBLOB_OK;
}

static __attribute__((cold)) int take_tuple(mblob_prepared *c, struct mb_argument *a,
                                            TVMValue *items, int *codes) {
  struct mb_return made = MB_RETURN_NOTHING;
  struct mb_call call = {c->name, items, codes, (int)a->count, &made};
  const int status = mb_object_make_array(NULL, &call);
  a->made = made.value;
  return take_object(c, a, status, items, codes);
}

static __attribute__((cold)) int take_shape(mblob_prepared *c, struct mb_argument *a,
                                            TVMValue *value, int *code) {
  struct mb_object *shape = NULL;
  const int status = mb_object_new_shape(a->tensor.shape, (size_t)a->tensor.ndim, &shape);
  a->made.v_handle = shape;
  return take_object(c, a, status, value, code);
}

static int take_pointer(mblob_prepared *c, struct mb_argument *a, TVMValue *value, int *code) {
  if (!value->v_handle && *code != kTVMOpaqueHandle)
    return mb_call_wrong(c, a->number, "the pointer is NULL");
  if (*code != kTVMDLTensorHandle) return MBLOB_OK;
  int status = check_writable(c, a, value->v_handle);
  return status || !a->is_inner ? status : view_tensor(c, a, value, code);
}

/* The pointer of an array. */
static inline int take_array(mblob_prepared *c, struct mb_argument *a, void *given, TVMValue *value,
                             int *code) {
  const uintptr_t data = (uintptr_t)(a->tensor.data = given);
  value->v_handle = &a->tensor;
  *code = kTVMDLTensorHandle;
  return __builtin_expect(
             !data || data & a->misaligned || data - c->blob < a->guarded || a->is_inner, 0)
             ? take_other(c, a, value, code)
             : MBLOB_OK;
}

/* One value, on top of the stack. */
static inline int take_argument(mblob_prepared *c, struct mb_argument *a, TVMValue *v, int *code,
                                va_list *args) {
  int status = MBLOB_OK;
  if (a->word) *code = a->code;
  switch ((enum passed)a->passed) {
    case AS_INT:
      v->v_int64 = va_arg(*args, int);
      return a->is_checked ? check_number(c, a, v->v_int64) : MBLOB_OK;
    case AS_UNSIGNED: v->v_int64 = va_arg(*args, unsigned); return MBLOB_OK;
    case AS_INT64:
      v->v_int64 = va_arg(*args, int64_t);
      return a->is_checked ? check_number(c, a, v->v_int64) : MBLOB_OK;
    case AS_UINT64: return take_uint64(c, a, va_arg(*args, uint64_t), v);
    case AS_DOUBLE: v->v_float64 = va_arg(*args, double); return MBLOB_OK;
    case AS_POINTER: v->v_handle = va_arg(*args, void *); return take_pointer(c, a, v, code);
    case AS_TUPLE: return take_tuple(c, a, v, code);
    case AS_SHAPE:
      status = take_open_extents(c, a, args);
      return status ? status : take_shape(c, a, v, code);
    case AS_ARRAY:
      if (a->open) status = take_open_extents(c, a, args);
      return status ? status : take_array(c, a, va_arg(*args, void *), v, code);
  }
  return status;
}

/* ---- the result ------------------------------------------------------------------------------ */

static __attribute__((cold)) int wrong_result(const mblob_prepared *c, const char *expected,
                                              int code) {
  return mb_fail(MBLOB_E_ARGUMENT, "%s: result of \"%s\": " MB_TEXT_EXPECTED, c->name, c->types,
                 expected, mb_type_code_name(code));
}

static __attribute__((cold)) int put_call_array(const mblob_prepared *c, const DLTensor *from,
                                                int code) {
  const DLTensor *to = &c->result.tensor;
  if (code == kTVMBytes) { /* a struct by value, and its like */
    const TVMByteArray *bytes = (const TVMByteArray *)(const void *)from;
    if (bytes->size != c->result.size)
      return mb_fail(MBLOB_E_ARGUMENT, "%s: result of \"%s\": %zu bytes do not fit into %zu",
                     c->name, c->types, bytes->size, (size_t)c->result.size);
    if (bytes->size) memcpy(to->data, bytes->data, bytes->size);
    return MBLOB_OK;
  }
  if (code != kTVMNDArrayHandle) return wrong_result(c, "a tensor", code);
  int status = mb_tensor_match("result", to, from);
  if (!status) return mb_array_copy(from, to, NULL);
  mb_error_prefix(c->name);
  return status;
}

static __attribute__((cold)) int put_number(const mblob_prepared *c, void *to, int64_t value) {
  const struct mb_word *word = c->result.word;
  if (!fits_word(word, value)) return out_of_range(c, &c->result, value);
  switch (word->bits) {
    case 1: *(bool *)to = value != 0; break;
    case 8: *(uint8_t *)to = (uint8_t)value; break;
    case 16: *(uint16_t *)to = (uint16_t)value; break;
    case 32: *(uint32_t *)to = (uint32_t)value; break;
    default: *(uint64_t *)to = (uint64_t)value;
  }
  return MBLOB_OK;
}

/* Store what the function returned, which is taken over. */
static __attribute__((cold)) int put_result(const mblob_prepared *c, void *to,
                                            struct mb_return *result) {
  if (result->text) mb_return_hand_over(result, &result->value, &result->code);
  const TVMValue value = result->value;
  const int code = result->code;
  const struct mb_word *word = c->result.word;
  const bool is_int = code == kTVMArgInt || code == kTVMArgBool;
  int status = MBLOB_OK;
  if (word && word->passed < AS_DOUBLE && is_int) return put_number(c, to, value.v_int64);
  const int expected = word && word->code != kTVMDLTensorHandle ? word->code : kTVMNDArrayHandle;
  if (!word) {
    status = put_call_array(c, value.v_handle, code);
  } else if (word->passed == AS_POINTER && (code == expected || code == kTVMNullptr)) {
    *(void **)to = code == expected ? value.v_handle : NULL;
    return MBLOB_OK;
  } else if (expected == kTVMStr && code == kTVMBytes) { /* a text of C++, with a NUL behind it */
    *(const char **)to = ((const TVMByteArray *)value.v_handle)->data;
    return MBLOB_OK;
  } else if (word->passed == AS_DOUBLE && (code == kTVMArgFloat || is_int)) {
    const double number = is_int ? (double)value.v_int64 : value.v_float64;
    if (word->bits == 32)
      *(float *)to = (float)number;
    else
      *(double *)to = number;
  } else {
    status = wrong_result(c, word->name, code);
  }
  mblob_value_release(value, code);
  return status;
}

/* ---- the call -------------------------------------------------------------------------------- */

void mblob_prepared_release(mblob_prepared *call) {
  if (!call) return;
  mblob_function_release(call->function);
  free(call);
}

int mblob_prepare(mblob_module *module, const char *name, const char *types, mblob_prepared **out) {
  mblob_function *function;
  if (MB_IS_NULL(out)) return MBLOB_E_ARGUMENT;
  *out = NULL;
  if (MB_NO_MODULE(module) || MB_IS_NULL(name) || MB_IS_NULL(types)) return MBLOB_E_ARGUMENT;
  int status = mblob_module_function(module, name, 1, &function);
  if (status) return status;
  status = mb_call_read(module, function, name, types, out);
  if (status) mblob_function_release(function);
  return status;
}

/* Give back what a call made. What the kernel left unchanged is not written back: it may be
 * read-only, or overlap another argument. */
static __attribute__((cold)) int clean_prepared(mblob_prepared *c, int status) {
  struct mb_argument *end = c->arguments + c->count;
  c->cleans = false;
  for (struct mb_argument *a = c->arguments; a < end; a++) {
    if (a->original) {
      if (!status && memcmp(a->original, a->tensor.data, a->size) != 0)
        memcpy(a->original, a->tensor.data, a->size);
      free(a->tensor.data);
      a->original = NULL;
    }
    if (a->made_code) mblob_value_release(a->made, a->made_code);
    a->made_code = 0;
  }
  for (struct mb_argument *a = c->arguments; a < end; a++) {
    if (!a->view) continue;
    if (!status && mb_array_references(a->view) > 1)
      status = mb_call_wrong(
          c, a->number,
          "the function keeps the tensor, whose memory is only borrowed; pass an object "
          "with a copy");
    mb_array_release(a->view);
    a->view = NULL;
  }
  return status;
}

/* Where the result goes. */
static __attribute__((cold)) int take_result(mblob_prepared *c, void **to, va_list *args) {
  struct mb_argument *a = &c->result;
  int status = a->open ? take_open_extents(c, a, args) : MBLOB_OK;
  *to = va_arg(*args, void *);
  a->tensor.data = *to;
  if (status || *to || (!a->word && !a->size)) return status;
  return mb_call_wrong(c, a->number, "the pointer is NULL");
}

/* The call with what is taken, whose result goes to `to`. */
static inline int run_taken(mblob_prepared *c, size_t count, bool has_result, void *to) {
  struct mb_return result = MB_RETURN_NOTHING;
  int status = mb_function_run(c->function, c->values, c->codes, (int)count, &result);
  if (__builtin_expect(c->cleans, 0)) status = clean_prepared(c, status);
  if (!status && has_result) return put_result(c, to, &result);
  mb_return_drop(&result);
  return status;
}

/* The arguments from `a` on, as those before are taken, and the call. `status`: of what was taken. */
static int run_from(mblob_prepared *c, struct mb_argument *a, int status, va_list *args) {
  struct mb_argument *const end = c->arguments + c->count;
  size_t top = (size_t)(a - c->arguments);
  void *to = NULL;
  for (; !status && a < end; a++, top++) {
    top -= a->count;
    status = take_argument(c, a, &c->values[top], &c->codes[top], args);
  }
  if (!status && c->has_result) status = take_result(c, &to, args);
  if (!status) return run_taken(c, top, c->has_result, to);
  return c->cleans ? clean_prepared(c, status) : status;
}

/* Arrays that are the first arguments are taken here, and mostly they are all. */
int mblob_call_prepared(mblob_prepared *call, ...) {
  if (MB_IS_NULL(call)) return MBLOB_E_ARGUMENT;
  struct mb_argument *a = call->arguments, *const end = a + call->count;
  TVMValue *value = call->values;
  int *code = call->codes, status = MBLOB_OK;
  va_list args;
  va_start(args, call);
  for (; a < end && a->is_plain; a++) {
    if (a->open && (status = take_extents(call, a, &args))) break;
    status = take_array(call, a, va_arg(args, void *), value++, code++);
    if (__builtin_expect(status, 0)) break;
  }
  if (!status && a == end && !call->has_result)
    status = run_taken(call, call->count, false, NULL);
  else
    status = run_from(call, a, status, &args);
  va_end(args);
  return status;
}

int mblob_call(mblob_module *module, const char *name, const char *types, ...) {
  mblob_prepared *call = NULL;
  if (MB_NO_MODULE(module) || MB_IS_NULL(name) || MB_IS_NULL(types)) return MBLOB_E_ARGUMENT;
  int status = mblob_prepare(module, name, types, &call);
  if (status) return status;
  va_list args;
  va_start(args, types);
  status = run_from(call, call->arguments, MBLOB_OK, &args);
  va_end(args);
  mblob_prepared_release(call);
  return status;
}
