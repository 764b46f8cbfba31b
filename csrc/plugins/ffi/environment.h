/* environment.h - what kernels ask of the library's surroundings: functions by name, loops on
 * threads. */
#ifndef MB_FFI_ENVIRONMENT_H
#define MB_FFI_ENVIRONMENT_H

#include <tvm/runtime/c_backend_api.h>

#include "objects.h"

int mb_find_function(enum mb_releases releases, void *library, const char *name, void **out);
int mb_ffi_parallel_launch(FTVMParallelLambda task, void *data, int count);
int mb_init_once(void **handle, int (*init)(void **result));
int mb_deinit_once(void **handle, int (*deinit)(void *handle));

/* Where C++ libraries of tvm_ffi 0.1.13 and later that have no memory of their own for objects ask
 * for it: room behind a pointer to the function that frees it. */
struct mb_object_allocator {
  void *(*allocate)(size_t size, size_t alignment, int32_t type, void *context);
  void *context;
};
struct mb_object_allocator *mb_get_allocator(void);
/* These say that mblob does not have it: 0 only where nothing would change. */
int mb_set_allocator(struct mb_object_allocator *allocator);
int mb_register_c_api(const char *name, void *symbol);
int mb_register_context_symbol(const char *name, void *symbol);

#endif
