/* Classify images of digits with digits.so: classify DIGITS_SO IMAGES_NPY, one digit per line on stdout.
 * The same layers as classify.py runs. The weights are used where they lie in the mapped file. */
#include <mblob.h>
#include <stdio.h>
#include <stdlib.h>

#include "npy.h"

enum { CHANNELS = 16, POOLED = 256, HIDDEN = 64, CLASSES = 10 };

typedef struct weights {
  DLTensor conv_w, conv_b, hidden_w, hidden_b, output_w, output_b;
} weights;

static int find_weights(mblob_module *net, weights *w) {
  int status = mblob_module_tensor(net, "conv.weight", &w->conv_w);
  if (status == 0) status = mblob_module_tensor(net, "conv.bias", &w->conv_b);
  if (status == 0) status = mblob_module_tensor(net, "hidden.weight", &w->hidden_w);
  if (status == 0) status = mblob_module_tensor(net, "hidden.bias", &w->hidden_b);
  if (status == 0) status = mblob_module_tensor(net, "output.weight", &w->output_w);
  if (status == 0) status = mblob_module_tensor(net, "output.bias", &w->output_b);
  return status;
}

/* Run the network; each `*` of a type text takes an int64_t, the pointer follows it. `work` is scratch. */
static int run(mblob_module *net, weights *w, int64_t n, const uint8_t *pixels, float *work, int32_t *best) {
  const int64_t side = 8, windows = 4, c = CHANNELS, k = POOLED, h = HIDDEN, m = CLASSES;
  float *image = work, *conv = image + n * 64, *pooled = conv + n * c * 64, *hidden = pooled + n * k;
  float *logits = hidden + n * h;
  int s = mblob_call(net, "normalize", "int,uint8[*],float32[*]", n * 64, n * 64, pixels, n * 64, image);
  if (s == 0)
    s = mblob_call(net, "conv3x3", "int,int,int,int,float32[*,8,8],tensor,tensor,float32[*,16,8,8]", n, side, side,
                   c, n, image, &w->conv_w, &w->conv_b, n, conv);
  if (s == 0) s = mblob_call(net, "relu", "int,float32[*]", n * c * 64, n * c * 64, conv);
  if (s == 0)
    s = mblob_call(net, "maxpool2x2", "int,int,int,float32[*,4,2,4,2],float32[*,4,4]", n * c, windows, windows,
                   n * c, conv, n * c, pooled);
  if (s == 0)
    s = mblob_call(net, "dense", "int,int,int,float32[*,256],tensor,tensor,float32[*,64]", n, k, h, n, pooled,
                   &w->hidden_w, &w->hidden_b, n, hidden);
  if (s == 0) s = mblob_call(net, "relu", "int,float32[*]", n * h, n * h, hidden);
  if (s == 0)
    s = mblob_call(net, "dense", "int,int,int,float32[*,64],tensor,tensor,float32[*,10]", n, h, m, n, hidden,
                   &w->output_w, &w->output_b, n, logits);
  if (s == 0) s = mblob_call(net, "argmax", "int,int,float32[*,10],int32[*]", n, m, n, logits, n, best);
  return s;
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s DIGITS_SO IMAGES_NPY\n", argv[0]);
    return 2;
  }
  int64_t n = 0;
  uint8_t *pixels = npy_read_images(argv[2], &n);
  if (pixels == NULL) return 1;

  mblob_module *net = NULL;
  weights w;
  float *work = malloc((size_t)n * (64 + CHANNELS * 64 + POOLED + HIDDEN + CLASSES) * sizeof *work);
  int32_t *best = malloc((size_t)n * sizeof *best);
  int failed = work == NULL || best == NULL;
  if (failed) {
    fprintf(stderr, "%s: out of memory\n", argv[0]);
  } else {
    int status = mblob_open(argv[1], NULL, &net);
    if (status == 0) status = find_weights(net, &w);
    if (status == 0) status = run(net, &w, n, pixels, work, best);
    if (status != 0) fprintf(stderr, "%s: %s\n", argv[1], mblob_last_error());
    failed = status != 0;
  }
  for (int64_t i = 0; !failed && i < n; ++i) printf("%d\n", best[i]);

  mblob_module_release(net);
  free(best);
  free(work);
  free(pixels);
  return failed;
}
