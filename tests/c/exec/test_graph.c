/* test_graph DIRECTORY: graphs over kernels/graph.c. */
#include "graphs.h"

static _Alignas(128) float one_to_four[4] = {1, 2, 3, 4};
static mblob_module *kernels;

static mblob_module *executor(const struct node *nodes, int count, const int *heads) {
  char *json = graph_json(nodes, count, heads);
  mblob_module *module = create(json, kernels);
  free(json);
  return module;
}

static void a_graph_runs(void) {
  mblob_module *m = executor(diamond, COUNT(diamond), (int[]){4, 3, -1});
  CHECK(strcmp(mblob_module_type_key(m), "GraphExecutor") == 0);
  CHECK(ask(m, "get_num_inputs", -1, kTVMArgInt).v_int64 == 1);
  CHECK(ask(m, "get_num_outputs", -1, kTVMArgInt).v_int64 == 2);
  for (int round = 0; round < 2; round++) {
    if (round)
      CALL(m, "set_input", "int64,float32[4]", (int64_t)0, one_to_four);
    else
      CALL(m, "set_input", "str,float32[4]", "data", one_to_four);
    CALL(m, "run", "");
    expect(m, 1, 4, 6, 8, 10);
    expect(m, 0, 4 * 1.37f - 2 * 0.73f, 6 * 1.37f - 3 * 0.73f, 8 * 1.37f - 4 * 0.73f,
           10 * 1.37f - 5 * 0.73f);
  }
  float copied[4] = {0};
  CALL(m, "get_output", "int64,float32[2,2]", (int64_t)1, copied);
  CHECK(copied[3] == 10);
  CALL(m, "get_output", "str,float32[2,2]", "double:1", copied);
  mblob_module_release(m);
}

static void an_output_outlives_the_executor(void) {
  mblob_module *m = executor(diamond, COUNT(diamond), (int[]){3, -1});
  CALL(m, "set_input", "str,float32[4]", "data", one_to_four);
  CALL(m, "run", "");
  DLTensor *t = ask(m, "get_output", 0, kTVMNDArrayHandle).v_handle;
  mblob_module_release(m);
  CHECK(((const float *)t->data)[3] == 10 && t->ndim == 2);
  TVMArrayFree(t);
}

static void operators_see_what_the_graph_says(void) {
  static const struct node nodes[] = {{.name = "data", .shape = "[2, 2]"},
                                      {.name = "flat",
                                       .function = "dimensions",
                                       .inputs = {0},
                                       .input_count = 1,
                                       .storage = 1,
                                       .flatten = 1,
                                       .shape = "[2, 2]"},
                                      {.name = "square",
                                       .function = "dimensions",
                                       .inputs = {0},
                                       .input_count = 1,
                                       .storage = 2,
                                       .shape = "[2, 2]"},
                                      {.name = "pair",
                                       .function = "both",
                                       .inputs = {0},
                                       .input_count = 1,
                                       .storage = 3,
                                       .outputs = 2,
                                       .shape = "[2, 2]"},
                                      {.name = "copied",
                                       .function = "__copy",
                                       .inputs = {3},
                                       .input_count = 1,
                                       .storage = 5,
                                       .shape = "[2, 2]"}};
  mblob_module *m = executor(nodes, COUNT(nodes), (int[]){1, 2, 3, 4, 0, -1});
  CALL(m, "set_input", "str,float32[2,2]", "data", one_to_four);
  CALL(m, "run", "");
  expect(m, 0, 11, 11, 11, 11);
  expect(m, 1, 22, 22, 22, 22);
  expect(m, 2, 11, 12, 13, 14);
  expect(m, 3, 11, 12, 13, 14);
  expect(m, 4, 1, 2, 3, 4); /* an input that is an output */
  mblob_module_release(m);
}

static void memory_of_the_caller_is_used(void) {
  static const struct node nodes[] = {
      {.name = "data"},
      {.name = "shaped", .function = "__nop", .inputs = {0}, .input_count = 1, .shape = "[2, 2]"},
      {.name = "double",
       .function = "twice",
       .inputs = {1},
       .input_count = 1,
       .storage = 1,
       .shape = "[2, 2]"},
      {.name = "back", .function = "__nop", .inputs = {2}, .input_count = 1, .storage = 1}};
  static _Alignas(128) float in[4], out[4], other[8];
  mblob_module *m = executor(nodes, COUNT(nodes), (int[]){3, 2, 1, -1});
  CALL(m, "set_input_zero_copy", "str,float32[4]", "data", in);
  CALL(m, "set_output_zero_copy", "int64,float32[4]", (int64_t)0, out);
  memcpy(in, one_to_four, sizeof(in));
  CALL(m, "run", "");
  CHECK(out[0] == 2 && out[3] == 8);
  expect(m, 1, 2, 4, 6, 8);
  /* Another output of the same bytes cannot be elsewhere; an input is no output; 64 bytes are
   * needed. */
  CHECK(mblob_call(m, "set_output_zero_copy", "int64,float32[2,2]", (int64_t)1, other) ==
        MBLOB_E_ARGUMENT);
  CHECK(strstr(mblob_last_error(), "output 0"));
  /* Both can move, one after the other; between them nothing runs. */
  static _Alignas(128) float next[4];
  CALL(m, "set_output_zero_copy", "int64,float32[2,2]", (int64_t)1, out);
  CALL(m, "set_output_zero_copy", "int64,float32[4]", (int64_t)0, next);
  CHECK(mblob_call(m, "run", "") == MBLOB_E_ARGUMENT);
  CHECK(strstr(mblob_last_error(), "output 'double' has the same bytes"));
  CALL(m, "set_output_zero_copy", "int64,float32[2,2]", (int64_t)1, next);
  CALL(m, "run", "");
  CHECK(next[0] == 2 && next[3] == 8);
  memset(next, 0, sizeof(next));
  CALL(m, "set_output_zero_copy", "int64,float32[2,2]", (int64_t)1, out);
  CALL(m, "set_output_zero_copy", "int64,float32[4]", (int64_t)0, out);
  CALL(m, "run", "");
  CHECK(out[3] == 8 && !next[3]);
  CHECK(mblob_call(m, "set_output_zero_copy", "int64,float32[2,2]", (int64_t)2, other) ==
        MBLOB_E_ARGUMENT);
  CHECK(strstr(mblob_last_error(), "set_input_zero_copy"));
  CHECK(mblob_call(m, "set_input_zero_copy", "str,float32[4]", "data", other + 1) ==
        MBLOB_E_ARGUMENT);
  CHECK(strstr(mblob_last_error(), "aligned"));
  /* set_input leaves the caller's memory alone. */
  CALL(m, "set_input", "str,float32[4]", "data", other);
  CALL(m, "run", "");
  CHECK(in[3] == 4 && out[3] == 0);
  mblob_module_release(m);
}

static void bind(mblob_module *m, const char *name, TVMValue which, int code, DLTensor *array) {
  mblob_function *function = NULL;
  TVMValue args[2] = {which, {.v_handle = array}}, ret;
  const int codes[2] = {code, kTVMNDArrayHandle};
  int ret_code = kTVMNullptr;
  CHECK(mblob_module_function(m, name, 0, &function) == MBLOB_OK);
  CHECK(mblob_function_call(function, args, codes, 2, &ret, &ret_code) == MBLOB_OK);
  mblob_function_release(function);
}

static void an_array_of_the_caller_lives_while_it_is_used(void) {
  mblob_module *m = executor(diamond, COUNT(diamond), (int[]){3, -1});
  DLTensor *in = NULL, *out = NULL;
  CHECK(TVMArrayAlloc((int64_t[]){4}, 1, kDLFloat, 32, 1, kDLCPU, 0, &in) == 0);
  CHECK(TVMArrayAlloc((int64_t[]){2, 2}, 2, kDLFloat, 32, 1, kDLCPU, 0, &out) == 0);
  memcpy(in->data, one_to_four, sizeof(one_to_four));
  bind(m, "set_input_zero_copy", (TVMValue){.v_str = "data"}, kTVMStr, in);
  bind(m, "set_output_zero_copy", (TVMValue){.v_int64 = 0}, kTVMArgInt, out);
  TVMArrayFree(in);
  CALL(m, "run", "");
  CHECK(((const float *)out->data)[3] == 10);
  TVMArrayFree(out);
  CALL(m, "run", "");
  expect(m, 0, 4, 6, 8, 10);
  mblob_module_release(m);
}

static void linked_parameters_are_found(void) {
  static const struct node nodes[] = {
      {.name = "data"},
      {.name = "p0", .storage = 1},
      {.name = "mixed", .function = "mix", .inputs = {0, 1}, .input_count = 2, .storage = 2}};
  mblob_module *m = executor(nodes, COUNT(nodes), (int[]){2, -1});
  CALL(m, "run", "");
  expect(m, 0, 0 * 1.37f - 1 * 0.73f, -2 * 0.73f, -3 * 0.73f, -4 * 0.73f);
  /* What is asked for can be written, in the executor's own copy. */
  DLTensor *p0 = ask(m, "get_input", 1, kTVMNDArrayHandle).v_handle;
  CHECK(((float *)p0->data)[3] == 4);
  memset(p0->data, 0, 16);
  TVMArrayFree(p0);
  CALL(m, "run", "");
  expect(m, 0, 0, 0, 0, 0);
  mblob_module_release(m);
}

static void an_error_names_the_node(void) {
  static const struct node nodes[] = {
      {.name = "data"},
      {.name = "risky", .function = "fails", .inputs = {0}, .input_count = 1, .storage = 1},
      {.name = "sum", .function = "add_one", .inputs = {0}, .input_count = 1, .storage = 2}};
  static float minus[4] = {-1};
  mblob_module *m = executor(nodes, COUNT(nodes), (int[]){2, -1});
  for (int64_t threads = 0; threads < 4; threads++) {
    CALL(m, "set_input", "str,float32[4]", "data", minus);
    CHECK(mblob_call(m, "run", "int64", threads) == MBLOB_E_KERNEL);
    CHECK(strcmp(mblob_last_error(), "run: graph: node 1 'risky': negative, of all things") == 0);
    CALL(m, "set_input", "str,float32[4]", "data", one_to_four);
    CALL(m, "run", "int64", threads);
    expect(m, 0, 2, 3, 4, 5);
  }
  mblob_module_release(m);
}

static void wrong_use_is_named(void) {
  mblob_module *m = executor(diamond, COUNT(diamond), (int[]){4, -1});
  const struct {
    int status;
    const char *text;
  } expected[] = {
      {mblob_call(m, "set_input", "str,float32[4]", "dta", one_to_four), NULL},
      {mblob_call(m, "set_input", "str,float32[2,2]", "data", one_to_four),
       "expected shape [4], found [2,2]"},
      {mblob_call(m, "set_input", "str,int32[4]", "data", one_to_four),
       "expected float32, found int32"},
      {mblob_call(m, "set_input", "int64,float32[4]", (int64_t)5, one_to_four),
       "no input 5; there are 1: data"},
      {mblob_call(m, "get_output", "str", "plus"), "no output 'plus'; there are 1: mixed"},
      {mblob_call(m, "get_output", "int64", (int64_t)-1), "no output -1"},
      {mblob_call(m, "run", "int64", (int64_t)-1), "-1 threads"},
      {mblob_call(m, "load_params", "str", "abc"), "no parameter dictionary"},
  };
  for (int i = 0; i < COUNT(expected); i++) CHECK(expected[i].status);
  CHECK(strstr(mblob_last_error(), "no parameter dictionary"));
  CHECK(mblob_call(m, "set_input", "str,float32[4]", "dta", one_to_four) == MBLOB_E_ARGUMENT);
  CHECK(strstr(mblob_last_error(), "no input 'dta'; there are 1: data"));
  CHECK(mblob_call(m, "set_input", "str,float32[2,2]", "data", one_to_four) &&
        strstr(mblob_last_error(), expected[1].text));
  CHECK(mblob_call(m, "set_input", "str,int32[4]", "data", one_to_four) &&
        strstr(mblob_last_error(), expected[2].text));
  CHECK(mblob_call(m, "set_input", "int64,float32[4]", (int64_t)5, one_to_four) &&
        strstr(mblob_last_error(), expected[3].text));
  CHECK(mblob_call(m, "get_output", "str", "plus") && strstr(mblob_last_error(), expected[4].text));
  mblob_module_release(m);
}

static int call_executor(TVMValue *args, int *codes, int count, TVMRetValueHandle ret,
                         void *resource) {
  mblob_module **m = resource;
  (void)args, (void)codes, (void)count, (void)ret;
  return mblob_call(*m, "run", "");
}

static int find_callback(void *self, const char *name, mblob_function **out) {
  return strcmp(name, "calls_back") == 0 ? mblob_function_create(call_executor, self, NULL, out)
                                         : MBLOB_OK;
}

static void a_function_cannot_call_its_executor(void) {
  static const struct node nodes[] = {
      {.name = "data"},
      {.name = "again", .function = "calls_back", .inputs = {0}, .input_count = 1, .storage = 1},
      {.name = "other", .function = "calls_back", .inputs = {0}, .input_count = 1, .storage = 2}};
  mblob_module *m = NULL, *functions = NULL;
  mblob_loader loader = {
      .struct_size = sizeof(loader), .type_key = "functions", .function = find_callback};
  CHECK(mblob_module_create(&loader, &m, &functions) == MBLOB_OK);
  char *json = graph_json(nodes, COUNT(nodes), (int[]){1, 2, -1});
  m = create(json, functions);
  free(json);
  CHECK(mblob_call(m, "run", "") == MBLOB_E_ARGUMENT &&
        strstr(mblob_last_error(), "calls this executor"));
  CHECK(mblob_call(m, "run", "int64", (int64_t)2) == MBLOB_E_ARGUMENT);
  mblob_module_release(m);
  mblob_module_release(functions);
}

static void what_is_missing_is_named(void) {
  static const struct node nodes[] = {
      {.name = "data"},
      {.name = "op", .function = "nowhere", .inputs = {0}, .input_count = 1, .storage = 1}};
  mblob_module *m = NULL;
  char *json = graph_json(nodes, COUNT(nodes), (int[]){1, -1});
  CHECK(try_create(json, kernels, &m) == MBLOB_E_NOT_FOUND && !m);
  CHECK(strstr(mblob_last_error(), "node 1 'op'") &&
        strstr(mblob_last_error(), "no function 'nowhere'"));
  free(json);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  kernels = open_ok(argv[1], "graph.so");
  RUN(a_graph_runs);
  RUN(an_output_outlives_the_executor);
  RUN(operators_see_what_the_graph_says);
  RUN(memory_of_the_caller_is_used);
  RUN(an_array_of_the_caller_lives_while_it_is_used);
  RUN(linked_parameters_are_found);
  RUN(an_error_names_the_node);
  RUN(wrong_use_is_named);
  RUN(a_function_cannot_call_its_executor);
  RUN(what_is_missing_is_named);
  mblob_module_release(kernels);
  return 0;
}
