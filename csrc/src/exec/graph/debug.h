/* debug.h - the methods that debug executors have beside those of all. */
#ifndef MB_GRAPH_DEBUG_H
#define MB_GRAPH_DEBUG_H

#include "exec/graph/graph_module.h"

extern const struct mb_method mb_graph_debug_methods[];

#endif
