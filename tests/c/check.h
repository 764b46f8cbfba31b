/* check.h - one macro is the test framework: a failed condition prints itself and ends the program. */
#ifndef CHECK_H
#define CHECK_H

#include <mblob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                                    \
  do {                                                                                                      \
    if (!(condition)) {                                                                                     \
      fprintf(stderr, "%s:%d: %s\n  last error: %s\n", __FILE__, __LINE__, #condition, mblob_last_error()); \
      exit(1);                                                                                              \
    }                                                                                                       \
  } while (0)

#define RUN(test, ...)       \
  do {                       \
    printf("  %s\n", #test); \
    test(__VA_ARGS__);       \
  } while (0)

/* DIRECTORY/NAME in a static buffer. */
static inline const char *in(const char *directory, const char *name) {
  static char path[4096];
  snprintf(path, sizeof(path), "%s/%s", directory, name);
  return path;
}

#endif
