/* entries.h - what a payload declares of a kernel against what its code tells: its name, and how
 * many parameters it takes, of which sizes and, in PTX, whether they are floats. Needs no
 * driver. */
#ifndef MB_CUDA_ENTRIES_H
#define MB_CUDA_ENTRIES_H

#include "common.h"

enum cuda_class { CUDA_ANY, CUDA_WHOLE, CUDA_FLOAT }; /* not told; integers and addresses; floats */

/* What the readers of code were asked for, and found. */
struct cuda_seen {
  const struct mb_kernel *kernel; /* as declared */
  bool is_there, told;            /* the code has it; its parameters were told */
  bool hidden;   /* some of the code cannot be read: what is not there may be in it */
  size_t count;  /* of parameters */
  size_t wrong;  /* the first that is not as declared, SIZE_MAX without one: */
  uint32_t size; /* bytes */
  enum cuda_class is;
  char names[200]; /* of the kernels, comma separated, cut */
};

/* For the readers. A kernel of the code: whether it is the one that is asked for, found for the
 * first time. */
bool cuda_see_kernel(struct cuda_seen *seen, struct mb_slice name);
/* A parameter of it, in any order. */
void cuda_see_parameter(struct cuda_seen *seen, size_t index, uint32_t size, enum cuda_class is);
/* Whether a part lies inside of `all` bytes, and the error if it does not (MBLOB_E_FORMAT). */
bool cuda_lies_inside(uint64_t offset, uint64_t size, uint64_t all);
int cuda_cut_short(const char *what, uint64_t needs, uint64_t has);

/* MBLOB_E_FORMAT, naming the kernel: `seen` is not as declared. `module` names the module. */
int cuda_seen_check(const struct cuda_seen *seen, const char *module);

#endif
