/* checked_graph.h - a graph that was checked: every index is in range, every list has its
 * length, operators use only what stands before them. */
#ifndef MB_CHECKED_GRAPH_H
#define MB_CHECKED_GRAPH_H

#include <mblob.h>
#include <stdbool.h>

#include "base/base.h"

/* A value: an input, or one output of an operator. */
struct mb_graph_entry {
  DLDataType dtype;
  int32_t ndim;
  const int64_t *shape;
  size_t size;      /* bytes */
  uint32_t node;    /* whose it is */
  uint32_t storage; /* entries with the same one share their memory; numbered from 0 without gaps */
  /* The entry whose bytes these are: of a `__nop` (a reshape), the root of what it reshapes;
   * else itself. */
  uint32_t root;
};

enum mb_graph_op { MB_GRAPH_INPUT, MB_GRAPH_NOP, MB_GRAPH_COPY, MB_GRAPH_CALL };

struct mb_graph_node {
  const char *name;
  const char *function; /* of an operator */
  enum mb_graph_op op;
  bool flatten;           /* the function sees each tensor with one dimension */
  const uint32_t *inputs; /* entries */
  uint32_t input_count;
  uint32_t first_entry, entry_count; /* what it makes */
  const uint32_t *after; /* nodes that must have run before, beside those of the inputs */
  uint32_t after_count;
};

struct mb_graph {
  char *json; /* as it was given, NUL terminated */
  struct mb_graph_node *nodes;
  uint32_t node_count;
  struct mb_graph_entry *entries;
  uint32_t entry_count;
  uint32_t *inputs; /* entry of each input */
  uint32_t input_count;
  uint32_t *outputs; /* entry of each output */
  uint32_t output_count;
  uint32_t storage_count;
  int32_t *storage_devices;  /* device type of each storage, 0 if the graph names none */
  uint64_t *storage_ids;     /* the number that the graph has for each storage */
  struct mb_map input_names; /* to entries in `inputs` */
  /* what the pointers above point into */
  uint32_t *links;
  int64_t *extents;
  char **texts;
};

/* Read and check graph JSON. MBLOB_E_FORMAT names the node. `out` is to be freed only after
 * MBLOB_OK. */
int mb_graph_read(const char *json, size_t size, struct mb_graph *out);
void mb_graph_free(struct mb_graph *graph);

/* A tensor of the entry's type and shape, without data. */
DLTensor mb_graph_tensor(const struct mb_graph *graph, uint32_t entry);
/* Position of the input / output of that name, -1 if there is none. An output is called
 * `NODE:POSITION`, and NODE where that is the first. */
int64_t mb_graph_find_input(const struct mb_graph *graph, const char *name);
int64_t mb_graph_find_output(const struct mb_graph *graph, const char *name);

#endif
