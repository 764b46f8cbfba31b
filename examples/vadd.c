/* c = a + b, elementwise: the kernel that the example hosts call. */
#include <stdint.h>

void vadd(const float *a, const float *b, float *c, int64_t n) {
  for (int64_t i = 0; i < n; ++i) c[i] = a[i] + b[i];
}
