/* ptx.h - PTX as text: what it needs, and its kernels. */
#ifndef MB_CUDA_PTX_H
#define MB_CUDA_PTX_H

#include "base/base.h"
#include "code_kernels.h"

/* MBLOB_E_FORMAT: no PTX. */
int ptx_check(struct mb_slice code);
/* True if it has what every PTX begins with. */
bool ptx_is(struct mb_slice code);
/* The text behind a directive (".version 8.4"), "" if it has none. */
void ptx_word(struct mb_slice code, const char *directive, char *text, size_t size);
/* Add every kernel (".entry NAME"), and the parameters of the declared one. */
void ptx_read_kernels(struct mb_slice code, struct cuda_code_kernel *found);

#endif
