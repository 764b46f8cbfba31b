/* workspace.h - scratch memory of kernels: TVM's contract (TVMBackendAllocWorkspace), a pool per
 * thread and device. */
#ifndef MB_WORKSPACE_H
#define MB_WORKSPACE_H

#include <mblob/dlpack.h>
#include <stddef.h>
#include <stdint.h>

/* At least `size` bytes of this thread's pool for the device, MB_TENSOR_ALIGNMENT aligned; NULL
 * (with an error) if there are none. */
void *mb_workspace_alloc(DLDevice device, uint64_t size);
/* Give a block back to the pool of the thread that took it. 0, or -1 with an error for a pointer
 * not from there. */
int mb_workspace_free(DLDevice device, void *block);

#endif
