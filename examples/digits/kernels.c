/* The layers of the digits network, as plain C on row-major arrays. Sizes come first, so that the shapes can
 * be written in the prototypes; digits.toml repeats those, and mblob checks every argument against them. */
#include <stdint.h>

/* Pixels 0..16, as scikit-learn has them, to 0..1. */
void normalize(int64_t n, const uint8_t pixels[n], float image[n]) {
  for (int64_t i = 0; i < n; ++i) image[i] = (float)pixels[i] / 16.0f;
}

/* One input channel, c output channels, stride 1, zeros outside the image. */
void conv3x3(int64_t n, int64_t h, int64_t w, int64_t c, const float x[n][h][w], const float weight[c][3][3],
             const float bias[c], float y[n][c][h][w]) {
  for (int64_t image = 0; image < n; ++image)
    for (int64_t channel = 0; channel < c; ++channel)
      for (int64_t row = 0; row < h; ++row)
        for (int64_t column = 0; column < w; ++column) {
          float sum = bias[channel];
          for (int64_t dy = -1; dy <= 1; ++dy)
            for (int64_t dx = -1; dx <= 1; ++dx) {
              const int64_t i = row + dy, j = column + dx;
              if (i >= 0 && i < h && j >= 0 && j < w) sum += weight[channel][dy + 1][dx + 1] * x[image][i][j];
            }
          y[image][channel][row][column] = sum;
        }
}

/* In place. */
void relu(int64_t n, float x[n]) {
  for (int64_t i = 0; i < n; ++i) x[i] = x[i] > 0.0f ? x[i] : 0.0f;
}

/* The largest of each 2x2 window: h and w count the windows. */
void maxpool2x2(int64_t planes, int64_t h, int64_t w, const float x[planes][h][2][w][2], float y[planes][h][w]) {
  for (int64_t p = 0; p < planes; ++p)
    for (int64_t i = 0; i < h; ++i)
      for (int64_t j = 0; j < w; ++j) {
        float largest = x[p][i][0][j][0];
        for (int cell = 1; cell < 4; ++cell) {
          const float value = x[p][i][cell / 2][j][cell % 2];
          if (value > largest) largest = value;
        }
        y[p][i][j] = largest;
      }
}

/* y = x * weight^T + bias: n rows of k inputs, m outputs each. */
void dense(int64_t n, int64_t k, int64_t m, const float x[n][k], const float weight[m][k], const float bias[m],
           float y[n][m]) {
  for (int64_t row = 0; row < n; ++row)
    for (int64_t out = 0; out < m; ++out) {
      float sum = bias[out];
      for (int64_t in = 0; in < k; ++in) sum += x[row][in] * weight[out][in];
      y[row][out] = sum;
    }
}

/* Column of the largest value of each row; the first one of equals. */
void argmax(int64_t n, int64_t k, const float x[n][k], int32_t best[n]) {
  for (int64_t row = 0; row < n; ++row) {
    best[row] = 0;
    for (int64_t column = 1; column < k; ++column)
      if (x[row][column] > x[row][best[row]]) best[row] = (int32_t)column;
  }
}
