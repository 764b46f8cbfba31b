/* Running steps that do not wait for each other at the same time, on the threads of the pool.
 *
 * Queues of devices belong to threads, so the calling thread runs all steps of devices. While there
 * are some left it runs nothing else: a step of the host would keep a device waiting. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/base.h"
#include "core/call/call.h"
#include "core/threads/threads.h"
#include "exec/graph/ready_queue.h"
#include "exec/graph/run.h"

#define NAP 50000 /* nanoseconds between two looks of a thread that nobody wakes */

/* The first step, in the order of the graph, that failed: what a run reports, however steps ran. */
struct failure {
  uint32_t step; /* MB_NO_STEP: none */
  struct mb_saved_error error;
};

/* `step` failed, with the last error of this thread; MB_NO_STEP: none did. */
static void has_failed(struct failure *f, uint32_t step) {
  if (step >= f->step) return;
  mb_saved_error_free(&f->error);
  mb_error_save(&f->error);
  f->step = step;
}

/* Make it the last error, and let go of it. Its status; without one `status`. */
static int failure_end(struct failure *f, int status) {
  if (f->step == MB_NO_STEP) return status;
  status = mb_error_restore(&f->error);
  mb_saved_error_free(&f->error);
  return status;
}

int mb_graph_run_ordered(struct mb_graph_executor *x) {
  const uint32_t *order = x->schedule->order;
  struct failure failure = {.step = MB_NO_STEP};
  for (uint32_t i = 0; i < x->step_count; i++)
    if (order[i] < failure.step) has_failed(&failure, mb_graph_step_record(x, order[i], 0));
  return failure_end(&failure, MBLOB_OK);
}

/* ---- several threads ---- */

struct run {
  struct mb_graph_executor *x;
  const struct mb_schedule *schedule;
  const struct mb_graph_frame *frames; /* of the caller */
  struct mb_float_control control;     /* the same */
  unsigned forks;                      /* when the run began */
  bool learns;         /* nobody knows yet what steps take: idle threads look for them, unasked */
  atomic_uint *waits;  /* of each step: edges that are still open */
  uint32_t of_devices; /* steps of devices that are left; the caller's */
  struct mb_lock lock;
  struct mb_condition changed;
  /* guarded by the lock; what is atomic may be read without */
  struct mb_ready ready;
  uint32_t taken;
  atomic_uint put;  /* steps that were put into `ready` so far */
  uint32_t working; /* threads that have a step */
  atomic_uint end;  /* steps from here on are not run any more */
  atomic_bool stop; /* there are no more steps */
  struct failure failure;
  struct mb_graph_facts *facts;
};

/* ---- steps that may run ---- */

/* What a thread may run. */
static unsigned kinds_of(const struct run *r, int thread, int threads) {
  if (threads == 1) return MB_STEPS;
  if (thread) return MB_STEPS_OF_HOST;
  return r->of_devices ? MB_STEPS_OF_DEVICES : MB_STEPS;
}

static void put_step(struct run *r, uint32_t step) {
  mb_lock(&r->lock);
  mb_ready_put(&r->ready, step);
  atomic_fetch_add(&r->put, 1);
  if (r->x->device_count)
    mb_wake(&r->changed); /* not every thread may run it */
  else
    mb_wake_one(&r->changed);
  mb_unlock(&r->lock);
}

static void fail_run(struct run *r, uint32_t step) {
  mb_lock(&r->lock);
  has_failed(&r->failure, step);
  atomic_store(&r->end, r->failure.step);
  mb_unlock(&r->lock);
}

/* With the lock: until another thread has put a step, or for a moment. */
static void wait_for_step(struct run *r, bool *has_spun) {
  const unsigned seen = atomic_load(&r->put);
  struct mb_spin spin = {0};
  if (*has_spun && !r->learns) {
    mb_wait(&r->changed, &r->lock);
    return;
  }
  mb_unlock(&r->lock);
  if (*has_spun) (void)nanosleep(&(struct timespec){.tv_nsec = NAP}, NULL);
  while (!*has_spun && !atomic_load(&r->stop) && seen == atomic_load(&r->put) &&
         mb_spin_more(&spin, MB_SPIN_TIME)) {
  }
  *has_spun = true;
  mb_lock(&r->lock);
}

/* With the lock: the call may have to end while the calling thread only waits. */
static void ask_for_interrupt(struct run *r) {
  mb_unlock(&r->lock);
  if (mb_interrupt_now()) fail_run(r, 0);
  mb_lock(&r->lock);
}

/* The next step of a thread, MB_NO_STEP when there are no more; `had`: it is done with one. */
static uint32_t take_step(struct run *r, int thread, int threads, bool had) {
  uint32_t step = MB_NO_STEP;
  bool has_spun = false;
  mb_lock(&r->lock);
  r->working -= had;
  /* In the child of a fork inside a step, steps of other threads never end. */
  while (!atomic_load(&r->stop) && r->forks == mb_forks()) {
    step = mb_ready_take(&r->ready, kinds_of(r, thread, threads));
    if (step != MB_NO_STEP) {
      r->taken++;
      if (step < atomic_load(&r->end)) break;
      step = MB_NO_STEP;
    } else if (!r->working && r->taken == atomic_load(&r->put)) {
      atomic_store(&r->stop, true);
      mb_wake(&r->changed);
    } else {
      wait_for_step(r, &has_spun);
      if (!thread) ask_for_interrupt(r);
    }
  }
  r->working += step != MB_NO_STEP;
  if (r->working > r->facts->peak) r->facts->peak = r->working;
  mb_unlock(&r->lock);
  return step;
}

/* Run a step. One that may run now is returned if this thread may run it; others are put. */
static uint32_t run_parallel_step(struct run *r, uint32_t step, int thread, int threads) {
  const struct mb_schedule *s = r->schedule;
  uint32_t next = MB_NO_STEP;
  const uint32_t failed = mb_graph_step_record(r->x, step, thread);
  if (failed != MB_NO_STEP) {
    fail_run(r, failed);
    return MB_NO_STEP;
  }
  if (MB_STEPS_OF_DEVICES >> s->kinds[step] & 1) r->of_devices--;
  const unsigned kinds = kinds_of(r, thread, threads);
  for (uint32_t i = s->first[step]; i < s->first[step + 1]; i++) {
    uint32_t follower = s->followers[i];
    if (atomic_fetch_sub(&r->waits[follower], 1) != 1) continue;
    if (next == MB_NO_STEP && kinds >> s->kinds[follower] & 1 && follower < atomic_load(&r->end))
      next = follower;
    else
      put_step(r, follower);
  }
  return next;
}

static int work(int thread, TVMParallelGroupEnv *env, void *data) {
  struct run *r = data;
  const struct mb_graph_frame *outer = mb_graph_frames();
  const unsigned loops = mb_parallel_nested_loops();
  const double begin = r->learns ? mb_seconds_of(CLOCK_THREAD_CPUTIME_ID) : 0;
  unsigned steps = 0;
  mb_graph_set_frames(r->frames);
  mb_float_control_keep(r->control);
  for (uint32_t step; (step = take_step(r, thread, env->num_task, steps > 0)) != MB_NO_STEP;)
    for (; step != MB_NO_STEP; step = run_parallel_step(r, step, thread, env->num_task))
      if (++steps % MB_INTERRUPT_STEPS == 0 && thread) {
        mb_lock(&r->lock);
        mb_wake(&r->changed); /* the caller, which asks whether the call is to end */
        mb_unlock(&r->lock);
      }
  mb_graph_set_frames(outer);
  mb_lock(&r->lock);
  r->facts->threads++;
  r->facts->nested_loops += mb_parallel_nested_loops() - loops;
  if (r->learns) r->facts->cpu += mb_seconds_of(CLOCK_THREAD_CPUTIME_ID) - begin;
  mb_unlock(&r->lock);
  return 0;
}

/* ---- a run ---- */

static int prepare_run(struct run *r) {
  const struct mb_schedule *s = r->schedule;
  const size_t count = s->step_count;
  r->waits = malloc(count * sizeof(*r->waits) + 1);
  r->ready.next = malloc(count * sizeof(*r->ready.next) + 1);
  if (!r->waits || !r->ready.next) return mb_fail_memory(count * sizeof(*r->waits));
  mb_ready_init(&r->ready, s, r->ready.next);
  for (uint32_t i = 0; i < s->step_count; i++) {
    atomic_init(&r->waits[i], s->waits[i]);
    r->of_devices += MB_STEPS_OF_DEVICES >> s->kinds[i] & 1;
    if (s->waits[i]) continue;
    mb_ready_put(&r->ready, i);
    atomic_fetch_add(&r->put, 1);
  }
  return MBLOB_OK;
}

int mb_graph_run_together(struct mb_graph_executor *x, int threads, bool learns,
                          struct mb_graph_facts *facts) {
  struct run r = {.x = x,
                  .schedule = x->schedule,
                  .frames = mb_graph_frames(),
                  .control = mb_float_control(),
                  .forks = mb_forks(),
                  .learns = learns,
                  .end = MB_NO_STEP,
                  .failure = {.step = MB_NO_STEP},
                  .facts = facts};
  int status = prepare_run(&r);
  *facts = (struct mb_graph_facts){0};
  x->executed = 0;
  if (!status) {
    mb_lock_init(&r.lock);
    mb_condition_init(&r.changed);
    if (mb_parallel_launch_steps(work, &r, threads)) status = mblob_last_error_info()->status;
    mb_lock_destroy(&r.lock);
    mb_condition_destroy(&r.changed);
  }
  free(r.waits);
  free(r.ready.next);
  return failure_end(&r.failure, status);
}
