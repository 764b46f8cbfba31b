/* TVM's C API for devices (tvm/runtime/c_runtime_api.h), over device.h. The host's streams are empty: its work is done
 * when a call returns. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>

#include "array.h"
#include "device/device.h"
#include "device/names.h"
#include "error.h"

static int fail(int status) { return status ? -1 : 0; }

/* ---- streams --------------------------------------------------------------------------------- */

int TVMStreamCreate(int device_type, int device_id, TVMStreamHandle *out) {
  if (!out) return fail(mb_fail(MBLOB_E_ARGUMENT, "TVMStreamCreate: out is NULL"));
  return fail(mb_device_stream_create((DLDevice){(DLDeviceType)device_type, device_id}, out));
}

int TVMStreamFree(int device_type, int device_id, TVMStreamHandle stream) {
  return fail(mb_device_stream_free((DLDevice){(DLDeviceType)device_type, device_id}, stream));
}

int TVMSetStream(int device_type, int device_id, TVMStreamHandle handle) {
  return fail(mb_device_set_stream((DLDevice){(DLDeviceType)device_type, device_id}, handle));
}

int TVMSynchronize(int device_type, int device_id, TVMStreamHandle stream) {
  return fail(mb_device_synchronize((DLDevice){(DLDeviceType)device_type, device_id}, stream));
}

int TVMStreamStreamSynchronize(int device_type, int device_id, TVMStreamHandle src, TVMStreamHandle dst) {
  return fail(mb_device_stream_wait((DLDevice){(DLDeviceType)device_type, device_id}, dst, src));
}

/* ---- memory ---------------------------------------------------------------------------------- */

int TVMDeviceAllocDataSpace(DLDevice dev, size_t nbytes, size_t alignment, DLDataType type_hint,
                            void **out_data) {
  (void)type_hint;
  if (!out_data) return fail(mb_fail(MBLOB_E_ARGUMENT, "TVMDeviceAllocDataSpace: out_data is NULL"));
  return fail(mb_device_allocate(dev, nbytes, alignment, out_data));
}

int TVMDeviceAllocDataSpaceWithScope(DLDevice dev, int ndim, const int64_t *shape, DLDataType dtype,
                                     const char *mem_scope, void **out_data) {
  size_t size = 0;
  char name[MB_DEVICE_TEXT];
  if (!out_data) return fail(mb_fail(MBLOB_E_ARGUMENT, "TVMDeviceAllocDataSpaceWithScope: out_data is NULL"));
  *out_data = NULL;
  if (mb_device_check(dev)) return -1;
  if (mem_scope && *mem_scope && strcmp(mem_scope, "global") != 0)
    return fail(mb_fail(MBLOB_E_INCOMPATIBLE, "device memory: %s has no memory scope '%s'; it has: global",
                        mb_device_text(dev, name), mem_scope));
  if (ndim < 0 || (ndim && !shape))
    return fail(mb_fail(MBLOB_E_ARGUMENT, "device memory: %d dimensions, or no shape", ndim));
  const DLTensor t = {.device = dev, .ndim = ndim, .dtype = dtype, .shape = (int64_t *)(uintptr_t)shape};
  if (!mb_data_size(&t, &size)) return -1;
  return fail(mb_device_allocate(dev, size, 0, out_data));
}

int TVMDeviceFreeDataSpace(DLDevice dev, void *ptr) { return fail(mb_device_free(dev, ptr)); }

int TVMDeviceCopyDataFromTo(DLTensor *from, DLTensor *to, TVMStreamHandle stream) {
  return TVMArrayCopyFromTo(from, to, stream);
}
