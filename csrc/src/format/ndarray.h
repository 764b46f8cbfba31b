/* ndarray.h - stored arrays and parameter dictionaries (docs/format.md, section 3.2), read as
 * views. */
#ifndef MB_NDARRAY_H
#define MB_NDARRAY_H

#include <stdbool.h>

#include "base/base.h"
#include "format/safetensors.h"

#define MB_NDARRAY_MAGIC UINT64_C(0xDD5E40F096B4A13F) /* the start of an NDArray record */
#define MB_PARAMS_MAGIC UINT64_C(0xF7E58D4F05049CB7)  /* of a dictionary of save_param_dict */

/* True if the addresses of elements of `item_size` bytes fit into 63 bits; a dimension of 0 counts
 * as 1. `bytes` gets what they need. */
bool mb_is_addressable(const int64_t *shape, uint32_t ndim, uint64_t item_size, uint64_t *bytes);

/* One NDArray record; the cursor ends behind it. `out` (may be NULL) gets a view: its data is in
 * the record, its shape on the heap. */
bool mb_array_read(struct mb_cursor *c, DLTensor *out);

/* vector<string> and as many arrays, whose count is a u64 behind the names, or not there. `out`,
 * which is empty, gets them by name. */
bool mb_named_arrays_read(struct mb_cursor *c, bool count_behind, struct mb_tensors *out);

/* True if the bytes start like a dictionary of TVM's save_param_dict. */
bool mb_params_is(const uint8_t *bytes, uint64_t size);
/* Its arrays, by name. MBLOB_E_FORMAT "payload" or "truncated"; offsets count from `bytes`. */
int mb_params_read(const uint8_t *bytes, uint64_t size, int64_t entry, struct mb_tensors *out);

#endif
