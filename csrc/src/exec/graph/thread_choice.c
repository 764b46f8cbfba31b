/* Chooses if several threads run a graph.
 *
 * They cost some microseconds a run, and save time only where steps that do not wait for each other
 * take longer. So the first runs use several threads, unless the schedule is a chain, and note what
 * each step takes. From then on the quicker way is used. Parallel loops of kernels have one thread
 * each in such a run: there, one more run in order is compared. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <time.h>

#include "base/base.h"
#include "core/threads/threads.h"
#include "exec/graph/run.h"
#include "exec/graph/schedule.h"

/* Two threads cost some 25 us a run (docs/design/running.md). */
#define LEAST_SAVING 100e-6 /* seconds of a run */
#define LEAST_PART 8        /* and this part of it */

enum {
  RUNS = 2,  /* that are looked at: the first one also pays for pages, caches and threads */
  LOOKS = 8, /* at schedules of one graph, while the caller binds its memory anew */
};

static void decide(struct mb_thread_choice *p, bool together) {
  p->is = together ? MB_THREADS_TOGETHER : MB_THREADS_SERIAL;
  free(p->least);
  p->least = NULL;
}

void mb_thread_choice_moved(struct mb_graph_executor *x) {
  mb_schedule_free(x->schedule);
  x->schedule = NULL;
  if (x->thread_choice.is == MB_THREADS_CHAIN && x->thread_choice.looks < LOOKS)
    x->thread_choice.is = MB_THREADS_LEARNS;
}

static int need_schedule(struct mb_graph_executor *x) {
  if (x->schedule) return MBLOB_OK;
  double start = mb_seconds_now();
  int status = mb_schedule_new(x, &x->schedule);
  x->thread_choice.build = mb_seconds_now() - start;
  return status;
}

/* Seconds that `threads` threads save, at most, by the least times of steps. Negative without
 * memory. */
static double saving(const struct mb_graph_executor *x, int threads, double *all) {
  const struct mb_schedule *s = x->schedule;
  const double *least = x->thread_choice.least;
  double *begin = calloc(s->step_count, sizeof(*begin)), longest = 0, sum = 0;
  if (!begin) return -1;
  for (uint32_t i = 0; i < s->step_count; i++) {
    const double end = begin[i] + least[i];
    sum += least[i];
    if (end > longest) longest = end;
    for (uint32_t k = s->first[i]; k < s->first[i + 1]; k++)
      if (end > begin[s->followers[k]]) begin[s->followers[k]] = end;
  }
  free(begin);
  *all = sum;
  return sum - (longest > sum / threads ? longest : sum / threads);
}

static void look_at(struct mb_graph_executor *x, const struct mb_graph_facts *facts, double taken,
                    double cpu) {
  struct mb_thread_choice *p = &x->thread_choice;
  double all = 0;
  if (facts->threads < 2) return; /* other calls had the threads */
  for (uint32_t i = 0; i < x->step_count; i++) {
    const double seconds = x->times[i].end - x->times[i].start;
    if (!p->runs || seconds < p->least[i]) p->least[i] = seconds;
  }
  if (!p->runs || taken < p->together) p->together = taken;
  if ((int)facts->peak > p->threads) p->threads = (int)facts->peak;
  /* Threads that are not of the pool: OpenMP's. Those of a device are no kernel's. */
  const bool others = !x->device_count && cpu - facts->cpu > taken / LEAST_PART;
  p->loops |= facts->nested_loops > 0 || others;
  p->saved = saving(x, facts->threads, &all);
  p->runs++;
  if (p->threads < 2 || p->saved < LEAST_SAVING || p->saved * LEAST_PART < all)
    decide(p, false);
  else if (p->runs == RUNS && !p->loops) /* processors may be busy with other things */
    decide(p, p->together < all - p->saved / 2);
}

static int most_threads(const struct mb_graph_executor *x, int threads) {
  const uint32_t most = x->schedule->most;
  if (threads > MB_WORKER_LIMIT) threads = MB_WORKER_LIMIT;
  return most < (uint32_t)threads ? (int)most : threads;
}

/* The calling thread mostly waits for devices, if there are some. */
static int width_of(const struct mb_graph_executor *x) {
  return x->device_count ? mb_parallel_width_beside() : mb_parallel_width();
}

/* As a run that is looked at. */
static int try_together(struct mb_graph_executor *x, struct mb_graph_facts *facts) {
  return mb_graph_run_together(x, most_threads(x, width_of(x)), true, facts);
}

static int learn(struct mb_graph_executor *x) {
  struct mb_thread_choice *p = &x->thread_choice;
  struct mb_graph_facts facts;
  if (p->runs == RUNS) {
    const double start = mb_seconds_now();
    int status = mb_graph_run_serial(x);
    if (!status) decide(p, mb_seconds_now() - start > p->together);
    return status;
  }
  if (!p->least) p->least = calloc(x->step_count, sizeof(*p->least));
  x->times = calloc(x->step_count, sizeof(*x->times));
  int status = p->least && x->times ? MBLOB_OK : mb_fail_memory(x->step_count * sizeof(*x->times));
  if (!status) {
    const double start = mb_seconds_now(), cpu = mb_seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    status = try_together(x, &facts);
    if (!status)
      look_at(x, &facts, mb_seconds_now() - start, mb_seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu);
  }
  free(x->times);
  x->times = NULL;
  return status;
}

static int run_as_measured(struct mb_graph_executor *x) {
  struct mb_thread_choice *p = &x->thread_choice;
  struct mb_graph_facts facts;
  if (p->is == MB_THREADS_SERIAL || p->is == MB_THREADS_CHAIN || width_of(x) < 2)
    return mb_graph_run_serial(x);
  /* A program that binds other memory for each run pays for each schedule. */
  if (p->is == MB_THREADS_TOGETHER && !x->schedule && p->build > p->saved / 2)
    return mb_graph_run_serial(x);
  int status = need_schedule(x);
  if (status) return status;
  if (x->schedule->most < 2) {
    p->looks++;
    p->is = MB_THREADS_CHAIN;
    return mb_graph_run_serial(x);
  }
  if (p->is == MB_THREADS_TOGETHER) return mb_graph_run_together(x, p->threads, false, &facts);
  /* A run that is profiled waits for devices, and says nothing about others. */
  return x->times ? try_together(x, &facts) : learn(x);
}

int mb_graph_run(struct mb_graph_executor *x, int threads) {
  struct mb_graph_facts facts;
  int status = mb_graph_check_bound(x);
  if (status) return status;
  if (threads == MB_THREADS_AS_MEASURED) return run_as_measured(x);
  if (!threads) threads = mb_parallel_width();
  if (threads < 2 || x->step_count < 2) return mb_graph_run_serial(x);
  status = need_schedule(x);
  if (status) return status;
  threads = most_threads(x, threads);
  return threads < 2 ? mb_graph_run_serial(x) : mb_graph_run_together(x, threads, false, &facts);
}
