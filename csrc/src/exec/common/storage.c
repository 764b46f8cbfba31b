#include "exec/common/storage.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "core/device/device.h"

#define BUCKETS 64
#define UNIT \
  4096 /* bytes; sizes are rounded up to it when they are that large, so that blocks fit more \
          often */

struct vm_pool {
  struct mb_lock lock;
  atomic_size_t references; /* of the machine and of each block in use */
  bool keep;
  size_t times;               /* as many times `most` may wait */
  size_t limit;               /* bytes in use; 0: none */
  size_t used, most, waiting; /* bytes; `most` is the largest `used` so far */
  struct vm_storage *free[BUCKETS];
};

static void free_storage(struct vm_storage *storage) {
  mb_host_release(storage->data);
  free(storage);
}

static void release_pool(struct vm_pool *pool) {
  if (atomic_fetch_sub_explicit(&pool->references, 1, memory_order_acq_rel) != 1) return;
  mb_lock_destroy(&pool->lock);
  free(pool);
}

/* With the lock: blocks that wait go. */
static void drain(struct vm_pool *pool) {
  for (size_t i = 0; i < BUCKETS; i++)
    while (pool->free[i]) {
      struct vm_storage *storage = pool->free[i];
      pool->free[i] = storage->next;
      free_storage(storage);
    }
  pool->waiting = 0;
}

int vm_pool_new(struct vm_pool **out) {
  *out = calloc(1, sizeof(**out));
  if (!*out) return mb_fail_memory(sizeof(**out));
  mb_lock_init(&(*out)->lock);
  atomic_init(&(*out)->references, 1);
  (*out)->keep = true;
  (*out)->times = 1;
  return MBLOB_OK;
}

void vm_pool_keep(struct vm_pool *pool, bool keep) {
  mb_lock(&pool->lock);
  pool->keep = keep;
  if (!keep) drain(pool);
  mb_unlock(&pool->lock);
}

void vm_pool_times(struct vm_pool *pool, size_t times) { pool->times = times; }

void vm_pool_limit(struct vm_pool *pool, size_t limit) {
  mb_lock(&pool->lock);
  pool->limit = limit;
  mb_unlock(&pool->lock);
}

void vm_pool_close(struct vm_pool *pool) {
  if (!pool) return;
  vm_pool_keep(pool, false);
  release_pool(pool);
}

static size_t round_up_size(size_t size, size_t unit) { return (size + unit - 1) / unit * unit; }

static struct vm_storage **bucket_of(struct vm_pool *pool, size_t size) {
  return &pool->free[(size / MB_TENSOR_ALIGNMENT ^ size / UNIT) % BUCKETS];
}

/* With the lock: a block that waits, counted as used. */
static struct vm_storage *take_storage(struct vm_pool *pool, size_t size, size_t alignment) {
  struct vm_storage **link = bucket_of(pool, size);
  while (*link && ((*link)->size != size || (*link)->alignment < alignment)) link = &(*link)->next;
  struct vm_storage *found = *link;
  if (!found) return NULL;
  *link = found->next;
  pool->waiting -= size;
  return found;
}

static struct vm_storage *make_storage(size_t size, size_t alignment) {
  struct vm_storage *storage = malloc(sizeof(*storage));
  char *data = storage ? mb_host_allocate(size, alignment) : NULL;
  if (!data) {
    free(storage);
    return NULL;
  }
  memset(data, 0,
         size); /* a program that reads before it writes must not see what others left there */
  *storage = (struct vm_storage){.data = data, .size = size, .alignment = alignment};
  return storage;
}

/* Count `size` bytes as used. */
static int reserve_blocks(struct vm_pool *pool, size_t size) {
  if (pool->limit && (size > pool->limit || pool->used > pool->limit - size))
    return mb_fail(MBLOB_E_MEMORY,
                   "storage of %zu bytes beside %zu in use is over the limit of %zu", size,
                   pool->used, pool->limit);
  pool->used += size;
  if (pool->used > pool->most) pool->most = pool->used;
  return MBLOB_OK;
}

int vm_storage_new(struct vm_pool *pool, size_t size, size_t alignment, struct vm_storage **out) {
  *out = NULL;
  if (size > PTRDIFF_MAX / 2) return mb_fail_memory(size);
  if (alignment < MB_TENSOR_ALIGNMENT) alignment = MB_TENSOR_ALIGNMENT;
  size = round_up_size(size ? size : 1, size < UNIT ? MB_TENSOR_ALIGNMENT : UNIT);
  mb_lock(&pool->lock);
  int status = reserve_blocks(pool, size);
  if (!status) *out = take_storage(pool, size, alignment);
  if (!status && !*out) *out = make_storage(size, alignment);
  if (!status && !*out) pool->used -= size;
  mb_unlock(&pool->lock);
  if (status || !*out) return status ? status : mb_fail_memory(size);
  atomic_init(&(*out)->references, 1);
  (*out)->pool = pool;
  atomic_fetch_add_explicit(&pool->references, 1, memory_order_relaxed);
  return MBLOB_OK;
}

void vm_storage_retain(struct vm_storage *storage) {
  atomic_fetch_add_explicit(&storage->references, 1, memory_order_relaxed);
}

void vm_storage_release(struct vm_storage *storage) {
  if (atomic_fetch_sub_explicit(&storage->references, 1, memory_order_acq_rel) != 1) return;
  struct vm_pool *pool = storage->pool;
  mb_lock(&pool->lock);
  pool->used -= storage->size;
  const size_t room = pool->most > SIZE_MAX / pool->times ? SIZE_MAX : pool->most * pool->times;
  bool keeps = pool->keep && storage->size <= room && pool->waiting <= room - storage->size;
  if (keeps) {
    struct vm_storage **bucket = bucket_of(pool, storage->size);
    storage->next = *bucket;
    *bucket = storage;
    pool->waiting += storage->size;
  }
  mb_unlock(&pool->lock);
  if (!keeps) free_storage(storage);
  release_pool(pool);
}

static struct vm_pool *(*_Atomic running_pool)(void);

void vm_pool_running(struct vm_pool *(*running)(void)) {
  atomic_store_explicit(&running_pool, running, memory_order_relaxed);
}

static void release_pooled(void *storage) { vm_storage_release(storage); }

int vm_tensor_new(int ndim, const int64_t *shape, DLDataType dtype, DLTensor **out) {
  struct vm_pool *(*running)(void) = atomic_load_explicit(&running_pool, memory_order_relaxed);
  struct vm_pool *pool = running ? running() : NULL;
  struct vm_storage *storage = NULL;
  DLTensor like = {
      .device = {kDLCPU, 0}, .ndim = ndim, .dtype = dtype, .shape = (int64_t *)(uintptr_t)shape};
  size_t size = 0;
  if (!pool) return mb_array_new(like.device, ndim, shape, dtype, out);
  *out = NULL;
  int status = mb_tensor_size(&like, &size);
  if (!status) status = vm_storage_new(pool, size, 0, &storage);
  if (status) return status;
  like.data = storage->data;
  status = mb_array_view(&like, storage, release_pooled, out);
  if (status) vm_storage_release(storage);
  return status;
}
