/* dtype.h - element types as TVM writes them in text: float32, int8x4, bool, bfloat16. */
#ifndef MB_DTYPE_H
#define MB_DTYPE_H

#include <dlpack/dlpack.h>
#include <stdbool.h>
#include <stddef.h>

/* Parse exactly `size` characters. */
bool mb_dtype_parse(const char *text, size_t size, DLDataType *out);

#endif
