/* failing.h - tests of a use of a driver's double in which one call after the other fails, each
 * in a process of its own. */
#ifndef FAILING_H
#define FAILING_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common/check_tvm.h"

/* The failure that a test is to make: see fake_fail. */
struct failing {
  const char *function; /* NULL: of all calls together */
  int after, times, code;
};
static struct failing failing;

/* How many calls are between two that fail: all do, or each so many-th where that takes too long
 * (under valgrind). */
static inline int failing_step(void) {
  const char *every = getenv("MBLOB_TEST_FAILING_STEP");
  const int step = every ? atoi(every) : 1;
  return step > 0 ? step : 1;
}

static inline void fails_apart(struct failing which, void (*test)(void)) {
  int status = -1;
  failing = which;
  (void)fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    test();
    exit(0); /* with exit handlers: leaks are looked for */
  }
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  if (status)
    fprintf(stderr, "%s, after %d calls, code %d\n", which.function ? which.function : "any call",
            which.after, which.code);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* What `count` gives in a process of its own. */
static inline int counted_apart(int (*count)(void)) {
  int ends[2], number = 0;
  CHECK(pipe(ends) == 0);
  (void)fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    number = count();
    CHECK(write(ends[1], &number, sizeof(number)) == sizeof(number));
    exit(0);
  }
  CHECK(child > 0 && read(ends[0], &number, sizeof(number)) == sizeof(number) &&
        waitpid(child, NULL, 0) == child);
  (void)close(ends[0]), (void)close(ends[1]);
  return number;
}

#endif
