/* cl_launch.h - one call of a kernel. */
#ifndef MB_CL_LAUNCH_H
#define MB_CL_LAUNCH_H

#include "cl_program.h"

/* `kernel` is the index; arguments as mblob_runtime.call has them. The kernel may still run when
 * this returns. */
int mb_cl_launch(struct mb_cl_module *module, uint64_t kernel, const TVMValue *args,
                 const int *codes, int count);

#endif
