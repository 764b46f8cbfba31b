#include "halves.h"

#include <string.h>

#include "common.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

void dn_graph_widen(struct dn_graph *graph, const struct dn_library *library) {
  for (size_t i = 0; i < graph->tensor_count; ++i) {
    struct dn_tensor *tensor = &graph->tensors[i];
    if (dn_computes(library, tensor->type)) continue;
    tensor->type = DN_F32;
    tensor->bytes = tensor->bytes ? dn_tensor_bytes(tensor) : 0;
  }
}

/* ---- one element: to the nearest, ties to even; a NaN stays one ---- */

static uint32_t bits_of_half(uint16_t half) {
  uint32_t exponent = half >> 10 & 31U, fraction = half & 1023U, sign = (half & 0x8000U) << 16;
  if (exponent == 31) return sign | 0x7F800000U | fraction << 13;
  if (exponent) return sign | (exponent + 112) << 23 | fraction << 13;
  if (!fraction) return sign;
  unsigned up = (unsigned)__builtin_clz(fraction) - 21; /* to the bit that is implicit */
  return sign | (113 - up) << 23 | (fraction << up & 1023U) << 13;
}

static uint16_t half_of_bits(uint32_t bits) {
  uint32_t sign = bits >> 16 & 0x8000U, size = bits & INT32_MAX;
  if (size > 0x7F800000U) return (uint16_t)(sign | 0x7E00U | (size >> 13 & 0x1FFU));
  if (size >= 0x47800000U) return (uint16_t)(sign | 0x7C00U);
  if (size >= 0x38800000U)
    return (uint16_t)(sign | (size - 0x38000000U + 0xFFFU + (size >> 13 & 1U)) >> 13);
  if (size <= 0x33000000U) return (uint16_t)sign;
  unsigned down = 126 - (size >> 23); /* 14 to 24 */
  uint32_t whole = (size & 0x7FFFFFU) | 0x800000U, most = (1U << (down - 1)) - 1;
  return (uint16_t)(sign | (whole + most + (whole >> down & 1U)) >> down);
}

static uint16_t brain_of_bits(uint32_t bits) {
  if ((bits & INT32_MAX) > 0x7F800000U) return (uint16_t)(bits >> 16 | 0x40U);
  return (uint16_t)((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}

/* ---- many: the functions above for what is left behind the last eight ---- */

#if defined(__x86_64__)
/* Every processor with AVX2 has these conversions, too. */
__attribute__((target("avx,f16c"))) static uint64_t halves_to_floats(const uint16_t *from,
                                                                     float *to, uint64_t count) {
  uint64_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + i))));
  return i;
}

__attribute__((target("avx,f16c"))) static uint64_t floats_to_halves(const float *from,
                                                                     uint16_t *to, uint64_t count) {
  uint64_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm_storeu_si128((__m128i *)(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(from + i), 0));
  return i;
}
#else
static uint64_t halves_to_floats(const uint16_t *from, float *to, uint64_t count) {
  (void)from, (void)to, (void)count;
  return 0;
}
static uint64_t floats_to_halves(const float *from, uint16_t *to, uint64_t count) {
  (void)from, (void)to, (void)count;
  return 0;
}
#endif

void dn_convert(const void *from, enum dn_type from_type, void *to, enum dn_type to_type,
                uint64_t count, bool fast) {
  const uint16_t *halves = from;
  const uint32_t *bits = from;
  uint16_t *narrow = to;
  uint32_t *wide = to;
  uint64_t i = 0;
  if (fast && from_type == DN_F16) i = halves_to_floats(from, to, count);
  if (fast && to_type == DN_F16) i = floats_to_halves(from, to, count);
  for (; i < count; ++i)
    if (from_type == DN_F16)
      wide[i] = bits_of_half(halves[i]);
    else if (from_type == DN_BF16)
      wide[i] = (uint32_t)halves[i] << 16;
    else
      narrow[i] = to_type == DN_F16 ? half_of_bits(bits[i]) : brain_of_bits(bits[i]);
}
