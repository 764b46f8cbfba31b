/* mblob.h - open a packed module library from C and call what is inside.
 *
 * Ownership   a "new reference" is the caller's: give it back with the release that the comment
 *             names. "Borrowed" results live as long as a reference to the module or function they
 *             came from: never free them. Arguments are borrowed for the call unless the comment
 *             says that they are copied or kept. release(NULL) does nothing. A function keeps its
 *             library loaded, so does a module.
 * Errors      functions that can fail return MBLOB_OK (0) or a status below, and set their outputs
 *             to NULL or 0 first. mblob_last_error() has the text, mblob_last_error_info() the
 *             parts. Both are per thread and hold until the next failing call on that thread.
 *             MBLOB_E_ARGUMENT (an argument is NULL that must not be) and MBLOB_E_MEMORY are
 *             possible everywhere; comments name the others.
 * Threads     "any": from any thread, several at a time, also with the same module or function.
 * Units       sizes and offsets are bytes, shapes and strides are elements.
 *
 * Opening a library runs its constructors: open only files you would execute.  Everything that
 * can be checked (ELF headers, blob, index) is checked from the file before that happens. */
#ifndef MBLOB_H
#define MBLOB_H

#include <stddef.h>
#include <stdint.h>

#include <dlpack/dlpack.h>
#include <mblob/plugin.h>
#include <tvm/runtime/c_runtime_api.h>

#define MBLOB_ABI_VERSION 1 /* raised when something below changes incompatibly */
#define MBLOB_VERSION "0.1.0"

#if defined(MBLOB_STATIC)
#define MBLOB_API
#else
#define MBLOB_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- status and errors ----------------------------------------------------------------------- */

/* Values are ABI: sparse, never renumbered. */
typedef enum mblob_status {
  MBLOB_OK = 0,
  MBLOB_E_ARGUMENT = 10,     /* a wrong argument: count, type, shape, device */
  MBLOB_E_NOT_FOUND = 11,    /* no function or symbol of that name */
  MBLOB_E_FORMAT = 20,       /* the file breaks docs/format.md; `code` and `offset` say where */
  MBLOB_E_DIGEST = 21,       /* bytes differ from their digest */
  MBLOB_E_INCOMPATIBLE = 30, /* right file, wrong machine; or the dynamic linker refused it */
  MBLOB_E_LOADER = 40,       /* no loader is registered for a module's type key */
  MBLOB_E_KERNEL = 50,       /* a function returned an error; the text is the function's */
  MBLOB_E_IO = 60,           /* the operating system refused */
  MBLOB_E_MEMORY = 70        /* out of memory */
} mblob_status;

typedef struct mblob_error_info {
  int status; /* mblob_status */
  /* One line, never NULL; what does not print is escaped. MBLOB_E_KERNEL: as the kernel set it. */
  const char *message;
  /* Stable name of the broken rule (docs/format.md), "" when there is none. MBLOB_E_KERNEL:
   * "kernel_arguments" when the kernel refused its arguments; MBLOB_E_NOT_FOUND: "plain_function"
   * for a C function that has no packed form. */
  const char *code;
  int64_t offset;        /* byte in the blob (or in the file, for ELF rules); -1 when unknown */
  int64_t entry;         /* index of the module concerned; -1 when none */
  const char *type_key;  /* MBLOB_E_LOADER: the key nobody loads, else "" */
  const char *available; /* MBLOB_E_LOADER: keys that have a loader, comma separated, else "" */
  const char *hint;      /* what to do about it, "" when nothing is known */
} mblob_error_info;

/* MBLOB_ABI_VERSION of the libmblob that runs. Compare it with the one that was compiled in.
 * Errors: none.
 * Threads: any. */
MBLOB_API uint32_t mblob_abi_version(void);
/* Text of the last error of this thread, with place and rule where they are known; "" before the
 * first error.
 * Ownership: borrowed until the next failing call on this thread.
 * Errors: none; never NULL.
 * Threads: each has its own. */
MBLOB_API const char *mblob_last_error(void);
/* Parts of the last error of this thread; status MBLOB_OK before the first error.
 * Ownership: borrowed until the next failing call on this thread, texts included.
 * Errors: none; never NULL.
 * Threads: each has its own. */
MBLOB_API const mblob_error_info *mblob_last_error_info(void);
/* Record a failure, as loaders and functions do before they return a status. MBLOB_OK counts as
 * MBLOB_E_KERNEL.
 * Ownership: `message` is copied.
 * Errors: the recorded status is returned.
 * Threads: each has its own. */
MBLOB_API int mblob_set_error(int status, const char *message);

/* ---- modules --------------------------------------------------------------------------------- */

typedef struct mblob_module mblob_module;     /* one module of a tree */
typedef struct mblob_function mblob_function; /* something callable; also a TVMFunctionHandle */

typedef enum mblob_verify {
  MBLOB_VERIFY_HEADER = 0, /* index and its checksums; while all payloads together are at most 256
                              KiB, all that FULL does (default) */
  MBLOB_VERIFY_FULL = 1,   /* every byte of the blob against its checksum, stream against index */
  MBLOB_VERIFY_OFF = 2     /* bounds only */
} mblob_verify;

typedef enum mblob_missing {
  MBLOB_MISSING_ERROR = 0, /* a type key without a loader fails the open (default) */
  MBLOB_MISSING_STUB = 1   /* it opens; calling into that module fails */
} mblob_missing;

struct mblob_loader;

typedef struct mblob_open_options {
  uint32_t struct_size; /* sizeof(mblob_open_options) */
  int32_t verify;       /* mblob_verify */
  int32_t missing;      /* mblob_missing */
  uint32_t loader_count;
  const struct mblob_loader *const *loaders; /* loaders for this open only, asked first */
} mblob_open_options;

/* Open a library. `*out` is the root of its import tree. `options` may be NULL. A relative path is
 * relative to the working directory, never searched for.
 * Ownership: `*out` is a new reference, given back with mblob_module_release(). Loaders of
 * `options` are copied; their `context` must outlive the library.
 * Errors: MBLOB_E_IO, MBLOB_E_FORMAT, MBLOB_E_DIGEST, MBLOB_E_INCOMPATIBLE, MBLOB_E_LOADER.
 * Threads: any. */
MBLOB_API int mblob_open(const char *path, const mblob_open_options *options, mblob_module **out);
/* As mblob_open, of an open file.
 * Ownership: `*out` is a new reference, given back with mblob_module_release(). The descriptor
 * stays the caller's and may be closed at once.
 * Errors: as mblob_open.
 * Threads: any. */
MBLOB_API int mblob_open_fd(int fd, const mblob_open_options *options, mblob_module **out);
/* As mblob_open, of `size` bytes in memory.
 * Ownership: `*out` is a new reference, given back with mblob_module_release(). The bytes are
 * copied to a sealed memory file and may go at once.
 * Errors: as mblob_open.
 * Threads: any. */
MBLOB_API int mblob_open_memory(const void *data, size_t size, const mblob_open_options *options,
                                mblob_module **out);

/* The module of the code that is linked into this program (or into a library that it has loaded)
 * and was packed for static linking under `prefix` ("": none): export_library(...,
 * system_lib=True). What was packed under a longer prefix is another library, also where "" is
 * asked for. Call this before a kernel looks up a function by name, or anything asks the registry.
 * A module whose type key has no loader fails when it is called.
 * Ownership: `*out` is a new reference to the same module each time, given back with
 * mblob_module_release(); the code stays for the life of the process.
 * Errors: MBLOB_E_NOT_FOUND: nothing is linked in with that prefix. MBLOB_E_FORMAT.
 * Threads: any. */
MBLOB_API int mblob_system_lib(const char *prefix, mblob_module **out);
/* At file scope, once in a program that links an archive (`.a`) of prefix `prefix`: makes the
 * linker take it. An object needs no such thing. Example: MBLOB_SYSTEM_LIB(digits_); */
#define MBLOB_SYSTEM_LIB(prefix) MBLOB_ANCHOR(prefix##__mblob_system_lib)
#define MBLOB_ANCHOR(s)  \
  extern const char s[]; \
  static const char *const s##_anchor __attribute__((used)) = s

/* Take one more reference. NULL gives NULL.
 * Ownership: returns `module`, a new reference, given back with mblob_module_release().
 * Errors: none.
 * Threads: any. */
MBLOB_API mblob_module *mblob_module_retain(mblob_module *module);
/* Give a reference back. With the last one to a library's modules and functions the library closes.
 * Ownership: the reference is gone; what was borrowed from it, too.
 * Errors: none; NULL is fine.
 * Threads: any. */
MBLOB_API void mblob_module_release(mblob_module *module);

/* Kind of the module: "library", "GraphExecutorFactory", "safetensors", ... Of NULL "".
 * Ownership: borrowed from the module.
 * Errors: none.
 * Threads: any. */
MBLOB_API const char *mblob_module_type_key(const mblob_module *module);
/* The dialect of the blob that the file carries: "classic", "ffi" (TVM 0.21 and later), or "" for a
 * library without one.
 * Ownership: a constant, borrowed for ever.
 * Errors: none.
 * Threads: any. */
MBLOB_API const char *mblob_module_dialect(const mblob_module *module);
/* Index of the module in its file (order of the blob), 0 for the root.
 * Errors: none.
 * Threads: any. */
MBLOB_API size_t mblob_module_index(const mblob_module *module);
/* Absolute path of the file, "" when it came from memory.
 * Ownership: borrowed from the module.
 * Errors: none.
 * Threads: any. */
MBLOB_API const char *mblob_module_path(const mblob_module *module);
/* How many modules this one imports directly.
 * Errors: none; 0 of NULL.
 * Threads: any, but not while mblob_module_import() changes this module. */
MBLOB_API size_t mblob_module_import_count(const mblob_module *module);
/* Direct import `i`, counted from 0, in load order.
 * Ownership: borrowed from `module`; mblob_module_retain() keeps it longer. Do not release it.
 * Errors: none; NULL past the end.
 * Threads: any, but not while mblob_module_import() changes this module. */
MBLOB_API mblob_module *mblob_module_import_at(const mblob_module *module, size_t i);
/* Append `child` to the imports of `module`.
 * Ownership: `module` keeps a reference to `child`; the caller's stays the caller's.
 * Errors: MBLOB_E_ARGUMENT: `child` imports `module` already, directly or not: a cycle.
 * Threads: the one call that changes a module. Nothing may look into `module` meanwhile. */
MBLOB_API int mblob_module_import(mblob_module *module, mblob_module *child);
/* The module's bytes: `*data` points to `*size` bytes. None for a library.
 * Ownership: borrowed from the module. They are in the file's mapping: do not write.
 * Errors: MBLOB_E_ARGUMENT.
 * Threads: any. */
MBLOB_API int mblob_module_payload(const mblob_module *module, const void **data, size_t *size);
/* Nonzero if the payload is plain data that needs no loader.
 * Errors: none; 0 of NULL.
 * Threads: any. */
MBLOB_API int mblob_module_is_data(const mblob_module *module);

/* Find a function: the module's own first; then, with query_imports, through the imports depth
 * first. "__tvm_main__" is the entry function that the library names.
 * Ownership: `*out` is a new reference, given back with mblob_function_release(). It keeps the
 * library loaded.
 * Errors: MBLOB_E_NOT_FOUND: the text lists what there is. MBLOB_E_LOADER. What a loader's `open`
 * returned.
 * Threads: any. */
MBLOB_API int mblob_module_function(mblob_module *module, const char *name, int query_imports,
                                    mblob_function **out);
/* Visit the names of the module's own functions, as far as they are known without a search: not
 * those of a library, which are symbols, and of others only once they are open.
 * Ownership: `name` is borrowed for that call of `visit`.
 * Errors: MBLOB_E_ARGUMENT.
 * Threads: any; `visit` runs on the calling thread. */
MBLOB_API int mblob_module_names(mblob_module *module,
                                 void (*visit)(void *context, const char *name), void *context);
/* Address of any exported symbol of a library module: a plain C function, data.
 * Ownership: borrowed from the module.
 * Errors: NULL if the symbol is absent, or the module is no library; no error is recorded.
 * Threads: any. */
MBLOB_API void *mblob_module_symbol(mblob_module *module, const char *name);

/* ---- tensors in weights ---------------------------------------------------------------------- */

/* A named tensor of a data module (key "safetensors", or a parameter dictionary), found on
 * `module` or, depth first, on its imports. `*out` is filled in place; to pass it to mblob_call the
 * type is `tensor`.
 * Ownership: `out->data` and `out->shape` are borrowed from the module. They are in the file's
 * mapping: do not write.
 * Errors: MBLOB_E_NOT_FOUND: no tensor of that name. MBLOB_E_FORMAT: the weights are damaged.
 * Threads: any. */
MBLOB_API int mblob_module_tensor(mblob_module *module, const char *name, DLTensor *out);

/* ---- functions ------------------------------------------------------------------------------- */

/* Take one more reference. NULL gives NULL.
 * Ownership: returns `function`, a new reference, given back with mblob_function_release().
 * Errors: none.
 * Threads: any. */
MBLOB_API mblob_function *mblob_function_retain(mblob_function *function);
/* Give a reference back.
 * Ownership: the reference is gone; what was borrowed from it, too.
 * Errors: none; NULL is fine.
 * Threads: any. */
MBLOB_API void mblob_function_release(mblob_function *function);

/* Call with TVM's packed convention: args[i] has type code codes[i] (kTVMArgInt,
 * kTVMDLTensorHandle, ...). `ret` and `ret_code` may be NULL: then what is returned is dropped.
 * Code kTVMNullptr means nothing was returned. Tensor data must be as aligned as the kernel
 * assumes: mblob_function_alignment() bytes.
 * Ownership: arguments are borrowed for the call. A returned array, module, function or object is a
 * new reference of the caller: TVMArrayFree, mblob_module_release, mblob_function_release,
 * TVMObjectFree. Returned text is borrowed until the next call on this thread.
 * Errors: MBLOB_E_KERNEL, or the status that the function recorded. MBLOB_E_ARGUMENT.
 * Threads: any, if the kernel allows it. */
MBLOB_API int mblob_function_call(mblob_function *function, const TVMValue *args, const int *codes,
                                  int count, TVMValue *ret, int *ret_code);
/* Alignment in bytes that tensor data must have; 0: the element's own size is enough.
 * Errors: none; 0 of NULL.
 * Threads: any. */
MBLOB_API uint32_t mblob_function_alignment(const mblob_function *function);
/* The C argument types that the library recorded ("const float *, float *, int64_t"), "" when
 * unknown.
 * Ownership: borrowed from the function.
 * Errors: none.
 * Threads: any. */
MBLOB_API const char *mblob_function_signature(const mblob_function *function);
/* The first argument from which on tensors are results that the function writes, whatever they
 * hold: of methods of executors (get_output, set_outputs, ...). 0: none is known; what kernels
 * write is in their signature.
 * Errors: none.
 * Threads: any. */
MBLOB_API int mblob_function_first_output(const mblob_function *function);
/* 1: arguments reach the function as values of the ffi dialect (TVM 0.21 and later), which has
 * bools (kTVMArgBool), texts with a NUL in them and containers (kTVMObjectHandle); 2: the same of
 * a function of a Relax machine, which may return, or keep, a tensor that it was given: pass
 * counted ones (kTVMNDArrayHandle); 0: as they are, by the packed convention.
 * Errors: none; 0 of NULL.
 * Threads: any. */
MBLOB_API int mblob_function_is_ffi(const mblob_function *function);

/* Look up `name` (imports included) and call it with arguments described by `types`, a comma
 * separated list:
 *   int               int               int8 to int64, uint8 to uint64   intN_t, uintN_t
 *   bool              bool              float32            float
 *   str               const char *      float64, double    double
 *   handle            void *            tensor             DLTensor *, shape and strides as it says
 *   DTYPE[d0,d1,...]  pointer to compact data of that shape on the host, e.g. float32[8,8]; a
 *                     dimension `*` takes an int64_t from the arguments, before the pointer
 * C promotes what is narrower: pass an int8_t or a float as it is, and cast a constant for
 * `int64`: (int64_t)3. A uint64 above INT64_MAX is passed only to a function that is known to
 * take a uint64_t: the convention has a sign. Data less aligned than the kernel needs goes
 * through an aligned copy and is written back.
 * Examples, the first of a kernel with an int64_t behind its arrays, the second with an int and a
 * float:
 *   mblob_call(m, "vadd", "float32[3],float32[3],float32[3],int64", a, b, c, (int64_t)3);
 *   mblob_call(m, "scale", "float32[*],int,float32", (int64_t)n, a, 2, 0.5f);
 * Ownership: arguments are borrowed for the call. A result is dropped: mblob_function_call() gives
 * it.
 * Errors: MBLOB_E_NOT_FOUND; MBLOB_E_ARGUMENT: `types` cannot be read; MBLOB_E_KERNEL: the kernel
 * failed, or refused the arguments (code "kernel_arguments").
 * Threads: any, if the kernel allows it. */
MBLOB_API int mblob_call(mblob_module *module, const char *name, const char *types, ...);

/* Make a function of a C callback. The callback returns 0, or nonzero after mblob_set_error /
 * TVMAPISetLastError; it sets the result through TVMCFuncSetReturn(ret, ...).
 * Ownership: `*out` is a new reference, given back with mblob_function_release(). With the last one
 * `finalize` (may be NULL) is called with `resource`. On failure `resource` stays the caller's.
 * Errors: MBLOB_E_ARGUMENT.
 * Threads: any; the callback runs on the threads of its callers. */
MBLOB_API int mblob_function_create(TVMPackedCFunc call, void *resource,
                                    TVMPackedCFuncFinalizer finalize, mblob_function **out);

/* A function as an object of tvm_ffi (TVMFFIObjectHandle), for other users of that interface in
 * the process. What came from tvm_ffi goes back as the same object.
 * Ownership: `*out` is a new reference, given back with TVMFFIObjectDecRef; it keeps `function`.
 * Errors: MBLOB_E_INCOMPATIBLE: libmblob-ffi.so is not there.
 * Threads: any. */
MBLOB_API int mblob_function_to_ffi(mblob_function *function, void **out);
/* An object of tvm_ffi as a function. One that is no function can only be passed on.
 * Ownership: `*out` is a new reference, given back with mblob_function_release(); it keeps
 * `object`, and the caller's reference to `object` stays the caller's.
 * Errors: MBLOB_E_INCOMPATIBLE: libmblob-ffi.so is not there.
 * Threads: any. */
MBLOB_API int mblob_function_from_ffi(void *object, mblob_function **out);

/* ---- executors ------------------------------------------------------------------------------- */

/* Models: executors that the root of a library makes (GraphExecutorFactory, AotExecutorFactory,
 * VMExecutable, relax.VMExecutable). An executor is a module, and all of TVM's functions of it can be called; these
 * are the ones that every program needs. It keeps its library. Use one from one thread at a
 * time.
 *
 * `type` tells what `data` points to, as in mblob_call: compact data on the host,
 * "float32[1,1,8,8]", or "tensor", a DLTensor. Element type and shape must be those of the
 * model; the error says which. */

/* Make an executor. `name`: the function of the factory, NULL for "default"; a VMExecutable, of
 * Relay or Relax, has none, its model is main. Numbers of devices are DLPack's: (1, 0) is the cpu.
 * Ownership: `*out` is a new reference, given back with mblob_module_release(). It keeps `factory`.
 * Errors: MBLOB_E_NOT_FOUND: the factory has no such function. MBLOB_E_ARGUMENT: it makes no
 * executor. MBLOB_E_FORMAT: the model is damaged.
 * Threads: any. */
MBLOB_API int mblob_executor_create(mblob_module *factory, const char *name, int device_type,
                                    int device_id, mblob_module **out);
/* Copy `data` into the input called `name`.
 * Ownership: `data` is copied and may go at once.
 * Errors: MBLOB_E_ARGUMENT: no such input, or another type or shape.
 * Threads: one at a time for each executor. */
MBLOB_API int mblob_executor_set_input(mblob_module *executor, const char *name, const char *type,
                                       const void *data);
/* Run the model on the inputs that were set.
 * Errors: MBLOB_E_KERNEL: a kernel failed; the text names the node.
 * Threads: one at a time for each executor. */
MBLOB_API int mblob_executor_run(mblob_module *executor);
/* Copy output `index`, counted from 0, to `data`.
 * Ownership: `data` stays the caller's; it must have room for what `type` says.
 * Errors: MBLOB_E_ARGUMENT: no such output, or another type or shape.
 * Threads: one at a time for each executor. */
MBLOB_API int mblob_executor_get_output(mblob_module *executor, int64_t index, const char *type,
                                        void *data);

/* ---- registries ------------------------------------------------------------------------------ */

/* What a loader is told about the module it should open. All borrowed for the module's life. */
typedef struct mblob_module_info {
  uint32_t struct_size;
  const char *type_key;
  uint64_t index;      /* in the blob */
  const char *path;    /* of the file, "" for memory */
  const char *dialect; /* "classic" or "ffi" */
  const void *payload; /* in the mapping */
  uint64_t payload_size;
  mblob_module
      *module; /* the module itself; its imports are attached. Do not retain it inside `self`. */
} mblob_module_info;

/* How modules of one type key come to life. Callbacks return a mblob_status and may be called
 * from any thread, one call of `open` per module. */
typedef struct mblob_loader {
  uint32_t struct_size;
  const char *type_key; /* copied by mblob_register_loader */
  void *context;
  /* On the first use of a function of the module. */
  int (*open)(void *context, const mblob_module_info *info, void **self);
  /* MBLOB_OK with *out = NULL when the module has no such function. */
  int (*function)(void *self, const char *name, mblob_function **out);
  void (*close)(void *self); /* when the library goes; may be NULL */
} mblob_loader;

/* Register (or replace) the process-wide loader of a type key. NULL callbacks remove it.
 * Ownership: `*loader` and its type key are copied. `context` is kept: it must outlive every module
 * of that key.
 * Errors: MBLOB_E_ARGUMENT: no type key, or `open` without `function`.
 * Threads: any. */
MBLOB_API int mblob_register_loader(const mblob_loader *loader);
/* As mblob_register_loader, one that is asked last: for modules that no plug-in opens either
 * (mblob/plugin.h).
 * Ownership: as mblob_register_loader: copied, and `context` is kept.
 * Errors: as mblob_register_loader.
 * Threads: any. */
MBLOB_API int mblob_register_last_loader(const mblob_loader *loader);

/* Register a plug-in that is linked into this program (mblob/plugin.h). One of the same name is
 * replaced for modules that are opened from now on.
 * Ownership: `plugin` is kept: it must stay in memory for the life of the process.
 * Errors: MBLOB_E_INCOMPATIBLE: built for another MBLOB_PLUGIN_ABI. What its `start` returned.
 * Threads: any. */
MBLOB_API int mblob_register_plugin(const mblob_plugin *plugin);

/* A plug-in that was found, as mblob_plugins tells it. Borrowed for the call of `visit`. */
typedef struct mblob_plugin_found {
  uint32_t struct_size;
  /* As the plug-in's table says; "" if it cannot be read. */
  const char *name, *version, *type_keys, *devices, *needs;
  const char *origin;  /* "process", "library PATH", or the file */
  const char *problem; /* why it cannot be used, "" if nothing is known against it */
} mblob_plugin_found;
/* Visit the plug-ins of this process and those in files where they are looked for, in the order
 * in which they count. No code of a file runs. `visit` returns 0 to go on.
 * Ownership: `found` and its texts are borrowed for that call of `visit`.
 * Errors: what `visit` returned last is the result. MBLOB_E_ARGUMENT.
 * Threads: any; `visit` runs on the calling thread and must not open or register anything. */
MBLOB_API int mblob_plugins(int (*visit)(void *context, const mblob_plugin_found *found),
                            void *context);
/* Start the plug-in `name` of that list and let it describe itself: one line, cut to `size`.
 * Ownership: `text` stays the caller's: `size` bytes, which end with a NUL.
 * Errors: MBLOB_E_NOT_FOUND; MBLOB_E_INCOMPATIBLE, or what the plug-in returned.
 * Threads: any. */
MBLOB_API int mblob_plugin_describe(const char *name, char *text, size_t size);

/* The DLPack number of a kind of devices: one that DLPack or TVM names, or the `name` of a
 * plug-in's table, which is started if it is in a file.
 * Errors: MBLOB_E_NOT_FOUND: no kind of device has that name.
 * Threads: any. */
MBLOB_API int mblob_device_type(const char *name, int *out);

/* Make a module that no file holds. For each name it is asked, `loader->function` is called with
 * `self`; what it gave is kept. `loader->open` and `context` are not used. It is a module like any
 * other: it imports, is imported, and kernels above it find its functions.
 * Ownership: `*out` is a new reference, given back with mblob_module_release(). When the last
 * reference to the module and its functions goes, `loader->close` (may be NULL) is called with
 * `self`. The type key is copied. On failure `self` stays the caller's.
 * Errors: MBLOB_E_ARGUMENT: `loader` has no type key or no `function`.
 * Threads: any; `loader->function` may be called from any. */
MBLOB_API int mblob_module_create(const mblob_loader *loader, void *self, mblob_module **out);

/* Give a function a process-wide name, as TVMFuncRegisterGlobal does.
 * Ownership: `name` is copied; a reference to `function` is kept.
 * Errors: MBLOB_E_ARGUMENT: the name is taken, and `replace` is 0.
 * Threads: any. */
MBLOB_API int mblob_register_global(const char *name, mblob_function *function, int replace);
/* A function by its process-wide name.
 * Ownership: `*out` is a new reference, given back with mblob_function_release().
 * Errors: MBLOB_E_NOT_FOUND: no function has that name.
 * Threads: any. */
MBLOB_API int mblob_get_global(const char *name, mblob_function **out);

#ifdef __cplusplus
}
#endif
#endif /* MBLOB_H */
