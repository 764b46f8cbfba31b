/* aligned.h - tensors for compiled code, which assumes MB_DEFAULT_ALIGNMENT and crashes without it. A
 * tensor that a caller gives, alone or in containers, is replaced by a copy for the length of a
 * call, if it is less aligned; what the code writes to the copy goes back. */
#ifndef MB_ALIGNED_H
#define MB_ALIGNED_H

#include "core/call/object.h"
#include "format/format.h"

/* What was copied for a call; all zero before. */
struct mb_aligned {
  struct mb_aligned_pair *pairs;
  size_t count, room;
  uint32_t *places; /* in `pairs`, from 1, by what was copied */
  size_t place_count;
};

/* True if compiled code can take the value as it is. */
static inline bool mb_value_is_aligned(TVMValue value, int code) {
  if (code == kTVMNDArrayHandle && value.v_handle) {
    const DLTensor *t = value.v_handle;
    return (((uintptr_t)t->data | (uintptr_t)t->byte_offset) & (MB_DEFAULT_ALIGNMENT - 1)) == 0;
  }
  return code != kTVMObjectHandle || !value.v_handle || mb_object_is_aligned(value.v_handle);
}

/* In place of a value that is not aligned another that is, with a reference; the same memory is
 * copied once. `copies` is to be ended, also after an error. A mblob_status. */
int mb_value_align(struct mb_aligned *copies, TVMValue *value, int code);
/* With `write_back`, tensors get what was written to their copies. */
void mb_aligned_end(struct mb_aligned *copies, bool write_back);
/* A value that is kept, taken over, in place of which an aligned one is left; what is written to
 * that goes nowhere else. After an error the value is given back. */
int mb_value_keep_aligned(TVMValue *value, int code);

#endif
