/* graph.h - graph executors: what the rest of the runtime sees of them. */
#ifndef MB_GRAPH_H
#define MB_GRAPH_H

#include "core/library/library.h"

extern const struct mb_class mb_graph_factory_class;         /* key GraphExecutorFactory */
extern const struct mb_class mb_graph_runtime_factory_class; /* key GraphRuntimeFactory, TVM 0.7 */

/* Global functions tvm.graph_executor.create and tvm.graph_executor_debug.create:
 * (graph JSON, module with the kernels, [lookup function,] devices...) -> executor. */
int mb_graph_create(TVMValue *args, int *codes, int count, TVMRetValueHandle ret, void *resource);
int mb_graph_debug_create(TVMValue *args, int *codes, int count, TVMRetValueHandle ret,
                          void *resource);

#endif
