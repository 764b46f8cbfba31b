/* adapters_array.h - the Arrays of tensors that const_loader passes to initialisers, for
 * functions of the ffi dialect in a library of the classic one. Stands in adapters.h where that
 * says so.
 *
 * An Array is asked for its items by the functions that every runtime of the classic dialect
 * has, so its layout, which changed, is nothing that is known here. What an initialiser keeps is
 * counted as objects of the ffi dialect are. The memory of the tensors themselves is held for
 * ever: no slot of the classic dialect gives an item back. */

#ifdef MBLOB_TO_FFI
#define mblob_object_to_ffi(name, i, value, code, out) \
  mblob_no_way(name, "the ffi dialect", i, code)
#else
/* Objects as runtimes lay them out from 0.22 on: behind the header what is said there, then
 * values or strides. */
typedef struct {
  TVMFFIObject header;
  DLTensor tensor;
} mblob_tensor;

typedef struct {
  TVMFFIObject header;
  TVMFFIAny *items;
  int64_t size, capacity;
  void (*delete_items)(void *items); /* NULL: they are part of the object */
} mblob_array;

#define MBLOB_STRONG 1 /* flags of a deleter: the last strong reference, the last weak one */
#define MBLOB_WEAK 2

MBLOB_STATIC void mblob_delete_tensor(void *self, int flags) {
  if (flags & MBLOB_WEAK) free(self);
}

MBLOB_STATIC void mblob_delete_array(void *self, int flags) {
  mblob_array *array = (mblob_array *)self;
  if (flags & MBLOB_STRONG)
    for (int64_t i = 0; i < array->size; i++) mblob_release(&array->items[i]);
  if (flags & MBLOB_WEAK) free(self);
}

/* An object with one reference, owned by `out`; NULL without memory. */
MBLOB_STATIC void *mblob_object(size_t size, int32_t type_index, void (*deleter)(void *, int),
                                TVMFFIAny *out) {
  TVMFFIObject *object = (TVMFFIObject *)calloc(1, size);
  if (!object) return NULL;
  object->combined_ref_count = ((uint64_t)1 << 32) + 1;
  object->type_index = type_index;
  object->deleter = deleter;
  out->type_index = type_index;
  out->zero_padding = 0;
  out->v_obj = object;
  return object;
}

MBLOB_STATIC int mblob_no_memory(const char *name) {
  mblob_raise("MemoryError", name);
  return -1;
}

MBLOB_STATIC int mblob_tensor_to_ffi(const char *name, const DLTensor *tensor, TVMFFIAny *out) {
  size_t ndim = tensor->ndim < 0 ? 0 : (size_t)tensor->ndim;
  mblob_tensor *made = (mblob_tensor *)mblob_object(sizeof *made + ndim * sizeof(int64_t),
                                                    kTVMFFITensor, mblob_delete_tensor, out);
  if (!made) return mblob_no_memory(name);
  made->tensor = *tensor;
  made->tensor.dtype = mblob_type_to_ffi(tensor->dtype);
  if (tensor->strides) return 0;
  int64_t *strides = (int64_t *)(void *)(made + 1),
          step = 1; /* which tensors of this dialect always have */
  for (size_t d = ndim; d-- > 0; step *= tensor->shape[d]) strides[d] = step;
  made->tensor.strides = strides;
  return 0;
}

/* Ask the runtime: the size of an object, or (`count` 2) its item `i`. */
MBLOB_STATIC int mblob_ask(const char *question, TVMValue object, int64_t i, int count,
                           TVMValue *value, int *code) {
  TVMValue args[2];
  int codes[2] = {kTVMObjectHandle, kTVMArgInt};
  void *function = NULL;
  args[0] = object;
  args[1].v_int64 = i;
  int status = TVMBackendGetFuncFromEnv(__tvm_module_ctx, question, &function);
  if (!status) status = TVMFuncCall(function, args, codes, count, value, code);
  mblob_raised = status != 0;
  return status ? -1 : 0;
}

/* An Array of tensors, owned by `out`. */
MBLOB_STATIC int mblob_array_to_ffi(const char *name, TVMValue array, TVMFFIAny *out) {
  TVMValue count, item;
  int code = 0;
  if (mblob_ask("runtime.ArraySize", array, 0, 1, &count, &code)) return -1;
  size_t size = count.v_int64 < 0 ? 0 : (size_t)count.v_int64;
  mblob_array *made = (mblob_array *)mblob_object(sizeof *made + size * sizeof(TVMFFIAny),
                                                  kTVMFFIArray, mblob_delete_array, out);
  if (!made) return mblob_no_memory(name);
  made->items = (TVMFFIAny *)(void *)(made + 1);
  made->capacity = (int64_t)size;
  int status = 0;
  for (int64_t i = 0; i < made->capacity && !status; i++) {
    status = mblob_ask("runtime.ArrayGetItem", array, i, 2, &item, &code);
    if (!status && code != kTVMNDArrayHandle)
      status = mblob_no_way(name, "the ffi dialect", (int)i, code);
    if (!status)
      status = mblob_tensor_to_ffi(name, (const DLTensor *)item.v_handle, &made->items[i]);
    if (!status) made->size = i + 1;
  }
  if (status) mblob_release(out);
  return status;
}

/* Argument `i`, which is none of the values that need no object. */
MBLOB_STATIC int mblob_object_to_ffi(const char *name, int i, TVMValue value, int code,
                                     TVMFFIAny *out) {
  if (code != kTVMObjectHandle) return mblob_no_way(name, "the ffi dialect", i, code);
  return mblob_array_to_ffi(name, value, out);
}
#endif
