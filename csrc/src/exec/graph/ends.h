/* ends.h - inputs and outputs of a graph: which one a caller means, and what they are. */
#ifndef MB_GRAPH_ENDS_H
#define MB_GRAPH_ENDS_H

#include "core/core.h"
#include "exec/graph/executor.h"

enum mb_graph_end { MB_INPUTS, MB_OUTPUTS };

/* Argument 0: a name or a position. MBLOB_E_ARGUMENT lists the names. */
int mb_graph_end_argument(const struct mb_graph *graph, const struct mb_call *call,
                          enum mb_graph_end end, uint32_t *out);
/* mb_names_return_info of the inputs that are no parameters; of the outputs, named
 * `NODE:POSITION`. */
int mb_graph_return_info(const struct mb_graph_executor *executor, enum mb_graph_end end,
                         struct mb_call *call);

#endif
