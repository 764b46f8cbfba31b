/* Layers of a convolutional network in plain C, float32, channels before rows and columns.
 * convnet.py writes one function per layer around these, with its shapes as constants: the
 * compiler unrolls and vectorizes by them. */
#include <math.h>

static inline float at_least_zero(float v) { return v > 0 ? v : 0; }

/* 3x3, one pixel of zeros around the image. */
static inline void conv3x3(const float *x, const float *weight, const float *bias, float *y, int in,
                           int out, int rows, int columns, int relu) {
  for (int k = 0; k < out; k++) {
    float *plane = y + (long)k * rows * columns;
    for (int i = 0; i < rows * columns; i++) plane[i] = bias[k];
    for (int c = 0; c < in; c++)
      for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++) {
          float w = weight[((k * in + c) * 3 + dy + 1) * 3 + dx + 1];
          int first = dx < 0 ? 1 : 0, last = dx > 0 ? columns - 1 : columns;
          for (int r = dy < 0 ? 1 : 0; r < (dy > 0 ? rows - 1 : rows); r++) {
            const float *from = x + ((long)c * rows + r + dy) * columns + dx;
            for (int s = first; s < last; s++) plane[r * columns + s] += w * from[s];
          }
        }
    if (relu)
      for (int i = 0; i < rows * columns; i++) plane[i] = at_least_zero(plane[i]);
  }
}

static inline void max_pool2x2(const float *x, float *y, int channels, int rows, int columns) {
  for (int c = 0; c < channels; c++)
    for (int r = 0; r < rows / 2; r++)
      for (int s = 0; s < columns / 2; s++) {
        const float *from = x + ((long)c * rows + 2 * r) * columns + 2 * s;
        float top = from[0] > from[1] ? from[0] : from[1];
        float low = from[columns] > from[columns + 1] ? from[columns] : from[columns + 1];
        y[((long)c * (rows / 2) + r) * (columns / 2) + s] = top > low ? top : low;
      }
}

static inline void mean_of_planes(const float *x, float *y, int channels, int size) {
  for (int c = 0; c < channels; c++) {
    float sum = 0;
    for (int i = 0; i < size; i++) sum += x[(long)c * size + i];
    y[c] = sum / (float)size;
  }
}

static inline void dense_layer(const float *x, const float *weight, const float *bias, float *y,
                               int in, int out) {
  for (int k = 0; k < out; k++) {
    float sum = bias[k];
    for (int i = 0; i < in; i++) sum += x[i] * weight[k * in + i];
    y[k] = sum;
  }
}

static inline void softmax_layer(const float *x, float *y, int count) {
  float most = x[0], sum = 0;
  for (int i = 1; i < count; i++) most = x[i] > most ? x[i] : most;
  for (int i = 0; i < count; i++) sum += y[i] = expf(x[i] - most);
  for (int i = 0; i < count; i++) y[i] /= sum;
}
