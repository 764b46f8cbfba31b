/* safetensors.h - named tensors of a safetensors file in memory, as views.
 *
 * The format (huggingface/safetensors, README): u64 size of the header, a JSON object
 * {name: {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__": {...}}, then the
 * data. */
#ifndef MB_SAFETENSORS_H
#define MB_SAFETENSORS_H

#include <mblob/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#define MB_SAFETENSORS_HEADER_LIMIT 100000000u /* bytes of JSON, the format's own limit */

struct mb_tensor {
  char *name;
  DLTensor view; /* data in the file's bytes, shape on the heap */
};

#define MB_PARAMETERS \
  "mblob.params" /* metadata: a JSON list of the names of a program's parameters */

struct mb_tensors {
  struct mb_tensor *items;
  size_t count, capacity;
  char *order; /* the text of MB_PARAMETERS, NULL if there is none */
};

/* Read the header of `size` bytes and check every rule: known types, shapes that fit their
 * bytes, data without holes, overlaps or a rest. MBLOB_OK, or MBLOB_E_FORMAT with code
 * "payload". `entry`: for the error. */
int mb_safetensors_read(const uint8_t *bytes, uint64_t size, int64_t entry, struct mb_tensors *out);
const struct mb_tensor *mb_tensors_find(const struct mb_tensors *tensors, const char *name);
void mb_tensors_free(struct mb_tensors *tensors);

#endif
