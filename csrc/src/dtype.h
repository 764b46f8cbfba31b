/* dtype.h - element types as TVM writes them in text: float32, int8x4, bool, bfloat16. */
#ifndef MB_DTYPE_H
#define MB_DTYPE_H

#include <dlpack/dlpack.h>
#include <stdbool.h>
#include <stddef.h>

/* Parse exactly `size` characters. */
bool mb_dtype_parse(const char *text, size_t size, DLDataType *out);
/* The same for types that TVM stores in graphs: also integers of any width up to 64 bits, `handle`, `void` (or nothing),
 * 8-bit floats (`e4m3_float8`, `e5m2_float8`, with lanes), and `int`, `uint`, `float` without a width, which have 32 bits. */
bool mb_dtype_parse_stored(const char *text, size_t size, DLDataType *out);

/* Whether elements of an array can have these parts of a DLDataType; recorded if not. Codes are those of DLPack,
 * and 129 and above, which TVM leaves to its users. */
bool mb_dtype_check(int code, int bits, int lanes);

#endif
