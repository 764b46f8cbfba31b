/* parameter_bytes.h - parameter dictionaries as TVM's save_param_dict writes them (docs/format.md,
 * section 3.2). */
#ifndef MB_PARAMETER_BYTES_H
#define MB_PARAMETER_BYTES_H

#include "executor/stored_arrays.h"

/* Bytes on the heap; NULL when memory is out. */
char *mb_parameter_bytes(const struct mb_stored_arrays *arrays, size_t *size);

#endif
