/* graph_module.h - executors and their factories as modules: the functions that TVM's have,
 * under their names. */
#ifndef MB_GRAPH_MODULE_H
#define MB_GRAPH_MODULE_H

#include "core/call/call.h"
#include "core/loaded/loaded.h"
#include "exec/graph/executor.h"
#include "exec/graph/graph.h"

/* What debug executors have beside that (debug.c). */
extern const struct mb_method mb_graph_debug_methods[];
/* What every executor has; ends with one without a call. The object is a mb_graph_executor. */
extern const struct mb_method mb_graph_methods[];

/* The executor of a module, NULL if it is another. */
struct mb_graph_executor *mb_graph_module_object(mblob_module *module);

/* `devices` from argument `i` on, and the rest of `source` as it is given. */
#define MB_GRAPH_DEVICES 16
int mb_graph_create_for(struct mb_call *call, int i, struct mb_graph_source *source, bool debug);

/* Argument `i`, if it is there: threads of a run, for mb_graph_run. */
int mb_graph_threads_argument(const struct mb_call *call, int i, int *out);

/* Run `body` with the lock of the executor. */
typedef int (*mb_graph_body)(struct mb_graph_executor *executor, struct mb_call *call);
int mb_graph_locked(void *executor, struct mb_call *call, mb_graph_body body);
/* Declares the method `name` of an executor; what follows is its body, with the lock. */
#define MB_GRAPH_METHOD(name)                                                        \
  static int graph_##name##_body(struct mb_graph_executor *x, struct mb_call *call); \
  static int graph_##name(void *object, struct mb_call *call) {                      \
    return mb_graph_locked(object, call, graph_##name##_body);                       \
  }                                                                                  \
  static int graph_##name##_body(struct mb_graph_executor *x, struct mb_call *call)

#endif
