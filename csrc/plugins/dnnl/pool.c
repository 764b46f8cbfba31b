/* pool.c - many small allocations that are given back together: dn_pool of graph.h. */
#include "graph.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

#define BLOCK_SIZE 16384

struct dn_block {
  struct dn_block *next;
  alignas(max_align_t) unsigned char data[];
};

void *dn_pool_take(struct dn_pool *pool, size_t count, size_t item) {
  const size_t step = alignof(max_align_t);
  if (item && count > (SIZE_MAX / 2 - step) / item) {
    (void)mb_fail_memory(SIZE_MAX);
    return NULL;
  }
  size_t size = (count * item + step - 1) / step * step;
  if (!pool->blocks || size > pool->size - pool->used) {
    size_t room = size > BLOCK_SIZE ? size : BLOCK_SIZE;
    struct dn_block *block = calloc(1, sizeof(*block) + room);
    if (!block) {
      (void)mb_fail_memory(room);
      return NULL;
    }
    block->next = pool->blocks;
    pool->blocks = block;
    pool->used = 0;
    pool->size = room;
  }
  void *found = pool->blocks->data + pool->used;
  pool->used += size;
  return found;
}

char *dn_pool_text(struct dn_pool *pool, const void *text, size_t size) {
  char *copy = dn_pool_take(pool, size + 1, 1);
  if (copy && size) memcpy(copy, text, size);
  return copy;
}

void dn_pool_free(struct dn_pool *pool) {
  while (pool->blocks) {
    struct dn_block *next = pool->blocks->next;
    free(pool->blocks);
    pool->blocks = next;
  }
  *pool = (struct dn_pool){0};
}
