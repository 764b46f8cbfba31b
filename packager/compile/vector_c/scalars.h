/* scalars.h - lane types of vectors, under names that no source has.
 *
 * Stands before every source that is rewritten; the definitions it needs replace the last line. With
 * MBLOB_VECTOR_HALF also the 16-bit float: _Float16 where the compiler has it in C, __fp16 under clang and for ARM,
 * a class in C++. Each operation on vectors of it is rounded to 16 bits. */
typedef __INT8_TYPE__ mblob_int8_t;
typedef __INT16_TYPE__ mblob_int16_t;
typedef __INT32_TYPE__ mblob_int32_t;
typedef __INT64_TYPE__ mblob_int64_t;
typedef __UINT8_TYPE__ mblob_uint8_t;
typedef __UINT16_TYPE__ mblob_uint16_t;
typedef __UINT32_TYPE__ mblob_uint32_t;
typedef __UINT64_TYPE__ mblob_uint64_t;
typedef float mblob_float;
typedef double mblob_double;
#ifdef MBLOB_VECTOR_HALF
/* IEEE 754 binary16 <-> binary32 `x`, to the nearest, ties to even. binary64 `x` goes to binary32 `f` first, with the
 * last bit set if anything is lost ("to odd"): then rounding twice is rounding once. */
#define MBLOB_VECTOR_WIDEN                                                                                   \
  mblob_uint32_t sign = (mblob_uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 31u, fraction = h & 1023u; \
  union { mblob_uint32_t u; float f; } r;                                                                    \
  if (exponent == 31)                                                                                        \
    r.u = sign | 0x7f800000u | (fraction << 13);                                                             \
  else if (exponent)                                                                                         \
    r.u = sign | ((exponent + 112) << 23) | (fraction << 13);                                                \
  else {                                                                                                     \
    r.f = (float)fraction * 5.9604644775390625e-8f;                                                          \
    r.u |= sign;                                                                                             \
  }                                                                                                          \
  return r.f;
#define MBLOB_VECTOR_NARROW                                                                                  \
  union { float f; mblob_uint32_t u; } v;                                                                    \
  v.f = x;                                                                                                   \
  mblob_uint32_t sign = (v.u >> 16) & 0x8000u, rest = v.u & 0x7fffffffu, result, half_way, dropped;          \
  if (rest > 0x7f800000u) return (mblob_uint16_t)(sign | 0x7e00u | ((rest >> 13) & 1023u));                  \
  if (rest >= 0x477ff000u) return (mblob_uint16_t)(sign | 0x7c00u);                                          \
  if (rest <= 0x33000000u) return (mblob_uint16_t)sign;                                                      \
  mblob_uint32_t shift = rest >= 0x38800000u ? 13 : 126 - (rest >> 23);                                      \
  mblob_uint32_t bits = shift == 13 ? rest - 0x38000000u : (rest & 0x7fffffu) | 0x800000u;                   \
  result = bits >> shift;                                                                                    \
  half_way = 1u << (shift - 1);                                                                              \
  dropped = bits & ((1u << shift) - 1);                                                                      \
  result += dropped > half_way || (dropped == half_way && (result & 1u));                                    \
  return (mblob_uint16_t)(sign | result);
#define MBLOB_VECTOR_TO_ODD                                                                                  \
  union { float f; mblob_uint32_t u; } odd;                                                                  \
  odd.f = (float)x;                                                                                          \
  if (odd.f != x && x == x) odd.u = (odd.u - ((odd.f > x) == (x > 0))) | 1u;
#if defined(__clang__) || (defined(__ARM_FP16_FORMAT_IEEE) && !defined(__FLT16_MAX__))
typedef __fp16 mblob_half;
#if defined(__clang__) && __clang_major__ < 15 && (defined(__x86_64__) || defined(__i386__))
/* What this clang calls to convert __fp16: libgcc has the first two for ARM only, the third with another ABI. */
#ifdef __cplusplus
extern "C" {
#endif
__attribute__((weak, visibility("hidden"))) float __gnu_h2f_ieee(mblob_uint16_t h) { MBLOB_VECTOR_WIDEN }
__attribute__((weak, visibility("hidden"))) mblob_uint16_t __gnu_f2h_ieee(float x) { MBLOB_VECTOR_NARROW }
__attribute__((weak, visibility("hidden"))) mblob_uint16_t __truncdfhf2(double x) {
  MBLOB_VECTOR_TO_ODD
  return __gnu_f2h_ieee(odd.f);
}
#ifdef __cplusplus
}
#endif
#endif
#elif defined(__FLT16_MAX__) && (!defined(__cplusplus) || __GNUC__ >= 13)
typedef _Float16 mblob_half;
#elif defined(__cplusplus)
class mblob_half {
  mblob_uint16_t bits_;
  static float widen(mblob_uint16_t h) { MBLOB_VECTOR_WIDEN }
  static mblob_uint16_t narrow(float x) { MBLOB_VECTOR_NARROW }

 public:
  mblob_half() = default;
  mblob_half(double x) {
    MBLOB_VECTOR_TO_ODD
    bits_ = narrow(odd.f);
  }
  operator float() const { return widen(bits_); }
  mblob_half &operator+=(float x) { return *this = *this + x; }
  mblob_half &operator-=(float x) { return *this = *this - x; }
  mblob_half &operator*=(float x) { return *this = *this * x; }
  mblob_half &operator/=(float x) { return *this = *this / x; }
  mblob_half &operator++() { return *this += 1; }
  mblob_half &operator--() { return *this -= 1; }
  mblob_half operator++(int) {
    mblob_half old = *this;
    *this += 1;
    return old;
  }
  mblob_half operator--(int) {
    mblob_half old = *this;
    *this -= 1;
    return old;
  }
};
#else
#error "half (16-bit float) in C needs gcc 12 or clang for this target; compile as C++ (fmt='cc') or use another cc="
#endif
#undef MBLOB_VECTOR_WIDEN
#undef MBLOB_VECTOR_NARROW
#undef MBLOB_VECTOR_TO_ODD
#endif
#ifdef __cplusplus
extern int mblob_vectors_in_cxx;
#endif
extern int mblob_vector_definitions_here;
