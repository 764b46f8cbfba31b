#define _GNU_SOURCE
#include "exec/graph/checked_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "exec/common/common.h"
#include "exec/graph/graph_text.h"

/* A graph in the making. */
struct check {
  const struct mb_graph_text *text;
  struct mb_graph *graph;
};

#define WRONG(...) mb_fail_format("payload", MB_UNKNOWN, MB_UNKNOWN, "graph: " __VA_ARGS__)
/* For what a caller puts the place in front of. */
#define WRONG_HERE(...) mb_fail_format("payload", MB_UNKNOWN, MB_UNKNOWN, __VA_ARGS__)

static unsigned long long long_of(uint64_t n) { return n; }

static const char *node_name(const struct check *c, size_t node) {
  return c->text->nodes[node].name;
}

/* ---- memory ---- */

/* All lists have at least one item, so that NULL means that memory is out. The sizes are those
 * of lists that were read. */
static void *checked_list_of(size_t count, size_t size) { return calloc(count ? count : 1, size); }

static int allocate_graph(struct check *c, const char *json, size_t size) {
  const struct mb_graph_text *t = c->text;
  struct mb_graph *g = c->graph;
  size_t entries = t->storages.count;
  if (t->node_count >= UINT32_MAX || entries >= UINT32_MAX ||
      t->links.count + t->controls.count >= UINT32_MAX)
    return WRONG("more than 2^32 nodes or values");
  g->json = malloc(size + 1);
  g->nodes = checked_list_of(t->node_count, sizeof(*g->nodes));
  g->texts = checked_list_of(2 * t->node_count, sizeof(*g->texts));
  g->entries = checked_list_of(entries, sizeof(*g->entries));
  g->inputs = checked_list_of(t->inputs.count, sizeof(*g->inputs));
  g->outputs = checked_list_of(t->outputs.count / 2, sizeof(*g->outputs));
  g->storage_devices = checked_list_of(entries, sizeof(*g->storage_devices));
  g->storage_ids = checked_list_of(entries, sizeof(*g->storage_ids));
  g->links = checked_list_of(t->links.count / 2 + t->controls.count, sizeof(*g->links));
  g->extents = checked_list_of(t->extents.count, sizeof(*g->extents));
  if (!g->json || !g->nodes || !g->texts || !g->entries || !g->inputs || !g->outputs ||
      !g->storage_devices || !g->storage_ids || !g->links || !g->extents)
    return mb_fail_memory(size);
  if (size) memcpy(g->json, json, size);
  g->json[size] = 0;
  return MBLOB_OK;
}

void mb_graph_free(struct mb_graph *g) {
  mb_map_free(&g->input_names);
  for (size_t i = 0; g->texts && i < 2 * (size_t)g->node_count; i++) free(g->texts[i]);
  free(g->json);
  free(g->nodes);
  free(g->texts);
  free(g->entries);
  free(g->inputs);
  free(g->outputs);
  free(g->storage_devices);
  free(g->storage_ids);
  free(g->links);
  free(g->extents);
  *g = (struct mb_graph){0};
}

/* ---- nodes ---- */

static enum mb_graph_op op_of(const struct mb_text_node *node) {
  if (node->is_input) return MB_GRAPH_INPUT;
  if (strcmp(node->function, "__nop") == 0) return MB_GRAPH_NOP;
  return strcmp(node->function, "__copy") == 0 ? MB_GRAPH_COPY : MB_GRAPH_CALL;
}

/* The entry that [node, output] means; `before`: only nodes before this one may be meant. */
static int find_graph_entry(const struct check *c, const uint64_t *pair, size_t before,
                            uint32_t *out) {
  if (pair[0] >= before)
    return WRONG_HERE("entry [%llu, %llu]: expected a node below %zu", long_of(pair[0]),
                      long_of(pair[1]), before);
  const struct mb_graph_node *node = &c->graph->nodes[pair[0]];
  if (pair[1] >= node->entry_count)
    return WRONG_HERE("entry [%llu, %llu]: node '%s' has %u outputs", long_of(pair[0]),
                      long_of(pair[1]), node->name, node->entry_count);
  *out = node->first_entry + (uint32_t)pair[1];
  return MBLOB_OK;
}

static int check_graph_counts(const struct mb_text_node *from, uint64_t row, uint64_t next) {
  uint64_t outputs = from->is_input ? 1 : from->output_count;
  if (next < row || next - row != outputs)
    return WRONG_HERE("node_row_ptr goes from %llu to %llu, the node has %llu outputs",
                      long_of(row), long_of(next), long_of(outputs));
  if (from->is_input && from->inputs.count)
    return WRONG_HERE("it is an input of the graph and has inputs itself");
  if (!from->is_input && from->input_count != from->inputs.count / 2)
    return WRONG_HERE("num_inputs is %llu, inputs has %zu", long_of(from->input_count),
                      from->inputs.count / 2);
  return MBLOB_OK;
}

/* Entries and nodes that node `i` uses, put at *at of the links. */
static int link_node(struct check *c, size_t i, size_t *at) {
  const struct mb_text_node *from = &c->text->nodes[i];
  struct mb_graph_node *node = &c->graph->nodes[i];
  int status = MBLOB_OK;
  node->inputs = c->graph->links + *at;
  for (size_t k = 0; !status && k < from->inputs.count; k += 2, node->input_count++)
    status = find_graph_entry(c, c->text->links.items + from->inputs.start + k, i,
                              &c->graph->links[(*at)++]);
  node->after = c->graph->links + *at;
  for (size_t k = 0; !status && k < from->after.count; k++, node->after_count++) {
    uint64_t other = c->text->controls.items[from->after.start + k];
    if (other >= i)
      return WRONG_HERE("control_deps has %llu, expected a node before it", long_of(other));
    c->graph->links[(*at)++] = (uint32_t)other;
  }
  return status;
}

static int fill_node(struct check *c, size_t i, size_t *at) {
  const struct mb_text_node *from = &c->text->nodes[i];
  const uint64_t *rows = c->text->rows.items;
  struct mb_graph_node *node = &c->graph->nodes[i];
  int status = check_graph_counts(from, rows[i], rows[i + 1]);
  if (!status) status = link_node(c, i, at);
  if (status) return status;
  node->op = op_of(from);
  node->flatten = from->flatten;
  node->first_entry = (uint32_t)rows[i];
  node->entry_count = (uint32_t)(rows[i + 1] - rows[i]);
  for (uint32_t k = 0; k < node->entry_count; k++)
    c->graph->entries[node->first_entry + k].node = (uint32_t)i;
  return MBLOB_OK;
}

static char *take_away_text(char **text) {
  char *taken = *text;
  *text = NULL;
  return taken;
}

/* The texts of the nodes go from `text` to the graph. */
static int fill_nodes(struct check *c, struct mb_graph_text *text) {
  struct mb_graph *g = c->graph;
  size_t at = 0, entries = text->storages.count;
  int status = MBLOB_OK;
  if (text->rows.count != text->node_count + 1)
    return WRONG("node_row_ptr has %zu numbers, expected %zu, one more than nodes",
                 text->rows.count, text->node_count + 1);
  if (text->rows.items[0] != 0)
    return WRONG("node_row_ptr starts with %llu, expected 0", long_of(text->rows.items[0]));
  if (text->rows.items[text->node_count] != entries)
    return WRONG("node_row_ptr ends with %llu, expected %zu, the number of values in attrs",
                 long_of(text->rows.items[text->node_count]), entries);
  for (size_t i = 0; i < text->node_count; i++)
    if (text->rows.items[i] > entries)
      return WRONG("node %zu '%s': node_row_ptr is %llu, there are %zu values", i, node_name(c, i),
                   long_of(text->rows.items[i]), entries);
  for (size_t i = 0; !status && i < text->node_count; i++) {
    status = fill_node(c, i, &at);
    if (status) {
      char context[128];
      (void)snprintf(context, sizeof(context), "graph: node %zu '%.64s'", i, node_name(c, i));
      mb_error_prefix(context);
      return status;
    }
    g->nodes[i].name = g->texts[2 * i] = take_away_text(&text->nodes[i].name);
    g->nodes[i].function = g->texts[2 * i + 1] = take_away_text(&text->nodes[i].function);
    g->node_count++;
  }
  return status;
}

/* ---- entries ---- */

static int fail_entry(const struct mb_graph *g, uint32_t entry, const char *what) {
  const struct mb_graph_node *node = &g->nodes[g->entries[entry].node];
  return WRONG("node %u '%s', output %u: %s", g->entries[entry].node, node->name,
               entry - node->first_entry, what);
}

static int fill_entry(struct check *c, uint32_t i) {
  const struct mb_graph_text *t = c->text;
  struct mb_graph_entry *e = &c->graph->entries[i];
  uint64_t dtype = t->dtypes.items[i], start = i ? t->shape_ends.items[i - 1] : 0;
  e->dtype = (DLDataType){(uint8_t)dtype, (uint8_t)(dtype >> 8), (uint16_t)(dtype >> 16)};
  e->ndim = (int32_t)(t->shape_ends.items[i] - start);
  e->shape = c->graph->extents + start;
  e->root = i;
  for (uint64_t k = start; k < t->shape_ends.items[i]; k++) {
    if (t->extents.items[k] > INT64_MAX) return fail_entry(c->graph, i, "a dimension above 2^63");
    c->graph->extents[k] = (int64_t)t->extents.items[k];
  }
  const DLTensor tensor = mb_graph_tensor(c->graph, i);
  return mb_tensor_size(&tensor, &e->size)
             ? fail_entry(c->graph, i, "its shape has more bytes than memory can")
             : MBLOB_OK;
}

static int by_value(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

/* Number the storages without gaps. */
static int fill_storages(struct check *c) {
  const struct mb_graph_text *t = c->text;
  struct mb_graph *g = c->graph;
  uint64_t *ids = g->storage_ids;
  if (g->entry_count) memcpy(ids, t->storages.items, g->entry_count * sizeof(*ids));
  qsort(ids, g->entry_count, sizeof(*ids), by_value);
  for (uint32_t i = 0; i < g->entry_count; i++)
    if (i == 0 || ids[i] != ids[i - 1]) ids[g->storage_count++] = ids[i];
  int status = MBLOB_OK;
  for (uint32_t i = 0; !status && i < g->entry_count; i++) {
    const uint64_t *id =
        bsearch(&t->storages.items[i], ids, g->storage_count, sizeof(*ids), by_value);
    g->entries[i].storage = (uint32_t)(id - ids);
    int32_t *device = &g->storage_devices[id - ids];
    uint64_t wanted = t->devices.count ? t->devices.items[i] : 0;
    if (wanted > INT32_MAX || (t->devices.count && !wanted))
      status = fail_entry(g, i, "device_index holds no device type");
    else if (*device && *device != (int32_t)wanted)
      status = fail_entry(g, i, "another device than that of an entry with the same storage_id");
    *device = (int32_t)wanted;
  }
  return status;
}

/* A `__nop` copies nothing, so its output has to be its input. */
static int find_roots(const struct check *c) {
  struct mb_graph *g = c->graph;
  for (uint32_t i = 0; i < g->node_count; i++) {
    const struct mb_graph_node *node = &g->nodes[i];
    if (node->op != MB_GRAPH_NOP && node->op != MB_GRAPH_COPY) continue;
    if (node->entry_count != 1 ||
        (node->op == MB_GRAPH_COPY ? node->input_count != 1 : node->input_count < 1))
      return WRONG("node %u '%s': %s has %u inputs and %u outputs", i, node->name, node->function,
                   node->input_count, node->entry_count);
    struct mb_graph_entry *to = &g->entries[node->first_entry];
    const struct mb_graph_entry *from = &g->entries[node->inputs[0]];
    if (to->size != from->size)
      return WRONG("node %u '%s': %s from %zu bytes to %zu", i, node->name, node->function,
                   from->size, to->size);
    if (node->op == MB_GRAPH_COPY) continue;
    if (to->storage != from->storage)
      return WRONG("node %u '%s': __nop, but the storage of its output is not that of its input", i,
                   node->name);
    to->root = from->root;
  }
  return MBLOB_OK;
}

static int fill_entries(struct check *c) {
  const struct mb_graph_text *t = c->text;
  struct mb_graph *g = c->graph;
  const size_t count = t->storages.count;
  if (t->dtypes.count != count || t->shape_ends.count != count ||
      (t->devices.count && t->devices.count != count) ||
      (t->scopes.count && t->scopes.count != count))
    return WRONG(
        "attrs: %zu storage ids, %zu types, %zu shapes, %zu devices, %zu storage scopes; expected one of each per value",
        count, t->dtypes.count, t->shape_ends.count, t->devices.count, t->scopes.count);
  g->entry_count = (uint32_t)count;
  int status = MBLOB_OK;
  for (uint32_t i = 0; !status && i < g->entry_count; i++) status = fill_entry(c, i);
  if (!status) status = fill_storages(c);
  return status ? status : find_roots(c);
}

/* ---- inputs and outputs ---- */

static int fill_inputs(struct check *c) {
  struct mb_graph *g = c->graph;
  const struct mb_numbers *nodes = &c->text->inputs;
  for (; g->input_count < nodes->count; g->input_count++) {
    uint64_t node = nodes->items[g->input_count];
    if (node >= g->node_count || g->nodes[node].op != MB_GRAPH_INPUT)
      return WRONG("arg_nodes[%u] is %llu, which is no input node", g->input_count, long_of(node));
    g->inputs[g->input_count] = g->nodes[node].first_entry;
    if (mb_map_get(&g->input_names, g->nodes[node].name))
      return WRONG("arg_nodes[%u] is node %llu '%.64s', which stands there before", g->input_count,
                   long_of(node), g->nodes[node].name);
    if (!mb_map_put(&g->input_names, g->nodes[node].name, &g->inputs[g->input_count]))
      return MBLOB_E_MEMORY;
  }
  for (uint32_t i = 0; i < g->node_count; i++) /* nobody could ever set it */
    if (g->nodes[i].op == MB_GRAPH_INPUT && !mb_map_get(&g->input_names, g->nodes[i].name))
      return WRONG("node %u '%.64s' is an input of the graph, and arg_nodes lacks it", i,
                   g->nodes[i].name);
  return MBLOB_OK;
}

static int fill_outputs(struct check *c) {
  struct mb_graph *g = c->graph;
  const struct mb_numbers *heads = &c->text->outputs;
  if (!heads->count) return WRONG("heads is empty: the graph has no output");
  for (; g->output_count < heads->count / 2; g->output_count++) {
    char context[64];
    int status = find_graph_entry(c, heads->items + 2 * (size_t)g->output_count, g->node_count,
                                  &g->outputs[g->output_count]);
    if (!status) continue;
    (void)snprintf(context, sizeof(context), "graph: heads[%u]", g->output_count);
    mb_error_prefix(context);
    return status;
  }
  return MBLOB_OK;
}

/* Inputs, outputs and nodes are asked for by name. */
static int check_names(const struct mb_graph *g) {
  struct mb_map seen = {0};
  int status = MBLOB_OK;
  for (uint32_t i = 0; !status && i < g->node_count; i++) {
    struct mb_graph_node *other = mb_map_get(&seen, g->nodes[i].name);
    if (other)
      status = WRONG("nodes %u and %u have one name, '%.64s'", (uint32_t)(other - g->nodes), i,
                     other->name);
    else if (!mb_map_put(&seen, g->nodes[i].name, &g->nodes[i]))
      status = MBLOB_E_MEMORY;
  }
  mb_map_free(&seen);
  return status;
}

int mb_graph_read(const char *json, size_t size, struct mb_graph *out) {
  struct mb_graph_text text;
  struct check c = {&text, out};
  *out = (struct mb_graph){0};
  int status = mb_graph_text_read(json, size, &text);
  if (status) return status;
  status = allocate_graph(&c, json, size);
  if (!status) status = fill_nodes(&c, &text);
  if (!status) status = fill_entries(&c);
  if (!status) status = check_names(out);
  if (!status) status = fill_inputs(&c);
  if (!status) status = fill_outputs(&c);
  mb_graph_text_free(&text);
  if (status) mb_graph_free(out);
  return status;
}

/* ---- asking ---- */

DLTensor mb_graph_tensor(const struct mb_graph *g, uint32_t entry) {
  const struct mb_graph_entry *e = &g->entries[entry];
  return (DLTensor){.device = {kDLCPU, 0},
                    .ndim = e->ndim,
                    .dtype = e->dtype,
                    .shape = (int64_t *)(uintptr_t)e->shape}; /* DLTensor has no const */
}

int64_t mb_graph_find_input(const struct mb_graph *g, const char *name) {
  const uint32_t *found = mb_map_get(&g->input_names, name);
  return found ? found - g->inputs : -1;
}

int64_t mb_graph_find_output(const struct mb_graph *g, const char *name) {
  const char *colon = strrchr(name, ':');
  int64_t found = -1;
  for (uint32_t i = g->output_count; i-- > 0;) {
    const char *node = g->nodes[g->entries[g->outputs[i]].node].name;
    char position[16];
    (void)snprintf(position, sizeof(position), ":%u", i);
    if (colon && strcmp(colon, position) == 0 && strlen(node) == (size_t)(colon - name) &&
        memcmp(node, name, (size_t)(colon - name)) == 0)
      return i;
    if (strcmp(node, name) == 0) found = i;
  }
  return found;
}
