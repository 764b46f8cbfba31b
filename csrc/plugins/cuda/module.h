/* module.h - a module of type key `cuda`: the kernels of its payload, loaded on each device with
 * their first launch there. */
#ifndef MB_CUDA_MODULE_H
#define MB_CUDA_MODULE_H

#include "code.h"
#include "common.h"

/* A kernel on one device. */
struct cuda_kernel {
  _Atomic(CUfunction) function;   /* set last */
  int static_shared, max_threads; /* its own: bytes of shared memory, threads per block */
  int dynamic_shared; /* bytes that it may ask for at launch; changed under the module's lock */
  atomic_int allowed_shared; /* the same, for readers */
};

/* The module on one device. */
struct cuda_loaded {
  CUmodule module;
  struct cuda_kernel kernels[]; /* by mb_kernel.index */
};

struct cuda_module {
  struct mb_kernel_list list;
  struct mb_slice code; /* in the payload */
  enum cuda_code_kind kind;
  char *name; /* for errors: "module 1 of deploy.so" */
  struct mb_lock lock;
  _Atomic(struct cuda_loaded *) loaded[CUDA_DEVICES];
};

int cuda_module_open(const mblob_host *host, const mblob_module_info *info, void **self);
int cuda_module_function(void *self, const char *name, void **function);
void cuda_module_close(void *self);
/* What cuda_module_function gave, ready on the scope's device. */
int cuda_module_kernel(struct cuda_module *module, const struct mb_kernel *kernel,
                       const struct cuda_scope *scope, struct cuda_kernel **out);
/* Let the kernel use that many bytes of dynamic shared memory, where they are more than every
 * kernel may. */
int cuda_module_allow_shared(struct cuda_module *module, const struct mb_kernel *kernel,
                             struct cuda_kernel *on, const struct cuda_scope *scope, int bytes);

/* The functions of the plug-in's table. */
int cuda_module_call(void *self, void *function, const TVMValue *args, const int *codes, int count,
                     void *ret);

#endif
