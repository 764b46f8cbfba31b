/* Blocks are kept for the next call of the thread: kernels ask for the same sizes again and again. */
#include "workspace.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "error.h"

#define PAGE 4096 /* sizes are rounded up to this, as TVM does, so that similar sizes share a block */

struct block {
  void *data;
  size_t size;
};

struct blocks {
  struct block *items;
  size_t count, capacity;
};

struct pool {
  struct blocks used; /* in order of allocation: kernels free the last one first */
  struct blocks free; /* by size, smallest first */
};

static __thread struct pool pool;
static pthread_key_t cleanup_key;
static pthread_once_t cleanup_once = PTHREAD_ONCE_INIT;

static void release(struct blocks *list) {
  for (size_t i = 0; i < list->count; ++i) free(list->items[i].data);
  free(list->items);
  *list = (struct blocks){0};
}

static void thread_exit(void *p) {
  struct pool *mine = p;
  release(&mine->used);
  release(&mine->free);
}

static void make_key(void) { (void)pthread_key_create(&cleanup_key, thread_exit); }

/* Threads other than the main one free theirs through the key. */
__attribute__((destructor)) static void process_exit(void) { thread_exit(&pool); }

static bool insert(struct blocks *list, size_t at, struct block block) {
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

static struct block take(struct blocks *list, size_t at) {
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

void *mb_workspace_alloc(uint64_t size) {
  if (size > (uint64_t)PTRDIFF_MAX - PAGE) {
    mb_fail(MBLOB_E_MEMORY, "workspace: %llu bytes are more than there can be", (unsigned long long)size);
    return NULL;
  }
  size_t rounded = size ? ((size_t)size + PAGE - 1) / PAGE * PAGE : PAGE;
  (void)pthread_once(&cleanup_once, make_key);
  (void)pthread_setspecific(cleanup_key, &pool);
  struct block block;
  size_t fit = first_fit(&pool.free, rounded);
  if (fit < pool.free.count) {
    block = take(&pool.free, fit);
  } else {
    /* The largest one was too small: it makes room for the one that will serve both sizes. */
    if (pool.free.count) free(take(&pool.free, pool.free.count - 1).data);
    block = (struct block){aligned_alloc(MB_TENSOR_ALIGNMENT, rounded), rounded};
  }
  if (!block.data || !insert(&pool.used, pool.used.count, block)) {
    free(block.data);
    mb_fail(MBLOB_E_MEMORY, "workspace: no %llu bytes of memory", (unsigned long long)rounded);
    return NULL;
  }
  return block.data;
}

int mb_workspace_free(void *data) {
  for (size_t i = pool.used.count; i-- > 0;) {
    if (pool.used.items[i].data != data) continue;
    struct block block = take(&pool.used, i);
    if (!insert(&pool.free, first_fit(&pool.free, block.size), block)) free(block.data);
    return 0;
  }
  mb_fail(MBLOB_E_KERNEL, "workspace: %p was not allocated by this thread, or is freed already", data);
  return -1;
}
