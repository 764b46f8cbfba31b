/* borrowed_tensors.h - tensors that a callee may keep, over memory that its caller has during the call. */
#ifndef MB_FFI_LOANS_H
#define MB_FFI_LOANS_H

#include <mblob/plugin.h>

#include "abi.h"

/* An object that is the tensor. */
int mb_loan_begin(enum mb_releases releases, const mblob_lent_tensor *lent, struct mb_any *out);
/* After the call: an object that the callee has kept gets an owner of its memory. */
void mb_loan_end(enum mb_releases releases, const struct mb_any *any, mblob_lent_tensor *lent);

#endif
