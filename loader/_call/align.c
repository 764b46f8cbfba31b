/* align.c - aligned copies of arguments that are less aligned than the kernel assumes, and the
 * way back.
 *
 * An array with gaps between its elements is copied with all that lies in the gaps, so that the
 * kernel sees the strides that it would see of aligned data. Only the bytes that the kernel
 * changed go back.
 *
 * Kernels that TVM's LLVM backend made use aligned vector loads; on `a[1:]` they crash. The copy
 * of an array that may be written goes back after the call. The same memory passed twice is one
 * copy, as it was one array. Where a copy overlaps another argument only the bytes that the
 * kernel changed go back, so that an unchanged copy cannot undo what was written through the
 * other one.
 *
 * A read-only array that a kernel may write, as far as anybody knows, is copied too: that it
 * wrote is seen afterwards, instead of a crash or a changed constant. */
#define _GNU_SOURCE
#include "call.h"

#include <stdlib.h>
#include <string.h>

static bool writable(const call_frame *frame, int i) {
  if (frame->slots[i].readonly) return false;
  return frame->parameters == NULL || !frame->parameters[i].is_const;
}

/* The bytes from the first element to the end of the last one in memory; *before: how many lie
 * before the element at index 0, which strides that are negative leave. False if they overflow. */
static bool find_span(const DLTensor *t, size_t *nbytes, size_t *before) {
  const size_t itemsize = call_dtype_size(t->dtype);
  size_t low = 0, high = itemsize;
  *before = 0;
  if (!call_tensor_size(t, nbytes)) return false;
  if (*nbytes == 0 || t->strides == NULL) return true;
  for (int d = 0; d < t->ndim; ++d) {
    const int64_t stride = t->strides[d];
    const uint64_t steps = (uint64_t)t->shape[d] - 1,
                   step = stride < 0 ? 0 - (uint64_t)stride : (uint64_t)stride;
    size_t reach;
    if (__builtin_mul_overflow(steps, step, &reach) ||
        __builtin_mul_overflow(reach, itemsize, &reach) ||
        __builtin_add_overflow(stride < 0 ? low : high, reach, stride < 0 ? &low : &high))
      return false;
  }
  *before = low;
  return !__builtin_add_overflow(low, high, nbytes) && *nbytes <= PY_SSIZE_T_MAX;
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
    if (other->copy != NULL && other->original == slot->original && other->nbytes == slot->nbytes &&
        other->before == slot->before)
      return j;
  }
  return -1;
}

/* True if a copy overlaps memory that another argument reaches directly or through a copy of its
 * own. */
static bool needs_snapshot(const call_frame *frame, int i) {
  const call_slot *slot = &frame->slots[i];
  for (int j = 0; j < frame->count; ++j) {
    const call_slot *other = &frame->slots[j];
    if (j == i || !other->is_tensor || other->copy == slot->copy || other->nbytes == 0) continue;
    if (overlaps(slot, other)) return true;
  }
  return false;
}

/* A copy of `size` bytes of which the one at `before` is aligned, behind `*pad` bytes of
 * nothing. */
static void *aligned_copy(const void *data, size_t size, size_t before, size_t alignment,
                          size_t *pad) {
  void *memory = NULL;
  if (alignment < 64) alignment = 64;
  *pad = (alignment - before % alignment) % alignment;
  if (posix_memalign(&memory, alignment, *pad + size) != 0) return NULL;
  return memcpy((char *)memory + *pad, data, size);
}

static bool copy_one(call_frame *frame, int i) {
  call_slot *slot = &frame->slots[i];
  int j = earlier_copy(frame, i);
  if (j >= 0) {
    slot->copy = frame->slots[j].copy;
    slot->pad = frame->slots[j].pad;
    slot->shared = true;
    return true;
  }
  slot->copy_owner = NULL;
  size_t alignment = frame->alignment;
  if (frame->parameters != NULL && frame->parameters[i].alignment > alignment)
    alignment = frame->parameters[i].alignment;
  slot->copy = aligned_copy(slot->original, slot->nbytes, slot->before, alignment, &slot->pad);
  if (slot->copy == NULL) {
    return call_frame_error(frame, i, PyExc_MemoryError,
                            "no memory for an aligned copy of %zu bytes", slot->nbytes);
  }
  return true;
}

void call_align_output(call_frame *frame) {
  int i = frame->count;
  while (i-- > 0 && !frame->slots[i].is_tensor) continue;
  if (i < 0 || !frame->slots[i].readonly || !call_device_is_host(frame->slots[i].tensor.device))
    return;
  frame->slots[i].misaligned = frame->misaligned = true;
}

bool call_align_in(call_frame *frame) {
  for (int i = 0; i < frame->count; ++i) {
    call_slot *slot = &frame->slots[i];
    if (!slot->is_tensor) continue;
    if (!find_span(&slot->tensor, &slot->nbytes, &slot->before)) {
      return call_frame_error(frame, i, PyExc_ValueError,
                              "the size of the tensor overflows 64 bits");
    }
    slot->original = (char *)slot->tensor.data - slot->before;
  }
  for (int i = 0; i < frame->count; ++i) {
    call_slot *slot = &frame->slots[i];
    if (slot->misaligned && slot->nbytes != 0 && !copy_one(frame, i)) return false;
    if (slot->misaligned && slot->nbytes == 0 &&
        frame->alignment != 0) /* nobody reads there, but kernels look at the address */
      slot->tensor.data =
          (void *)((uintptr_t)slot->tensor.data & ~((uintptr_t)frame->alignment - 1));
  }
  for (int i = 0; i < frame->count; ++i) {
    call_slot *slot = &frame->slots[i];
    if (slot->copy == NULL) continue;
    if (!slot->shared && (slot->tensor.strides != NULL || needs_snapshot(frame, i))) {
      slot->snapshot = malloc(slot->nbytes);
      if (slot->snapshot == NULL) {
        return call_frame_error(frame, i, PyExc_MemoryError, "no memory for a copy of %zu bytes",
                                slot->nbytes);
      }
      memcpy(slot->snapshot, slot->copy, slot->nbytes);
    }
    slot->tensor.data = (char *)slot->copy + slot->before;
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
      const void *before = slot->snapshot != NULL ? slot->snapshot : slot->original;
      if (may_write && memcmp(slot->copy, before, slot->nbytes) != 0) wrong = i;
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
