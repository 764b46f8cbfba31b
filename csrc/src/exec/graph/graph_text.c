#define _GNU_SOURCE
#include "exec/graph/graph_text.h"

#include <mblob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* ---- where an error is ---- */

struct text_place {
  const char *node;   /* where the object of the node begins that is read, the last one of the text;
                         else NULL */
  bool in_attributes; /* of that node, else of the graph */
  bool has_found;     /* the error itself tells what was found */
  struct mb_slice key; /* size 0: between two members */
  int64_t item;        /* of the list that is the key's value; -1: none */
};

#define NOWHERE ((struct text_place){.item = -1})

/* The name of the node that is being read, if it can be: it may stand behind what is wrong. On
 * the heap. */
static char *name_of_node(const char *node, const char *end) {
  struct mb_json j;
  struct mb_slice key, name;
  mb_json_init(&j, node, (size_t)(end - node));
  if (!mb_json_begin_object(&j)) return NULL;
  while (mb_json_next_key(&j, &key)) {
    if (mb_json_is(key, "name")) return mb_json_string(&j, &name) ? mb_json_text(name) : NULL;
    if (!mb_json_skip(&j)) return NULL;
  }
  return NULL;
}

/* "node 2 'add': " */
static void write_node(const struct mb_json *j, const struct mb_graph_text *t, const char *node,
                       FILE *out) {
  char *name = name_of_node(node, j->end);
  (void)fprintf(out, name ? "node %zu '%.64s': " : "node %zu: ", t->node_count - 1, name);
  free(name);
}

/* "node 2 'add', output 0: ", where item `left` of the graph's attributes belongs to one. */
static void write_value(const struct mb_graph_text *t, uint64_t left, FILE *out) {
  for (size_t i = 0; i < t->node_count; i++) {
    const struct mb_text_node *node = &t->nodes[i];
    uint64_t outputs = node->is_input ? 1 : node->output_count;
    if (left < outputs) {
      (void)fprintf(out, "node %zu '%.64s', output %llu: ", i, node->name,
                    (unsigned long long)left);
      return;
    }
    left -= outputs;
  }
}

/* "attrs: shape[3]: " */
static void write_place(const struct text_place *p, FILE *out) {
  if (p->in_attributes) (void)fputs("attrs: ", out);
  if (!p->key.size) return;
  (void)fprintf(out, "%.*s", p->key.size < 48 ? (int)p->key.size : 48, (const char *)p->key.data);
  if (p->item >= 0) (void)fprintf(out, "[%lld]", (long long)p->item);
  (void)fputs(": ", out);
}

/* What stands where something else was expected. */
static void write_found(const struct mb_json *j, FILE *out) {
  size_t left = (size_t)(j->end - j->pos), size = 0;
  if (strncmp(j->error, "expected", 8) != 0) return;
  while (size < left && size < 24 && (unsigned char)j->pos[size] > ' ' &&
         (!size || !strchr(",]}", j->pos[size])))
    size++;
  (void)fprintf(out, size ? ", found '%.*s'" : ", found the end", (int)size, j->pos);
}

/* Record the error of `j`: the node that it is about, the key and what was found there.
 * MBLOB_E_FORMAT. */
static int fail_at(const struct mb_json *j, const struct mb_graph_text *text,
                   const struct text_place *place) {
  char *message = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&message, &size);
  if (!out) return mb_fail_memory(0);
  if (place->node)
    write_node(j, text, place->node, out);
  else if (place->in_attributes && place->item >= 0)
    write_value(text, (uint64_t)place->item, out);
  write_place(place, out);
  (void)fputs(j->error, out);
  if (!place->has_found) write_found(j, out);
  int status = fclose(out) || !message
                   ? mb_fail_memory(size)
                   : mb_fail_format("payload", j->pos - j->start, MB_UNKNOWN, "graph: %s", message);
  free(message);
  return status;
}

/* ---- reading ---- */

/* Each reader returns false after an error: of the JSON (in `j`), or recorded (`status`). */
struct text_reader {
  struct mb_json j;
  struct mb_graph_text *text;
  struct text_place place;
  int status;
  char problem[192]; /* what wrong() said; `j` points to it */
};

/* An error of the JSON with a part of the text, such as a key. */
static bool wrong_part(struct text_reader *r, const char *format, struct mb_slice part) {
  int size = part.size < 48 ? (int)part.size : 48;
  if (!r->j.error)
    (void)snprintf(r->problem, sizeof(r->problem), format, size, (const char *)part.data);
  r->place.has_found = true;
  return mb_json_fail(&r->j, r->problem);
}

/* The same, where the part is a key that should not be there, or the one that is missing. */
static bool wrong_key(struct text_reader *r, const char *format, struct mb_slice key) {
  r->place.key.size = 0;
  return wrong_part(r, format, key);
}

static bool next_graph_key(struct text_reader *r, struct mb_slice *key) {
  r->place.key.size = 0;
  r->place.item = -1;
  if (!mb_json_next_key(&r->j, key)) return false;
  r->place.key = *key;
  return true;
}

static struct mb_slice slice(const char *text) {
  return (struct mb_slice){(const uint8_t *)text, strlen(text)};
}

static bool no_text_memory(struct text_reader *r, size_t size) {
  r->status = mb_fail_memory(size);
  return false;
}

/* Room for one more item of `size` bytes; the capacity doubles. */
static bool make_list_room(struct text_reader *r, void **items, size_t count, size_t *capacity,
                           size_t size) {
  if (count < *capacity) return true;
  size_t wanted = *capacity ? 2 * *capacity : 16;
  void *grown = realloc(*items, wanted * size);
  if (!grown) return no_text_memory(r, wanted * size);
  *items = grown;
  *capacity = wanted;
  return true;
}

static bool add_number(struct text_reader *r, struct mb_numbers *list, uint64_t number) {
  void *items = list->items;
  if (!make_list_room(r, &items, list->count, &list->capacity, sizeof(number))) return false;
  list->items = items;
  list->items[list->count++] = number;
  return true;
}

/* ---- pieces ---- */

typedef bool (*item_reader)(struct text_reader *r, struct mb_numbers *list);

static bool read_number(struct text_reader *r, struct mb_numbers *list) {
  uint64_t number = 0;
  return mb_json_uint(&r->j, &number) && add_number(r, list, number);
}

/* [item, item, ...]; of lists in lists the outermost is the place. */
static bool read_list(struct text_reader *r, struct mb_numbers *list, item_reader item) {
  int64_t outer = r->place.item;
  if (!mb_json_begin_array(&r->j)) return false;
  for (int64_t i = 0; mb_json_next_element(&r->j); i++) {
    if (outer < 0) r->place.item = i;
    if (!item(r, list)) return false;
  }
  if (!r->j.error) r->place.item = outer;
  return !r->j.error;
}

/* [node, output] or [node, output, version] */
static bool read_entry(struct text_reader *r, struct mb_numbers *list) {
  uint64_t parts[3] = {0};
  size_t count = 0;
  if (!mb_json_begin_array(&r->j)) return false;
  while (mb_json_next_element(&r->j)) {
    if (count == 3)
      return mb_json_fail(&r->j, "an entry is [node, output, version], found a fourth number");
    if (!mb_json_uint(&r->j, &parts[count++])) return false;
  }
  if (r->j.error) return false;
  if (count < 2) return mb_json_fail(&r->j, "an entry is [node, output, version], found less");
  return add_number(r, list, parts[0]) && add_number(r, list, parts[1]);
}

static bool read_graph_shape(struct text_reader *r, struct mb_numbers *ends) {
  struct mb_numbers *extents = &r->text->extents;
  size_t start = extents->count;
  if (!read_list(r, extents, read_number)) return false;
  if (extents->count - start > MB_NDIM_LIMIT)
    return mb_json_fail(&r->j, "a shape of more than 64 dimensions");
  return add_number(r, ends, extents->count);
}

static bool read_dtype(struct text_reader *r, struct mb_numbers *list) {
  struct mb_slice text;
  DLDataType dtype;
  if (!mb_json_string(&r->j, &text)) return false;
  if (!mb_dtype_parse_stored((const char *)text.data, (size_t)text.size, &dtype))
    return wrong_part(r, "an element type that is not known: '%.*s'", text);
  return add_number(r, list,
                    (uint64_t)dtype.code | (uint64_t)dtype.bits << 8 | (uint64_t)dtype.lanes << 16);
}

/* Only plain memory: "", "global" and what begins so, except textures of GPUs. */
static bool read_scope(struct text_reader *r, struct mb_numbers *list) {
  struct mb_slice text;
  if (!mb_json_string(&r->j, &text)) return false;
  bool global = text.size == 0 || (text.size >= 6 && memcmp(text.data, "global", 6) == 0);
  if (!global || memmem(text.data, (size_t)text.size, "texture", 7))
    return wrong_part(r, "a storage scope that host memory does not have: '%.*s'", text);
  return add_number(r, list, 0); /* they are counted */
}

static bool read_text(struct text_reader *r, char **out) {
  struct mb_slice text;
  if (*out) return mb_json_fail(&r->j, "the same key twice");
  if (!mb_json_string(&r->j, &text)) return false;
  *out = mb_json_text(text);
  return *out || mb_json_fail(&r->j, MB_TEXT_WRONG_ESCAPE);
}

/* A number in quotes, as attributes have it; a bare one is taken, too. */
static bool read_quoted(struct text_reader *r, uint64_t *out) {
  struct mb_json inner;
  struct mb_slice text;
  if (mb_json_peek(&r->j) != '"') return mb_json_uint(&r->j, out);
  const char *start = r->j.pos;
  if (!mb_json_string(&r->j, &text)) return false;
  mb_json_init(&inner, text.data, (size_t)text.size);
  if (mb_json_uint(&inner, out) && mb_json_end(&inner)) return true;
  r->j.pos = start;
  return mb_json_fail(&r->j, "expected a whole number in quotes");
}

/* ---- nodes ---- */

static bool read_node_attributes(struct text_reader *r, struct mb_text_node *node) {
  static const char keys[][16] = {"func_name", "num_inputs", "num_outputs", "flatten_data"};
  enum { KEYS = sizeof(keys) / sizeof(*keys), ALL = (1 << KEYS) - 1 };
  uint64_t flatten = 0, *const numbers[KEYS] = {NULL, &node->input_count, &node->output_count,
                                                &flatten};
  unsigned found = 0;
  struct mb_slice key;
  if (!mb_json_begin_object(&r->j)) return false;
  while (next_graph_key(r, &key)) {
    unsigned i = 0;
    bool ok;
    while (i < KEYS && !mb_json_is(key, keys[i])) i++;
    if (i == KEYS)
      ok = mb_json_skip(&r->j);
    else if (found & 1u << i)
      ok = wrong_key(r, "the key '%.*s' twice", key);
    else
      ok = i ? read_quoted(r, numbers[i]) : read_text(r, &node->function);
    if (!ok) return false;
    found |= i < KEYS ? 1u << i : 0;
  }
  node->flatten = flatten != 0;
  if (r->j.error || node->is_input || found == ALL) return !r->j.error;
  return mb_json_fail(&r->j,
                      "an operator needs func_name, num_inputs, num_outputs and flatten_data");
}

static bool read_op(struct text_reader *r, struct mb_text_node *node, bool *known) {
  struct mb_slice op;
  if (!mb_json_string(&r->j, &op)) return false;
  node->is_input = mb_json_is(op, "null");
  *known = true;
  return node->is_input || mb_json_is(op, "tvm_op") ||
         wrong_part(r, "expected \"null\" or \"tvm_op\", found '%.*s'", op);
}

static bool read_links(struct text_reader *r, struct mb_numbers *list, item_reader item,
                       struct mb_span *out) {
  out->start = list->count;
  if (!read_list(r, list, item)) return false;
  out->count = list->count - out->start;
  return true;
}

/* Attributes may come before the op, which says whether they must be complete: they are read
 * last. */
static bool read_node_keys(struct text_reader *r, struct mb_text_node *node) {
  struct mb_json attributes = {0};
  bool has_op = false, has_inputs = false, has_controls = false, has_attributes = false;
  struct mb_slice key;
  if (!mb_json_begin_object(&r->j)) return false;
  while (next_graph_key(r, &key)) {
    bool ok;
    if (mb_json_is(key, "op")) {
      ok = has_op ? wrong_key(r, "the key '%.*s' twice", key) : read_op(r, node, &has_op);
    } else if (mb_json_is(key, "name")) {
      ok = read_text(r, &node->name);
    } else if (mb_json_is(key, "inputs")) {
      ok = has_inputs ? wrong_key(r, "the key '%.*s' twice", key)
                      : read_links(r, &r->text->links, read_entry, &node->inputs);
      has_inputs = true;
    } else if (mb_json_is(key, "control_deps")) {
      ok = has_controls ? wrong_key(r, "the key '%.*s' twice", key)
                        : read_links(r, &r->text->controls, read_number, &node->after);
      has_controls = true;
    } else if (mb_json_is(key, "attrs") || mb_json_is(key, "attr")) {
      attributes = r->j;
      ok = has_attributes ? wrong_key(r, "the key '%.*s' twice", key) : mb_json_skip(&r->j);
      has_attributes = true;
    } else {
      ok =
          wrong_key(r, "unknown key '%.*s'; nodes have op, name, inputs, attrs, control_deps", key);
    }
    if (!ok) return false;
  }
  if (r->j.error) return false;
  if (!has_op || !node->name || !has_inputs)
    return mb_json_fail(&r->j, "a node needs op, name and inputs");
  if (!has_attributes) return node->is_input || mb_json_fail(&r->j, "an operator without attrs");
  struct mb_json behind = r->j;
  r->j = attributes;
  r->place.in_attributes = true;
  bool ok = read_node_attributes(r, node);
  if (ok) r->j = behind;
  return ok;
}

static bool read_node(struct text_reader *r, struct mb_numbers *ignored) {
  struct mb_graph_text *text = r->text;
  void *items = text->nodes;
  (void)ignored;
  if (!make_list_room(r, &items, text->node_count, &text->node_capacity, sizeof(*text->nodes)))
    return false;
  text->nodes = items;
  text->nodes[text->node_count] = (struct mb_text_node){0};
  const struct text_place outer = r->place;
  r->place = NOWHERE;
  (void)mb_json_peek(&r->j);
  r->place.node = r->j.pos;
  if (!read_node_keys(r, &text->nodes[text->node_count++])) return false;
  r->place = outer;
  return true;
}

/* ---- the graph ---- */

/* A key of an object that holds a list of numbers. */
struct text_part {
  const char *key;
  const char *type; /* the name that stands before the list; NULL: none does */
  struct mb_numbers *list;
  item_reader item;
  bool required, found;
};

static struct text_part *find_part(struct text_part *parts, size_t count, struct mb_slice key) {
  for (size_t i = 0; i < count; i++)
    if (mb_json_is(key, parts[i].key)) return &parts[i];
  return NULL;
}

/* [type, [item, ...]] */
static bool read_typed_list(struct text_reader *r, const struct text_part *part) {
  struct mb_slice type;
  if (!mb_json_begin_array(&r->j)) return false;
  if (!mb_json_next_element(&r->j) || !mb_json_string(&r->j, &type) || !mb_json_next_element(&r->j))
    return mb_json_fail(&r->j, "a list of the graph is [\"list_...\", [...]]");
  if (!mb_json_is(type, part->type)) {
    char format[64];
    (void)snprintf(format, sizeof(format), "expected type \"%s\", found '%%.*s'", part->type);
    return wrong_part(r, format, type);
  }
  if (!read_list(r, part->list, part->item)) return false;
  if (mb_json_next_element(&r->j))
    return mb_json_fail(&r->j, "a list of the graph has a third part");
  return !r->j.error;
}

static bool read_graph_part(struct text_reader *r, struct text_part *part) {
  if (part->found) return wrong_key(r, "the key '%.*s' twice", slice(part->key));
  part->found = true;
  return part->type ? read_typed_list(r, part) : read_list(r, part->list, part->item);
}

static bool all_found(struct text_reader *r, const struct text_part *parts, size_t count,
                      const char *format) {
  for (size_t i = 0; i < count; i++)
    if (parts[i].required && !parts[i].found) return wrong_key(r, format, slice(parts[i].key));
  return true;
}

/* Keys that are not known are passed over: compilers add what their executors look at. */
static bool read_attributes(struct text_reader *r, struct text_part *parts, size_t count) {
  struct mb_slice key;
  if (!mb_json_begin_object(&r->j)) return false;
  while (next_graph_key(r, &key)) {
    struct text_part *part = find_part(parts, count, key);
    if (!(part ? read_graph_part(r, part) : mb_json_skip(&r->j))) return false;
  }
  return !r->j.error &&
         all_found(r, parts, count, "lack '%.*s'; a graph needs dltype, storage_id and shape");
}

static bool read_graph_attributes(struct text_reader *r) {
  struct mb_graph_text *t = r->text;
  struct text_part parts[] = {
      {"dltype", "list_str", &t->dtypes, read_dtype, true, false},
      {"storage_id", "list_int", &t->storages, read_number, true, false},
      {"shape", "list_shape", &t->shape_ends, read_graph_shape, true, false},
      {"device_index", "list_int", &t->devices, read_number, false, false},
      {"storage_scope", "list_str", &t->scopes, read_scope, false, false}};
  return read_attributes(r, parts, sizeof(parts) / sizeof(*parts));
}

/* Attributes are read last: of a value they tell, errors name the node. */
static bool read_graph(struct text_reader *r) {
  struct mb_graph_text *t = r->text;
  struct text_part parts[] = {{"nodes", NULL, NULL, read_node, true, false},
                              {"arg_nodes", NULL, &t->inputs, read_number, true, false},
                              {"heads", NULL, &t->outputs, read_entry, true, false},
                              {"node_row_ptr", NULL, &t->rows, read_number, true, false}};
  size_t count = sizeof(parts) / sizeof(*parts);
  struct mb_json attributes = {0};
  bool has_attributes = false;
  struct mb_slice key;
  if (!mb_json_begin_object(&r->j)) return false;
  while (next_graph_key(r, &key)) {
    struct text_part *part = find_part(parts, count, key);
    bool ok;
    if (part) {
      ok = read_graph_part(r, part);
    } else if (mb_json_is(key, "attrs")) {
      attributes = r->j;
      ok = has_attributes ? wrong_key(r, "the key '%.*s' twice", key) : mb_json_skip(&r->j);
      has_attributes = true;
    } else if (mb_json_is(key, "metadata")) {
      ok = mb_json_skip(&r->j);
    } else {
      ok = wrong_key(
          r,
          "unknown key '%.*s'; graphs have nodes, arg_nodes, heads, node_row_ptr, attrs, metadata",
          key);
    }
    if (!ok) return false;
  }
  static const char lacks[] =
      "the graph lacks '%.*s'; it needs nodes, arg_nodes, heads, node_row_ptr, attrs";
  if (r->j.error || !all_found(r, parts, count, lacks) ||
      !(has_attributes || wrong_key(r, lacks, slice("attrs"))) || !mb_json_end(&r->j))
    return false;
  r->j = attributes;
  r->place.in_attributes = true;
  return read_graph_attributes(r);
}

int mb_graph_text_read(const char *json, size_t size, struct mb_graph_text *out) {
  struct text_reader r = {.text = out};
  r.place = NOWHERE; /* gcc 10 warns of such a literal in the list */
  *out = (struct mb_graph_text){0};
  mb_json_init(&r.j, json, size);
  if (read_graph(&r)) return MBLOB_OK;
  int status = r.status ? r.status : fail_at(&r.j, out, &r.place);
  mb_graph_text_free(out);
  return status;
}

void mb_graph_text_free(struct mb_graph_text *t) {
  for (size_t i = 0; i < t->node_count; i++) {
    free(t->nodes[i].name);
    free(t->nodes[i].function);
  }
  struct mb_numbers *lists[] = {&t->links,  &t->controls,   &t->inputs,   &t->outputs,
                                &t->rows,   &t->dtypes,     &t->storages, &t->devices,
                                &t->scopes, &t->shape_ends, &t->extents};
  for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) free(lists[i]->items);
  free(t->nodes);
  *t = (struct mb_graph_text){0};
}
