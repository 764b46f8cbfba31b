#define _GNU_SOURCE
#include "cl_memory.h"

#include <stdlib.h>

enum { STAGE = 4 << 20 }; /* bytes that a copy between two devices moves at a time */

int mb_cl_memory_of(const void *pointer, const char *what, struct mb_cl_handle **out) {
  *out = mb_cl_handle_of(MB_CL_MEMORY, pointer);
  if (*out) return MBLOB_OK;
  return mb_fail(MBLOB_E_ARGUMENT, "opencl: %s: %p is no memory of an OpenCL device%s", what,
                 pointer, pointer ? "; it may have been freed, or be memory of the host" : "");
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* `alignment`: compiled kernels get the buffer itself, which is aligned to the device's largest
 * vector type. */
static int allocate(int device_id, uint64_t size, uint64_t alignment, void **out) {
  struct mb_cl_device *d = NULL;
  struct mb_cl_handle *handle = NULL;
  cl_int code = CL_SUCCESS;
  (void)alignment;
  *out = NULL;
  int status = mb_cl_open(device_id, &d);
  if (status) return status;
  if (size > SIZE_MAX || (d->max_allocation && size > d->max_allocation))
    return mb_fail(MBLOB_E_MEMORY,
                   "opencl: %llu bytes on device %d (%s): its buffers have up to %llu bytes",
                   (unsigned long long)size, d->id, d->name, (unsigned long long)d->max_allocation);
  cl_mem buffer =
      mb_cl.clCreateBuffer(d->context, CL_MEM_READ_WRITE, size ? (size_t)size : 1, NULL, &code);
  if (!buffer && !mb_cl.clFinish(d->queue)) /* what was freed goes when the work with it is done */
    buffer =
        mb_cl.clCreateBuffer(d->context, CL_MEM_READ_WRITE, size ? (size_t)size : 1, NULL, &code);
  if (!buffer) return mb_cl_fail(d, code, "allocating %llu bytes", (unsigned long long)size);
  status = mb_cl_handle_new(MB_CL_MEMORY, device_id, buffer, size, &handle);
  if (status) (void)mb_cl.clReleaseMemObject(buffer);
  *out = handle;
  return status;
}

/* OpenCL frees the memory when the commands that use it are done. */
static int free_memory(int device_id, void *data) {
  struct mb_cl_handle *handle = NULL;
  if (mb_cl_gone()) return MBLOB_OK;
  int status = mb_cl_memory_of(data, "freeing", &handle);
  if (status) return status;
  if (handle->device_id != device_id)
    return mb_fail(MBLOB_E_ARGUMENT,
                   "opencl: freeing memory of device %d as if it were of device %d",
                   handle->device_id, device_id);
  cl_mem buffer = mb_cl_handle_end(MB_CL_MEMORY, handle);
  const cl_int code = buffer ? mb_cl.clReleaseMemObject(buffer) : CL_SUCCESS;
  return code ? mb_cl_fail(NULL, code, "freeing memory of device %d", device_id) : MBLOB_OK;
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* One side of a copy that is a device. */
struct side {
  struct mb_cl_device *device;
  cl_command_queue queue;
  cl_mem buffer;
  size_t offset;
};

static int open_side(const void *pointer, uint64_t offset, DLDevice where, const mblob_copy *c,
                     const char *what, struct side *out) {
  struct mb_cl_handle *handle = NULL;
  int status = mb_cl_memory_of(pointer, what, &handle);
  if (status) return status;
  if (handle->device_id != where.device_id)
    return mb_fail(MBLOB_E_ARGUMENT, "opencl: %s: memory of device %d, said to be of device %d",
                   what, handle->device_id, where.device_id);
  if (offset > handle->size || c->size > handle->size - offset)
    return mb_fail(
        MBLOB_E_ARGUMENT, "opencl: %s: %llu bytes at offset %llu of memory of %llu bytes", what,
        (unsigned long long)c->size, (unsigned long long)offset, (unsigned long long)handle->size);
  status = mb_cl_open(handle->device_id, &out->device);
  if (status) return status;
  /* A stream belongs to one device; on the other one the thread's own is meant. */
  const struct mb_cl_handle *stream = c->stream ? mb_cl_handle_of(MB_CL_STREAM, c->stream) : NULL;
  const bool elsewhere = stream && stream->device_id != handle->device_id &&
                         c->from_device.device_type == kDLOpenCL &&
                         c->to_device.device_type == kDLOpenCL;
  out->buffer = handle->object;
  out->offset = (size_t)offset;
  return mb_cl_queue(out->device, elsewhere ? NULL : c->stream, &out->queue);
}

static int read_from(const struct side *s, size_t at, size_t size, void *to) {
  const cl_int code =
      mb_cl.clEnqueueReadBuffer(s->queue, s->buffer, 1, s->offset + at, size, to, 0, NULL, NULL);
  return code ? mb_cl_fail(s->device, code, "copying %zu bytes to the host", size) : MBLOB_OK;
}

static int write_to(const struct side *s, size_t at, size_t size, const void *from) {
  const cl_int code =
      mb_cl.clEnqueueWriteBuffer(s->queue, s->buffer, 1, s->offset + at, size, from, 0, NULL, NULL);
  return code ? mb_cl_fail(s->device, code, "copying %zu bytes from the host", size) : MBLOB_OK;
}

/* Through memory of the host: `stage` bytes at a time. */
static int copy_staged(const struct side *from, const struct side *to, size_t size, size_t stage) {
  void *between = malloc(stage);
  int status = between ? MBLOB_OK : mb_fail_memory(stage);
  for (size_t at = 0; !status && at < size; at += stage) {
    const size_t part = size - at < stage ? size - at : stage;
    status = read_from(from, at, part, between);
    if (!status) status = write_to(to, at, part, between);
  }
  free(between);
  return status;
}

static int copy_within(const struct side *from, const struct side *to, size_t size) {
  cl_event done = NULL;
  const size_t low = from->offset < to->offset ? from->offset : to->offset;
  const size_t high = from->offset < to->offset ? to->offset : from->offset;
  if (from->buffer == to->buffer && high - low < size)
    return copy_staged(from, to, size, size); /* as memmove */
  cl_int code = mb_cl.clEnqueueCopyBuffer(from->queue, from->buffer, to->buffer, from->offset,
                                          to->offset, size, 0, NULL, &done);
  if (!code) code = mb_cl.clWaitForEvents(1, &done);
  if (done) (void)mb_cl.clReleaseEvent(done);
  return code ? mb_cl_fail(from->device, code, "copying %zu bytes", size) : MBLOB_OK;
}

static int copy(const mblob_copy *c) {
  struct side from = {0}, to = {0};
  const bool from_device = c->from_device.device_type == kDLOpenCL,
             to_device = c->to_device.device_type == kDLOpenCL;
  int status = MBLOB_OK;
  if (from_device)
    status = open_side(c->from, c->from_offset, c->from_device, c, "source of a copy", &from);
  if (!status && to_device)
    status = open_side(c->to, c->to_offset, c->to_device, c, "destination of a copy", &to);
  if (status || !c->size) return status;
  const size_t size = (size_t)c->size;
  if (!to_device) return read_from(&from, 0, size, (char *)c->to + c->to_offset);
  if (!from_device) return write_to(&to, 0, size, (const char *)c->from + c->from_offset);
  return from.device == to.device ? copy_within(&from, &to, size)
                                  : copy_staged(&from, &to, size, size < STAGE ? size : STAGE);
}

/* ---- streams --------------------------------------------------------------------------------- */

static _Thread_local int current_device;
static _Thread_local void *chosen[MB_CL_DEVICES]; /* handles of streams, by device */

int mb_cl_current_device(void) { return current_device; }

static int set_device(int device_id) {
  current_device = device_id;
  return MBLOB_OK;
}

static int stream_of(const struct mb_cl_device *d, void *stream, struct mb_cl_handle **out) {
  *out = mb_cl_handle_of(MB_CL_STREAM, stream);
  if (*out && (*out)->device_id == d->id) return MBLOB_OK;
  return mb_fail(MBLOB_E_ARGUMENT, "opencl: %p is no stream of device %d (%s)%s", stream, d->id,
                 d->name, *out ? ", but of another device" : "; it may have been freed");
}

/* NULL is the device's default queue. */
static int queue_of(const struct mb_cl_device *d, void *stream, cl_command_queue *out) {
  struct mb_cl_handle *handle = NULL;
  *out = d->queue;
  if (!stream) return MBLOB_OK;
  int status = stream_of(d, stream, &handle);
  if (!status) *out = handle->object;
  return status;
}

int mb_cl_queue(const struct mb_cl_device *d, void *stream, cl_command_queue *out) {
  return queue_of(d, stream ? stream : chosen[d->id], out);
}

static int stream_create(int device_id, void **out) {
  struct mb_cl_device *d = NULL;
  struct mb_cl_handle *handle = NULL;
  cl_int code = CL_SUCCESS;
  *out = NULL;
  int status = mb_cl_open(device_id, &d);
  if (status) return status;
  cl_command_queue queue = mb_cl.clCreateCommandQueue(d->context, d->device, 0, &code);
  if (!queue) return mb_cl_fail(d, code, MB_TEXT_MAKING_STREAM);
  status = mb_cl_handle_new(MB_CL_STREAM, device_id, queue, 0, &handle);
  if (status) (void)mb_cl.clReleaseCommandQueue(queue);
  *out = handle;
  return status;
}

/* What was given to it is still done: OpenCL releases the queue afterwards. */
static int stream_free(int device_id, void *stream) {
  struct mb_cl_device *d = NULL;
  struct mb_cl_handle *handle = NULL;
  if (!stream || mb_cl_gone()) return MBLOB_OK;
  int status = mb_cl_open(device_id, &d);
  if (!status) status = stream_of(d, stream, &handle);
  if (status) return status;
  if (chosen[device_id] == stream) chosen[device_id] = NULL;
  cl_command_queue queue = mb_cl_handle_end(MB_CL_STREAM, handle);
  const cl_int code = queue ? mb_cl.clReleaseCommandQueue(queue) : CL_SUCCESS;
  return code ? mb_cl_fail(d, code, MB_TEXT_FREEING_STREAM) : MBLOB_OK;
}

static int set_stream(int device_id, void *stream) {
  struct mb_cl_device *d = NULL;
  struct mb_cl_handle *handle = NULL;
  int status = mb_cl_open(device_id, &d);
  if (!status && stream) status = stream_of(d, stream, &handle);
  if (!status) chosen[device_id] = stream;
  return status;
}

static int synchronize(int device_id, void *stream) {
  struct mb_cl_device *d = NULL;
  cl_command_queue queue = NULL;
  int status = mb_cl_open(device_id, &d);
  if (!status) status = mb_cl_queue(d, stream, &queue);
  if (status) return status;
  const cl_int code = mb_cl.clFinish(queue);
  return code ? mb_cl_fail(d, code, "waiting for the work of a stream") : MBLOB_OK;
}

static int stream_wait(int device_id, void *stream, void *other) {
  struct mb_cl_device *d = NULL;
  cl_command_queue waits = NULL, first = NULL;
  cl_event reached = NULL;
  int status = mb_cl_open(device_id, &d);
  if (!status) status = queue_of(d, stream, &waits);
  if (!status) status = queue_of(d, other, &first);
  if (status || waits == first) return status;
  cl_int code = mb_cl.clEnqueueMarkerWithWaitList(first, 0, NULL, &reached);
  if (!code)
    code = mb_cl.clFlush(first); /* or the other queue might wait for what was never sent */
  if (!code) code = mb_cl.clEnqueueBarrierWithWaitList(waits, 1, &reached, NULL);
  if (reached) (void)mb_cl.clReleaseEvent(reached);
  return code ? mb_cl_fail(d, code, "making a stream wait for another") : MBLOB_OK;
}

static void finish(void *queue) { (void)mb_cl.clFinish(queue); }

void mb_cl_finish_all(void) {
  const struct mb_cl_device *d = NULL;
  int count = 0;
  if (mb_cl_count(&count)) return;
  mb_cl_handle_visit(MB_CL_STREAM, finish);
  for (int i = 0; i < count; i++)
    if (!mb_cl_describe(i, &d) && atomic_load(&d->ready)) finish(d->queue);
}

const mblob_device_api mb_cl_device_table = {.device_type = kDLOpenCL,
                                             .name = "opencl",
                                             .count = mb_cl_count,
                                             .attribute = mb_cl_attribute,
                                             .set_device = set_device,
                                             .allocate = allocate,
                                             .free = free_memory,
                                             .copy = copy,
                                             .stream_create = stream_create,
                                             .stream_free = stream_free,
                                             .set_stream = set_stream,
                                             .synchronize = synchronize,
                                             .stream_wait = stream_wait};
