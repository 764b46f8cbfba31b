#include "objects.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "common.h"

#define BOTH_ONE ((UINT64_C(1) << 32) | 1)
#define ONE_WEAK (UINT64_C(1) << 32)
enum { STRONG = 1, WEAK = 2 };

struct header {
  _Atomic uint64_t references;
  int32_t type;
  uint32_t padding;
  void (*deleter)(void *self, int flags);
};

struct old_header {
  int32_t type;
  _Atomic int32_t references;
  void (*deleter)(void *self);
};

_Static_assert(sizeof(struct header) == 24 && sizeof(struct old_header) <= 16,
               "the layouts of objects");

/* In front of the header, so that it is aligned as malloc gives it. */
#define RECORD_SIZE ((sizeof(struct mb_record) + 15) & ~(size_t)15)

struct mb_record *mb_object_record(void *object) {
  return (struct mb_record *)(void *)((char *)object - RECORD_SIZE);
}

static size_t header_size(enum mb_releases releases) {
  return releases == MB_RELEASES_0_22 ? sizeof(struct header) : 16;
}

void *mb_object_cell(enum mb_releases releases, const void *object) {
  return (char *)(uintptr_t)object + header_size(releases);
}

int32_t mb_object_type(enum mb_releases releases, const void *object) {
  const struct header *header = object;
  const struct old_header *old = object;
  return releases == MB_RELEASES_0_22 ? header->type : mb_type_of_releases(releases, old->type);
}

/* ---- counting -------------------------------------------------------------------------------- */

static void drop_content(void *object) {
  struct mb_record *record = mb_object_record(object);
  if (record->counted) mb_plugin_host()->value_release(record->value, record->code);
  if (record->release) record->release(record->owner);
  *record = (struct mb_record){.code = kTVMNullptr, .size = record->size};
}

static void delete_object(void *self, int flags) {
  if (flags & STRONG) drop_content(self);
  if (flags & WEAK) {
    struct mb_record *record = mb_object_record(self);
    mb_block_give(record, record->size);
  }
}

static void delete_old_object(void *self) { delete_object(self, STRONG | WEAK); }

bool mb_object_is_own(enum mb_releases releases, const void *object) {
  const struct header *header = object;
  const struct old_header *old = object;
  return releases == MB_RELEASES_0_22 ? header->deleter == delete_object
                                      : old->deleter == delete_old_object;
}

void mb_object_retain(enum mb_releases releases, void *object) {
  struct header *header = object;
  struct old_header *old = object;
  if (releases == MB_RELEASES_0_22)
    atomic_fetch_add_explicit(&header->references, 1, memory_order_relaxed);
  else
    atomic_fetch_add_explicit(&old->references, 1, memory_order_relaxed);
}

bool mb_object_is_sole(void *object) {
  struct header *header = object;
  return atomic_load_explicit(&header->references, memory_order_acquire) == BOTH_ONE;
}

/* All strong references together hold one weak one, which goes with the last of them. */
static void release_new(struct header *header) {
  uint64_t before = atomic_fetch_sub_explicit(&header->references, 1, memory_order_acq_rel);
  if ((uint32_t)before != 1) return;
  if (before == BOTH_ONE) {
    if (header->deleter) header->deleter(header, STRONG | WEAK);
    return;
  }
  if (header->deleter) header->deleter(header, STRONG);
  before = atomic_fetch_sub_explicit(&header->references, ONE_WEAK, memory_order_acq_rel);
  if (before >> 32 == 1 && header->deleter) header->deleter(header, WEAK);
}

void mb_object_release(enum mb_releases releases, void *object) {
  struct old_header *old = object;
  if (!object) return;
  if (releases == MB_RELEASES_0_22)
    release_new(object);
  else if (atomic_fetch_sub_explicit(&old->references, 1, memory_order_acq_rel) == 1 &&
           old->deleter)
    old->deleter(old);
}

/* ---- making ---------------------------------------------------------------------------------- */

void *mb_object_new(enum mb_releases releases, int32_t type, size_t size) {
  size_t whole;
  char *memory = NULL;
  if (!__builtin_add_overflow(size, RECORD_SIZE + header_size(releases), &whole))
    memory = mb_block_take(whole);
  if (!memory) {
    (void)mb_fail_memory(size);
    return NULL;
  }
  struct mb_record *record = (struct mb_record *)(void *)memory; /* zeroed */
  record->code = kTVMNullptr;
  record->size = whole;
  void *object = memory + RECORD_SIZE;
  if (releases == MB_RELEASES_0_22) {
    struct header *header = object;
    atomic_init(&header->references, BOTH_ONE);
    header->type = type;
    header->deleter = delete_object;
  } else {
    struct old_header *header = object;
    atomic_init(&header->references, 1);
    header->type = mb_type_of_releases(releases, type);
    header->deleter = delete_old_object;
  }
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

void *mb_object_function(enum mb_releases releases, mblob_function *function, bool counted) {
  void *object = mb_object_new(releases, MB_ANY_FUNCTION, sizeof(struct mb_function_cell));
  if (!object) return NULL;
  struct mb_record *record = mb_object_record(object);
  record->value.v_handle = function;
  record->code = kTVMPackedFuncHandle;
  record->counted = counted;
  if (counted) mb_plugin_host()->value_retain(record->value, record->code);
  ((struct mb_function_cell *)mb_object_cell(releases, object))->call = mb_own_safe_call(releases);
  return object;
}

mblob_function *mb_object_own_function(enum mb_releases releases, void *object) {
  if (!mb_object_is_own(releases, object)) return NULL;
  struct mb_record *record = mb_object_record(object);
  return record->code == kTVMPackedFuncHandle ? record->value.v_handle : NULL;
}

void *mb_object_tensor(enum mb_releases releases, const DLTensor *tensor, void *owner,
                       void (*release)(void *owner)) {
  size_t ndim = tensor->ndim > 0 ? (size_t)tensor->ndim : 0;
  void *object =
      mb_object_new(releases, MB_ANY_TENSOR, sizeof(DLTensor) + 2 * ndim * sizeof(int64_t));
  if (!object) return NULL;
  DLTensor *cell = mb_object_cell(releases, object);
  int64_t *shape = (int64_t *)(void *)(cell + 1);
  *cell = *tensor;
  cell->shape = shape;
  cell->strides = shape + ndim;
  if (ndim) memcpy(shape, tensor->shape, ndim * sizeof(*shape));
  mb_fill_strides(tensor, cell->strides);
  struct mb_record *record = mb_object_record(object);
  record->owner = owner;
  record->release = release;
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
