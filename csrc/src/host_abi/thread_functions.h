/* thread_functions.h - the global functions by which TVM's hosts set the number of threads. */
#ifndef MB_THREAD_FUNCTIONS_H
#define MB_THREAD_FUNCTIONS_H

#include "core/native.h"

extern const struct mb_method mb_thread_functions[];

#endif
