/* parameter_bytes.h - parameter dictionaries as TVM's save_param_dict writes them (docs/format.md,
 * section 3.2). */
#ifndef MB_PARAMETER_BYTES_H
#define MB_PARAMETER_BYTES_H

#include "core/call/call.h"
#include "exec/common/stored_arrays.h"

/* The lowest `bytes` bytes of a number, little endian, as all of these formats have them. */
void mb_put_number(FILE *out, uint64_t value, int bytes);

/* Bytes on the heap; NULL when memory is out. */
char *mb_parameter_bytes(const struct mb_stored_arrays *arrays, size_t *size);

/* What a function of no argument or one name gives: () a Map of copies of all arrays, (name) a copy
 * of one. `what`: of the arrays, for errors ("parameter"). */
int mb_parameters_return(const struct mb_stored_arrays *arrays, const char *what,
                         struct mb_call *call);

#endif
