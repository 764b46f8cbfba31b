/* byte_order.h - stored arrays are little endian (docs/format.md); kernels want this machine's
 * order. */
#ifndef MB_BYTE_ORDER_H
#define MB_BYTE_ORDER_H

#include <mblob/dlpack.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Write `size` bytes of whole elements, which are in this machine's order, as a file has them. */
void mb_write_elements(FILE *out, const void *data, size_t size, DLDataType dtype);

/* Let `view`, of `size` bytes of whole elements as a file has them and with its shape on the
 * heap, have elements of this machine's order. On a little-endian machine that is so. Elsewhere
 * the data is copied into the block that becomes the shape: who frees the shape frees both. A
 * mblob_status. */
int mb_view_in_host_order(DLTensor *view, uint64_t size);

#endif
