/* graph_text.h - graph JSON as it is written: every list, no meaning yet. The layout is that of
 * TVM's graph executor (and of its predecessor, the graph runtime). */
#ifndef MB_GRAPH_TEXT_H
#define MB_GRAPH_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers of one kind, from all nodes or entries, one behind the other. */
struct mb_numbers {
  uint64_t *items;
  size_t count, capacity;
};

/* A part of a list. */
struct mb_span {
  size_t start, count;
};

struct mb_text_node {
  char *name;
  char *function; /* attrs.func_name, NULL without attrs */
  bool is_input;  /* op "null"; else "tvm_op" */
  bool flatten;
  uint64_t input_count, output_count; /* attrs.num_inputs, attrs.num_outputs */
  struct mb_span inputs;              /* in `links`: pairs of node and output */
  struct mb_span after;               /* in `controls`: nodes */
};

struct mb_graph_text {
  struct mb_text_node *nodes;
  size_t node_count, node_capacity;
  struct mb_numbers links, controls;
  struct mb_numbers inputs;  /* arg_nodes: nodes */
  struct mb_numbers outputs; /* heads: pairs of node and output */
  struct mb_numbers rows;    /* node_row_ptr */
  /* one per entry */
  struct mb_numbers dtypes; /* code, bits << 8, lanes << 16 */
  struct mb_numbers storages;
  struct mb_numbers devices;    /* device types; empty if the graph names none */
  struct mb_numbers scopes;     /* one number per storage scope, which says nothing more */
  struct mb_numbers shape_ends; /* in `extents`; a shape starts where the one before ends */
  struct mb_numbers extents;
};

/* Read `size` characters. MBLOB_E_FORMAT says what is wrong and at which byte. `out` is to be
 * freed only after MBLOB_OK. */
int mb_graph_text_read(const char *json, size_t size, struct mb_graph_text *out);
void mb_graph_text_free(struct mb_graph_text *text);

#endif
