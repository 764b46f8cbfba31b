/* tcc.h - what tcc has not (0.9.27): atomics, variables of threads, arithmetic that tells of overflows, attributes with
 * the headers of glibc. A program that tcc compiles calls mblob from one thread at a time. */
#ifndef __TINYC__
#include <stdatomic.h>
#elif !defined(MBLOB_PROFILE_MINIMAL)
#error "tcc has no atomics, and mblob.c has threads: compile it with -DMBLOB_PROFILE_MINIMAL"
#else
#define __int128_t long long /* for the linker's auditors alone */
#include <link.h>
#undef __int128_t
#include <stdbool.h>
#include <stddef.h>
#undef __attribute__
#define destructor(order) destructor
#define __thread
#define _Atomic(type) type

typedef bool atomic_bool;
typedef int atomic_int;
typedef unsigned atomic_uint;
typedef size_t atomic_size_t;

#define atomic_init(at, value) ((void)(*(at) = (value)))
#define atomic_load(at) (*(at))
#define atomic_load_explicit(at, order) (*(at))
#define atomic_store(at, value) ((void)(*(at) = (value)))
#define atomic_store_explicit(at, value, order) ((void)(*(at) = (value)))
#define atomic_fetch_add(at, n) ((*(at) += (n)) - (n))
#define atomic_fetch_add_explicit(at, n, order) ((*(at) += (n)) - (n))
#define atomic_fetch_sub(at, n) ((*(at) -= (n)) + (n))
#define atomic_fetch_sub_explicit(at, n, order) ((*(at) -= (n)) + (n))
#define atomic_exchange(at, value)       \
  ({                                     \
    __typeof__(*(at)) mb_before = *(at); \
    *(at) = (value);                     \
    mb_before;                           \
  })
#define atomic_compare_exchange_strong(at, expected, wanted) \
  (*(at) == *(expected) ? (*(at) = (wanted), true) : (*(expected) = *(at), false))
#define atomic_compare_exchange_weak atomic_compare_exchange_strong
#define atomic_compare_exchange_weak_explicit(at, expected, wanted, if_equal, if_not) \
  atomic_compare_exchange_strong(at, expected, wanted)
#define __atomic_compare_exchange_n(at, expected, wanted, weak, if_equal, if_not) \
  atomic_compare_exchange_strong(at, expected, wanted)

static bool mb_unsigned_product(unsigned long long a, unsigned long long b,
                                unsigned long long *out) {
  *out = a * b;
  return a && b > ~0ULL / a;
}

static bool mb_signed_product(long long a, long long b, long long *out) {
  const unsigned long long x = a < 0 ? 0ULL - (unsigned long long)a : (unsigned long long)a,
                           y = b < 0 ? 0ULL - (unsigned long long)b : (unsigned long long)b;
  *out = (long long)((unsigned long long)a * (unsigned long long)b);
  return x && y > ((~0ULL >> 1) + ((a < 0) != (b < 0))) / x;
}

/* Of 64 bits. */
#define __builtin_mul_overflow(a, b, out)                                                        \
  ((__typeof__(*(out)))-1 < 1 ? mb_signed_product((long long)(a), (long long)(b), (void *)(out)) \
                              : mb_unsigned_product((a), (b), (void *)(out)))
#define __builtin_add_overflow(a, b, out) \
  ((b) > (long long)(~0ULL >> 1) - (a) ? true : (*(out) = (a) + (b), false))
#define __builtin_ctz(bits)                   \
  ({                                          \
    int mb_bit = 0;                           \
    while (!((bits) >> mb_bit & 1)) mb_bit++; \
    mb_bit;                                   \
  })
#endif
