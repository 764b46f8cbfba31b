#define _GNU_SOURCE
#include "cl_handle.h"

#include <stdlib.h>

enum { FIRST = 256, TABLES = 32 }; /* table t has FIRST << t slots */

static _Atomic(struct mb_cl_handle *) tables[TABLES];
static struct mb_lock lock = MB_LOCK_INIT; /* for adding tables and for the list of free slots */
static struct mb_cl_handle *free_slots;

/* Add the next table to the free slots. */
static int grow(void) {
  size_t t = 0;
  while (t < TABLES && atomic_load(&tables[t])) t++;
  const size_t count = (size_t)FIRST << t;
  struct mb_cl_handle *table = t < TABLES ? calloc(count, sizeof(*table)) : NULL;
  if (!table) return mb_fail_memory(count * sizeof(*table));
  for (size_t i = count; i--;) {
    table[i].next_free = free_slots;
    free_slots = &table[i];
  }
  atomic_store_explicit(&tables[t], table, memory_order_release);
  return MBLOB_OK;
}

int mb_cl_handle_new(enum mb_cl_kind kind, int device_id, void *object, uint64_t size,
                     struct mb_cl_handle **out) {
  *out = NULL;
  mb_lock(&lock);
  int status = free_slots ? MBLOB_OK : grow();
  struct mb_cl_handle *handle = free_slots;
  if (!status) free_slots = handle->next_free;
  mb_unlock(&lock);
  if (status) return status;
  handle->device_id = device_id;
  handle->object = object;
  handle->size = size;
  atomic_store_explicit(&handle->kind, kind, memory_order_release);
  *out = handle;
  return MBLOB_OK;
}

struct mb_cl_handle *mb_cl_handle_of(enum mb_cl_kind kind, const void *pointer) {
  const uintptr_t at = (uintptr_t)pointer;
  for (size_t t = 0; t < TABLES; t++) {
    struct mb_cl_handle *table = atomic_load_explicit(&tables[t], memory_order_acquire);
    if (!table) return NULL;
    const uintptr_t from =
        at - (uintptr_t)table; /* wraps, and is too large then, for what is in front of it */
    if (from / sizeof(*table) >= (size_t)FIRST << t) continue;
    struct mb_cl_handle *handle = &table[from / sizeof(*table)];
    const bool is = from % sizeof(*table) == 0 &&
                    atomic_load_explicit(&handle->kind, memory_order_acquire) == kind;
    return is ? handle : NULL;
  }
  return NULL;
}

void *mb_cl_handle_end(enum mb_cl_kind kind, struct mb_cl_handle *handle) {
  uint32_t expected = kind;
  if (!atomic_compare_exchange_strong(&handle->kind, &expected, MB_CL_FREE)) return NULL;
  void *object = handle->object; /* ours alone until the slot is free */
  mb_lock(&lock);
  handle->next_free = free_slots;
  free_slots = handle;
  mb_unlock(&lock);
  return object;
}

void mb_cl_handle_visit(enum mb_cl_kind kind, void (*visit)(void *object)) {
  for (size_t t = 0; t < TABLES; t++) {
    struct mb_cl_handle *table = atomic_load_explicit(&tables[t], memory_order_acquire);
    for (size_t i = 0; table && i < (size_t)FIRST << t; i++)
      if (atomic_load_explicit(&table[i].kind, memory_order_acquire) == kind)
        visit(table[i].object);
  }
}
