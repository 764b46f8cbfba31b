/* TVM's names over what the other files do. Addresses are put where a library looks for them;
 * what is linked into a program finds the same functions by exported.c. */
#include "c_api.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "builtins.h"
#include "calls.h"
#include "common.h"
#include "containers.h"
#include "dtypes.h"
#include "environment.h"
#include "errors.h"
#include "globals.h"
#include "reflection.h"
#include "tensors.h"
#include "types.h"
#include "values.h"

#define RELEASES MB_RELEASES_0_22

static struct mb_text text_of(const char *text) {
  return (struct mb_text){text ? text : "", text ? strlen(text) : 0};
}

static struct mb_text text_or_none(const struct mb_text *text) {
  return text && text->data ? *text : text_of("");
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* An error that compiled code leaves is the runtime's at once, too: a loop of a runtime that the
 * program is linked with does not come by here when its task has failed. */
static void raise_by_code(void *error) {
  mb_error_raise(error);
  mb_error_tell_runtime();
}

static void set_raised_from_text(const char *kind, const char *message) {
  raise_by_code(mb_error_new(text_of(kind), text_of(message), text_of("")));
}

static void set_raised_from_parts(const char *kind, const char *const *parts, int32_t count) {
  size_t size = 0;
  for (int32_t i = 0; parts && i < count; i++) size += parts[i] ? strlen(parts[i]) : 0;
  char *whole = malloc(size + 1), *at = whole;
  for (int32_t i = 0; whole && parts && i < count; i++) at = parts[i] ? stpcpy(at, parts[i]) : at;
  const struct mb_text text = {whole, (size_t)(at - whole)};
  raise_by_code(
      mb_error_new(text_of(kind), whole ? text : text_of(MB_TEXT_NO_MEMORY), text_of("")));
  free(whole);
}

static void set_raised(void *error) {
  if (error && mb_ffi_object_type(RELEASES, error) != MB_ANY_ERROR) {
    (void)mb_fail_argument(MB_ARGUMENT_TYPE,
                           "TVMFFIErrorSetRaised: expected an error, found an object of type %d",
                           mb_ffi_object_type(RELEASES, error));
    (void)mb_error_raise_last();
    mb_error_tell_runtime();
    return;
  }
  if (error) mb_ffi_object_retain(RELEASES, error);
  raise_by_code(error);
}

static void move_from_raised(void **out) {
  if (out) *out = mb_error_take();
}

static int create_error_with(const struct mb_text *kind, const struct mb_text *message,
                             const struct mb_text *backtrace, void *cause, void *context,
                             void **out) {
  if (!out) return mb_error_null("TVMFFIErrorCreate");
  *out = mb_error_new(text_or_none(kind), text_or_none(message), text_or_none(backtrace));
  if (!*out) return mb_error_raise_last();
  mb_error_share(*out, cause, context);
  return 0;
}

static int create_error(const struct mb_text *kind, const struct mb_text *message,
                        const struct mb_text *backtrace, void **out) {
  return create_error_with(kind, message, backtrace, NULL, NULL, out);
}

/* ---- objects --------------------------------------------------------------------------------- */

static int retain(void *object) {
  if (!object) return mb_error_null("TVMFFIObjectIncRef");
  mb_ffi_object_retain(RELEASES, object);
  return 0;
}

static int release(void *object) {
  mb_ffi_object_release(RELEASES, object);
  return 0;
}

static int retain_old(void *object) {
  if (!object) return mb_error_null("TVMFFIObjectIncRef");
  mb_ffi_object_retain(MB_RELEASES_0_21, object);
  return 0;
}

static int release_old(void *object) {
  mb_ffi_object_release(MB_RELEASES_0_21, object);
  return 0;
}

static int create_opaque(void *handle, int32_t type, void (*deleter)(void *handle), void **out) {
  if (!out) return mb_error_null("TVMFFIObjectCreateOpaque");
  *out = NULL;
  if (type < MB_ANY_OBJECT || (type > MB_ANY_OBJECT && type <= MB_ANY_MODULE) ||
      (type > MB_ANY_OPAQUE && type <= MB_ANY_BIG_INT)) {
    (void)mb_fail(
        MBLOB_E_ARGUMENT,
        "TVMFFIObjectCreateOpaque: objects of type %d have a content of their own, expected %d, %d, or %d and more",
        (int)type, MB_ANY_OBJECT, MB_ANY_OPAQUE, MB_ANY_BIG_INT + 1);
    return mb_error_raise_last();
  }
  *out = mb_object_new(RELEASES, type, sizeof(void *));
  if (!*out) return mb_error_raise_last();
  memcpy(mb_object_cell(RELEASES, *out), &handle, sizeof(handle));
  struct mb_record *record = mb_object_record(*out);
  record->owner = handle;
  record->release = deleter;
  return 0;
}

static void get_version(uint32_t out[3]) {
  static const uint32_t version[3] = {0, 1, 15}; /* of the interface that is served here */
  if (out) memcpy(out, version, sizeof(version));
}

/* ---- values ---------------------------------------------------------------------------------- */

static int to_text(const struct mb_text *from, struct mb_any *out, bool is_text) {
  if (!from || !out || (from->size && !from->data))
    return mb_error_null(is_text ? "TVMFFIStringFromByteArray" : "TVMFFIBytesFromByteArray");
  *out = (struct mb_any){.type = MB_ANY_NONE};
  return mb_any_set_text(RELEASES, out, is_text, from->data, from->size) ? mb_error_raise_last()
                                                                         : 0;
}

static int string_from_bytes(const struct mb_text *from, struct mb_any *out) {
  return to_text(from, out, true);
}
static int bytes_from_bytes(const struct mb_text *from, struct mb_any *out) {
  return to_text(from, out, false);
}

static int to_owned(const struct mb_any *view, struct mb_any *out) {
  if (!view || !out) return mb_error_null("TVMFFIAnyViewToOwnedAny");
  return mb_any_own(view, out) ? mb_error_raise_last() : 0;
}

/* ---- functions ------------------------------------------------------------------------------- */

static int call_function(void *function, const struct mb_any *args, int32_t count,
                         struct mb_any *result) {
  const mb_safe_call builtin = mb_builtin_of(RELEASES, function);
  return builtin ? builtin(function, args, count, result)
                 : mb_object_call(RELEASES, function, args, count, result);
}

static int call_function_old(void *function, const struct mb_any *args, int32_t count,
                             struct mb_any *result) {
  const mb_safe_call builtin = mb_builtin_of(MB_RELEASES_0_21, function);
  return builtin ? builtin(function, args, count, result)
                 : mb_object_call(MB_RELEASES_0_21, function, args, count, result);
}

static int create_function(void *self, mb_safe_call call, void (*deleter)(void *self), void **out) {
  if (!call || !out) return mb_error_null("TVMFFIFunctionCreate");
  *out = mb_object_of_callback(self, call, deleter);
  return *out ? 0 : mb_error_raise_last();
}

/* Names come with a length. */
static char *name_of(const struct mb_text *name, const char *function) {
  char *copy = name && name->data ? strndup(name->data, name->size) : NULL;
  if (!name || !name->data)
    (void)mb_error_null(function);
  else if (!copy)
    (void)mb_fail_memory(name->size);
  return copy;
}

static int get_global(const struct mb_text *name, void **out) {
  const mblob_host *host = mb_plugin_host();
  if (!out) return mb_error_null("TVMFFIFunctionGetGlobal");
  char *copy = name_of(name, "TVMFFIFunctionGetGlobal");
  mblob_function *function = NULL;
  *out = NULL;
  if (!copy) return mb_error_raise_last();
  int status = host->global_function(copy, &function);
  if (status == MBLOB_E_NOT_FOUND) status = mb_global_of_tvm_ffi(copy, &function);
  free(copy);
  if (status == MBLOB_E_NOT_FOUND) return 0;
  if (!status) *out = mb_object_function(RELEASES, function, true);
  if (function) host->function_release(function);
  return *out ? 0 : mb_error_raise_last();
}

static int set_global(const struct mb_text *name, void *function, int allow_override) {
  union {
    void *address;
    int (*call)(const char *name, TVMFunctionHandle f, int override);
  } set = {mb_plugin_host()->symbol("TVMFuncRegisterGlobal")};
  if (!function) return mb_error_null("TVMFFIFunctionSetGlobal");
  char *copy = name_of(name, "TVMFFIFunctionSetGlobal");
  if (!copy) return mb_error_raise_last();
  const struct mb_any any = {.type = MB_ANY_FUNCTION, .u.pointer = function};
  struct mb_place place;
  TVMValue value;
  int code;
  int rc = mb_value_of_any(RELEASES, &any, &value, &code, &place) || !set.address ||
                   set.call(copy, value.v_handle, allow_override)
               ? -1
               : 0;
  mb_place_release(&place);
  free(copy);
  return rc ? mb_error_raise_last() : 0;
}

/* What a method says about itself is kept with its class; a global function has its name alone. */
static int set_global_method(const struct mb_method_info *info, int allow_override) {
  if (!info || info->method.type != MB_ANY_FUNCTION)
    return mb_error_null("TVMFFIFunctionSetGlobalFromMethodInfo");
  const int rc = set_global(&info->name, info->method.u.pointer, allow_override);
  return rc ? rc : mb_global_describe(info);
}

/* ---- surroundings ---------------------------------------------------------------------------- */

static int find_function(void *library, const char *name, void **out) {
  return mb_find_function(RELEASES, library, name, out);
}

static int find_function_old(void *library, const char *name, void **out) {
  return mb_find_function(MB_RELEASES_0_21, library, name, out);
}

static int check_signals(void) { return 0; } /* Python looks at its signals when the call is over */

static int register_name(const char *name, void *address) {
  union {
    void *address;
    int (*call)(const char *name, void *address);
  } announce = {mb_plugin_host()->symbol("TVMBackendRegisterSystemLibSymbol")};
  return !announce.address || announce.call(name, address) ? mb_error_raise_last() : 0;
}

/* The stream of a device that this thread was given last; compiled kernels ask for it before
 * they launch. */
static __thread struct {
  int32_t type, id;
  void *stream;
} given_stream;

static void *get_stream(int32_t type, int32_t id) {
  return given_stream.type == type && given_stream.id == id ? given_stream.stream : NULL;
}

static int set_stream(int32_t type, int32_t id, void *stream, void **before) {
  union {
    void *address;
    int (*call)(int device_type, int device_id, void *stream);
  } set = {mb_plugin_host()->symbol("TVMSetStream")};
  if (before) *before = get_stream(type, id);
  if (!set.address || set.call(type, id, stream)) return mb_error_raise_last();
  given_stream.type = type;
  given_stream.id = id;
  given_stream.stream = stream;
  return 0;
}

/* ---- registers of compiled executables: arrays of values ------------------------------------- */

static int any_list_reset(struct mb_any *list, int index) {
  mb_any_release(RELEASES, &list[index]);
  return 0;
}

static int any_list_reset_old(struct mb_any *list, int index) {
  mb_any_release(MB_RELEASES_0_21, &list[index]);
  return 0;
}

static int any_list_argument(struct mb_any *list, int index, struct mb_any *args, int at) {
  args[at] = list[index]; /* borrowed */
  return 0;
}

/* The result is moved: what called left it to us. Its fields were just written, so they are read
 * one by one: the two as one number would have to wait for the memory. */
static int move_result(enum mb_releases releases, struct mb_any *item, struct mb_any *result) {
  const struct mb_any before = *item;
  item->type = *(volatile int32_t *)&result->type;
  item->size = *(volatile uint32_t *)&result->size;
  item->u = result->u;
  *result = (struct mb_any){.type = MB_ANY_NONE};
  if (before.type >= MB_ANY_OBJECT) mb_ffi_object_release(releases, before.u.pointer);
  return item->type >= MB_ANY_OBJECT && mb_any_align(releases, item) ? mb_error_raise_last() : 0;
}

static int any_list_result(struct mb_any *list, int index, struct mb_any *args, int at) {
  return move_result(RELEASES, &list[index], &args[at]);
}

static int any_list_result_old(struct mb_any *list, int index, struct mb_any *args, int at) {
  return move_result(MB_RELEASES_0_21, &list[index], &args[at]);
}

/* ---- names ----------------------------------------------------------------------------------- */

#define NAMES_OF_0_22(NAME)                                               \
  NAME(TVMBackendAnyListMoveFromPackedReturn, any_list_result)            \
  NAME(TVMBackendAnyListResetItem, any_list_reset)                        \
  NAME(TVMBackendAnyListSetPackedArg, any_list_argument)                  \
  NAME(TVMBackendGetFuncFromEnv, find_function)                           \
  NAME(TVMBackendParallelLaunch, mb_ffi_parallel_launch)                  \
  NAME(TVMFFIAnyViewToOwnedAny, to_owned)                                 \
  NAME(TVMFFIBacktrace, mb_type_backtrace)                                \
  NAME(TVMFFIBigIntFromByteArray, mb_big_int_from_words)                  \
  NAME(TVMFFIBigIntGetContentByteArray, mb_big_int_words)                 \
  NAME(TVMFFIBytesFromByteArray, bytes_from_bytes)                        \
  NAME(TVMFFIDataTypeFromString, mb_dtype_from_text)                      \
  NAME(TVMFFIDataTypeToString, mb_dtype_to_text)                          \
  NAME(TVMFFIEnvCheckSignals, check_signals)                              \
  NAME(TVMFFIEnvGetDLPackManagedTensorAllocator, mb_tensor_get_allocator) \
  NAME(TVMFFIEnvGetStream, get_stream)                                    \
  NAME(TVMFFIEnvModLookupFromImports, find_function)                      \
  NAME(TVMFFIEnvModRegisterContextSymbol, mb_register_context_symbol)     \
  NAME(TVMFFIEnvModRegisterSystemLibSymbol, register_name)                \
  NAME(TVMFFIEnvRegisterCAPI, mb_register_c_api)                          \
  NAME(TVMFFIEnvSetDLPackManagedTensorAllocator, mb_tensor_set_allocator) \
  NAME(TVMFFIEnvSetStream, set_stream)                                    \
  NAME(TVMFFIEnvTensorAlloc, mb_tensor_allocate)                          \
  NAME(TVMFFIErrorCreate, create_error)                                   \
  NAME(TVMFFIErrorCreateWithCauseAndExtraContext, create_error_with)      \
  NAME(TVMFFIErrorMoveFromRaised, move_from_raised)                       \
  NAME(TVMFFIErrorSetRaised, set_raised)                                  \
  NAME(TVMFFIErrorSetRaisedFromCStr, set_raised_from_text)                \
  NAME(TVMFFIErrorSetRaisedFromCStrParts, set_raised_from_parts)          \
  NAME(TVMFFIFunctionCall, call_function)                                 \
  NAME(TVMFFIFunctionCreate, create_function)                             \
  NAME(TVMFFIFunctionGetGlobal, get_global)                               \
  NAME(TVMFFIFunctionSetGlobal, set_global)                               \
  NAME(TVMFFIFunctionSetGlobalFromMethodInfo, set_global_method)          \
  NAME(TVMFFIGetCustomAllocator, mb_get_allocator)                        \
  NAME(TVMFFIGetTypeAttrColumn, mb_attribute_column)                      \
  NAME(TVMFFIGetTypeInfo, mb_type_get)                                    \
  NAME(TVMFFIGetVersion, get_version)                                     \
  NAME(TVMFFIHandleDeinitOnce, mb_deinit_once)                            \
  NAME(TVMFFIHandleInitOnce, mb_init_once)                                \
  NAME(TVMFFIObjectCreateOpaque, create_opaque)                           \
  NAME(TVMFFIObjectDecRef, release)                                       \
  NAME(TVMFFIObjectIncRef, retain)                                        \
  NAME(TVMFFISetCustomAllocator, mb_set_allocator)                        \
  NAME(TVMFFIStringFromByteArray, string_from_bytes)                      \
  NAME(TVMFFITensorCreateUnsafeView, mb_tensor_view)                      \
  NAME(TVMFFITensorFromDLPack, mb_tensor_from_dlpack)                     \
  NAME(TVMFFITensorFromDLPackVersioned, mb_tensor_from_dlpack_versioned)  \
  NAME(TVMFFITensorToDLPack, mb_tensor_to_dlpack)                         \
  NAME(TVMFFITensorToDLPackVersioned, mb_tensor_to_dlpack_versioned)      \
  NAME(TVMFFITypeGetOrAllocIndex, mb_type_number)                         \
  NAME(TVMFFITypeKeyToIndex, mb_type_index_of)                            \
  NAME(TVMFFITypeRegisterAttr, mb_register_attribute)                     \
  NAME(TVMFFITypeRegisterField, mb_register_field)                        \
  NAME(TVMFFITypeRegisterMetadata, mb_register_metadata)                  \
  NAME(TVMFFITypeRegisterMethod, mb_register_method)

#define NAMES_OF_0_21(NAME)                                        \
  NAME(TVMBackendAnyListMoveFromPackedReturn, any_list_result_old) \
  NAME(TVMBackendAnyListResetItem, any_list_reset_old)             \
  NAME(TVMBackendAnyListSetPackedArg, any_list_argument)           \
  NAME(TVMBackendGetFuncFromEnv, find_function_old)                \
  NAME(TVMBackendParallelLaunch, mb_ffi_parallel_launch)           \
  NAME(TVMFFIErrorSetRaisedFromCStr, set_raised_from_text)         \
  NAME(TVMFFIErrorSetRaisedFromCStrParts, set_raised_from_parts)   \
  NAME(TVMFFIFunctionCall, call_function_old)                      \
  NAME(TVMFFIObjectFree, release_old)                              \
  NAME(TVMFFIObjectIncRef, retain_old)

#define FFI_TEXT(name, function) #name "\0"
#define FFI_ADDRESS(name, function) (mb_code) function,

const char mblob_runtime_names[] =
    MB_NAMES_FOR("ffi") NAMES_OF_0_22(FFI_TEXT) MB_NAMES_FOR("ffi-0.21") NAMES_OF_0_21(FFI_TEXT);
static const mb_code ffi_functions[] = {NULL, NAMES_OF_0_22(FFI_ADDRESS) NULL,
                                        NAMES_OF_0_21(FFI_ADDRESS)};

void *mb_ffi_symbol(int releases, const char *name) {
  return mb_code_of(mblob_runtime_names, releases == MB_RELEASES_0_22 ? "ffi" : "ffi-0.21", name,
                    ffi_functions, sizeof(ffi_functions) / sizeof(*ffi_functions));
}
