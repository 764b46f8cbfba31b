/* objects.h - counted objects of the ffi: made here, and of others in the process (libtvm_ffi).
 *
 * An object starts with its header: from 0.22 on {u64 references (strong in the low half, weak
 * in the high one), i32 type, deleter(self, flags)}, in 0.21 {i32 type, i32 references,
 * deleter(self)}; what its type is about, the cell, follows. Ours have a record in front of the
 * header, which says what of the runtime the object stands for. */
#ifndef MB_FFI_OBJECTS_H
#define MB_FFI_OBJECTS_H

#include <mblob.h>
#include <stdbool.h>

#include "abi.h"

struct mb_record {
  size_t size;       /* of the block, which the record starts */
  TVMValue value;    /* what of the runtime it stands for */
  int32_t code;      /* kTVMNullptr: nothing */
  bool counted;      /* a reference to the value is the object's */
  bool bare;         /* of an error: its kind was made up here */
  int32_t status;    /* of an error: a mblob_status, 0 if unknown */
  mb_safe_call call; /* of a function over C code of others: called with `owner` */
  void *owner;
  void (*release)(void *owner); /* at the end; may be NULL */
};

/* A new object of `type` with one reference, a zeroed cell of `size` bytes behind the header;
 * NULL when memory is out (recorded). */
void *mb_object_new(enum mb_releases releases, int32_t type, size_t size);
/* Only of objects made here. */
struct mb_record *mb_object_record(void *object);
bool mb_object_is_own(enum mb_releases releases, const void *object);
int32_t mb_object_type(enum mb_releases releases, const void *object);
void *mb_object_cell(enum mb_releases releases, const void *object);
/* Whether an object of 0.22 has one reference, and no weak one. */
bool mb_object_is_sole(void *object);
void mb_object_retain(enum mb_releases releases, void *object);
void mb_object_release(enum mb_releases releases, void *object);

/* An object that owns a copy of a text. */
void *mb_object_text(enum mb_releases releases, int32_t type, const char *data, size_t size);
/* A function over one of the runtime; a reference is taken if `counted`. */
void *mb_object_function(enum mb_releases releases, mblob_function *function, bool counted);
/* A tensor: shape and strides are copied, data is the owner's. On failure the owner stays the
 * caller's. */
void *mb_object_tensor(enum mb_releases releases, const DLTensor *tensor, void *owner,
                       void (*release)(void *owner));
void *mb_object_shape(enum mb_releases releases, const int64_t *extents, size_t count);

/* The function a function object made here stands for, NULL if it is another kind of object. */
mblob_function *mb_object_own_function(enum mb_releases releases, void *object);

#endif
