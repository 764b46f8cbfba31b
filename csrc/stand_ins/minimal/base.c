/* For base/block_cache.c: blocks come from malloc, and no thread keeps any. */
#include <stdlib.h>

#include "base/block_cache.h"

void *mb_block_take(size_t size) { return calloc(1, size ? size : 1); }

void *mb_block_take_unset(size_t size) { return malloc(size ? size : 1); }

void mb_block_give(void *memory, size_t size) {
  (void)size;
  free(memory);
}
