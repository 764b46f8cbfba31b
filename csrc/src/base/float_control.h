/* float_control.h - the control words of floating-point arithmetic: rounding, precision, traps, and
 * whether subnormal numbers count as zero.
 *
 * They belong to a thread, and code of a library may change them: gcc links crtfastmath.o, whose
 * constructor does so, into what is linked with -ffast-math. Whoever lets code of others run takes
 * the words before, and gives them back. Sticky flags that say what happened are no control.
 *
 * x86 has MXCSR (for SSE) and the control word of the x87; aarch64 FPCR, arm FPSCR, RISC-V frm,
 * s390x FPC.
 * Nothing is kept on other machines. */
#ifndef MB_FLOAT_CONTROL_H
#define MB_FLOAT_CONTROL_H

#include <stdint.h>

struct mb_float_control {
  uint64_t words;
};

#if defined(__x86_64__) || (defined(__i386__) && defined(__SSE__))
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
static inline struct mb_float_control mb_float_control(void) {
  uint64_t fpcr;
  __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
  return (struct mb_float_control){fpcr};
}

static inline void mb_float_control_set(struct mb_float_control wanted) {
  __asm__ volatile("msr fpcr, %0" : : "r"(wanted.words));
}
#elif defined(__arm__) && defined(__ARM_FP) && !defined(__SOFTFP__)
#define MB_FPSCR_FLAGS 0xf800009fu /* conditions and sticky flags */

static inline struct mb_float_control mb_float_control(void) {
  uint32_t fpscr;
  __asm__ volatile("vmrs %0, fpscr" : "=r"(fpscr));
  return (struct mb_float_control){fpscr & ~MB_FPSCR_FLAGS};
}

static inline void mb_float_control_set(struct mb_float_control wanted) {
  uint32_t fpscr;
  __asm__ volatile("vmrs %0, fpscr" : "=r"(fpscr));
  fpscr = (fpscr & MB_FPSCR_FLAGS) | (uint32_t)wanted.words;
  __asm__ volatile("vmsr fpscr, %0" : : "r"(fpscr));
}
#elif defined(__riscv_flen)
static inline struct mb_float_control mb_float_control(void) {
  unsigned long frm;
  __asm__ volatile("frrm %0" : "=r"(frm));
  return (struct mb_float_control){frm};
}

static inline void mb_float_control_set(struct mb_float_control wanted) {
  __asm__ volatile("fsrm %0" : : "r"((unsigned long)wanted.words));
}
#elif defined(__s390x__)
#define MB_FPC_FLAGS 0x00fcff00u /* sticky flags, and the code of the last exception */

static inline struct mb_float_control mb_float_control(void) {
  uint32_t fpc;
  __asm__ volatile("efpc %0" : "=d"(fpc));
  return (struct mb_float_control){fpc & ~MB_FPC_FLAGS};
}

static inline void mb_float_control_set(struct mb_float_control wanted) {
  uint32_t fpc;
  __asm__ volatile("efpc %0" : "=d"(fpc));
  fpc = (fpc & MB_FPC_FLAGS) | (uint32_t)wanted.words;
  __asm__ volatile("sfpc %0" : : "d"(fpc));
}
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
