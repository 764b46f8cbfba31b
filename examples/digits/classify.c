/* Classify images of digits with digits.so: classify DIGITS_SO IMAGES_NPY, one digit per line on
 * stdout. The same model as classify.py runs: the graph and its parameters are in the library. */
#include <mblob.h>
#include <stdio.h>
#include <stdlib.h>

#include "npy.h"

static int classify(mblob_module *model, const uint8_t pixels[64], int32_t *digit) {
  int status = mblob_executor_set_input(model, "image", "uint8[1,8,8]", pixels);
  if (status == 0) status = mblob_executor_run(model);
  return status ? status : mblob_executor_get_output(model, 0, "int32[1]", digit);
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s DIGITS_SO IMAGES_NPY\n", argv[0]);
    return 2;
  }
  int64_t n = 0;
  uint8_t *pixels = npy_read_images(argv[2], &n);
  if (pixels == NULL) return 1;

  mblob_module *factory = NULL, *model = NULL;
  int status = mblob_open(argv[1], NULL, &factory);
  if (status == 0) status = mblob_executor_create(factory, "default", kDLCPU, 0, &model);
  for (int64_t i = 0; status == 0 && i < n; ++i) {
    int32_t digit = -1;
    status = classify(model, pixels + 64 * i, &digit);
    if (status == 0) printf("%d\n", digit);
  }
  if (status != 0) fprintf(stderr, "%s: %s\n", argv[1], mblob_last_error());

  mblob_module_release(model);
  mblob_module_release(factory);
  free(pixels);
  return status != 0;
}
