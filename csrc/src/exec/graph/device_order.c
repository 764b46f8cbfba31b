/* One thread gives work to the devices and runs the operators of the host. A kernel of a device is
 * only given to its queue; a copy waits until its device has done what it was given before. So of
 * all steps that may run, those that give a device work come first, and copies from a device that
 * works come last. */
#define _GNU_SOURCE
#include "exec/graph/device_order.h"

#include <stdlib.h>

#include "base/base.h"
#include "core/device/device.h"

#define NO_STEP UINT32_MAX

enum kind {
  LAUNCH,    /* a kernel of a device */
  COPY_TO,   /* from the host to a device */
  FEEDS,     /* of the host, and a kernel of a device waits for it, perhaps through others */
  HOST,      /* of the host, else */
  COPY_FROM, /* from a device */
  KINDS
};

/* Steps of one kind that may run, in the order in which they came to be so. */
struct queue {
  uint32_t first, last;
};

struct ordering {
  const struct mb_graph_executor *x;
  const struct mb_schedule *schedule;
  uint8_t *kind;  /* of each step */
  uint32_t *open; /* of each step: edges from steps that are not in the order yet */
  uint32_t *next; /* of each step: the next one in its queue */
  struct queue queues[KINDS];
  bool works; /* a device was given a kernel, and nothing has waited for it since */
};

static bool is_on_device(const DLTensor *value) {
  return !mb_device_is_host((int)value->device.device_type);
}

static enum kind kind_of(const struct mb_graph_executor *x, const struct mb_graph_step *step) {
  const struct mb_graph_node *node = &x->graph.nodes[step->node];
  bool there = node->entry_count && is_on_device(&x->views[node->first_entry]);
  if (step->function) return there ? LAUNCH : HOST;
  if (is_on_device(step->values[0].v_handle)) return COPY_FROM;
  return there ? COPY_TO : HOST;
}

static void put(struct ordering *o, uint32_t step) {
  struct queue *q = &o->queues[o->kind[step]];
  o->next[step] = NO_STEP;
  if (q->first == NO_STEP)
    q->first = step;
  else
    o->next[q->last] = step;
  q->last = step;
}

static uint32_t take(struct ordering *o) {
  /* A copy to a device that works would wait for it, and the host can do something meanwhile. */
  static const enum kind idle[] = {LAUNCH, COPY_TO, FEEDS, HOST, COPY_FROM};
  static const enum kind busy[] = {LAUNCH, FEEDS, HOST, COPY_TO, COPY_FROM};
  const enum kind *kinds = o->works ? busy : idle;
  for (int i = 0; i < KINDS; i++) {
    struct queue *q = &o->queues[kinds[i]];
    uint32_t step = q->first;
    if (step == NO_STEP) continue;
    q->first = o->next[step];
    if (kinds[i] == LAUNCH) o->works = true;
    if (kinds[i] == COPY_TO || kinds[i] == COPY_FROM) o->works = false;
    return step;
  }
  return NO_STEP;
}

/* Edges lead to later steps, so those behind a step are known before it. */
static void find_kinds(struct ordering *o) {
  const struct mb_schedule *s = o->schedule;
  for (uint32_t i = s->step_count; i-- > 0;) {
    o->kind[i] = (uint8_t)kind_of(o->x, &o->x->steps[i]);
    if (o->kind[i] != HOST) continue;
    for (uint32_t k = s->first[i]; k < s->first[i + 1]; k++)
      if (o->kind[s->followers[k]] <= FEEDS) o->kind[i] = FEEDS;
  }
}

static void fill(struct ordering *o, uint32_t *order) {
  const struct mb_schedule *s = o->schedule;
  for (int i = 0; i < KINDS; i++) o->queues[i].first = NO_STEP;
  for (uint32_t i = 0; i < s->step_count; i++) {
    o->open[i] = s->waits[i];
    if (!o->open[i]) put(o, i);
  }
  for (uint32_t step, count = 0; (step = take(o)) != NO_STEP;) {
    order[count++] = step;
    for (uint32_t k = s->first[step]; k < s->first[step + 1]; k++)
      if (--o->open[s->followers[k]] == 0) put(o, s->followers[k]);
  }
}

int mb_device_order(const struct mb_graph_executor *x, const struct mb_schedule *s,
                    uint32_t *order) {
  size_t count = (size_t)s->step_count + 1;
  struct ordering o = {.x = x,
                       .schedule = s,
                       .kind = malloc(count),
                       .open = malloc(count * sizeof(*o.open)),
                       .next = malloc(count * sizeof(*o.next))};
  int status = o.kind && o.open && o.next ? MBLOB_OK : mb_fail_memory(count * sizeof(*o.open));
  if (!status) {
    find_kinds(&o);
    fill(&o, order);
  }
  free(o.kind);
  free(o.open);
  free(o.next);
  return status;
}
