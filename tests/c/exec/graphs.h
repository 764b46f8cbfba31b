/* graphs.h - graph JSON for the tests. */
#ifndef GRAPHS_H
#define GRAPHS_H

#include "../common/check.h"

struct node {
  const char *name;
  const char *function; /* NULL: an input */
  int inputs[3];        /* nodes; the first output of each */
  int input_count;
  int storage;       /* of the first output; the others have the numbers behind it */
  int outputs;       /* 0 means 1 */
  const char *shape; /* "[4]"; NULL for that */
  int flatten;
};

static inline int outputs_of(const struct node *n) { return n->outputs ? n->outputs : 1; }

static inline void put_nodes(FILE *out, const struct node *nodes, int count) {
  for (int i = 0; i < count; i++) {
    const struct node *n = &nodes[i];
    fprintf(out, "%s{\"op\": \"%s\", \"name\": \"%s\", \"inputs\": [", i ? ", " : "",
            n->function ? "tvm_op" : "null", n->name);
    for (int k = 0; k < n->input_count; k++)
      fprintf(out, "%s[%d, 0, 0]", k ? ", " : "", n->inputs[k]);
    fputs("]", out);
    if (n->function)
      fprintf(
          out,
          ", \"attrs\": {\"func_name\": \"%s\", \"flatten_data\": \"%d\", \"num_inputs\": \"%d\", "
          "\"num_outputs\": \"%d\", \"hash\": \"0a\"}",
          n->function, n->flatten, n->input_count, outputs_of(n));
    fputs("}", out);
  }
}

enum { PUT_DTYPE, PUT_STORAGE, PUT_SHAPE, PUT_DEVICE };

static inline void put_list(FILE *out, const struct node *nodes, int count, int what) {
  const char *comma = "";
  for (int i = 0; i < count; i++)
    for (int k = 0; k < outputs_of(&nodes[i]); k++, comma = ", ") {
      fputs(comma, out);
      if (what == PUT_DTYPE) fputs("\"float32\"", out);
      if (what == PUT_STORAGE) fprintf(out, "%d", nodes[i].storage + k);
      if (what == PUT_SHAPE) fputs(nodes[i].shape ? nodes[i].shape : "[4]", out);
      if (what == PUT_DEVICE) fputs("1", out);
    }
}

/* `heads`: nodes; ends with -1. The text is on the heap. */
__attribute__((noinline, unused)) static char *graph_json(const struct node *nodes, int count,
                                                          const int *heads) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  const char *comma = "";
  CHECK(out);
  fputs("{\"nodes\": [", out);
  put_nodes(out, nodes, count);
  fputs("], \"arg_nodes\": [", out);
  for (int i = 0; i < count; i++)
    if (!nodes[i].function) fprintf(out, "%s%d", comma, i), comma = ", ";
  fputs("], \"heads\": [", out);
  for (int i = 0; heads[i] >= 0; i++) fprintf(out, "%s[%d, 0, 0]", i ? ", " : "", heads[i]);
  fputs("], \"attrs\": {\"dltype\": [\"list_str\", [", out);
  put_list(out, nodes, count, PUT_DTYPE);
  fputs("]], \"device_index\": [\"list_int\", [", out);
  put_list(out, nodes, count, PUT_DEVICE);
  fputs("]], \"storage_id\": [\"list_int\", [", out);
  put_list(out, nodes, count, PUT_STORAGE);
  fputs("]], \"shape\": [\"list_shape\", [", out);
  put_list(out, nodes, count, PUT_SHAPE);
  fputs("]]}, \"node_row_ptr\": [0", out);
  for (int i = 0, row = 0; i < count; i++) fprintf(out, ", %d", row += outputs_of(&nodes[i]));
  fputs("]}", out);
  fclose(out);
  return text;
}

/* data -> add_one -> reshape -> twice; the sum of both is the output. */
__attribute__((unused)) static const struct node diamond[] = {
    {.name = "data", .storage = 7},
    {.name = "plus", .function = "add_one", .inputs = {0}, .input_count = 1, .storage = 2},
    {.name = "shaped",
     .function = "__nop",
     .inputs = {1},
     .input_count = 1,
     .storage = 2,
     .shape = "[2, 2]"},
    {.name = "double",
     .function = "twice",
     .inputs = {2},
     .input_count = 1,
     .storage = 9,
     .shape = "[2, 2]"},
    {.name = "mixed", .function = "mix", .inputs = {3, 1}, .input_count = 2, .storage = 4}};

/* ---- executors ---- */

static inline int try_create(const char *json, mblob_module *kernels, mblob_module **out) {
  mblob_function *create = NULL;
  TVMValue args[4] = {{.v_str = json}, {.v_handle = kernels}, {.v_int64 = kDLCPU}, {.v_int64 = 0}},
           ret;
  const int codes[4] = {kTVMStr, kTVMModuleHandle, kTVMArgInt, kTVMArgInt};
  int ret_code = kTVMNullptr;
  *out = NULL;
  CHECK(mblob_get_global("tvm.graph_executor.create", &create) == MBLOB_OK);
  int status = mblob_function_call(create, args, codes, 4, &ret, &ret_code);
  mblob_function_release(create);
  if (status) return status;
  CHECK(ret_code == kTVMModuleHandle);
  *out = ret.v_handle;
  return MBLOB_OK;
}

static inline mblob_module *create(const char *json, mblob_module *kernels) {
  mblob_module *module = NULL;
  CHECK(try_create(json, kernels, &module) == MBLOB_OK);
  return module;
}

/* Call a function of an executor; `types` as in mblob_call. */
#define CALL(module, name, ...) CHECK(mblob_call(module, name, __VA_ARGS__) == MBLOB_OK)

/* The result of a function with one integer argument. */
static inline TVMValue ask(mblob_module *module, const char *name, int64_t argument,
                           int expected_code) {
  mblob_function *function = NULL;
  TVMValue arg = {.v_int64 = argument}, ret = {0};
  int code = kTVMArgInt, ret_code = kTVMNullptr;
  CHECK(mblob_module_function(module, name, 0, &function) == MBLOB_OK);
  CHECK(mblob_function_call(function, &arg, &code, argument >= 0, &ret, &ret_code) == MBLOB_OK);
  CHECK(ret_code == expected_code);
  mblob_function_release(function);
  return ret;
}

/* Output `i` begins with these four. */
static inline void expect(mblob_module *module, int64_t i, float a, float b, float c, float d) {
  DLTensor *t = ask(module, "get_output", i, kTVMNDArrayHandle).v_handle;
  const float *f = t->data;
  CHECK(f[0] == a && f[1] == b && f[2] == c && f[3] == d);
  TVMArrayFree(t);
}

#endif
