/* The names of c_api.c as symbols, for programs that have libraries of the ffi dialect linked
 * in, statically: these refer to the names, and a linker takes them from `-lmblob-ffi`. Opened
 * by libmblob the symbols are nobody's but the plug-in's. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"
#include "base/base.h"
#include "c_api.h"
#include "common.h"
#include "environment.h"
#include "errors.h"
#include "reflection.h"
#include "tensors.h"

#define FILE_NAME "/libmblob-ffi.so"
#define RUNTIME "libmblob.so.0"

/* The file of another copy of this plug-in than the one at `base`. */
struct other {
  ElfW(Addr) base;
  char *path;
};

static int find_other_copy(struct dl_phdr_info *info, size_t size, void *argument) {
  struct other *other = argument;
  const char *name = strrchr(info->dlpi_name, '/');
  (void)size;
  if (info->dlpi_addr == other->base || !name || strcmp(name, FILE_NAME) != 0) return 0;
  other->path = strdup(info->dlpi_name);
  return 1;
}

/* ---- without a runtime ----------------------------------------------------------------------- */

/* What is called first in a process starts the plug-in: with the runtime that the process has,
 * or with the one beside this file. */
static void *runtime_function(const char *name) {
  Dl_info own;
  void *found = dlsym(RTLD_DEFAULT, name), *library = NULL;
  if (found) return found;
  library = dlopen(RUNTIME, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
  const char *end = !library && dladdr(FILE_NAME, &own) ? strrchr(own.dli_fname, '/') : NULL;
  char *path = NULL;
  if (end && asprintf(&path, "%.*s/%s", (int)(end - own.dli_fname), own.dli_fname, RUNTIME) > 0)
    library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  free(path);
  return library ? dlsym(library, name) : NULL; /* it stays */
}

/* Where there is no runtime, errors say so, and nothing else can be done. */
static const char no_runtime[] =
    "there is no libmblob in this process, and none beside libmblob-ffi.so";
static __thread uint64_t no_runtime_errors;

static int no_runtime_set_error(int status, const char *message) {
  (void)message;
  no_runtime_errors++;
  return status;
}

static int no_runtime_set_coded_error(int status, const char *code, const char *message) {
  (void)code;
  return no_runtime_set_error(status, message);
}

static const char *no_runtime_last_error(void) { return no_runtime; }
static const char *no_runtime_last_code(void) { return ""; }
static int no_runtime_last_status(void) { return MBLOB_E_INCOMPATIBLE; }
static uint64_t no_runtime_error_count(void) { return no_runtime_errors; }
static void *no_runtime_symbol(const char *name) { return (void)name, NULL; }

static int no_runtime_global_function(const char *name, struct mblob_function **out) {
  (void)name;
  *out = NULL;
  return no_runtime_set_error(MBLOB_E_INCOMPATIBLE, no_runtime);
}

static int no_runtime_function_create(TVMPackedCFunc call, void *resource,
                                      TVMPackedCFuncFinalizer finalize,
                                      struct mblob_function **out) {
  (void)call, (void)resource, (void)finalize;
  return no_runtime_global_function(NULL, out);
}

static int no_runtime_array_view(const DLTensor *tensor, void *owner, void (*release)(void *owner),
                                 DLTensor **out) {
  (void)tensor, (void)owner, (void)release;
  *out = NULL;
  return no_runtime_set_error(MBLOB_E_INCOMPATIBLE, no_runtime);
}

static void *no_runtime_function_resource(const struct mblob_function *function,
                                          TVMPackedCFunc call) {
  return (void)function, (void)call, NULL;
}

static const char *no_runtime_builtin_name(struct mblob_function *function) {
  return (void)function, NULL;
}

static const uint64_t no_runtime_generation;

/* No function, array or module can be there, so what takes one is never called. */
static const mblob_host empty_host = {.struct_size = sizeof(mblob_host),
                                      .abi_version = MBLOB_PLUGIN_ABI,
                                      .version = MBLOB_VERSION,
                                      .set_error = no_runtime_set_error,
                                      .last_error = no_runtime_last_error,
                                      .last_status = no_runtime_last_status,
                                      .error_count = no_runtime_error_count,
                                      .symbol = no_runtime_symbol,
                                      .global_function = no_runtime_global_function,
                                      .function_create = no_runtime_function_create,
                                      .function_resource = no_runtime_function_resource,
                                      .array_view = no_runtime_array_view,
                                      .set_coded_error = no_runtime_set_coded_error,
                                      .last_code = no_runtime_last_code,
                                      .builtin_name = no_runtime_builtin_name,
                                      .registry_generation = &no_runtime_generation};

extern const mblob_plugin __mblob_plugin_ffi;
extern int mblob_register_plugin(const mblob_plugin *plugin) __attribute__((weak));

/* True if there is a runtime. */
static bool start(void) {
  const mblob_host *host = mb_plugin_host();
  if (host && host != &empty_host) return true;
  union {
    void *address;
    int (*call)(const mblob_plugin *plugin);
  } announce = {.call = mblob_register_plugin};
  if (!announce.call) announce.address = runtime_function("mblob_register_plugin");
  if (announce.address && !announce.call(&__mblob_plugin_ffi)) return true;
  if (!host) (void)mb_host_start(&empty_host);
  return false;
}

/* The function of the copy that libmblob opened, which need not be the one that the program is
 * linked with. */
static void *find(const char *name, void **known) {
  struct other other = {0, NULL};
  Dl_info own;
  void *found = NULL;
  const mblob_host *host = mb_plugin_host();
  if ((!host || host == &empty_host) && dladdr(FILE_NAME, &own)) {
    other.base = (ElfW(Addr))own.dli_fbase;
    (void)dl_iterate_phdr(find_other_copy, &other);
    void *copy = other.path ? dlopen(other.path, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD) : NULL;
    found = copy ? dlsym(copy, name) : NULL;
    if (copy) (void)dlclose(copy);
    free(other.path);
  }
  const bool is_final = found || start(); /* a runtime may come yet */
  if (!found) found = mb_ffi_symbol(MB_RELEASES_0_22, name);
  if (is_final) __atomic_store_n(known, found, __ATOMIC_RELAXED);
  return found;
}

/* ---- the names ------------------------------------------------------------------------------- */

/* Looked up at the first call; several threads find the same. */
#define FORWARD(type, name, parameters, arguments)               \
  type name parameters __attribute__((visibility("default")));   \
  type name parameters {                                         \
    static void *known;                                          \
    union {                                                      \
      void *address;                                             \
      type(*call) parameters;                                    \
    } forward = {__atomic_load_n(&known, __ATOMIC_RELAXED)};     \
    if (!forward.address) forward.address = find(#name, &known); \
    return forward.call arguments;                               \
  }

FORWARD(int, TVMFFIAnyViewToOwnedAny, (const struct mb_any *view, struct mb_any *out), (view, out))
FORWARD(int, TVMFFIBytesFromByteArray, (const struct mb_text *from, struct mb_any *out),
        (from, out))
FORWARD(const struct mb_text *, TVMFFIBacktrace,
        (const char *file, int line, const char *function, int crosses),
        (file, line, function, crosses))
FORWARD(int, TVMFFIEnvCheckSignals, (void), ())
FORWARD(void *, TVMFFIEnvGetStream, (int32_t type, int32_t id), (type, id))
FORWARD(int, TVMFFIEnvModLookupFromImports, (void *library, const char *name, void **out),
        (library, name, out))
FORWARD(int, TVMFFIEnvSetStream, (int32_t type, int32_t id, void *stream, void **before),
        (type, id, stream, before))
FORWARD(int, TVMFFIEnvTensorAlloc, (const DLTensor *like, void **out), (like, out))
FORWARD(int, TVMFFIErrorCreate,
        (const struct mb_text *kind, const struct mb_text *message, const struct mb_text *backtrace,
         void **out),
        (kind, message, backtrace, out))
FORWARD(int, TVMFFIErrorCreateWithCauseAndExtraContext,
        (const struct mb_text *kind, const struct mb_text *message, const struct mb_text *backtrace,
         void *cause, void *context, void **out),
        (kind, message, backtrace, cause, context, out))
FORWARD(void, TVMFFIErrorMoveFromRaised, (void **out), (out))
FORWARD(void, TVMFFIErrorSetRaised, (void *error), (error))
FORWARD(void, TVMFFIErrorSetRaisedFromCStr, (const char *kind, const char *message),
        (kind, message))
FORWARD(void, TVMFFIErrorSetRaisedFromCStrParts,
        (const char *kind, const char *const *parts, int32_t count), (kind, parts, count))
FORWARD(int, TVMFFIFunctionCall,
        (void *function, const struct mb_any *args, int32_t count, struct mb_any *result),
        (function, args, count, result))
FORWARD(int, TVMFFIFunctionCreate,
        (void *self, mb_safe_call call, void (*deleter)(void *self), void **out),
        (self, call, deleter, out))
FORWARD(int, TVMFFIFunctionGetGlobal, (const struct mb_text *name, void **out), (name, out))
FORWARD(int, TVMFFIFunctionSetGlobal, (const struct mb_text *name, void *function, int replace),
        (name, function, replace))
FORWARD(const struct mb_type_info *, TVMFFIGetTypeInfo, (int32_t type), (type))
FORWARD(void, TVMFFIGetVersion, (uint32_t *out), (out))
FORWARD(int, TVMFFIHandleDeinitOnce, (void **handle, int (*deinit)(void *handle)), (handle, deinit))
FORWARD(int, TVMFFIHandleInitOnce, (void **handle, int (*init)(void **result)), (handle, init))
FORWARD(int, TVMFFIObjectCreateOpaque,
        (void *handle, int32_t type, void (*deleter)(void *handle), void **out),
        (handle, type, deleter, out))
FORWARD(int, TVMFFIObjectDecRef, (void *object), (object))
FORWARD(int, TVMFFIObjectIncRef, (void *object), (object))
FORWARD(int, TVMFFIStringFromByteArray, (const struct mb_text *from, struct mb_any *out),
        (from, out))
FORWARD(int, TVMFFITensorCreateUnsafeView, (void *source, const DLTensor *like, void **out),
        (source, like, out))
FORWARD(int, TVMFFITensorFromDLPack,
        (DLManagedTensor * from, int32_t alignment, int32_t contiguous, void **out),
        (from, alignment, contiguous, out))
FORWARD(int, TVMFFITensorFromDLPackVersioned,
        (DLManagedTensorVersioned * from, int32_t alignment, int32_t contiguous, void **out),
        (from, alignment, contiguous, out))
FORWARD(int, TVMFFITensorToDLPack, (void *object, DLManagedTensor **out), (object, out))
FORWARD(int, TVMFFITensorToDLPackVersioned, (void *object, DLManagedTensorVersioned **out),
        (object, out))
FORWARD(int32_t, TVMFFITypeGetOrAllocIndex,
        (const struct mb_text *key, int32_t fixed, int32_t depth, int32_t slots,
         int32_t may_overflow, int32_t parent),
        (key, fixed, depth, slots, may_overflow, parent))

FORWARD(int, TVMFFIBigIntFromByteArray, (const struct mb_text *words, struct mb_any *out),
        (words, out))
FORWARD(struct mb_text, TVMFFIBigIntGetContentByteArray, (const struct mb_any *value), (value))
FORWARD(int, TVMFFIDataTypeFromString, (const struct mb_text *text, DLDataType *out), (text, out))
FORWARD(int, TVMFFIDataTypeToString, (const DLDataType *dtype, struct mb_any *out), (dtype, out))
FORWARD(mb_tensor_allocator, TVMFFIEnvGetDLPackManagedTensorAllocator, (void), ())
FORWARD(int, TVMFFIEnvModRegisterContextSymbol, (const char *name, void *symbol), (name, symbol))
FORWARD(int, TVMFFIEnvRegisterCAPI, (const char *name, void *symbol), (name, symbol))
FORWARD(int, TVMFFIEnvSetDLPackManagedTensorAllocator,
        (mb_tensor_allocator allocator, int everywhere, mb_tensor_allocator *before),
        (allocator, everywhere, before))
FORWARD(int, TVMFFIFunctionSetGlobalFromMethodInfo,
        (const struct mb_method_info *info, int replace), (info, replace))
FORWARD(struct mb_object_allocator *, TVMFFIGetCustomAllocator, (void), ())
FORWARD(const struct mb_attribute_column *, TVMFFIGetTypeAttrColumn, (const struct mb_text *name),
        (name))
FORWARD(int, TVMFFISetCustomAllocator, (struct mb_object_allocator * allocator), (allocator))
FORWARD(int, TVMFFITypeKeyToIndex, (const struct mb_text *key, int32_t *out), (key, out))
FORWARD(int, TVMFFITypeRegisterAttr,
        (int32_t type, const struct mb_text *name, const struct mb_any *value), (type, name, value))
FORWARD(int, TVMFFITypeRegisterField, (int32_t type, const struct mb_field_info *info),
        (type, info))
FORWARD(int, TVMFFITypeRegisterMetadata, (int32_t type, const struct mb_type_metadata *metadata),
        (type, metadata))
FORWARD(int, TVMFFITypeRegisterMethod, (int32_t type, const struct mb_method_info *info),
        (type, info))

/* What was announced where no runtime is, or none that can be seen from here: a linker with
 * --as-needed drops libmblob, to which nothing refers, and Python opens it for itself. A runtime
 * that is asked for a system library comes and takes it (csrc/src/core/library/system_library.c). */
struct announced {
  struct announced *next;
  void *address;
  char name[];
};
static struct announced *first_announced, **end_of_announced = &first_announced;
static struct mb_lock announced_lock = MB_LOCK_INIT; /* for the list */
static struct mb_lock taking_lock =
    MB_LOCK_INIT_UNCOUNTED; /* for the whole of a hand-over; the runtime takes locks of its own in
                               it */

static struct announced *oldest_announced(void) {
  mb_lock(&announced_lock);
  struct announced *oldest = first_announced;
  mb_unlock(&announced_lock);
  return oldest;
}

static int keep_announced(const char *name, void *address) {
  const size_t size = strlen(name) + 1;
  struct announced *made = malloc(sizeof(*made) + size);
  if (!made) return -1;
  *made = (struct announced){NULL, address};
  memcpy(made->name, name, size);
  mb_lock(&announced_lock);
  *end_of_announced = made;
  end_of_announced = &made->next;
  mb_unlock(&announced_lock);
  return 0;
}

static void forget_oldest(void) {
  mb_lock(&announced_lock);
  struct announced *oldest = first_announced;
  first_announced = oldest->next;
  if (!first_announced) end_of_announced = &first_announced;
  mb_unlock(&announced_lock);
  free(oldest);
}

/* Hand all of it to `take`, in order, and forget it. The name at which `take` fails, and all
 * behind it, stay for the next time; its status is returned. When this returns, no other thread
 * is amid a hand-over. */
int mblob_ffi_take_announced(int (*take)(const char *name, void *address))
    __attribute__((visibility("default")));
int mblob_ffi_take_announced(int (*take)(const char *name, void *address)) {
  int status = 0;
  mb_lock(&taking_lock);
  for (struct announced *each; !status && (each = oldest_announced());) {
    status = take(each->name, each->address);
    if (!status) forget_oldest();
  }
  mb_unlock(&taking_lock);
  return status;
}

/* Called before `main`, when no copy of the plug-in is open: the runtime that the program is
 * linked with takes it. While older names are kept, later ones are kept behind them: no runtime
 * is looked for, and none gets the later address first. */
extern int TVMBackendRegisterSystemLibSymbol(const char *name, void *address) __attribute__((weak));

int TVMFFIEnvModRegisterSystemLibSymbol(const char *name, void *address)
    __attribute__((visibility("default")));
int TVMFFIEnvModRegisterSystemLibSymbol(const char *name, void *address) {
  int (*announce)(const char *name, void *address) = TVMBackendRegisterSystemLibSymbol;
  if (announce) return announce(name, address);
  if (oldest_announced() || !start()) return name && address ? keep_announced(name, address) : -1;
  union {
    void *address;
    int (*call)(const char *name, void *address);
  } served = {mb_ffi_symbol(MB_RELEASES_0_22, "TVMFFIEnvModRegisterSystemLibSymbol")};
  return served.call(name, address);
}
