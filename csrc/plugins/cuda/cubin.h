/* cubin.h - ELF files for the machine CUDA: whether they are whole, and what they tell of their
 * kernels. */
#ifndef MB_CUDA_CUBIN_H
#define MB_CUDA_CUBIN_H

#include "base/base.h"
#include "code_kernels.h"

bool cubin_is(struct mb_slice code);
/* MBLOB_E_FORMAT: cut short, or for another machine. The other functions take only code that
 * passed. */
int cubin_check(struct mb_slice code);
/* Add every kernel, and the parameters of the declared one: their sizes alone, which is all that
 * a cubin has. */
void cubin_read_kernels(struct mb_slice code, struct cuda_code_kernel *found);

#endif
