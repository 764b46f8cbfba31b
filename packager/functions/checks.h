/* checks.h - how the packed function of a plain C function checks what it is called with.
 *
 * The text stands in front of every generated file of packed functions. All of it is static, or, with
 * MBLOB_CHECKS_APART, declared, for an object that was compiled before (packager/functions/checks.py). A
 * function named mblob_* returns 0, or -1 after it raised an error: "expected <this>, found
 * <that>" for argument i, which counts from 0. How arguments arrive and errors leave is the
 * dialect's: checks_classic.h, checks_ffi.h, in place of the line below. */
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Headers of the system take longer to read than all of this, so there are as few as can be. */
#define MBLOB_FEW_HEADERS
int snprintf(char *text, size_t size, const char *format, ...);
int vsnprintf(char *text, size_t size, const char *format, va_list values);

#define MBLOB_STATIC static __attribute__((unused))
#ifdef MBLOB_CHECKS_APART
#define MBLOB_CHECK extern __attribute__((visibility("hidden")))
#endif
#ifndef MBLOB_CHECK /* what packed functions call */
#define MBLOB_CHECK MBLOB_STATIC
#endif
#define MBLOB_FORMAT(at) __attribute__((format(printf, at, at + 1)))

/* What an argument is. */
typedef enum {
  MBLOB_OTHER,
  MBLOB_NULL, /* a text or a tensor whose pointer is NULL */
  MBLOB_NONE,
  MBLOB_INT,
  MBLOB_FLOAT,
  MBLOB_STRING,
  MBLOB_HANDLE,
  MBLOB_TENSOR
} mblob_kind;

/* What is wrong with one. */
typedef enum {
  MBLOB_TYPE,
  MBLOB_VALUE,
  MBLOB_DTYPE,
  MBLOB_SHAPE,
  MBLOB_STRIDES,
  MBLOB_DEVICE,
  MBLOB_DATA
} mblob_rule;

/* THE DIALECT */

/* Ranges of integer types in an int64_t argument. 64 bits without a sign arrive as the bits they
 * are: callers who know the type have checked the number, others cannot tell -1 from 2^64 - 1. */
#define MBLOB_SIGNED_MAX(T) ((int64_t)(UINT64_MAX >> (65 - 8 * sizeof(T))))
#define MBLOB_SIGNED_MIN(T) (-MBLOB_SIGNED_MAX(T) - 1)
#define MBLOB_UNSIGNED_MIN(T) (sizeof(T) < 8 ? 0 : INT64_MIN)
#define MBLOB_UNSIGNED_MAX(T) ((int64_t)(UINT64_MAX >> (sizeof(T) < 8 ? 64 - 8 * sizeof(T) : 1)))

#define MBLOB_ANY INT64_MIN /* a dimension that is not checked; mblob_size has none below 0 */

/* The element type that a parameter wants; `bits` of a plain char may be signed or not. */
typedef struct {
  const char *name; /* as TVM calls it */
  uint8_t code;     /* DLDataTypeCode */
  uint8_t other;    /* another one that will do, or the same */
  uint8_t bits;
  size_t alignment; /* bytes */
} mblob_element;

#define MBLOB_ELEMENT(word, code, T) \
  {sizeof(T) == 1   ? word "8"       \
   : sizeof(T) == 2 ? word "16"      \
   : sizeof(T) == 4 ? word "32"      \
                    : word "64",     \
   code, code, 8 * sizeof(T), __alignof__(T)}

/* A checked tensor: compact row-major elements on the host. */
typedef struct {
  void *data;
  const DLTensor *tensor;
  int64_t elements;
} mblob_array;

MBLOB_CHECK int mblob_count(const char *function, int found, int expected);
MBLOB_CHECK int mblob_int(const mblob_call_info *call, int i, const char *type, int64_t min,
                          int64_t max, int64_t *out);
MBLOB_CHECK int mblob_float(const mblob_call_info *call, int i, const char *type, double largest,
                            double *out);
MBLOB_CHECK int mblob_string(const mblob_call_info *call, int i, const char **out);
MBLOB_CHECK int mblob_pointer(const mblob_call_info *call, int i, void **out);
MBLOB_CHECK int mblob_address(const mblob_call_info *call, int i, void **out);
MBLOB_CHECK int mblob_tensor(const mblob_call_info *call, int i, const mblob_element *want,
                             mblob_array *out);
MBLOB_CHECK int mblob_shape(const mblob_call_info *call, int i, const mblob_array *a, int ndim,
                            const int64_t *dims, bool bad);
MBLOB_CHECK int mblob_elements(const mblob_call_info *call, int i, const mblob_array *a,
                               int64_t expected, const char *text, bool at_least, bool bad);
MBLOB_CHECK int mblob_memory(const mblob_call_info *call, int i, int64_t bytes, size_t alignment,
                             const char *text, bool is_bounded, bool bad, void **out);
MBLOB_CHECK int mblob_addresses(const mblob_call_info *call, int i, const char *text);

#ifndef MBLOB_CHECKS_APART

/* A macro, so that compilers see that it is never 0. */
#define mblob_fail(...) (mblob_set_failure(__VA_ARGS__), -1)

MBLOB_STATIC MBLOB_FORMAT(4) void mblob_set_failure(const mblob_call_info *call, int i,
                                                    mblob_rule rule, const char *format, ...) {
  char text[320];
  va_list values;
  va_start(values, format);
  (void)vsnprintf(text, sizeof text, format, values);
  va_end(values);
  mblob_raise(call, i, rule, text);
}

MBLOB_STATIC void mblob_dtype_name(DLDataType type, char *text, size_t size) {
  static const char *const names[] = {MB_DTYPE_NAMES};
  static const struct {
    int code, bits;
    const char *name;
  } small[] = {MBLOB_SMALL_FLOATS}; /* whose names say their bits; the first row counts */
  const size_t count = sizeof small / sizeof *small;
  size_t row = 0;
  while (row < count && (small[row].code != type.code || small[row].bits != type.bits)) row++;
  const bool scalar = type.lanes == 1;
  char lanes[8] = "";
  if (!scalar) (void)snprintf(lanes, sizeof lanes, "x%d", type.lanes);
  if (type.code == 1 && type.bits == 1 && scalar)
    (void)snprintf(text, size, "bool");
  else if (type.code == 3 && (scalar || !type.bits))
    (void)snprintf(text, size, "%s", type.bits ? "handle" : "void");
  else if (row < count)
    (void)snprintf(text, size, "%s%s", small[row].name, lanes);
  else if (type.code < sizeof names / sizeof *names)
    (void)snprintf(text, size, "%s%d%s", names[type.code], type.bits, lanes);
  else
    (void)snprintf(text, size, "custom[%d]%d%s", type.code, type.bits, lanes);
}

/* A shape as Python writes it; a dimension of MBLOB_ANY is `*`. Cut with "..." when it is long. */
MBLOB_STATIC void mblob_shape_text(const int64_t *shape, int ndim, char *text, size_t size) {
  size_t used = 0;
  for (int i = 0; i < ndim; i++) {
    char item[32];
    int n = shape[i] == MBLOB_ANY
                ? snprintf(item, sizeof item, "%s*", i ? ", " : "")
                : snprintf(item, sizeof item, "%s%lld", i ? ", " : "", (long long)shape[i]);
    if (n < 0 || (size_t)n + 8 > size - used) {
      used += (size_t)snprintf(text + used, size - used, "...");
      break;
    }
    if (i == 0) text[used++] = '(';
    for (int k = 0; k < n; k++) text[used++] = item[k];
  }
  if (ndim <= 0) text[used++] = '(';
  if (ndim == 1) text[used++] = ',';
  text[used++] = ')';
  text[used] = 0;
}

MBLOB_CHECK int mblob_count(const char *function, int found, int expected) {
  if (found == expected) return 0;
  char text[80];
  (void)snprintf(text, sizeof text, MB_TEXT_COUNT, MBLOB_EXPECTED, expected,
                 expected == 1 ? "" : "s", "", found);
  mblob_raise_of_call(function, text, "TypeError");
  return -1;
}

MBLOB_CHECK int mblob_int(const mblob_call_info *call, int i, const char *type, int64_t min,
                          int64_t max, int64_t *out) {
  if (mblob_kind_of(call, i) != MBLOB_INT)
    return mblob_fail(call, i, MBLOB_TYPE, MB_TEXT_EXPECTED, "int", mblob_kind_name(call, i));
  int64_t value = mblob_int_of(call, i);
  if (value < min || value > max)
    return mblob_fail(call, i, MBLOB_VALUE, "expected %s (%lld to %lld), found %lld", type,
                      (long long)min, (long long)max, (long long)value);
  *out = value;
  return 0;
}

/* `largest`: finite number of the parameter's type; what is beyond it would become infinite. 0:
 * none is. */
MBLOB_CHECK int mblob_float(const mblob_call_info *call, int i, const char *type, double largest,
                            double *out) {
  mblob_kind kind = mblob_kind_of(call, i);
  if (kind == MBLOB_FLOAT)
    *out = mblob_float_of(call, i);
  else if (kind == MBLOB_INT)
    *out = (double)mblob_int_of(call, i);
  else
    return mblob_fail(call, i, MBLOB_TYPE, MB_TEXT_EXPECTED, "float", mblob_kind_name(call, i));
  double size = *out < 0 ? -*out : *out;
  if (largest > 0 && size > largest && size - size == 0)
    return mblob_fail(call, i, MBLOB_VALUE,
                      "expected %s (up to %.9g), found %.9g, which would be infinite", type,
                      largest, *out);
  return 0;
}

MBLOB_CHECK int mblob_string(const mblob_call_info *call, int i, const char **out) {
  const mblob_kind kind = mblob_kind_of(call, i);
  if (kind != MBLOB_STRING)
    return mblob_fail(call, i, MBLOB_TYPE, MB_TEXT_EXPECTED "%s", "str", mblob_kind_name(call, i),
                      kind == MBLOB_TENSOR
                          ? "; pass a text, or pack it with a prototype that has an"
                            " array, such as x[n]"
                          : "");
  size_t size = 0; /* of a text that may have a NUL inside */
  *out = mblob_string_of(call, i, &size);
  const char *nul = (const char *)__builtin_memchr(*out, 0, size);
  if (!nul) return 0;
  return mblob_fail(
      call, i, MBLOB_VALUE,
      "expected a str without a NUL inside, found one at byte %d; a const char * ends there",
      (int)(nul - *out));
}

/* The tensor behind an argument, on a device whose memory the host can read. */
MBLOB_STATIC int mblob_host_tensor(const mblob_call_info *call, int i, const DLTensor **out) {
  const DLTensor *t = mblob_tensor_of(call, i);
  int device = (int)t->device.device_type;
  if (device < 0 || device > 63 || !(MB_DEVICES_READ_BY_HOST >> device & 1))
    return mblob_fail(call, i, MBLOB_DEVICE, MB_TEXT_DEVICE, device);
  *out = t;
  return 0;
}

/* Row-major without gaps. Dimensions of one element have no stride that matters. */
MBLOB_STATIC bool mblob_is_compact(const DLTensor *t) {
  int64_t expected = 1;
  for (int d = t->ndim - 1; d >= 0; d--) {
    if (t->shape[d] == 1) continue;
    if (t->strides[d] != expected) return false;
    expected *= t->shape[d];
  }
  return true;
}

MBLOB_STATIC int mblob_strides(const mblob_call_info *call, int i, const DLTensor *t) {
  if (!t->strides) return 0;
  for (int d = 0; d < t->ndim; d++)
    if (!t->shape[d]) return 0; /* no elements */
  if (mblob_is_compact(t)) return 0;
  return mblob_fail(call, i, MBLOB_STRIDES, MB_TEXT_COMPACT);
}

/* `void *`: the data of any tensor, a handle, or NULL. */
MBLOB_CHECK int mblob_pointer(const mblob_call_info *call, int i, void **out) {
  mblob_kind kind = mblob_kind_of(call, i);
  const DLTensor *t = NULL;
  if (kind == MBLOB_TENSOR) {
    if (mblob_host_tensor(call, i, &t) || mblob_strides(call, i, t)) return -1;
    *out = t->data ? (char *)t->data + t->byte_offset : NULL;
    return 0;
  }
  if (kind != MBLOB_HANDLE && kind != MBLOB_NONE)
    return mblob_fail(call, i, MBLOB_TYPE, MB_TEXT_EXPECTED, "a tensor or a handle",
                      mblob_kind_name(call, i));
  *out = kind == MBLOB_NONE ? NULL : mblob_handle_of(call, i);
  return 0;
}

/* A pointer to an object of C++: a handle, or NULL. */
MBLOB_CHECK int mblob_address(const mblob_call_info *call, int i, void **out) {
  const mblob_kind kind = mblob_kind_of(call, i);
  if (kind == MBLOB_HANDLE || kind == MBLOB_NONE) return mblob_pointer(call, i, out);
  return mblob_fail(call, i, MBLOB_TYPE, MB_TEXT_EXPECTED, MB_TEXT_OBJECT,
                    mblob_kind_name(call, i));
}

MBLOB_STATIC int mblob_fail_aligned(const mblob_call_info *call, int i, size_t alignment,
                                    const void *data) {
  char found[32];
  (void)snprintf(found, sizeof found, "%p", data);
  return mblob_fail(call, i, MBLOB_DATA, MB_TEXT_ALIGNED, (int)alignment, found);
}

typedef int mblob_order(const mblob_call_info *call, int i, const DLTensor *t);

/* A tensor whose elements lie in an order: `order` returns 0 if they do. */
MBLOB_STATIC int mblob_ordered(const mblob_call_info *call, int i, const mblob_element *want,
                               mblob_order *order, mblob_array *out) {
  const DLTensor *t = NULL;
  const mblob_kind kind = mblob_kind_of(call, i);
  if (kind != MBLOB_TENSOR)
    return mblob_fail(call, i, MBLOB_TYPE, MBLOB_EXPECTED_TENSOR(want->name),
                      mblob_kind_name(call, i), kind == MBLOB_NONE ? MB_TEXT_NULL_FOR_ARRAY : "");
  if (mblob_host_tensor(call, i, &t)) return -1;
  if ((t->dtype.code != want->code && t->dtype.code != want->other) ||
      t->dtype.bits != want->bits || t->dtype.lanes != 1) {
    char found[40];
    mblob_dtype_name(t->dtype, found, sizeof found);
    return mblob_fail(call, i, MBLOB_DTYPE, MB_TEXT_DTYPE, want->name, found);
  }
  int64_t elements = 1;
  for (int d = 0; d < t->ndim; d++)
    if (t->shape[d] < 0 || __builtin_mul_overflow(elements, t->shape[d], &elements))
      return mblob_fail(call, i, MBLOB_SHAPE, "dimension %d is %lld, expected a possible size", d,
                        (long long)t->shape[d]);
  out->tensor = t;
  out->elements = elements;
  out->data = t->data ? (char *)t->data + t->byte_offset : NULL;
  if (!elements) return 0;
  if (order(call, i, t)) return -1;
  if (!out->data) return mblob_fail(call, i, MBLOB_DATA, MB_TEXT_NO_DATA);
  if ((uintptr_t)out->data % want->alignment)
    return mblob_fail_aligned(call, i, want->alignment, out->data);
  return 0;
}

MBLOB_CHECK int mblob_tensor(const mblob_call_info *call, int i, const mblob_element *want,
                             mblob_array *out) {
  return mblob_ordered(call, i, want, mblob_strides, out);
}

MBLOB_STATIC int mblob_fail_dimensions(const mblob_call_info *call, int i) {
  return mblob_fail(call, i, MBLOB_SHAPE,
                    "its dimensions, computed from the other arguments, overflow or are negative;"
                    " pass the sizes of the tensor");
}

/* Exact shape of a parameter with several dimensions. `bad`: a computed dimension is no size. */
MBLOB_CHECK int mblob_shape(const mblob_call_info *call, int i, const mblob_array *a, int ndim,
                            const int64_t *dims, bool bad) {
  const DLTensor *t = a->tensor;
  bool same = !bad && t->ndim == ndim;
  for (int d = 0; same && d < ndim; d++) same = dims[d] == MBLOB_ANY || t->shape[d] == dims[d];
  if (same) return 0;
  if (bad) return mblob_fail_dimensions(call, i);
  char expected[80];
  char found[80];
  mblob_shape_text(dims, ndim, expected, sizeof expected);
  mblob_shape_text(t->shape, t->ndim, found, sizeof found);
  return mblob_fail(call, i, MBLOB_SHAPE, MB_TEXT_SHAPE, expected, found);
}

/* Number of elements of a parameter with one dimension, whatever the tensor's shape. `text`: the
 * dimension in C, "" if it is a number. */
MBLOB_CHECK int mblob_elements(const mblob_call_info *call, int i, const mblob_array *a,
                               int64_t expected, const char *text, bool at_least, bool bad) {
  if (bad)
    return mblob_fail(call, i, MBLOB_SHAPE,
                      "its size %s, computed from the other arguments, overflows or is negative;"
                      " pass the size of the tensor",
                      text);
  if (at_least ? a->elements >= expected : a->elements == expected) return 0;
  char found[80];
  mblob_shape_text(a->tensor->shape, a->tensor->ndim, found, sizeof found);
  return mblob_fail(call, i, MBLOB_SHAPE, MB_TEXT_ELEMENTS, at_least ? "at least " : "",
                    (long long)expected, *text ? " for [" : "", text, *text ? "]" : "", found);
}

/* Bytes of a tensor; -1 if there are more than memory has. */
MBLOB_STATIC int64_t mblob_bytes(const DLTensor *t) {
  int64_t bits = (int64_t)t->dtype.bits * t->dtype.lanes;
  for (int d = 0; d < t->ndim; d++)
    if (t->shape[d] < 0 || __builtin_mul_overflow(bits, t->shape[d], &bits)) return -1;
  return bits / 8 + (bits % 8 != 0);
}

/* A pointer to memory of at least `bytes`: that of structs, or of pointers. Of a handle nothing tells
 * how many there are. Where no dimension says how many structs there are, NULL and a tensor without
 * elements may stand for none. `alignment`: of the structs, 0: these are pointers. `text`: the parameter
 * in C; of pointers, what they lead to and the parameter. */
MBLOB_CHECK int mblob_memory(const mblob_call_info *call, int i, int64_t bytes, size_t alignment,
                             const char *text, bool is_bounded, bool bad, void **out) {
  if (mblob_pointer(call, i, out)) return -1;
  if (bad) return mblob_fail_dimensions(call, i);
  char found[24] = "NULL";
  const int64_t unit = alignment ? 1 : (int64_t)sizeof(void *);
  int64_t size = *out ? bytes : 0;
  const mblob_kind kind = mblob_kind_of(call, i);
  if (kind == MBLOB_NONE) (void)snprintf(found, sizeof found, "None");
  if (kind == MBLOB_TENSOR) {
    size = mblob_bytes(mblob_tensor_of(call, i));
    if (size && !*out) return mblob_fail(call, i, MBLOB_DATA, MB_TEXT_NO_DATA);
    (void)snprintf(found, sizeof found, "%lld", (long long)(size / unit));
  }
  if (size < bytes && (size || is_bounded))
    return mblob_fail(call, i, kind == MBLOB_TENSOR ? MBLOB_SHAPE : MBLOB_TYPE,
                      alignment ? MB_TEXT_BYTES : MB_TEXT_ITEMS, (long long)(bytes / unit), text,
                      found);
  if (alignment && (uintptr_t)*out % alignment && size)
    return mblob_fail_aligned(call, i, alignment, *out);
  return 0;
}

/* A tensor that stands for a pointer to pointers has their addresses. `text`: what may be listed, and the
 * parameter in C. */
MBLOB_CHECK int mblob_addresses(const mblob_call_info *call, int i, const char *text) {
  if (mblob_kind_of(call, i) != MBLOB_TENSOR) return 0;
  const DLDataType t = mblob_tensor_of(call, i)->dtype;
  if ((t.code == kDLInt || t.code == kDLUInt || t.code == kDLOpaqueHandle) && t.lanes == 1 &&
      t.bits == 8 * sizeof(void *))
    return 0;
  char found[40];
  mblob_dtype_name(t, found, sizeof found);
  return mblob_fail(call, i, MBLOB_DTYPE, MB_TEXT_ADDRESSES, text, found);
}

#endif

/* A size, or a number without a sign that one is computed of: each has at most 63 bits. */
MBLOB_STATIC int64_t mblob_size(int64_t size, bool *bad) {
  *bad |= size < 0;
  return size;
}

MBLOB_STATIC int64_t mblob_add(int64_t a, int64_t b, bool *bad) {
  int64_t sum = 0;
  *bad |= __builtin_add_overflow(a, b, &sum);
  return sum;
}

MBLOB_STATIC int64_t mblob_sub(int64_t a, int64_t b, bool *bad) {
  int64_t difference = 0;
  *bad |= __builtin_sub_overflow(a, b, &difference);
  return difference;
}

MBLOB_STATIC int64_t mblob_mul(int64_t a, int64_t b, bool *bad) {
  int64_t product = 0;
  *bad |= __builtin_mul_overflow(a, b, &product);
  return product;
}
