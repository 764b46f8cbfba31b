/* A launch takes workers that are idle now and never waits for busy ones, so launches from
 * several threads run side by side and cannot block each other. Workers spin for some
 * microseconds before they sleep: kernels launch one loop right after the other. */
#define _GNU_SOURCE
#include "core/threads/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "core/threads/spin.h"
#include "core/threads/thread_settings.h"

enum {
  COUNTER_STRIDE = 16 /* int32 per task in sync_handle: one per cache line of 64 bytes */
};

#define TASK_ERRORS_SIZE (1 << 16) /* bytes that the texts of one loop share */
#define ERROR_SIZE_MIN 256         /* bytes that each text has, however many there are */

/* What a thread runs, and so what a loop that it begins gets. */
enum place {
  OUTSIDE, /* threads */
  IN_STEP, /* as many tasks as outside, one after the other */
  IN_TASK  /* one task */
};

struct job {
  FTVMParallelLambda task;
  void *cdata;
  TVMParallelGroupEnv env;
  char **errors;                   /* one per task, NULL where it went well */
  enum place place;                /* of its tasks */
  const void *caller;              /* mblob_parallel_caller() of its tasks */
  struct mb_float_control control; /* of the thread that launched: that of all tasks */
  struct worker *workers;          /* that have a task */
  unsigned forks;                  /* mb_forks() when they got it */
  int next;                        /* the first task that no thread has */
};

struct worker {
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t wake, done;
  atomic_bool busy; /* set under the lock by the launcher, cleared under it by the worker */
  atomic_bool stop;
  struct job *job;
  int task_id;
  struct worker *next_idle;
  struct worker *next;
};

static struct mb_lock pool_lock = MB_LOCK_INIT;
static struct worker *idle, *all;
static int worker_count;
static __thread enum place thread_place;
static __thread const void *caller;    /* NULL outside of tasks */
static __thread struct job *in_order;  /* whose tasks this thread runs one after the other */
static __thread unsigned nested_loops; /* that this thread began inside of tasks */
static unsigned pool_forks;            /* mb_forks() of the process that the workers are of */
static __thread unsigned forks_before; /* mb_forks() when the task of this thread began */

/* Until `*flag` is `wanted`, or for as long as spinning is worth it. */
static void spin_until(const atomic_bool *flag, bool wanted) {
  struct mb_spin spin = {0};
  while (atomic_load_explicit(flag, memory_order_acquire) != wanted &&
         mb_spin_more(&spin, MB_SPIN_TIME)) {
  }
}

/* ---- workers --------------------------------------------------------------------------------- */

static void run_pool_task(struct job *job, int task_id) {
  uint64_t before = mb_error_serial();
  unsigned outer = forks_before;
  enum place outer_place = thread_place;
  const void *outer_caller = caller;
  forks_before = mb_forks();
  thread_place = job->place;
  caller = job->caller;
  const struct mb_float_control control = mb_float_control();
  mb_float_control_keep(job->control);
  MB_CATCHES;
  int rc = job->task(task_id, &job->env, job->cdata);
  mb_float_control_keep(control);
  thread_place = outer_place;
  caller = outer_caller;
  forks_before = outer;
  if (rc != 0) {
    char *thrown = mb_thrown(rc, "");
    const char *text = thrown                        ? thrown
                       : mb_error_serial() != before ? mblob_last_error_info()->message
                                                     : "";
    job->errors[task_id] = strndup(*text ? text : "it gave no reason", TASK_ERRORS_SIZE + 4);
    free(thrown);
  }
  /* Tasks that wait for this one at a barrier go on: it will not come. */
  atomic_int *counters = job->env.sync_handle;
  atomic_store_explicit(&counters[task_id * COUNTER_STRIDE], INT32_MAX, memory_order_release);
}

static void *worker_main(void *argument) {
  struct worker *w = argument;
  for (;;) {
    spin_until(&w->busy, true);
    pthread_mutex_lock(&w->lock);
    while (!atomic_load(&w->busy) && !atomic_load(&w->stop)) pthread_cond_wait(&w->wake, &w->lock);
    pthread_mutex_unlock(&w->lock);
    if (atomic_load(&w->stop)) return NULL;
    unsigned before = mb_forks();
    run_pool_task(w->job, w->task_id);
    /* The task forked, and returned in the child too, where nobody waits for it. */
    if (mb_forks() != before) _exit(EXIT_FAILURE);
    pthread_mutex_lock(&w->lock);
    atomic_store(&w->busy, false);
    pthread_cond_signal(&w->done);
    pthread_mutex_unlock(&w->lock);
  }
}

/* A child of fork() has none of the threads. Their structures may be in any state and are never
 * touched again; they stay reachable, so that leak checkers do not report them. */
static struct worker *left_by_fork;

static void lock_pool(void) {
  mb_lock(&pool_lock);
  if (pool_forks == mb_forks()) return;
  pool_forks = mb_forks();
  struct worker **end = &left_by_fork;
  while (*end) end = &(*end)->next;
  *end = all;
  idle = all = NULL;
  worker_count = 0;
}

/* With pool_lock held. NULL when no thread can be had. */
static struct worker *start_worker(void) {
  if (worker_count >= MB_WORKER_LIMIT) return NULL;
  struct worker *w = calloc(1, sizeof(*w));
  if (!w) return NULL;
  pthread_mutex_init(&w->lock, NULL);
  pthread_cond_init(&w->wake, NULL);
  pthread_cond_init(&w->done, NULL);
  if (pthread_create(&w->thread, NULL, worker_main, w) != 0) {
    free(w);
    return NULL;
  }
  mb_thread_bind(w->thread, worker_count + 1); /* number 0 is the caller */
  w->next = all;
  all = w;
  worker_count++;
  return w;
}

/* Up to `wanted` workers as a list linked by next_idle; where too few are idle, threads are started
 * while there are fewer than `limit`. */
static struct worker *take_workers(int wanted, int limit, int *taken) {
  struct worker *list = NULL;
  lock_pool();
  for (*taken = 0; *taken < wanted; ++*taken) {
    struct worker *w = idle;
    if (w) {
      idle = w->next_idle;
    } else if (worker_count < limit && (w = start_worker())) {
    } else {
      break;
    }
    w->next_idle = list;
    list = w;
  }
  mb_unlock(&pool_lock);
  return list;
}

static void give_back_workers(struct worker *list) {
  lock_pool();
  while (list) {
    struct worker *next = list->next_idle;
    list->next_idle = idle;
    idle = list;
    list = next;
  }
  mb_unlock(&pool_lock);
}

static void start_task(struct worker *w, struct job *job, int task_id) {
  pthread_mutex_lock(&w->lock);
  w->job = job;
  w->task_id = task_id;
  atomic_store_explicit(&w->busy, true, memory_order_release);
  pthread_cond_signal(&w->wake);
  pthread_mutex_unlock(&w->lock);
}

static void wait_for(struct worker *w) {
  spin_until(&w->busy, false);
  pthread_mutex_lock(&w->lock);
  while (atomic_load(&w->busy)) pthread_cond_wait(&w->done, &w->lock);
  pthread_mutex_unlock(&w->lock);
}

/* The code of this library may be unmapped after this, so no thread may stay in it. */
MB_HANDLER(destructor) static void stop_idle_workers(void) {
  lock_pool();
  while (idle) {
    struct worker *w = idle;
    idle = w->next_idle;
    pthread_mutex_lock(&w->lock);
    atomic_store(&w->stop, true);
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    (void)pthread_join(w->thread, NULL);
    struct worker **link = &all;
    while (*link != w) link = &(*link)->next;
    *link = w->next;
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->wake);
    pthread_cond_destroy(&w->done);
    free(w);
    worker_count--;
  }
  mb_unlock(&pool_lock);
}

/* ---- what tasks reported --------------------------------------------------------------------- */

/* Bytes of `text` that `limit` leaves, without a part of a UTF-8 character. */
static size_t cut(const char *text, size_t limit) {
  size_t size = strnlen(text, limit + 1);
  if (size <= limit) return size;
  while (limit && ((unsigned char)text[limit] & 0xC0) == 0x80) limit--;
  return limit;
}

/* One text of all errors, with a part of each where they are long; NULL when memory is out. */
static __attribute__((cold)) char *join_errors(char **errors, int tasks, int failures) {
  char *text = NULL;
  size_t size = 0, limit = TASK_ERRORS_SIZE / (size_t)failures;
  FILE *out = open_memstream(&text, &size);
  if (limit < ERROR_SIZE_MIN) limit = ERROR_SIZE_MIN;
  for (int i = 0; i < tasks && out; ++i) {
    if (!errors[i]) continue;
    size_t part = cut(errors[i], limit);
    (void)fprintf(out, "Task %d error: ", i);
    (void)fwrite(errors[i], 1, part, out);
    (void)fprintf(out, "%s%s", errors[i][part] ? "..." : "", --failures ? "\n" : "");
  }
  if (out) (void)fclose(out);
  return text;
}

/* `errors`: a text on the heap per task, NULL where it went well. Records a line "Task <i>
 * error: <text>" for each that is there, cut where they are too long together, and frees them.
 * 0, or -1 if there is any. */
static int report_errors(char **errors, int tasks) {
  int failures = 0;
  for (int i = 0; i < tasks; ++i) failures += errors[i] != NULL;
  if (!failures) return 0;
  char *text = join_errors(errors, tasks, failures);
  mb_set_kernel_error(text ? text : "a parallel task failed");
  free(text);
  for (int i = 0; i < tasks; ++i) free(errors[i]);
  return -1;
}

/* ---- launch ---------------------------------------------------------------------------------- */

static bool was_forked_since(unsigned before) { return mb_forks() != before; }

/* A task for each of these workers. */
static void start_tasks(struct job *job, struct worker *workers) {
  job->workers = workers;
  job->forks = mb_forks();
  for (struct worker *w = workers; w; w = w->next_idle) start_task(w, job, job->next++);
}

/* Up to `wanted` workers: how many; -1 and an error where that is less than `least`. */
static int need_workers(int wanted, int least, int limit, struct worker **out) {
  int taken = 0;
  *out = wanted < MB_WORKER_LIMIT ? take_workers(wanted, limit, &taken) : NULL;
  if (taken >= least) return taken;
  give_back_workers(*out);
  mb_fail(MBLOB_E_KERNEL,
          "parallel launch: no threads for %d tasks at the same time, the limit is %d", least + 1,
          MB_WORKER_LIMIT);
  return -1;
}

/* A task of a loop that runs in order waits for others: those that have not begun get threads. */
static bool start_rest(struct job *job) {
  const int rest = job->env.num_task - job->next;
  struct worker *workers;
  if (!rest) return true;
  if (need_workers(rest, rest, MB_WORKER_LIMIT, &workers) < 0) return false;
  start_tasks(job, workers);
  return true;
}

static int end_job(struct job *job) {
  if (job->workers && was_forked_since(job->forks)) {
    /* This is the child of a fork in a task of this thread, and the threads of the other tasks are
     * the parent's. */
    mb_fail(MBLOB_E_KERNEL,
            "parallel loop: the process was forked inside, and the child has but one of %d tasks",
            job->env.num_task);
    return -1;
  }
  for (struct worker *w = job->workers; w; w = w->next_idle) wait_for(w);
  if (job->workers) give_back_workers(job->workers);
  return report_errors(job->errors, job->env.num_task);
}

/* With `tasks` tasks: those that have no worker run on this thread, one after the other. */
static int run_job(struct job *job, struct worker *workers, int tasks) {
  size_t counters_size = (size_t)tasks * COUNTER_STRIDE * sizeof(atomic_int);
  /* As aligned as a cache line, so that no two tasks share one. */
  atomic_int *counters = aligned_alloc(64, counters_size);
  struct job *outer = in_order;
  int rc = -1;
  job->errors = calloc((size_t)tasks, sizeof(*job->errors));
  if (counters && job->errors) {
    for (int i = 0; i < tasks; ++i) atomic_init(&counters[i * COUNTER_STRIDE], 0);
    job->env = (TVMParallelGroupEnv){counters, tasks};
    job->control = mb_float_control();
    job->caller = caller ? caller : &thread_place;
    job->next = 1;
    start_tasks(job, workers);
    if (job->next < tasks) in_order = job;
    run_pool_task(job, 0);
    while (job->next < tasks) run_pool_task(job, job->next++);
    in_order = outer;
    rc = end_job(job);
  } else {
    if (workers) give_back_workers(workers);
    mb_fail_memory(counters_size);
  }
  free(job->errors);
  free(counters);
  return rc;
}

/* With up to `wanted` tasks; fewer than `least` are an error. */
static int launch(struct job *job, int wanted, int least, int limit) {
  struct worker *workers = NULL;
  int tasks = 1;
  nested_loops += thread_place != OUTSIDE;
  if (thread_place == OUTSIDE || (thread_place == IN_STEP && wanted > MB_WORKER_LIMIT)) {
    const int taken = need_workers(wanted - 1, least - 1, limit, &workers);
    if (taken < 0) return -1;
    tasks += taken;
  } else if (thread_place == IN_STEP && job->place == IN_TASK) {
    tasks = wanted;
  }
  return run_job(job, workers, tasks);
}

int mb_parallel_launch(FTVMParallelLambda task, void *cdata, int num_task) {
  struct job job = {.task = task, .cdata = cdata, .place = IN_TASK};
  if (num_task > 0) return launch(&job, num_task, num_task, MB_WORKER_LIMIT);
  int width = mb_parallel_width();
  return launch(&job, width, 1, width - 1);
}

int mb_parallel_launch_steps(FTVMParallelLambda task, void *cdata, int most) {
  struct job job = {
      .task = task, .cdata = cdata, .place = thread_place == IN_TASK ? IN_TASK : IN_STEP};
  int width = mb_parallel_width();
  return launch(&job, most, 1, (most > width ? most : width) - 1);
}

const void *mblob_parallel_caller(int *is_inside) {
  if (is_inside) *is_inside = thread_place != OUTSIDE;
  return caller ? caller : &thread_place;
}

unsigned mb_parallel_nested_loops(void) { return nested_loops; }

int mb_parallel_barrier(int task_id, TVMParallelGroupEnv *env) {
  atomic_int *counters = env->sync_handle;
  if (in_order && in_order->env.sync_handle == counters && !start_rest(in_order)) return -1;
  int old = atomic_fetch_add_explicit(&counters[task_id * COUNTER_STRIDE], 1, memory_order_release);
  for (int i = 0; i < env->num_task; ++i) {
    if (i == task_id) continue;
    struct mb_spin spin = {0};
    while (atomic_load_explicit(&counters[i * COUNTER_STRIDE], memory_order_acquire) <= old) {
      if (mb_spin_more(&spin, MB_SPIN_TIME)) continue;
      if (was_forked_since(forks_before)) return -1; /* the other tasks are in another process */
      sched_yield();
    }
  }
  return 0;
}
