/* Runs what test_targets.py packs for another machine: HOST KIND LIBRARY. */
#include "mblob.h"

#include <stdio.h>
#include <string.h>

static int failed(const char *what) {
  printf("%s: %s\n", what, mblob_last_error());
  return 1;
}

static int kernels(mblob_module *lib) {
  float x[3] = {1, 2, 3};
  DLTensor w;
  const void *config;
  size_t size;
  if (mblob_call(lib, "scale", "float32[3],float32", x, 2.0f)) return failed("scale");
  if (mblob_module_tensor(lib, "b", &w)) return failed("b");
  if (mblob_module_payload_by_key(lib, "config", &config, &size)) return failed("config");
  printf("%g %g %g, %d, %.*s\n", (double)x[0], (double)x[1], (double)x[2],
         ((const signed char *)w.data)[2], (int)size, (const char *)config);
  if (mblob_call(lib, "scale", "float32[2],float32", x, 2.0f) != MBLOB_E_KERNEL) return 2;
  return 0;
}

static int graph(mblob_module *lib) {
  int32_t x[4] = {1, 2, 3, 4}, v[4] = {100, 100, 100, 100}, y[4];
  mblob_module *model;
  if (mblob_executor_create(lib, "model", 1, 0, &model)) return failed("model");
  if (mblob_executor_set_input(model, "x", "int32[4]", x) ||
      mblob_executor_set_input(model, "v", "int32[4]", v) || mblob_executor_run(model) ||
      mblob_executor_get_output(model, 0, "int32[4]", y))
    return failed("run");
  mblob_module_release(model);
  printf("%d %d %d %d\n", (int)y[0], (int)y[1], (int)y[2], (int)y[3]);
  return 0;
}

static int relax(mblob_module *lib) {
  float x[2][3] = {{1, 2, 3}, {4, 5, 6}}, y[2][3];
  mblob_module *model;
  if (mblob_executor_create(lib, "main", 1, 0, &model)) return failed("main");
  if (mblob_executor_set_input(model, "x", "float32[2,3]", x) || mblob_executor_run(model) ||
      mblob_executor_get_output(model, 0, "float32[2,3]", y))
    return failed("run");
  mblob_module_release(model);
  printf("%g %g %g\n", (double)y[0][0], (double)y[0][1], (double)y[1][2]);
  return 0;
}

int main(int argc, char **argv) {
  mblob_module *lib;
  int status;
  if (argc != 3) return 3;
  if (mblob_open(argv[2], NULL, &lib)) return failed("open");
  status = argv[1][0] == 'k' ? kernels(lib) : argv[1][0] == 'g' ? graph(lib) : relax(lib);
  mblob_module_release(lib);
  return status;
}
