#define _GNU_SOURCE
#include "exec/graph/ready_queue.h"

#include <stdlib.h>

#include "base/base.h"
#include "core/device/device.h"

void mb_ready_init(struct mb_ready *r, const struct mb_schedule *s, uint32_t *next) {
  r->kinds = s->kinds;
  r->next = next;
  r->works = false;
  for (int i = 0; i < MB_STEP_KINDS; i++) r->first[i] = MB_NO_STEP;
}

void mb_ready_put(struct mb_ready *r, uint32_t step) {
  uint8_t kind = r->kinds[step];
  r->next[step] = MB_NO_STEP;
  *(r->first[kind] == MB_NO_STEP ? &r->first[kind] : &r->next[r->last[kind]]) = step;
  r->last[kind] = step;
}

uint32_t mb_ready_take(struct mb_ready *r, unsigned set) {
  /* A copy to a device that works would wait for it, and the host can do something meanwhile. */
  static const uint8_t orders[2][MB_STEP_KINDS] = {
      {MB_STEP_LAUNCH, MB_STEP_COPY_TO, MB_STEP_FEEDS, MB_STEP_HOST, MB_STEP_COPY_FROM},
      {MB_STEP_LAUNCH, MB_STEP_FEEDS, MB_STEP_HOST, MB_STEP_COPY_TO, MB_STEP_COPY_FROM}};
  const uint8_t *order = orders[r->works];
  for (int i = 0; i < MB_STEP_KINDS; i++) {
    uint8_t kind = order[i];
    uint32_t step = r->first[kind];
    if (step == MB_NO_STEP || !(set >> kind & 1)) continue;
    r->first[kind] = r->next[step];
    if (MB_STEPS_OF_DEVICES >> kind & 1) r->works = kind == MB_STEP_LAUNCH;
    return step;
  }
  return MB_NO_STEP;
}

/* ---- kinds, and an order for one thread ---- */

static bool is_on_device(TVMValue value) {
  const DLTensor *tensor = value.v_handle;
  return !mb_device_is_host((int)tensor->device.device_type);
}

/* Edges lead to later steps, so those behind a step are known before it. */
static uint8_t kind_of_step(const struct mb_graph_executor *x, const struct mb_schedule *s,
                            uint32_t i) {
  const struct mb_graph_step *step = &x->steps[i];
  bool ends_there = step->count && is_on_device(step->values[step->count - 1]); /* an output */
  if (ends_there) return step->function ? MB_STEP_LAUNCH : MB_STEP_COPY_TO;
  for (int k = 0; k < step->count; k++)
    if (is_on_device(step->values[k])) return MB_STEP_COPY_FROM;
  for (uint32_t k = s->first[i]; k < s->first[i + 1]; k++)
    if (s->kinds[s->followers[k]] <= MB_STEP_FEEDS) return MB_STEP_FEEDS;
  return MB_STEP_HOST;
}

int mb_ready_order(const struct mb_graph_executor *x, struct mb_schedule *s) {
  size_t count = s->step_count;
  uint32_t *open = malloc(2 * count * sizeof(*open) + 1); /* edges of each from steps before it */
  struct mb_ready ready;
  if (!open) return mb_fail_memory(2 * count * sizeof(*open));
  for (uint32_t i = s->step_count; i-- > 0;) s->kinds[i] = kind_of_step(x, s, i);
  mb_ready_init(&ready, s, open + count);
  for (uint32_t i = 0; i < s->step_count; i++)
    if (!(open[i] = s->waits[i])) mb_ready_put(&ready, i);
  for (uint32_t i = 0; i < s->step_count; i++) {
    uint32_t step = s->order[i] = mb_ready_take(&ready, MB_STEPS); /* one can always run */
    for (uint32_t k = s->first[step]; k < s->first[step + 1]; k++)
      if (--open[s->followers[k]] == 0) mb_ready_put(&ready, s->followers[k]);
  }
  free(open);
  return MBLOB_OK;
}
