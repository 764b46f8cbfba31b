#define _GNU_SOURCE
#include "exec/graph/schedule.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "core/device/device.h"
#include "exec/graph/ready_queue.h"

#define NO_STEP UINT32_MAX

/* Bytes that overlap belong to one cell; a handle of a device is a cell by itself. Addresses of
 * several devices may be equal, which costs nothing but an order. */
struct cell_range {
  uintptr_t start, end;
  uint32_t entry;
};

struct edge {
  uint32_t from, to;
};

struct build {
  const struct mb_graph_executor *x;
  uint32_t *cell;    /* of each entry */
  uint32_t *writer;  /* of each cell: the last step that wrote it, or NO_STEP */
  uint32_t *reader;  /* of each cell: the first of a list of reads since then, in `reads` */
  uint32_t *step_of; /* of each node, or NO_STEP */
  struct {
    uint32_t step, next;
  } *reads;
  size_t read_count;
  struct edge *edges;
  size_t edge_count, edge_capacity;
};

static int by_start(const void *a, const void *b) {
  const struct cell_range *x = a, *y = b;
  return (x->start > y->start) - (x->start < y->start);
}

static int find_cells(struct build *b) {
  const struct mb_graph *g = &b->x->graph;
  struct cell_range *ranges = malloc((size_t)g->entry_count * sizeof(*ranges) + 1);
  if (!ranges) return mb_fail_memory(g->entry_count * sizeof(*ranges));
  for (uint32_t i = 0; i < g->entry_count; i++) {
    const DLTensor *view = &b->x->views[i];
    uintptr_t start = (uintptr_t)view->data, size = (uintptr_t)g->entries[i].size;
    /* An empty value has a byte, so that it has a cell. */
    if (!size || mb_device_has_handles((int)view->device.device_type)) size = 1;
    ranges[i] = (struct cell_range){start, start + size, i};
  }
  qsort(ranges, g->entry_count, sizeof(*ranges), by_start);
  uintptr_t end = 0;
  uint32_t cell = 0;
  for (uint32_t i = 0; i < g->entry_count; i++) {
    if (i && ranges[i].start >= end) cell++;
    if (ranges[i].end > end) end = ranges[i].end;
    b->cell[ranges[i].entry] = cell;
  }
  free(ranges);
  return MBLOB_OK;
}

static int add_edge(struct build *b, uint32_t from, uint32_t to) {
  if (from == NO_STEP || from == to) return MBLOB_OK;
  if (b->edge_count == b->edge_capacity) {
    size_t capacity = b->edge_capacity ? 2 * b->edge_capacity : 64;
    struct edge *grown = realloc(b->edges, capacity * sizeof(*grown));
    if (!grown) return mb_fail_memory(capacity * sizeof(*grown));
    b->edges = grown;
    b->edge_capacity = capacity;
  }
  b->edges[b->edge_count++] = (struct edge){from, to};
  return MBLOB_OK;
}

static int read_cell(struct build *b, uint32_t step, uint32_t cell) {
  b->reads[b->read_count].step = step;
  b->reads[b->read_count].next = b->reader[cell];
  b->reader[cell] = (uint32_t)b->read_count++;
  return add_edge(b, b->writer[cell], step);
}

static int write_cell(struct build *b, uint32_t step, uint32_t cell) {
  int status = add_edge(b, b->writer[cell], step);
  for (uint32_t i = b->reader[cell]; !status && i != NO_STEP; i = b->reads[i].next)
    status = add_edge(b, b->reads[i].step, step);
  b->reader[cell] = NO_STEP;
  b->writer[cell] = step;
  return status;
}

static int order_step(struct build *b, uint32_t step) {
  const struct mb_graph_node *node = &b->x->graph.nodes[b->x->steps[step].node];
  int status = MBLOB_OK;
  for (uint32_t k = 0; !status && k < node->input_count; k++)
    status = read_cell(b, step, b->cell[node->inputs[k]]);
  for (uint32_t k = 0; !status && k < node->entry_count; k++)
    status = write_cell(b, step, b->cell[node->first_entry + k]);
  for (uint32_t k = 0; !status && k < node->after_count; k++)
    status = add_edge(b, b->step_of[node->after[k]], step);
  return status;
}

static int pack(const struct build *b, struct mb_schedule *s) {
  s->step_count = b->x->step_count;
  s->waits = calloc((size_t)s->step_count + 1, sizeof(*s->waits));
  s->first = calloc((size_t)s->step_count + 2, sizeof(*s->first));
  s->followers = malloc(b->edge_count * sizeof(*s->followers) + 1);
  s->kinds = malloc((size_t)s->step_count + 1);
  if (!s->waits || !s->first || !s->followers || !s->kinds)
    return mb_fail_memory(b->edge_count * sizeof(*s->followers));
  memset(s->kinds, MB_STEP_HOST, s->step_count);
  for (size_t i = 0; i < b->edge_count; i++) {
    s->waits[b->edges[i].to]++;
    s->first[b->edges[i].from + 2]++;
  }
  for (uint32_t i = 2; i < s->step_count + 2; i++) s->first[i] += s->first[i - 1];
  for (size_t i = 0; i < b->edge_count; i++)
    s->followers[s->first[b->edges[i].from + 1]++] = b->edges[i].to;
  return MBLOB_OK;
}

/* The steps of a longest chain run one after the other. */
static int count_most(struct mb_schedule *s) {
  uint32_t *depths = calloc((size_t)s->step_count + 1, sizeof(*depths)), deepest = 0;
  if (!depths) return mb_fail_memory(s->step_count * sizeof(*depths));
  for (uint32_t i = 0; i < s->step_count; i++) {
    if (depths[i] + 1 > deepest) deepest = depths[i] + 1;
    for (uint32_t k = s->first[i]; k < s->first[i + 1]; k++)
      if (depths[i] + 1 > depths[s->followers[k]]) depths[s->followers[k]] = depths[i] + 1;
  }
  s->most = s->step_count ? s->step_count - deepest + 1 : 1;
  free(depths);
  return MBLOB_OK;
}

static int build(struct build *b, struct mb_schedule *s) {
  const struct mb_graph *g = &b->x->graph;
  size_t reads = 0;
  for (uint32_t i = 0; i < b->x->step_count; i++)
    reads += g->nodes[b->x->steps[i].node].input_count;
  b->cell = malloc((size_t)g->entry_count * sizeof(*b->cell) + 1);
  b->writer = malloc((size_t)g->entry_count * sizeof(*b->writer) + 1);
  b->reader = malloc((size_t)g->entry_count * sizeof(*b->reader) + 1);
  b->step_of = malloc((size_t)g->node_count * sizeof(*b->step_of) + 1);
  b->reads = malloc(reads * sizeof(*b->reads) + 1);
  if (!b->cell || !b->writer || !b->reader || !b->step_of || !b->reads)
    return mb_fail_memory(reads * sizeof(*b->reads));
  for (uint32_t i = 0; i < g->entry_count; i++) b->writer[i] = b->reader[i] = NO_STEP;
  for (uint32_t i = 0; i < g->node_count; i++) b->step_of[i] = NO_STEP;
  for (uint32_t i = 0; i < b->x->step_count; i++) b->step_of[b->x->steps[i].node] = i;
  int status = find_cells(b);
  for (uint32_t i = 0; !status && i < b->x->step_count; i++) status = order_step(b, i);
  if (!status) status = pack(b, s);
  if (!status) status = count_most(s);
  if (status || !b->x->device_count) return status;
  s->order = malloc(s->step_count * sizeof(*s->order) + 1);
  return s->order ? mb_ready_order(b->x, s) : mb_fail_memory(s->step_count * sizeof(*s->order));
}

int mb_schedule_new(const struct mb_graph_executor *x, struct mb_schedule **out) {
  struct build b = {.x = x};
  struct mb_schedule *s = calloc(1, sizeof(*s));
  *out = NULL;
  int status = s ? build(&b, s) : mb_fail_memory(sizeof(*s));
  free(b.cell);
  free(b.writer);
  free(b.reader);
  free(b.step_of);
  free(b.reads);
  free(b.edges);
  if (status)
    mb_schedule_free(s);
  else
    *out = s;
  return status;
}

void mb_schedule_free(struct mb_schedule *s) {
  if (!s) return;
  free(s->waits);
  free(s->first);
  free(s->followers);
  free(s->order);
  free(s->kinds);
  free(s);
}
