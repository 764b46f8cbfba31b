/* plugin.c - modules of the type key dnnl_json: TVM's protocol for graphs that an external
 * library runs.
 *
 * Functions: get_symbol, get_const_vars, __init_<symbol>(constants...), <symbol>(inputs...,
 * outputs...); and mblob's own get_primitives, profile_primitives, prepack (docs/plugins.md). The graph is read when the module opens; primitives are made by __init_, with the
 * constants, which are not needed afterwards. Another __init_ takes the place of the one before;
 * calls that run end with what they began with. */
#define _GNU_SOURCE
#include <mblob/plugin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "build.h"
#include "common.h"
#include "extents.h"
#include "graph.h"
#include "halves.h"
#include "packed.h"
#include "run.h"
#include "shapes.h"
#include "threads.h"

struct module {
  struct mblob_module *itself;
  const char *names[6]; /* of its functions */
  struct dn_graph graph;
  struct dn_calls calls;
  struct dn_shapes shapes; /* in its place, where the graph has open dimensions */
  struct mb_lock lock;     /* of the graph's types */
};

enum function {
  GET_SYMBOL = 1,
  GET_CONST_VARS,
  GET_PRIMITIVES,
  PROFILE_PRIMITIVES,
  PREPACK,
  INIT,
  RUN
}; /* as the addresses that `function` gives */

static int start(const mblob_host *host) { return mb_host_start(host); }

static int describe(char *text, size_t size) {
  const struct dn_library *lib = dn_library_open();
  if (!lib) return MBLOB_E_LOADER;
  (void)snprintf(text, size, "oneDNN %d.%d.%d (%s)", lib->major, lib->minor, lib->patch, lib->path);
  return MBLOB_OK;
}

/* ---- opening ---- */

static void close_module(void *self) {
  struct module *m = self;
  dn_calls_end(&m->calls);
  dn_shapes_end(&m->shapes);
  dn_graph_free(&m->graph);
  mb_lock_destroy(&m->lock);
  free(m);
}

static int open_module(const mblob_host *host, const struct mblob_module_info *info, void **self) {
  struct module *m = calloc(1, sizeof(*m));
  if (!m) return mb_fail_memory(sizeof(*m));
  mb_lock_init(&m->lock);
  int status = dn_calls_begin(&m->calls, &m->graph);
  dn_shapes_begin(&m->shapes, &m->graph);
  if (!status) status = dn_graph_read(&m->graph, info->payload, info->payload_size);
  if (status) {
    close_module(m);
    return status;
  }
  m->names[0] = m->graph.symbol;
  m->names[1] = "get_symbol";
  m->names[2] = "get_const_vars";
  m->names[3] = "get_primitives";
  m->names[4] = "profile_primitives";
  m->names[5] = "prepack";
  m->itself = info->module;
  host->names(info->module, m->names, sizeof(m->names) / sizeof(*m->names));
  *self = m;
  return MBLOB_OK;
}

static int find_function(void *self, const char *name, void **function) {
  const struct module *m = self;
  enum function found = !strcmp(name, "get_symbol")           ? GET_SYMBOL
                        : !strcmp(name, "get_const_vars")     ? GET_CONST_VARS
                        : !strcmp(name, "get_primitives")     ? GET_PRIMITIVES
                        : !strcmp(name, "prepack")            ? PREPACK
                        : !strcmp(name, "profile_primitives") ? PROFILE_PRIMITIVES
                        : !strcmp(name, m->graph.symbol)      ? RUN
                        : !strncmp(name, "__init_", 7) && !strcmp(name + 7, m->graph.symbol) ? INIT
                                                                                             : 0;
  *function = (void *)(uintptr_t)found;
  return MBLOB_OK;
}

/* ---- arguments ---- */

static inline bool same_type(DLDataType given, enum dn_type wanted) {
  static const DLDataType types[] = {
      [DN_F16] = {kDLFloat, 16, 1}, [DN_BF16] = {kDLBfloat, 16, 1}, [DN_F32] = {kDLFloat, 32, 1},
      [DN_S32] = {kDLInt, 32, 1},   [DN_S8] = {kDLInt, 8, 1},       [DN_U8] = {kDLUInt, 8, 1},
  };
  return !memcmp(&given, &types[wanted], sizeof(given));
}

/* [] and [1] are one number each. */
static inline bool same_shape(const DLTensor *given, const struct dn_tensor *wanted) {
  if (given->ndim == 0) return wanted->rank == 1 && wanted->dims[0] == 1;
  if (given->ndim != wanted->rank) return false;
  for (int i = 0; i < wanted->rank; ++i)
    if (given->shape[i] != wanted->dims[i]) return false;
  return true;
}

/* "float32[1, 3]" of any DLTensor. */
static const char *describe_given(const DLTensor *given, char *text, size_t size) {
  static const char *const codes[] = {"int",    "uint",    "float", "handle",
                                      "bfloat", "complex", "bool"};
  const char *code =
      given->dtype.code < sizeof(codes) / sizeof(*codes) ? codes[given->dtype.code] : "type";
  size_t used = (size_t)snprintf(text, size, "%s%d[", code, given->dtype.bits);
  for (int i = 0; i < given->ndim && used < size; ++i)
    used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? ", " : "",
                             (long long)given->shape[i]);
  if (used < size) (void)snprintf(text + used, size - used, "]");
  return text;
}

/* What an argument belongs to, for errors. */
struct receiver {
  const char *what;
  const struct dn_graph *graph;
};

__attribute__((noinline)) static int refuse(const struct receiver *to, int i, const DLTensor *given,
                                            int code, const struct dn_tensor *wanted) {
  char one[200], other[200], whose[400];
  (void)snprintf(whose, sizeof(whose), "%s of dnnl_json %.300s, argument %d", to->what,
                 to->graph->symbol, i);
  if (!given)
    return mb_fail_argument(MB_ARGUMENT_TYPE, "%s: " MB_TEXT_EXPECTED, whose, "a tensor",
                            mb_type_code_name(code));
  if (!mb_is_device_of(MB_DEVICES_HOST, (int)given->device.device_type))
    return mb_fail_argument(MB_ARGUMENT_TYPE, "%s: " MB_TEXT_DEVICE, whose,
                            (int)given->device.device_type);
  if (!same_type(given->dtype, wanted->given) || !same_shape(given, wanted))
    return mb_fail_argument(
        same_type(given->dtype, wanted->given) ? MB_ARGUMENT_VALUE : MB_ARGUMENT_DTYPE,
        "%s: " MB_TEXT_EXPECTED, whose, dn_tensor_text(wanted, one, sizeof(one)),
        describe_given(given, other, sizeof(other)));
  return mb_fail_argument(given->data ? MB_ARGUMENT_VALUE : MB_ARGUMENT_TYPE,
                          given->data ? "%s: " MB_TEXT_COMPACT : "%s: " MB_TEXT_NO_DATA, whose);
}

/* The address of argument `i`'s first element, when it is the tensor that is wanted there. */
static inline int address_of(const struct receiver *to, int i, TVMValue value, int code,
                             const struct dn_tensor *wanted, void **out) {
  const DLTensor *given =
      code == kTVMNDArrayHandle || code == kTVMDLTensorHandle ? value.v_handle : NULL;
  if (!given || !mb_is_device_of(MB_DEVICES_HOST, (int)given->device.device_type) ||
      !same_type(given->dtype, wanted->given) || !same_shape(given, wanted) ||
      !mb_is_compact(given) || !given->data)
    return refuse(to, i, given, code, wanted);
  *out = (char *)given->data + given->byte_offset;
  return MBLOB_OK;
}

/* ---- what is packed ---- */

/* What an import has packed for this library and this processor, NULL if nothing. A mblob_status: what is
 * packed may be damaged. */
static int find_packed(const struct module *m, const struct dn_library *library,
                       const struct dn_packed **out) {
  const mblob_host *host = mb_plugin_host();
  struct mblob_function *function;
  TVMValue value = {0};
  int code = kTVMNullptr;
  *out = NULL;
  int status = host->module_function(m->itself, DN_PACKED_FUNCTION, 1, &function);
  if (status) return status == MBLOB_E_FORMAT || status == MBLOB_E_MEMORY ? status : MBLOB_OK;
  status = host->function_call(function, NULL, NULL, 0, &value, &code);
  if (!status && code == kTVMOpaqueHandle) *out = dn_packed_that_fits(value.v_handle, library);
  host->function_release(function);
  return status;
}

static int open_packed(const mblob_host *host, const struct mblob_module_info *info, void **self) {
  struct dn_packed *packed;
  (void)host;
  int status = dn_packed_read(info->payload, info->payload_size, &packed);
  *self = packed;
  return status;
}

static int find_packed_function(void *self, const char *name, void **function) {
  *function = strcmp(name, DN_PACKED_FUNCTION) ? NULL : self;
  return MBLOB_OK;
}

static int call_packed(void *self, void *function, const TVMValue *args, const int *codes,
                       int count, void *ret) {
  (void)function, (void)args, (void)codes, (void)count;
  return mb_plugin_host()->return_value(ret, (TVMValue){.v_handle = self}, kTVMOpaqueHandle);
}

/* ---- the functions ---- */

/* The library, and the graph with the types that it computes with; NULL after an error. */
static const struct dn_library *open_library(struct module *m) {
  const struct dn_library *library = dn_library_open();
  if (!library) return NULL;
  mb_lock(&m->lock);
  dn_graph_widen(&m->graph, library);
  mb_unlock(&m->lock);
  return library;
}

/* A constant of a type that is not computed with becomes the plan's, in float32. */
static int widen_constant(struct dn_plan *plan, const struct dn_tensor *tensor, const void *data) {
  size_t number = dn_plan_constant(plan, tensor->bytes);
  if (number == SIZE_MAX) return MBLOB_E_MEMORY;
  dn_convert(data, tensor->given, plan->constants[number].data, tensor->type,
             tensor->bytes / dn_type_size(tensor->type), dn_has_avx2(plan->library));
  return MBLOB_OK;
}

/* The constants as they are given: the plan copies those that it keeps. */
static int lend_constants(const struct module *m, struct dn_plan *plan, const TVMValue *args,
                          const int *codes, int count) {
  const struct dn_graph *graph = &m->graph;
  if ((size_t)count != graph->const_count)
    return mb_fail_argument(MB_ARGUMENT_COUNT,
                            "__init_ of dnnl_json %s: expected %zu constants, found %d",
                            graph->symbol, graph->const_count, count);
  const struct receiver to = {"__init_", graph};
  for (int i = 0; i < count; ++i) {
    const struct dn_tensor *wanted = &graph->tensors[graph->constants[i]];
    void *data;
    int status = address_of(&to, i, args[i], codes[i], wanted, &data);
    if (!status && wanted->given != wanted->type) status = widen_constant(plan, wanted, data);
    if (status) return status;
    if (wanted->given != wanted->type) continue;
    struct dn_constant *constant = dn_plan_grow((void **)&plan->constants, &plan->constant_count,
                                                &plan->constant_capacity, sizeof(*constant));
    if (!constant) return MBLOB_E_MEMORY;
    *constant = (struct dn_constant){.data = data, .size = wanted->bytes};
  }
  return MBLOB_OK;
}

/* With what is packed for it; or, with `text`, the payload of what is reordered is made. */
static int make_plan(const struct module *m, struct dn_plan *plan, char **text, size_t *size) {
  struct dn_packing packing = {.records = text != NULL};
  int status = text ? MBLOB_OK : find_packed(m, plan->library, &packing.packed);
  if (status) return status;
  packing.digests = calloc(m->graph.const_count + 1, sizeof(*packing.digests));
  if (!packing.digests) return mb_fail_memory(m->graph.const_count * sizeof(*packing.digests));
  status = dn_prepare(&m->graph, plan, NULL, &packing);
  if (!status && text) status = dn_packing_write(&packing, plan, text, size);
  dn_packing_free(&packing);
  return status;
}

/* Nothing changes for calls unless all of it went well. */
static int initialize(struct module *m, const TVMValue *args, const int *codes, int count) {
  struct dn_plan plan = {.library = open_library(m)};
  if (!plan.library) return MBLOB_E_LOADER;
  int status = lend_constants(m, &plan, args, codes, count);
  if (!status && m->graph.name_count) {
    status = dn_shapes_replace(&m->shapes, &plan);
    dn_plan_free(&plan);
    return status;
  }
  if (!status) status = make_plan(m, &plan, NULL, NULL);
  if (!status) status = dn_calls_replace(&m->calls, &plan);
  if (status) dn_plan_free(&plan);
  return status;
}

static int prepack(struct module *m, const TVMValue *args, const int *codes, int count, void *ret) {
  struct dn_plan plan = {.library = open_library(m)};
  char *text = NULL;
  size_t size = 0;
  if (!plan.library) return MBLOB_E_LOADER;
  int status = lend_constants(m, &plan, args, codes, count);
  bool open = m->graph.name_count > 0; /* formats are known when a call tells the sizes */
  if (!status && !open) status = make_plan(m, &plan, &text, &size);
  TVMByteArray bytes = {text, size};
  if (!status)
    status = mb_plugin_host()->return_value(ret, (TVMValue){.v_handle = &bytes}, kTVMBytes);
  free(text);
  dn_plan_free(&plan);
  return status;
}

/* ---- primitives ---- */

static int return_primitives(struct module *m, void *ret) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return mb_fail_memory(1);
  if (m->graph.name_count)
    dn_shapes_write(&m->shapes, out);
  else
    dn_calls_write(&m->calls, out);
  int status = fclose(out) ? mb_fail_memory(size) : MBLOB_OK;
  if (!status) status = mb_plugin_host()->return_value(ret, (TVMValue){.v_str = text}, kTVMStr);
  free(text);
  return status;
}

static int profile_primitives(struct module *m, const TVMValue *args, const int *codes, int count) {
  if (count != 1 || (codes[0] != kTVMArgInt && codes[0] != kTVMArgBool))
    return mb_fail_argument(count == 1 ? MB_ARGUMENT_TYPE : MB_ARGUMENT_COUNT,
                            "profile_primitives of dnnl_json %s: expected true or false",
                            m->graph.symbol);
  if (m->graph.name_count)
    dn_shapes_time(&m->shapes, args[0].v_int64 != 0);
  else
    dn_calls_time(&m->calls, args[0].v_int64 != 0);
  return MBLOB_OK;
}

#define FEW_ARGUMENTS 32

static inline size_t tensor_of(const struct dn_graph *graph, size_t argument) {
  return argument < graph->argument_count ? graph->arguments[argument]
                                          : graph->outputs[argument - graph->argument_count];
}

/* The sizes of this call, and addresses as of address_of. */
static int bind_sizes(const struct dn_graph *graph, const TVMValue *args, const int *codes,
                      size_t count, int64_t *values, void **data) {
  const struct receiver to = {"a call", graph};
  for (size_t i = 0; i < graph->argument_count; ++i) {
    const struct dn_tensor *wanted = &graph->tensors[graph->arguments[i]];
    const DLTensor *given =
        codes[i] == kTVMNDArrayHandle || codes[i] == kTVMDLTensorHandle ? args[i].v_handle : NULL;
    if (!wanted->extents) continue;
    if (!given || given->ndim != wanted->rank) return refuse(&to, (int)i, given, codes[i], wanted);
    dn_extents_bind(graph, wanted, given->shape, values);
  }
  int status = MBLOB_OK;
  for (size_t i = 0; i < count && !status; ++i) {
    struct dn_tensor wanted = graph->tensors[tensor_of(graph, i)];
    status = dn_extents_fix(graph, &wanted, values);
    if (!status) status = address_of(&to, (int)i, args[i], codes[i], &wanted, &data[i]);
  }
  return status;
}

static int run(struct module *m, const TVMValue *args, const int *codes, int count) {
  const struct dn_graph *graph = &m->graph;
  size_t expected = graph->argument_count + graph->output_count;
  int status = graph->name_count ? MBLOB_OK : dn_calls_check(&m->calls);
  if (status) return status;
  if ((size_t)count != expected) {
    char which[80];
    (void)snprintf(which, sizeof(which), " (%zu inputs, then %zu outputs)", graph->argument_count,
                   graph->output_count);
    return mb_fail_argument(MB_ARGUMENT_COUNT, "dnnl_json %s: " MB_TEXT_COUNT, graph->symbol,
                            "expected", (int)expected, expected == 1 ? "" : "s", which, count);
  }
  void *few[FEW_ARGUMENTS], **data = few;
  if (expected > FEW_ARGUMENTS && !(data = calloc(expected, sizeof(*data))))
    return mb_fail_memory(expected * sizeof(*data));
  const struct receiver to = {"a call", graph};
  if (graph->name_count) {
    int64_t values[DN_MOST_NAMES] = {0};
    status = bind_sizes(graph, args, codes, expected, values, data);
    if (!status) status = dn_shapes_run(&m->shapes, values, data);
    if (data != few) free(data);
    return status;
  }
  for (size_t i = 0; i < expected && !status; ++i)
    status =
        address_of(&to, (int)i, args[i], codes[i], &graph->tensors[tensor_of(graph, i)], &data[i]);
  if (!status) status = dn_run(&m->calls, data);
  if (data != few) free(data);
  return status;
}

static int call(void *self, void *function, const TVMValue *args, const int *codes, int count,
                void *ret) {
  struct module *m = self;
  const mblob_host *host = mb_plugin_host();
  switch ((enum function)(uintptr_t)function) {
    case GET_SYMBOL: return host->return_value(ret, (TVMValue){.v_str = m->graph.symbol}, kTVMStr);
    case GET_CONST_VARS:
      return host->return_strings(ret, m->graph.const_names, m->graph.const_count);
    case GET_PRIMITIVES: return return_primitives(m, ret);
    case PREPACK: return prepack(m, args, codes, count, ret);
    case PROFILE_PRIMITIVES: return profile_primitives(m, args, codes, count);
    case INIT: {
      int status = initialize(m, args, codes, count);
      return status ? status : host->return_value(ret, (TVMValue){.v_int64 = 0}, kTVMArgInt);
    }
    case RUN: return run(m, args, codes, count);
  }
  return mb_fail(MBLOB_E_NOT_FOUND, "dnnl_json has no such function");
}

static const mblob_runtime runtimes[] = {
    {
        .type_key = MB_KEY_DNNL_JSON,
        .open = open_module,
        .function = find_function,
        .call = call,
        .close = close_module,
    },
    {
        .type_key = DN_PACKED_KEY,
        .open = open_packed,
        .function = find_packed_function,
        .call = call_packed,
        .close = free,
    },
};

MBLOB_PLUGIN(dnnl) = {
    .abi_version = MBLOB_PLUGIN_ABI,
    .struct_size = sizeof(mblob_plugin),
    .name = "dnnl",
    .version = MBLOB_VERSION,
    .type_keys = MB_KEY_DNNL_JSON "," DN_PACKED_KEY,
#ifndef MBLOB_LINKED_DNNL
    .needs =
        "oneDNN 2.6, 2.7 or 3: libdnnl.so.2 or libdnnl.so.3, or the file that MBLOB_DNNL_LIBRARY names",
#endif
    .start = start,
    .describe = describe,
    .runtimes = runtimes,
    .runtime_count = sizeof(runtimes) / sizeof(*runtimes),
};
