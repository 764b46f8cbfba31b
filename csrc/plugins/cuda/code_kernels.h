/* code_kernels.h - a kernel in the code of a payload, compared with its declaration there: its name,
 * and how many parameters it takes, of which sizes and, in PTX, whether they are floats. Needs no
 * driver. */
#ifndef MB_CUDA_CODE_KERNELS_H
#define MB_CUDA_CODE_KERNELS_H

#include "common.h"

enum cuda_class { CUDA_ANY, CUDA_WHOLE, CUDA_FLOAT }; /* not told; integers and addresses; floats */

/* A declared kernel, and what the readers of code found of it. */
struct cuda_code_kernel {
  const struct mb_kernel *kernel; /* as declared */
  bool is_there;
  bool has_parameters;       /* the code tells what it takes */
  bool has_unreadable_parts; /* the code may have more kernels than were found */
  size_t count;              /* of parameters */
  size_t mismatch;           /* the first parameter that is not as declared, else SIZE_MAX: */
  uint32_t size;             /* its bytes */
  enum cuda_class is;
  char names[200]; /* of all kernels in the code, comma separated, cut */
};

/* For the readers: add a kernel of the code. Returns true if it is the declared one and its
 * parameters are not known yet. */
bool cuda_add_kernel(struct cuda_code_kernel *found, struct mb_slice name);
/* Add a parameter of the declared kernel, in any order. */
void cuda_add_parameter(struct cuda_code_kernel *found, size_t index, uint32_t size,
                        enum cuda_class is);
/* True if a part lies inside of `all` bytes, and the error if it does not (MBLOB_E_FORMAT). */
bool cuda_lies_inside(uint64_t offset, uint64_t size, uint64_t all);
int cuda_cut_short(const char *what, uint64_t needs, uint64_t has);

/* MBLOB_E_FORMAT, naming the kernel and `module`: the kernel is not as declared. */
int cuda_check_code_kernel(const struct cuda_code_kernel *found, const char *module);

#endif
