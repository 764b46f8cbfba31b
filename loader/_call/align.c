/* align.c - aligned copies of arguments that are less aligned than the kernel assumes, and the way back.
 *
 * Kernels that TVM's LLVM backend made use aligned vector loads; on `a[1:]` they crash. The copy of an array
 * that may be written goes back after the call. The same memory passed twice is one copy, as it was one array.
 * Where a copy overlaps another argument only the bytes that the kernel changed go back, so that an
 * unchanged copy cannot undo what was written through the other one.
 *
 * A read-only array that a kernel may write, as far as anybody knows, is copied too: that it wrote is seen
 * afterwards, instead of a crash or a changed constant. */
#define _GNU_SOURCE
#include "call.h"

#include <stdlib.h>
#include <string.h>

static bool writable(const call_frame *frame, int i) {
  if (frame->slots[i].readonly) return false;
  return frame->parameters == NULL || !frame->parameters[i].is_const;
}

static bool overlaps(const call_slot *a, const call_slot *b) {
  const char *x = a->original, *y = b->original;
  return x < y + b->nbytes && y < x + a->nbytes;
}

/* An earlier argument whose copy is of the same memory, or -1. */
static int earlier_copy(const call_frame *frame, int i) {
  const call_slot *slot = &frame->slots[i];
  for (int j = 0; j < i; ++j) {
    const call_slot *other = &frame->slots[j];
    if (other->copy != NULL && other->original == slot->original && other->nbytes == slot->nbytes) return j;
  }
  return -1;
}

/* Whether a copy overlaps memory that another argument reaches directly or through a copy of its own. */
static bool needs_snapshot(const call_frame *frame, int i) {
  const call_slot *slot = &frame->slots[i];
  for (int j = 0; j < frame->count; ++j) {
    const call_slot *other = &frame->slots[j];
    if (j == i || !other->is_tensor || other->copy == slot->copy || other->nbytes == 0) continue;
    if (overlaps(slot, other)) return true;
  }
  return false;
}

static void *aligned_copy(const void *data, size_t size, size_t alignment) {
  void *memory = NULL;
  if (alignment < 64) alignment = 64;
  if (posix_memalign(&memory, alignment, size) != 0) return NULL;
  memcpy(memory, data, size);
  return memory;
}

static bool copy_one(call_frame *frame, int i) {
  call_slot *slot = &frame->slots[i];
  int j = earlier_copy(frame, i);
  if (j >= 0) {
    slot->copy = frame->slots[j].copy;
    slot->shared = true;
    return true;
  }
  slot->copy = aligned_copy(slot->original, slot->nbytes, frame->alignment);
  if (slot->copy == NULL) {
    return call_frame_error(frame, i, PyExc_MemoryError, "no memory for an aligned copy of %zu bytes",
                            slot->nbytes);
  }
  return true;
}

void call_align_output(call_frame *frame) {
  int i = frame->count;
  while (i-- > 0 && !frame->slots[i].is_tensor) continue;
  if (i < 0 || !frame->slots[i].readonly || !call_device_is_host(frame->slots[i].tensor.device)) return;
  frame->slots[i].misaligned = frame->misaligned = true;
}

bool call_align_in(call_frame *frame) {
  for (int i = 0; i < frame->count; ++i) {
    call_slot *slot = &frame->slots[i];
    if (!slot->is_tensor) continue;
    slot->original = slot->tensor.data;
    if (!call_tensor_size(&slot->tensor, &slot->nbytes)) {
      return call_frame_error(frame, i, PyExc_ValueError, "the size of the tensor overflows 64 bits");
    }
  }
  for (int i = 0; i < frame->count; ++i) {
    call_slot *slot = &frame->slots[i];
    if (slot->misaligned && slot->nbytes != 0 && !copy_one(frame, i)) return false;
  }
  for (int i = 0; i < frame->count; ++i) {
    call_slot *slot = &frame->slots[i];
    if (slot->copy == NULL) continue;
    if (!slot->shared && needs_snapshot(frame, i)) {
      slot->snapshot = malloc(slot->nbytes);
      if (slot->snapshot == NULL) {
        return call_frame_error(frame, i, PyExc_MemoryError, "no memory for a copy of %zu bytes",
                                slot->nbytes);
      }
      memcpy(slot->snapshot, slot->copy, slot->nbytes);
    }
    slot->tensor.data = slot->copy;
  }
  return true;
}

static void write_changed(char *to, const char *from, const char *before, size_t size) {
  for (size_t k = 0; k < size; ++k) {
    if (from[k] != before[k]) to[k] = from[k];
  }
}

/* A shared copy goes back if any of the arguments it stands for may be written. */
static bool goes_back(const call_frame *frame, int i) {
  for (int j = i; j < frame->count; ++j) {
    if (frame->slots[j].copy == frame->slots[i].copy && writable(frame, j)) return true;
  }
  return false;
}

int call_align_out(call_frame *frame) {
  int wrong = -1;
  for (int i = 0; i < frame->count; ++i) {
    call_slot *slot = &frame->slots[i];
    if (slot->copy == NULL || slot->shared) continue;
    if (!goes_back(frame, i)) {
      bool may_write = frame->parameters == NULL || !frame->parameters[i].is_const;
      if (may_write && memcmp(slot->copy, slot->original, slot->nbytes) != 0) wrong = i;
      continue;
    }
    if (slot->snapshot != NULL) {
      write_changed(slot->original, slot->copy, slot->snapshot, slot->nbytes);
    } else {
      memcpy(slot->original, slot->copy, slot->nbytes);
    }
  }
  return wrong;
}
