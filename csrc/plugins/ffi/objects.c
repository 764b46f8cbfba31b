#include "objects.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

#define ONE_WEAK (UINT64_C(1) << 32)
enum { STRONG = 1, WEAK = 2 };

/* ---- counting -------------------------------------------------------------------------------- */

static void drop_content(void *object) {
  struct mb_record *record = mb_object_record(object);
  if (record->counted) mb_plugin_host()->value_release(record->value, record->code);
  if (record->release) record->release(record->owner);
  if (record->thread && record->spare) mb_block_give(record->spare, record->spare->size);
  record->thread = 0;
  record->counted = false;
  record->release = NULL;
  atomic_store_explicit(&record->generation, 0, memory_order_relaxed);
  record->code = kTVMNullptr;
}

static void release_whole(void *whole) { mb_ffi_object_release(MB_RELEASES_0_22, whole); }
static void release_old_whole(void *whole) { mb_ffi_object_release(MB_RELEASES_0_21, whole); }

/* Leave a part to its array for the next one. Only the array's thread does that, and takes it. */
static bool leave_part(struct mb_record *part) {
  const bool is_part = part->release == release_whole || part->release == release_old_whole;
  struct mb_record *array = is_part ? mb_object_record(part->owner) : NULL;
  if (!MB_BLOCKS_KEPT || !array || array->thread != pthread_self() || array->spare) return false;
  array->spare = part;
  part->release(part->owner);
  return true;
}

static void *object_of(struct mb_destruction *ending) {
  return (char *)ending - offsetof(struct mb_record, ending) + MB_RECORD_SIZE;
}

static void free_object_block(void *self) {
  struct mb_record *record = mb_object_record(self);
  mb_block_give(record, record->size);
}

static void end_both(struct mb_destruction *ending) {
  void *self = object_of(ending);
  drop_content(self);
  free_object_block(self);
}

/* With a weak reference that was added for it. */
static void end_content(struct mb_destruction *ending) {
  struct mb_header *header = object_of(ending);
  drop_content(header);
  if (atomic_fetch_sub_explicit(&header->references, ONE_WEAK, memory_order_acq_rel) >> 32 == 1)
    free_object_block(header);
}

void mb_object_delete(void *self, int flags) {
  struct mb_record *record = mb_object_record(self);
  if (flags == (STRONG | WEAK) && leave_part(record)) return;
  const bool owns = (flags & STRONG) && (record->release || record->counted);
  if (owns && flags & WEAK) {
    mb_destroy(&record->ending, end_both);
  } else if (owns) {
    atomic_fetch_add_explicit(&((struct mb_header *)self)->references, ONE_WEAK,
                              memory_order_relaxed);
    mb_destroy(&record->ending, end_content);
  } else {
    if (flags & STRONG) drop_content(self);
    if (flags & WEAK) free_object_block(self);
  }
}

void mb_object_delete_old(void *self) { mb_object_delete(self, STRONG | WEAK); }

/* All strong references together hold one weak one, which goes with the last of them. Who has the
 * only one of both kinds need not count it down. */
static void release_new(struct mb_header *header) {
  uint64_t before = atomic_load_explicit(&header->references, memory_order_acquire);
  if (before != BOTH_ONE)
    before = atomic_fetch_sub_explicit(&header->references, 1, memory_order_acq_rel);
  if ((uint32_t)before != 1) return;
  if (before == BOTH_ONE) {
    if (header->deleter) header->deleter(header, STRONG | WEAK);
    return;
  }
  if (header->deleter) header->deleter(header, STRONG);
  before = atomic_fetch_sub_explicit(&header->references, ONE_WEAK, memory_order_acq_rel);
  if (before >> 32 == 1 && header->deleter) header->deleter(header, WEAK);
}

void mb_ffi_object_release(enum mb_releases releases, void *object) {
  struct mb_old_header *old = object;
  if (!object) return;
  if (releases == MB_RELEASES_0_22)
    release_new(object);
  else if (atomic_fetch_sub_explicit(&old->references, 1, memory_order_acq_rel) == 1 &&
           old->deleter)
    old->deleter(old);
}

/* ---- making ---------------------------------------------------------------------------------- */

/* Of an object with one reference. */
static void set_header(enum mb_releases releases, void *object, int32_t type) {
  if (releases == MB_RELEASES_0_22) {
    struct mb_header *header = object;
    atomic_init(&header->references, BOTH_ONE);
    header->type = type;
    header->deleter = mb_object_delete;
  } else {
    struct mb_old_header *header = object;
    atomic_init(&header->references, 1);
    header->type = mb_type_of_releases(releases, type);
    header->deleter = mb_object_delete_old;
  }
}

/* With a cell that is not set. */
static void *new_counted(enum mb_releases releases, int32_t type, size_t size) {
  const size_t before = MB_RECORD_SIZE + mb_header_size(releases);
  char *memory = size <= SIZE_MAX - before ? mb_block_take_unset(before + size) : NULL;
  if (!memory) {
    (void)mb_fail_memory(size);
    return NULL;
  }
  *(struct mb_record *)(void *)memory =
      (struct mb_record){.size = before + size, .code = kTVMNullptr};
  set_header(releases, memory + MB_RECORD_SIZE, type);
  return memory + MB_RECORD_SIZE;
}

void *mb_object_new(enum mb_releases releases, int32_t type, size_t size) {
  void *object = new_counted(releases, type, size);
  if (object) memset(mb_object_cell(releases, object), 0, size);
  return object;
}

void *mb_object_text(enum mb_releases releases, int32_t type, const char *data, size_t size) {
  struct mb_text *cell;
  size_t room;
  void *object = NULL;
  if (__builtin_add_overflow(size, sizeof(*cell) + 1, &room))
    (void)mb_fail_memory(size);
  else
    object = mb_object_new(releases, type, room);
  if (!object) return NULL;
  cell = mb_object_cell(releases, object);
  char *copy = (char *)(cell + 1);
  if (size) memcpy(copy, data, size);
  *cell = (struct mb_text){copy, size};
  return object;
}

/* The room of a tensor's object. */
static void *new_tensor(enum mb_releases releases, int32_t ndim, void *owner,
                        void (*release)(void *owner)) {
  const size_t extents = (size_t)ndim * sizeof(int64_t);
  void *object = new_counted(releases, MB_ANY_TENSOR, sizeof(DLTensor) + 2 * extents);
  if (!object) return NULL;
  DLTensor *cell = mb_object_cell(releases, object);
  cell->ndim = ndim;
  cell->shape = (int64_t *)(void *)(cell + 1);
  cell->strides = cell->shape + ndim;
  struct mb_record *record = mb_object_record(object);
  record->owner = owner;
  record->release = release;
  return object;
}

/* The part that was left, if it has as many dimensions: as it was, but for its reference. */
static void *take_part(enum mb_releases releases, int32_t ndim, struct mb_record *array) {
  if (array->thread != pthread_self() || !array->spare) return NULL;
  void *object = (char *)array->spare + MB_RECORD_SIZE;
  if (((const DLTensor *)mb_object_cell(releases, object))->ndim != ndim) return NULL;
  array->spare = NULL;
  set_header(releases, object, MB_ANY_TENSOR);
  return object;
}

void *mb_object_part(enum mb_releases releases, int32_t ndim, void *whole) {
  void *object = take_part(releases, ndim, mb_object_record(whole));
  if (!object)
    object = new_tensor(releases, ndim, whole,
                        releases == MB_RELEASES_0_22 ? release_whole : release_old_whole);
  if (object) mb_ffi_object_retain(releases, whole);
  return object;
}

void *mb_object_tensor(enum mb_releases releases, const DLTensor *tensor, void *owner,
                       void (*release)(void *owner)) {
  const int32_t ndim = tensor->ndim > 0 ? tensor->ndim : 0;
  void *object = new_tensor(releases, ndim, owner, release);
  if (!object) return NULL;
  DLTensor *cell = mb_object_cell(releases, object);
  int64_t *shape = cell->shape, *strides = cell->strides;
  *cell = *tensor;
  cell->shape = shape;
  cell->strides = strides;
  if (ndim) memcpy(shape, tensor->shape, (size_t)ndim * sizeof(*shape));
  mb_fill_strides(tensor, strides);
  return object;
}

void *mb_object_shape(enum mb_releases releases, const int64_t *extents, size_t count) {
  struct mb_shape_cell *cell;
  void *object = mb_object_new(releases, MB_ANY_SHAPE, sizeof(*cell) + count * sizeof(int64_t));
  if (!object) return NULL;
  cell = mb_object_cell(releases, object);
  int64_t *copy = (int64_t *)(void *)(cell + 1);
  if (count) memcpy(copy, extents, count * sizeof(*copy));
  *cell = (struct mb_shape_cell){copy, count};
  return object;
}
