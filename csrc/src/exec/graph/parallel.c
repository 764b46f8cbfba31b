/* Running steps that do not wait for each other at the same time, on the threads of the pool. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdlib.h>

#include "base/base.h"
#include "core/threads/threads.h"
#include "exec/graph/schedule.h"

#define NO_STEP UINT32_MAX

struct run {
  struct mb_graph_executor *x;
  const struct mb_schedule *schedule;
  const struct mb_graph_frame *frames; /* of the caller */
  atomic_uint *waits;                  /* of each step: edges that are still open */
  struct mb_lock lock;
  struct mb_condition changed;
  unsigned forks;   /* when the run began */
  uint32_t *ready;  /* steps that may run; each step is put here at most once */
  uint32_t taken;   /* guarded by the lock */
  atomic_uint put;  /* guarded; may be read without */
  atomic_uint left; /* steps that did not run */
  atomic_bool stop; /* all ran, or one failed */
  uint32_t failed;  /* the first step in the order of the graph that failed */
  struct mb_saved_error error;
};

/* ---- the queue ---- */

static void offer(struct run *r, uint32_t step) {
  mb_lock(&r->lock);
  r->ready[atomic_fetch_add(&r->put, 1)] = step;
  mb_wake_one(&r->changed);
  mb_unlock(&r->lock);
}

static void stop(struct run *r) {
  mb_lock(&r->lock);
  atomic_store(&r->stop, true);
  mb_wake(&r->changed);
  mb_unlock(&r->lock);
}

/* A step that may run, waiting for one; NO_STEP when there is nothing more to do. */
static uint32_t take(struct run *r) {
  uint32_t step = NO_STEP;
  unsigned seen = atomic_load(&r->put);
  mb_lock(&r->lock);
  /* In the child of a fork inside a step, steps of other threads never end. */
  for (bool has_spun = false;
       !atomic_load(&r->stop) && r->taken == atomic_load(&r->put) && r->forks == mb_forks();) {
    if (!has_spun) {
      struct mb_spin spin = {0};
      mb_unlock(&r->lock);
      while (!atomic_load(&r->stop) && seen == atomic_load(&r->put) &&
             mb_spin_more(&spin, MB_SPIN_TIME)) {
      }
      mb_lock(&r->lock);
      has_spun = true;
    } else {
      mb_wait(&r->changed, &r->lock);
    }
  }
  if (!atomic_load(&r->stop) && r->taken != atomic_load(&r->put)) step = r->ready[r->taken++];
  mb_unlock(&r->lock);
  return step;
}

static void fail(struct run *r, uint32_t step) {
  mb_lock(&r->lock);
  if (step < r->failed) {
    if (r->failed != NO_STEP) mb_saved_error_free(&r->error);
    mb_error_save(&r->error);
    r->failed = step;
  }
  mb_unlock(&r->lock);
  stop(r);
}

/* Run a step and tell those that wait for it. One that may run now is returned, others are
 * offered. */
static uint32_t run_step(struct run *r, uint32_t step) {
  const struct mb_schedule *s = r->schedule;
  uint32_t next = NO_STEP;
  if (mb_graph_step_run(r->x, step)) {
    fail(r, step);
    return NO_STEP;
  }
  for (uint32_t i = s->first[step]; i < s->first[step + 1]; i++) {
    uint32_t follower = s->followers[i];
    if (atomic_fetch_sub(&r->waits[follower], 1) != 1) continue;
    if (next == NO_STEP)
      next = follower;
    else
      offer(r, follower);
  }
  if (atomic_fetch_sub(&r->left, 1) == 1) stop(r);
  return next;
}

static int work(int task_id, TVMParallelGroupEnv *env, void *data) {
  struct run *r = data;
  const struct mb_graph_frame *outer = mb_graph_frames();
  (void)task_id, (void)env;
  mb_graph_set_frames(r->frames);
  for (uint32_t step; (step = take(r)) != NO_STEP;)
    while (step != NO_STEP && !atomic_load(&r->stop)) step = run_step(r, step);
  mb_graph_set_frames(outer);
  return 0;
}

/* ---- a run ---- */

static int prepare(struct run *r) {
  const struct mb_schedule *s = r->schedule;
  r->waits = malloc(s->step_count * sizeof(*r->waits));
  r->ready = malloc(s->step_count * sizeof(*r->ready));
  if (!r->waits || !r->ready) return mb_fail_memory(s->step_count * sizeof(*r->waits));
  unsigned put = 0;
  for (uint32_t i = 0; i < s->step_count; i++) {
    atomic_init(&r->waits[i], s->waits[i]);
    if (!s->waits[i]) r->ready[put++] = i;
  }
  atomic_init(&r->put, put);
  atomic_init(&r->left, s->step_count);
  atomic_init(&r->stop, false);
  return MBLOB_OK;
}

static int run(struct mb_graph_executor *x, int threads) {
  struct run r = {.x = x,
                  .schedule = x->schedule,
                  .frames = mb_graph_frames(),
                  .failed = NO_STEP,
                  .forks = mb_forks()};
  int status = prepare(&r);
  if (!status) {
    mb_lock_init(&r.lock);
    mb_condition_init(&r.changed);
    if (mb_parallel_launch(work, &r, threads)) status = mblob_last_error_info()->status;
    mb_lock_destroy(&r.lock);
    mb_condition_destroy(&r.changed);
  }
  if (r.failed != NO_STEP) {
    status = mb_error_restore(&r.error);
    mb_saved_error_free(&r.error);
  }
  free(r.waits);
  free(r.ready);
  return status;
}

int mb_graph_run_parallel(struct mb_graph_executor *x, int threads) {
  if (threads < 0)
    return mb_fail(MBLOB_E_ARGUMENT, "graph: %d threads, expected 0 or more", threads);
  if (threads == 0) threads = mb_parallel_width();
  if ((uint32_t)threads > x->step_count) threads = (int)x->step_count;
  if (threads < 2 || x->device_count) return mb_graph_run(x);
  int status = x->schedule ? MBLOB_OK : mb_schedule_new(x, &x->schedule);
  x->executed = 0;
  return status ? status : run(x, threads);
}
