/* mblob/plugin.h - write a plug-in: the functions of a type key, or the memory of a device.
 *
 * A plug-in is a C object that exports one constant, MBLOB_PLUGIN(name). There are three places
 * for it: linked into a program that calls mblob_register_plugin(); carried by a packed library
 * (export_library(..., carry=["plugin.c"])); or a shared object in a folder of $MBLOB_PLUGIN_PATH
 * or beside libmblob, where its name begins with `libmblob-`.
 *
 * A plug-in links nothing of mblob. It calls the runtime through the table `mblob_host`. So one
 * binary works in every place. A library that carries it has no undefined symbols and still opens
 * in TVM.
 *
 * Include     <mblob.h>, which includes this file, mblob_status and mblob_module_info.
 * Search      The first match is used: loaders given with the open; registered in the process
 *             (mblob_register_loader, mblob_register_plugin, Python's register_loader); carried by
 *             the library; built in; on $MBLOB_PLUGIN_PATH (folders or files separated by colons, in
 *             their order); beside libmblob; in Python the entry points of the group
 *             `mblob.loaders`. The keys of a plug-in are read from its file. Its code runs only
 *             when it is needed.
 * Ownership   Payloads, names and arguments are borrowed; a payload is valid until `close`. The
 *             plug-in owns `self` and `function`.
 * Errors      Functions return MBLOB_OK, or a status (mblob_status) after
 *             host->set_error(status, text). No C++ exception may leave them.
 * Threads     Every function may be called from any thread, several at a time; `open` once per
 *             module. */
#ifndef MBLOB_PLUGIN_H
#define MBLOB_PLUGIN_H

#include <mblob/packed.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The type code of float8_e3m4 in the runtime, and in results of functions of the ffi dialect.
 * DLPack's code 7 means e5m2_float8 of TVM 0.15 to 0.19 in the runtime, and DLPack's 6 (bool) means
 * e4m3_float8; the runtime's bool is uint1. Functions of the ffi dialect also accept DLPack's
 * codes. */
#define MBLOB_FLOAT8_E3M4 128

/* A tensor argument that the callee may keep, of type code MBLOB_LENT_TENSOR. Its memory is valid
 * during the call. Afterwards, if the callee still has the tensor, `keep` gives an owner of the
 * memory: 0, and *release(*owner) ends it, from any thread.
 * Only functions for which mblob_function_argument_mode() is MBLOB_ARGUMENTS_OBJECTS, and functions that Python registers, take
 * such arguments. */
typedef struct mblob_lent_tensor {
  DLTensor tensor;
  int (*keep)(struct mblob_lent_tensor *self, void **owner, void (**release)(void *owner));
} mblob_lent_tensor;
#define MBLOB_LENT_TENSOR 0x10007

/* Raised when something below changes incompatibly; tables only grow at their end. */
#define MBLOB_PLUGIN_ABI 1

struct mblob_module;
struct mblob_function;
struct mblob_module_info;

/* A copy of bytes. At most one side is the host (kDLCPU); the other sides are devices of the
 * table's type. `from` and `to` are results of `allocate`, or host addresses. Offsets and size are
 * in bytes. */
typedef struct mblob_copy {
  const void *from;
  uint64_t from_offset;
  DLDevice from_device;
  void *to;
  uint64_t to_offset;
  DLDevice to_device;
  uint64_t size;
  void *stream; /* NULL: the stream of the calling thread */
} mblob_copy;

/* The functions of the runtime for plug-ins. The table is valid until the process ends. */
typedef struct mblob_host {
  uint32_t struct_size; /* members at or behind this offset are absent */
  uint32_t abi_version; /* MBLOB_PLUGIN_ABI of the runtime */
  const char *version;  /* of mblob */

  /* Record an error for the caller; returns `status` (mblob_status). */
  int (*set_error)(int status, const char *message);
  const char *(*last_error)(void);

  /* Set the result of `call`, through its `ret`. Text and bytes are copied; a tensor or function
   * is retained. Without a result: None. */
  int (*return_value)(void *ret, TVMValue value, int code);
  int (*return_strings)(void *ret, const char *const *texts,
                        size_t count); /* result: a text with their JSON list */

  /* A function of the module's imports or of the module itself, or of the registry. Release it
   * with function_release. */
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

  /* Keep a tensor argument of code kTVMNDArrayHandle beyond the call; release it later. */
  void (*array_retain)(DLTensor *array);
  void (*array_release)(DLTensor *array);

  /* Call `task` for 0 .. task_count - 1 on the thread pool. The result is 0, or the status of a
   * task that failed. */
  int (*parallel)(int (*task)(int task_id, int task_count, void *data), void *data, int task_count);

  /* For `open`, optional: the names of the module's functions, for errors and lists. They are
   * borrowed until `close`. */
  void (*names)(struct mblob_module *module, const char *const *names, size_t count);

  /* The runtime's function with a name of <tvm/runtime/c_backend_api.h>, such as
   * TVMBackendAllocWorkspace, or NULL. */
  void *(*symbol)(const char *name);
  /* The status of this thread's last error, and the number of its errors. A changed number shows
   * that a callee recorded one. */
  int (*last_status)(void);
  uint64_t (*error_count)(void);
  /* As mblob_function_create. The second returns the resource of a function that was created with
   * `call`, NULL for other functions. */
  int (*function_create)(TVMPackedCFunc call, void *resource, TVMPackedCFuncFinalizer finalize,
                         struct mblob_function **out);
  void *(*function_resource)(const struct mblob_function *function, TVMPackedCFunc call);
  /* Add or drop a reference to a counted value (function, module, array, container). Other codes
   * are ignored. */
  void (*value_retain)(TVMValue value, int code);
  void (*value_release)(TVMValue value, int code);
  /* A counted, compact array over memory of `owner`. Its end calls `release(owner)`. On failure
   * the caller keeps the owner. */
  int (*array_view)(const DLTensor *tensor, void *owner, void (*release)(void *owner),
                    DLTensor **out);

  /* As set_error, and says what is wrong with an argument: one of the codes of mblob_error_info
   * ("argument_type", ...), which decides the class of the exception in Python. Other codes are
   * ignored, as is NULL. */
  int (*set_coded_error)(int status, const char *code, const char *message);
  /* The code of this thread's last error (mblob_error_info), "" without one. It stays valid. */
  const char *(*last_code)(void);

  /* The name of the runtime's own builtin that a function stands for now, which kernels look up;
   * NULL of others. The text is always at one place. */
  const char *(*builtin_name)(struct mblob_function *function);
  /* A number that changes with the registry of global functions, to be read atomically. */
  const uint64_t *registry_generation;
} mblob_host;

/* The functions that run modules of one type key. */
typedef struct mblob_runtime {
  const char *type_key;
  /* Called on the first use of a function of the module. `host` and the memory of `info` are valid
   * until `close`. */
  int (*open)(const mblob_host *host, const struct mblob_module_info *info, void **self);
  /* MBLOB_OK with *function = NULL if the module has no such function. Results are cached. */
  int (*function)(void *self, const char *name, void **function);
  /* args[i] has type code codes[i], as in TVM's packed calls. `ret` goes to host->return_value. */
  int (*call)(void *self, void *function, const TVMValue *args, const int *codes, int count,
              void *ret);
  void (*release)(void *self, void *function); /* no call is running or will come; may be NULL */
  void (*close)(void *self);                   /* after the last release; may be NULL */
} mblob_runtime;

/* The kinds of `attribute`; the numbers are TVM's DeviceAttrKind. */
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

/* A device type: its memory and its streams. `device_id` is always below `count`. */
typedef struct mblob_device_api {
  int32_t device_type; /* DLDeviceType */
  const char *name;    /* as in mblob.device(name) */
  /* The number of devices, 0 if there are none; an error if it is unknown (no driver). */
  int (*count)(int *out);
  /* Writes a number to *number, or a text to text[0..size). MBLOB_E_NOT_FOUND: unknown kind. */
  int (*attribute)(int device_id, int kind, int64_t *number, char *text, size_t size);
  /* Sets the calling thread's device of this type (`__tvm_set_device`); the default is 0. */
  int (*set_device)(int device_id);
  int (*allocate)(int device_id, uint64_t size, uint64_t alignment, void **out);
  int (*free)(int device_id, void *data); /* waits until no work uses it */
  /* After the return the source may change, and a destination on the host has its bytes. */
  int (*copy)(const mblob_copy *copy);
  int (*stream_create)(int device_id, void **out);
  int (*stream_free)(int device_id, void *stream);
  int (*set_stream)(int device_id,
                    void *stream); /* for the calling thread; NULL: the default stream */
  int (*synchronize)(int device_id, void *stream); /* NULL: that of the calling thread */
  /* Later work in `stream` waits for `other`. NULL is the default stream, whatever the thread
   * selected. */
  int (*stream_wait)(int device_id, void *stream, void *other);
} mblob_device_api;

/* A value of the convention below. */
typedef struct mblob_any {
  int32_t type; /* 0: nothing, 1: an integer, 7: a DLTensor */
  uint32_t zero;
  TVMValue value;
} mblob_any;

/* A calling convention without TVMValue and type codes, for whole libraries: that of TVM 0.21 and
 * later. */
typedef struct mblob_convention {
  uint32_t struct_size;
  /* The function `name` for libraries of these releases (0: TVM 0.21, 1: later), or NULL. */
  void *(*symbol)(int releases, const char *name);
  /* Call compiled code at `address`; errors name it `name`. `external`: the code uses the tvm_ffi
   * of the process. `ret` goes to host->return_value. */
  int (*call)(int releases, int external, void *address, const char *name, const TVMValue *args,
              const int *codes, int count, void *ret);
  /* A function as an object of tvm_ffi, and back. The caller owns a reference to the result. */
  int (*object_of_function)(struct mblob_function *function, void **out);
  int (*function_of_object)(void *object, struct mblob_function **out);
  /* Rows of values of 16 bytes, which compiled functions of Relax work on: store a value, with a
   * reference of its own, in an item that holds none; what an item holds, through
   * host->return_value; give back what it holds, which is nothing then. Older plug-ins have none of
   * them (struct_size). */
  int (*to_any)(int releases, TVMValue value, int code, void *item);
  int (*from_any)(int releases, const void *item, void *ret);
  void (*any_release)(int releases, void *item);
  /* As `call`, of values that the code can have as they are: integers, and tensors with strides
   * whose type is no flag and no MBLOB_FLOAT8_E3M4. */
  int (*call_row)(int releases, void *address, const char *name, const mblob_any *row, int count,
                  void *ret);
} mblob_convention;

/* A plug-in. Its texts are at the beginning and inside the struct, because they are read from the
 * file before any of its code runs. */
typedef struct mblob_plugin {
  uint32_t abi_version; /* MBLOB_PLUGIN_ABI */
  uint32_t struct_size; /* sizeof(mblob_plugin) */
  char name[32];
  char version[32];
  char type_keys[192]; /* those of `runtimes`, separated by commas */
  char devices[64];    /* DLDeviceType numbers of `device_apis`, separated by commas */
  char needs[192];     /* requirements at run time, for people: "libOpenCL.so.1 and a driver" */
  /* Called once, before all others; may be NULL. After a failure, the next use calls it again. */
  int (*start)(const mblob_host *host);
  /* One line for people: versions, devices. If the plug-in cannot work: an error that says what is
   * missing. May be NULL. */
  int (*describe)(char *text, size_t size);
  const mblob_runtime *runtimes;
  const mblob_device_api *device_apis;
  uint32_t runtime_count, device_api_count;
  const mblob_convention
      *convention; /* for the plug-in "ffi"; others: NULL, or absent (struct_size) */
  /* Layouts, by which payloads of the type keys end in libraries without an index: `KEY=LAYOUT`, separated by
   * spaces, such as "fuse=string,u64" (mblob_loader.layout). Older plug-ins have none
   * (struct_size). */
  char layouts[256];
} mblob_plugin;

/* The beginning of the symbol of a plug-in's table; the name of the plug-in follows. */
#define MBLOB_PLUGIN_SYMBOL "__mblob_plugin_"
/* At file scope: MBLOB_PLUGIN(toy) = {MBLOB_PLUGIN_ABI, sizeof(mblob_plugin), "toy", "1.0",
 * ...}; */
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
