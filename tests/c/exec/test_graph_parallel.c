/* test_graph_parallel DIRECTORY: graphs whose storage is shared, in order and on several
 * threads: one result.
 */
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
    CALL(m, "run", "");
    CALL(m, "get_output", "int64,float32[64]", (int64_t)0, expected);
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

static void branches_run_at_the_same_time(mblob_module *kernels) {
  static const struct node nodes[] = {
      {.name = "a"},
      {.name = "left", .function = "meets", .inputs = {0}, .input_count = 1, .storage = 1},
      {.name = "left2", .function = "meets", .inputs = {1}, .input_count = 1, .storage = 2},
      {.name = "right", .function = "meets", .inputs = {0}, .input_count = 1, .storage = 3},
      {.name = "right2", .function = "meets", .inputs = {3}, .input_count = 1, .storage = 4}};
  char *json = graph_json(nodes, 5, (int[]){2, 4, -1});
  mblob_module *m = create(json, kernels);
  free(json);
  for (int round = 0; round < 5; round++) CALL(m, "run", "int64", (int64_t)2);
  mblob_module_release(m);
}

int main(int argc, char **argv) {
  mblob_module *kernels = NULL;
  CHECK(argc == 2);
  CHECK(mblob_open(in(argv[1], "graph.so"), NULL, &kernels) == MBLOB_OK);
  RUN(results_are_the_same, kernels);
  RUN(memory_bound_twice_keeps_its_order, kernels);
  RUN(branches_run_at_the_same_time, kernels);
  mblob_module_release(kernels);
  return 0;
}
