
/* checks_values.h - values that no argument is: structs, complex numbers, integers of 128 bits. Behind checks.h, in
 * files with functions that take or return some. */

/* A complex number: an array with one. */
MBLOB_STATIC int mblob_complex(const mblob_call_info *call, int i, const mblob_element *want,
                               mblob_array *out) {
  if (mblob_kind_of(call, i) == MBLOB_TENSOR) return mblob_tensor(call, i, want, out);
  return mblob_fail(call, i, MBLOB_TYPE, MB_TEXT_EXPECTED, want->name, mblob_kind_name(call, i));
}

/* The address of a value of so many bytes; of a handle nothing tells how many there are. `text`: the parameter
 * in C. */
MBLOB_STATIC int mblob_value(const mblob_call_info *call, int i, int64_t bytes, const char *text,
                             void **out) {
  if (mblob_pointer(call, i, out)) return -1;
  const mblob_kind kind = mblob_kind_of(call, i);
  int64_t size = *out ? bytes : 0;
  if (kind == MBLOB_TENSOR) size = mblob_bytes(mblob_tensor_of(call, i));
  if (size == bytes && *out) return 0;
  char found[24] = "None";
  if (kind != MBLOB_NONE) (void)snprintf(found, sizeof found, "%lld", (long long)size);
  if (kind == MBLOB_HANDLE) (void)snprintf(found, sizeof found, "NULL");
  return mblob_fail(call, i, kind == MBLOB_TENSOR ? MBLOB_SHAPE : MBLOB_TYPE,
                    "expected %lld bytes for %s, found %s", (long long)bytes, text, found);
}
