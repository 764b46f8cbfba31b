#define _GNU_SOURCE
#include "context.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct cuda_device devices[CUDA_DEVICES];
static _Atomic(struct cuda_device *) started[CUDA_DEVICES];
static struct mb_lock lock = MB_LOCK_INIT;

static _Thread_local int thread_device;
static _Thread_local CUstream thread_streams[CUDA_DEVICES];

int cuda_thread_device(void) { return thread_device; }
void cuda_set_thread_device(int device_id) { thread_device = device_id; }
CUstream cuda_thread_stream(int device_id) { return thread_streams[device_id]; }
void cuda_set_thread_stream(int device_id, CUstream stream) { thread_streams[device_id] = stream; }

int cuda_count(int *out) {
  const struct cuda_driver *driver;
  int status = cuda_driver_open(&driver, out);
  if (*out > CUDA_DEVICES) *out = CUDA_DEVICES;
  return status;
}

/* ---- starting a device ----------------------------------------------------------------------- */

static int refused(const struct cuda_driver *driver, int device_id, CUresult error,
                   const char *what) {
  char text[256];
  cuda_error_text(driver, error, text, sizeof(text));
  return mb_fail(cuda_error_status(error), "cuda:%d: %s: %s", device_id, what, text);
}

static CUresult read_limits(const struct cuda_driver *driver, struct cuda_device *d) {
  const struct {
    int *to, attribute;
  } wanted[] = {
      {&d->compute_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
      {&d->compute_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
      {&d->max_threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
      {&d->max_block[0], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X},
      {&d->max_block[1], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + 1},
      {&d->max_block[2], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + 2},
      {&d->max_grid[0], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X},
      {&d->max_grid[1], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + 1},
      {&d->max_grid[2], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + 2},
      {&d->max_shared, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK},
  };
  for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
    CUresult error = driver->device_attribute(wanted[i].to, wanted[i].attribute, d->handle);
    if (error) return error;
  }
  d->max_shared_opt_in = 0; /* older drivers do not know it: then there is no more than without */
  CUresult error = driver->device_attribute(
      &d->max_shared_opt_in, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, d->handle);
  if (error || d->max_shared_opt_in < d->max_shared) d->max_shared_opt_in = d->max_shared;
  return error == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS : error;
}

static int start_locked(const struct cuda_driver *driver, int device_id) {
  struct cuda_device *d = &devices[device_id];
  if (atomic_load(&started[device_id])) return MBLOB_OK;
  d->id = device_id;
  CUresult error = driver->device_get(&d->handle, device_id);
  if (!error) error = driver->device_name(d->name, (int)sizeof(d->name), d->handle);
  if (!error) error = read_limits(driver, d);
  if (error) return refused(driver, device_id, error, "cannot be asked what it is");
  error = driver->context_retain(&d->context, d->handle);
  if (error) return refused(driver, device_id, error, "gives no context");
  atomic_store_explicit(&started[device_id], d, memory_order_release);
  return MBLOB_OK;
}

int cuda_enter(int device_id, struct cuda_scope *out) {
  *out = (struct cuda_scope){0};
  int count, status = cuda_driver_open(&out->driver, &count);
  if (status) return status;
  if (device_id < 0 || device_id >= count || device_id >= CUDA_DEVICES)
    return count ? mb_fail(MBLOB_E_INCOMPATIBLE, MB_TEXT_NO_DEVICE, "cuda", device_id, count)
                 : mb_fail(MBLOB_E_INCOMPATIBLE,
                           "cuda: the driver finds no device on this machine (also told where "
                           "CUDA_VISIBLE_DEVICES hides them)");
  out->device = atomic_load_explicit(&started[device_id], memory_order_acquire);
  if (!out->device) {
    mb_lock(&lock);
    status = start_locked(out->driver, device_id);
    mb_unlock(&lock);
    if (status) return status;
    out->device = &devices[device_id];
  }
  CUcontext current = NULL;
  CUresult error = out->driver->context_current(&current);
  if (!error && current == out->device->context) return MBLOB_OK;
  if (!error) error = out->driver->context_push(out->device->context);
  if (error) return refused(out->driver, device_id, error, "its context cannot be made current");
  out->pushed = true;
  return MBLOB_OK;
}

void cuda_leave(struct cuda_scope *scope) {
  CUcontext popped;
  if (scope->pushed)
    (void)scope->driver->context_pop(&popped); /* it is ours: nothing can be wrong with it */
  scope->pushed = false;
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void note_loss(struct cuda_device *device, const char *text) {
  mb_lock(&lock);
  if (!atomic_load(&device->lost)) {
    (void)snprintf(device->lost_by, sizeof(device->lost_by), "%s", text);
    atomic_store_explicit(&device->lost, true, memory_order_release);
  }
  mb_unlock(&lock);
}

int cuda_check(const struct cuda_scope *scope, CUresult error, const char *format, ...) {
  if (!error) return MBLOB_OK;
  char what[512], text[256];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(what, sizeof(what), format, args);
  va_end(args);
  cuda_error_text(scope->driver, error, text, sizeof(text));
  struct cuda_device *device = scope->device;
  int status = cuda_error_status(error);
  bool was_lost = atomic_load_explicit(&device->lost, memory_order_acquire);
  if (was_lost)
    return mb_fail(status, "cuda:%d: %s: %s; the device was lost to this process before, by %s",
                   device->id, what, text, device->lost_by);
  if (!cuda_is_sticky(error)) return mb_fail(status, "cuda:%d: %s: %s", device->id, what, text);
  note_loss(device, text);
  return mb_fail(
      status,
      "cuda:%d: %s: %s, in this or in work that was given before; the device and all memory on it are lost to "
      "this process, which must be started anew to use it; everything off the device goes on",
      device->id, what, text);
}

bool cuda_is_gone(const struct cuda_scope *scope, CUresult error) {
  return error == CUDA_ERROR_DEINITIALIZED || error == CUDA_ERROR_CONTEXT_IS_DESTROYED ||
         atomic_load_explicit(&scope->device->lost, memory_order_acquire);
}
