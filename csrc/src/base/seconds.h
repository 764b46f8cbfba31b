/* seconds.h - the clock that durations are measured with. */
#ifndef MB_SECONDS_H
#define MB_SECONDS_H

#include <time.h>

static inline double mb_seconds_now(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
