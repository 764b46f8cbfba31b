/* control_words.h - how a thread computes: rounding, precision, masked exceptions, and whether
 * numbers below the normal ones are zero. Code of others that is loaded or unloaded may change
 * that, such as the start file that -ffast-math brings. x86 and aarch64; nothing elsewhere. */
#ifndef MB_CONTROL_WORDS_H
#define MB_CONTROL_WORDS_H

#include <stdint.h>

#if defined(__SSE__)
#define MB_STICKY 0x3fu /* of MXCSR: what happened, no control */
struct mb_control_words {
  uint32_t mxcsr;
  uint16_t x87;
};
static inline struct mb_control_words mb_control_words(void) {
  struct mb_control_words now;
  now.mxcsr = __builtin_ia32_stmxcsr();
  __asm__ volatile("fnstcw %0" : "=m"(now.x87));
  return now;
}
static inline void mb_control_words_put_back(struct mb_control_words then) {
  struct mb_control_words now = mb_control_words();
  if ((now.mxcsr ^ then.mxcsr) & ~MB_STICKY)
    __builtin_ia32_ldmxcsr((then.mxcsr & ~MB_STICKY) | (now.mxcsr & MB_STICKY));
  if (now.x87 != then.x87) __asm__ volatile("fldcw %0" : : "m"(then.x87));
}
#elif defined(__aarch64__)
struct mb_control_words {
  uint64_t fpcr;
};
static inline struct mb_control_words mb_control_words(void) {
  struct mb_control_words now;
  __asm__ volatile("mrs %0, fpcr" : "=r"(now.fpcr));
  return now;
}
static inline void mb_control_words_put_back(struct mb_control_words then) {
  if (mb_control_words().fpcr != then.fpcr) __asm__ volatile("msr fpcr, %0" : : "r"(then.fpcr));
}
#else
struct mb_control_words {
  char none;
};
static inline struct mb_control_words mb_control_words(void) {
  return (struct mb_control_words){0};
}
static inline void mb_control_words_put_back(struct mb_control_words then) { (void)then; }
#endif

#endif
