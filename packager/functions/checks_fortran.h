
/* checks_fortran.h - arguments of Fortran, for checks.h. */

/* Column by column without gaps. Dimensions of one element have no stride that matters. */
MBLOB_STATIC int mblob_column_order(const mblob_call_info *call, int i, const DLTensor *t) {
  int64_t expected = 1, in_rows = 1;
  bool same = true;
  for (int d = t->ndim - 1; !t->strides && d >= 0; d--) {
    same &= t->shape[d] == 1 || in_rows == 1;
    in_rows *= t->shape[d];
  }
  for (int d = 0; t->strides && d < t->ndim; d++) {
    same &= t->shape[d] == 1 || t->strides[d] == expected;
    expected *= t->shape[d];
  }
  if (same) return 0;
  return mblob_fail(call, i, MBLOB_STRIDES,
                    "expected an array in column order, found another; pass a copy"
                    " (numpy.asfortranarray)");
}

MBLOB_STATIC int mblob_columns(const mblob_call_info *call, int i, const mblob_element *want,
                               mblob_array *out) {
  return mblob_ordered(call, i, want, mblob_column_order, out);
}

/* Any strides but 0, for which gfortran takes 1. */
MBLOB_STATIC int mblob_any_order(const mblob_call_info *call, int i, const DLTensor *t) {
  for (int d = 0; t->strides && d < t->ndim; d++)
    if (!t->strides[d] && t->shape[d] > 1)
      return mblob_fail(
          call, i, MBLOB_STRIDES,
          "expected an array whose elements lie apart, found stride 0 of dimension %d;"
          " pass a copy (numpy.asfortranarray)",
          d);
  return 0;
}

MBLOB_STATIC int mblob_strided(const mblob_call_info *call, int i, const mblob_element *want,
                               mblob_array *out) {
  return mblob_ordered(call, i, want, mblob_any_order, out);
}

/* The descriptor of an array: gfc_array_void in libgfortran.h, GCC 8 and later. */
typedef struct {
  void *base;
  ptrdiff_t offset;
  size_t element_length;
  int version;
  signed char rank, type;
  short attribute;
  ptrdiff_t span;
  struct {
    ptrdiff_t stride, lower, upper;
  } dims[15];
} mblob_descriptor;

/* Of an array of `rank` dimensions, whose elements have `size` bytes; they are counted from 1. */
MBLOB_STATIC void mblob_describe(const mblob_array *a, int rank, size_t size, int type,
                                 mblob_descriptor *out) {
  out->base =
      a->data ? a->data : out; /* NULL would be no array; where nothing lies, nobody reads */
  out->element_length = size;
  out->version = 0;
  out->rank = (signed char)rank;
  out->type = (signed char)type;
  out->attribute = 0;
  out->span = (ptrdiff_t)size;
  out->offset = 0;
  int64_t in_rows = 1;
  for (int d = rank - 1; d >= 0; d--) {
    const int64_t extent = a->tensor->shape[d];
    const int64_t stride = a->tensor->strides ? a->tensor->strides[d] : in_rows;
    out->dims[d].stride = (ptrdiff_t)stride;
    out->dims[d].lower = 1;
    out->dims[d].upper = (ptrdiff_t)extent;
    out->offset -= (ptrdiff_t)stride;
    in_rows *= extent;
  }
}

/* Texts, and how many characters each has. */
typedef struct {
  char *data;
  int64_t size;
  char *heap;
  char copy[256];
} mblob_text;

void *malloc(size_t size);
void free(void *memory);

MBLOB_STATIC void mblob_free_text(mblob_text *text) { free(text->heap); }

#define MBLOB_LARGEST_COPY (1 << 24) /* bytes, of what is padded */

static const mblob_element mblob_character = {"int8", kDLInt, kDLUInt, 8, 1};

/* A copy of `count` texts of `found` characters each, padded with blanks to `size`. */
MBLOB_STATIC int mblob_copy_texts(const mblob_call_info *call, int i, const char *from,
                                  int64_t count, int64_t found, int64_t size, mblob_text *out) {
  bool bad = false;
  const int64_t bytes = mblob_mul(count, size, &bad);
  if (found < size && (bad || bytes > MBLOB_LARGEST_COPY))
    return mblob_fail(call, i, MBLOB_VALUE,
                      "expected %lld bytes, found %lld; pass all of them, with blanks at the end",
                      (long long)size, (long long)found);
  out->size = size;
  out->data = out->copy;
  if (bytes > (int64_t)sizeof out->copy) {
    out->data = out->heap = (char *)malloc((size_t)bytes);
    if (!out->data)
      return mblob_fail(call, i, MBLOB_VALUE, "there is no memory for its %lld bytes",
                        (long long)bytes);
  }
  for (int64_t k = 0; k < count; k++) {
    char *to = out->data + k * size;
    if (found) __builtin_memcpy(to, from + k * found, (size_t)found);
    __builtin_memset(to + found, ' ', (size_t)(size - found));
  }
  return 0;
}

/* The characters of an argument: those of a str, if it may be one, or of an array. */
MBLOB_STATIC int mblob_characters(const mblob_call_info *call, int i, bool may_be_str,
                                  mblob_array *out, mblob_text *text) {
  const mblob_kind kind = mblob_kind_of(call, i);
  size_t size = 0; /* of a text that may have a NUL inside */
  text->data = text->copy;
  if (may_be_str && kind == MBLOB_STRING) {
    out->data = (void *)(uintptr_t)mblob_string_of(call, i, &size);
    out->elements = (int64_t)(size ? size : __builtin_strlen((const char *)out->data));
    return 0;
  }
  if (may_be_str && kind != MBLOB_TENSOR)
    return mblob_fail(call, i, MBLOB_TYPE, MB_TEXT_EXPECTED, "a str or an int8 tensor",
                      mblob_kind_name(call, i));
  if (mblob_tensor(call, i, &mblob_character, out)) return -1;
  if (out->elements) text->data = (char *)out->data;
  return 0;
}

/* A text of `length` characters, or, if that is MBLOB_ANY, of as many as the argument has. A shorter one
 * is padded in a copy, unless it is an array that the function may write to. */
MBLOB_STATIC int mblob_fetch_text(const mblob_call_info *call, int i, int64_t length, bool bad,
                                  bool may_be_str, bool is_const, mblob_text *out) {
  mblob_array a = {0};
  if (mblob_characters(call, i, may_be_str, &a, out)) return -1;
  if (bad) return mblob_fail_dimensions(call, i);
  const bool is_read = is_const || !a.tensor;
  const int64_t found = a.elements, size = length == MBLOB_ANY ? found : length;
  if (is_read && found > size)
    return mblob_fail(call, i, MBLOB_VALUE,
                      "expected a text of at most %lld bytes, found %lld; pass a shorter one",
                      (long long)size, (long long)found);
  if (found < size && !is_read) return mblob_elements(call, i, &a, size, "", true, false);
  if (found < size || (!a.tensor && !is_const))
    return mblob_copy_texts(call, i, (const char *)a.data, 1, found, size, out);
  if (found) out->data = (char *)a.data;
  out->size = size;
  return 0;
}

/* An array of texts, whose last dimension is their characters: `dims` has all, the outermost first. If
 * their length is told, they may also lie one behind the other in an array of one dimension. */
MBLOB_STATIC int mblob_fetch_texts(const mblob_call_info *call, int i, int ndim,
                                   const int64_t *dims, bool bad, bool is_const, mblob_text *out) {
  mblob_array a = {0};
  if (mblob_characters(call, i, is_const, &a, out)) return -1;
  const int64_t length = dims[ndim - 1];
  int64_t least = 1; /* texts */
  for (int d = 0; d < ndim - 1; d++)
    least = mblob_mul(least, dims[d] == MBLOB_ANY ? 0 : dims[d], &bad);
  const int64_t characters = length == MBLOB_ANY ? 0 : mblob_mul(least, length, &bad);
  if (bad) return mblob_fail_dimensions(call, i);
  const DLTensor of_text = {.ndim = 1, .shape = &a.elements};
  if (!a.tensor) a.tensor = &of_text;
  const DLTensor *t = a.tensor;
  out->size = length;
  if (length != MBLOB_ANY && (t->ndim == 1 || length == 1)) {
    if (a.data) out->data = (char *)a.data;
    return mblob_elements(call, i, &a, characters, "", true, false);
  }
  const int64_t found = t->ndim == ndim ? t->shape[ndim - 1] : 0;
  bool same = t->ndim == ndim && (dims[0] == MBLOB_ANY || t->shape[0] >= dims[0]);
  for (int d = 1; same && d < ndim - 1; d++) same = dims[d] == MBLOB_ANY || t->shape[d] == dims[d];
  if (!same || (length != MBLOB_ANY && (is_const ? found > length : found != length)))
    return mblob_shape(call, i, &a, ndim, dims, false);
  if (length == MBLOB_ANY) out->size = found;
  if (found == out->size) return 0;
  return mblob_copy_texts(call, i, (const char *)a.data, found ? a.elements / found : t->shape[0],
                          found, length, out);
}

/* As mblob_pointer, of an array of several dimensions. */
MBLOB_STATIC int mblob_pointer_to_columns(const mblob_call_info *call, int i, void **out) {
  const DLTensor *t = NULL;
  if (mblob_kind_of(call, i) != MBLOB_TENSOR) return mblob_pointer(call, i, out);
  if (mblob_host_tensor(call, i, &t) || mblob_column_order(call, i, t)) return -1;
  *out = t->data ? (char *)t->data + t->byte_offset : NULL;
  return 0;
}
