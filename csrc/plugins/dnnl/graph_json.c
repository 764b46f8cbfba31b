#include "graph_json.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "common.h"

struct reader {
  struct mb_json j;
  struct dn_pool *pool;
  struct dn_json_graph *out;
};

/* Room for one more item: a new piece of the pool twice as large, the old one is left to it. */
static bool grow(struct reader *r, void **items, size_t count, size_t *capacity, size_t item) {
  if (count < *capacity) return true;
  size_t wanted = *capacity ? *capacity * 2 : 8;
  void *fresh = dn_pool_take(r->pool, wanted, item);
  if (!fresh) return mb_json_fail(&r->j, MB_TEXT_NO_MEMORY);
  if (count) memcpy(fresh, *items, count * item);
  *items = fresh;
  *capacity = wanted;
  return true;
}

static bool read_text(struct reader *r, char **out) {
  struct mb_slice slice;
  if (!mb_json_string(&r->j, &slice)) return false;
  char *decoded = mb_json_text(slice);
  if (!decoded) return mb_json_fail(&r->j, MB_TEXT_WRONG_ESCAPE);
  *out = dn_pool_text(r->pool, decoded, strlen(decoded));
  free(decoded);
  return *out || mb_json_fail(&r->j, MB_TEXT_NO_MEMORY);
}

static bool read_numbers(struct reader *r, struct dn_numbers *list) {
  if (!mb_json_begin_array(&r->j)) return false;
  while (mb_json_next_element(&r->j))
    if (!grow(r, (void **)&list->items, list->count, &list->capacity, sizeof(*list->items)) ||
        !mb_json_uint(&r->j, &list->items[list->count++]))
      return false;
  return !r->j.error;
}

/* [[node, output, version], ...]; the version is not used. */
static bool read_references(struct reader *r, struct dn_references *list) {
  if (!mb_json_begin_array(&r->j)) return false;
  while (mb_json_next_element(&r->j)) {
    struct dn_numbers parts = {0};
    if (!grow(r, (void **)&list->items, list->count, &list->capacity, sizeof(*list->items)) ||
        !read_numbers(r, &parts))
      return false;
    if (parts.count < 2 || parts.count > 3)
      return mb_json_fail(&r->j, "an entry is [node, output, version]");
    list->items[list->count++] = (struct dn_reference){parts.items[0], parts.items[1]};
  }
  return !r->j.error;
}

/* ---- attributes ---- */

/* A dimension that only a call tells. */
static bool read_extent(struct reader *r, struct dn_tensor *tensor) {
  char *text;
  if (!tensor->extents &&
      !(tensor->extents = dn_pool_take(r->pool, DN_MAX_RANK, sizeof(*tensor->extents))))
    return mb_json_fail(&r->j, MB_TEXT_NO_MEMORY);
  if (!read_text(r, &text)) return false;
  tensor->dims[tensor->rank] = 0;
  tensor->extents[tensor->rank++] = text;
  return true;
}

static bool read_dims(struct reader *r, struct dn_tensor *tensor) {
  if (!mb_json_begin_array(&r->j)) return false;
  tensor->rank = 0;
  while (mb_json_next_element(&r->j)) {
    uint64_t extent = 0; /* of a negative one, too */
    bool open = mb_json_peek(&r->j) == '"';
    if (!open && mb_json_peek(&r->j) != '-' && !mb_json_uint(&r->j, &extent)) return false;
    if (tensor->rank == DN_MAX_RANK)
      return mb_json_fail(&r->j, "a shape of more than 12 dimensions");
    if (open) {
      if (!read_extent(r, tensor)) return false;
      continue;
    }
    if (extent < 1) return mb_json_fail(&r->j, "a dimension below 1: shapes must be known");
    if (extent > INT64_MAX) return mb_json_fail(&r->j, "a number outside 64 bits");
    tensor->dims[tensor->rank++] = (int64_t)extent;
  }
  if (!r->j.error && !tensor->rank) tensor->dims[tensor->rank++] = 1;
  return !r->j.error;
}

/* [[[1, 3], ...]]: one shape for each output. */
static bool read_shapes(struct reader *r, struct dn_json_node *node) {
  size_t capacity = 0;
  if (node->tensor_count) return mb_json_fail(&r->j, "the attribute shape twice");
  if (!mb_json_begin_array(&r->j)) return false;
  while (mb_json_next_element(&r->j)) {
    if (!mb_json_begin_array(&r->j)) return false;
    while (mb_json_next_element(&r->j)) {
      if (!grow(r, (void **)&node->tensors, node->tensor_count, &capacity,
                sizeof(*node->tensors)) ||
          !read_dims(r, &node->tensors[node->tensor_count++]))
        return false;
    }
  }
  return !r->j.error;
}

static enum dn_type type_of(const char *name) {
  for (enum dn_type type = DN_F16; type <= DN_U8; ++type)
    if (!strcmp(dn_type_name(type), name)) return type;
  return DN_NO_TYPE;
}

struct texts {
  char **items;
  size_t count, capacity;
};

static bool add_text(struct reader *r, struct texts *list) {
  return grow(r, (void **)&list->items, list->count, &list->capacity, sizeof(*list->items)) &&
         read_text(r, &list->items[list->count++]);
}

/* "text", ["a", "b"] or [["a", "b"]]: texts. Anything else is passed over, and its attribute has
 * no values. */
static bool read_texts(struct reader *r, struct texts *list, bool *readable) {
  *readable = true;
  if (mb_json_peek(&r->j) == '"') return add_text(r, list);
  if (mb_json_peek(&r->j) != '[') {
    *readable = false;
    return mb_json_skip(&r->j);
  }
  if (!mb_json_begin_array(&r->j)) return false;
  for (int depth = 1; depth;) {
    if (!mb_json_next_element(&r->j)) {
      if (r->j.error) return false;
      --depth;
      continue;
    }
    char c = mb_json_peek(&r->j);
    bool ok;
    if (c == '"') {
      ok = add_text(r, list);
    } else if (c == '[' && depth == 1) {
      ok = mb_json_begin_array(&r->j);
      ++depth;
    } else {
      *readable = false;
      ok = mb_json_skip(&r->j);
    }
    if (!ok) return false;
  }
  return true;
}

static bool read_attributes(struct reader *r, struct dn_json_node *node, struct texts *types) {
  struct mb_slice key;
  while (mb_json_next_key(&r->j, &key)) {
    bool readable;
    struct texts texts = {0};
    if (mb_json_is(key, "shape")) {
      if (!read_shapes(r, node)) return false;
      continue;
    }
    if (!read_texts(r, &texts, &readable)) return false;
    if (mb_json_is(key, "dtype")) {
      if (types->count) return mb_json_fail(&r->j, "the attribute dtype twice");
      *types = texts;
      continue;
    }
    if (!grow(r, (void **)&node->attributes, node->attribute_count, &node->attribute_capacity,
              sizeof(*node->attributes)))
      return false;
    char *decoded = mb_json_text(key);
    if (!decoded) return mb_json_fail(&r->j, MB_TEXT_WRONG_ESCAPE);
    char *name = dn_pool_text(r->pool, decoded, strlen(decoded));
    free(decoded);
    if (!name) return mb_json_fail(&r->j, MB_TEXT_NO_MEMORY);
    if (!texts.items && readable && !(texts.items = dn_pool_take(r->pool, 1, sizeof(*texts.items))))
      return mb_json_fail(&r->j, MB_TEXT_NO_MEMORY);
    node->attributes[node->attribute_count++] =
        (struct dn_attribute){name, readable ? texts.items : NULL, readable ? texts.count : 0};
  }
  return !r->j.error;
}

/* Types beside shapes: as many, and those that oneDNN has. */
static bool set_types(struct reader *r, struct dn_json_node *node, const struct texts *types) {
  if (!node->tensor_count) return mb_json_fail(&r->j, "a node without the attribute shape");
  if (types->count != node->tensor_count)
    return mb_json_fail(&r->j, "a node whose dtype and shape differ in number");
  for (size_t i = 0; i < node->tensor_count; ++i) {
    struct dn_tensor *tensor = &node->tensors[i];
    tensor->type = tensor->given = type_of(types->items[i]);
    if (!tensor->type) return mb_json_fail(&r->j, "a dtype that oneDNN does not have");
    tensor->bytes = dn_tensor_bytes(tensor);
    if (!tensor->bytes && !tensor->extents)
      return mb_json_fail(&r->j, "a shape of 2^63 bytes and more");
  }
  return true;
}

/* ---- nodes ---- */

static bool read_role(struct reader *r, enum dn_role *out) {
  struct mb_slice text;
  if (!mb_json_string(&r->j, &text)) return false;
  if (mb_json_is(text, "input")) {
    *out = DN_INPUT;
  } else if (mb_json_is(text, "const")) {
    *out = DN_CONST;
  } else if (mb_json_is(text, "kernel")) {
    *out = DN_KERNEL;
  } else {
    return mb_json_fail(&r->j, "an op that is none of input, const, kernel");
  }
  return true;
}

static bool read_node(struct reader *r, struct dn_json_node *node) {
  struct mb_slice key;
  struct texts types = {0};
  bool has_role = false;
  char *name = NULL;
  if (!mb_json_begin_object(&r->j)) return false;
  while (mb_json_next_key(&r->j, &key)) {
    bool ok;
    if (mb_json_is(key, "op")) {
      ok = has_role = read_role(r, &node->role);
    } else if (mb_json_is(key, "name")) {
      ok = read_text(r, &name);
    } else if (mb_json_is(key, "inputs")) {
      node->references.count = 0;
      ok = read_references(r, &node->references);
    } else if (mb_json_is(key, "attrs") || mb_json_is(key, "attr")) {
      ok = mb_json_begin_object(&r->j) && read_attributes(r, node, &types);
    } else {
      ok = mb_json_skip(&r->j);
    }
    if (!ok) return false;
  }
  node->name = name;
  if (!r->j.error && (!has_role || !name)) return mb_json_fail(&r->j, "a node without op or name");
  return !r->j.error && set_types(r, node, &types);
}

static bool read_nodes(struct reader *r) {
  struct dn_json_graph *out = r->out;
  if (out->nodes) return mb_json_fail(&r->j, "the key nodes twice");
  if (!mb_json_begin_array(&r->j)) return false;
  while (mb_json_next_element(&r->j)) {
    if (!grow(r, (void **)&out->nodes, out->node_count, &out->node_capacity, sizeof(*out->nodes)) ||
        !read_node(r, &out->nodes[out->node_count]))
      return false;
    ++out->node_count;
  }
  return !r->j.error;
}

static bool read_graph(struct reader *r) {
  struct mb_slice key;
  if (!mb_json_begin_object(&r->j)) return false;
  while (mb_json_next_key(&r->j, &key)) {
    if (mb_json_is(key, "symbol")) r->out->has_symbol = true;
    bool ok = mb_json_is(key, "nodes") ? read_nodes(r)
              : mb_json_is(key, "arg_nodes")
                  ? (r->out->arg_nodes.count = 0, read_numbers(r, &r->out->arg_nodes))
              : mb_json_is(key, "heads")
                  ? (r->out->heads.count = 0, read_references(r, &r->out->heads))
              : mb_json_is(key, "node_row_ptr")
                  ? (r->out->row_pointers.count = 0, read_numbers(r, &r->out->row_pointers))
                  : mb_json_skip(&r->j);
    if (!ok) return false;
  }
  return mb_json_end(&r->j);
}

int dn_json_read(struct dn_json_graph *out, struct dn_pool *pool, const char *symbol,
                 struct mb_slice text) {
  struct reader r = {.pool = pool, .out = out};
  mb_json_init(&r.j, text.data, mb_size(text.size));
  if (read_graph(&r)) return MBLOB_OK;
  if (!strcmp(r.j.error, MB_TEXT_NO_MEMORY)) return MBLOB_E_MEMORY; /* recorded where it happened */
  return mb_fail(MBLOB_E_FORMAT, "dnnl_json %s: the graph's JSON, at byte %zu, in node %zu: %s",
                 symbol, (size_t)(r.j.pos - r.j.start), out->node_count, r.j.error);
}
