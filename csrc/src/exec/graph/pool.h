/* pool.h - memory of the values of a graph. */
#ifndef MB_GRAPH_POOL_H
#define MB_GRAPH_POOL_H

#include <mblob.h>

/* A counted array of `size` bytes on the device, on the host aligned to MB_TENSOR_ALIGNMENT and
 * all 0; pages of it that nobody touches cost nothing, however large a graph says it is. A
 * mblob_status. */
int mb_graph_pool_new(DLDevice device, size_t size, DLTensor **out);

#endif
