/* workspace.h - scratch memory of kernels: TVM's contract (TVMBackendAllocWorkspace), a pool per thread and device. */
#ifndef MB_WORKSPACE_H
#define MB_WORKSPACE_H

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#define MB_TENSOR_ALIGNMENT 128 /* bytes; what kernels of TVM 0.7 - 0.9 assume, twice that of the others */

/* At least `size` bytes of this thread's pool for the device, MB_TENSOR_ALIGNMENT aligned; NULL (with an error) if there
 * are none. */
void *mb_workspace_alloc(DLDevice device, uint64_t size);
/* Give a block back to the pool of the thread that took it. 0, or -1 with an error for a pointer not from
 * there. */
int mb_workspace_free(DLDevice device, void *block);

#endif
