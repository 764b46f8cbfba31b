/* check_tvm.h - the test framework, for hosts that know TVM's C API only: a failed condition
 * prints itself and ends the program. */
#ifndef CHECK_TVM_H
#define CHECK_TVM_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>

#define CHECK(condition)                                                               \
  do {                                                                                 \
    if (!(condition)) {                                                                \
      fprintf(stderr, "%s:%d: %s\n  last error: %s\n", __FILE__, __LINE__, #condition, \
              TVMGetLastError());                                                      \
      exit(1);                                                                         \
    }                                                                                  \
  } while (0)

/* A call of TVM's API that fails with a text that contains `part`. */
#define FAILS(call, part) CHECK((call) == -1 && strstr(TVMGetLastError(), part))

#endif
