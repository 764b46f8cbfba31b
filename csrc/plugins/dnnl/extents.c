#include "extents.h"

#include <stdlib.h>
#include <string.h>

#include "common.h"

#define DEEPEST 32 /* operands that wait, in a computation */

static bool is_name(const char *text) {
  if (!((*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') || *text == '_'))
    return false;
  return text[strcspn(text, " ")] == '\0';
}

/* The number of a name, SIZE_MAX: there is none. */
static size_t find(const struct dn_graph *graph, const char *name, size_t length) {
  for (size_t i = 0; i < graph->name_count; ++i)
    if (!strncmp(graph->names[i], name, length) && !graph->names[i][length]) return i;
  return SIZE_MAX;
}

static int64_t floor_divided(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* Left OP right; false for a number outside 64 bits, or a division by zero. */
static bool apply(char op, int64_t left, int64_t right, int64_t *out) {
  switch (op) {
    case '+': return !__builtin_add_overflow(left, right, out);
    case '-': return !__builtin_sub_overflow(left, right, out);
    case '*': return !__builtin_mul_overflow(left, right, out);
    case '<': *out = left < right ? left : right; return true;
    case '>': *out = left > right ? left : right; return true;
    default: break;
  }
  if ((op != '/' && op != '%') || !right || (right == -1 && left == INT64_MIN)) return false;
  *out = floor_divided(left, right);
  if (op == '%') *out = left - *out * right;
  return true;
}

/* values NULL: only whether it is a computation with names that are known. */
static bool compute(const struct dn_graph *graph, const char *text, const int64_t *values,
                    int64_t *out) {
  int64_t waiting[DEEPEST];
  size_t count = 0;
  while (*text) {
    size_t length = strcspn(text, " ");
    char *end;
    int64_t number = strtoll(text, &end, 10);
    size_t name = find(graph, text, length);
    if (length == 1 && strchr("+-*/%<>", *text)) {
      if (count < 2) return false;
      --count;
      if (!values)
        waiting[count - 1] = 1;
      else if (!apply(*text, waiting[count - 1], waiting[count], &waiting[count - 1]))
        return false;
    } else {
      bool is_number = end == text + length;
      if (count == DEEPEST || (!is_number && name == SIZE_MAX)) return false;
      waiting[count++] = is_number ? number : values ? values[name] : 1;
    }
    text += length;
    text += strspn(text, " ");
  }
  if (count != 1) return false;
  *out = waiting[0];
  return true;
}

static int add_name(struct dn_graph *graph, const char *name) {
  if (find(graph, name, strlen(name)) != SIZE_MAX) return MBLOB_OK;
  if (graph->name_count == DN_MOST_NAMES)
    return mb_fail(MBLOB_E_FORMAT, "dnnl_json %s: more than %d names of dimensions", graph->symbol,
                   DN_MOST_NAMES);
  if (!graph->names &&
      !(graph->names = dn_pool_take(&graph->pool, DN_MOST_NAMES, sizeof(*graph->names))))
    return MBLOB_E_MEMORY;
  graph->names[graph->name_count++] = name;
  return MBLOB_OK;
}

int dn_extents_read(struct dn_graph *graph) {
  int status = MBLOB_OK;
  for (size_t i = 0; i < graph->argument_count && !status; ++i) {
    const struct dn_tensor *tensor = &graph->tensors[graph->arguments[i]];
    for (int k = 0; k < tensor->rank && tensor->extents && !status; ++k)
      if (tensor->extents[k] && is_name(tensor->extents[k]))
        status = add_name(graph, tensor->extents[k]);
  }
  for (size_t i = 0; i < graph->tensor_count && !status; ++i) {
    const struct dn_tensor *tensor = &graph->tensors[i];
    const struct dn_node *node = &graph->nodes[tensor->node];
    int64_t unused;
    for (int k = 0; k < tensor->rank && tensor->extents && !status; ++k) {
      if (!tensor->extents[k]) continue;
      if (node->role == DN_CONST)
        status = dn_fail_node(graph, node, MBLOB_E_FORMAT,
                              "a constant needs fixed dimensions, found `%s`", tensor->extents[k]);
      else if (!graph->name_count || !compute(graph, tensor->extents[k], NULL, &unused))
        status = dn_fail_node(
            graph, node, MBLOB_E_FORMAT,
            "dimension `%s`: expected names of input dimensions, numbers and operators in postfix order",
            tensor->extents[k]);
    }
  }
  return status;
}

void dn_extents_bind(const struct dn_graph *graph, const struct dn_tensor *tensor,
                     const int64_t *shape, int64_t *values) {
  for (int i = 0; i < tensor->rank && tensor->extents; ++i) {
    if (!tensor->extents[i]) continue;
    size_t name = find(graph, tensor->extents[i], strlen(tensor->extents[i]));
    if (name != SIZE_MAX && !values[name]) values[name] = shape[i];
  }
}

int dn_extents_fix(const struct dn_graph *graph, struct dn_tensor *tensor, const int64_t *values) {
  if (!tensor->extents) return MBLOB_OK;
  for (int i = 0; i < tensor->rank; ++i)
    if (tensor->extents[i] &&
        (!compute(graph, tensor->extents[i], values, &tensor->dims[i]) || tensor->dims[i] < 1))
      return dn_fail_node(graph, &graph->nodes[tensor->node], MBLOB_E_ARGUMENT,
                          "the dimension `%s` is below 1 for these inputs, or outside 64 bits",
                          tensor->extents[i]);
  tensor->bytes = dn_tensor_bytes(tensor);
  return tensor->bytes ? MBLOB_OK
                       : dn_fail_node(graph, &graph->nodes[tensor->node], MBLOB_E_ARGUMENT,
                                      "for these inputs it has 2^63 bytes or more");
}
