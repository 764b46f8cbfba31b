/* stored_arrays.h - arrays that a payload holds (docs/format.md, section 3.2): parameters and
 * constants.
 *
 * Data that is aligned as kernels assume is used where it is, in the mapping of the file; other
 * data is copied once, when the payload is read. Either way it lives as long as the library of
 * the payload. */
#ifndef MB_STORED_ARRAYS_H
#define MB_STORED_ARRAYS_H

#include <mblob.h>

#include "base/base.h"

struct mb_stored_array {
  char *name;    /* NULL where the format has none */
  DLTensor view; /* data in the payload or in `copy`; shape on the heap; read-only */
  void *copy;
};

struct mb_stored_arrays {
  struct mb_stored_array *items;
  size_t count;
  struct mb_map by_name; /* to items */
};

/* Copy the data of a view in a payload if it is less aligned than kernels assume. A mblob_status. */
int mb_stored_array_align(struct mb_stored_array *array);
/* The same from a tensor in memory. A mblob_status. */
int mb_stored_array_copy(const DLTensor *from, struct mb_stored_array *out);
void mb_stored_array_clear(struct mb_stored_array *array);
/* A counted array over it that keeps `module`, whose payload it is from. A mblob_status. */
int mb_stored_array_share(const struct mb_stored_array *array, mblob_module *module,
                          DLTensor **out);

/* vector<string>, all different; then, with mb_stored_arrays_data, as many records. */
bool mb_stored_arrays_names(struct mb_cursor *c, struct mb_stored_arrays *out);
bool mb_stored_arrays_data(struct mb_cursor *c, struct mb_stored_arrays *out);
struct mb_stored_array *mb_stored_arrays_find(const struct mb_stored_arrays *arrays,
                                              const char *name);
void mb_stored_arrays_free(struct mb_stored_arrays *arrays);

#endif
