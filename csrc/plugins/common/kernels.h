/* kernels.h - what a payload of device code says about its kernels (TVM's FunctionInfo), and what a call of one means.
 *
 * A kernel is called with its own arguments and one integer for each of its launch tags: the extents of blockIdx and
 * threadIdx, and bytes of dynamic shared memory. */
#ifndef MB_PLUGIN_COMMON_KERNELS_H
#define MB_PLUGIN_COMMON_KERNELS_H

#include <mblob.h>

#include "bytes.h"
#include "map.h"

struct mb_kernel_info {
  char *name;
  DLDataType *types; /* of the arguments; pointers are handles */
  uint8_t *tags;     /* of the launch: 0-2 blockIdx.{x,y,z}, 3-5 threadIdx.{x,y,z}, 6 bytes of shared memory */
  uint64_t type_count, tag_count;
  uint32_t dimensions; /* 1 to 3: behind the last axis that has a tag */
};

struct mb_kernels {
  struct mb_kernel_info *items;
  uint64_t count;
  struct mb_map by_name; /* of items */
};

struct mb_launch {
  uint64_t grid[3], block[3]; /* 1 where there is no tag, or 0 was given */
  uint64_t shared_bytes;
};

/* Enough for every scalar, in the byte order of the machine. */
struct mb_scalar {
  uint64_t bytes;
  size_t size;
};

/* Read a `fmap`. Every count is checked against what is left; names are unique, types can be passed, tags are known.
 * `out` must be freed, also after an error. */
int mb_kernels_read(struct mb_cursor *c, struct mb_kernels *out);
void mb_kernels_free(struct mb_kernels *kernels);
/* NULL if there is none of that name. */
struct mb_kernel_info *mb_kernels_find(const struct mb_kernels *kernels, const char *name);

static inline bool mb_is_pointer(DLDataType type) { return type.code == kTVMOpaqueHandle; }

/* Whether a call has as many arguments as the kernel has arguments and tags; the error lists them. */
int mb_kernel_check_count(const struct mb_kernel_info *kernel, int count);
/* Argument `i`, a scalar, as its declared type. A value outside of the type is an error. */
int mb_kernel_scalar(const struct mb_kernel_info *kernel, uint64_t i, TVMValue value, int code, struct mb_scalar *out);
/* The extents of a call whose count was checked. */
int mb_kernel_launch(const struct mb_kernel_info *kernel, const TVMValue *args, const int *codes, struct mb_launch *out);
/* "int32", for errors. */
const char *mb_type_text(DLDataType type, char text[32]);

#endif
