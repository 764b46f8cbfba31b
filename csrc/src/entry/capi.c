/* TVM's C API (tvm/runtime/c_runtime_api.h): what can open something, or look something up; thin
 * over the rooms below. Handles are the same objects: TVMModuleHandle is a mblob_module,
 * TVMFunctionHandle a mblob_function, TVMArrayHandle a DLTensor of core/device/array.h. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_backend_api.h>

#include "base/base.h"
#include "core/call/call.h"
#include "core/library/library.h"
#include "core/loaded/loaded.h"
#include "core/device/device.h"
#include "entry/entry.h"

/* ---- modules and functions ------------------------------------------------------------------- */

static int c_api_result(int status) { return status ? -1 : 0; }

int TVMModLoadFromFile(const char *file_name, const char *format, TVMModuleHandle *out) {
  (void)format; /* the content decides */
  if (MB_IS_NULL(out)) return -1;
  *out = NULL;
  if (MB_IS_NULL(file_name)) return -1;
  mb_enter();
  return c_api_result(mb_open(file_name, (mblob_module **)out));
}

int TVMModImport(TVMModuleHandle mod, TVMModuleHandle dep) {
  if (MB_NO_MODULE(mod) || MB_NO_MODULE(dep)) return -1;
  return c_api_result(mblob_module_import(mod, dep));
}

int TVMModGetFunction(TVMModuleHandle mod, const char *func_name, int query_imports,
                      TVMFunctionHandle *out) {
  mblob_function *function = NULL;
  if (MB_IS_NULL(out)) return -1;
  *out = NULL;
  if (MB_NO_MODULE(mod) || MB_IS_NULL(func_name)) return -1;
  int status =
      mb_module_find(mod, func_name, query_imports ? MB_WITH_IMPORTS : MB_ITSELF, &function);
  *out = status ? NULL : mblob_function_retain(function);
  return c_api_result(status);
}

int TVMModFree(TVMModuleHandle mod) {
  if (mod && MB_NO_MODULE(mod)) return -1;
  mblob_module_release(mod);
  return 0;
}

int TVMFuncFree(TVMFunctionHandle func) {
  if (func && MB_NO_FUNCTION(func)) return -1;
  mblob_function_release(func);
  return 0;
}

int TVMCbArgToReturn(TVMValue *value, int *code) {
  if (MB_IS_NULL(value) || MB_IS_NULL(code)) return -1;
  mb_value_retain(*value, *code);
  return 0;
}

int TVMFuncCreateFromCFunc(TVMPackedCFunc func, void *resource_handle, TVMPackedCFuncFinalizer fin,
                           TVMFunctionHandle *out) {
  mblob_function *function = NULL;
  if (MB_IS_NULL(out)) return -1;
  *out = NULL;
  if (mb_is_null(__func__, "func", (const void *)(uintptr_t)func)) return -1;
  int status = mblob_function_create(func, resource_handle, fin, &function);
  *out = function;
  return c_api_result(status);
}

/* ---- global functions ------------------------------------------------------------------------ */

int TVMFuncRegisterGlobal(const char *name, TVMFunctionHandle f, int override) {
  if (MB_IS_NULL(name) || MB_NO_FUNCTION(f)) return -1;
  mb_enter();
  return c_api_result(mb_global_register(name, f, override != 0));
}

int TVMFuncGetGlobal(const char *name, TVMFunctionHandle *out) {
  mblob_function *function = NULL;
  if (MB_IS_NULL(out)) return -1;
  *out = NULL;
  if (MB_IS_NULL(name)) return -1;
  mb_enter();
  int status = mb_global_get(name, &function);
  *out = function;
  return c_api_result(status);
}

int TVMFuncRemoveGlobal(const char *name) {
  if (MB_IS_NULL(name)) return -1;
  mb_enter();
  return c_api_result(mb_global_remove(name));
}

/* The list that the calling thread got last. */
static __thread const char **listed;
static struct mb_thread_end listed_at_end = MB_THREAD_END(free);

MB_HANDLER(destructor) static void free_listed(void) {
  free(listed);
  listed = NULL;
}

int TVMFuncListGlobalNames(int *out_size, const char ***out_array) {
  const char **names = NULL;
  size_t count = 0;
  if (MB_IS_NULL(out_size) || MB_IS_NULL(out_array)) return -1;
  mb_enter();
  int status = mb_global_names(&names, &count);
  if (status) return c_api_result(status);
  free(listed);
  listed = names;
  mb_thread_end_set(&listed_at_end, listed);
  *out_size = (int)count;
  *out_array = names;
  return 0;
}

/* ---- arrays ---------------------------------------------------------------------------------- */

/* Only other devices than the host may have to be looked for. */
static __attribute__((noinline)) DLDevice known_device(int device_type, int device_id) {
  if (device_type != kDLCPU) mb_enter();
  return (DLDevice){(DLDeviceType)device_type, device_id};
}

int TVMArrayAlloc(const tvm_index_t *shape, int ndim, int dtype_code, int dtype_bits,
                  int dtype_lanes, int device_type, int device_id, TVMArrayHandle *out) {
  const DLDevice device = known_device(device_type, device_id);
  if (MB_IS_NULL(out)) return -1;
  *out = NULL;
  const DLDataType dtype = {(uint8_t)dtype_code, (uint8_t)dtype_bits, (uint16_t)dtype_lanes};
  const bool fits =
      dtype.code == dtype_code && dtype.bits == dtype_bits && dtype.lanes == dtype_lanes;
  if (!fits && !mb_dtype_check(dtype_code, dtype_bits, dtype_lanes))
    return mb_named_result(__func__, MBLOB_E_ARGUMENT);
  return mb_named_result(__func__, mb_array_new(device, ndim, shape, dtype, out));
}

int TVMArrayFree(TVMArrayHandle handle) {
  if (handle) mb_array_release(handle);
  return 0;
}

/* Memory of the caller: `nbytes` bytes of the host, as a tensor to copy from or to. */
static DLTensor host_bytes(const void *data) {
  return (DLTensor){.data = (void *)(uintptr_t)data, .device = {kDLCPU, 0}};
}

int TVMArrayCopyFromBytes(TVMArrayHandle handle, void *data, size_t nbytes) {
  if (MB_IS_NULL(handle) || (nbytes && MB_IS_NULL(data))) return -1;
  const DLTensor host = host_bytes(data);
  return mb_named_result(__func__, mb_array_copy_bytes(handle, nbytes, &host, handle, NULL));
}

int TVMArrayCopyToBytes(TVMArrayHandle handle, void *data, size_t nbytes) {
  if (MB_IS_NULL(handle) || (nbytes && MB_IS_NULL(data))) return -1;
  const DLTensor host = host_bytes(data);
  return mb_named_result(__func__, mb_array_copy_bytes(handle, nbytes, handle, &host, NULL));
}

int TVMArrayCopyFromTo(TVMArrayHandle from, TVMArrayHandle to, TVMStreamHandle stream) {
  if (MB_IS_NULL(from) || MB_IS_NULL(to)) return -1;
  return mb_named_result(__func__, mb_array_copy(from, to, stream));
}

static void release_import(void *owner) { TVMDLManagedTensorCallDeleter(owner); }

int TVMArrayFromDLPack(DLManagedTensor *from, TVMArrayHandle *out) {
  mb_enter();
  size_t size = 0;
  if (MB_IS_NULL(out)) return -1;
  *out = NULL;
  if (MB_IS_NULL(from)) return -1;
  int status = mb_tensor_check(&from->dl_tensor, &size);
  if (!status) status = mb_array_view(&from->dl_tensor, from, release_import, out);
  return mb_named_result(__func__, status);
}

static void release_export(DLManagedTensor *exported) {
  mb_array_release(exported->manager_ctx);
  free(exported);
}

int TVMArrayToDLPack(TVMArrayHandle from, DLManagedTensor **out) {
  if (MB_IS_NULL(out)) return -1;
  *out = NULL;
  if (MB_IS_NULL(from)) return -1;
  *out = calloc(1, sizeof(**out));
  if (!*out) return mb_named_result(__func__, mb_fail_memory(sizeof(**out)));
  **out = (DLManagedTensor){*from, from, release_export};
  mb_array_retain(from);
  return 0;
}

void TVMDLManagedTensorCallDeleter(DLManagedTensor *tensor) {
  if (tensor && tensor->deleter) tensor->deleter(tensor);
}

/* ---- devices: the host's streams are empty, its work is done when a call returns ------------- */

int TVMStreamCreate(int device_type, int device_id, TVMStreamHandle *out) {
  if (MB_IS_NULL(out)) return -1;
  return mb_named_result(__func__,
                         mb_device_stream_create(known_device(device_type, device_id), out));
}

int TVMStreamFree(int device_type, int device_id, TVMStreamHandle stream) {
  return mb_named_result(__func__,
                         mb_device_stream_free(known_device(device_type, device_id), stream));
}

int TVMSetStream(int device_type, int device_id, TVMStreamHandle handle) {
  return mb_named_result(__func__,
                         mb_device_set_stream(known_device(device_type, device_id), handle));
}

int TVMSynchronize(int device_type, int device_id, TVMStreamHandle stream) {
  return mb_named_result(__func__,
                         mb_device_synchronize(known_device(device_type, device_id), stream));
}

int TVMStreamStreamSynchronize(int device_type, int device_id, TVMStreamHandle src,
                               TVMStreamHandle dst) {
  return mb_named_result(__func__,
                         mb_device_stream_wait(known_device(device_type, device_id), dst, src));
}

int TVMDeviceAllocDataSpace(DLDevice dev, size_t nbytes, size_t alignment, DLDataType type_hint,
                            void **out_data) {
  mb_enter();
  (void)type_hint;
  if (MB_IS_NULL(out_data)) return -1;
  return mb_named_result(__func__, mb_device_allocate(dev, nbytes, alignment, out_data));
}

static int check_scope(DLDevice dev, const char *mem_scope) {
  char name[MB_DEVICE_TEXT];
  int status = mb_device_check(dev);
  if (status || !mem_scope || !*mem_scope || strcmp(mem_scope, "global") == 0) return status;
  return mb_fail(MBLOB_E_INCOMPATIBLE, "%s has no memory scope '%s'; it has: global",
                 mb_device_text(dev, name), mem_scope);
}

int TVMDeviceAllocDataSpaceWithScope(DLDevice dev, int ndim, const int64_t *shape, DLDataType dtype,
                                     const char *mem_scope, void **out_data) {
  mb_enter();
  size_t size = 0;
  if (MB_IS_NULL(out_data)) return -1;
  *out_data = NULL;
  const DLTensor t = {
      .device = dev, .ndim = ndim, .dtype = dtype, .shape = (int64_t *)(uintptr_t)shape};
  int status = check_scope(dev, mem_scope);
  if (!status && !mb_dtype_check(dtype.code, dtype.bits, dtype.lanes)) status = MBLOB_E_ARGUMENT;
  if (!status) status = mb_tensor_size(&t, &size);
  if (!status) status = mb_device_allocate(dev, size, 0, out_data);
  return mb_named_result(__func__, status);
}

int TVMDeviceFreeDataSpace(DLDevice dev, void *ptr) {
  return mb_named_result(__func__, mb_device_free(dev, ptr));
}

int TVMDeviceCopyDataFromTo(DLTensor *from, DLTensor *to, TVMStreamHandle stream) {
  mb_enter();
  if (MB_IS_NULL(from) || MB_IS_NULL(to)) return -1;
  return mb_named_result(__func__, mb_array_copy(from, to, stream));
}
