#define _GNU_SOURCE
#include "core/device/host_memory.h"

#include <mblob.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/base.h"

enum { UNDECIDED, CHANGING, OF_LIBC, OF_PROGRAM };

static atomic_int allocator_state;
static mblob_allocator own; /* once the state is OF_PROGRAM */

/* OF_LIBC or OF_PROGRAM: the first memory that is asked for decides. */
static int decided(void) {
  int now = atomic_load_explicit(&allocator_state, memory_order_acquire);
  while (now == UNDECIDED || now == CHANGING) {
    if (now == CHANGING)
      (void)sched_yield();
    else if (atomic_compare_exchange_strong(&allocator_state, &now, OF_LIBC))
      return OF_LIBC;
    now = atomic_load_explicit(&allocator_state, memory_order_acquire);
  }
  return now;
}

int mblob_set_allocator(const mblob_allocator *allocator) {
  int before = UNDECIDED;
  if (allocator &&
      mb_check_struct_size("mblob_set_allocator", allocator->struct_size, sizeof(*allocator)))
    return MBLOB_E_ARGUMENT;
  if (!allocator || !allocator->allocate || !allocator->release)
    return mb_fail(MBLOB_E_ARGUMENT, "mblob_set_allocator: allocate and release must not be NULL");
  if (!atomic_compare_exchange_strong(&allocator_state, &before, CHANGING))
    return mb_fail(MBLOB_E_ARGUMENT,
                   "mblob_set_allocator: %s; call it once, before the first tensor is made",
                   before == OF_LIBC ? "memory was given out already" : "there is an allocator");
  own = *allocator;
  atomic_store_explicit(&allocator_state, OF_PROGRAM, memory_order_release);
  return MBLOB_OK;
}

void *mb_host_allocate(size_t size, size_t alignment) {
  size_t rounded = size ? size : 1;
  if (rounded > PTRDIFF_MAX - alignment) return NULL;
  rounded = (rounded + alignment - 1) / alignment * alignment;
  if (decided() == OF_LIBC) return aligned_alloc(alignment, rounded);
  void *memory = own.allocate(own.context, rounded, alignment);
  if ((uintptr_t)memory % alignment == 0) return memory; /* NULL, too */
  own.release(own.context, memory);
  return NULL;
}

void mb_host_release(void *memory) {
  if (!memory) return;
  if (decided() == OF_LIBC)
    free(memory);
  else
    own.release(own.context, memory);
}
