/* inputs_outputs.h - inputs and outputs of a graph: which one a caller means, and what they are. */
#ifndef MB_GRAPH_INPUTS_OUTPUTS_H
#define MB_GRAPH_INPUTS_OUTPUTS_H

#include "core/call/call.h"
#include "core/library/library.h"
#include "exec/graph/executor.h"

enum mb_graph_io { MB_INPUTS, MB_OUTPUTS };

/* Argument 0: a name or a position. MBLOB_E_ARGUMENT lists the names. */
int mb_graph_io_argument(const struct mb_graph *graph, const struct mb_call *call,
                         enum mb_graph_io end, uint32_t *out);
/* Of the class of executors. An output is called `NODE:POSITION`. */
int mb_graph_describe(void *executor, bool outputs, size_t i, size_t *count,
                      struct mb_executor_io *out);

#endif
