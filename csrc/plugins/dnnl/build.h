/* build.h - from a graph to a plan: what the operators use to describe their primitives.
 *
 * An operator names its operands, looks at them as oneDNN does (view.h), says what it wants
 * (struct dn_operation) and hands that to dn_build_operation, which asks the library for a
 * primitive, reorders operands into the formats that the primitive likes (constants once, here),
 * and places the result. Functions return a mblob_status after recording an error that names the
 * node. */
#ifndef DN_BUILD_H
#define DN_BUILD_H

#include "plan.h"
#include "shared.h"

/* Where a tensor is, and how its bytes are to be read. md NULL: no operand. */
struct dn_operand {
  size_t tensor;
  enum dn_place place;
  size_t number;
  const dn_md *md;
  uint64_t offset; /* bytes of the place that lie before it */
};

/* A tensor of the graph while the plan is made. */
struct dn_value {
  struct dn_operand
      at;   /* md has the dimensions of the graph's shape, in any format; NULL: not computed yet */
  bool raw; /* row-major, as the graph says */
  size_t uses;      /* inputs and heads that name it */
  size_t last_node; /* the last one that reads it; SIZE_MAX: a head */
  size_t argument; /* of the call, where it is wanted as an output, by itself or reshaped; SIZE_MAX:
                      nowhere */
};

/* A tensor that was reordered for one operator may serve the next. */
struct dn_copy {
  struct dn_operand from, to;
};

struct dn_packing;

struct dn_build {
  struct dn_plan *plan;
  const struct dn_graph *graph;
  const struct dn_library *library;
  const struct dn_node *node; /* the one that is being translated */
  struct dn_value *values;    /* of each tensor */
  struct dn_copy *copies;
  size_t copy_count, copy_capacity;
  void *stream;               /* of work on constants */
  struct dn_shared *shared;   /* may be NULL */
  struct dn_packing *packing; /* packed.h; may be NULL */
  int threads; /* that primitives are made for now; 0 if the library has no threads */
};

struct dn_view;

#define DN_EXTRA_OPERANDS 10
struct dn_operation {
  struct dn_problem problem; /* src, weights, bias: filled from the operands when they are NULL */
  struct dn_operand src, weights, bias;
  struct dn_operand *sources; /* as many as problem.source_count */
  struct {
    int argument;
    struct dn_operand operand;
  } extra[DN_EXTRA_OPERANDS];
  size_t extra_count;
  struct dn_operand sum; /* added to by a post-op: dst begins with its bytes */
  const struct dn_view *sum_view, *dst_view;
  bool add_sum_apart; /* by a binary post-op instead */
  bool in_floats;     /* of bytes, whose products oneDNN would sum in 16 bits */
  bool has_zero;      /* the source has a zero point, which is an extra operand */
  unsigned functions; /* bits of enum dn_eltwise: those of the post-ops */
  void *post_ops;
  size_t post_op_count;
};

/* Make the plan of a graph whose dimensions are known, with the constants that it was lent; shared with other plans
 * where `shared` is not NULL. */
int dn_prepare(const struct dn_graph *graph, struct dn_plan *plan, struct dn_shared *shared,
               struct dn_packing *packing);
int dn_fail_build(const struct dn_build *build, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Descriptors of the plan, NULL after recording an error. `status` is what the library said. */
const dn_md *dn_keep_md(struct dn_build *build, int status, dn_md *const *md, const char *what);
const dn_md *dn_plain_md(struct dn_build *build, int rank, const int64_t *dims, enum dn_type type);
const dn_md *dn_any_md(struct dn_build *build, int rank, const int64_t *dims, enum dn_type type);

/* An input of the node, or a tensor: as it is, and in row-major order as the graph says. */
int dn_input(struct dn_build *build, size_t index, struct dn_operand *out);
int dn_operand(struct dn_build *build, size_t tensor, struct dn_operand *out);
int dn_raw_operand(struct dn_build *build, size_t tensor, struct dn_operand *out);
/* A constant tensor of float32 or int32, as floats: their operand (its md is not set for them),
 * and the numbers, valid while the plan is made. */
int dn_constant_floats(struct dn_build *build, size_t tensor, const char *what,
                       struct dn_operand *out, const float **floats, size_t *count);

int dn_reorder(struct dn_build *build, struct dn_operand *operand, const dn_md *wanted);
/* From now on make primitives for one thread, where others would cost more than they help, or
 * for all. `work`: multiplications, or so. The number of threads before is returned. */
int dn_choose_threads(struct dn_build *build, double work);
void dn_restore_threads(struct dn_build *build, int threads);
/* Products of data and weights: decide in which type, before dn_fuse. */
void dn_choose_floats(const struct dn_build *build, struct dn_operation *operation,
                      enum dn_type src, enum dn_type weights);
/* The type in which the primitive has a tensor of `type`. */
enum dn_type dn_type_in(const struct dn_operation *operation, enum dn_type type);
/* Make the source of a binary as wide as its result, before the primitive: oneDNN's fast loops do not take bytes
 * beside floats. */
int dn_widen_source(struct dn_build *build, struct dn_operation *operation);
/* False if oneDNN would run the operation by its reference code, for the formats in which its operands are. */
int dn_has_fast_loops(struct dn_build *build, struct dn_operation *operation, bool *out);
int dn_build_operation(struct dn_build *build, struct dn_operation *operation);

/* operators.c: translate build->node. */
int dn_translate(struct dn_build *build);

/* ---- buffers, memory objects, primitives (steps.c) ---- */

#define DN_STEP_OPERANDS 16
struct dn_step_operands {
  size_t count;
  struct {
    int argument;
    struct dn_operand operand;
  } items[DN_STEP_OPERANDS];
  const char *kind;                 /* of the primitive */
  const struct dn_operand *sources; /* of a concatenation, beside the items */
  size_t source_count;
};

/* Another operand of a step; none is added where it has no descriptor. */
void dn_add_operand(struct dn_step_operands *list, int argument, const struct dn_operand *operand);

/* A buffer of the arena for operand->md; sets place and number. */
int dn_new_buffer(struct dn_build *build, struct dn_operand *operand);
/* A step that runs the primitive of `desc`, with scratch memory as it asks. */
int dn_add_step(struct dn_build *build, void *desc, const struct dn_step_operands *operands);
int dn_add_reorder(struct dn_build *build, const struct dn_operand *from,
                   const struct dn_operand *to);
/* A step that converts what is row-major to another type (halves.h). */
int dn_add_conversion(struct dn_build *build, const struct dn_operand *from, enum dn_type from_type,
                      const struct dn_operand *to, enum dn_type to_type);
/* Reorder a constant while the plan is made: to->md says the format, place and number are set. */
int dn_reorder_now(struct dn_build *build, const struct dn_operand *from, struct dn_operand *to);

#endif
