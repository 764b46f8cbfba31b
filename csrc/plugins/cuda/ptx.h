/* ptx.h - PTX as text: what it needs, and its kernels. */
#ifndef MB_CUDA_PTX_H
#define MB_CUDA_PTX_H

#include "base/base.h"
#include "entries.h"

/* MBLOB_E_FORMAT: no PTX. */
int ptx_check(struct mb_slice code);
/* Whether it has what every PTX begins with. */
bool ptx_is(struct mb_slice code);
/* The text behind a directive (".version 8.4"), "" if it has none. */
void ptx_word(struct mb_slice code, const char *directive, char *text, size_t size);
/* Tell `seen` every kernel by name (".entry NAME"), and of the one it is about the parameters. */
void ptx_see(struct mb_slice code, struct cuda_seen *seen);

#endif
