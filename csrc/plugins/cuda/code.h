/* code.h - the code of a payload: PTX, cubin or fatbin. The driver gets no length with it, so it
 * is checked first. */
#ifndef MB_CUDA_CODE_H
#define MB_CUDA_CODE_H

#include "base/base.h"
#include "common.h"
#include "context.h"

enum cuda_code_kind { CUDA_PTX, CUDA_CUBIN, CUDA_FATBIN };

/* What the code is, by its content; `fmt` is the payload's word for it, which TVM gives as a
 * hint only. MBLOB_E_FORMAT: it is none of the three, or cut short; MBLOB_E_INCOMPATIBLE: source
 * that nobody compiled. */
int cuda_code_check(struct mb_slice fmt, struct mb_slice code, enum cuda_code_kind *out);

/* Load code into the context of the scope. `module` names it in errors. */
int cuda_code_load(const struct cuda_scope *scope, const char *module, struct mb_slice code,
                   enum cuda_code_kind kind, CUmodule *out);

/* MBLOB_E_FORMAT: the code has no such kernel, or one with other parameters than declared, as
 * far as it tells. Images of a fatbin that are compressed tell nothing. `module` names it in
 * errors. */
int cuda_code_check_kernel(struct mb_slice code, enum cuda_code_kind kind,
                           const struct mb_kernel *kernel, const char *module);

#endif
