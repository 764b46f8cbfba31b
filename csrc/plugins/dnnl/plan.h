/* plan.h - what a call does: primitives in order, and where their tensors lie.
 *
 * A plan is made once (build.h) and not changed while calls run (run.h), so calls share it. */
#ifndef DN_PLAN_H
#define DN_PLAN_H

#include <stdatomic.h>

#include "graph.h"
#include "onednn.h"

enum dn_place {
  DN_ARGUMENT, /* of the call: the graph's inputs, then its outputs */
  DN_CONSTANT, /* memory of the plan */
  DN_ARENA     /* a buffer in the memory that a running call has */
};

/* A memory object that each context has: so far as bytes, place, number and offset; as a tensor, md. */
struct dn_slot {
  enum dn_place place;
  size_t number;
  const dn_md *md;
  uint64_t offset;
};

struct dn_step_argument {
  int argument; /* dn_argument, or that of a post-op */
  size_t slot;
};
struct dn_step {
  void *primitive; /* NULL: a conversion of `elements` (halves.h) */
  enum dn_type from, to;
  uint64_t elements;
  size_t node; /* for errors; SIZE_MAX: of an output */
  int threads; /* that it was made for */
  size_t count;
  struct dn_step_argument *arguments;
  const char *kind;                     /* of its primitive: "convolution", "reorder" */
  char *implementation;                 /* oneDNN's name of what runs it, "" if it tells none */
  _Atomic(uint64_t) calls, nanoseconds; /* of calls that were timed (run.h) */
};

/* Bytes in the arena that are needed from step `first` to step `last`. */
struct dn_buffer {
  uint64_t size, offset;
  size_t first, last;
};

struct dn_constant {
  void *data;
  uint64_t size;
  bool owned;   /* else the caller's, while the plan is made */
  bool lasting; /* the caller's, for as long as the plan lives */
};

struct dn_mds {
  dn_md **items;
  size_t count, capacity;
};

struct dn_plan {
  const struct dn_library *library;
  struct dn_mds mds; /* all that are used below */
  struct dn_slot *slots;
  struct dn_step *steps;
  struct dn_buffer *buffers;
  struct dn_constant *constants;
  size_t slot_count, step_count, buffer_count, constant_count;
  size_t slot_capacity, step_capacity, buffer_capacity, constant_capacity;
  uint64_t arena_size;
  int threads; /* the most that a step has; 0 if the library has no threads */
};

/* Room for another item of a list of the plan; zeroed. NULL when memory is out (recorded). */
void *dn_plan_grow(void **items, size_t *count, size_t *capacity, size_t item);
/* A constant of `size` bytes, 64-byte aligned; its number, or SIZE_MAX (recorded). */
size_t dn_plan_constant(struct dn_plan *plan, uint64_t size);
/* Give back a constant's memory before the plan ends; its number stays. */
void dn_plan_drop(struct dn_plan *plan, size_t constant);
/* Give each buffer a place such that those that are needed at the same time do not overlap. */
int dn_plan_arena(struct dn_plan *plan);
void dn_plan_free(struct dn_plan *plan);

#endif
