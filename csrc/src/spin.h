/* spin.h - waiting for another thread without sleeping. */
#ifndef MB_SPIN_H
#define MB_SPIN_H

/* Tell the processor that this is one round of a loop that waits. */
static inline void mb_spin_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

#endif
