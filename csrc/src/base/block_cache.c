#include "base/block_cache.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/locks.h"

#define STEP 64
#define CLASSES 16 /* up to 1 KiB */
#define KEPT 64    /* blocks of a class */

struct cached_block {
  struct cached_block *next;
};

struct cached_blocks {
  struct cached_block *free[CLASSES];
  unsigned char counts[CLASSES];
  bool is_known; /* to at_end */
};

static __thread struct cached_blocks mine;

static void free_blocks(void *blocks) {
  struct cached_blocks *all = blocks;
  for (size_t i = 0; i < CLASSES; i++)
    while (all->free[i]) {
      struct cached_block *block = all->free[i];
      all->free[i] = block->next;
      free(block);
    }
  /* What is given back while the thread ends is freed at once. */
  memset(all->counts, KEPT, sizeof(all->counts));
}

static struct mb_thread_end cache_at_end = MB_THREAD_END(free_blocks);

/* Of the thread that unloads this, or ends the process. */
MB_HANDLER(destructor) static void free_cached_blocks(void) { free_blocks(&mine); }

static size_t class_of(size_t size) { return (size - 1) / STEP; }

/* One that waits, or NULL. */
static struct cached_block *take_kept(size_t size) {
  const size_t class = size ? class_of(size) : 0;
  struct cached_block *block = MB_BLOCKS_KEPT && class < CLASSES ? mine.free[class] : NULL;
  if (!block) return NULL;
  mine.free[class] = block->next;
  mine.counts[class]--;
  return block;
}

/* So large that any other of its class fits. */
static size_t room_of(size_t size) {
  const size_t class = size ? class_of(size) : 0;
  return MB_BLOCKS_KEPT && class < CLASSES ? (class + 1) * STEP : size ? size : 1;
}

void *mb_block_take(size_t size) {
  struct cached_block *block = take_kept(size);
  return block ? memset(block, 0, size) : calloc(1, room_of(size));
}

void *mb_block_take_unset(size_t size) {
  struct cached_block *block = take_kept(size);
  return block ? block : malloc(room_of(size));
}

void mb_block_give(void *memory, size_t size) {
  const size_t class = size ? class_of(size) : 0;
  if (!MB_BLOCKS_KEPT || class >= CLASSES || mine.counts[class] >= KEPT) {
    free(memory);
    return;
  }
  struct cached_block *block = memory;
  block->next = mine.free[class];
  mine.free[class] = block;
  mine.counts[class]++;
  if (mine.is_known) return;
  mine.is_known = true;
  mb_thread_end_set(&cache_at_end, &mine);
}
