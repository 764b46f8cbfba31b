/* attributes.c - what a node's attributes say, as numbers; texts in TVM's JSON, all of them. */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "graph.h"

int dn_fail_node(const struct dn_graph *graph, const struct dn_node *node, int status,
                 const char *format, ...) {
  char *text = NULL;
  va_list args;
  va_start(args, format);
  if (vasprintf(&text, format, args) < 0) text = NULL;
  va_end(args);
  status = mb_fail(status, "dnnl_json %s, node %zu `%s`: %s", graph->symbol ? graph->symbol : "",
                   (size_t)(node - graph->nodes), node->name ? node->name : "",
                   text ? text : MB_TEXT_NO_MEMORY);
  free(text);
  return status;
}

static const struct dn_attribute *find(const struct dn_node *node, const char *name) {
  for (size_t i = 0; i < node->attribute_count; ++i)
    if (!strcmp(node->attributes[i].name, name)) return &node->attributes[i];
  return NULL;
}

bool dn_has_attribute(const struct dn_node *node, const char *name) {
  return find(node, name) != NULL;
}

size_t dn_count_texts(const struct dn_node *node, const char *name) {
  const struct dn_attribute *found = find(node, name);
  return found && found->values ? found->count : 0;
}

static int get(const struct dn_graph *graph, const struct dn_node *node, const char *name,
               const struct dn_attribute **out) {
  const struct dn_attribute *found = find(node, name);
  if (!found) return dn_fail_node(graph, node, MBLOB_E_FORMAT, "the attribute %s is missing", name);
  if (!found->values)
    return dn_fail_node(graph, node, MBLOB_E_FORMAT,
                        "the attribute %s is no text and no list of texts", name);
  *out = found;
  return MBLOB_OK;
}

int dn_get_texts(const struct dn_graph *graph, const struct dn_node *node, const char *name,
                 size_t count, const char **out) {
  const struct dn_attribute *found;
  int status = get(graph, node, name, &found);
  if (status) return status;
  if (found->count != count)
    return dn_fail_node(graph, node, MBLOB_E_FORMAT,
                        "the attribute %s has %zu values, expected %zu", name, found->count, count);
  for (size_t i = 0; i < count; ++i) out[i] = found->values[i];
  return MBLOB_OK;
}

int dn_get_text(const struct dn_graph *graph, const struct dn_node *node, const char *name,
                const char **out) {
  return dn_get_texts(graph, node, name, 1, out);
}

int dn_get_layout(const struct dn_graph *graph, const struct dn_node *node, const char *name,
                  size_t input, const char *const defaults[3], const char **out) {
  *out = "";
  if (!defaults && !dn_has_attribute(node, name)) return MBLOB_OK;
  if (input < node->input_count && !dn_has_attribute(node, name)) {
    int rank = graph->tensors[node->inputs[input]].rank;
    if (rank >= 3 && rank <= 5) {
      *out = defaults[rank - 3];
      return MBLOB_OK;
    }
  }
  return dn_get_text(graph, node, name, out);
}

static int parse_int(const struct dn_graph *graph, const struct dn_node *node, const char *name,
                     const char *text, int64_t lowest, int64_t *out) {
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (errno || end == text || *end)
    return dn_fail_node(graph, node, MBLOB_E_FORMAT,
                        "the attribute %s is `%s`, expected a whole number", name, text);
  if (value < lowest || value > INT32_MAX)
    return dn_fail_node(graph, node, MBLOB_E_FORMAT,
                        "the attribute %s is %lld, expected %lld to %d", name, value,
                        (long long)lowest, INT32_MAX);
  *out = value;
  return MBLOB_OK;
}

int dn_get_ints(const struct dn_graph *graph, const struct dn_node *node, const char *name,
                size_t count, int64_t lowest, int64_t *out) {
  const char *texts[DN_MAX_RANK * 2];
  int status = dn_get_texts(graph, node, name, count, texts);
  for (size_t i = 0; i < count && !status; ++i)
    status = parse_int(graph, node, name, texts[i], lowest, &out[i]);
  return status;
}

int dn_get_int(const struct dn_graph *graph, const struct dn_node *node, const char *name,
               int64_t lowest, int64_t *out) {
  return dn_get_ints(graph, node, name, 1, lowest, out);
}

int dn_get_float(const struct dn_graph *graph, const struct dn_node *node, const char *name,
                 float *out) {
  const char *text = "";
  char *end;
  int status = dn_get_text(graph, node, name, &text);
  if (status) return status;
  double value = strtod(text, &end);
  if (end == text || *end || isnan(value))
    return dn_fail_node(graph, node, MBLOB_E_FORMAT, "the attribute %s is `%s`, expected a number",
                        name, text);
  *out = (float)value;
  return MBLOB_OK;
}

int dn_get_bool(const struct dn_graph *graph, const struct dn_node *node, const char *name,
                bool *out) {
  int64_t value;
  int status = dn_get_int(graph, node, name, 0, &value);
  if (!status && value > 1)
    return dn_fail_node(graph, node, MBLOB_E_FORMAT, "the attribute %s is %lld, expected 0 or 1",
                        name, (long long)value);
  *out = !status && value;
  return status;
}

int dn_get_padding(const struct dn_graph *graph, const struct dn_node *node, size_t axes,
                   int64_t *before, int64_t *after) {
  int64_t numbers[DN_MAX_RANK * 2];
  const struct dn_attribute *found;
  int status = get(graph, node, "padding", &found);
  if (status) return status;
  size_t count = found->count;
  if (count != 1 && count != axes && count != 2 * axes)
    return dn_fail_node(graph, node, MBLOB_E_FORMAT,
                        "the attribute padding has %zu values, expected 1, %zu or %zu", count, axes,
                        2 * axes);
  status = dn_get_ints(graph, node, "padding", count, 0, numbers);
  for (size_t i = 0; i < axes && !status; ++i) {
    before[i] = numbers[count == 1 ? 0 : i];
    after[i] = numbers[count == 1 ? 0 : count == axes ? i : axes + i];
  }
  return status;
}

int dn_get_input_index(const struct dn_graph *graph, const struct dn_node *node, const char *name,
                       size_t *out) {
  int64_t index;
  int status = dn_get_int(graph, node, name, 0, &index);
  if (status) return status;
  if ((uint64_t)index >= node->input_count)
    return dn_fail_node(graph, node, MBLOB_E_FORMAT,
                        "the attribute %s is %lld, and the node has %zu inputs", name,
                        (long long)index, node->input_count);
  *out = node->inputs[index];
  return MBLOB_OK;
}
