/* For core/device/device.c: the host is the only device. */
#include <string.h>

#include "base/base.h"
#include "core/device/device.h"
#include "minimal.h"

int mb_device_check(DLDevice device) {
  if (mb_device_is_host((int)device.device_type)) return MBLOB_OK;
  return mb_fail(MBLOB_E_INCOMPATIBLE, "device type %d: there is none but the cpu" MB_MORE_IN_CORE,
                 (int)device.device_type);
}

int mb_device_allocate(DLDevice device, uint64_t size, uint64_t alignment, void **out) {
  *out = NULL;
  const int status = mb_device_check(device);
  if (status) return status;
  if (alignment < MB_TENSOR_ALIGNMENT) alignment = MB_TENSOR_ALIGNMENT;
  if (size > (uint64_t)PTRDIFF_MAX - alignment) return mb_fail_memory(SIZE_MAX);
  /* a size of 0 has an address of its own */
  *out = mb_host_allocate((size_t)size + 1, (size_t)alignment);
  return *out ? MBLOB_OK : mb_fail_memory((size_t)size);
}

int mb_device_free(DLDevice device, void *data) {
  (void)device;
  mb_host_release(data);
  return MBLOB_OK;
}

int mb_device_copy_tensor(const DLTensor *from, const DLTensor *to, uint64_t size, void *stream) {
  (void)stream;
  int status = mb_device_check(from->device);
  if (!status) status = mb_device_check(to->device);
  if (!status && size)
    memmove((char *)to->data + to->byte_offset, (const char *)from->data + from->byte_offset,
            (size_t)size);
  return status;
}
