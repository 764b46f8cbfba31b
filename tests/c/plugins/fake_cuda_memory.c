/* Memory, copies, streams and events of the driver's double. */
#define _GNU_SOURCE
#include "fake_cuda_inside.h"

enum { BLOCKS = 256 };

static struct block {
  char *data;
  size_t size;
  int device;
} blocks[BLOCKS];

/* ---- memory ---------------------------------------------------------------------------------- */

static int give(void **out, size_t size, int device) {
  if (!size) return INVALID;
  if (size > S.bytes_free) return NO_MEMORY;
  pthread_mutex_lock(&fake_cuda_lock);
  for (size_t i = 0; i < BLOCKS; i++)
    if (!blocks[i].data) {
      /* Aligned to 256 bytes, as CUDA promises, and never to more. */
      blocks[i] = (struct block){(char *)aligned_alloc(512, (size + 256 + 511) / 512 * 512) + 256,
                                 size, device};
      *out = blocks[i].data;
      S.live_memory++;
      S.bytes_free -= size;
      pthread_mutex_unlock(&fake_cuda_lock);
      return 0;
    }
  abort();
}
static int take(void *data) {
  int result = INVALID;
  pthread_mutex_lock(&fake_cuda_lock);
  for (size_t i = 0; i < BLOCKS; i++)
    if (data && blocks[i].data == data) {
      S.bytes_free += blocks[i].size;
      free(blocks[i].data - 256);
      blocks[i] = (struct block){0};
      S.live_memory--;
      result = 0;
    }
  pthread_mutex_unlock(&fake_cuda_lock);
  return result;
}
/* Whether the bytes lie in memory of that device (-1: of any). */
static int owns(unsigned long long at, size_t size, int device) {
  int found = 0;
  pthread_mutex_lock(&fake_cuda_lock);
  for (size_t i = 0; i < BLOCKS && !found; i++) {
    unsigned long long start_of = (unsigned long long)(size_t)blocks[i].data;
    found = start_of && (device < 0 || blocks[i].device == device) && at >= start_of &&
            at - start_of <= blocks[i].size && size <= blocks[i].size - (size_t)(at - start_of);
  }
  pthread_mutex_unlock(&fake_cuda_lock);
  return found;
}

API int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
  *free_bytes = S.bytes_free, *total = 1 << 20;
  return 0;
}
API int cuMemAlloc_v2(unsigned long long *out, size_t size) {
  void *data = NULL;
  ENTER();
  int error = give(&data, size, fake_cuda_current());
  *out = (unsigned long long)(size_t)data;
  return error;
}
API int cuMemFree_v2(unsigned long long data) {
  ENTER_TO_FREE();
  const int error = take((void *)(size_t)data);
  return result ? result : error;
}
API int cuMemHostAlloc(void **out, size_t size, unsigned flags) {
  ENTER();
  return flags == 1 ? give(out, size, 100) : INVALID;
}
API int cuMemFreeHost(void *data) {
  ENTER_TO_FREE();
  const int error = take(data);
  return result ? result : error;
}
API int cuMemAllocManaged(unsigned long long *out, size_t size, unsigned flags) {
  void *data = NULL;
  ENTER();
  int error = flags == 1 ? give(&data, size, fake_cuda_current()) : INVALID;
  *out = (unsigned long long)(size_t)data;
  return error;
}

static int copy(unsigned long long to, unsigned long long from, size_t size,
                struct stream *stream) {
  if (stream && stream->device != fake_cuda_current()) return BAD_HANDLE;
  memmove((void *)(size_t)to, (const void *)(size_t)from, size);
  return 0;
}
API int cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t size,
                             struct stream *stream) {
  ENTER();
  return owns(to, size, fake_cuda_current())
             ? copy(to, (unsigned long long)(size_t)from, size, stream)
             : INVALID;
}
API int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t size,
                             struct stream *stream) {
  ENTER();
  return owns(from, size, fake_cuda_current())
             ? copy((unsigned long long)(size_t)to, from, size, stream)
             : INVALID;
}
API int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t size,
                             struct stream *stream) {
  ENTER();
  return owns(to, size, fake_cuda_current()) && owns(from, size, fake_cuda_current())
             ? copy(to, from, size, stream)
             : INVALID;
}
API int cuMemcpyAsync(unsigned long long to, unsigned long long from, size_t size,
                      struct stream *stream) {
  ENTER();
  return owns(to, size, -1) || owns(from, size, -1) ? copy(to, from, size, stream) : INVALID;
}
API int cuMemcpyPeerAsync(unsigned long long to, void *to_context, unsigned long long from,
                          void *from_context, size_t size, struct stream *stream) {
  ENTER();
  int a = fake_cuda_device_of(from_context), b = fake_cuda_device_of(to_context);
  return owns(from, size, a) && owns(to, size, b) ? copy(to, from, size, stream) : INVALID;
}

/* ---- streams --------------------------------------------------------------------------------- */

API int cuStreamCreate(struct stream **stream, unsigned flags) {
  ENTER();
  if (flags) return INVALID;
  *stream = new_object(&fake_cuda_objects, sizeof(**stream));
  (*stream)->device = fake_cuda_current();
  fake_cuda_count(&S.live_streams, 1);
  return 0;
}
API int cuStreamDestroy_v2(struct stream *stream) {
  ENTER_TO_FREE();
  forget(&fake_cuda_objects, stream);
  fake_cuda_count(&S.live_streams, -1);
  return result;
}
API int cuStreamSynchronize(struct stream *stream) {
  ENTER();
  if (stream && stream->device != fake_cuda_current()) return BAD_HANDLE;
  pthread_mutex_lock(&fake_cuda_lock);
  S.synchronized++;
  pthread_mutex_unlock(&fake_cuda_lock);
  return 0;
}
API int cuEventCreate(void **event, unsigned flags) {
  ENTER();
  if (flags != 2) return INVALID;
  *event = new_object(&fake_cuda_objects, 1);
  fake_cuda_count(&S.live_events, 1);
  return 0;
}
API int cuEventRecord(void *event, struct stream *stream) {
  (void)event;
  ENTER();
  S.recorded = stream;
  return 0;
}
API int cuStreamWaitEvent(struct stream *stream, void *event, unsigned flags) {
  ENTER();
  S.waiting = stream;
  return event && !flags ? 0 : INVALID;
}
API int cuEventDestroy_v2(void *event) {
  ENTER_TO_FREE();
  forget(&fake_cuda_objects, event);
  fake_cuda_count(&S.live_events, -1);
  return result;
}
