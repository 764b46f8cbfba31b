/* shapes.h - plans of a graph with open dimensions: one for each set of sizes that calls had, the last
 * DN_MOST_SHAPES of them. */
#ifndef DN_SHAPES_H
#define DN_SHAPES_H

#include "run.h"

#define DN_MOST_SHAPES 16

struct dn_shape;   /* sizes, and what calls with them run */
struct dn_weights; /* constants of one __init_, for plans to come */

struct dn_shapes {
  const struct dn_graph *graph;
  struct mb_lock lock;
  struct dn_shape *first;     /* the last that was used; guarded by the lock */
  struct dn_weights *weights; /* NULL before the first __init_; guarded by the lock */
  bool timed;
};

void dn_shapes_begin(struct dn_shapes *shapes, const struct dn_graph *graph);
/* Copy the constants that a plan was lent. Calls that begin later make their plans with them. */
int dn_shapes_replace(struct dn_shapes *shapes, const struct dn_plan *lent);
/* A call: values of the graph's names, addresses as of dn_run. A mblob_status. */
int dn_shapes_run(struct dn_shapes *shapes, const int64_t *values, void *const *arguments);
void dn_shapes_time(struct dn_shapes *shapes, bool timed);
/* As of dn_calls_write, for the sizes of the last call. */
void dn_shapes_write(struct dn_shapes *shapes, FILE *out);
void dn_shapes_end(struct dn_shapes *shapes);

#endif
