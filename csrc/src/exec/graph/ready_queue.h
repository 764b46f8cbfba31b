/* ready_queue.h - steps of a graph that may run, and which of them is taken first.
 *
 * A kernel of a device is only given to its queue; a copy waits until its device has done what it
 * was given before. So of all steps that may run, those that give a device work come first, and
 * copies from a device that works come last. */
#ifndef MB_GRAPH_READY_QUEUE_H
#define MB_GRAPH_READY_QUEUE_H

#include "exec/graph/schedule.h"

enum mb_step_kind {
  MB_STEP_LAUNCH,  /* a kernel of a device */
  MB_STEP_COPY_TO, /* from the host to a device */
  MB_STEP_FEEDS,   /* of the host, and a kernel of a device waits for it, perhaps through others */
  MB_STEP_HOST,    /* of the host, else */
  MB_STEP_COPY_FROM, /* from a device */
  MB_STEP_KINDS
};

/* Sets of kinds, for mb_ready_take. */
#define MB_STEPS_OF_HOST (1u << MB_STEP_FEEDS | 1u << MB_STEP_HOST)
#define MB_STEPS_OF_DEVICES (1u << MB_STEP_LAUNCH | 1u << MB_STEP_COPY_TO | 1u << MB_STEP_COPY_FROM)
#define MB_STEPS (MB_STEPS_OF_HOST | MB_STEPS_OF_DEVICES)

/* A queue for each kind. */
struct mb_ready {
  const uint8_t *kinds; /* of each step */
  uint32_t *next;       /* of each step: the next one in its queue */
  uint32_t first[MB_STEP_KINDS], last[MB_STEP_KINDS];
  bool works; /* a device was given a kernel, and nothing has waited for it since */
};

/* Empty queues; `next` has room for all steps, and is the caller's. */
void mb_ready_init(struct mb_ready *ready, const struct mb_schedule *schedule, uint32_t *next);
void mb_ready_put(struct mb_ready *ready, uint32_t step);
/* The next step whose kind is in the set; MB_NO_STEP if there is none. */
uint32_t mb_ready_take(struct mb_ready *ready, unsigned kinds);

/* Fill `schedule->kinds`, and the order in which one thread runs the steps of a graph over several
 * devices: each step comes behind all that it waits for, so results are those of the order of the
 * graph. A mblob_status. */
int mb_ready_order(const struct mb_graph_executor *executor, struct mb_schedule *schedule);

#endif
