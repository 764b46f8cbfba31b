#include "exec/common/tensors.h"

#include <stdio.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>

#include "base/base.h"
#include "core/device/device.h"
#include "format/format.h"

int mb_tensor_is_on(const char *what, DLDevice device, const DLTensor *given) {
  char want[MB_DEVICE_TEXT], have[MB_DEVICE_TEXT];
  bool host = mb_device_is_host((int)device.device_type);
  if (host && mb_device_is_host((int)given->device.device_type)) return MBLOB_OK;
  if (device.device_type != given->device.device_type ||
      device.device_id != given->device.device_id)
    return mb_fail(MBLOB_E_INCOMPATIBLE,
                   "%s: the tensor is on device %s (type %d), expected %s (type %d)", what,
                   mb_device_text(given->device, have), (int)given->device.device_type,
                   mb_device_text(device, want), (int)device.device_type);
  if (given->byte_offset)
    return mb_fail(MBLOB_E_ARGUMENT,
                   "%s: memory of %s is used from its beginning, found byte_offset %llu", what,
                   mb_device_text(device, want), (unsigned long long)given->byte_offset);
  return MBLOB_OK;
}

int mb_tensor_assign_output(const char *what, DLTensor *to, const DLTensor *from) {
  size_t size = 0;
  int status = mb_tensor_check(to, &size);
  if (status)
    mb_error_prefix(what);
  else
    status = mb_tensor_match(what, from, to);
  return status ? status : mb_device_copy_tensor(from, to, size, NULL);
}

int mb_tensor_assign(const char *what, DLTensor *to, const DLTensor *from) {
  size_t size = 0;
  int status = mb_tensor_check(to, &size);
  if (!status) status = mb_tensor_check(from, &size);
  if (status) {
    mb_error_prefix(what);
    return status;
  }
  status = mb_tensor_match(what, to, from);
  return status ? status : mb_device_copy_tensor(from, to, size, NULL);
}

int mb_tensor_borrow(const char *what, const DLTensor *like, DLTensor *given, bool is_array,
                     DLTensor **out) {
  size_t size = 0;
  int status = mb_tensor_check(given, &size);
  if (status) {
    mb_error_prefix(what);
    return status;
  }
  status = mb_tensor_match(what, like, given);
  if (!status) status = mb_tensor_is_on(what, like->device, given);
  if (status) return status;
  DLTensor view = *given;
  view.dtype = like->dtype; /* as kernels know it */
  bool host = mb_device_is_host((int)given->device.device_type);
  if (host) view.data = (char *)given->data + given->byte_offset;
  view.byte_offset = 0;
  if (host && size && (uintptr_t)view.data % MB_DEFAULT_ALIGNMENT)
    return mb_fail(MBLOB_E_ARGUMENT, "%s: " MB_TEXT_NOT_ALIGNED ", as use without a copy needs",
                   what, MB_DEFAULT_ALIGNMENT);
  status = mb_array_view(&view, is_array ? given : NULL, mb_array_release_owner, out);
  if (!status && is_array) mb_array_retain(given);
  return status;
}
