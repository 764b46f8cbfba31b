/* test_graph_lies DIRECTORY, or LIBRARY GRAPH.json: graph JSON that is damaged in every place, of a
 * small graph, or that of a model in a library. Each either is refused with a text,
 * or runs or fails with one; the sanitizers watch. */
#define _GNU_SOURCE
#include <ctype.h>

#include "graphs.h"

/* Memory that is not there is an error like others. */
__attribute__((visibility("default"))) const char *__asan_default_options(
    void); /* of ASan's library */
const char *__asan_default_options(void) {
  return "allocator_may_return_null=1:max_allocation_size_mb=512";
}

static int refused, ran, failed;

static void try_one(const char *json, mblob_module *kernels) {
  mblob_module *m = NULL;
  int status = try_create(json, kernels, &m);
  if (status) {
    CHECK(!m && *mblob_last_error());
    refused++;
    return;
  }
  for (int64_t threads = 0; threads < 2; threads++) {
    status = mblob_call(m, "run", "int64", 3 * threads);
    CHECK(!status || strstr(mblob_last_error(), "node "));
  }
  status ? failed++ : ran++;
  for (int64_t i = 0; i < ask(m, "get_num_outputs", -1, kTVMArgInt).v_int64; i++)
    TVMArrayFree(ask(m, "get_output", i, kTVMNDArrayHandle).v_handle);
  mblob_module_release(m);
}

/* `json` with `size` characters at `at` replaced. */
static void replace(const char *json, size_t at, size_t size, const char *by,
                    mblob_module *kernels) {
  size_t length = strlen(json), more = strlen(by);
  char *text = malloc(length - size + more + 1);
  CHECK(text);
  memcpy(text, json, at);
  memcpy(text + at, by, more);
  memcpy(text + at + more, json + at + size, length - at - size + 1);
  try_one(text, kernels);
  free(text);
}

static void every_number(const char *json, mblob_module *kernels) {
  static const char *const lies[] = {"0",
                                     "1",
                                     "2",
                                     "3",
                                     "7",
                                     "-1",
                                     "64",
                                     "4294967295",
                                     "4294967296",
                                     "9223372036854775807",
                                     "18446744073709551615",
                                     "99999999999999999999",
                                     "1e3",
                                     "[]",
                                     "\"x\"",
                                     "{}",
                                     "null"};
  for (size_t i = 0; json[i]; i++) {
    size_t size = strspn(json + i, "0123456789");
    if (!size || (i && (isalnum((unsigned char)json[i - 1])))) continue;
    for (size_t k = 0; k < sizeof(lies) / sizeof(*lies); k++)
      replace(json, i, size, lies[k], kernels);
    i += size - 1;
  }
}

static void every_string(const char *json, mblob_module *kernels) {
  static const char *const lies[] = {
      "",     "null", "tvm_op",  "__nop", "__copy", "mix", "float32x4",   "int8",  "handle",
      "void", "bool", "\\u0000", "nodes", "attrs",  "99",  "e4m3_float8", "global"};
  for (size_t i = 0; json[i]; i++) {
    if (json[i] != '"') continue;
    size_t size = strcspn(json + i + 1, "\"");
    for (size_t k = 0; k < sizeof(lies) / sizeof(*lies); k++)
      replace(json, i + 1, size, lies[k], kernels);
    i += size + 1;
  }
}

static void every_character(const char *json, mblob_module *kernels) {
  for (size_t i = 0; json[i]; i++) {
    replace(json, i, 1, "", kernels);
    replace(json, i, strlen(json) - i, "", kernels); /* cut here */
    replace(json, i, 0, i % 2 ? "]" : "[", kernels);
  }
}

static void nesting_is_bounded(mblob_module *kernels) {
  enum { DEPTH = 100000 };
  char *text = malloc(DEPTH + 32);
  CHECK(text);
  strcpy(text, "{\"metadata\": ");
  memset(text + 13, '[', DEPTH);
  text[13 + DEPTH] = 0;
  mblob_module *m = NULL;
  CHECK(try_create(text, kernels, &m) == MBLOB_E_FORMAT &&
        strstr(mblob_last_error(), "nested too deep"));
  free(text);
}

/* The product of the extents would be too large for a number. */
static void what_has_no_bytes_has_any_extents(mblob_module *kernels) {
  static const struct node nodes[] = {
      {.name = "a", .shape = "[4611686018427387904, 4611686018427387904, 0]"},
      {.name = "flat",
       .function = "add_one",
       .inputs = {0},
       .input_count = 1,
       .storage = 1,
       .flatten = 1,
       .shape = "[4611686018427387904, 4, 0]"}};
  char *json = graph_json(nodes, 2, (int[]){1, -1});
  mblob_module *m = create(json, kernels);
  free(json);
  CALL(m, "run", "");
  DLTensor *out = ask(m, "get_output", 0, kTVMNDArrayHandle).v_handle;
  CHECK(out->ndim == 3 && out->shape[0] == INT64_C(1) << 62);
  TVMArrayFree(out);
  mblob_module_release(m);
}

/* Not inlined: gcc 12 takes the text for one whose scope has ended (-Wdangling-pointer). */
__attribute__((noinline)) static void each_lie_is_named(const char *json, mblob_module *kernels) {
  static const struct {
    const char *from, *to, *error;
  } lies[] = {
      {"[1, 0, 0]]", "[9, 0, 0]]", "node 2 'shaped': entry [9, 0]: expected a node below 2"},
      {"\"inputs\": [[0, 0, 0]]", "\"inputs\": [[0, 5, 0]]", "node 'data' has 1 outputs"},
      {"\"arg_nodes\": [0]", "\"arg_nodes\": [1]", "arg_nodes[0] is 1, which is no input node"},
      {"\"heads\": [[4", "\"heads\": [[5", "heads"},
      {"node_row_ptr\": [0, 1,", "node_row_ptr\": [0, 2,",
       "node 0 'data': node_row_ptr goes from 0 to 2"},
      {"num_inputs\": \"1", "num_inputs\": \"2", "node 1 'plus': num_inputs is 2, inputs has 1"},
      {"float32", "float33",
       "graph: node 0 'data', output 0: attrs: dltype[0]: an element type that is not known: 'float33'"},
      {"[2, 2]", "[2, 3]", "node 2 'shaped': __nop from 16 bytes to 24"},
      {"[2, 2]", "[-2, 2]",
       "graph: node 2 'shaped', output 0: attrs: shape[2]: expected a whole number, found '-2'"},
      {"[2, 2]", "[2, 1.5]",
       "graph: node 2 'shaped', output 0: attrs: shape[2]: expected a whole number, found '1.5'"},
      {"2, 2, 9", "2, \"2\", 9",
       "node 2 'shaped', output 0: attrs: storage_id[2]: expected a whole number, found '\"2\"'"},
      {"[0, 1, 2, 3,", "[0, 1, null, 3,",
       "graph: node_row_ptr[2]: expected a whole number, found 'null'"},
      {"\"heads\": [[4, 0, 0]]", "\"heads\": [[4, -1, 0]]",
       "graph: heads[0]: expected a whole number, found '-1'"},
      {"num_inputs\": \"1", "num_inputs\": \"-1",
       "node 1 'plus': attrs: num_inputs: expected a whole number in quotes"},
      {"\"inputs\": [[0, 0, 0]]", "\"inputs\": [[0, [], 0]]",
       "node 1 'plus': inputs[0]: expected a whole number, found '['"},
      {"[4]", "[4611686018427387904]", "more bytes than memory can"},
      {"2, 2, 9", "2, 5, 9", "storage of its output is not that of its input"},
      {"\"nodes\"", "\"knots\"", "unknown key 'knots'; graphs have nodes"},
      {"\"op\"", "\"opus\"", "graph: node 0 'data': unknown key 'opus'; nodes have op"},
      {"tvm_op", "nvm_op", "node 1 'plus': op: expected \"null\" or \"tvm_op\", found 'nvm_op'"},
      {"\"arg_nodes\": [0]", "\"arg_nodes\": []",
       "node 0 'data' is an input of the graph, and arg_nodes lacks it"},
      {"\"arg_nodes\": [0]", "\"arg_nodes\": [0, 0]",
       "arg_nodes[1] is node 0 'data', which stands there before"},
      {"\"heads\": [[4, 0, 0]]", "\"heads\": []", "heads is empty: the graph has no output"},
      {"\"heads\": [[4, 0, 0]]", "\"heads\": [[4, 0, 0], [3, 1, 0]]",
       "heads[1]: entry [3, 1]: node 'double' has 1"},
      {"\"name\": \"double\"", "\"name\": \"plus\"", "nodes 1 and 3 have one name, 'plus'"},
      {"\"list_shape\"", "\"list_size\"",
       "graph: attrs: shape: expected type \"list_shape\", found 'list_size'"},
      {"\"shape\"", "\"forms\"", "graph: attrs: lack 'shape'"},
      {"\"heads\"", "\"metadata\"", "the graph lacks 'heads'"},
      {"[0, 1, 2, 3, 4, 5]", "[0, 1, 2, 3, 4]", "node_row_ptr has 5 numbers, expected 6"},
      {"[0, 1, 2, 3, 4, 5]", "[1, 1, 2, 3, 4, 5]", "node_row_ptr starts with 1, expected 0"},
      {"[0, 1, 2, 3, 4, 5]", "[0, 1, 2, 3, 4, 6]", "node_row_ptr ends with 6, expected 5"},
      {"float32", "e4m3_float8x", "an element type that is not known: 'e4m3_float8x'"},
      {"float32", "int65", "an element type that is not known: 'int65'"},
      {"float32", "e4m3_float8x4", NULL},
      {"float32", "int24", NULL},
      {"\"hash\"", "\"anything\"", NULL}, /* attributes that nobody here looks at */
      {"\"shape\": [\"list", "\"extra\": [\"list_int\", [1]], \"shape\": [\"list", NULL},
      {"\"list_int\", [1,", "\"list_int\", [2,", NULL}, /* the first device stands in */
      {"{\"nodes\"", "{\"metadata\": {\"a\": [1, {}]}, \"nodes\"", NULL},
      {"\"shape\": [\"list", "\"storage_scope\": [\"list_str\", [\"global\"]], \"shape\": [\"list",
       "1 storage scopes; expected one"},
      {"\"flatten_data\"", "\"flatten_data\": \"0\", \"flatten_data\"",
       "node 1 'plus': attrs: the key 'flatten_data' twice"},
      {"\"flatten_data\"", "\"num_outputs\": \"1\", \"flatten_data\"",
       "the key 'num_outputs' twice"},
      {"\"func_name\"", "\"func_name\": \"x\", \"func_name\"", "the key 'func_name' twice"},
      {"\"inputs\": [[0, 0, 0]]",
       "\"control_deps\": [], \"inputs\": [[0, 0, 0]], \"control_deps\": []",
       "the key 'control_deps' twice"},
      {"\"list_str\", [\"float32\", ", "\"list_str\", [", "4 types"}};
  for (size_t i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
    const char *at = strstr(json, lies[i].from);
    mblob_module *m = NULL;
    char *text = NULL;
    CHECK(at && asprintf(&text, "%.*s%s%s", (int)(at - json), json, lies[i].to,
                         at + strlen(lies[i].from)) > 0);
    int status = try_create(text, kernels, &m);
    if (lies[i].error ? !status || !strstr(mblob_last_error(), lies[i].error) : status) {
      fprintf(stderr, "lie %zu (%s): %s\n", i, lies[i].to, mblob_last_error());
      CHECK(0);
    }
    mblob_module_release(m);
    free(text);
  }
}

static char *read_text(const char *path) {
  FILE *file = fopen(path, "rb");
  CHECK(file && fseek(file, 0, SEEK_END) == 0);
  size_t size = (size_t)ftell(file);
  char *text = calloc(1, size + 1);
  rewind(file);
  CHECK(text && fread(text, 1, size, file) == size);
  (void)fclose(file);
  return text;
}

/* Kernels that TVM compiled check what they get; the library's first import has them. */
static int lie_about_a_model(const char *library, const char *graph) {
  mblob_module *factory = NULL;
  char *json = read_text(graph);
  CHECK(mblob_open(library, NULL, &factory) == MBLOB_OK);
  mblob_module *kernels = mblob_module_import_at(factory, 0);
  try_one(json, kernels);
  CHECK(ran == 1);
  RUN(every_number, json, kernels);
  RUN(every_string, json, kernels);
  printf("  %d refused, %d failed when they ran, %d ran\n", refused, failed, ran);
  CHECK(refused > 100 && failed + ran > 10);
  free(json);
  mblob_module_release(factory);
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 3) return lie_about_a_model(argv[1], argv[2]);
  CHECK(argc == 2);
  mblob_module *kernels = open_ok(argv[1], "graph.so");
  char *json = graph_json(diamond, COUNT(diamond), (int[]){4, -1});
  try_one(json, kernels);
  CHECK(ran == 1);
  RUN(each_lie_is_named, json, kernels);
  RUN(every_number, json, kernels);
  RUN(every_string, json, kernels);
  RUN(every_character, json, kernels);
  RUN(nesting_is_bounded, kernels);
  RUN(what_has_no_bytes_has_any_extents, kernels);
  printf("  %d refused, %d failed when they ran, %d ran\n", refused, failed, ran);
  CHECK(refused > 1000 && ran > 20);
  free(json);
  mblob_module_release(kernels);
  return 0;
}
