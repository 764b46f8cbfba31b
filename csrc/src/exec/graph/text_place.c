#define _GNU_SOURCE
#include "exec/graph/text_place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

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
static void write_place(const struct mb_text_place *p, FILE *out) {
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

int mb_graph_text_fail(const struct mb_json *j, const struct mb_graph_text *text,
                       const struct mb_text_place *place) {
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
