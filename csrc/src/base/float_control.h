/* float_control.h - the control words of floating-point arithmetic: rounding, precision, traps, and
 * whether subnormal numbers count as zero.
 *
 * They belong to a thread, and code of a library may change them: gcc links crtfastmath.o, whose
 * constructor does so, into what is linked with -ffast-math. Whoever lets code of others run takes
 * the words before, and gives them back. Sticky flags that say what happened are no control.
 *
 * x86 has MXCSR (for SSE) and the control word of the x87; aarch64 FPCR, arm FPSCR, RISC-V frm,
 * s390x FPC.
 * Nothing is kept on other machines, and by tcc, whose assembler lacks the instructions. */
#ifndef MB_FLOAT_CONTROL_H
#define MB_FLOAT_CONTROL_H

#include <stdint.h>

struct mb_float_control {
  uint64_t words;
};

/* A machine with one control word, of which `flags` are no control. */
#define MB_FLOAT_WORD(type, read, write, in, flags)                         \
  static inline struct mb_float_control mb_float_control(void) {            \
    type word;                                                              \
    __asm__ volatile(read : "=" in(word));                                  \
    return (struct mb_float_control){word & ~(type)(flags)};                \
  }                                                                         \
                                                                            \
  static inline void mb_float_control_set(struct mb_float_control wanted) { \
    type word;                                                              \
    __asm__ volatile(read : "=" in(word));                                  \
    word = (word & (flags)) | (type)wanted.words;                           \
    __asm__ volatile(write : : in(word));                                   \
  }

#if (defined(__x86_64__) || (defined(__i386__) && defined(__SSE__))) && !defined(__TINYC__)
#define MB_MXCSR_FLAGS 0x3fu

static inline struct mb_float_control mb_float_control(void) {
  uint32_t mxcsr;
  uint16_t x87;
  __asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
  __asm__ volatile("fnstcw %0" : "=m"(x87));
  return (struct mb_float_control){(uint64_t)x87 << 32 | (mxcsr & ~MB_MXCSR_FLAGS)};
}

static inline void mb_float_control_set(struct mb_float_control wanted) {
  uint32_t mxcsr;
  uint16_t x87 = (uint16_t)(wanted.words >> 32);
  __asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
  mxcsr = (mxcsr & MB_MXCSR_FLAGS) | (uint32_t)wanted.words;
  __asm__ volatile("ldmxcsr %0" : : "m"(mxcsr));
  __asm__ volatile("fldcw %0" : : "m"(x87));
}
#elif defined(__aarch64__)
MB_FLOAT_WORD(uint64_t, "mrs %0, fpcr", "msr fpcr, %0", "r", 0u)
#elif defined(__arm__) && defined(__ARM_FP) && !defined(__SOFTFP__)
/* Conditions and sticky flags. */
MB_FLOAT_WORD(uint32_t, "vmrs %0, fpscr", "vmsr fpscr, %0", "r", 0xf800009fu)
#elif defined(__riscv_flen)
MB_FLOAT_WORD(unsigned long, "frrm %0", "fsrm %0", "r", 0u)
#elif defined(__s390x__)
/* Sticky flags, and the code of the last exception. */
MB_FLOAT_WORD(uint32_t, "efpc %0", "sfpc %0", "d", 0x00fcff00u)
#else
static inline struct mb_float_control mb_float_control(void) {
  return (struct mb_float_control){0};
}

static inline void mb_float_control_set(struct mb_float_control wanted) { (void)wanted; }
#endif

/* Give the words back, if they are others now. */
static inline void mb_float_control_keep(struct mb_float_control before) {
  if (__builtin_expect(mb_float_control().words != before.words, 0)) mb_float_control_set(before);
}

#endif
