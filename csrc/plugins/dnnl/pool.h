/* pool.h - many small allocations that are given back together. */
#ifndef DN_POOL_H
#define DN_POOL_H

#include <stddef.h>

struct dn_block;
struct dn_pool {
  struct dn_block *blocks;
  size_t used, size; /* of the newest block */
};

/* Zeroed, aligned for any object; NULL when memory is out (recorded). */
void *dn_pool_take(struct dn_pool *pool, size_t count, size_t item);
/* A copy of `size` bytes and a NUL behind. */
char *dn_pool_text(struct dn_pool *pool, const void *text, size_t size);
void dn_pool_free(struct dn_pool *pool);

#endif
