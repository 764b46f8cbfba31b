/* graph.c - the payload of a dnnl_json module: its parts, and what must hold between them. The
 * JSON is read in graph_json.c. */
#define _GNU_SOURCE
#include "graph.h"

#include <stdio.h>
#include <string.h>

#include "common.h"
#include "extents.h"
#include "graph_json.h"

const char *dn_type_name(enum dn_type type) {
  static const char *const names[] = {"",      "float16", "bfloat16", "float32",
                                      "int32", "int8",    "uint8"};
  return names[type];
}

uint64_t dn_tensor_bytes(const struct dn_tensor *tensor) {
  uint64_t bytes = dn_type_size(tensor->type);
  for (int i = 0; i < tensor->rank; ++i) {
    if (tensor->dims[i] < 1 || bytes > (uint64_t)INT64_MAX / (uint64_t)tensor->dims[i]) return 0;
    bytes *= (uint64_t)tensor->dims[i];
  }
  return bytes;
}

const char *dn_tensor_text(const struct dn_tensor *tensor, char *text, size_t size) {
  size_t used = (size_t)snprintf(text, size, "%s[", dn_type_name(tensor->given));
  for (int i = 0; i < tensor->rank && used < size; ++i)
    used += (size_t)(tensor->dims[i] || !tensor->extents
                         ? snprintf(text + used, size - used, "%s%lld", i ? ", " : "",
                                    (long long)tensor->dims[i])
                         : snprintf(text + used, size - used, "%s%s", i ? ", " : "",
                                    tensor->extents[i]));
  if (used < size) (void)snprintf(text + used, size - used, "]");
  return text;
}

/* ---- numbers of nodes become tensors ---- */

/* The tensor that [node, output] names; `limit` nodes may be named. */
static int tensor_of(const struct dn_graph *graph, const struct dn_reference *reference,
                     size_t limit, const char *who, size_t *out) {
  if (reference->node >= limit)
    return mb_fail(MBLOB_E_FORMAT, "dnnl_json %s: %s names node %llu, expected one below %zu",
                   graph->symbol, who, (unsigned long long)reference->node, limit);
  const struct dn_node *node = &graph->nodes[reference->node];
  if (reference->output >= node->tensor_count)
    return mb_fail(MBLOB_E_FORMAT,
                   "dnnl_json %s: %s names output %llu of node %llu `%s`, which has %zu",
                   graph->symbol, who, (unsigned long long)reference->output,
                   (unsigned long long)reference->node, node->name, node->tensor_count);
  *out = node->first_tensor + (size_t)reference->output;
  return MBLOB_OK;
}

static int connect_nodes(struct dn_graph *graph, const struct dn_json_graph *json) {
  for (size_t n = 0; n < graph->node_count; ++n) {
    struct dn_node *node = &graph->nodes[n];
    const struct dn_json_node *from = &json->nodes[n];
    if (node->role != DN_KERNEL && from->references.count)
      return dn_fail_node(graph, node, MBLOB_E_FORMAT, "only a kernel has inputs");
    node->input_count = from->references.count;
    node->inputs = dn_pool_take(&graph->pool, node->input_count, sizeof(*node->inputs));
    if (!node->inputs) return MBLOB_E_MEMORY;
    for (size_t i = 0; i < node->input_count; ++i) {
      char who[64];
      (void)snprintf(who, sizeof(who), "input %zu of node %zu", i, n);
      int status = tensor_of(graph, &from->references.items[i], n, who, &node->inputs[i]);
      if (status) return status; /* n as the limit: no cycles */
    }
  }
  return MBLOB_OK;
}

static int find_outputs(struct dn_graph *graph, const struct dn_json_graph *json) {
  graph->output_count = json->heads.count;
  graph->outputs = dn_pool_take(&graph->pool, graph->output_count, sizeof(*graph->outputs));
  if (!graph->outputs) return MBLOB_E_MEMORY;
  for (size_t i = 0; i < graph->output_count; ++i) {
    char who[48];
    (void)snprintf(who, sizeof(who), "head %zu", i);
    int status =
        tensor_of(graph, &json->heads.items[i], graph->node_count, who, &graph->outputs[i]);
    if (status) return status;
  }
  if (graph->output_count) return MBLOB_OK;
  return mb_fail(MBLOB_E_FORMAT, "dnnl_json %s: the graph has no heads: nothing to compute",
                 graph->symbol);
}

static int add_argument(struct dn_graph *graph, size_t node_number, bool *seen) {
  if (node_number >= graph->node_count || graph->nodes[node_number].role == DN_KERNEL)
    return mb_fail(MBLOB_E_FORMAT,
                   "dnnl_json %s: arg_nodes names node %zu, which is no input and no const",
                   graph->symbol, node_number);
  if (seen[node_number])
    return mb_fail(MBLOB_E_FORMAT, "dnnl_json %s: arg_nodes names node %zu twice", graph->symbol,
                   node_number);
  seen[node_number] = true;
  const struct dn_node *node = &graph->nodes[node_number];
  for (size_t i = 0; i < node->tensor_count && node->role == DN_INPUT; ++i)
    graph->arguments[graph->argument_count++] = node->first_tensor + i;
  if (node->role == DN_INPUT) return MBLOB_OK;
  if (node->tensor_count != 1)
    return dn_fail_node(graph, node, MBLOB_E_FORMAT, "a const has %zu tensors, expected 1",
                        node->tensor_count);
  for (size_t i = 0; i < graph->const_count; ++i)
    if (!strcmp(graph->const_names[i], node->name)) graph->constants[i] = node->first_tensor;
  return MBLOB_OK;
}

/* Inputs in the order of arg_nodes; constants by name, as the payload lists them. */
static int find_arguments(struct dn_graph *graph, const struct dn_json_graph *json) {
  bool *seen = dn_pool_take(&graph->pool, graph->node_count, sizeof(*seen));
  graph->arguments = dn_pool_take(&graph->pool, graph->tensor_count, sizeof(*graph->arguments));
  graph->constants = dn_pool_take(&graph->pool, graph->const_count, sizeof(*graph->constants));
  if (!seen || !graph->arguments || !graph->constants) return MBLOB_E_MEMORY;
  for (size_t i = 0; i < graph->const_count; ++i) graph->constants[i] = SIZE_MAX;
  for (size_t i = 0; i < json->arg_nodes.count; ++i) {
    int status = add_argument(graph, (size_t)json->arg_nodes.items[i], seen);
    if (status) return status;
  }
  for (size_t i = 0; i < graph->const_count; ++i)
    if (graph->constants[i] == SIZE_MAX)
      return mb_fail(MBLOB_E_FORMAT,
                     "dnnl_json %s: no const node of arg_nodes is called `%s`, as the payload says",
                     graph->symbol, graph->const_names[i]);
  for (size_t n = 0; n < graph->node_count; ++n) {
    const struct dn_node *node = &graph->nodes[n];
    bool known = node->role != DN_CONST;
    for (size_t i = 0; i < graph->const_count && !known; ++i)
      known = graph->constants[i] == node->first_tensor;
    if (!known)
      return dn_fail_node(graph, node, MBLOB_E_FORMAT, "no constant of the payload has this name");
    if (node->role != DN_KERNEL && !seen[n])
      return dn_fail_node(graph, node, MBLOB_E_FORMAT, "the node is not in arg_nodes");
  }
  return MBLOB_OK;
}

static int take_nodes(struct dn_graph *graph, const struct dn_json_graph *json) {
  graph->json_has_symbol = json->has_symbol;
  graph->node_count = json->node_count;
  graph->nodes = dn_pool_take(&graph->pool, graph->node_count, sizeof(*graph->nodes));
  if (!graph->nodes) return MBLOB_E_MEMORY;
  for (size_t n = 0; n < graph->node_count; ++n) graph->tensor_count += json->nodes[n].tensor_count;
  graph->tensors = dn_pool_take(&graph->pool, graph->tensor_count, sizeof(*graph->tensors));
  if (!graph->tensors) return MBLOB_E_MEMORY;
  size_t next = 0;
  for (size_t n = 0; n < graph->node_count; ++n) {
    const struct dn_json_node *from = &json->nodes[n];
    graph->nodes[n] = (struct dn_node){.role = from->role,
                                       .name = from->name,
                                       .first_tensor = next,
                                       .tensor_count = from->tensor_count,
                                       .attributes = from->attributes,
                                       .attribute_count = from->attribute_count};
    for (size_t i = 0; i < from->tensor_count; ++i, ++next) {
      graph->tensors[next] = from->tensors[i];
      graph->tensors[next].node = n;
    }
    if (n < json->row_pointers.count && json->row_pointers.items[n] != graph->nodes[n].first_tensor)
      return dn_fail_node(graph, &graph->nodes[n], MBLOB_E_FORMAT,
                          "node_row_ptr says %llu, and its shapes make it %zu",
                          (unsigned long long)json->row_pointers.items[n],
                          graph->nodes[n].first_tensor);
  }
  return MBLOB_OK;
}

/* ---- the payload ---- */

static char *read_text(struct dn_graph *graph, struct mb_cursor *c, const char *what) {
  struct mb_slice slice;
  if (!mb_read_string(c, &slice, what)) return NULL;
  if (memchr(slice.data, 0, mb_size(slice.size))) {
    (void)mb_fail(MBLOB_E_FORMAT, "dnnl_json: %s has a zero byte", what);
    return NULL;
  }
  return dn_pool_text(&graph->pool, slice.data, mb_size(slice.size));
}

static int read_names(struct dn_graph *graph, struct mb_cursor *c) {
  uint64_t count;
  if (!mb_read_count(c, &count, 8, "the names of constants")) return MBLOB_E_FORMAT;
  graph->const_names = dn_pool_take(&graph->pool, mb_size(count), sizeof(*graph->const_names));
  if (!graph->const_names) return MBLOB_E_MEMORY;
  for (; graph->const_count < count; ++graph->const_count)
    if (!(graph->const_names[graph->const_count] = read_text(graph, c, "the name of a constant")))
      return MBLOB_E_FORMAT;
  return MBLOB_OK;
}

int dn_graph_read(struct dn_graph *graph, const void *payload, uint64_t size) {
  struct mb_cursor c = {payload, 0, size, MB_UNKNOWN};
  struct dn_json_graph json = {0};
  struct mb_slice text;
  *graph = (struct dn_graph){0};
  graph->symbol = read_text(graph, &c, "the symbol of dnnl_json");
  if (!graph->symbol || !mb_read_string(&c, &text, "the graph of dnnl_json")) return MBLOB_E_FORMAT;
  int status = read_names(graph, &c);
  if (status) return status;
  if (mb_left(&c))
    return mb_fail(MBLOB_E_FORMAT, "dnnl_json %s: %llu bytes follow the end of the payload",
                   graph->symbol, (unsigned long long)mb_left(&c));
  if ((status = dn_json_read(&json, &graph->pool, graph->symbol, text)) ||
      (status = take_nodes(graph, &json)) || (status = connect_nodes(graph, &json)) ||
      (status = find_outputs(graph, &json)))
    return status;
  status = find_arguments(graph, &json);
  return status ? status : dn_extents_read(graph);
}

void dn_graph_free(struct dn_graph *graph) { dn_pool_free(&graph->pool); }
