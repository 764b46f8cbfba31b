/* Classify images of digits with a program that TVM compiled: classify DIGITS_RELAX_SO IMAGES_NPY
 * [BATCH], one digit per line on stdout. BATCH is how many images each run gets: 20 for
 * digits_relax_20.so, all of them if it is left out. */
#include <mblob.h>
#include <stdio.h>
#include <stdlib.h>

#include "../digits/npy.h"

int main(int argc, char **argv) {
  if (argc < 3 || argc > 4) {
    fprintf(stderr, "usage: %s DIGITS_RELAX_SO IMAGES_NPY [BATCH]\n", argv[0]);
    return 2;
  }
  int64_t n = 0;
  char images[64], digits[32];
  uint8_t *pixels = npy_read_images(argv[2], &n);
  int32_t *out = calloc((size_t)n + 1, sizeof(*out));
  if (pixels == NULL || out == NULL) return 1;
  const int64_t batch = argc > 3 ? strtoll(argv[3], NULL, 10) : n;
  if (batch < 1 || n % batch != 0) {
    fprintf(stderr, "%s: %lld images are no whole batches\n", argv[2], (long long)n);
    return 2;
  }
  snprintf(images, sizeof(images), "uint8[%lld,1,8,8]", (long long)batch);
  snprintf(digits, sizeof(digits), "int32[%lld]", (long long)batch);

  mblob_module *program = NULL, *model = NULL;
  int status = mblob_open(argv[1], NULL, &program);
  if (status == 0) status = mblob_executor_create(program, NULL, kDLCPU, 0, &model);
  for (int64_t i = 0; status == 0 && i < n; i += batch) {
    status = mblob_executor_set_input(model, "image", images, pixels + 64 * i);
    if (status == 0) status = mblob_executor_run(model);
    if (status == 0) status = mblob_executor_get_output(model, 0, digits, out + i);
  }
  for (int64_t i = 0; status == 0 && i < n; ++i) printf("%d\n", out[i]);
  if (status != 0) fprintf(stderr, "%s: %s\n", argv[1], mblob_last_error());

  mblob_module_release(model);
  mblob_module_release(program);
  free(out);
  free(pixels);
  return status != 0;
}
