/* graph.h - the graph of a dnnl_json payload, read and checked: nodes in an order in which they
 * can run.
 *
 * A tensor is the output of a node, and has one number in the whole graph (TVM's entry id). */
#ifndef DN_GRAPH_H
#define DN_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "onednn.h"

/* ---- many small allocations that are given back together (pool.c) ---- */

struct dn_block;
struct dn_pool {
  struct dn_block *blocks;
  size_t used, size; /* of the newest block */
};

/* Zeroed, aligned for any object; NULL when memory is out (recorded). */
void *dn_pool_take(struct dn_pool *pool, size_t count, size_t item);
/* A copy of `size` bytes and a NUL behind. */
char *dn_pool_text(struct dn_pool *pool, const void *text, size_t size);
void dn_pool_free(struct dn_pool *pool);

/* ---- the graph ---- */

struct dn_tensor {
  int rank; /* 0 was made 1: [] is [1] */
  int64_t dims[DN_MAX_RANK];
  const char *
      *extents; /* what open dimensions are (extents.h), NULL for others; NULL: all are known */
  enum dn_type type;  /* that is computed with */
  enum dn_type given; /* by the graph, and of arguments and constants: another one in halves.h */
  uint64_t bytes;     /* 0 with open dimensions */
  size_t node;
};

struct dn_attribute {
  const char *name;
  char **values; /* NULL: neither a text nor a list of texts */
  size_t count;
};

enum dn_role { DN_INPUT, DN_CONST, DN_KERNEL };

struct dn_node {
  enum dn_role role;
  const char *name;
  size_t first_tensor, tensor_count;
  size_t *inputs; /* tensors */
  size_t input_count;
  struct dn_attribute *attributes;
  size_t attribute_count;
};

struct dn_graph {
  struct dn_pool pool; /* of everything below */
  const char *symbol;
  bool json_has_symbol; /* as TVM writes it from 0.12 on */
  const char **const_names;
  size_t const_count;
  size_t *constants; /* tensor of each name */
  struct dn_node *nodes;
  size_t node_count;
  struct dn_tensor *tensors;
  size_t tensor_count;
  size_t *arguments; /* tensors: the inputs of a call, in order */
  size_t argument_count;
  size_t *outputs; /* tensors */
  size_t output_count;
  const char **names; /* of open dimensions */
  size_t name_count;  /* 0: all dimensions are known */
};

/* Read a payload: symbol, graph JSON, names of constants. A mblob_status; free it in any case. */
int dn_graph_read(struct dn_graph *graph, const void *payload, uint64_t size);
void dn_graph_free(struct dn_graph *graph);

/* Bytes of a tensor for its shape and type, 0 if they do not fit 63 bits or a dimension is below
 * 1. */
uint64_t dn_tensor_bytes(const struct dn_tensor *tensor);
/* "float32[1, 3, 224, 224]" in `text`; returned. */
const char *dn_tensor_text(const struct dn_tensor *tensor, char *text, size_t size);
const char *dn_type_name(enum dn_type type);

/* ---- attributes of a node (attributes.c): a mblob_status, the error names node and attribute - */

bool dn_has_attribute(const struct dn_node *node, const char *name);
/* Record an error about a node: its number and name come first. Returns `status`. */
int dn_fail_node(const struct dn_graph *graph, const struct dn_node *node, int status,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));
/* How many values it has; 0 where it is missing, or no text and no list of texts. */
size_t dn_count_texts(const struct dn_node *node, const char *name);
int dn_get_text(const struct dn_graph *graph, const struct dn_node *node, const char *name,
                const char **out);
int dn_get_texts(const struct dn_graph *graph, const struct dn_node *node, const char *name,
                 size_t count, const char **out);
/* The text of an attribute that may be left out: then Relay's default, by the axes of the node's
 * input `input` ("NCHW" of "NCW NCHW NCDHW" for 4), or "" where `defaults` is NULL. */
int dn_get_layout(const struct dn_graph *graph, const struct dn_node *node, const char *name,
                  size_t input, const char *const defaults[3], const char **out);
/* `count` whole numbers, each at least `lowest` and at most INT32_MAX. */
int dn_get_ints(const struct dn_graph *graph, const struct dn_node *node, const char *name,
                size_t count, int64_t lowest, int64_t *out);
int dn_get_int(const struct dn_graph *graph, const struct dn_node *node, const char *name,
               int64_t lowest, int64_t *out);
int dn_get_float(const struct dn_graph *graph, const struct dn_node *node, const char *name,
                 float *out);
int dn_get_bool(const struct dn_graph *graph, const struct dn_node *node, const char *name,
                bool *out);
/* Padding of `axes` axes as TVM writes it: one number, one for each axis, or before and after
 * for each. */
int dn_get_padding(const struct dn_graph *graph, const struct dn_node *node, size_t axes,
                   int64_t *before, int64_t *after);
/* An attribute that is the position of one of the node's inputs; *out is its tensor. */
int dn_get_input_index(const struct dn_graph *graph, const struct dn_node *node, const char *name,
                       size_t *out);

#endif
