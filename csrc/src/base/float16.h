/* float16.h - conversions that compilers call where the processor has none (IEEE 754 binary16).
 *
 * Names and signatures are those of compiler-rt and libgcc. `__gnu_*` pass a half as a 16-bit
 * integer. The others pass it as the psABI of _Float16 says, in the low 16 bits of a vector
 * register on x86-64 and AArch64; LLVM before 15 took their results as integers on x86-64, so
 * there both registers hold the result.
 *
 * Rounding is to nearest, ties to even; too large is infinity; a NaN becomes quiet and keeps the
 * top bits of its payload. */
#ifndef MB_FLOAT16_H
#define MB_FLOAT16_H

#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>

#if defined(__x86_64__)
typedef float mb_half_argument; /* its low 16 bits, whatever is above them */
typedef struct {
  uint64_t integer;
  double vector;
} mb_half_result; /* in rax and xmm0 (System V ABI, 3.2.3: classes INTEGER, SSE) */
#elif defined(__aarch64__)
typedef float mb_half_argument, mb_half_result;
#else
typedef uint16_t mb_half_argument, mb_half_result;
#endif

TVM_DLL uint16_t __gnu_f2h_ieee(float value);
TVM_DLL float __gnu_h2f_ieee(uint16_t half);
TVM_DLL mb_half_result __truncsfhf2(float value);
TVM_DLL mb_half_result __truncdfhf2(double value);
TVM_DLL float __extendhfsf2(mb_half_argument half);
TVM_DLL double __extendhfdf2(mb_half_argument half);
#if defined(__x86_64__) /* compilers go through these between halves and 64-bit integers */
TVM_DLL long double __extendhfxf2(mb_half_argument half);
TVM_DLL mb_half_result __truncxfhf2(long double value);
#endif

#endif
