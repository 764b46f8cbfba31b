/* seconds.h - clocks that durations are measured with. */
#ifndef MB_SECONDS_H
#define MB_SECONDS_H

#include <time.h>

static inline double mb_seconds_of(clockid_t clock) {
  struct timespec t;
  (void)clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline double mb_seconds_now(void) { return mb_seconds_of(CLOCK_MONOTONIC); }

#endif
