/* TVM's C API for devices (tvm/runtime/c_runtime_api.h), over device.h. The host's streams are empty: its work is done
 * when a call returns. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>

#include "core/argument.h"
#include "core/device/array.h"
#include "core/device/device.h"
#include "core/device/names.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/tensor_check.h"

static DLDevice device_of(int device_type, int device_id) {
  return (DLDevice){(DLDeviceType)device_type, device_id};
}

/* ---- streams --------------------------------------------------------------------------------- */

int TVMStreamCreate(int device_type, int device_id, TVMStreamHandle *out) {
  if (MB_IS_NULL(out)) return -1;
  return mb_named_result(__func__, mb_device_stream_create(device_of(device_type, device_id), out));
}

int TVMStreamFree(int device_type, int device_id, TVMStreamHandle stream) {
  return mb_named_result(__func__, mb_device_stream_free(device_of(device_type, device_id), stream));
}

int TVMSetStream(int device_type, int device_id, TVMStreamHandle handle) {
  return mb_named_result(__func__, mb_device_set_stream(device_of(device_type, device_id), handle));
}

int TVMSynchronize(int device_type, int device_id, TVMStreamHandle stream) {
  return mb_named_result(__func__, mb_device_synchronize(device_of(device_type, device_id), stream));
}

int TVMStreamStreamSynchronize(int device_type, int device_id, TVMStreamHandle src, TVMStreamHandle dst) {
  return mb_named_result(__func__, mb_device_stream_wait(device_of(device_type, device_id), dst, src));
}

/* ---- memory ---------------------------------------------------------------------------------- */

int TVMDeviceAllocDataSpace(DLDevice dev, size_t nbytes, size_t alignment, DLDataType type_hint,
                            void **out_data) {
  (void)type_hint;
  if (MB_IS_NULL(out_data)) return -1;
  return mb_named_result(__func__, mb_device_allocate(dev, nbytes, alignment, out_data));
}

static int check_scope(DLDevice dev, const char *mem_scope) {
  char name[MB_DEVICE_TEXT];
  int status = mb_device_check(dev);
  if (status || !mem_scope || !*mem_scope || strcmp(mem_scope, "global") == 0) return status;
  return mb_fail(MBLOB_E_INCOMPATIBLE, "%s has no memory scope '%s'; it has: global", mb_device_text(dev, name),
                 mem_scope);
}

int TVMDeviceAllocDataSpaceWithScope(DLDevice dev, int ndim, const int64_t *shape, DLDataType dtype,
                                     const char *mem_scope, void **out_data) {
  size_t size = 0;
  if (MB_IS_NULL(out_data)) return -1;
  *out_data = NULL;
  const DLTensor t = {.device = dev, .ndim = ndim, .dtype = dtype, .shape = (int64_t *)(uintptr_t)shape};
  int status = check_scope(dev, mem_scope);
  if (!status && !mb_dtype_check(dtype.code, dtype.bits, dtype.lanes)) status = MBLOB_E_ARGUMENT;
  if (!status) status = mb_tensor_size(&t, &size);
  if (!status) status = mb_device_allocate(dev, size, 0, out_data);
  return mb_named_result(__func__, status);
}

int TVMDeviceFreeDataSpace(DLDevice dev, void *ptr) { return mb_named_result(__func__, mb_device_free(dev, ptr)); }

int TVMDeviceCopyDataFromTo(DLTensor *from, DLTensor *to, TVMStreamHandle stream) {
  if (MB_IS_NULL(from) || MB_IS_NULL(to)) return -1;
  return mb_named_result(__func__, mb_array_copy(from, to, stream));
}
