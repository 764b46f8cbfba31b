/* The operators of the digits network, as plain C on row-major arrays: inputs first, the output
 * last. graph.json says how they are connected; digits.toml repeats the prototypes, and mblob
 * checks every tensor against them. */
#include <stdint.h>

/* Pixels 0..16, as scikit-learn has them, to 0..1. */
void normalize(const uint8_t pixels[1][8][8], float image[1][8][8]) {
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 8; ++j) image[0][i][j] = (float)pixels[0][i][j] / 16.0f;
}

/* 3x3, stride 1, zeros outside the image; what is negative becomes 0. */
void conv_relu(const float x[1][8][8], const float weight[16][3][3], const float bias[16],
               float y[1][16][8][8]) {
  for (int channel = 0; channel < 16; ++channel)
    for (int row = 0; row < 8; ++row)
      for (int column = 0; column < 8; ++column) {
        float sum = bias[channel];
        for (int dy = -1; dy <= 1; ++dy)
          for (int dx = -1; dx <= 1; ++dx) {
            const int i = row + dy, j = column + dx;
            if (i >= 0 && i < 8 && j >= 0 && j < 8)
              sum += weight[channel][dy + 1][dx + 1] * x[0][i][j];
          }
        y[0][channel][row][column] = sum > 0.0f ? sum : 0.0f;
      }
}

/* The largest of each 2x2 window. */
void max_pool(const float x[1][16][8][8], float y[1][16][4][4]) {
  for (int channel = 0; channel < 16; ++channel)
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j) {
        float largest = x[0][channel][2 * i][2 * j];
        for (int cell = 1; cell < 4; ++cell) {
          const float value = x[0][channel][2 * i + cell / 2][2 * j + cell % 2];
          if (value > largest) largest = value;
        }
        y[0][channel][i][j] = largest;
      }
}

static float weighted_sum(int n, const float *x, const float *weight, float bias) {
  float sum = bias;
  for (int i = 0; i < n; ++i) sum += x[i] * weight[i];
  return sum;
}

void dense_relu(const float x[1][256], const float weight[64][256], const float bias[64],
                float y[1][64]) {
  for (int out = 0; out < 64; ++out) {
    const float sum = weighted_sum(256, x[0], weight[out], bias[out]);
    y[0][out] = sum > 0.0f ? sum : 0.0f;
  }
}

void dense(const float x[1][64], const float weight[10][64], const float bias[10], float y[1][10]) {
  for (int out = 0; out < 10; ++out) y[0][out] = weighted_sum(64, x[0], weight[out], bias[out]);
}

/* The digit with the largest value; the first one of equals. */
void argmax(const float x[1][10], int32_t best[1]) {
  best[0] = 0;
  for (int digit = 1; digit < 10; ++digit)
    if (x[0][digit] > x[0][best[0]]) best[0] = digit;
}
