/* cl_signature.h - what a payload declares of a kernel against what its program takes. */
#ifndef MB_CL_SIGNATURE_H
#define MB_CL_SIGNATURE_H

#include "cl_api.h"
#include "kernel_list.h"

/* MBLOB_E_FORMAT for the first parameter that is another than declared; both have the same number of them. What the driver does not
 * tell (programs that are compiled elsewhere), and names of types that are not OpenCL's, count as declared. */
int mb_cl_check_signature(const struct mb_kernel *declared, cl_kernel kernel);
/* Whether the program has the kernel, with those parameters. */
bool mb_cl_is_as_declared(const struct mb_kernel *declared, cl_program program);

#endif
