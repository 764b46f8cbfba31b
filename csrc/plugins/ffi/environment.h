/* environment.h - what kernels ask of the library's surroundings: functions by name, loops on
 * threads. */
#ifndef MB_FFI_ENVIRONMENT_H
#define MB_FFI_ENVIRONMENT_H

#include <tvm/runtime/c_backend_api.h>

#include "objects.h"

int mb_find_function(enum mb_releases releases, void *library, const char *name, void **out);
int mb_parallel_launch(FTVMParallelLambda task, void *data, int count);
int mb_init_once(void **handle, int (*init)(void **result));
int mb_deinit_once(void **handle, int (*deinit)(void *handle));

#endif
