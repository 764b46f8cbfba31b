/* tensors.h - what executors do with tensors: checks against what is expected, copies. */
#ifndef MB_TENSORS_H
#define MB_TENSORS_H

#include <mblob.h>
#include <stdbool.h>

#include "base/base.h"

/* `given` must be on that device, to be used there without a copy; kinds of host memory are one. */
int mb_tensor_is_on(const char *what, DLDevice device, const DLTensor *given);
/* Check, match and copy all elements; `from` is the caller's, `to` what is expected. */
int mb_tensor_assign(const char *what, DLTensor *to, const DLTensor *from);
/* The same where `to` is the caller's, and `from` what is expected. */
int mb_tensor_assign_output(const char *what, DLTensor *to, const DLTensor *from);
/* A counted view of `given`, which must fit `like` and be as aligned as kernels assume. With
 * `is_array` it is an array and kept, otherwise its memory must outlive the view. A
 * mblob_status. */
int mb_tensor_borrow(const char *what, const DLTensor *like, DLTensor *given, bool is_array,
                     DLTensor **out);

#endif
