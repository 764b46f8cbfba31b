/* device.c - tensors in the memory of devices: made, copied and awaited by the runtime. */
#include "call.h"

/* True if a type is in a set of base/device_types.h. */
static bool is_in(uint64_t set, DLDevice device) {
  const int type = (int)device.device_type;
  return type >= 0 && type < 64 && (set >> type & 1);
}

/* What DLPack means by `data` is an address on these; OpenCL's and others' memory has handles of
 * their own, which mean nothing outside the runtime that made them. */
bool call_device_has_addresses(DLDevice device) { return is_in(MB_DEVICES_OF_ADDRESSES, device); }

bool call_device_is_host(DLDevice device) { return is_in(MB_DEVICES_HOST, device); }

static bool raise_last(const char *what) {
  PyObject *nothing =
      PyObject_CallFunction(call_hook.raise_status, "is", mblob_last_error_info()->status, what);
  Py_XDECREF(nothing);
  return false;
}

static void release(void *array) { call_tvm.array_free(array); }

PyObject *call_device_empty(const DLTensor *like) {
  TVMArrayHandle array = NULL;
  int rc;
  Py_BEGIN_ALLOW_THREADS rc = call_tvm.array_alloc(
      like->shape, like->ndim, like->dtype.code, like->dtype.bits, like->dtype.lanes,
      (int)like->device.device_type, like->device.device_id, &array);
  Py_END_ALLOW_THREADS if (rc != 0) {
    (void)raise_last("tensor");
    return NULL;
  }
  PyObject *tensor = call_tensor_over(array, NULL, release, array, false);
  if (tensor == NULL) release(array);
  return tensor;
}

bool call_device_copy(const DLTensor *from, const DLTensor *to) {
  int rc;
  Py_BEGIN_ALLOW_THREADS rc =
      call_tvm.copy_from_to((DLTensor *)(uintptr_t)from, (DLTensor *)(uintptr_t)to, NULL);
  Py_END_ALLOW_THREADS return rc == 0 || raise_last("copy");
}

bool call_device_wait(DLDevice device) {
  int rc;
  if (call_device_is_host(device)) return true;
  Py_BEGIN_ALLOW_THREADS rc = call_tvm.synchronize((int)device.device_type, device.device_id, NULL);
  Py_END_ALLOW_THREADS return rc == 0 || raise_last("synchronize");
}
