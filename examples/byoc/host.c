/* Runs the model in a library: what its plug-in needs comes with it. */
#include <mblob.h>
#include <stdio.h>

int main(int argc, char **argv) {
  static float x[1000], total[1];
  mblob_module *library = NULL, *model = NULL;
  for (int i = 0; i < 1000; i++) x[i] = (float)(i % 10) - 4;
  if (mblob_open(argc > 1 ? argv[1] : "model.so", NULL, &library) ||
      mblob_executor_create(library, NULL, kDLCPU, 0, &model) ||
      mblob_executor_set_input(model, "x", "float32[1000]", x) || mblob_executor_run(model) ||
      mblob_executor_get_output(model, 0, "float32[1]", total))
    return fprintf(stderr, "%s\n", mblob_last_error()), 1;
  printf("%.4f\n", total[0]);
  mblob_module_release(model);
  mblob_module_release(library);
  return 0;
}
