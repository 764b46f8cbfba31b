/* block_cache.h - small blocks of memory that come and go with each call: headers of tensors, containers,
 * frames. A thread keeps a few of each size for the next call. */
#ifndef MB_BLOCK_CACHE_H
#define MB_BLOCK_CACHE_H

#include <stddef.h>

/* 0 where no block waits for the next call: sanitizers see the life of each. */
#ifdef __SANITIZE_ADDRESS__
#define MB_BLOCKS_KEPT 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MB_BLOCKS_KEPT 0
#endif
#endif
#ifndef MB_BLOCKS_KEPT
#define MB_BLOCKS_KEPT 1
#endif

/* Zeroed memory; NULL when it is out (not recorded). */
void *mb_block_take(size_t size);
/* The same, not zeroed. */
void *mb_block_take_unset(size_t size);
/* Give a block back, of the size that it was asked for; from any thread. */
void mb_block_give(void *block, size_t size);

#endif
