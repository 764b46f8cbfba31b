/* The network of examples/digits on many images: one call for all of them. */
#include "../digits/kernels.c"

void classify(const uint8_t images[][8][8], const float conv_weight[16][3][3],
              const float conv_bias[16], const float hidden_weight[64][256],
              const float hidden_bias[64], const float output_weight[10][64],
              const float output_bias[10], int32_t digits[], int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    float image[1][8][8], conv[1][16][8][8], pool[1][16][4][4], flat[1][256], hidden[1][64];
    float output[1][10];
    normalize(&images[i], image);
    conv_relu((const float (*)[8][8])image, conv_weight, conv_bias, conv);
    max_pool((const float (*)[16][8][8])conv, pool);
    for (int at = 0; at < 256; ++at) flat[0][at] = pool[0][at / 16][at / 4 % 4][at % 4];
    dense_relu((const float (*)[256])flat, hidden_weight, hidden_bias, hidden);
    dense((const float (*)[64])hidden, output_weight, output_bias, output);
    argmax((const float (*)[10])output, &digits[i]);
  }
}
