/* kernel_list.h - the kernels that a device module lists: the field `fmap` of its payload
 * (docs/format.md, section 3), and the arguments of a call turned into what their launch takes. */
#ifndef MB_PLUGIN_COMMON_KERNEL_LIST_H
#define MB_PLUGIN_COMMON_KERNEL_LIST_H

#include <mblob.h>
#include <string.h>

#include "base/base.h"

/* Where a launch argument goes: the six extents, in this order, and the bytes of dynamic shared
 * memory. */
enum mb_launch_tag { MB_GRID_X, MB_BLOCK_X = 3, MB_SHARED_BYTES = 6, MB_LAUNCH_TAGS = 7 };

extern const char *const mb_launch_tag_names[MB_LAUNCH_TAGS]; /* as payloads spell them */

struct mb_kernel {
  char *name;
  size_t index;      /* in the list */
  DLDataType *types; /* of the parameters, in order; a pointer is {kDLOpaqueHandle, 64, 1} */
  size_t type_count;
  uint8_t tags[MB_LAUNCH_TAGS]; /* enum mb_launch_tag of the arguments behind the parameters */
  size_t tag_count;
  char *problem; /* why it cannot be launched as it is declared, NULL if it can: see mb_kernel_check
                  */
  int64_t problem_at; /* offset in the payload */
};

struct mb_kernel_list {
  struct mb_kernel *items;
  const char **names; /* of the items */
  size_t count;
  struct mb_map by_name; /* name -> struct mb_kernel * */
};

/* True if payloads of a module are of the ffi dialect (TVM 0.21 and later). */
static inline bool mb_is_ffi(const mblob_module_info *info) {
  return info->dialect && strcmp(info->dialect, "ffi") == 0;
}

/* Read the field where the cursor stands; `ffi`: a number for each parameter follows the tags.
 * On failure (recorded) nothing is left to free. A kernel with types or launch tags that do not
 * exist is no failure: the others of the module work. */
int mb_kernel_list_read(struct mb_cursor *c, bool ffi, struct mb_kernel_list *out);
void mb_kernel_list_free(struct mb_kernel_list *list);
/* MBLOB_E_FORMAT: the kernel is declared with types or tags that do not exist. Before everything
 * else that is done with it. */
int mb_kernel_check(const struct mb_kernel *kernel);

/* How large a launch is. */
struct mb_launch {
  uint64_t extent[6]; /* grid x, y, z in blocks, block x, y, z in threads; 1 where nothing says
                         otherwise */
  uint64_t shared;    /* bytes of dynamic shared memory */
};

/* The launch arguments of a call: MBLOB_E_ARGUMENT for a wrong count, type or number. */
int mb_kernel_launch(const struct mb_kernel *kernel, const TVMValue *args, const int *codes,
                     int count, struct mb_launch *out);

/* True if kernels take numbers of a type by value. What mb_kernel_scalar passes. */
bool mb_kernel_takes_scalar(DLDataType type);
/* One scalar argument as the bytes of its declared type, in `out`; its size in bytes to *size.
 * MBLOB_E_ARGUMENT: another kind of value, or a number that the type does not hold. */
int mb_kernel_scalar(const struct mb_kernel *kernel, int index, TVMValue value, int code,
                     uint64_t *out, size_t *size);

/* "int32", for errors. */
const char *mb_kernel_type_text(DLDataType type, char text[32]);

/* True if the declared type is a pointer. */
static inline bool mb_is_pointer(DLDataType type) { return type.code == kDLOpaqueHandle; }
/* The tensor behind an argument, or NULL if it is none. */
static inline const DLTensor *mb_tensor_of(TVMValue value, int code) {
  return code == kTVMDLTensorHandle || code == kTVMNDArrayHandle ? value.v_handle : NULL;
}
/* A tensor that a kernel can take by its address alone: compact. MBLOB_E_ARGUMENT if it is not. */
int mb_kernel_check_compact(const struct mb_kernel *kernel, int index, const DLTensor *tensor);

#endif
