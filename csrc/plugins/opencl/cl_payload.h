/* cl_payload.h - what a payload under the key `opencl` holds: kernels, and the programs that
 * they are in.
 *
 *   string fmt, fmap, string data       fmt `cl`: source; `clbin`, `xclbin`, `awsxclbin`, `aocx`: a
 *                                       program as drivers write it
 *   fmap, map<string, {u32, words}>     SPIR-V, one program for each kernel
 *
 * Source of TVM 0.8 and later has a line `// Function: NAME` in front of each kernel, and what
 * follows, up to the next such line, is a program of its own. Older source has none, and is one
 * program. */
#ifndef MB_CL_PAYLOAD_H
#define MB_CL_PAYLOAD_H

#include "common.h"

enum mb_cl_form { MB_CL_SOURCE, MB_CL_BINARY, MB_CL_SPIRV };

struct mb_cl_part {
  const char *kernel;   /* the only kernel in it; NULL: all are */
  struct mb_slice head; /* source in front of the first delimiter line: part of every program */
  struct mb_slice code;
};

struct mb_cl_payload {
  enum mb_cl_form form;
  struct mb_kernel_list kernels;
  struct mb_cl_part *parts;
  uint64_t part_count;
  uint64_t *part_of; /* by the index of the kernel: which part has it; UINT64_MAX: none, see
                        mb_cl_payload_check */
};

/* `ffi`: of that dialect. `data` must live as long as `out`, which must be freed, also after an
 * error. */
int mb_cl_payload_read(const void *data, uint64_t size, bool ffi, struct mb_cl_payload *out);
/* MBLOB_E_FORMAT: a kernel that is declared with types or tags that do not exist, or has no
 * program. The others work. */
int mb_cl_payload_check(const struct mb_cl_payload *payload, const struct mb_kernel *kernel);
void mb_cl_payload_free(struct mb_cl_payload *payload);

#endif
