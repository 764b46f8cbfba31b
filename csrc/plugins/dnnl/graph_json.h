/* graph_json.h - the JSON of a graph as it is written; what its numbers must mean is checked in
 * graph.c. */
#ifndef DN_GRAPH_JSON_H
#define DN_GRAPH_JSON_H

#include "graph.h"

struct dn_reference {
  uint64_t node, output;
};
struct dn_references {
  struct dn_reference *items;
  size_t count, capacity;
};
struct dn_numbers {
  uint64_t *items;
  size_t count, capacity;
};

struct dn_json_node {
  enum dn_role role;
  const char *name;
  struct dn_references references;
  struct dn_tensor *tensors;
  size_t tensor_count, type_count;
  struct dn_attribute *attributes;
  size_t attribute_count, attribute_capacity;
};

struct dn_json_graph {
  struct dn_json_node *nodes;
  size_t node_count, node_capacity;
  struct dn_numbers arg_nodes, row_pointers;
  struct dn_references heads;
  bool has_symbol; /* TVM 0.12 and later write it */
};

/* A mblob_status; everything lives in `pool`. */
int dn_json_read(struct dn_json_graph *out, struct dn_pool *pool, const char *symbol,
                 struct mb_slice text);

#endif
