/* test_graph_parallel DIRECTORY: graphs whose storage is shared, in order and on several
 * threads: one result.
 */
#include <dirent.h>
#include <fenv.h>
#include <pthread.h>
#include <sys/wait.h>

#include "graphs.h"

enum { NODES = 60, INPUTS = 3, SIZE = 64 };

static uint32_t state = 12345;

static int below(int n) {
  state = state * 1664525u + 1013904223u;
  return (int)((state >> 8) % (uint32_t)n);
}

struct random_graph {
  struct node nodes[NODES];
  char names[NODES][16];
};

/* Random functions on what stands before; a storage is used again as soon as its value was last
 * read, as TVM's planner does, so that the order of a graph also depends on who may write where. */
static void make_random(struct random_graph *g) {
  int last[NODES] = {0}, storages = 0, free_list[NODES], free_count = 0;
  memset(g->nodes, 0, sizeof(g->nodes));
  for (int i = 0; i < NODES; i++) {
    struct node *n = &g->nodes[i];
    snprintf(g->names[i], sizeof(g->names[i]), "n%d", i);
    n->name = g->names[i];
    n->shape = "[64]";
    last[i] = i;
    if (i < INPUTS) continue;
    n->input_count = i == NODES - 1 || below(2) ? 2 : 1;
    n->function = n->input_count == 2 ? "mix" : below(3) ? "twice" : "launches";
    for (int k = 0; k < n->input_count; k++) {
      n->inputs[k] = below(4) ? i - 1 - below(i < 6 ? i : 6) : below(i);
      last[n->inputs[k]] = i;
    }
  }
  for (int i = 0; i < NODES; i++) {
    g->nodes[i].storage = i >= INPUTS && free_count ? free_list[--free_count] : storages++;
    for (int k = INPUTS; k <= i; k++) /* inputs and the output keep theirs */
      if (last[k] == i && k != NODES - 1)
        free_list[free_count++] = g->nodes[k].storage, last[k] = -1;
  }
}

static void set_inputs(mblob_module *m) {
  float data[SIZE];
  for (int i = 0; i < INPUTS; i++) {
    for (int k = 0; k < SIZE; k++) data[k] = (float)(i + 1) * 0.1f + (float)k;
    CALL(m, "set_input", "int64,float32[64]", (int64_t)i, data);
  }
}

static void results_are_the_same(mblob_module *kernels) {
  static struct random_graph g;
  for (int round = 0; round < 12; round++) {
    float expected[SIZE], found[SIZE];
    make_random(&g);
    char *json = graph_json(g.nodes, NODES, (int[]){NODES - 1, -1});
    mblob_module *m = create(json, kernels);
    free(json);
    set_inputs(m);
    CALL(m, "run", "int64", (int64_t)1);
    CALL(m, "get_output", "int64,float32[64]", (int64_t)0, expected);
    for (int run = 0; run < 5; run++) { /* which use threads until it is known whether they help */
      memset(found, 0, sizeof(found));
      CHECK(mblob_executor_run(m) == MBLOB_OK);
      CALL(m, "get_output", "int64,float32[64]", (int64_t)0, found);
      CHECK(memcmp(expected, found, sizeof(found)) == 0);
    }
    for (int64_t threads = 0; threads < 5; threads++) {
      memset(found, 0, sizeof(found));
      CALL(m, "run", "int64", threads);
      CALL(m, "get_output", "int64,float32[64]", (int64_t)0, found);
      CHECK(memcmp(expected, found, sizeof(found)) == 0);
    }
    mblob_module_release(m);
  }
}

/* Two branches that would not wait for each other, if the caller had not bound one array as an
 * input of the second and as the output of the first. */
static void memory_bound_twice_keeps_its_order(mblob_module *kernels) {
  static const struct node nodes[] = {{.name = "a", .shape = "[64]"},
                                      {.name = "b", .storage = 1, .shape = "[64]"},
                                      {.name = "slow",
                                       .function = "launches",
                                       .inputs = {0},
                                       .input_count = 1,
                                       .storage = 2,
                                       .shape = "[64]"},
                                      {.name = "out",
                                       .function = "add_one",
                                       .inputs = {2},
                                       .input_count = 1,
                                       .storage = 3,
                                       .shape = "[64]"},
                                      {.name = "reads",
                                       .function = "twice",
                                       .inputs = {1},
                                       .input_count = 1,
                                       .storage = 4,
                                       .shape = "[64]"}};
  static _Alignas(128) float shared[SIZE], a[SIZE], result[SIZE];
  char *json = graph_json(nodes, 5, (int[]){3, 4, -1});
  mblob_module *m = create(json, kernels);
  free(json);
  CALL(m, "run", "int64", (int64_t)2); /* a schedule that knows nothing of what is bound below */
  CALL(m, "set_input_zero_copy", "str,float32[64]", "b", shared);
  CALL(m, "set_output_zero_copy", "int64,float32[64]", (int64_t)0, shared);
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < SIZE; i++) a[i] = (float)(2 * round), shared[i] = -1;
    CALL(m, "set_input", "str,float32[64]", "a", a);
    CALL(m, "run", "int64", (int64_t)3);
    CALL(m, "get_output", "int64,float32[64]", (int64_t)1, result);
    for (int i = 0; i < SIZE; i++) CHECK(result[i] == 2 * ((float)round + 1));
  }
  mblob_module_release(m);
}

/* `count` branches of one input, each of `depth` calls of a function. */
static mblob_module *branches(mblob_module *kernels, const char *function, int count, int depth) {
  static struct node nodes[64];
  static char names[64][8];
  int heads[8] = {0}, at = 1;
  nodes[0] = (struct node){.name = "a", .shape = "[64]"};
  for (int i = 0; i < count; i++) {
    for (int k = 0; k < depth; k++, at++) {
      snprintf(names[at], sizeof(names[at]), "n%d", at);
      nodes[at] = (struct node){.name = names[at],
                                .function = function,
                                .inputs = {k ? at - 1 : 0},
                                .input_count = 1,
                                .storage = at,
                                .shape = "[64]"};
    }
    heads[i] = at - 1;
  }
  heads[count] = -1;
  char *json = graph_json(nodes, at, heads);
  mblob_module *m = create(json, kernels);
  free(json);
  return m;
}

static int threads_of_process(void) {
  int count = 0;
  DIR *tasks = opendir("/proc/self/task");
  CHECK(tasks);
  for (const struct dirent *d; (d = readdir(tasks));) count += d->d_name[0] != '.';
  closedir(tasks);
  return count;
}

/* Before all others: the pool has no threads yet. */
static void a_chain_starts_no_thread(mblob_module *kernels) {
  const int before = threads_of_process();
  mblob_module *m = branches(kernels, "twice", 1, 20);
  for (int run = 0; run < 4; run++) CHECK(mblob_executor_run(m) == MBLOB_OK);
  CALL(m, "run", "int64", (int64_t)4);
  CHECK(threads_of_process() == before);
  mblob_module_release(m);
}

/* Three branches whose plan gives all of them one memory. */
static void a_plan_that_forbids_it_starts_no_thread(mblob_module *kernels) {
  struct node nodes[7] = {{.name = "a", .shape = "[64]"}};
  static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g"};
  const int before = threads_of_process();
  float found[SIZE];
  for (int i = 1; i < 7; i++)
    nodes[i] = (struct node){.name = names[i],
                             .function = "add_one",
                             .inputs = {i % 2 ? 0 : i - 1},
                             .input_count = 1,
                             .storage = 1 + (i - 1) % 2,
                             .shape = "[64]"};
  char *json = graph_json(nodes, 7, (int[]){6, -1});
  mblob_module *m = create(json, kernels);
  free(json);
  for (int run = 0; run < 4; run++) CHECK(mblob_executor_run(m) == MBLOB_OK);
  CALL(m, "run", "int64", (int64_t)4);
  CALL(m, "get_output", "int64,float32[64]", (int64_t)0, found);
  CHECK(found[0] == 2 && threads_of_process() == before);
  mblob_module_release(m);
}

static void branches_run_at_the_same_time(mblob_module *kernels) {
  mblob_module *m = branches(kernels, "meets", 2, 2);
  for (int round = 0; round < 5; round++) CALL(m, "run", "int64", (int64_t)2);
  mblob_module_release(m);
}

/* Valgrind rounds to nearest always. */
static bool rounds_upward(void) {
  volatile float one = -1, three = 3; /* nearest is farther from 0 */
  const float nearest = one / three;
  CHECK(fesetround(FE_UPWARD) == 0);
  const bool differs = one / three != nearest;
  CHECK(fesetround(FE_TONEAREST) == 0);
  return differs;
}

/* Kernels that sum per task: as many tasks in each run. */
static void loops_have_as_many_tasks_as_in_order(mblob_module *kernels) {
  static const char *const names[] = {"sums", "sums_of_seven", "meets_itself",
                                      "meets_itself_with_seven"};
  const bool rounds = rounds_upward();
  float a[SIZE], expected[4][SIZE], found[SIZE];
  for (int i = 0; i < SIZE; i++) a[i] = 1 / (float)(i + 1);
  for (int k = 0; k < 4; k++) {
    mblob_module *m = branches(kernels, names[k], 4, 5);
    CALL(m, "set_input", "int64,float32[64]", (int64_t)0, a);
    CALL(m, "run", "int64", (int64_t)1);
    CALL(m, "get_output", "int64,float32[64]", (int64_t)0, expected[k]);
    CHECK(fesetround(FE_UPWARD) == 0); /* it is that of all tasks */
    CALL(m, "run", "int64", (int64_t)1);
    CALL(m, "get_output", "int64,float32[64]", (int64_t)1, found);
    CHECK(!rounds || memcmp(expected[k], found, sizeof(found)) != 0);
    memcpy(expected[k], found, sizeof(found));
    for (int64_t threads = -1; threads < 5; threads++)
      for (int round = 0; round < 5; round++) {
        if (threads < 0)
          CHECK(mblob_executor_run(m) == MBLOB_OK);
        else
          CALL(m, "run", "int64", threads);
        for (int64_t i = 0; i < 4; i++) {
          memset(found, 0, sizeof(found));
          CALL(m, "get_output", "int64,float32[64]", i, found);
          CHECK(memcmp(expected[k], found, sizeof(found)) == 0);
        }
      }
    CHECK(fesetround(FE_TONEAREST) == 0);
    mblob_module_release(m);
  }
  CHECK(memcmp(expected[0], expected[1], sizeof(found)) != 0); /* the number of tasks matters */
}

static double seconds(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Nobody says so: it is measured. Each branch takes 50 ms. */
static void a_run_uses_threads_where_that_is_quicker(mblob_module *kernels) {
  mblob_module *m = branches(kernels, "sleeps", 2, 10);
  double least = 1;
  for (int run = 0; run < 6; run++) {
    const double start = seconds();
    CHECK(mblob_executor_run(m) == MBLOB_OK);
    const double taken = seconds() - start;
    if (taken < least) least = taken;
  }
  CHECK(least < 0.09);
  mblob_module_release(m);
}

/* `late` comes first in the order of the graph, and fails last. */
static void the_first_failure_in_the_order_of_the_graph_is_told(mblob_module *kernels) {
  static const struct node nodes[] = {
      {.name = "a"},
      {.name = "late", .function = "fails_late", .inputs = {0}, .input_count = 1, .storage = 1},
      {.name = "early", .function = "fails", .inputs = {0}, .input_count = 1, .storage = 2},
      {.name = "more", .function = "twice", .inputs = {2}, .input_count = 1, .storage = 3}};
  static const float negative[4] = {-1};
  char *json = graph_json(nodes, 4, (int[]){1, 3, -1});
  mblob_module *m = create(json, kernels);
  free(json);
  CALL(m, "set_input", "int64,float32[4]", (int64_t)0, negative);
  for (int64_t threads = 1; threads < 5; threads++) {
    CHECK(mblob_call(m, "run", "int64", threads) == MBLOB_E_KERNEL);
    CHECK(strcmp(mblob_last_error(), "run: graph: node 1 'late': too late") == 0);
  }
  CHECK(mblob_executor_run(m) == MBLOB_E_KERNEL);
  CHECK(strcmp(mblob_last_error(), "mblob_executor_run: graph: node 1 'late': too late") == 0);
  mblob_module_release(m);
}

/* Threads round as the caller does. */
static void the_control_of_floats_is_the_callers(mblob_module *kernels) {
  float a[SIZE], expected[SIZE], found[SIZE];
  mblob_module *m = branches(kernels, "divides", 4, 3);
  for (int i = 0; i < SIZE; i++) a[i] = (float)(i + 1);
  CALL(m, "set_input", "int64,float32[64]", (int64_t)0, a);
  CHECK(fesetround(FE_UPWARD) == 0);
  CALL(m, "run", "int64", (int64_t)1);
  for (int64_t i = 0; i < 4; i++) {
    CALL(m, "run", "int64", (int64_t)1);
    CALL(m, "get_output", "int64,float32[64]", i, expected);
    CALL(m, "run", "int64", (int64_t)4);
    CALL(m, "get_output", "int64,float32[64]", i, found);
    CHECK(memcmp(expected, found, sizeof(found)) == 0);
  }
  CHECK(fesetround(FE_TONEAREST) == 0);
  mblob_module_release(m);
}

static void *runs(void *module) {
  for (int i = 0; i < 5; i++) CHECK(mblob_executor_run(module) == MBLOB_OK);
  mblob_module_release(module); /* the last one, perhaps */
  return NULL;
}

/* Each has a reference; each goes when it likes. */
static void executors_run_and_close_in_several_threads(mblob_module *kernels) {
  pthread_t threads[6];
  for (int i = 0; i < 6; i += 2) {
    mblob_module *m = branches(kernels, i % 4 ? "sleeps" : "launches", 3, 3);
    for (int k = 0; k < 2; k++)
      CHECK(pthread_create(&threads[i + k], NULL, runs, mblob_module_retain(m)) == 0);
    mblob_module_release(m);
  }
  for (int i = 0; i < 6; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

/* A child has none of the threads, and starts its own. */
static void children_run_too(mblob_module *kernels) {
  mblob_module *m = branches(kernels, "sleeps", 2, 2);
  CALL(m, "run", "int64", (int64_t)2);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (!child) {
    CALL(m, "run", "int64", (int64_t)2);
    CHECK(mblob_executor_run(m) == MBLOB_OK);
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  mblob_module_release(m);
}

int main(int argc, char **argv) {
  mblob_module *kernels = NULL;
  CHECK(setenv("TVM_NUM_THREADS", "4", 1) == 0); /* wherever it runs */
  CHECK(argc == 2);
  CHECK(mblob_open(in(argv[1], "graph.so"), NULL, &kernels) == MBLOB_OK);
  RUN(a_chain_starts_no_thread, kernels);
  RUN(a_plan_that_forbids_it_starts_no_thread, kernels);
  RUN(results_are_the_same, kernels);
  RUN(memory_bound_twice_keeps_its_order, kernels);
  RUN(branches_run_at_the_same_time, kernels);
  RUN(loops_have_as_many_tasks_as_in_order, kernels);
  RUN(a_run_uses_threads_where_that_is_quicker, kernels);
  RUN(the_first_failure_in_the_order_of_the_graph_is_told, kernels);
  RUN(the_control_of_floats_is_the_callers, kernels);
  RUN(executors_run_and_close_in_several_threads, kernels);
  if (FORKS_AMONG_THREADS && !is_emulated()) RUN(children_run_too, kernels);
  mblob_module_release(kernels);
  return 0;
}
