
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

/* A result outlives the call on the heap, not in a variable of the thread: with one of those, a library cannot join
 * another, and needs the dynamic linker of glibc. */
MBLOB_STATIC void *mblob_kept(const void *value, size_t size, size_t head) {
  char *made = (char *)__builtin_malloc(head + size + 1);
  if (!made) return NULL;
  if (size) __builtin_memcpy(made + head, value, size);
  made[head + size] = 0; /* it may be a text */
  return made;
}

#ifdef TVM_FFI_C_API_H_
MBLOB_STATIC void mblob_free_bytes(void *self, int flags) {
  if (flags & 2) __builtin_free(self); /* no reference is left, weak ones included */
}

/* What is short lies in the value, the rest in an object: of the runtime, or of our own where none is. */
MBLOB_STATIC int mblob_return_value(const void *value, size_t size, TVMFFIAny *result) {
  extern int TVMFFIBytesFromByteArray(const TVMFFIByteArray *input, TVMFFIAny *out)
      __attribute__((weak));
  TVMFFIByteArray bytes = {(const char *)value, size};
  result->zero_padding = 0;
  result->v_int64 = 0;
  if (size < sizeof result->v_bytes) {
    result->type_index = kTVMFFISmallBytes;
    result->small_str_len = (uint32_t)size;
    __builtin_memcpy(result->v_bytes, value, size);
    return 0;
  }
  if (TVMFFIBytesFromByteArray) return TVMFFIBytesFromByteArray(&bytes, result);
  const size_t head = sizeof(TVMFFIObject) + sizeof bytes;
  TVMFFIObject *object = (TVMFFIObject *)mblob_kept(value, size, head);
  if (!object) {
    mblob_raise_of_call("result", MB_TEXT_NO_MEMORY, "MemoryError");
    return -1;
  }
  object->combined_ref_count = (uint64_t)1 << 32 | 1;
  object->type_index = kTVMFFIBytes;
  object->padding = 0;
  object->deleter = mblob_free_bytes;
  bytes.data = (const char *)object + head;
  *TVMFFIBytesGetByteArrayPtr(object) = bytes;
  result->type_index = kTVMFFIBytes;
  result->v_obj = object;
  return 0;
}
#else
/* A TVMByteArray with its bytes behind it, which the caller frees. */
#define MBLOB_OWNED_BYTES 0x1000c
MBLOB_STATIC int mblob_return_value(const void *value, size_t size, TVMValue *result, int *code) {
  if (!result || !code) return 0;
  TVMByteArray *bytes = (TVMByteArray *)mblob_kept(value, size, sizeof *bytes);
  if (!bytes) {
    mblob_raise_of_call("result", MB_TEXT_NO_MEMORY, "MemoryError");
    return -1;
  }
  bytes->data = (const char *)(bytes + 1);
  bytes->size = size;
  result->v_handle = bytes;
  *code = MBLOB_OWNED_BYTES;
  return 0;
}
#endif

/* An object of C++ that is a result, as its shim gives it. */
typedef struct {
  const void *data;
  size_t size;
  void *owner;
  void (*release)(void *);
} mblob_made;

MBLOB_STATIC void mblob_release(mblob_made *made) {
  if (made->release) made->release(made->owner);
}

#ifdef TVM_FFI_C_API_H_
MBLOB_STATIC int mblob_return_made(const mblob_made *made, bool is_text, TVMFFIAny *result) {
  if (!made->owner) return mblob_return_string(result, NULL);
  if (mblob_return_value(made->data, made->size, result)) return -1;
  if (!is_text) return 0;
  const bool is_small = result->type_index == kTVMFFISmallBytes;
  result->type_index = is_small ? kTVMFFISmallStr : kTVMFFIStr;
  if (!is_small) result->v_obj->type_index = kTVMFFIStr; /* which has the layout of bytes */
  return 0;
}
#else
MBLOB_STATIC int mblob_return_made(const mblob_made *made, bool is_text, TVMValue *result,
                                   int *code) {
  (void)is_text;
  if (!made->owner && result && code) {
    result->v_handle = NULL;
    *code = kTVMNullptr;
    return 0;
  }
  return mblob_return_value(made->data, made->size, result, code);
}
#endif
