/* mblob.h - open a packed module library from C and call what is inside.
 *
 * Ownership   a "new reference" is the caller's: give it back with the release function that the
 *             comment names. A "borrowed" result is valid as long as a reference to the module or
 *             function it came from: never free it. Arguments are borrowed for the call unless the
 *             comment says that they are copied or kept. release(NULL) does nothing. A reference to
 *             a module or a function keeps its library loaded.
 * Errors      functions that can fail return MBLOB_OK (0) or a status below, and set their outputs
 *             to NULL or 0 first. mblob_last_error() has the text, mblob_last_error_info() the
 *             parts. Both are per thread and hold until the next failing call on that thread.
 *             Every function may return MBLOB_E_ARGUMENT (an argument must not be NULL) and
 *             MBLOB_E_MEMORY; comments name the other errors.
 * Threads     "any": from any thread, several at a time, also with the same module or function.
 * Units       sizes and offsets are bytes, shapes and strides are elements.
 *
 * Opening a library runs its constructors: open only files you would execute. Before that, mblob
 * checks the ELF headers, the blob and the index in the file. */
#ifndef MBLOB_H
#define MBLOB_H

#include <stddef.h>
#include <stdint.h>

#include <mblob/plugin.h>

#define MBLOB_ABI_VERSION 1 /* raised when something below changes incompatibly */
#define MBLOB_VERSION "0.1.0"
#define MBLOB_VERSION_MAJOR 0
#define MBLOB_VERSION_MINOR 1
#define MBLOB_VERSION_PATCH 0
/* In #if: whether this header is of that release or a later one. */
#define MBLOB_VERSION_AT_LEAST(major, minor, patch)                                    \
  (MBLOB_VERSION_MAJOR * 1000000 + MBLOB_VERSION_MINOR * 1000 + MBLOB_VERSION_PATCH >= \
   (major) * 1000000 + (minor) * 1000 + (patch))

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
  /* Stable name of what is wrong, "" when there is none.
   * MBLOB_E_FORMAT: the name of the broken rule (docs/format.md).
   * MBLOB_E_ARGUMENT: "argument_type"; "argument_count": too many or too few arguments;
   * "argument_dtype": element type of a tensor; "argument_index": no output, field, ... has that
   * number; "argument_name": no input, node, ... has that name; "argument_value": all else, also
   * shapes.
   * MBLOB_E_KERNEL: one of these if a function of this runtime refused its arguments;
   * "kernel_arguments" if a compiled kernel did.
   * MBLOB_E_INCOMPATIBLE: "elf_machine" if the library is for another machine.
   * MBLOB_E_NOT_FOUND: "plain_function" if there is a C function of that name, but no packed
   * function (docs/howto/pack.md); "unknown_convention" if there is a function of that name, and
   * nothing says how it is called (mblob_assume). */
  const char *code;
  int64_t offset; /* byte in the blob (or in the file, for ELF rules); -1 when unknown */
  int64_t entry;  /* index of the module concerned; -1 when none */
  const char
      *type_key; /* MBLOB_E_LOADER: the key nobody loads; code "unknown_key": that key; else "" */
  const char *available; /* MBLOB_E_LOADER: keys that have a loader, comma separated, else "" */
  const char *hint;      /* what to do about it, "" when nothing is known */
} mblob_error_info;

/* MBLOB_ABI_VERSION of the libmblob that runs. Compare it with the one that was compiled in.
 * Errors: none.
 * Threads: any. */
MBLOB_API uint32_t mblob_abi_version(void);
/* MBLOB_VERSION of the libmblob that runs.
 * Ownership: a constant, borrowed for ever.
 * Errors: none; never NULL.
 * Threads: any. */
MBLOB_API const char *mblob_version(void);
/* The symbols that libmblob defines for packed libraries. Tools read this list from the file. It is
 * a sequence of texts, each with a NUL at its end; the last text is empty. A text "=KIND" starts
 * the symbols for one kind of library: "all", "ffi" (TVM 0.22 and later) or "ffi-0.21".
 * libmblob-ffi.so has such a list, too. */
extern const char mblob_runtime_names[];
/* The name of a mblob_status: "MBLOB_E_FORMAT"; "" for any other number.
 * Ownership: a constant, borrowed for ever.
 * Errors: none; never NULL.
 * Threads: any. */
MBLOB_API const char *mblob_status_name(int status);
/* Text of the last error of this thread, "" before the first error. An error about a file also says
 * at which byte it is and which rule is broken, if that is known.
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
 * MBLOB_E_KERNEL. The code of MBLOB_E_ARGUMENT is "argument_value".
 * Ownership: `message` is copied.
 * Errors: the recorded status is returned.
 * Threads: each has its own. */
MBLOB_API int mblob_set_error(int status, const char *message);

/* Memory for data on the host. `allocate` gives at least `size` bytes aligned to `alignment`, a
 * power of two, or NULL when there is none; `release` takes back what it gave. Both run on any
 * thread, several at a time, and must not call mblob. */
typedef struct mblob_allocator {
  uint32_t struct_size; /* sizeof(mblob_allocator) */
  void *context;
  void *(*allocate)(void *context, size_t size, size_t alignment);
  void (*release)(void *context, void *memory);
} mblob_allocator;
/* Let mblob take the memory of tensors, of workspaces of kernels, of constants and of what models
 * compute from your allocator instead of the C library's. Call it once, before anything else.
 * Memory that mblob keeps for its own tables comes from malloc().
 * Ownership: `*allocator` is copied; `context` is kept: it must outlive the process's last tensor.
 * Errors: MBLOB_E_ARGUMENT: there is an allocator, memory was given out already, or `struct_size` is
 * too small.
 * Threads: any. */
MBLOB_API int mblob_set_allocator(const mblob_allocator *allocator);

/* ---- modules --------------------------------------------------------------------------------- */

typedef struct mblob_module mblob_module;     /* one module of a tree */
typedef struct mblob_function mblob_function; /* something callable; also a TVMFunctionHandle */

typedef enum mblob_verify {
  MBLOB_VERIFY_HEADER = 0, /* the default: the index and its checksums. If all payloads together
                              have at most 256 KiB, the same as FULL */
  MBLOB_VERIFY_FULL = 1,   /* also every byte of the blob, and each module against the index */
  MBLOB_VERIFY_OFF = 2     /* only that everything is inside the file */
} mblob_verify;

typedef enum mblob_missing {
  MBLOB_MISSING_ERROR = 0, /* a type key without a loader fails the open (default) */
  MBLOB_MISSING_STUB = 1   /* it opens; calling into that module fails. In a blob without an index,
                              nothing says where the payload of an unknown key ends: only the last
                              module may have such a key, else MBLOB_E_FORMAT */
} mblob_missing;

/* The fate of the code when the last reference to a library goes. */
typedef enum mblob_unload {
  MBLOB_UNLOAD_IF_SAFE =
      0,                  /* it is unmapped if the library, and what its loading brought, uses only
                               functions that keep no address: nothing can run the code then. Others,
                               such as OpenMP kernels, stay mapped (default) */
  MBLOB_UNLOAD_NEVER = 1, /* it stays mapped */
  MBLOB_UNLOAD_ALWAYS =
      2 /* it is unmapped: for a library that has ended its threads, and removed its
                               handlers and callbacks. If something still runs the code, the process
                               crashes */
} mblob_unload;

/* The assumption about a function if neither the file's table of functions, nor its name, nor code that
 * TVM compiled tells how it is called. */
typedef enum mblob_assume {
  MBLOB_ASSUME_NOTHING = 0, /* it is not called: looking it up is an error (default) */
  MBLOB_ASSUME_PACKED = 1   /* a packed function. If it is none, a call can crash the process */
} mblob_assume;

struct mblob_loader;

typedef struct mblob_open_options {
  uint32_t struct_size; /* sizeof(mblob_open_options) */
  int32_t verify;       /* mblob_verify */
  int32_t missing;      /* mblob_missing */
  uint32_t loader_count;
  const struct mblob_loader *const *loaders; /* loaders for this open only, asked first */
  int32_t
      unload; /* mblob_unload; if a file is opened several times, NEVER counts most, then ALWAYS */
  int32_t assume; /* mblob_assume; of the functions that are found through this opening */
} mblob_open_options;

/* Open a library. `*out` is the root of its import tree. `options` may be NULL. A relative path is
 * relative to the working directory, never searched for.
 * Ownership: `*out` is a new reference, given back with mblob_module_release(). Loaders of
 * `options` are copied; their `context` must outlive the library.
 * Errors: MBLOB_E_IO, MBLOB_E_FORMAT, MBLOB_E_DIGEST, MBLOB_E_INCOMPATIBLE, MBLOB_E_LOADER.
 * Threads: any. */
MBLOB_API int mblob_open(const char *path, const mblob_open_options *options, mblob_module **out);
/* Like mblob_open, for the descriptor of an open file.
 * Ownership: `*out` is a new reference, given back with mblob_module_release(). The descriptor
 * stays the caller's and may be closed at once.
 * Errors: as mblob_open.
 * Threads: any. */
MBLOB_API int mblob_open_fd(int fd, const mblob_open_options *options, mblob_module **out);
/* Like mblob_open, for a library of `size` bytes in memory.
 * Ownership: `*out` is a new reference, given back with mblob_module_release(). The bytes are
 * copied to a sealed memory file and may go at once.
 * Errors: as mblob_open.
 * Threads: any. */
MBLOB_API int mblob_open_memory(const void *data, size_t size, const mblob_open_options *options,
                                mblob_module **out);

/* Changes of the process by loading the library of a module: handlers of signals, the locale. A text
 * for people, such as "the handler of signal 11 (Segmentation fault)"; "" if nothing changed.
 * mblob puts nothing back, but for the control words of floating-point arithmetic.
 * Ownership: the result is borrowed from the library.
 * Errors: none; never NULL.
 * Threads: any. */
MBLOB_API const char *mblob_module_changes(const mblob_module *module);

/* From now on, no library is unmapped when its last reference goes. Call it when a host begins to
 * end, such as an interpreter that releases its objects while threads of kernels still run. It is
 * called by itself when the process exits.
 * Errors: none.
 * Threads: any. */
MBLOB_API void mblob_keep_loaded(void);

/* Read a library without loading it. No code of the file runs, so the file need not be trusted. It
 * must be an ELF file for this machine. All functions that read modules work as after mblob_open:
 * type key, dialect, index, path, imports, payload, names, tensors. Functions cannot be called:
 * mblob_module_function fails, and mblob_module_symbol gives NULL. No type key needs a loader.
 * `verify` is a mblob_verify.
 * Ownership: `*out` is a new reference, given back with mblob_module_release(). It shares nothing
 * with a library that mblob_open gives for the same file.
 * Errors: MBLOB_E_IO, MBLOB_E_FORMAT, MBLOB_E_DIGEST, MBLOB_E_INCOMPATIBLE.
 * Threads: any. */
MBLOB_API int mblob_open_readonly(const char *path, int verify, mblob_module **out);

/* The module of a system library: objects that were packed with system_lib=True and `prefix` (""
 * for none), and are linked into this program, or into a library that it has loaded. Objects with
 * a longer prefix are another library, even if `prefix` is "". Call this before a kernel of the
 * library looks up a function by name, and before you look up a global function. If a type key has
 * no loader, calling a function of its module fails.
 * Ownership: `*out` is a new reference to the same module each time, given back with
 * mblob_module_release(); the code stays for the life of the process.
 * Errors: MBLOB_E_NOT_FOUND: nothing is linked in with that prefix. MBLOB_E_FORMAT.
 * Threads: any. */
MBLOB_API int mblob_system_lib(const char *prefix, mblob_module **out);
/* Write this at file scope, once in a program that links the archive (`.a`) of a system library.
 * Otherwise the linker leaves the archive out. Objects (`.o`) do not need it. Example:
 * MBLOB_SYSTEM_LIB(digits_); */
#define MBLOB_SYSTEM_LIB(prefix) MBLOB_ANCHOR(prefix##__mblob_system_lib)
#define MBLOB_ANCHOR(s)  \
  extern const char s[]; \
  static const char *const s##_anchor __attribute__((used)) = s

/* Take one more reference. NULL gives NULL.
 * Ownership: returns `module`, a new reference, given back with mblob_module_release().
 * Errors: none.
 * Threads: any. */
MBLOB_API mblob_module *mblob_module_retain(mblob_module *module);
/* Give a reference back. The library closes with the last reference to its modules and functions.
 * Ownership: the reference is gone; what was borrowed from it, too.
 * Errors: none; NULL is fine.
 * Threads: any. */
MBLOB_API void mblob_module_release(mblob_module *module);

/* Kind of the module: "library", "GraphExecutorFactory", "safetensors", ... NULL gives "".
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
/* Absolute path of the file, "" if the library was opened from memory.
 * Ownership: borrowed from the module.
 * Errors: none.
 * Threads: any. */
MBLOB_API const char *mblob_module_path(const mblob_module *module);
/* The number of modules that this one imports directly.
 * Errors: none; NULL gives 0.
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
 * Threads: this call changes `module`. No other thread may use `module` at the same time. */
MBLOB_API int mblob_module_import(mblob_module *module, mblob_module *child);
/* The module's bytes: `*data` points to `*size` bytes. A "library" module has none. The address is
 * a multiple of the alignment that the payload was packed with (build --align). Without one, mblob
 * aligns the largest payload of a key of your own to 64 where it can, and no other (docs/format.md).
 * Ownership: borrowed from the module. They are in the file's mapping: do not write.
 * Errors: MBLOB_E_ARGUMENT.
 * Threads: any. */
MBLOB_API int mblob_module_payload(const mblob_module *module, const void **data, size_t *size);
/* The bytes of the first module with this type key: `module` itself or, depth first, an import.
 * `mblob.blob_module("config", ...)` packs such a payload under the type key "config".
 * Ownership: borrowed from `module`. They are in the file's mapping: do not write.
 * Errors: MBLOB_E_NOT_FOUND: no module has that key; the text lists the keys. MBLOB_E_ARGUMENT.
 * Threads: any. */
MBLOB_API int mblob_module_payload_by_key(mblob_module *module, const char *type_key,
                                          const void **data, size_t *size);
/* Nonzero if the payload is plain data that needs no loader.
 * Errors: none; NULL gives 0.
 * Threads: any. */
MBLOB_API int mblob_module_is_data(const mblob_module *module);

/* Find a function of the module. If `query_imports` is nonzero and the module does not have it,
 * search the imports, depth first. "__tvm_main__" is the entry function that the library names.
 * Ownership: `*out` is a new reference, given back with mblob_function_release(). It keeps the
 * library loaded.
 * Errors: MBLOB_E_NOT_FOUND: the text lists the functions that exist. MBLOB_E_LOADER. The status
 * that a loader's `open` returned.
 * Threads: any. */
MBLOB_API int mblob_module_function(mblob_module *module, const char *name, int query_imports,
                                    mblob_function **out);
/* Visit the names of the module's own functions, not those of its imports. For a "library" module,
 * these are the packed functions in its table of functions and among its exported symbols. Another
 * module may have no names until one of its functions is used.
 * Ownership: `name` is borrowed for that call of `visit`.
 * Errors: MBLOB_E_ARGUMENT.
 * Threads: any; `visit` runs on the calling thread. */
MBLOB_API int mblob_module_names(mblob_module *module,
                                 void (*visit)(void *context, const char *name), void *context);
/* Address of an exported symbol of a "library" module: of a plain C function, or of data.
 * Ownership: borrowed from the module.
 * Errors: NULL if the symbol is absent, or the module is no library; no error is recorded.
 * Threads: any. */
MBLOB_API void *mblob_module_symbol(mblob_module *module, const char *name);

/* ---- tensors in weights ---------------------------------------------------------------------- */

/* A description of a tensor. Later versions may add members at the end. */
typedef struct mblob_tensor_info {
  uint32_t struct_size;
  uint32_t flags;       /* MBLOB_TENSOR_* */
  const char *name;     /* never NULL */
  const void *data;     /* its first byte, an address of `device`; do not write. NULL: unknown */
  DLDevice device;      /* where the data is */
  DLDataType dtype;     /* `bits` is 0 if it is unknown */
  int32_t ndim;         /* -1 if the shape is unknown */
  const int64_t *shape; /* `ndim` extents; the rows are compact */
  uint64_t size;        /* bytes of the data */
} mblob_tensor_info;
#define MBLOB_TENSOR_PARAMETER 1u /* an input that has its value from the library or load_params */
#define MBLOB_TENSOR_LOADED 2u    /* such an input after load_params or share_params set it */
/* Returns 0 to go on. `info` and what it points to are borrowed for that call. */
typedef int (*mblob_tensor_visitor)(void *context, const mblob_tensor_info *info);

/* Visit the tensors of a module, not those of its imports: of weights (key "safetensors", or a
 * parameter dictionary), and the parameters and constants with names that a model has in its
 * payload (GraphExecutorFactory, AotExecutorFactory, const_loader). Other modules have none.
 * Ownership: `info` is borrowed for that call of `visit`. The name, the shape and the data are
 * borrowed from the module. The data is in the file's mapping, which cannot be written.
 * Errors: the result is what `visit` returned last. MBLOB_E_FORMAT: the weights are damaged.
 * Threads: any; `visit` runs on the calling thread. */
MBLOB_API int mblob_module_tensors(mblob_module *module, mblob_tensor_visitor visit, void *context);
/* The tensor `name` of `module` or, depth first, of a module that it imports; which modules have
 * tensors, mblob_module_tensors() says. The call fills `*out`. In the types of mblob_call, such an
 * argument is `tensor`. Constants of a virtual machine's program have no names.
 * Ownership: `out->data` and `out->shape` are borrowed from the module. Both are read-only,
 * although a DLTensor has no const: the data is in the file's mapping, and a kernel that writes to
 * it crashes. Pass `out` only to const parameters, or copy the data. mblob_module_tensors() gives
 * const pointers.
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

/* Call a packed function, as TVM does: args[i] has type code codes[i] (kTVMArgInt,
 * kTVMDLTensorHandle, ...). With NULL for `ret` and `ret_code` the result is dropped. The code
 * kTVMNullptr means that the function returned nothing. Tensor data must be aligned to
 * mblob_function_alignment() bytes.
 * Ownership: arguments are borrowed for the call. A returned module or function is a new reference,
 * given back with mblob_module_release(), mblob_function_release() or mblob_value_release(). So is
 * a returned array or object. Returned text is borrowed until the next call on this thread. A C function that
 * returns a struct by value, a complex number or an integer of 128 bits gives its bytes (kTVMBytes), which are
 * borrowed in the same way.
 * Errors: MBLOB_E_KERNEL, or the status that the function recorded. MBLOB_E_ARGUMENT.
 * Threads: any, if the kernel allows it. */
MBLOB_API int mblob_function_call(mblob_function *function, const TVMValue *args, const int *codes,
                                  int count, TVMValue *ret, int *ret_code);
/* Alignment in bytes that tensor data must have. 0: the size of an element is enough. 1: the
 * function keeps the memory, such as set_input_zero_copy, and checks the alignment itself.
 * Errors: none; NULL gives 0.
 * Threads: any. */
MBLOB_API uint32_t mblob_function_alignment(const mblob_function *function);
/* The C argument types that the library recorded ("const float *, float *, int64_t"), "" when
 * unknown. Names and array sizes are in mblob_function_prototype(). Numbers behind a pointer to a
 * struct are the bytes of the struct, and its alignment: "const cell_t *:24:8".
 * Ownership: borrowed from the function.
 * Errors: none.
 * Threads: any. */
MBLOB_API const char *mblob_function_signature(const mblob_function *function);
/* The C prototype with the names and sizes that the library recorded, for people to read:
 * "void vadd(const float a[n], float b[n], int64_t n)". "" when unknown. The text of a library that
 * TVM wrote is always "".
 * Ownership: borrowed from the function.
 * Errors: none.
 * Threads: any. */
MBLOB_API const char *mblob_function_prototype(const mblob_function *function);
/* For methods of executors (get_output, set_outputs, ...): the number of the first argument that
 * the method writes to. All tensors from there on are outputs. If the number is past the last
 * argument, the method writes to none. 0 for all other functions: the outputs of a kernel are the
 * parameters without `const` in its signature.
 * Errors: none.
 * Threads: any. */
MBLOB_API int mblob_function_first_output(const mblob_function *function);
/* The values that a function takes. */
typedef enum mblob_argument_mode {
  MBLOB_ARGUMENTS_CLASSIC = 0, /* those of the classic dialect */
  MBLOB_ARGUMENTS_FFI =
      1, /* also those of the ffi dialect (TVM 0.21 and later): bools (kTVMArgBool),
                                  texts that contain a NUL, and containers (kTVMObjectHandle) */
  MBLOB_ARGUMENTS_KEPT = 2,   /* as FFI, of a Relax virtual machine. It may return or keep a tensor
                                  argument, so pass tensors with a reference count (kTVMNDArrayHandle) */
  MBLOB_ARGUMENTS_OBJECTS = 3 /* as FFI, of C++, or an object of tvm_ffi. A parameter may be a
                                  tvm::ffi::Tensor, which takes only tensors with a reference count, or
                                  MBLOB_LENT_TENSOR of mblob/plugin.h */
} mblob_argument_mode;
/* The kinds of values that the function takes.
 * Errors: none; NULL gives MBLOB_ARGUMENTS_CLASSIC.
 * Threads: any. */
MBLOB_API mblob_argument_mode mblob_function_argument_mode(const mblob_function *function);

/* Look up `name` (imports included) and call it with arguments described by `types`, a comma
 * separated list:
 *   int               int               int8 to int64, uint8 to uint64   intN_t, uintN_t
 *   bool              bool              float32            float
 *   str               const char *      float64, double    double
 *   handle            void *            tensor             DLTensor *, shape and strides as it says
 *   function          mblob_function *  module             mblob_module *
 *   object            void *, an array or object that a call returned
 *   DTYPE[d0,d1,...]  pointer to compact data of that shape on the host, e.g. float32[8,8]; a
 *                     dimension `*` takes an int64_t from the arguments, before the pointer
 *   shape[d0,d1,...]  a shape; a dimension `*` takes an int64_t from the arguments
 *   (TYPE,TYPE,...)   a tuple of such arguments, also of tuples
 * `-> TYPE` at the end says where the result goes: the last argument is a pointer to the C type of
 * TYPE, or to memory for the data of DTYPE[...]. A result `tensor`, `object`, `function` or `module`
 * is a new reference; NULL if the function returned nothing. A tensor is not an `object`: its text is
 * `tensor`, and mblob_value_release() takes it with the code kTVMNDArrayHandle.
 * A pointer to pointers is an array of addresses (uint64[n], which a bound in the prototype is compared
 * with), a pointer to a struct its bytes (uint8[size]), a pointer to a function a `handle`; `handle`
 * passes any address unchecked. A struct by value is the same bytes, as an argument and as a result; a complex
 * number is complex128[1], an integer of 128 bits uint64[2].
 * Pass an int8_t or a float without a cast. Cast a constant for `int64`: (int64_t)3. A uint64 above
 * INT64_MAX is an error, unless the function's prototype has a uint64_t there. If data is less
 * aligned than the kernel needs, mblob passes an aligned copy, and copies the outputs back.
 * Examples:
 *   mblob_call(m, "vadd", "float32[3],float32[3],float32[3],int64", a, b, c, (int64_t)3);
 *   mblob_call(m, "scale", "float32[*],int,float32", (int64_t)n, a, 2, 0.5f);
 *   mblob_call(m, "dot", "float32[3],float32[3] -> float64", a, b, &sum);
 *   mblob_call(vm, "main", "float32[1,4],(float32[4,4],float32[4]) -> float32[1,4]", x, w, b, y);
 * Ownership: arguments are borrowed for the call. A result that is a new reference is given back with
 * mblob_value_release(); a text is borrowed until the next call on this thread. Without `->`, a result
 * is dropped.
 * Errors: MBLOB_E_NOT_FOUND; MBLOB_E_ARGUMENT: `types` cannot be read, the result is of another type,
 * or the function keeps a tensor of a tuple; MBLOB_E_KERNEL: the kernel failed, or refused the
 * arguments (code "kernel_arguments").
 * Threads: any, if the kernel allows it. */
MBLOB_API int mblob_call(mblob_module *module, const char *name, const char *types, ...);

/* A function and the types of its arguments, for mblob_call_prepared(). */
typedef struct mblob_prepared mblob_prepared;
/* Look up `name` and read `types`, as mblob_call() does, for any number of calls: a prepared call takes
 * about as long as mblob_function_call().
 * Ownership: `*out` is given back with mblob_prepared_release(); it keeps the function. `name` and
 * `types` are copied.
 * Errors: MBLOB_E_NOT_FOUND; MBLOB_E_ARGUMENT: `types` cannot be read, or has another number of them
 * than the prototype. The function compares the types themselves, at each call.
 * Threads: any. */
MBLOB_API int mblob_prepare(mblob_module *module, const char *name, const char *types,
                            mblob_prepared **out);
/* Call it: the arguments are those of mblob_call() after `types`. Examples:
 *   mblob_prepare(m, "vadd", "float32[3],float32[3],float32[3]", &vadd);
 *   mblob_call_prepared(vadd, a, b, c);
 * Ownership: `call` is borrowed; arguments and results as of mblob_call().
 * Errors: as mblob_call.
 * Threads: one at a time for each prepared call; a kernel must not call it while it runs. */
MBLOB_API int mblob_call_prepared(mblob_prepared *call, ...);
/* Release a prepared call.
 * Ownership: takes the caller's `call`; its function stays as long as others refer to it.
 * Errors: none; NULL is fine.
 * Threads: any. */
MBLOB_API void mblob_prepared_release(mblob_prepared *call);
/* Give back what a call returned: a module, a function, an array or an object, by its type code
 * (kTVMModuleHandle, kTVMPackedFuncHandle, kTVMNDArrayHandle, kTVMObjectHandle). Values of other codes
 * are left alone. Example: mblob_value_release((TVMValue){.v_handle = object}, kTVMObjectHandle).
 * Ownership: the reference is gone.
 * Errors: none; a NULL is fine.
 * Threads: any. */
MBLOB_API void mblob_value_release(TVMValue value, int code);

/* Make a function of a C callback. The callback returns 0, or another number after
 * mblob_set_error(). It sets a result with TVMCFuncSetReturn(ret, &value, &code, 1) of
 * <tvm/runtime/c_runtime_api.h>, which `pkg-config mblob-tvm` finds.
 * Ownership: `*out` is a new reference, given back with mblob_function_release(). With the last one
 * `finalize` (may be NULL) is called with `resource`. On failure `resource` stays the caller's.
 * Errors: MBLOB_E_ARGUMENT.
 * Threads: any; the callback runs on the threads of its callers. */
MBLOB_API int mblob_function_create(TVMPackedCFunc call, void *resource,
                                    TVMPackedCFuncFinalizer finalize, mblob_function **out);

/* A function as an object of tvm_ffi, for other code of the process that uses tvm_ffi. A function
 * that came from tvm_ffi becomes the same object again. <tvm/ffi/c_api.h> calls its type
 * TVMFFIObjectHandle.
 * Ownership: `*out` is a new reference, given back with TVMFFIObjectDecRef of that header; it keeps
 * `function`.
 * Errors: MBLOB_E_INCOMPATIBLE: libmblob-ffi.so is not there.
 * Threads: any. */
MBLOB_API int mblob_function_to_ffi(mblob_function *function, void **out);
/* An object of tvm_ffi as a function. An object that is not a function cannot be called, but you
 * can pass it as an argument.
 * Ownership: `*out` is a new reference, given back with mblob_function_release(); it keeps
 * `object`, and the caller's reference to `object` stays the caller's.
 * Errors: MBLOB_E_INCOMPATIBLE: libmblob-ffi.so is not there.
 * Threads: any. */
MBLOB_API int mblob_function_from_ffi(void *object, mblob_function **out);

/* ---- executors ------------------------------------------------------------------------------- */

/* An executor runs a model. The root of a model library makes executors (GraphExecutorFactory,
 * AotExecutorFactory, VMExecutable, relax.VMExecutable). An executor is a module: besides the
 * functions below, you can call all functions that TVM's executor has. It keeps its library loaded.
 * Only one thread at a time may use an executor.
 *
 * `type` says what `data` points to, as in mblob_call: "float32[1,1,8,8]" for compact data on the
 * host, "tensor" for a DLTensor. Element type and shape must be those of the model. */

/* Make an executor. `name` is the name of the model in the library, NULL for "default". For a Relax
 * program, it is the name of one of its functions, NULL or "default" for "main", or for the only function if the
 * program has just one; all functions below are about that function. If a program of several functions has no
 * "main", the executor is made all the same: mblob_call() runs each, and the functions below fail with a list of
 * them. `name` is ignored for a VMExecutable of Relay, whose model is the function main. `device_type` is DLPack's number: (1, 0) is the CPU.
 * Ownership: `*out` is a new reference, given back with mblob_module_release(). It keeps `factory`.
 * Errors: MBLOB_E_NOT_FOUND: the factory has no such function. MBLOB_E_ARGUMENT: it makes no
 * executor, or the Relax program has no function `name` (code "argument_name"); the text lists the
 * functions. MBLOB_E_FORMAT: the model is damaged.
 * Threads: any. */
MBLOB_API int mblob_executor_create(mblob_module *factory, const char *name, int device_type,
                                    int device_id, mblob_module **out);
/* Copy `data` into the input called `name`.
 * Ownership: `data` is copied and may go at once.
 * Errors: MBLOB_E_ARGUMENT: no such input, or another type or shape. Programs of Relax check types
 * and shapes when they run: mblob_executor_run() fails.
 * Threads: one at a time for each executor. */
MBLOB_API int mblob_executor_set_input(mblob_module *executor, const char *name, const char *type,
                                       const void *data);
/* To use your memory as an input or output without a copy, call TVM's functions of a GraphExecutor
 * or AotExecutor. The memory must live as long as the executor, or until the next call for the same
 * input or output:
 *   mblob_call(executor, "set_input_zero_copy", "str,tensor", name, &tensor);
 *   mblob_call(executor, "set_output_zero_copy", "int,tensor", 0, &tensor);
 * They fail with MBLOB_E_ARGUMENT if type, shape or alignment is not what the model needs. */

/* Run the model on the inputs that were set. The last inputs of a Relax program may be left out if its
 * parameters were packed with it (see mblob_executor_params). A GraphExecutor uses several threads where that is
 * quicker: in its first runs it measures the operators that do not wait for each other. The results
 * are those of one operator after the other, bit for bit; also a parallel loop in an operator has
 * the same number of tasks, unless other threads of the process run loops. To choose the number of
 * threads, call the function `run` of the executor instead:
 *   mblob_call(executor, "run", "int64", (int64_t)threads);
 * 1: one operator after the other, on the calling thread. 0: as many threads as kernels use.
 * Errors: MBLOB_E_KERNEL: a kernel failed; the text names the node. If several fail, it is the first
 * one in the order of the graph.
 * Threads: one at a time for each executor. Operators may run on other threads than the caller's;
 * those of a device run on the caller's. */
MBLOB_API int mblob_executor_run(mblob_module *executor);
/* Copy output `index`, counted from 0, to `data`.
 * Ownership: `data` stays the caller's; it must have room for what `type` says.
 * Errors: MBLOB_E_ARGUMENT: no such output, or another type or shape.
 * Threads: one at a time for each executor. */
MBLOB_API int mblob_executor_get_output(mblob_module *executor, int64_t index, const char *type,
                                        void *data);

/* The parameters of a Relax program that were packed with it (build --params, add --params): a tuple of tensors in
 * the order of the program, each at a multiple of 64. Those that lie elsewhere in the file were copied
 * when the executor was made. Without any, it is an empty tuple. mblob_executor_run() passes them itself, where
 * the last input was not set: the tuple, or each tensor if the function takes so many tensors at its end.
 * To pass the tuple to another function, write `object`:
 *   mblob_call(executor, "main", "float32[1,4],object -> float32[1,10]", x, params, y);
 * Ownership: `*out` is a new reference to an Array, given back with mblob_value_release() and the code
 * kTVMObjectHandle. Its tensors keep the library, and cannot be written.
 * Errors: MBLOB_E_ARGUMENT: `executor` was not made of a Relax program.
 * Threads: one at a time for each executor. */
MBLOB_API int mblob_executor_params(mblob_module *executor, void **out);

typedef enum mblob_end { MBLOB_INPUTS = 0, MBLOB_OUTPUTS = 1 } mblob_end;
/* The number of inputs or outputs of a model. `end` is a mblob_end. Parameters of a GraphExecutor count
 * as inputs that already have values (MBLOB_TENSOR_PARAMETER). The outputs of a virtual machine of
 * Relay or Relax are known after it has run.
 * Ownership: `out` is the caller's.
 * Errors: MBLOB_E_ARGUMENT: `executor` is no executor, or a Relay machine that has not run; or `end`
 * is no mblob_end.
 * MBLOB_E_KERNEL: a Relax machine that has not run.
 * Threads: one at a time for each executor. */
MBLOB_API int mblob_executor_count(mblob_module *executor, int end, size_t *out);
/* Describe input or output `i`, counted from 0: name, type, shape, size, and where its data is now.
 * An output of a graph has the name NODE:POSITION, an output of a virtual machine has the name "".
 * Types and shapes of the inputs of a virtual machine are known after they were set.
 * Ownership: what `*out` points to is borrowed until the executor is used again.
 * Errors: MBLOB_E_ARGUMENT: there is no input or output `i`. Also the errors of
 * mblob_executor_count().
 * Threads: one at a time for each executor. */
MBLOB_API int mblob_executor_info(mblob_module *executor, int end, size_t i,
                                  mblob_tensor_info *out);

/* ---- registries ------------------------------------------------------------------------------ */

/* The module to open, as a loader gets it. All of it is borrowed for the life of the module. */
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

/* The loader of a type key. Its callbacks return a mblob_status. They may be called from any
 * thread; `open` is called once per module.
 *
 * In the classic dialect, a blob without an index does not say where a payload ends. For a key of
 * your own, the loader says it: with `layout`, or with `measure`. If both are NULL, mblob opens
 * such a blob only if the module is the last one. A payload that does not end where the next
 * module begins is MBLOB_E_FORMAT with the code "layout". */
typedef struct mblob_loader {
  uint32_t struct_size;
  const char *type_key; /* copied by mblob_register_loader */
  void *context;
  /* Called when a function of the module is first used. */
  int (*open)(void *context, const mblob_module_info *info, void **self);
  /* MBLOB_OK with *out = NULL when the module has no such function. */
  int (*function)(void *self, const char *name, mblob_function **out);
  void (*close)(void *self); /* called when the library closes; may be NULL */
  /* The form of the payload, such as "string,u64,strings" (docs/format.md, "Layouts"); copied. May
   * be NULL. */
  const char *layout;
  /* Stores in *out how many of the `size` bytes are the payload; the rest belongs to modules behind
   * it. Called while the library is opened, and not for blobs with an index. It must not open or
   * register anything. May be NULL. */
  int (*measure)(void *context, const void *bytes, size_t size, size_t *out);
  /* Gives the bytes of the module, as it is now, to `write` with `to`, in any number of pieces; an
   * export stores them as its payload. A result of `write` that is not 0 is an error: return it.
   * NULL: an export stores the payload that the module was opened from. */
  int (*save)(void *self, int (*write)(void *to, const void *bytes, size_t size), void *to);
} mblob_loader;

/* Register (or replace) the process-wide loader of a type key. NULL callbacks remove it. With `layout`
 * or `measure` and without `function`, it only tells where payloads end: the loader stays, and without
 * one, modules of the key have no loader.
 * Ownership: `*loader`, its type key and layout are copied. `context` is kept: it must outlive every module
 * of that key.
 * Errors: MBLOB_E_ARGUMENT: no type key, `open` without `function`, a wrong `layout`, or both `layout` and
 * `measure`.
 * Threads: any. */
MBLOB_API int mblob_register_loader(const mblob_loader *loader);
/* Like mblob_register_loader, for a loader that is used only if no other loader and no plug-in
 * (mblob/plugin.h) opens the module.
 * Ownership: as mblob_register_loader: copied, and `context` is kept.
 * Errors: as mblob_register_loader.
 * Threads: any. */
MBLOB_API int mblob_register_last_loader(const mblob_loader *loader);

/* Register a plug-in that is linked into this program (mblob/plugin.h). It replaces a plug-in of
 * the same name for modules that are opened later.
 * Ownership: `plugin` is kept: it must stay in memory for the life of the process.
 * Errors: MBLOB_E_INCOMPATIBLE: it was built for another MBLOB_PLUGIN_ABI. Or what its `start`
 * returned.
 * Threads: any. */
MBLOB_API int mblob_register_plugin(const mblob_plugin *plugin);

/* A plug-in that mblob_plugins found. Borrowed for the call of `visit`. */
typedef struct mblob_plugin_found {
  uint32_t struct_size;
  /* As the plug-in's table says; "" if it cannot be read. */
  const char *name, *version, *type_keys, *devices, *needs;
  const char *origin;  /* "process", "library PATH", or the file */
  const char *problem; /* why it cannot be used, "" if nothing is known against it */
} mblob_plugin_found;
/* Visit the plug-ins of this process, then those in the files that mblob searches. mblob uses the
 * first one that fits. No code of a file runs. `visit` returns 0 to go on.
 * Ownership: `found` and its texts are borrowed for that call of `visit`.
 * Errors: the result is what `visit` returned last. MBLOB_E_ARGUMENT.
 * Threads: any; `visit` runs on the calling thread and must not open or register anything. */
MBLOB_API int mblob_plugins(int (*visit)(void *context, const mblob_plugin_found *found),
                            void *context);
/* Start the plug-in `name` of that list, and write its description of itself to `text`: one line,
 * cut to `size` bytes.
 * Ownership: `text` stays the caller's: `size` bytes, which end with a NUL.
 * Errors: MBLOB_E_NOT_FOUND; MBLOB_E_INCOMPATIBLE, or what the plug-in returned.
 * Threads: any. */
MBLOB_API int mblob_plugin_describe(const char *name, char *text, size_t size);

/* The DLPack number of a kind of devices. `name` is a name of DLPack or TVM, such as "cuda", or the
 * name that a plug-in gives its devices. To find such a name, mblob starts plug-ins in files.
 * Ownership: nothing is kept.
 * Errors: MBLOB_E_NOT_FOUND: no kind of device has that name.
 * Threads: any. */
MBLOB_API int mblob_device_type(const char *name, int *out);

/* Make a module without a file. To look up a function, the runtime calls `loader->function` with
 * `self`, and keeps the result. `loader->open` and `context` are not used. The module may import
 * others and be imported. Kernels of a module that imports it find its functions.
 * Ownership: `*out` is a new reference, given back with mblob_module_release(). When the last
 * reference to the module and its functions goes, `loader->close` (may be NULL) is called with
 * `self`. The type key is copied. On failure `self` stays the caller's.
 * Errors: MBLOB_E_ARGUMENT: `loader` has no type key or no `function`.
 * Threads: any; `loader->function` may be called from any. */
MBLOB_API int mblob_module_create(const mblob_loader *loader, void *self, mblob_module **out);

/* Have a module save itself: `save` of its loader gives its bytes to `write`. An export in Python
 * does the same.
 * Ownership: `to` stays the caller's. `bytes` are borrowed for the call of `write`.
 * Errors: MBLOB_E_NOT_FOUND: the loader has no `save`, or no function of the module was used yet, so
 * its payload is what it was. If `save` fails: the status of its mblob_set_error, or else the status that it
 * returned; MBLOB_E_KERNEL if it threw, or if that is MBLOB_E_NOT_FOUND or no mblob_status.
 * Threads: any, if `save` allows it. */
MBLOB_API int mblob_module_save(mblob_module *module,
                                int (*write)(void *to, const void *bytes, size_t size), void *to);

/* Give a function a process-wide name.
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
