#include "base/float16.h"

#include <string.h>

enum {
  HALF_FRACTION = 10,
  HALF_BIAS = 15,
  HALF_INFINITY = 0x7C00,
  HALF_QUIET = 0x0200,
  HALF_SIGN = 0x8000,
  FLOAT_FRACTION = 23,
  FLOAT_BIAS = 127,
  DOUBLE_FRACTION = 52,
  DOUBLE_BIAS = 1023
};

/* `value` >> `shift` rounded to nearest, ties to even; `shift` 1 to 63. A carry goes into the
 * exponent, which is what rounding up to the next power of two means. */
static uint64_t shift_rounded(uint64_t value, unsigned shift) {
  uint64_t half = UINT64_C(1) << (shift - 1), rest = value & ((half << 1) - 1);
  value >>= shift;
  return value + (rest > half || (rest == half && (value & 1)));
}

/* The half nearest to a number of `fraction` fraction bits in an IEEE format of that bias;
 * `bits` has no sign. */
static uint16_t narrow(uint64_t bits, unsigned fraction, int bias) {
  const uint64_t infinity = (uint64_t)(2 * bias + 1) << fraction;
  const unsigned dropped = fraction - HALF_FRACTION;
  if (bits > infinity)
    return (uint16_t)(HALF_INFINITY | HALF_QUIET | ((bits >> dropped) & (HALF_QUIET - 1)));
  int exponent = (int)(bits >> fraction) - bias + HALF_BIAS;
  if (exponent >= 31) return HALF_INFINITY;
  uint64_t significand = bits & ((UINT64_C(1) << fraction) - 1);
  if (exponent > 0) /* what overflows in rounding carries into the exponent, up to infinity */
    return (uint16_t)shift_rounded(((uint64_t)exponent << fraction) | significand, dropped);
  if (exponent < -HALF_FRACTION) return 0; /* below half of the smallest subnormal */
  return (uint16_t)shift_rounded((UINT64_C(1) << fraction) | significand,
                                 dropped + (unsigned)(1 - exponent));
}

static uint16_t from_float(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return (uint16_t)(((bits >> 16) & HALF_SIGN) |
                    narrow(bits & INT32_MAX, FLOAT_FRACTION, FLOAT_BIAS));
}

static uint16_t from_double(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return (uint16_t)(((bits >> 48) & HALF_SIGN) |
                    narrow(bits & INT64_MAX, DOUBLE_FRACTION, DOUBLE_BIAS));
}

#if defined(__x86_64__)
/* Rounded to odd first: what a double cannot hold stays visible in its last bit, so the half is
 * rounded once. */
static uint16_t from_extended(long double value) {
  enum { EXTENDED_BIAS = 16383, EXTENDED_MAX = 0x7FFF, DROPPED = 11 };
  const uint64_t infinity = (uint64_t)(2 * DOUBLE_BIAS + 1) << DOUBLE_FRACTION;
  uint64_t significand, bits; /* with its leading bit */
  uint16_t head;              /* sign and exponent */
  memcpy(&significand, &value, sizeof(significand));
  memcpy(&head, (const char *)&value + sizeof(significand), sizeof(head));
  uint64_t lost = significand & ((1u << DROPPED) - 1);
  uint64_t fraction = (significand & INT64_MAX) >> DROPPED | (lost != 0);
  int exponent = (head & EXTENDED_MAX) - EXTENDED_BIAS + DOUBLE_BIAS;
  if ((head & EXTENDED_MAX) == EXTENDED_MAX)
    bits = infinity | fraction;
  else if (exponent > 2 * DOUBLE_BIAS)
    bits = infinity;
  else
    bits = exponent > 0 ? (uint64_t)exponent << DOUBLE_FRACTION | fraction
                        : 0; /* far below any half */
  return (uint16_t)((head & HALF_SIGN) | narrow(bits, DOUBLE_FRACTION, DOUBLE_BIAS));
}
#endif

static float to_float(uint16_t half) {
  uint32_t sign = (uint32_t)(half & HALF_SIGN) << 16, exponent = (half >> HALF_FRACTION) & 31u;
  uint32_t significand = half & ((1u << HALF_FRACTION) - 1), bits;
  const unsigned added = FLOAT_FRACTION - HALF_FRACTION;
  if (exponent == 31) {
    bits = UINT32_C(0x7F800000) | significand << added;
    if (significand) bits |= (uint32_t)HALF_QUIET << added;
  } else if (exponent) {
    bits = (exponent + FLOAT_BIAS - HALF_BIAS) << FLOAT_FRACTION | significand << added;
  } else if (significand) {
    /* Subnormal: the highest bit becomes the implicit one. */
    unsigned up = (unsigned)__builtin_clz(significand) - (31 - HALF_FRACTION);
    significand = (significand << up) & ((1u << HALF_FRACTION) - 1);
    bits = (uint32_t)(1 + FLOAT_BIAS - HALF_BIAS - (int)up) << FLOAT_FRACTION | significand
                                                                                    << added;
  } else {
    bits = 0;
  }
  bits |= sign;
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

/* ---- as compilers pass halves ---------------------------------------------------------------- */

#if defined(__x86_64__)
static mb_half_result half_result(uint16_t half) {
  mb_half_result both = {.integer = half, .vector = 0};
  memcpy(&both.vector, &both.integer, sizeof(both.vector));
  return both;
}
#elif defined(__aarch64__)
static mb_half_result half_result(uint16_t half) {
  uint32_t bits = half;
  mb_half_result value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}
#else
static mb_half_result half_result(uint16_t half) { return half; }
#endif

#if defined(__x86_64__) || defined(__aarch64__)
static uint16_t argument(mb_half_argument value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return (uint16_t)bits;
}
#else
static uint16_t argument(mb_half_argument half) { return half; }
#endif

/* Weak, because a program may have its compiler's own. (Said of the declarations, it would keep
 * linkers from taking these out of libmblob.a.) */
#define HELPER __attribute__((weak))

HELPER uint16_t __gnu_f2h_ieee(float value) { return from_float(value); }
HELPER float __gnu_h2f_ieee(uint16_t half) { return to_float(half); }
HELPER mb_half_result __truncsfhf2(float value) { return half_result(from_float(value)); }
HELPER mb_half_result __truncdfhf2(double value) { return half_result(from_double(value)); }
HELPER float __extendhfsf2(mb_half_argument half) { return to_float(argument(half)); }
HELPER double __extendhfdf2(mb_half_argument half) { return (double)to_float(argument(half)); }
#if defined(__x86_64__)
HELPER long double __extendhfxf2(mb_half_argument half) {
  return (long double)to_float(argument(half));
}
HELPER mb_half_result __truncxfhf2(long double value) { return half_result(from_extended(value)); }
#endif
