/* context.h - the devices: each with its primary context (the one that CUDA's runtime library
 * and frameworks use in the same process), retained with its first use and kept as long as the
 * process; and what the calling thread has chosen. */
#ifndef MB_CUDA_CONTEXT_H
#define MB_CUDA_CONTEXT_H

#include <stdatomic.h>

#include "driver.h"

enum { CUDA_DEVICES = 64 }; /* more are not shown */

struct cuda_device {
  int id;
  CUdevice handle;
  CUcontext context;
  char name[128];
  int compute_major, compute_minor;
  int max_threads; /* per block */
  int max_block[3], max_grid[3];
  int max_shared;              /* bytes per block without asking, 48 KiB so far */
  int max_shared_opt_in;       /* bytes per block, for kernels that ask */
  atomic_bool lost;            /* an error ended the context */
  char lost_by[256];           /* that error; written before `lost` is set */
  atomic_uint_least64_t peers; /* bit i: access to the memory of device i is enabled */
};

/* What a thread is in while it uses a device. */
struct cuda_scope {
  const struct cuda_driver *driver;
  struct cuda_device *device;
  bool pushed; /* another context is below */
};

/* How many devices there are; MBLOB_E_INCOMPATIBLE where that cannot be told. */
int cuda_count(int *out);
/* A device by number, started; its context is the thread's until cuda_leave. Errors are
 * recorded, and then there is nothing to leave. */
int cuda_enter(int device_id, struct cuda_scope *out);
void cuda_leave(struct cuda_scope *scope);

/* Record what the driver answered, with what was being done; the status. CUDA_SUCCESS is
 * MBLOB_OK. An error that ends the context is told as such, and noted for later errors. */
int cuda_check(const struct cuda_scope *scope, CUresult error, const char *format, ...)
    MB_PRINTF(3, 4);
/* True if the device was lost, or the driver is gone: then there is nothing left to give back. */
bool cuda_is_gone(const struct cuda_scope *scope, CUresult error);

/* The calling thread's device (`__tvm_set_device`), 0 until it chose one. */
int cuda_thread_device(void);
void cuda_set_thread_device(int device_id);
/* The calling thread's stream of a device; NULL is CUDA's default stream. */
CUstream cuda_thread_stream(int device_id);
void cuda_set_thread_stream(int device_id, CUstream stream);

#endif
