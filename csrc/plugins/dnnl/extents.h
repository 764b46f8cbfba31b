/* extents.h - dimensions that only a call tells. In the graph's JSON such a dimension is a text: a name, or a
 * computation with names in postfix order: "n", "h 2 *", "h 1 - 2 / 1 +". The inputs' dimensions that are names tell
 * what each name is. */
#ifndef DN_EXTENTS_H
#define DN_EXTENTS_H

#include "graph.h"

#define DN_MOST_NAMES 64

/* Find the names, and check that all computations have no others. A mblob_status. */
int dn_extents_read(struct dn_graph *graph);
/* Note what the dimensions of an input tell: values[i] of each name, 0 where it is not known yet. */
void dn_extents_bind(const struct dn_graph *graph, const struct dn_tensor *tensor,
                     const int64_t *shape, int64_t *values);
/* Set the dimensions and bytes of a tensor for these values; an error names the node. */
int dn_extents_fix(const struct dn_graph *graph, struct dn_tensor *tensor, const int64_t *values);

#endif
