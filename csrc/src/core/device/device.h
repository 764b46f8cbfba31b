/* device.h - kinds of devices: which are known, their names, memory and streams. The host is always
 * there; others come from plug-ins (mblob/plugin.h), which are looked for when a device of their
 * kind is first asked for. */
#ifndef MB_DEVICE_H
#define MB_DEVICE_H

#include <mblob.h>
#include <stdbool.h>

#include "base/base.h"
#include "core/device/array.h"
#include "core/device/host_memory.h"
#include "core/device/workspace.h"

#define MB_DEVICE_KINDS 64 /* DLDeviceType is below; TVM's own are from 32 on */

/* "cuda"; NULL of a type without a name. */
const char *mb_device_name(int device_type);
/* "cuda:0"; "device_type_77:0" of a type without a name. */
#define MB_DEVICE_TEXT 48
const char *mb_device_text(DLDevice device, char text[MB_DEVICE_TEXT]);

/* True if this process can read memory of that kind with its own instructions. */
static inline bool mb_device_is_host(int device_type) {
  return mb_is_device_of(MB_DEVICES_HOST, device_type);
}

/* True if `data` of that kind of memory is a handle: two that differ are memory apart, however
 * close their numbers are. */
static inline bool mb_device_has_handles(int device_type) {
  return mb_is_device_of(MB_DEVICES_OF_HANDLES, device_type);
}

/* True if code for a target of TVM ("llvm", "opencl -device=..") can run here. */
bool mb_device_is_target(const char *target);

/* MBLOB_OK if the device is there, else MBLOB_E_INCOMPATIBLE with what there is. */
int mb_device_check(DLDevice device);
/* The functions of that kind of device: MBLOB_E_INCOMPATIBLE where nothing provides them. They
 * stay for good. */
int mb_device_api(int device_type, const mblob_device_api **out);
/* Add a kind; the one that was registered first counts. The table stays. */
int mb_device_register(const mblob_device_api *api);
/* The registered table of the type, NULL if there is none; nothing is looked for. */
const mblob_device_api *mb_device_registered(int device_type);

/* Memory of any device; `alignment` 0 means that of tensors. A size of 0 gives an address as
 * well. */
int mb_device_allocate(DLDevice device, uint64_t size, uint64_t alignment, void **out);
int mb_device_free(DLDevice device, void *data);
/* Bytes between any two devices; between two kinds other than the host they pass through it. */
int mb_device_copy(const mblob_copy *copy);
/* The bytes of one compact tensor to another of as many (byte_offset counts). */
int mb_device_copy_tensor(const DLTensor *from, const DLTensor *to, uint64_t size, void *stream);

/* Streams, as the kind has them; the host, and kinds without, have the empty one only. NULL: the
 * calling thread's. */
int mb_device_stream_create(DLDevice device, void **out);
int mb_device_stream_free(DLDevice device, void *stream);
int mb_device_set_stream(DLDevice device, void *stream);
/* Wait until the work that was given to the stream is done. */
int mb_device_synchronize(DLDevice device, void *stream);
int mb_device_stream_wait(DLDevice device, void *stream, void *other);
/* The calling thread's device of that kind, for launches. */
int mb_device_set(DLDevice device);
/* DeviceAttrKind: MBLOB_E_NOT_FOUND where the kind is not told. Of the host: that it exists. */
int mb_device_attribute(DLDevice device, int kind, int64_t *number, char *text, size_t size);

#endif
