/* cl_signature.h - what a payload declares of a kernel against what its program takes. */
#ifndef MB_CL_SIGNATURE_H
#define MB_CL_SIGNATURE_H

#include "cl_device.h"
#include "cl_payload.h"

/* MBLOB_E_FORMAT for the first parameter that is another than declared, by kind, size and class
 * (integer or float); both have the same number of them. `source`: what the kernel was compiled
 * from, NULL if it is compiled code. Types that the source names itself are asked of the
 * compiler. What the driver does not tell (programs that are compiled elsewhere) counts as
 * declared. */
int mb_cl_check_signature(const struct mb_kernel *declared, cl_kernel kernel,
                          const struct mb_cl_part *source, const struct mb_cl_device *device);
/* True if the program has the kernel, with those parameters. */
bool mb_cl_is_as_declared(const struct mb_kernel *declared, cl_program program,
                          const struct mb_cl_part *source, const struct mb_cl_device *device);

#endif
