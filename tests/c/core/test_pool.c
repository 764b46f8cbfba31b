/* test_pool [DIRECTORY]: parallel loops and workspaces, called as kernels call them. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <tvm/runtime/c_backend_api.h>
#include <unistd.h>

#include "../common/check.h"

enum { MANY = 12, ROUNDS = 50, HOSTS = 3, FORKS = 6 };

/* ---- loops ----------------------------------------------------------------------------------- */

struct meeting {
  atomic_int arrived[3], tasks;
  bool complete;
};

/* Nobody passes a barrier before all have come to it. */
static int meets(int id, TVMParallelGroupEnv *env, void *cdata) {
  struct meeting *m = cdata;
  bool complete = true;
  for (int phase = 0; phase < 3; phase++) {
    atomic_fetch_add(&m->arrived[phase], 1);
    if (TVMBackendParallelBarrier(id, env)) return -1;
    complete = complete && atomic_load(&m->arrived[phase]) == env->num_task;
  }
  atomic_fetch_add(&m->tasks, 1);
  if (id == 0) m->complete = complete;
  return complete ? 0 : -1;
}

static void more_tasks_than_processors_meet_at_barriers(void) {
  struct meeting m = {.complete = false};
  int tasks = MANY + (int)sysconf(_SC_NPROCESSORS_ONLN);
  CHECK(TVMBackendParallelLaunch(meets, &m, tasks) == 0);
  CHECK(m.complete && atomic_load(&m.tasks) == tasks);
}

static void *host(void *ignored) {
  for (int round = 0; round < ROUNDS; round++) {
    struct meeting m = {.complete = false};
    CHECK(TVMBackendParallelLaunch(meets, &m, round % 5) == 0);
    CHECK(m.complete && (round % 5 == 0 || atomic_load(&m.tasks) == round % 5));
  }
  return ignored;
}

static void several_threads_launch_at_once(void) {
  pthread_t threads[HOSTS];
  for (int i = 0; i < HOSTS; i++) CHECK(pthread_create(&threads[i], NULL, host, NULL) == 0);
  for (int i = 0; i < HOSTS; i++) pthread_join(threads[i], NULL);
}

static int launches(int id, TVMParallelGroupEnv *env, void *cdata) {
  struct meeting m = {.complete = false}, again = {.complete = false};
  (void)env;
  if (TVMBackendParallelLaunch(meets, &m, id + 2)) return -1;
  /* inline: one task, on this thread */
  ((int *)cdata)[id] = atomic_load(&m.tasks);
  return TVMBackendParallelLaunch(meets, &again, 0);
}

static void a_loop_in_a_loop_runs_on_its_thread(void) {
  int tasks[3] = {0};
  CHECK(TVMBackendParallelLaunch(launches, tasks, 3) == 0);
  CHECK(tasks[0] == 1 && tasks[1] == 1 && tasks[2] == 1);
  more_tasks_than_processors_meet_at_barriers(); /* this thread is no task any more */
}

/* ---- errors ---------------------------------------------------------------------------------- */

static int odd_ones_fail(int id, TVMParallelGroupEnv *env, void *cdata) {
  char text[64];
  (void)env, (void)cdata;
  snprintf(text, sizeof(text), "number %d\nis odd: \xC3\xA4", id);
  TVMAPISetLastError(text); /* also where nothing fails: that is nobody's error */
  return id % 2 ? -1 : 0;
}

static void each_failing_task_is_in_the_error(void) {
  CHECK(TVMBackendParallelLaunch(odd_ones_fail, NULL, 6) == -1);
  CHECK(
      strcmp(TVMGetLastError(),
             "Task 1 error: number 1\nis odd: \xC3\xA4\nTask 3 error: number 3\nis odd: \xC3\xA4\n"
             "Task 5 error: number 5\nis odd: \xC3\xA4") == 0);
}

static int fails_alone(int id, TVMParallelGroupEnv *env, void *cdata) {
  (void)id, (void)env;
  if (cdata) TVMAPISetLastError(cdata);
  return -1;
}

static void one_task_keeps_its_error(void) {
  static char text[] = "alone";
  TVMAPISetLastError("of before");
  CHECK(TVMBackendParallelLaunch(fails_alone, text, 1) == -1);
  CHECK(strcmp(TVMGetLastError(), "Task 0 error: alone") == 0);
  CHECK(TVMBackendParallelLaunch(fails_alone, NULL, 1) == -1);
  CHECK(strcmp(TVMGetLastError(), "Task 0 error: it gave no reason") == 0);
}

static void long_errors_share_what_there_is(void) {
  static char text[1 << 20];
  for (size_t i = 0; i + 1 < sizeof(text); i += 2) memcpy(text + i, "\xC3\xA4", 2);
  text[sizeof(text) - 2] = 0;
  CHECK(TVMBackendParallelLaunch(fails_alone, text, 1) == -1);
  CHECK(strlen(TVMGetLastError()) < 70000 && strlen(TVMGetLastError()) > 60000);
  CHECK(TVMBackendParallelLaunch(fails_alone, text, MANY) == -1);
  const char *error = TVMGetLastError();
  CHECK(strlen(error) < 70000);
  for (int i = 0; i < MANY; i++) {
    char head[32];
    snprintf(head, sizeof(head), "Task %d error: \xC3\xA4", i);
    CHECK(strstr(error, head));
  }
  for (const char *at = error; (at = strstr(at, "...")); at += 3) /* whole characters */
    CHECK(memcmp(at - 2, "\xC3\xA4", 2) == 0);
}

/* A task that fails before the barrier must not keep the others there. */
static int first_one_fails(int id, TVMParallelGroupEnv *env, void *cdata) {
  return id == 0 ? fails_alone(id, env, cdata) : TVMBackendParallelBarrier(id, env);
}

static void who_fails_releases_the_others(void) {
  static char text[] = "does not come";
  CHECK(TVMBackendParallelLaunch(first_one_fails, text, 4) == -1);
  CHECK(strcmp(TVMGetLastError(), "Task 0 error: does not come") == 0);
}

/* ---- processes ------------------------------------------------------------------------------- */

/* What ends a child without a look for leaks: what threads of its parent held is none of its. */
_Noreturn static void end_child(int result, int pipe) {
  CHECK(write(pipe, &result, sizeof(result)) == sizeof(result));
  for (;;) (void)kill(getpid(), SIGKILL);
}

/* What a child told through the pipe, else its exit status. */
static int result_of(pid_t child, int pipe) {
  int status, result = -1;
  ssize_t told = read(pipe, &result, sizeof(result));
  close(pipe);
  CHECK(waitpid(child, &status, 0) == child);
  if (told == sizeof(result)) return result;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Run `body` in a child; its result. A child that hangs dies of the alarm. */
static int in_child(int (*body)(void)) {
  int ends[2];
  CHECK(fflush(NULL) == 0 && pipe(ends) == 0);
  pid_t child = fork();
  if (!child) {
    (void)alarm(60);
    end_child(body(), ends[1]);
  }
  close(ends[1]);
  return result_of(child, ends[0]);
}

static int loops(void) {
  struct meeting m = {.complete = false};
  return TVMBackendParallelLaunch(meets, &m, 8) == 0 && atomic_load(&m.tasks) == 8 ? 0 : 1;
}

static int loops_in_a_grandchild(void) { return loops() + in_child(loops); }

static atomic_bool stop;

static void *launch_on(void *ignored) {
  while (!atomic_load(&stop)) CHECK(loops() == 0);
  return ignored;
}

static void *launch_once(void *ignored) {
  CHECK(loops() == 0);
  return ignored;
}

/* The first loop of the process, which makes the pool, is under way in another thread. */
static int forks_at_the_first_loop(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, launch_once, NULL) == 0);
  int result = in_child(loops);
  pthread_join(thread, NULL);
  return result;
}

static void a_fork_amid_the_first_loop_gives_a_working_child(void) {
  for (int round = 0; round < 4 * FORKS; round++) CHECK(in_child(forks_at_the_first_loop) == 0);
}

static void a_fork_amid_loops_of_other_threads_gives_a_working_child(void) {
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, launch_on, NULL) == 0);
  for (int round = 0; round < FORKS; round++)
    CHECK(in_child(round % 2 ? loops : loops_in_a_grandchild) == 0);
  atomic_store(&stop, true);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  CHECK(loops() == 0);
}

/* Task 0 forks; the child comes back from the loop as well, without the other tasks. */
static int forks_inside(int id, TVMParallelGroupEnv *env, void *cdata) {
  if (id == 0) {
    *(pid_t *)cdata = fork();
    if (*(pid_t *)cdata == 0) (void)alarm(60);
  }
  return TVMBackendParallelBarrier(id, env);
}

static void a_fork_inside_a_loop_leaves_no_child_waiting(void) {
  pid_t child = -1;
  int ends[2];
  CHECK(fflush(NULL) == 0 && pipe(ends) == 0);
  int rc = TVMBackendParallelLaunch(forks_inside, &child, 3);
  if (child == 0)
    end_child(rc == -1 && strstr(TVMGetLastError(), "forked inside") && loops() == 0 ? 0 : 1,
              ends[1]);
  close(ends[1]);
  CHECK(rc == 0 && result_of(child, ends[0]) == 0);
}

static int exits_in_a_task(int id, TVMParallelGroupEnv *env, void *cdata) {
  (void)cdata;
  if (id == 1) exit(7);
  return TVMBackendParallelBarrier(id, env);
}

static int exits_while_others_wait(void) {
  CHECK(loops() == 0); /* idle workers are there, too */
  return TVMBackendParallelLaunch(exits_in_a_task, NULL, 4);
}

static void the_process_may_end_in_a_task(void) { CHECK(in_child(exits_while_others_wait) == 7); }

static int one_processor(int id, TVMParallelGroupEnv *env, void *cdata) {
  cpu_set_t set;
  (void)env, (void)cdata;
  return id == 0 || (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) == 1) ? 0 : -1;
}

static int binds(void) {
  return setenv("TVM_BIND_THREADS", "1", 1) || TVMBackendParallelLaunch(one_processor, NULL, 3);
}
static int binds_not(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) || CPU_COUNT(&set) == 1) return 0;
  return unsetenv("TVM_BIND_THREADS") || TVMBackendParallelLaunch(one_processor, NULL, 3) == 0;
}

static void threads_are_bound_where_that_is_asked_for(void) {
  CHECK(in_child(binds) == 0);
  CHECK(in_child(binds_not) == 0);
}

static int two_by_default(void) {
  struct meeting m = {.complete = false};
  return TVMBackendParallelLaunch(meets, &m, 0) == 0 ? atomic_load(&m.tasks) : -1;
}
static int tvm_counts_first(void) {
  return setenv("OMP_NUM_THREADS", "5", 1) || setenv("TVM_NUM_THREADS", "3", 1) ? -1
                                                                                : two_by_default();
}
static int then_openmp(void) {
  return setenv("OMP_NUM_THREADS", "5,2", 1) || unsetenv("TVM_NUM_THREADS") ? -1 : two_by_default();
}

/* Read at the first loop, so before this process has one. */
static void the_environment_tells_how_many(void) {
  CHECK(in_child(tvm_counts_first) == 3);
  CHECK(in_child(then_openmp) == 5);
}

/* ---- workspaces and the rest
 * -------------------------------------------------------------------------------- */

static void *uses_workspaces(void *other) {
  void *blocks[8];
  for (int round = 0; round < 50; round++) {
    for (size_t i = 0; i < 8; i++) {
      size_t size = i * 5000;
      blocks[i] = TVMBackendAllocWorkspace(kDLCPU, 0, size, 2, 32);
      CHECK(blocks[i] && (uintptr_t)blocks[i] % 128 == 0); /* of 0.7 - 0.9; others need 64 */
      memset(blocks[i], (int)i, size);
    }
    for (size_t i = 8; i-- > 0;) CHECK(TVMBackendFreeWorkspace(kDLCPU, 0, blocks[i]) == 0);
  }
  CHECK(TVMBackendFreeWorkspace(kDLCPU, 0, other) == -1); /* another thread's */
  return NULL;
}

static void workspaces_belong_to_their_thread(void) {
  pthread_t threads[HOSTS];
  void *mine = TVMBackendAllocWorkspace(kDLCPU, 0, 100, 2, 32);
  for (int i = 0; i < HOSTS; i++)
    CHECK(pthread_create(&threads[i], NULL, uses_workspaces, mine) == 0);
  for (int i = 0; i < HOSTS; i++) pthread_join(threads[i], NULL);
  CHECK(TVMBackendFreeWorkspace(kDLCPU, 0, mine) == 0);
  CHECK(TVMBackendFreeWorkspace(kDLCPU, 0, mine) == -1 &&
        strstr(TVMGetLastError(), "freed already"));
}

static void a_freed_workspace_is_given_again(void) {
  void *first = TVMBackendAllocWorkspace(kDLCPU, 0, 6000, 2, 32);
  CHECK(TVMBackendFreeWorkspace(kDLCPU, 0, first) == 0);
  CHECK(TVMBackendAllocWorkspace(kDLCPU, 0, 8192, 2, 32) == first); /* the same number of pages */
  CHECK(TVMBackendFreeWorkspace(kDLCPU, 0, first) == 0);
  CHECK(!TVMBackendAllocWorkspace(kDLCPU, 0, UINT64_MAX, 2, 32) &&
        strstr(TVMGetLastError(), "workspace"));
  CHECK(!TVMBackendAllocWorkspace(kDLCUDA, 0, 8, 2, 32) &&
        strstr(TVMGetLastError(), "device type 2"));
}

static atomic_int runs;
static int counts(void *cdata) {
  atomic_fetch_add(&runs, 1);
  return *(int *)cdata;
}

static void *once;
static int all_run_it(int id, TVMParallelGroupEnv *env, void *cdata) {
  if (TVMBackendParallelBarrier(id, env)) return -1;
  return TVMBackendRunOnce(&once, counts, cdata, 0);
}

static void what_runs_once_runs_once(void) {
  int result = 0;
  void *handle = NULL;
  CHECK(TVMBackendParallelLaunch(all_run_it, &result, 8) == 0 && atomic_load(&runs) == 1);
  result = -1;
  CHECK(TVMBackendRunOnce(&handle, counts, &result, 0) == -1); /* its own status */
  CHECK(TVMBackendRunOnce(&handle, counts, &result, 0) == 0 && atomic_load(&runs) == 2);
}

int main(void) {
  /* In a process without threads. */
  RUN(the_environment_tells_how_many);
  RUN(threads_are_bound_where_that_is_asked_for);
  RUN(the_process_may_end_in_a_task);
  if (FORKS_AMONG_THREADS && !is_emulated()) RUN(a_fork_amid_the_first_loop_gives_a_working_child);
  RUN(more_tasks_than_processors_meet_at_barriers);
  RUN(several_threads_launch_at_once);
  RUN(a_loop_in_a_loop_runs_on_its_thread);
  RUN(each_failing_task_is_in_the_error);
  RUN(one_task_keeps_its_error);
  RUN(long_errors_share_what_there_is);
  RUN(who_fails_releases_the_others);
  if (FORKS_AMONG_THREADS && !is_emulated()) {
    RUN(a_fork_amid_loops_of_other_threads_gives_a_working_child);
    RUN(a_fork_inside_a_loop_leaves_no_child_waiting);
  }
  RUN(workspaces_belong_to_their_thread);
  RUN(a_freed_workspace_is_given_again);
  RUN(what_runs_once_runs_once);
  return 0;
}
