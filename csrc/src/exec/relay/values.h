/* values.h - what registers of the virtual machine hold: arrays, storage, tuples and
 * constructors, closures. All are counted, from any thread. */
#ifndef MB_VM_VALUES_H
#define MB_VM_VALUES_H

#include <mblob.h>
#include <stdatomic.h>
#include <stdbool.h>

struct vm_pool;
struct vm_storage;
struct vm_compound;

enum vm_kind { VM_NOTHING, VM_ARRAY, VM_STORAGE, VM_ADT, VM_CLOSURE };

struct vm_value {
  enum vm_kind kind;
  union {
    DLTensor *array; /* of array.h */
    struct vm_storage *storage;
    struct vm_compound *compound; /* VM_ADT, VM_CLOSURE */
  } u;
};

/* A constructor with its fields (a tuple: tag 0), or a function with what it captured. */
struct vm_compound {
  atomic_size_t references;
  int64_t tag; /* VM_CLOSURE: index of the function */
  size_t count;
  struct vm_compound *next; /* while it is taken apart */
  struct vm_value fields[];
};

void vm_value_retain(struct vm_value value);
/* Takes apart what nobody holds any more, however deep, without recursion. Leaves nothing in
 * `*value`. */
void vm_value_clear(struct vm_value *value);
/* "an array", for errors. */
const char *vm_kind_name(enum vm_kind kind);

/* Fields are to be filled (they hold nothing yet). A mblob_status. */
int vm_compound_new(int64_t tag, size_t count, struct vm_compound **out);

/* ---- storage (storage.c) --------------------------------------------------------------------- */

/* Blocks of memory that tensors are placed in. The pool keeps what was given back for the next
 * request of the same size, as long as all of it is not more than what was in use at once; it
 * may go before its blocks. */
struct vm_storage {
  atomic_size_t references;
  struct vm_pool *pool;
  char *data;
  size_t size, alignment;  /* bytes */
  struct vm_storage *next; /* while it waits in the pool */
};

/* `keep`: whether blocks wait at all ("pooled", not "naive"). */
int vm_pool_new(struct vm_pool **out);
void vm_pool_keep(struct vm_pool *pool, bool keep);
/* Bytes that may be in use at once; 0: no limit. */
void vm_pool_limit(struct vm_pool *pool, size_t limit);
void vm_pool_close(struct vm_pool *pool);
int vm_storage_new(struct vm_pool *pool, size_t size, size_t alignment, struct vm_storage **out);
void vm_storage_retain(struct vm_storage *storage);
void vm_storage_release(struct vm_storage *storage);

#endif
