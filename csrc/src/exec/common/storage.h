/* storage.h - memory that virtual machines place tensors in. */
#ifndef MB_STORAGE_H
#define MB_STORAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/base.h"

struct vm_pool;

/* Blocks of memory that tensors are placed in. The pool keeps what was given back for the next
 * request of the same size, as long as all of it is not more than what was in use at once; it
 * may go before its blocks. */
struct vm_storage {
  int32_t device_id; /* of the host's memory, as the program counts it */
  atomic_size_t references;
  struct vm_pool *pool;
  char *data;
  size_t size, alignment;  /* bytes */
  struct vm_storage *next; /* while it waits in the pool */
};

/* Kinds of allocators, as TVM numbers them. */
enum vm_allocator { VM_NAIVE = 1, VM_POOLED = 2 };

/* `keep`: whether blocks wait at all ("pooled", not "naive"). */
int vm_pool_new(struct vm_pool **out);
void vm_pool_keep(struct vm_pool *pool, bool keep);
/* Let `times` as many bytes wait as were in use at once (1): programs whose sizes change on the way
 * find each of them again. Before there is a block. */
void vm_pool_times(struct vm_pool *pool, size_t times);
/* Bytes that may be in use at once; 0: no limit. */
void vm_pool_limit(struct vm_pool *pool, size_t limit);
void vm_pool_close(struct vm_pool *pool);
int vm_storage_new(struct vm_pool *pool, size_t size, size_t alignment, struct vm_storage **out);
void vm_storage_retain(struct vm_storage *storage);
void vm_storage_release(struct vm_storage *storage);

/* Say how to find the pool of the machine that runs on the thread; NULL from it: none runs. */
void vm_pool_running(struct vm_pool *(*running)(void));
/* A tensor of the host: in the pool of the machine that runs on the thread, with memory of its own
 * where none does. */
int vm_tensor_new(int ndim, const int64_t *shape, DLDataType dtype, DLTensor **out);

#endif
