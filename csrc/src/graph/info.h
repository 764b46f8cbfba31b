/* info.h - what a graph is, as JSON text. */
#ifndef MB_GRAPH_INFO_H
#define MB_GRAPH_INFO_H

#include <stdio.h>

#include "graph/executor.h"

/* {"shape": {NAME: [...]}, "dtype": {NAME: "float32"}} of the inputs that are no parameters; of the outputs,
 * named `NODE:POSITION`. On the heap; NULL when memory is out. TVM gives maps, which this runtime has not. */
char *mb_graph_input_info(const struct mb_graph_executor *executor);
char *mb_graph_output_info(const struct mb_graph_executor *executor);

/* A string of JSON, with its quotes. */
void mb_graph_put_text(FILE *out, const char *text);

#endif
