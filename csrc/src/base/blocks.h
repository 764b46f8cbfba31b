/* blocks.h - small blocks of memory that come and go with each call: headers of tensors, containers,
 * frames. A thread keeps a few of each size for the next call. */
#ifndef MB_BLOCKS_H
#define MB_BLOCKS_H

#include <stddef.h>

/* Zeroed memory; NULL when it is out (not recorded). */
void *mb_block_take(size_t size);
/* Give a block back, of the size that it was asked for; from any thread. */
void mb_block_give(void *block, size_t size);

#endif
