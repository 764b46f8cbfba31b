/* Memory, copies and streams.
 *
 * Order: work of a thread goes to its stream of the device (set_stream), which is CUDA's default
 * one until it chose another. A copy on one device is given to the stream and the call returns;
 * a copy that touches the host or another device has ended when the call returns, because
 * pageable memory may still be read by the driver otherwise, and because other devices do not
 * follow this stream. */
#define _GNU_SOURCE
#include "memory.h"

#include <stdio.h>
#include <string.h>

#include "context.h"

/* ---- memory ---------------------------------------------------------------------------------- */

enum kind { DEVICE = kDLCUDA, PINNED = kDLCUDAHost, MANAGED = kDLCUDAManaged };

static CUresult give(const struct cuda_driver *driver, enum kind kind, size_t size, void **out) {
  CUdeviceptr address = 0;
  CUresult error;
  if (kind == PINNED) return driver->host_allocate(out, size, CU_MEMHOSTALLOC_PORTABLE);
  error = kind == MANAGED ? driver->managed_allocate(&address, size, CU_MEM_ATTACH_GLOBAL)
                          : driver->memory_allocate(&address, size);
  *out = (void *)(uintptr_t)address;
  return error;
}

static CUresult take(const struct cuda_driver *driver, enum kind kind, void *data) {
  return kind == PINNED ? driver->host_free(data)
                        : driver->memory_free((CUdeviceptr)(uintptr_t)data);
}

static int no_memory(const struct cuda_scope *scope, enum kind kind, CUresult error,
                     uint64_t size) {
  size_t left = 0, total = 0;
  static const char *const names[] = {
      [DEVICE] = "memory", [PINNED] = "pinned memory", [MANAGED] = "managed memory"};
  if (error == CUDA_ERROR_OUT_OF_MEMORY && kind != PINNED &&
      !scope->driver->memory_info(&left, &total))
    return cuda_check(scope, error, "%llu bytes of %s (%zu of %zu are free)",
                      (unsigned long long)size, names[kind], left, total);
  return cuda_check(scope, error, "%llu bytes of %s", (unsigned long long)size, names[kind]);
}

static int allocate(enum kind kind, int device_id, uint64_t size, uint64_t alignment, void **out) {
  struct cuda_scope scope;
  *out = NULL;
  int status = cuda_enter(device_id, &scope);
  if (status) return status;
  void *data = NULL;
  CUresult error =
      give(scope.driver, kind, size ? (size_t)size : 1, &data); /* CUDA gives no 0 bytes */
  if (error)
    status = no_memory(&scope, kind, error, size);
  else if (alignment && (uintptr_t)data % alignment) {
    (void)take(scope.driver, kind, data);
    status = mb_fail(MBLOB_E_ARGUMENT,
                     "cuda:%d: memory aligned to %llu bytes cannot be had; CUDA aligns to 256",
                     device_id, (unsigned long long)alignment);
  } else {
    *out = data;
  }
  cuda_leave(&scope);
  return status;
}

static int release(enum kind kind, int device_id, void *data) {
  struct cuda_scope scope;
  int status = cuda_enter(device_id, &scope);
  if (status) return status;
  CUresult error = scope.driver->context_synchronize();
  bool gone = cuda_is_gone(&scope, error);
  if (error && !gone)
    status = cuda_check(&scope, error, "waiting for the work that uses memory to be freed");
  if (!gone && !cuda_is_gone(&scope, CUDA_SUCCESS)) {
    error = take(scope.driver, kind, data);
    if (error && !status) status = cuda_check(&scope, error, "freeing memory at %p", data);
  }
  cuda_leave(&scope);
  return status;
}

#define MEMORY_OF(kind, prefix)                                                                \
  static int prefix##_allocate(int device_id, uint64_t size, uint64_t alignment, void **out) { \
    return allocate(kind, device_id, size, alignment, out);                                    \
  }                                                                                            \
  static int prefix##_free(int device_id, void *data) { return release(kind, device_id, data); }
MEMORY_OF(DEVICE, device)
MEMORY_OF(PINNED, pinned)
MEMORY_OF(MANAGED, managed)

/* ---- copies ---------------------------------------------------------------------------------- */

static bool is_device(DLDevice device) {
  return device.device_type == kDLCUDA || device.device_type == kDLCUDAManaged;
}

/* Let `on` use the memory of `other` directly, where the machine can; CUDA copies through the
 * host otherwise. */
static void enable_peer(const struct cuda_scope *on, int other) {
  uint64_t bit = (uint64_t)1 << other;
  struct cuda_scope there;
  int can = 0;
  if (atomic_fetch_or(&on->device->peers, bit) & bit) return;
  if (cuda_enter(other, &there)) return;
  CUcontext peer = there.device->context;
  bool possible =
      !there.driver->device_can_peer(&can, on->device->handle, there.device->handle) && can;
  cuda_leave(&there);
  if (possible)
    (void)on->driver->context_enable_peer(peer, 0); /* already enabled by others is fine, too */
}

/* From one device to another: wait for those who write the source and read the destination,
 * copy, and wait. */
static int copy_between(const mblob_copy *c, CUdeviceptr from, CUdeviceptr to) {
  struct cuda_scope source, target;
  int status = cuda_enter(c->to_device.device_id, &target);
  if (status) return status;
  CUcontext to_context = target.device->context;
  CUresult error = target.driver->stream_synchronize(cuda_thread_stream(c->to_device.device_id));
  status = cuda_check(&target, error, "waiting for the work before a copy from cuda:%d",
                      c->from_device.device_id);
  cuda_leave(&target);
  if (status) return status;
  status = cuda_enter(c->from_device.device_id, &source);
  if (status) return status;
  CUstream stream = c->stream ? c->stream : cuda_thread_stream(c->from_device.device_id);
  enable_peer(&source, c->to_device.device_id);
  error = source.driver->copy_peer(to, to_context, from, source.device->context, (size_t)c->size,
                                   stream);
  if (!error) error = source.driver->stream_synchronize(stream);
  status = cuda_check(&source, error, "copying %llu bytes to cuda:%d", (unsigned long long)c->size,
                      c->to_device.device_id);
  cuda_leave(&source);
  return status;
}

static int copy(const mblob_copy *c) {
  bool from_device = is_device(c->from_device), to_device = is_device(c->to_device);
  CUdeviceptr from = (CUdeviceptr)(uintptr_t)c->from + c->from_offset,
              to = (CUdeviceptr)(uintptr_t)c->to + c->to_offset;
  bool managed =
      c->from_device.device_type == kDLCUDAManaged || c->to_device.device_type == kDLCUDAManaged;
  if (from_device && to_device && c->from_device.device_id != c->to_device.device_id && !managed)
    return copy_between(c, from, to);
  int device_id = to_device ? c->to_device.device_id : c->from_device.device_id;
  struct cuda_scope scope;
  int status = cuda_enter(device_id, &scope);
  if (status) return status;
  const struct cuda_driver *driver = scope.driver;
  CUstream stream = c->stream ? c->stream : cuda_thread_stream(device_id);
  size_t size = (size_t)c->size;
  bool waits = true;
  CUresult error;
  if (managed || from_device == to_device) {
    error = from_device && !managed ? driver->copy_on_device(to, from, size, stream)
                                    : driver->copy_any(to, from, size, stream);
    waits = managed || !from_device;
  } else if (to_device) {
    error = driver->copy_to_device(to, (const void *)(uintptr_t)from, size, stream);
  } else {
    error = driver->copy_to_host((void *)(uintptr_t)to, from, size, stream);
  }
  if (!error && waits) error = driver->stream_synchronize(stream);
  status = cuda_check(&scope, error, "copying %zu bytes %s", size,
                      from_device && to_device ? "on the device"
                      : to_device              ? "to the device"
                                               : "from the device");
  cuda_leave(&scope);
  return status;
}

/* ---- streams --------------------------------------------------------------------------------- */

static CUstream stream_or_own(int device_id, void *stream) {
  return stream ? stream : cuda_thread_stream(device_id);
}

static int stream_create(int device_id, void **out) {
  struct cuda_scope scope;
  CUstream stream = NULL;
  *out = NULL;
  int status = cuda_enter(device_id, &scope);
  if (status) return status;
  /* Not a "non-blocking" one: it follows the default stream, so mixing both cannot race. */
  CUresult error = scope.driver->stream_create(&stream, CU_STREAM_DEFAULT);
  status = cuda_check(&scope, error, MB_TEXT_MAKING_STREAM);
  if (!status) *out = stream;
  cuda_leave(&scope);
  return status;
}

static int stream_free(int device_id, void *stream) {
  struct cuda_scope scope;
  if (!stream) return MBLOB_OK;
  int status = cuda_enter(device_id, &scope);
  if (status) return status;
  if (cuda_thread_stream(device_id) == stream) cuda_set_thread_stream(device_id, NULL);
  CUresult error = scope.driver->stream_destroy(stream);
  if (!cuda_is_gone(&scope, error)) status = cuda_check(&scope, error, MB_TEXT_FREEING_STREAM);
  cuda_leave(&scope);
  return status;
}

static int set_stream(int device_id, void *stream) {
  int count, status = cuda_count(&count);
  if (status) return status;
  if (device_id < 0 || device_id >= count)
    return mb_fail(MBLOB_E_INCOMPATIBLE, MB_TEXT_NO_DEVICE, "cuda", device_id, count);
  cuda_set_thread_stream(device_id, stream);
  return MBLOB_OK;
}

static int set_device(int device_id) {
  struct cuda_scope scope;
  int status = cuda_enter(device_id, &scope);
  if (status) return status;
  cuda_leave(&scope);
  cuda_set_thread_device(device_id);
  return MBLOB_OK;
}

static int synchronize(int device_id, void *stream) {
  struct cuda_scope scope;
  int status = cuda_enter(device_id, &scope);
  if (status) return status;
  status = cuda_check(&scope, scope.driver->stream_synchronize(stream_or_own(device_id, stream)),
                      MB_TEXT_WAITING_FOR_STREAM);
  cuda_leave(&scope);
  return status;
}

static int stream_wait(int device_id, void *stream, void *other) {
  struct cuda_scope scope;
  CUevent event = NULL;
  int status = cuda_enter(device_id, &scope);
  if (status) return status;
  const struct cuda_driver *driver = scope.driver;
  CUresult error = driver->event_create(&event, CU_EVENT_DISABLE_TIMING);
  if (!error) {
    error = driver->event_record(event, other);
    if (!error) error = driver->stream_wait(stream, event, 0);
    CUresult last =
        driver->event_destroy(event); /* lives on inside the driver until the wait is over */
    if (!error) error = last;
  }
  status = cuda_check(&scope, error, "letting a stream wait for another");
  cuda_leave(&scope);
  return status;
}

/* ---- what a device is ------------------------------------------------------------------------ */

static int number_of(const struct cuda_scope *scope, int attribute, int64_t *out) {
  int value = 0;
  CUresult error = scope->driver->device_attribute(&value, attribute, scope->device->handle);
  *out = value;
  return cuda_check(scope, error, "attribute %d", attribute);
}

static int version_of(const struct cuda_scope *scope, int kind, int64_t *number, char *text,
                      size_t size) {
  int version = 0;
  int status = cuda_check(scope, scope->driver->driver_version(&version), "the driver's version");
  if (kind == MBLOB_DEVICE_API_VERSION)
    *number = version;
  else
    (void)snprintf(text, size, "%d.%d", version / 1000, version % 1000 / 10);
  return status;
}

static int memory_of(const struct cuda_scope *scope, int64_t *number) {
  size_t bytes = 0;
  CUresult error = scope->driver->device_memory(&bytes, scope->device->handle);
  *number = (int64_t)bytes;
  return cuda_check(scope, error, "its memory");
}

static int tell(const struct cuda_scope *scope, int kind, int64_t *number, char *text,
                size_t size) {
  const struct cuda_device *d = scope->device;
  switch (kind) {
    case MBLOB_DEVICE_MAX_THREADS_PER_BLOCK: *number = d->max_threads; return MBLOB_OK;
    case MBLOB_DEVICE_WARP_SIZE: return number_of(scope, CU_DEVICE_ATTRIBUTE_WARP_SIZE, number);
    case MBLOB_DEVICE_MAX_SHARED_MEMORY_PER_BLOCK: *number = d->max_shared; return MBLOB_OK;
    case MBLOB_DEVICE_COMPUTE_VERSION:
      (void)snprintf(text, size, "%d.%d", d->compute_major, d->compute_minor);
      return MBLOB_OK;
    case MBLOB_DEVICE_NAME: (void)snprintf(text, size, "%s", d->name); return MBLOB_OK;
    case MBLOB_DEVICE_MAX_CLOCK_RATE:
      return number_of(scope, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, number);
    case MBLOB_DEVICE_MULTI_PROCESSOR_COUNT:
      return number_of(scope, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, number);
    case MBLOB_DEVICE_MAX_THREAD_DIMENSIONS:
      (void)snprintf(text, size, "[%d, %d, %d]", d->max_block[0], d->max_block[1], d->max_block[2]);
      return MBLOB_OK;
    case MBLOB_DEVICE_API_VERSION:
    case MBLOB_DEVICE_DRIVER_VERSION: return version_of(scope, kind, number, text, size);
    case MBLOB_DEVICE_TOTAL_GLOBAL_MEMORY: return memory_of(scope, number);
    default: return mb_fail(MBLOB_E_NOT_FOUND, "cuda: attribute %d is not known", kind);
  }
}

static int attribute(int device_id, int kind, int64_t *number, char *text, size_t size) {
  struct cuda_scope scope;
  int status = cuda_enter(device_id, &scope);
  if (status) return status;
  status = tell(&scope, kind, number, text, size);
  cuda_leave(&scope);
  return status;
}

#define DEVICE_API(type, text, prefix) \
  {.device_type = type,                \
   .name = text,                       \
   .count = cuda_count,                \
   .attribute = attribute,             \
   .set_device = set_device,           \
   .allocate = prefix##_allocate,      \
   .free = prefix##_free,              \
   .copy = copy,                       \
   .stream_create = stream_create,     \
   .stream_free = stream_free,         \
   .set_stream = set_stream,           \
   .synchronize = synchronize,         \
   .stream_wait = stream_wait}

const mblob_device_api cuda_device_apis[CUDA_DEVICE_APIS] = {
    DEVICE_API(kDLCUDA, "cuda", device),
    DEVICE_API(kDLCUDAHost, "cuda_host", pinned),
    DEVICE_API(kDLCUDAManaged, "cuda_managed", managed),
};
