/* params.h - parameter dictionaries: TVM's save_param_dict (docs/format.md, section 3.2), as views. */
#ifndef MB_PARAMS_H
#define MB_PARAMS_H

#include <stdbool.h>

#include "bytes.h"
#include "safetensors.h"

/* Whether the bytes start like one. */
bool mb_params_is(const uint8_t *bytes, uint64_t size);
int mb_params_read(const uint8_t *bytes, uint64_t size, int64_t entry, struct mb_tensors *out);

/* One NDArray record; the cursor ends behind it. `out` has its shape on the heap, its data in the record. */
bool mb_array_read(struct mb_cursor *c, DLTensor *out);
/* The same without keeping anything. */
bool mb_array_skip(struct mb_cursor *c);

#endif
