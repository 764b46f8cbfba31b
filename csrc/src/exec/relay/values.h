/* values.h - what registers of the virtual machine hold: arrays, storage, tuples and
 * constructors, closures. All are counted, from any thread. */
#ifndef MB_VM_VALUES_H
#define MB_VM_VALUES_H

#include <mblob.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "exec/common/common.h"

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

#endif
