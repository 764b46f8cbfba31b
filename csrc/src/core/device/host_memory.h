/* host_memory.h - memory of the host for data: of tensors, workspaces, storage of executors. It is
 * the C library's, or that of the program (mblob_set_allocator). */
#ifndef MB_HOST_MEMORY_H
#define MB_HOST_MEMORY_H

#include <stddef.h>

/* At least `size` bytes, of which 0 gives an address as well; NULL: there is no memory. The
 * alignment is a power of two. */
void *mb_host_allocate(size_t size, size_t alignment);
/* NULL does nothing. */
void mb_host_release(void *memory);

#endif
