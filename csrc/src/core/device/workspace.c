/* Blocks are kept for the next call of the thread: kernels ask for the same sizes again and
 * again. */
#include "core/device/workspace.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/base.h"
#include "core/device/device.h"

#define PAGE \
  4096 /* sizes are rounded up to this, as TVM does, so that similar sizes share a block */

struct block {
  void *data;
  size_t size;
};

struct blocks {
  struct block *items;
  size_t count, capacity;
};

struct pool {
  DLDevice device;
  struct blocks used; /* in order of allocation: kernels free the last one first */
  struct blocks free; /* by size, smallest first */
  struct pool *next;  /* of another device */
};

static __thread struct pool host_pool; /* first of the thread's list */

static bool is_host_device(const struct pool *pool) {
  return mb_device_is_host((int)pool->device.device_type);
}

static void *take_memory(const struct pool *pool, size_t size) {
  void *data = NULL;
  return mb_device_allocate(pool->device, size, MB_TENSOR_ALIGNMENT, &data) ? NULL : data;
}

static void give_memory(const struct pool *pool, void *data) {
  (void)mb_device_free(pool->device, data);
}

static void release_blocks(const struct pool *pool, struct blocks *list) {
  for (size_t i = 0; i < list->count; ++i) give_memory(pool, list->items[i].data);
  free(list->items);
  *list = (struct blocks){0};
}

static void free_workspaces(void *first) {
  struct pool *pool = first, *next;
  for (; pool; pool = next) {
    next = pool->next;
    release_blocks(pool, &pool->used);
    release_blocks(pool, &pool->free);
    if (pool != first) free(pool);
  }
}

static struct mb_thread_end workspaces_at_end = MB_THREAD_END(free_workspaces);

/* Of the thread that unloads this, or ends the process. Drivers may be gone by now: what is on
 * their devices goes with the process. */
MB_HANDLER(destructor) static void free_own_workspaces(void) {
  struct pool *others = host_pool.next;
  host_pool.next = NULL;
  if (host_pool.used.items || host_pool.free.items) free_workspaces(&host_pool);
  while (others) {
    struct pool *pool = others;
    others = pool->next;
    free(pool->used.items);
    free(pool->free.items);
    free(pool);
  }
}

/* The thread's pool for a device; NULL if there is none and none can be made. */
static struct pool *pool_of(DLDevice device, bool make) {
  if (mb_device_is_host((int)device.device_type)) device = (DLDevice){kDLCPU, 0};
  if (!host_pool.device.device_type) {
    host_pool.device = (DLDevice){kDLCPU, 0};
    mb_thread_end_set(&workspaces_at_end, &host_pool);
  }
  struct pool *pool = &host_pool, *last = pool;
  for (; pool; last = pool, pool = pool->next)
    if (pool->device.device_type == device.device_type &&
        pool->device.device_id == device.device_id)
      return pool;
  if (!make || mb_device_check(device)) return NULL;
  pool = calloc(1, sizeof(*pool));
  if (!pool) {
    (void)mb_fail_memory(sizeof(*pool));
    return NULL;
  }
  pool->device = device;
  return last->next = pool;
}

static bool insert_block(struct blocks *list, size_t at, struct block block) {
  if (list->count == list->capacity) {
    size_t capacity = list->capacity ? 2 * list->capacity : 8;
    struct block *items = realloc(list->items, capacity * sizeof(*items));
    if (!items) return false;
    list->items = items;
    list->capacity = capacity;
  }
  for (size_t i = list->count++; i > at; --i) list->items[i] = list->items[i - 1];
  list->items[at] = block;
  return true;
}

static struct block take_block(struct blocks *list, size_t at) {
  struct block found = list->items[at];
  --list->count;
  for (size_t i = at; i < list->count; ++i) list->items[i] = list->items[i + 1];
  return found;
}

/* Place of the smallest block of at least `size` bytes, list->count if there is none. */
static size_t first_fit(const struct blocks *list, size_t size) {
  size_t i = 0;
  while (i < list->count && list->items[i].size < size) ++i;
  return i;
}

void *mb_workspace_alloc(DLDevice device, uint64_t size) {
  if (size > (uint64_t)PTRDIFF_MAX - PAGE) {
    mb_fail(MBLOB_E_MEMORY, "workspace: %llu bytes are more than there can be",
            (unsigned long long)size);
    return NULL;
  }
  size_t rounded = size ? ((size_t)size + PAGE - 1) / PAGE * PAGE : PAGE;
  struct pool *pool = pool_of(device, true);
  if (!pool) return NULL;
  struct block block;
  size_t fit = first_fit(&pool->free, rounded);
  if (fit < pool->free.count) {
    block = take_block(&pool->free, fit);
  } else {
    /* The largest one was too small: it makes room for the one that will serve both sizes. */
    if (pool->free.count) give_memory(pool, take_block(&pool->free, pool->free.count - 1).data);
    block = (struct block){take_memory(pool, rounded), rounded};
  }
  if (block.data && insert_block(&pool->used, pool->used.count, block)) return block.data;
  if (block.data) give_memory(pool, block.data);
  if (!block.data && !is_host_device(pool)) return NULL; /* its runtime has said why */
  mb_fail(MBLOB_E_MEMORY, "workspace: no %llu bytes of memory", (unsigned long long)rounded);
  return NULL;
}

/* TVM throws a C++ exception for memory that is no workspace of the thread, through the C code of
 * the kernel; here it is an error. */
int mb_workspace_free(DLDevice device, void *data) {
  struct pool *pool = pool_of(device, false);
  for (size_t i = pool ? pool->used.count : 0; i-- > 0;) {
    if (pool->used.items[i].data != data) continue;
    struct block block = take_block(&pool->used, i);
    if (!insert_block(&pool->free, first_fit(&pool->free, block.size), block))
      give_memory(pool, block.data);
    return 0;
  }
  mb_fail(MBLOB_E_KERNEL, "workspace: %p was not allocated by this thread, or is freed already",
          data);
  return -1;
}
