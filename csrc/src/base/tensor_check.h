/* tensor_check.h - what shape, layout and size of a tensor can be, for arrays and executors alike. */
#ifndef MB_TENSOR_CHECK_H
#define MB_TENSOR_CHECK_H

#include <mblob.h>

#define MB_NDIM_LIMIT 64 /* dimensions of a tensor; TVM has no limit, numpy's is 64 */

/* MBLOB_E_ARGUMENT for an impossible number of dimensions, no shape, or a negative extent. */
int mb_shape_check(const int64_t *shape, int ndim);
/* Bytes of compact data, the bits of an element rounded up over all of its lanes. MBLOB_E_ARGUMENT as of mb_shape_check,
 * and for more bytes than there are. */
int mb_tensor_size(const DLTensor *t, size_t *out);
/* The same for a caller's tensor, which must be on a device that is there, have elements that can be, be compact, and
 * have data unless it is empty. */
int mb_tensor_check(const DLTensor *t, size_t *size);

#endif
