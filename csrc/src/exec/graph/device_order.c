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

struct ordering {
  const struct mb_schedule *schedule;
  uint8_t *kind;                      /* of each step */
  uint32_t *open;                     /* of each step: edges from steps not in the order yet */
  uint32_t *next;                     /* of each step: the next one in its queue */
  uint32_t first[KINDS], last[KINDS]; /* queues of steps that may run, one of each kind */
};

static bool is_on_device(const DLTensor *value) {
  return !mb_device_is_host((int)value->device.device_type);
}

/* Edges lead to later steps, so those behind a step are known before it. */
static uint8_t kind_of(const struct mb_graph_executor *x, const struct ordering *o, uint32_t i) {
  const struct mb_graph_step *step = &x->steps[i];
  const struct mb_schedule *s = o->schedule;
  bool there = step->count && is_on_device(step->values[step->count - 1].v_handle); /* an output */
  if (there) return step->function ? LAUNCH : COPY_TO;
  if (!step->function && is_on_device(step->values[0].v_handle)) return COPY_FROM;
  for (uint32_t k = s->first[i]; k < s->first[i + 1]; k++)
    if (o->kind[s->followers[k]] <= FEEDS) return FEEDS;
  return HOST;
}

static void put(struct ordering *o, uint32_t step) {
  uint8_t kind = o->kind[step];
  o->next[step] = NO_STEP;
  *(o->first[kind] == NO_STEP ? &o->first[kind] : &o->next[o->last[kind]]) = step;
  o->last[kind] = step;
}

/* The next step. `works`: a device was given a kernel, and nothing has waited for it since. */
static uint32_t take(struct ordering *o, bool *works) {
  /* A copy to a device that works would wait for it, and the host can do something meanwhile. */
  static const uint8_t kinds[2][KINDS] = {{LAUNCH, COPY_TO, FEEDS, HOST, COPY_FROM},
                                          {LAUNCH, FEEDS, HOST, COPY_TO, COPY_FROM}};
  const uint8_t *kind = kinds[*works];
  while (o->first[*kind] == NO_STEP) kind++; /* an order has all steps: one can always run */
  uint32_t step = o->first[*kind];
  o->first[*kind] = o->next[step];
  if (*kind != FEEDS && *kind != HOST) *works = *kind == LAUNCH;
  return step;
}

int mb_device_order(const struct mb_graph_executor *x, const struct mb_schedule *s,
                    uint32_t *order) {
  size_t count = s->step_count;
  struct ordering o = {.schedule = s, .open = malloc(count * (2 * sizeof(*o.open) + 1) + 1)};
  bool works = false;
  if (!o.open) return mb_fail_memory(count * sizeof(*o.open));
  o.next = o.open + count;
  o.kind = (uint8_t *)(o.next + count);
  for (int i = 0; i < KINDS; i++) o.first[i] = NO_STEP;
  for (uint32_t i = s->step_count; i-- > 0;) o.kind[i] = kind_of(x, &o, i);
  for (uint32_t i = 0; i < s->step_count; i++)
    if (!(o.open[i] = s->waits[i])) put(&o, i);
  for (uint32_t i = 0; i < s->step_count; i++) {
    uint32_t step = order[i] = take(&o, &works);
    for (uint32_t k = s->first[step]; k < s->first[step + 1]; k++)
      if (--o.open[s->followers[k]] == 0) put(&o, s->followers[k]);
  }
  free(o.open);
  return MBLOB_OK;
}
