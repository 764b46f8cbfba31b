/* cl_program.h - programs and kernels of one module, made for a device when they are first
 * needed there. */
#ifndef MB_CL_PROGRAM_H
#define MB_CL_PROGRAM_H

#include "cl_device.h"
#include "cl_payload.h"

/* A part as one device runs it. */
struct mb_cl_program {
  struct mb_cl_program *next;
  const struct mb_cl_device *device;
  cl_program program;
  bool checked; /* see mb_cl_build */
};

/* A kernel as one device runs it. Arguments belong to the cl_kernel in OpenCL, so `lock` is held
 * from the first of them until the launch. */
struct mb_cl_launcher {
  struct mb_cl_launcher *next;
  const struct mb_cl_device *device;
  struct mb_lock lock;
  cl_kernel kernel;
  size_t max_group; /* work-items in a group of this kernel */
};

struct mb_cl_module {
  struct mb_cl_payload payload;
  struct mb_lock *locks;                       /* by part: for building it */
  struct mb_cl_program **programs;             /* by part */
  _Atomic(struct mb_cl_launcher *) *launchers; /* by kernel; only ever added to */
};

/* `launchers` of the kernel with that index, the one for `device`. */
int mb_cl_launcher_of(struct mb_cl_module *module, uint64_t kernel,
                      const struct mb_cl_device *device, struct mb_cl_launcher **out);
void mb_cl_launchers_free(struct mb_cl_module *module);

#endif
