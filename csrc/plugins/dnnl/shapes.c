#include "shapes.h"

#include <stdlib.h>
#include <string.h>

#include "build.h"
#include "common.h"
#include "extents.h"
#include "threads.h"

struct dn_weights {
  struct dn_plan plan; /* its constants alone, which belong to it */
  struct dn_shared shared;
  size_t users; /* guarded by the lock of the shapes */
};

struct dn_shape {
  struct dn_shape *next;
  struct dn_graph graph; /* with tensors of its own */
  struct dn_calls calls;
  struct dn_weights *weights;
  size_t users; /* calls, and the list; guarded by the lock */
  int64_t values[];
};

/* ---- lives ---- */

static void leave_weights(struct dn_shapes *shapes, struct dn_weights *weights) {
  mb_lock(&shapes->lock);
  bool last = --weights->users == 0;
  mb_unlock(&shapes->lock);
  if (!last) return;
  dn_shared_end(&weights->shared);
  dn_plan_free(&weights->plan);
  free(weights);
}

static void free_shape(struct dn_shapes *shapes, struct dn_shape *shape) {
  dn_calls_end(&shape->calls);
  leave_weights(shapes, shape->weights);
  free(shape->graph.tensors);
  free(shape);
}

static void leave(struct dn_shapes *shapes, struct dn_shape *shape) {
  mb_lock(&shapes->lock);
  bool last = --shape->users == 0;
  mb_unlock(&shapes->lock);
  if (last) free_shape(shapes, shape);
}

/* Under the lock: what is in the list no longer; the caller leaves each when it has the lock no
 * longer. */
static struct dn_shape *cut(struct dn_shape **place, size_t keep) {
  for (; *place && keep; --keep) place = &(*place)->next;
  struct dn_shape *rest = *place;
  *place = NULL;
  return rest;
}

static void leave_all(struct dn_shapes *shapes, struct dn_shape *list) {
  while (list) {
    struct dn_shape *next = list->next;
    leave(shapes, list);
    list = next;
  }
}

void dn_shapes_begin(struct dn_shapes *shapes, const struct dn_graph *graph) {
  shapes->graph = graph;
  mb_lock_init(&shapes->lock);
}

void dn_shapes_end(struct dn_shapes *shapes) {
  leave_all(shapes, cut(&shapes->first, 0));
  if (shapes->weights) leave_weights(shapes, shapes->weights);
  mb_lock_destroy(&shapes->lock);
}

int dn_shapes_replace(struct dn_shapes *shapes, const struct dn_plan *lent) {
  struct dn_weights *fresh = calloc(1, sizeof(*fresh));
  if (!fresh) return mb_fail_memory(sizeof(*fresh));
  fresh->users = 1;
  fresh->plan.library = lent->library;
  dn_shared_begin(&fresh->shared, lent->library);
  for (size_t i = 0; i < lent->constant_count; ++i) {
    if (dn_plan_constant(&fresh->plan, lent->constants[i].size) == SIZE_MAX) {
      leave_weights(shapes, fresh);
      return MBLOB_E_MEMORY;
    }
    memcpy(fresh->plan.constants[i].data, lent->constants[i].data,
           mb_size(lent->constants[i].size));
  }
  mb_lock(&shapes->lock);
  struct dn_weights *before = shapes->weights;
  struct dn_shape *old = cut(&shapes->first, 0);
  shapes->weights = fresh;
  mb_unlock(&shapes->lock);
  leave_all(shapes, old);
  if (before) leave_weights(shapes, before);
  return MBLOB_OK;
}

/* ---- one set of sizes ---- */

static int fix_tensors(const struct dn_graph *graph, struct dn_shape *shape) {
  shape->graph = *graph;
  shape->graph.tensors = calloc(graph->tensor_count, sizeof(*graph->tensors));
  if (!shape->graph.tensors) return mb_fail_memory(graph->tensor_count * sizeof(*graph->tensors));
  memcpy(shape->graph.tensors, graph->tensors, graph->tensor_count * sizeof(*graph->tensors));
  int status = MBLOB_OK;
  for (size_t i = 0; i < graph->tensor_count && !status; ++i)
    status = dn_extents_fix(graph, &shape->graph.tensors[i], shape->values);
  return status;
}

static int make_plan(struct dn_shape *shape) {
  const struct dn_plan *from = &shape->weights->plan;
  struct dn_plan plan = {.library = from->library};
  int status = MBLOB_OK;
  for (size_t i = 0; i < from->constant_count && !status; ++i) {
    struct dn_constant *lent = dn_plan_grow((void **)&plan.constants, &plan.constant_count,
                                            &plan.constant_capacity, sizeof(*lent));
    if (lent)
      *lent = (struct dn_constant){
          .data = from->constants[i].data, .size = from->constants[i].size, .lasting = true};
    else
      status = MBLOB_E_MEMORY;
  }
  if (!status) status = dn_prepare(&shape->graph, &plan, &shape->weights->shared, NULL);
  if (!status) status = dn_calls_replace(&shape->calls, &plan);
  if (status) dn_plan_free(&plan);
  return status;
}

static int make(struct dn_shapes *shapes, struct dn_weights *weights, const int64_t *values,
                struct dn_shape **out) {
  size_t size = shapes->graph->name_count * sizeof(*values);
  struct dn_shape *shape = calloc(1, sizeof(*shape) + size);
  if (!shape) return mb_fail_memory(sizeof(*shape) + size);
  memcpy(shape->values, values, size);
  mb_lock(&shapes->lock);
  ++weights->users;
  bool timed = shapes->timed;
  mb_unlock(&shapes->lock);
  shape->weights = weights;
  shape->users = 1;
  (void)dn_calls_begin(&shape->calls, &shape->graph);
  dn_calls_time(&shape->calls, timed);
  int status = fix_tensors(shapes->graph, shape);
  if (!status) status = make_plan(shape);
  if (status)
    free_shape(shapes, shape);
  else
    *out = shape;
  return status;
}

/* Under the lock: the shape of these values, first in the list then and used once more; NULL: none
 * is there. */
static struct dn_shape *find(struct dn_shapes *shapes, const int64_t *values) {
  size_t size = shapes->graph->name_count * sizeof(*values);
  for (struct dn_shape **place = &shapes->first; *place; place = &(*place)->next) {
    struct dn_shape *shape = *place;
    if (memcmp(shape->values, values, size) != 0) continue;
    *place = shape->next;
    shape->next = shapes->first;
    shapes->first = shape;
    ++shape->users;
    return shape;
  }
  return NULL;
}

/* Two calls may make the same one at the same time: the second takes that of the first. */
static int add(struct dn_shapes *shapes, struct dn_weights *weights, const int64_t *values,
               struct dn_shape **out) {
  struct dn_shape *fresh = NULL, *rest = NULL;
  int status = make(shapes, weights, values, &fresh);
  if (status) return status;
  mb_lock(&shapes->lock);
  bool current = shapes->weights == weights;
  struct dn_shape *there = current ? find(shapes, values) : NULL;
  if (!there && current) {
    fresh->next = shapes->first;
    shapes->first = fresh;
    ++fresh->users;
    dn_calls_time(&fresh->calls, shapes->timed); /* it may have changed since */
    rest = cut(&shapes->first, DN_MOST_SHAPES);
  }
  mb_unlock(&shapes->lock);
  leave_all(shapes, rest);
  if (there) leave(shapes, fresh);
  *out = there ? there : fresh;
  return MBLOB_OK;
}

static int take(struct dn_shapes *shapes, const int64_t *values, struct dn_shape **out) {
  mb_lock(&shapes->lock);
  struct dn_weights *weights = shapes->weights;
  *out = find(shapes, values);
  if (weights && !*out) ++weights->users;
  mb_unlock(&shapes->lock);
  if (*out) return MBLOB_OK;
  if (!weights)
    return mb_fail(MBLOB_E_KERNEL, "dnnl_json %s: The module has not been initialized",
                   shapes->graph->symbol);
  int status = add(shapes, weights, values, out);
  leave_weights(shapes, weights);
  return status;
}

int dn_shapes_run(struct dn_shapes *shapes, const int64_t *values, void *const *arguments) {
  struct dn_shape *shape;
  int status = take(shapes, values, &shape);
  if (status) return status;
  status = dn_run(&shape->calls, arguments);
  leave(shapes, shape);
  return status;
}

/* ---- primitives ---- */

void dn_shapes_time(struct dn_shapes *shapes, bool timed) {
  mb_lock(&shapes->lock);
  shapes->timed = timed;
  for (struct dn_shape *shape = shapes->first; shape; shape = shape->next)
    dn_calls_time(&shape->calls, timed);
  mb_unlock(&shapes->lock);
}

void dn_shapes_write(struct dn_shapes *shapes, FILE *out) {
  mb_lock(&shapes->lock);
  struct dn_shape *shape = shapes->first;
  if (shape) ++shape->users;
  mb_unlock(&shapes->lock);
  if (!shape) {
    (void)fputs("[]", out);
    return;
  }
  dn_calls_write(&shape->calls, out);
  leave(shapes, shape);
}
