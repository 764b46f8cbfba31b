/* mblob/plugin.h - bring a runtime of your own: the functions behind a type key, or the memory
 * of a device.
 *
 * A plug-in is one C object that exports one constant, MBLOB_PLUGIN(name). Where the object is
 * does not matter: linked into a program that calls mblob_register_plugin(), carried by a packed
 * library itself (export_library(..., carry=["plugin.c"])), or a shared object in a folder of
 * MBLOB_PLUGIN_PATH or beside libmblob (there its name begins with `libmblob-`). It links
 * nothing of mblob: whatever it needs comes through the table `mblob_host` that it is given, so
 * one binary serves every place, and a library that carries it has no undefined symbols and
 * still opens in TVM.
 *
 * Include     <mblob.h>, which has this file, mblob_status and mblob_module_info.
 * Found       first match counts: loaders given with the open, then what is registered in the
 *             process (mblob_register_loader, mblob_register_plugin, Python's register_loader),
 *             carried by the library, built in, on MBLOB_PLUGIN_PATH (colon separated folders or
 *             files, in their order), beside libmblob; in Python then the entry points of the group
 *             `mblob.loaders`. Nothing of a file on the way runs before it is needed: its keys are
 *             read from the file.
 * Ownership   payloads, names and arguments are borrowed; a payload is valid until `close`. `self`
 *             and `function` are the plug-in's.
 * Errors      functions return MBLOB_OK or a status (mblob_status), after host->set_error(status,
 *             text). No C++ exception may leave them.
 * Threads     every function may be called from any thread, several at a time; `open` once per
 *             module. */
#ifndef MBLOB_PLUGIN_H
#define MBLOB_PLUGIN_H

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The code of float8_e3m4 in tensors and types that functions of the ffi dialect give. DLPack's
 * 7 is e5m2_float8 of TVM 0.15 to 0.19 in the runtime, and its 6, bool, e4m3_float8; bools are
 * uint1. Functions of the ffi dialect take DLPack's codes, too. */
#define MBLOB_FLOAT8_E3M4 128

/* Raised when something below changes incompatibly; tables only grow at their end. */
#define MBLOB_PLUGIN_ABI 1

struct mblob_module;
struct mblob_function;
struct mblob_module_info;

/* One region of bytes to another. Exactly one side may be the host (kDLCPU), or both are devices
 * of the table's type. `from` and `to` are what `allocate` gave, or host addresses; offsets and
 * size are bytes. */
typedef struct mblob_copy {
  const void *from;
  uint64_t from_offset;
  DLDevice from_device;
  void *to;
  uint64_t to_offset;
  DLDevice to_device;
  uint64_t size;
  void *stream; /* NULL: the thread's own of the device */
} mblob_copy;

/* What the runtime offers to plug-ins. It lives as long as the process. */
typedef struct mblob_host {
  uint32_t struct_size; /* members behind it are not there */
  uint32_t abi_version; /* MBLOB_PLUGIN_ABI of the runtime */
  const char *version;  /* of mblob */

  /* Record an error for the caller; returns `status` (mblob_status). */
  int (*set_error)(int status, const char *message);
  const char *(*last_error)(void);

  /* Results of `call`, through its `ret`. Text and bytes are copied; a tensor or function is
   * retained. Nothing set: None. */
  int (*return_value)(void *ret, TVMValue value, int code);
  int (*return_strings)(void *ret, const char *const *texts,
                        size_t count); /* a text: the JSON list of them */

  /* Functions of the module's imports (and its own), of the registry; released by
   * function_release. */
  int (*module_function)(struct mblob_module *module, const char *name, int query_imports,
                         struct mblob_function **out);
  int (*global_function)(const char *name, struct mblob_function **out);
  int (*function_call)(struct mblob_function *function, const TVMValue *args, const int *codes,
                       int count, TVMValue *ret, int *ret_code);
  void (*function_release)(struct mblob_function *function);

  /* Memory of any device, the host included. */
  int (*allocate)(DLDevice device, uint64_t size, uint64_t alignment, void **out);
  int (*free)(DLDevice device, void *data);
  int (*copy)(const mblob_copy *copy);

  /* Keep a tensor that came as kTVMNDArrayHandle beyond the call, and give it back. */
  void (*array_retain)(DLTensor *array);
  void (*array_release)(DLTensor *array);

  /* Call `task` for 0 .. task_count - 1 on the threads of the process; its status, when not 0,
   * is the result. */
  int (*parallel)(int (*task)(int task_id, int task_count, void *data), void *data, int task_count);

  /* For `open`: the functions that the module has, for errors and lists; optional. Borrowed
   * until `close`. */
  void (*names)(struct mblob_module *module, const char *const *names, size_t count);

  /* The runtime's own function of one of TVM's names (TVMBackendAllocWorkspace, ...); NULL: it
   * has none. */
  void *(*symbol)(const char *name);
  /* The status of the last error of this thread, and how many errors there were: whether a
   * callee recorded one. */
  int (*last_status)(void);
  uint64_t (*error_count)(void);
  /* As mblob_function_create; and the resource of a function that was created with `call`, NULL
   * of others. */
  int (*function_create)(TVMPackedCFunc call, void *resource, TVMPackedCFuncFinalizer finalize,
                         struct mblob_function **out);
  void *(*function_resource)(const struct mblob_function *function, TVMPackedCFunc call);
  /* A reference to what is counted (function, module, array, container); nothing for other
   * codes. */
  void (*value_retain)(TVMValue value, int code);
  void (*value_release)(TVMValue value, int code);
  /* A counted array over memory of another, compact; `release(owner)` at its end. On failure the
   * owner stays the caller's. */
  int (*array_view)(const DLTensor *tensor, void *owner, void (*release)(void *owner),
                    DLTensor **out);
} mblob_host;

/* How modules of one type key come to life. */
typedef struct mblob_runtime {
  const char *type_key;
  /* On the first use of a function of the module. `host` and what `info` points to live until
   * `close`. */
  int (*open)(const mblob_host *host, const struct mblob_module_info *info, void **self);
  /* MBLOB_OK with *function = NULL when the module has no such function. What it gave is kept,
   * not asked for again. */
  int (*function)(void *self, const char *name, void **function);
  /* args[i] has type code codes[i], as in TVM's packed calls. `ret` goes to host->return_value. */
  int (*call)(void *self, void *function, const TVMValue *args, const int *codes, int count,
              void *ret);
  void (*release)(void *self, void *function); /* no call is running or will come; may be NULL */
  void (*close)(void *self);                   /* after the last release; may be NULL */
} mblob_runtime;

/* What `attribute` is asked for: numbers are TVM's DeviceAttrKind. */
typedef enum mblob_device_attribute {
  MBLOB_DEVICE_EXISTS = 0,
  MBLOB_DEVICE_MAX_THREADS_PER_BLOCK = 1,
  MBLOB_DEVICE_WARP_SIZE = 2,
  MBLOB_DEVICE_MAX_SHARED_MEMORY_PER_BLOCK = 3,
  MBLOB_DEVICE_COMPUTE_VERSION = 4, /* text */
  MBLOB_DEVICE_NAME = 5,            /* text */
  MBLOB_DEVICE_MAX_CLOCK_RATE = 6,  /* kHz */
  MBLOB_DEVICE_MULTI_PROCESSOR_COUNT = 7,
  MBLOB_DEVICE_MAX_THREAD_DIMENSIONS = 8, /* text "[x, y, z]" */
  MBLOB_DEVICE_API_VERSION = 11,
  MBLOB_DEVICE_DRIVER_VERSION = 12, /* text */
  MBLOB_DEVICE_TOTAL_GLOBAL_MEMORY = 14
} mblob_device_attribute;

/* One kind of device: its memory and its streams. `device_id` was checked against `count`. */
typedef struct mblob_device_api {
  int32_t device_type; /* DLDeviceType */
  const char *name;    /* as in mblob.device(name) */
  /* How many there are, 0 if none; an error if that cannot be told (no driver). */
  int (*count)(int *out);
  /* A number to *number, or a text to text[0..size). MBLOB_E_NOT_FOUND: the kind is not known
   * here. */
  int (*attribute)(int device_id, int kind, int64_t *number, char *text, size_t size);
  /* The calling thread's device of this kind from now on (`__tvm_set_device`); 0 until then. */
  int (*set_device)(int device_id);
  int (*allocate)(int device_id, uint64_t size, uint64_t alignment, void **out);
  int (*free)(int device_id, void *data); /* waits until no work uses it */
  /* When it returns the source may change, and the host's destination has its bytes. */
  int (*copy)(const mblob_copy *copy);
  int (*stream_create)(int device_id, void **out);
  int (*stream_free)(int device_id, void *stream);
  int (*set_stream)(int device_id,
                    void *stream); /* for the calling thread; NULL: the default one */
  int (*synchronize)(int device_id, void *stream); /* NULL: the thread's own */
  /* Work given to `stream` from now on waits for `other`. NULL is the default one, whichever the
   * thread chose. */
  int (*stream_wait)(int device_id, void *stream, void *other);
} mblob_device_api;

/* Another calling convention than TVMValue and type codes, for whole libraries: that of TVM 0.21
 * and later. */
typedef struct mblob_convention {
  uint32_t struct_size;
  /* Address of the function that libraries of these releases (0: TVM 0.21, 1: later) know as
   * `name`; NULL: none. */
  void *(*symbol)(int releases, const char *name);
  /* Call compiled code at `address`, which errors call `name`. `external`: it uses the tvm_ffi
   * of the process. `ret` goes to host->return_value. */
  int (*call)(int releases, int external, void *address, const char *name, const TVMValue *args,
              const int *codes, int count, void *ret);
  /* A function as an object of tvm_ffi, and back: the caller owns a reference of the result. */
  int (*object_of_function)(struct mblob_function *function, void **out);
  int (*function_of_object)(void *object, struct mblob_function **out);
  /* Rows of values of 16 bytes, which compiled functions of Relax work on: store a value, with a
   * reference of its own, in an item that holds none; what an item holds, through
   * host->return_value; give back what it holds, which is nothing then. Older plug-ins have none of
   * them (struct_size). */
  int (*to_any)(int releases, TVMValue value, int code, void *item);
  int (*from_any)(int releases, const void *item, void *ret);
  void (*any_release)(int releases, void *item);
} mblob_convention;

/* The texts come first and inside the struct: they are read from the file, before any of its
 * code runs. */
typedef struct mblob_plugin {
  uint32_t abi_version; /* MBLOB_PLUGIN_ABI */
  uint32_t struct_size; /* sizeof(mblob_plugin) */
  char name[32];
  char version[32];
  char type_keys[192]; /* comma separated: those of `runtimes` */
  char devices[64];    /* comma separated DLDeviceType numbers: those of `device_apis` */
  char needs[192]; /* what it looks for at run time, for people: "libOpenCL.so.1 and a driver" */
  /* Once, before anything else; may be NULL. A plug-in that fails is tried again at its next
   * use. */
  int (*start)(const mblob_host *host);
  /* One line for people: versions, devices; an error that says what is missing when it cannot
   * work. May be NULL. */
  int (*describe)(char *text, size_t size);
  const mblob_runtime *runtimes;
  const mblob_device_api *device_apis;
  uint32_t runtime_count, device_api_count;
  const mblob_convention
      *convention; /* of the plug-in "ffi"; NULL, or not there (struct_size), of others */
} mblob_plugin;

/* At file scope: MBLOB_PLUGIN(toy) = {MBLOB_PLUGIN_ABI, sizeof(mblob_plugin), "toy", "1.0",
 * ...}; */
#define MBLOB_PLUGIN_SYMBOL "__mblob_plugin_"
#ifdef __cplusplus
#define MBLOB_PLUGIN(plugin_name)                         \
  extern "C" __attribute__((visibility("default")))       \
  const mblob_plugin __mblob_plugin_##plugin_name;        \
  extern "C" __attribute__((visibility("default"), used)) \
  const mblob_plugin __mblob_plugin_##plugin_name
#else
#define MBLOB_PLUGIN(plugin_name) \
  __attribute__((visibility("default"), used)) const mblob_plugin __mblob_plugin_##plugin_name
#endif

#ifdef __cplusplus
}
#endif
#endif /* MBLOB_PLUGIN_H */
