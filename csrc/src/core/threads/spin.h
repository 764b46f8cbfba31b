/* spin.h - waiting for another thread without sleeping, for a bounded time. */
#ifndef MB_SPIN_H
#define MB_SPIN_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Waking a thread costs some microseconds on both sides: to spin for about as long never costs
 * more than twice the better choice. The time is read from the clock, since one pause takes 4 to
 * 140 cycles, by processor. */
#define MB_SPIN_TIME 15000 /* nanoseconds */

enum { MB_SPIN_BATCH = 32 }; /* pauses between two looks at the clock */

struct mb_spin {
  unsigned rounds;
  int64_t end; /* of CLOCK_MONOTONIC, ns */
};

/* Tell the processor that this is one round of a loop that waits. */
static inline void mb_spin_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* One round of a wait that began with a zeroed `spin`; false once it has lasted `nanoseconds`. */
static inline bool mb_spin_more(struct mb_spin *spin, int64_t nanoseconds) {
  mb_spin_pause();
  if (++spin->rounds % MB_SPIN_BATCH) return true;
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  int64_t time = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
  if (!spin->end) spin->end = time + nanoseconds;
  return time < spin->end;
}

#endif
