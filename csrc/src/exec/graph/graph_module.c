#define _GNU_SOURCE
#include "exec/graph/graph_module.h"

#include <string.h>

#include "base/base.h"
#include "exec/graph/inputs_outputs.h"

static int find_common(void *object, const char *name, mblob_function **out) {
  for (const struct mb_method *m = mb_graph_methods; m->call; m++)
    if (strcmp(m->name, name) == 0) return mb_method_bind(m, object, out);
  return MBLOB_OK;
}

static const struct mb_class graph_executor_class = {.type_key = "GraphExecutor",
                                                     .methods = mb_graph_methods,
                                                     .describe = mb_graph_describe,
                                                     .close = mb_graph_executor_free};
static const struct mb_class debug_class = {.type_key = "GraphExecutorDebug",
                                            .methods = mb_graph_debug_methods,
                                            .function = find_common,
                                            .describe = mb_graph_describe,
                                            .close = mb_graph_executor_free};

/* A module over a new executor; with `debug` one that also has the methods of debug.c. */
static int new_module(const struct mb_graph_source *source, bool debug, mblob_module **out) {
  struct mb_graph_executor *executor = NULL;
  *out = NULL;
  int status = mb_graph_executor_new(source, &executor);
  if (status) return status;
  status = mb_builtin_create(debug ? &debug_class : &graph_executor_class, executor, out);
  if (status) mb_graph_executor_free(executor);
  return status;
}

struct mb_graph_executor *mb_graph_module_object(mblob_module *module) {
  void *object = mb_builtin_object(module, &graph_executor_class);
  return object ? object : mb_builtin_object(module, &debug_class);
}

int mb_graph_create_for(struct mb_call *call, int i, struct mb_graph_source *source, bool debug) {
  DLDevice devices[MB_GRAPH_DEVICES];
  mblob_module *module = NULL;
  int status = mb_call_devices(call, i, devices, MB_GRAPH_DEVICES, &source->device_count);
  if (status) return status;
  source->devices = devices;
  status = new_module(source, debug, &module);
  if (!status) mb_call_return_module(call, module);
  return status;
}

static int create_graph(struct mb_call *call, bool debug) {
  struct mb_graph_source source = {.kernels_scope = MB_WITH_IMPORTS};
  const void *json = NULL;
  int first_device = 2;
  int status = mb_call_bytes(call, 0, &json, &source.json_size);
  source.json = json;
  if (!status) status = mb_call_module(call, 1, &source.kernels);
  if (!status && call->count > 2 && call->codes[2] == kTVMPackedFuncHandle) {
    source.lookup = call->args[2].v_handle;
    first_device = 3;
  }
  if (!status) status = mb_graph_create_for(call, first_device, &source, debug);
  return status;
}

int mb_graph_create(TVMValue *args, int *codes, int count, TVMRetValueHandle ret, void *resource) {
  struct mb_call call = {"graph_executor.create", args, codes, count, ret};
  (void)resource;
  return create_graph(&call, false);
}

int mb_graph_debug_create(TVMValue *args, int *codes, int count, TVMRetValueHandle ret,
                          void *resource) {
  struct mb_call call = {"graph_executor_debug.create", args, codes, count, ret};
  (void)resource;
  return create_graph(&call, true);
}
