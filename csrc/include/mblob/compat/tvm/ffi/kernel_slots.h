/* kernel_slots.h - how code of the ffi dialect reaches the runtime without linking it.
 *
 * Included by c_api.h in kernel mode, inside extern "C". A loader that knows the variable
 * `__NAME` stores the address of its function there; TVM's does for those of libtvm_runtime.
 * tvm_ffi alone fills none, but has its functions in the global scope, where they are looked for
 * next. Where there is neither (a plain dlopen()), errors stay per thread (read them through the
 * exported `__mblob_last_error`), and calls into the environment fail. */
#ifndef TVM_FFI_KERNEL_SLOTS_H_
#define TVM_FFI_KERNEL_SLOTS_H_

#if !defined(TVM_FFI_C_API_H_)
#error "include tvm/ffi/c_api.h"
#endif

/* <dlfcn.h> shows RTLD_DEFAULT only to those who asked before their first header; here it is 0
 * wherever there is ELF. */
void *dlsym(void *handle, const char *name);

/* The address of a function of the process, 0 if nobody has it. Looked for each time: who has it
 * may come later. */
static inline uintptr_t mblob_global_function(const char *name) {
  return (uintptr_t)dlsym((void *)0, name);
}

MBLOB_SLOT(int, TVMFFIFunctionCall, (TVMFFIObjectHandle, TVMFFIAny *, int32_t, TVMFFIAny *));
MBLOB_SLOT(void, TVMFFIErrorSetRaisedFromCStr, (const char *, const char *));
MBLOB_SLOT(int, TVMFFIEnvModLookupFromImports,
           (TVMFFIObjectHandle, const char *, TVMFFIObjectHandle *));
MBLOB_SLOT(int, TVMFFIHandleInitOnce, (void **, int (*)(void **)));

/* What is done while the slot is empty: mblob_fallback_<function>. */
static inline void mblob_fallback_TVMFFIErrorSetRaisedFromCStr(const char *kind,
                                                               const char *message) {
  void (*set)(const char *, const char *) =
      (void (*)(const char *, const char *))mblob_global_function("TVMFFIErrorSetRaisedFromCStr");
  if (set) {
    set(kind, message);
    return;
  }
  char *text = mblob_kernel_error_text();
  if (text == mblob_untold_error) return;
  size_t used = 0;
  const char *const pieces[] = {kind, ": ", message};
  for (size_t i = 0; i < 3; i++) {
    const char *piece = pieces[i] ? pieces[i] : "";
    size_t size = __builtin_strlen(piece);
    if (size > MBLOB_KERNEL_ERROR_SIZE - 1 - used) size = MBLOB_KERNEL_ERROR_SIZE - 1 - used;
    __builtin_memcpy(text + used, piece, size);
    used += size;
  }
  text[used] = 0;
}

static inline void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message) {
  MBLOB_DEFINE_SLOT(__TVMFFIErrorSetRaisedFromCStr);
  if (__TVMFFIErrorSetRaisedFromCStr)
    __TVMFFIErrorSetRaisedFromCStr(kind, message);
  else
    mblob_fallback_TVMFFIErrorSetRaisedFromCStr(kind, message);
}

/* Parts that are NULL are left out. */
static inline void TVMFFIErrorSetRaisedFromCStrParts(
    const char *kind, const char **message_parts,
    int32_t num_parts) __asm__("mblob_kernel_TVMFFIErrorSetRaisedFromCStrParts");
static inline void TVMFFIErrorSetRaisedFromCStrParts(const char *kind, const char **message_parts,
                                                     int32_t num_parts) {
  size_t size = 1;
  for (int32_t i = 0; i < num_parts; i++)
    if (message_parts[i]) size += __builtin_strlen(message_parts[i]);
  char *text = (char *)__builtin_malloc(size);
  if (!text) {
    TVMFFIErrorSetRaisedFromCStr(kind, "out of memory for the text of an error");
    return;
  }
  size_t used = 0;
  for (int32_t i = 0; i < num_parts; i++) {
    size_t part = message_parts[i] ? __builtin_strlen(message_parts[i]) : 0;
    if (part) __builtin_memcpy(text + used, message_parts[i], part);
    used += part;
  }
  text[used] = 0;
  TVMFFIErrorSetRaisedFromCStr(kind, text);
  __builtin_free(text);
}

static inline int mblob_ffi_no_runtime(const char *name) {
  const char *parts[] = {
      name, ": no runtime has opened this library; open it with mblob, TVM or tvm_ffi"};
  TVMFFIErrorSetRaisedFromCStrParts("RuntimeError", parts, 2);
  return -1;
}

static inline int mblob_fallback_TVMFFIFunctionCall(TVMFFIObjectHandle func, TVMFFIAny *args,
                                                    int32_t num_args, TVMFFIAny *result) {
  int (*call)(TVMFFIObjectHandle, TVMFFIAny *, int32_t, TVMFFIAny *) =
      (int (*)(TVMFFIObjectHandle, TVMFFIAny *, int32_t, TVMFFIAny *))mblob_global_function(
          "TVMFFIFunctionCall");
  return call ? call(func, args, num_args, result) : mblob_ffi_no_runtime("TVMFFIFunctionCall");
}

static inline int TVMFFIFunctionCall(TVMFFIObjectHandle func, TVMFFIAny *args, int32_t num_args,
                                     TVMFFIAny *result) {
  MBLOB_DEFINE_SLOT(__TVMFFIFunctionCall);
  if (__TVMFFIFunctionCall) return __TVMFFIFunctionCall(func, args, num_args, result);
  return mblob_fallback_TVMFFIFunctionCall(func, args, num_args, result);
}

/* tvm_ffi follows the context unseen: it must not get that of a library which no loader opened. */
static inline int mblob_fallback_TVMFFIEnvModLookupFromImports(TVMFFIObjectHandle library_ctx,
                                                               const char *func_name,
                                                               TVMFFIObjectHandle *out) {
  int (*look)(TVMFFIObjectHandle, const char *, TVMFFIObjectHandle *) =
      (int (*)(TVMFFIObjectHandle, const char *, TVMFFIObjectHandle *))mblob_global_function(
          "TVMFFIEnvModLookupFromImports");
  return look && library_ctx ? look(library_ctx, func_name, out) : mblob_ffi_no_runtime(func_name);
}

static inline int TVMFFIEnvModLookupFromImports(TVMFFIObjectHandle library_ctx,
                                                const char *func_name, TVMFFIObjectHandle *out) {
  MBLOB_DEFINE_SLOT(__TVMFFIEnvModLookupFromImports);
  if (__TVMFFIEnvModLookupFromImports)
    return __TVMFFIEnvModLookupFromImports(library_ctx, func_name, out);
  return mblob_fallback_TVMFFIEnvModLookupFromImports(library_ctx, func_name, out);
}

/* Without a runtime that has it: threads that race may each make a handle, and one of them
 * stays. */
static inline int mblob_fallback_TVMFFIHandleInitOnce(void **handle_addr,
                                                      int (*init_func)(void **result)) {
  int (*once)(void **, int (*)(void **)) =
      (int (*)(void **, int (*)(void **)))mblob_global_function("TVMFFIHandleInitOnce");
  if (once) return once(handle_addr, init_func);
  if (__atomic_load_n(handle_addr, __ATOMIC_ACQUIRE)) return 0;
  void *made = (void *)0;
  int status = init_func(&made);
  if (!status) __atomic_store_n(handle_addr, made, __ATOMIC_RELEASE);
  return status;
}

static inline int TVMFFIHandleInitOnce(void **handle_addr, int (*init_func)(void **result)) {
  MBLOB_DEFINE_SLOT(__TVMFFIHandleInitOnce);
  if (__TVMFFIHandleInitOnce) return __TVMFFIHandleInitOnce(handle_addr, init_func);
  return mblob_fallback_TVMFFIHandleInitOnce(handle_addr, init_func);
}

#endif /* TVM_FFI_KERNEL_SLOTS_H_ */
