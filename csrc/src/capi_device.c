/* TVM's C API for devices (tvm/runtime/c_runtime_api.h). The host is the only one: its streams are empty, its
 * work is done when a call returns. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>

#include "array.h"
#include "error.h"
#include "workspace.h"

static int fail(int status) { return status ? -1 : 0; }

static int host_only(int device_type, int device_id) {
  return mb_is_host_memory((DLDevice){(DLDeviceType)device_type, device_id}) ? 0 : -1;
}

/* ---- streams --------------------------------------------------------------------------------- */

int TVMStreamCreate(int device_type, int device_id, TVMStreamHandle *out) {
  if (!out) return fail(mb_fail(MBLOB_E_ARGUMENT, "TVMStreamCreate: out is NULL"));
  *out = NULL;
  return host_only(device_type, device_id);
}

int TVMStreamFree(int device_type, int device_id, TVMStreamHandle stream) {
  (void)stream;
  return host_only(device_type, device_id);
}

int TVMSetStream(int device_type, int device_id, TVMStreamHandle handle) {
  (void)handle;
  return host_only(device_type, device_id);
}

int TVMSynchronize(int device_type, int device_id, TVMStreamHandle stream) {
  (void)stream;
  return host_only(device_type, device_id);
}

int TVMStreamStreamSynchronize(int device_type, int device_id, TVMStreamHandle src, TVMStreamHandle dst) {
  (void)src, (void)dst;
  return host_only(device_type, device_id);
}

/* ---- memory ---------------------------------------------------------------------------------- */

int TVMDeviceAllocDataSpace(DLDevice dev, size_t nbytes, size_t alignment, DLDataType type_hint,
                            void **out_data) {
  (void)type_hint;
  if (!out_data) return fail(mb_fail(MBLOB_E_ARGUMENT, "TVMDeviceAllocDataSpace: out_data is NULL"));
  *out_data = NULL;
  if (!mb_is_host_memory(dev)) return -1;
  if (alignment < MB_TENSOR_ALIGNMENT) alignment = MB_TENSOR_ALIGNMENT;
  if ((alignment & (alignment - 1)) || alignment > PTRDIFF_MAX || nbytes > PTRDIFF_MAX - alignment)
    return fail(mb_fail(MBLOB_E_ARGUMENT, "device memory: %zu bytes aligned to %zu are impossible", nbytes,
                        alignment));
  *out_data = aligned_alloc(alignment, (nbytes + alignment) / alignment * alignment);
  return *out_data ? 0 : fail(mb_fail_memory(nbytes));
}

int TVMDeviceAllocDataSpaceWithScope(DLDevice dev, int ndim, const int64_t *shape, DLDataType dtype,
                                     const char *mem_scope, void **out_data) {
  size_t size = 0;
  if (!out_data) return fail(mb_fail(MBLOB_E_ARGUMENT, "TVMDeviceAllocDataSpaceWithScope: out_data is NULL"));
  *out_data = NULL;
  if (mem_scope && *mem_scope && strcmp(mem_scope, "global") != 0)
    return fail(mb_fail(MBLOB_E_INCOMPATIBLE,
                        "device memory: the host has no memory scope '%s'; it has: global", mem_scope));
  if (ndim < 0 || (ndim && !shape))
    return fail(mb_fail(MBLOB_E_ARGUMENT, "device memory: %d dimensions, or no shape", ndim));
  const DLTensor t = {.device = dev, .ndim = ndim, .dtype = dtype, .shape = (int64_t *)(uintptr_t)shape};
  if (!mb_data_size(&t, &size)) return -1;
  return TVMDeviceAllocDataSpace(dev, size, 0, dtype, out_data);
}

int TVMDeviceFreeDataSpace(DLDevice dev, void *ptr) {
  if (!mb_is_host_memory(dev)) return -1;
  free(ptr);
  return 0;
}

int TVMDeviceCopyDataFromTo(DLTensor *from, DLTensor *to, TVMStreamHandle stream) {
  return TVMArrayCopyFromTo(from, to, stream);
}
