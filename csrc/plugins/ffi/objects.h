/* objects.h - counted objects of the ffi: made here, and of others in the process (libtvm_ffi).
 *
 * An object starts with its header: from 0.22 on {u64 references (strong in the low half, weak
 * in the high one), i32 type, deleter(self, flags)}, in 0.21 {i32 type, i32 references,
 * deleter(self)}; what its type is about, the cell, follows. Ours have a record in front of the
 * header, which says what of the runtime the object stands for. */
#ifndef MB_FFI_OBJECTS_H
#define MB_FFI_OBJECTS_H

#include <mblob.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "abi.h"
#include "base/base.h"

struct mb_record {
  size_t size;       /* of the block, which the record starts */
  TVMValue value;    /* what of the runtime it stands for */
  int32_t code;      /* kTVMNullptr: nothing */
  bool counted;      /* a reference to the value is the object's */
  bool bare;         /* of an error: its kind was made up here */
  int32_t status;    /* of an error: a mblob_status, 0 if unknown */
  const char *wrong; /* of an error: its code, of the runtime; NULL if unknown */
  union {
    mb_safe_call call;       /* of a function over C code of others: called with `owner` */
    struct mb_record *spare; /* of an array: a part that is not in use, for its thread's next one */
  };
  pthread_t thread; /* of an array: that which made the object */
  union {
    /* Of a function that was looked up by name: what it does on values of the ffi, if it is a
     * builtin that has that (builtins.h), as of that generation of the registry. */
    struct {
      _Atomic(mb_safe_call) native;
      _Atomic uint64_t generation;
    };
    struct mb_destruction ending; /* when nobody has the object any more */
  };
  void *owner;
  void (*release)(void *owner); /* at the end; may be NULL */
};

struct mb_header {
  _Atomic uint64_t references;
  int32_t type;
  uint32_t padding;
  void (*deleter)(void *self, int flags);
};

#define BOTH_ONE ((UINT64_C(1) << 32) | 1) /* reference and weak one */

struct mb_old_header {
  int32_t type;
  _Atomic int32_t references;
  void (*deleter)(void *self);
};

_Static_assert(sizeof(struct mb_header) == 24 && sizeof(struct mb_old_header) <= 16,
               "the layouts of objects");

/* In front of the header, so that it is aligned as malloc gives it. */
#define MB_RECORD_SIZE ((sizeof(struct mb_record) + 15) & ~(size_t)15)

/* Deleters of objects that are made here. */
void mb_object_delete(void *self, int flags);
void mb_object_delete_old(void *self);

/* A new object of `type` with one reference, a zeroed cell of `size` bytes behind the header;
 * NULL when memory is out (recorded). */
void *mb_object_new(enum mb_releases releases, int32_t type, size_t size);
/* Only of objects made here. */
static inline struct mb_record *mb_object_record(void *object) {
  return (struct mb_record *)(void *)((char *)object - MB_RECORD_SIZE);
}

static inline bool mb_object_is_own(enum mb_releases releases, const void *object) {
  const struct mb_header *header = object;
  const struct mb_old_header *old = object;
  return releases == MB_RELEASES_0_22 ? header->deleter == mb_object_delete
                                      : old->deleter == mb_object_delete_old;
}

static inline int32_t mb_ffi_object_type(enum mb_releases releases, const void *object) {
  const struct mb_header *header = object;
  const struct mb_old_header *old = object;
  return releases == MB_RELEASES_0_22 ? header->type : mb_type_of_releases(releases, old->type);
}

static inline size_t mb_header_size(enum mb_releases releases) {
  return releases == MB_RELEASES_0_22 ? sizeof(struct mb_header) : 16;
}

static inline void *mb_object_cell(enum mb_releases releases, const void *object) {
  return (char *)(uintptr_t)object + mb_header_size(releases);
}

static inline void mb_ffi_object_retain(enum mb_releases releases, void *object) {
  struct mb_header *header = object;
  struct mb_old_header *old = object;
  if (releases == MB_RELEASES_0_22)
    atomic_fetch_add_explicit(&header->references, 1, memory_order_relaxed);
  else
    atomic_fetch_add_explicit(&old->references, 1, memory_order_relaxed);
}
/* True if an object has one reference, and no weak one. */
static inline bool mb_object_is_sole(enum mb_releases releases, void *object) {
  struct mb_header *header = object;
  struct mb_old_header *old = object;
  if (releases == MB_RELEASES_0_21)
    return atomic_load_explicit(&old->references, memory_order_acquire) == 1;
  return atomic_load_explicit(&header->references, memory_order_acquire) == BOTH_ONE;
}
void mb_ffi_object_release(enum mb_releases releases, void *object);

/* An object that owns a copy of a text. */
void *mb_object_text(enum mb_releases releases, int32_t type, const char *data, size_t size);
/* Strides of compact rows, or the tensor's own. `out` has room for ndim. */
static inline void mb_fill_strides(const DLTensor *tensor, int64_t *out) {
  uint64_t rows = 1; /* unsigned: the extents of a tensor of others may be anything */
  for (int i = tensor->ndim - 1; i >= 0; i--) {
    out[i] = tensor->strides ? tensor->strides[i] : (int64_t)rows;
    rows *= (uint64_t)tensor->shape[i];
  }
}

/* A tensor in the memory of an array's object, which it keeps: without its fields, but for room for
 * its shape and strides. */
void *mb_object_part(enum mb_releases releases, int32_t ndim, void *whole);
/* A tensor: shape and strides are copied, data is the owner's. On failure the owner stays the
 * caller's. */
void *mb_object_tensor(enum mb_releases releases, const DLTensor *tensor, void *owner,
                       void (*release)(void *owner));
void *mb_object_shape(enum mb_releases releases, const int64_t *extents, size_t count);

/* The function a function object made here stands for, NULL if it is another kind of object. */
static inline mblob_function *mb_object_own_function(enum mb_releases releases, void *object) {
  if (!mb_object_is_own(releases, object)) return NULL;
  struct mb_record *record = mb_object_record(object);
  return record->code == kTVMPackedFuncHandle ? record->value.v_handle : NULL;
}

#endif
