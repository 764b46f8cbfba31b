/* kernel_slots.h - how code in a shared library reaches the runtime without linking it.
 *
 * Included by c_runtime_api.h in kernel mode, inside extern "C". The seven functions that TVM's
 * LLVM output calls through weak pointer variables (`__TVMFuncCall`, ...; TVM
 * src/runtime/library_module.cc, unchanged in 0.5 - 0.19) are inline wrappers over the same
 * variables here. A loader, ours or TVM's, stores the addresses of its functions there. While a
 * slot is empty, because the library was opened with a plain dlopen(), the wrapper does what it
 * can alone: workspaces from the heap, parallel loops in one thread, errors per thread (read
 * them through the exported `__mblob_last_error`); calls into the environment fail. */
#ifndef TVM_RUNTIME_KERNEL_SLOTS_H_
#define TVM_RUNTIME_KERNEL_SLOTS_H_

#if !defined(TVM_RUNTIME_C_RUNTIME_API_H_)
#error "include tvm/runtime/c_runtime_api.h"
#endif

#ifndef MBLOB_FEW_HEADERS /* for kernels, which may use them; the code of packed functions does not */
#ifdef __cplusplus
} /* extern "C": the headers below have their own */
#endif
#include <stdlib.h>
#include <string.h>
#ifdef __cplusplus
extern "C" {
#endif
#endif

/* Functions of the C library are the compiler's here, and this one has a name of ours, beside which
 * a <stdlib.h> of C++ may declare its own. */
extern void *mblob_aligned_alloc(size_t alignment, size_t size) __asm__("aligned_alloc");

/* What a parallel task is given; layout of TVM's c_backend_api.h. */
typedef struct {
  void *sync_handle; /* num_task 32-bit counters, one per 64 bytes */
  int32_t num_task;
} TVMParallelGroupEnv;

typedef int (*FTVMParallelLambda)(int task_id, TVMParallelGroupEnv *penv, void *cdata);

/* C has no variable that exists only where it is used, and C++'s inline variables are
 * STB_GNU_UNIQUE, which all libraries of a process would share. So the wrapper itself carries
 * the definition, once per file. */
#define MBLOB_STR2(x) #x
#define MBLOB_STR(x) MBLOB_STR2(x)
#define MBLOB_WORD MBLOB_STR(__SIZEOF_POINTER__)
#ifndef MBLOB_DEFINE_SLOT /* a file that defines slots itself says so before */
#define MBLOB_DEFINE_SLOT(name)                                                                  \
  __asm__(".ifndef " #name "\n.pushsection .bss." #name ",\"aw\",%nobits\n.balign " MBLOB_WORD   \
          "\n.weak " #name "\n.type " #name ", %object\n.size " #name ", " MBLOB_WORD "\n" #name \
          ":\n.zero " MBLOB_WORD "\n.popsection\n.endif")
#endif

/* The variable, and its wrapper, whose assembler name is not the function's: mblob_adopt_runtime
 * means that one. */
#define MBLOB_SLOT(ret, name, params)   \
  extern TVM_DLL ret(*__##name) params; \
  static inline ret name params __asm__("mblob_kernel_" #name)

MBLOB_SLOT(int, TVMFuncCall, (void *, TVMValue *, int *, int, TVMValue *, int *));
MBLOB_SLOT(void, TVMAPISetLastError, (const char *));
MBLOB_SLOT(int, TVMBackendGetFuncFromEnv, (void *, const char *, void **));
MBLOB_SLOT(void *, TVMBackendAllocWorkspace, (int, int, uint64_t, int, int));
MBLOB_SLOT(int, TVMBackendFreeWorkspace, (int, int, void *));
MBLOB_SLOT(int, TVMBackendParallelLaunch, (FTVMParallelLambda, void *, int));
MBLOB_SLOT(int, TVMBackendParallelBarrier, (int, TVMParallelGroupEnv *));

/* ---- errors without a runtime ---------------------------------------------------------------- */

#define MBLOB_KERNEL_ERROR_SIZE 512 /* bytes, terminator included; longer texts are cut */

/* The text of one thread. Texts are on the heap, not in memory of the thread: that needs the dynamic linker of
 * glibc, which musl refuses to load. They stay until the process ends; a thread takes over that of one before it
 * which had its number. */
typedef struct mblob_error_text {
  struct mblob_error_text *next;
  uintptr_t thread;
  char text[MBLOB_KERNEL_ERROR_SIZE];
} mblob_error_text;

/* One list for the whole library, whichever of its objects fails. */
extern __attribute__((visibility("hidden"))) mblob_error_text *__mblob_error_texts;
uintptr_t mblob_this_thread(void) __asm__("pthread_self");

static const char mblob_untold_error[] = "an error, whose text has no memory"; /* not written to */

static inline char *mblob_text_of_thread(void) {
  const uintptr_t thread = mblob_this_thread();
  mblob_error_text *first = __atomic_load_n(&__mblob_error_texts, __ATOMIC_ACQUIRE);
  for (mblob_error_text *e = first; e; e = e->next)
    if (e->thread == thread) return e->text;
  mblob_error_text *made = (mblob_error_text *)__builtin_malloc(sizeof *made);
  if (!made) return (char *)mblob_untold_error;
  made->thread = thread;
  made->text[0] = 0;
  do made->next = first;
  while (!__atomic_compare_exchange_n(&__mblob_error_texts, &first, made, 0, __ATOMIC_RELEASE,
                                      __ATOMIC_ACQUIRE));
  return made->text;
}

/* Kept as a function of exactly this name, because `__mblob_last_error` is an alias of it. */
#if defined(__clang__)
#define MBLOB_KEEP_FUNCTION __attribute__((unused, noinline))
#else
#define MBLOB_KEEP_FUNCTION __attribute__((unused, noinline, noclone))
#endif

static char *mblob_kernel_error_text(void) __asm__("__mblob_kernel_error_text");
MBLOB_KEEP_FUNCTION static char *mblob_kernel_error_text(void) {
  __asm__(
      ".ifndef __mblob_error_texts\n.pushsection .bss.__mblob_error_texts,\"aw\",%nobits\n.balign " MBLOB_WORD
      "\n.weak __mblob_error_texts\n.hidden __mblob_error_texts\n.type __mblob_error_texts, %object\n"
      ".size __mblob_error_texts, " MBLOB_WORD
      "\n__mblob_error_texts:\n"
      ".zero " MBLOB_WORD
      "\n.popsection\n.endif\n"
      ".ifndef __mblob_last_error\n.weak __mblob_last_error\n.type __mblob_last_error, %function\n"
      ".set __mblob_last_error, __mblob_kernel_error_text\n.endif");
  /* The alias calls this from outside: a compiler that knew the result would return nothing
   * here. */
  char *text = mblob_text_of_thread();
  __asm__("" : "+r"(text));
  return text;
}

static inline void TVMAPISetLastError(const char *msg) {
  MBLOB_DEFINE_SLOT(__TVMAPISetLastError);
  if (__TVMAPISetLastError) {
    __TVMAPISetLastError(msg);
    return;
  }
  char *text = mblob_kernel_error_text();
  if (text == mblob_untold_error) return;
  size_t size = msg ? __builtin_strlen(msg) : 0;
  if (size > MBLOB_KERNEL_ERROR_SIZE - 1) size = MBLOB_KERNEL_ERROR_SIZE - 1;
  if (size) __builtin_memcpy(text, msg, size);
  text[size] = 0;
}

/* The API function `name` was called where nothing provides it. */
static inline int mblob_kernel_no_runtime(const char *name) {
  static const char tail[] = ": no runtime is in this process; open the library with mblob or TVM";
  char text[128];
  size_t size = __builtin_strlen(name);
  if (size > sizeof(text) - sizeof(tail)) size = sizeof(text) - sizeof(tail);
  __builtin_memcpy(text, name, size);
  __builtin_memcpy(text + size, tail, sizeof(tail));
  TVMAPISetLastError(text);
  return -1;
}

static const char *mblob_weak_TVMGetLastError(void) __attribute__((weakref("TVMGetLastError")));
static inline const char *TVMGetLastError(void) __asm__("mblob_kernel_TVMGetLastError");
static inline const char *TVMGetLastError(void) {
  if (mblob_weak_TVMGetLastError) return mblob_weak_TVMGetLastError();
  return mblob_kernel_error_text();
}

/* ---- the slot functions ---------------------------------------------------------------------- */

static inline int TVMFuncCall(TVMFunctionHandle func, TVMValue *arg_values, int *type_codes,
                              int num_args, TVMValue *ret_val, int *ret_type_code) {
  MBLOB_DEFINE_SLOT(__TVMFuncCall);
  if (__TVMFuncCall)
    return __TVMFuncCall(func, arg_values, type_codes, num_args, ret_val, ret_type_code);
  return mblob_kernel_no_runtime("TVMFuncCall");
}

static inline int TVMBackendGetFuncFromEnv(void *mod_node, const char *func_name,
                                           TVMFunctionHandle *out) {
  MBLOB_DEFINE_SLOT(__TVMBackendGetFuncFromEnv);
  if (__TVMBackendGetFuncFromEnv) return __TVMBackendGetFuncFromEnv(mod_node, func_name, out);
  return mblob_kernel_no_runtime(func_name ? func_name : "TVMBackendGetFuncFromEnv");
}

/* What is done without a runtime: mblob_fallback_<function>. */
static inline void *mblob_fallback_TVMBackendAllocWorkspace(int device_type, int device_id,
                                                            uint64_t nbytes, int dtype_code_hint,
                                                            int dtype_bits_hint) {
  (void)device_id;
  (void)dtype_code_hint;
  (void)dtype_bits_hint;
  /* 128 bytes is what kernels of TVM 0.7 - 0.9 assume, 64 the others. */
  const uint64_t align = 128;
  if (device_type != kDLCPU || nbytes > (uint64_t)PTRDIFF_MAX - align) return NULL;
  return mblob_aligned_alloc((size_t)align,
                             (size_t)((nbytes + align - (nbytes != 0)) / align * align));
}

static inline void *TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t nbytes,
                                             int dtype_code_hint, int dtype_bits_hint) {
  MBLOB_DEFINE_SLOT(__TVMBackendAllocWorkspace);
  if (__TVMBackendAllocWorkspace)
    return __TVMBackendAllocWorkspace(device_type, device_id, nbytes, dtype_code_hint,
                                      dtype_bits_hint);
  return mblob_fallback_TVMBackendAllocWorkspace(device_type, device_id, nbytes, dtype_code_hint,
                                                 dtype_bits_hint);
}

static inline int mblob_fallback_TVMBackendFreeWorkspace(int device_type, int device_id,
                                                         void *ptr) {
  (void)device_type;
  (void)device_id;
  __builtin_free(ptr);
  return 0;
}

static inline int TVMBackendFreeWorkspace(int device_type, int device_id, void *ptr) {
  MBLOB_DEFINE_SLOT(__TVMBackendFreeWorkspace);
  if (__TVMBackendFreeWorkspace) return __TVMBackendFreeWorkspace(device_type, device_id, ptr);
  return mblob_fallback_TVMBackendFreeWorkspace(device_type, device_id, ptr);
}

static inline int mblob_fallback_TVMBackendParallelLaunch(FTVMParallelLambda flambda, void *cdata,
                                                          int num_task) {
  /* One task, however many were asked for: tasks that meet at a barrier cannot run one after the
   * other. */
  int32_t counter[16] = {0};
  TVMParallelGroupEnv env;
  (void)num_task;
  env.sync_handle = counter;
  env.num_task = 1;
  return flambda(0, &env, cdata);
}

static inline int TVMBackendParallelLaunch(FTVMParallelLambda flambda, void *cdata, int num_task) {
  MBLOB_DEFINE_SLOT(__TVMBackendParallelLaunch);
  if (__TVMBackendParallelLaunch) return __TVMBackendParallelLaunch(flambda, cdata, num_task);
  return mblob_fallback_TVMBackendParallelLaunch(flambda, cdata, num_task);
}

static inline int mblob_fallback_TVMBackendParallelBarrier(int task_id, TVMParallelGroupEnv *penv) {
  (void)task_id;
  (void)penv;
  return 0;
}

static inline int TVMBackendParallelBarrier(int task_id, TVMParallelGroupEnv *penv) {
  MBLOB_DEFINE_SLOT(__TVMBackendParallelBarrier);
  if (__TVMBackendParallelBarrier) return __TVMBackendParallelBarrier(task_id, penv);
  return mblob_fallback_TVMBackendParallelBarrier(task_id, penv);
}

/* ---- a program that was compiled like a kernel ----------------------------------------------- */

#define MBLOB_ADOPT(ret, name, params)                                 \
  static ret mblob_weak_##name params __attribute__((weakref(#name))); \
  static inline void mblob_adopt_##name(void) {                        \
    ret(*linked) params = mblob_weak_##name;                           \
    MBLOB_DEFINE_SLOT(__##name);                                       \
    if (!__atomic_load_n(&__##name, __ATOMIC_RELAXED) && linked)       \
      __atomic_store_n(&__##name, linked, __ATOMIC_RELAXED);           \
  }
MBLOB_ADOPT(int, TVMFuncCall, (void *, TVMValue *, int *, int, TVMValue *, int *))
MBLOB_ADOPT(void, TVMAPISetLastError, (const char *))
MBLOB_ADOPT(int, TVMBackendGetFuncFromEnv, (void *, const char *, void **))
MBLOB_ADOPT(void *, TVMBackendAllocWorkspace, (int, int, uint64_t, int, int))
MBLOB_ADOPT(int, TVMBackendFreeWorkspace, (int, int, void *))
MBLOB_ADOPT(int, TVMBackendParallelLaunch, (FTVMParallelLambda, void *, int))
MBLOB_ADOPT(int, TVMBackendParallelBarrier, (int, TVMParallelGroupEnv *))

/* Fill the slots that no loader has filled with the functions of the runtime that is linked, if
 * one is. */
static inline void mblob_adopt_runtime(void) {
  mblob_adopt_TVMFuncCall();
  mblob_adopt_TVMAPISetLastError();
  mblob_adopt_TVMBackendGetFuncFromEnv();
  mblob_adopt_TVMBackendAllocWorkspace();
  mblob_adopt_TVMBackendFreeWorkspace();
  mblob_adopt_TVMBackendParallelLaunch();
  mblob_adopt_TVMBackendParallelBarrier();
}

#endif /* TVM_RUNTIME_KERNEL_SLOTS_H_ */
