
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

/* Characters and how many they are. */
typedef struct {
  char *data;
  int64_t size;
  char copy[256];
} mblob_text;

/* A text that the function does not write, as far as anybody knows: an array, or a str. A str is
 * copied if the function may write it, and padded with blanks to `least` characters. */
MBLOB_STATIC int mblob_fetch_text(const mblob_call_info *call, int i, int64_t least, bool is_const,
                                  mblob_text *out) {
  static const mblob_element character = {"int8", kDLInt, kDLUInt, 8, 1};
  out->data = out->copy;
  if (mblob_kind_of(call, i) != MBLOB_STRING) {
    mblob_array array;
    if (mblob_tensor(call, i, &character, &array)) return -1;
    if (array.elements < least) return mblob_elements(call, i, &array, least, "", true, false);
    if (array.data) out->data = (char *)array.data;
    out->size = array.elements;
    return 0;
  }
  const char *text = "";
  if (mblob_string(call, i, &text)) return -1;
  const int64_t length = (int64_t)__builtin_strlen(text);
  out->size = length < least ? least : length;
  if (is_const && length >= least) {
    out->data = (char *)(uintptr_t)text;
    return 0;
  }
  if (out->size > (int64_t)sizeof out->copy)
    return mblob_fail(call, i, MBLOB_VALUE,
                      "expected a str of %lld to %d characters, found %lld; pass an array of int8",
                      (long long)(is_const ? least : 0), (int)sizeof out->copy, (long long)length);
  __builtin_memcpy(out->copy, text, (size_t)length);
  __builtin_memset(out->copy + length, ' ', (size_t)(out->size - length));
  return 0;
}

/* As mblob_pointer, of an array of several dimensions. */
MBLOB_STATIC int mblob_pointer_to_columns(const mblob_call_info *call, int i, void **out) {
  const DLTensor *t = NULL;
  if (mblob_kind_of(call, i) != MBLOB_TENSOR) return mblob_pointer(call, i, out);
  if (mblob_host_tensor(call, i, &t) || mblob_column_order(call, i, t)) return -1;
  *out = t->data ? (char *)t->data + t->byte_offset : NULL;
  return 0;
}
