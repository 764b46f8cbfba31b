/* metadata.h - what a library compiled ahead of time says about its entry function: the
 * structure that its function `get_c_metadata` returns (include/tvm/runtime/metadata_types.h of
 * TVM 0.9 to 0.19). */
#ifndef MB_AOT_METADATA_H
#define MB_AOT_METADATA_H

#include <mblob.h>

struct mb_aot_tensor {
  const char *name;
  const int64_t *shape;
  int64_t ndim;
  DLDataType dtype;
};

struct mb_aot_constant {
  const char *name;
  int64_t byte_offset; /* in the pool of constants */
  int64_t size;        /* bytes of the record */
  const void *record;  /* an NDArray as in a payload */
};

/* The library's own structure, in its memory. */
struct mb_aot_metadata {
  int64_t version;
  const struct mb_aot_tensor *inputs;
  int64_t input_count;
  const struct mb_aot_tensor *outputs;
  int64_t output_count;
  const struct mb_aot_tensor *workspace_pools;
  int64_t workspace_pool_count;
  const struct mb_aot_constant *constant_pools;
  int64_t constant_pool_count;
  const char *name; /* of the model: the entry function is <name>___tvm_main__ */
};

/* Ask the imports of `module`, and check that all of it is in the library's memory and makes
 * sense. `*entry` is borrowed: it lives as long as the module. A mblob_status. */
int mb_aot_metadata_get(mblob_module *module, const struct mb_aot_metadata **out,
                        mblob_function **entry);

#endif
