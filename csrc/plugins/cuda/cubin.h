/* cubin.h - ELF files for the machine CUDA: whether they are whole, and what they tell of their
 * kernels. */
#ifndef MB_CUDA_CUBIN_H
#define MB_CUDA_CUBIN_H

#include "base/base.h"
#include "entries.h"

bool cubin_is(struct mb_slice code);
/* MBLOB_E_FORMAT: cut short, or for another machine. The other functions take only code that
 * passed. */
int cubin_check(struct mb_slice code);
/* Tell `seen` every kernel by name, and of the one it is about the parameters (sizes alone,
 * which is all that a cubin has). */
void cubin_see(struct mb_slice code, struct cuda_seen *seen);

#endif
