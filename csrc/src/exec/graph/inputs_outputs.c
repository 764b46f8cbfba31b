#define _GNU_SOURCE
#include "exec/graph/inputs_outputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "exec/common/common.h"

static uint32_t count_of(const struct mb_graph *g, enum mb_graph_io end) {
  return end == MB_OUTPUTS ? g->output_count : g->input_count;
}

static const char *name_of_io(const struct mb_graph *g, enum mb_graph_io end, uint32_t i) {
  uint32_t entry = end == MB_OUTPUTS ? g->outputs[i] : g->inputs[i];
  return g->nodes[g->entries[entry].node].name;
}

/* ---- which one ---- */

static int unknown_io(const struct mb_graph *g, enum mb_graph_io end, const struct mb_name *given) {
  uint32_t count = count_of(g, end);
  const char **names = calloc(count ? count : 1, sizeof(*names));
  if (!names) return mb_fail_memory(count * sizeof(*names));
  for (uint32_t i = 0; i < count; i++) names[i] = name_of_io(g, end, i);
  const struct mb_names list = {end == MB_OUTPUTS ? "output" : "input", names, count};
  int status = mb_names_unknown(&list, given);
  free(names);
  return status;
}

int mb_graph_io_argument(const struct mb_graph *g, const struct mb_call *call, enum mb_graph_io end,
                         uint32_t *out) {
  struct mb_name given;
  int status = mb_name_argument(call, 0, &given);
  if (status) return status;
  int64_t at = given.index;
  if (given.text)
    at = end == MB_OUTPUTS ? mb_graph_find_output(g, given.text)
                           : mb_graph_find_input(g, given.text);
  if (at < 0 || at >= count_of(g, end)) return unknown_io(g, end, &given);
  *out = (uint32_t)at;
  return MBLOB_OK;
}

/* ---- what they are ---- */

int mb_graph_describe(void *executor, bool outputs, size_t i, size_t *count,
                      struct mb_executor_io *out) {
  const struct mb_graph_executor *x = executor;
  const struct mb_graph *g = &x->graph;
  *count = outputs ? g->output_count : g->input_count;
  if (i >= *count) return MBLOB_OK;
  out->name = outputs ? x->output_names[i] : name_of_io(g, MB_INPUTS, (uint32_t)i);
  out->tensor = &x->views[outputs ? g->outputs[i] : g->inputs[i]];
  out->flags = outputs ? 0 : x->input_flags[i];
  return MBLOB_OK;
}
