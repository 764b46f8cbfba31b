/* _crc32_wide.h - the CRC-32 of csrc/src/base/crc32.c, 256 bytes a step where the processor
 * multiplies four pairs at once.
 *
 * It stands here and not there because libmblob is to stay small: a loader sums what it opens, a
 * packer all it copies. */
#ifndef MBLOB_CRC32_WIDE_H
#define MBLOB_CRC32_WIDE_H

#include "base/crc32.c"

#define WIDE_LEAST 1024 /* bytes from which it is worth its beginning and end */

#if defined(__x86_64__) && defined(__GNUC__)
#define WIDE_LOAD(p) _mm512_loadu_si512((const void *)(p))
#define WIDE_FOLD(x, k, next)                                     \
  _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, k, 0x00), \
                            _mm512_clmulepi64_epi128(x, k, 0x11), next, 0x96)

__attribute__((target("avx512f,vpclmulqdq,pclmul"))) static uint32_t crc32_by_wide_folding(
    uint32_t crc, const uint8_t *p, uint64_t size) {
  const __m128i across_1 = ACROSS_1;
  const __m512i across_4 = _mm512_broadcast_i32x4(ACROSS_4);
  const __m512i across_16 = /* x^(16*128-32), x^(16*128+32) */
      _mm512_broadcast_i32x4(_mm_set_epi64x(0x01322d1430, 0x011542778a));
  __m512i x0 = _mm512_xor_si512(WIDE_LOAD(p), _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)~crc)));
  __m512i x1 = WIDE_LOAD(p + 64), x2 = WIDE_LOAD(p + 128), x3 = WIDE_LOAD(p + 192);
  for (p += 256, size -= 256; size >= 256; p += 256, size -= 256) {
    x0 = WIDE_FOLD(x0, across_16, WIDE_LOAD(p));
    x1 = WIDE_FOLD(x1, across_16, WIDE_LOAD(p + 64));
    x2 = WIDE_FOLD(x2, across_16, WIDE_LOAD(p + 128));
    x3 = WIDE_FOLD(x3, across_16, WIDE_LOAD(p + 192));
  }
  x1 = WIDE_FOLD(x0, across_4, x1);
  x2 = WIDE_FOLD(x1, across_4, x2);
  x3 = WIDE_FOLD(x2, across_4, x3);
  __m128i y = _mm512_castsi512_si128(x3);
  y = FOLD(y, across_1, _mm512_extracti32x4_epi32(x3, 1));
  y = FOLD(y, across_1, _mm512_extracti32x4_epi32(x3, 2));
  y = FOLD(y, across_1, _mm512_extracti32x4_epi32(x3, 3));
  uint8_t rest[16]; /* bytes whose CRC, with an inner state of 0 in front, is that of all so far */
  _mm_storeu_si128((__m128i *)(void *)rest, y);
  return mb_crc32(mb_crc32(~(uint32_t)0, rest, sizeof(rest)), p, size);
}

#define STATES_OF_AVX512 0xE6u /* of XCR0: what the system saves of a thread's registers */

/* 1 if processor and system have what crc32_by_wide_folding needs. Asked once, as
 * mb_crc32_is_fast: some compilers answer __builtin_cpu_supports by 130 kB of code. */
static int crc32_has_wide_folding(void) {
  static atomic_int known; /* 1: no, 2: yes */
  int answer = atomic_load_explicit(&known, memory_order_relaxed);
  if (!answer) {
    unsigned a, b = 0, c = 0, d, states = 0;
    if (__get_cpuid(1, &a, &b, &c, &d) && (c & bit_OSXSAVE))
      __asm__ volatile("xor %%ecx, %%ecx\n\txgetbv" : "=a"(states) : : "ecx", "edx", "cc");
    int is_saved = (states & STATES_OF_AVX512) == STATES_OF_AVX512;
    answer = 1 + (is_saved && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX512F) &&
                  (c & bit_VPCLMULQDQ));
    atomic_store_explicit(&known, answer, memory_order_relaxed);
  }
  return answer == 2;
}

/* What mb_crc32 returns. */
static inline uint32_t crc32_of(uint32_t crc, const uint8_t *data, uint64_t size) {
  if (size >= WIDE_LEAST && crc32_has_wide_folding()) return crc32_by_wide_folding(crc, data, size);
  return mb_crc32(crc, data, size);
}
#else
static inline uint32_t crc32_of(uint32_t crc, const uint8_t *data, uint64_t size) {
  return mb_crc32(crc, data, size);
}
#endif

#endif
