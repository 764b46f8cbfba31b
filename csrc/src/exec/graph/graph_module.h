/* graph_module.h - executors and their factories as modules: the functions that TVM's have, under their
 * names. */
#ifndef MB_GRAPH_MODULE_H
#define MB_GRAPH_MODULE_H

#include "exec/graph/executor.h"
#include "core/native.h"

extern const struct mb_class mb_graph_factory_class;         /* key GraphExecutorFactory */
extern const struct mb_class mb_graph_runtime_factory_class; /* key GraphRuntimeFactory, TVM 0.7 */

/* What every executor has; ends with one without a call. The object is a mb_graph_executor. */
extern const struct mb_method mb_graph_methods[];

/* A module over a new executor; with `debug` one that also has the methods of debug.c. */
int mb_graph_module_new(const struct mb_graph_source *source, bool debug, mblob_module **out);

/* The executor of such a module, NULL if it is another. */
struct mb_graph_executor *mb_graph_module_object(mblob_module *module);

/* Global functions tvm.graph_executor.create and tvm.graph_executor_debug.create:
 * (graph JSON, module with the kernels, [lookup function,] devices...) -> executor. */
int mb_graph_create(TVMValue *args, int *codes, int count, TVMRetValueHandle ret, void *resource);
int mb_graph_debug_create(TVMValue *args, int *codes, int count, TVMRetValueHandle ret, void *resource);

/* `devices` from argument `i` on, and the rest of `source` as it is given. */
#define MB_GRAPH_DEVICES 16
int mb_graph_create_for(struct mb_call *call, int i, struct mb_graph_source *source, bool debug);

/* Run `body` with the lock of the executor. */
typedef int (*mb_graph_body)(struct mb_graph_executor *executor, struct mb_call *call);
int mb_graph_locked(void *executor, struct mb_call *call, mb_graph_body body);
/* Declares the method `name` of an executor; what follows is its body, with the lock. */
#define MB_GRAPH_METHOD(name)                                                                                \
  static int name##_body(struct mb_graph_executor *x, struct mb_call *call);                                 \
  static int name(void *object, struct mb_call *call) { return mb_graph_locked(object, call, name##_body); } \
  static int name##_body(struct mb_graph_executor *x, struct mb_call *call)

#endif
