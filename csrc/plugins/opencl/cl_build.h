/* cl_build.h - from a part of a payload to a program that is built for a device, through the
 * cache of files. */
#ifndef MB_CL_BUILD_H
#define MB_CL_BUILD_H

#include "cl_device.h"
#include "cl_payload.h"

/* `kernel`: for whom, in errors. The compiler's first errors are in the error. *checked: its
 * kernels were held against their declarations, and agree. */
int mb_cl_build(const struct mb_cl_payload *payload, uint64_t part, const char *kernel,
                const struct mb_cl_device *device, cl_program *out, bool *checked);

#endif
