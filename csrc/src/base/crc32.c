/* CRC-32 of docs/format.md: polynomial 0xEDB88320 reflected, initial and final complement.
 *
 * Three ways to the same number: eight tables, 8 bytes a step; on AArch64 the processor's
 * instruction for it; and on x86-64 with PCLMULQDQ folding of 64 bytes a step (V. Gopal et al.,
 * "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009; the
 * constants are x^k mod P for the distances named below). */
#include <pthread.h>

#include "base/bytes.h"

static uint32_t tables[8][256];
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static void make_tables(void) {
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; bit++) c = (c >> 1) ^ (0xEDB88320u & (0u - (c & 1)));
    tables[0][i] = c;
  }
  for (uint32_t i = 0; i < 256; i++)
    for (int t = 1; t < 8; t++)
      tables[t][i] = (tables[t - 1][i] >> 8) ^ tables[0][tables[t - 1][i] & 0xFF];
}

/* `crc` is the inner state: not complemented. */
static uint32_t by_tables(uint32_t crc, const uint8_t *p, uint64_t size) {
  for (; size >= 8; size -= 8, p += 8) {
    uint32_t a = crc ^ mb_u32_at(p), b = mb_u32_at(p + 4);
    crc = tables[7][a & 0xFF] ^ tables[6][(a >> 8) & 0xFF] ^ tables[5][(a >> 16) & 0xFF] ^
          tables[4][a >> 24] ^ tables[3][b & 0xFF] ^ tables[2][(b >> 8) & 0xFF] ^
          tables[1][(b >> 16) & 0xFF] ^ tables[0][b >> 24];
  }
  for (; size; size--, p++) crc = (crc >> 8) ^ tables[0][(crc ^ *p) & 0xFF];
  return crc;
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>

#define FOLD(x, k, next)                                                                           \
  _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(x, k, 0x00), _mm_clmulepi64_si128(x, k, 0x11)), \
                next)
#define LOAD(p) _mm_loadu_si128((const __m128i *)(const void *)(p))
#define ACROSS_4 _mm_set_epi64x(0x01c6e41596, 0x0154442bd4) /* x^(4*128-32), x^(4*128+32) */
#define ACROSS_1 _mm_set_epi64x(0x00ccaa009e, 0x01751997d0) /* x^(128-32), x^(128+32) */

/* At least 64 bytes. Folds all but the last `*size` bytes, which it leaves to the tables. */
__attribute__((target("pclmul,sse4.1"))) static uint32_t by_folding(uint32_t crc,
                                                                    const uint8_t **data,
                                                                    uint64_t *size) {
  const __m128i across_4 = ACROSS_4, across_1 = ACROSS_1;
  const uint8_t *p = *data;
  uint64_t left = *size - 64;
  __m128i x0 = _mm_xor_si128(LOAD(p), _mm_cvtsi32_si128((int)crc));
  __m128i x1 = LOAD(p + 16), x2 = LOAD(p + 32), x3 = LOAD(p + 48);
  for (p += 64; left >= 64; left -= 64, p += 64) {
    x0 = FOLD(x0, across_4, LOAD(p));
    x1 = FOLD(x1, across_4, LOAD(p + 16));
    x2 = FOLD(x2, across_4, LOAD(p + 32));
    x3 = FOLD(x3, across_4, LOAD(p + 48));
  }
  x1 = FOLD(x0, across_1, x1);
  x2 = FOLD(x1, across_1, x2);
  x3 = FOLD(x2, across_1, x3);
  for (; left >= 16; left -= 16, p += 16) x3 = FOLD(x3, across_1, LOAD(p));
  uint8_t rest[16]; /* 16 bytes whose CRC, started at 0, is that of all bytes so far */
  _mm_storeu_si128((__m128i *)(void *)rest, x3);
  *data = p;
  *size = left;
  return by_tables(0, rest, sizeof(rest));
}

/* Asked once: a virtual machine may take long to answer. __builtin_cpu_supports would bring 5 kB
 * of libgcc. */
int mb_crc32_is_fast(void) {
  static atomic_int known; /* 1: no, 2: yes */
  int answer = atomic_load_explicit(&known, memory_order_relaxed);
  if (!answer) {
    unsigned a, b, c = 0, d;
    const unsigned needed = bit_PCLMUL | bit_SSE4_1;
    answer = 1 + (__get_cpuid(1, &a, &b, &c, &d) && (c & needed) == needed);
    atomic_store_explicit(&known, answer, memory_order_relaxed);
  }
  return answer == 2;
}
#elif defined(__aarch64__) && defined(__linux__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#include <sys/auxv.h>

#define HAS_CRC32 (1 << 7) /* HWCAP_CRC32 of asm/hwcap.h */

/* The instruction of Armv8 for this very polynomial, 8 bytes a step; written out, as compilers
 * ask for differently named options before they have it. */
static uint32_t by_folding(uint32_t crc, const uint8_t **data, uint64_t *size) {
  const uint8_t *p = *data;
  uint64_t left = *size;
  for (; left >= 8; left -= 8, p += 8)
    __asm__(".arch_extension crc\n\tcrc32x %w0, %w0, %x1" : "+r"(crc) : "r"(mb_u64_at(p)));
  *data = p;
  *size = left;
  return crc;
}

int mb_crc32_is_fast(void) { return (getauxval(AT_HWCAP) & HAS_CRC32) != 0; }
#else
static uint32_t by_folding(uint32_t crc, const uint8_t **data, uint64_t *size) {
  (void)data, (void)size;
  return crc;
}
int mb_crc32_is_fast(void) { return 0; }
#endif

uint32_t mb_crc32(uint32_t crc, const uint8_t *data, uint64_t size) {
  (void)pthread_once(&tables_once, make_tables);
  crc = ~crc;
  if (size >= 64 && mb_crc32_is_fast()) crc = by_folding(crc, &data, &size);
  return ~by_tables(crc, data, size);
}
