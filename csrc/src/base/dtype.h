/* dtype.h - element types as TVM writes them in text: float32, int8x4, bool, bfloat16; type codes of
 * values in words. */
#ifndef MB_DTYPE_H
#define MB_DTYPE_H

#include <mblob/dlpack.h>
#include <mblob/plugin.h>
#include <stdbool.h>
#include <stddef.h>

/* Parse exactly `size` characters. Small floats have TVM's names or DLPack's: e4m3_float8,
 * float8_e4m3fn. */
bool mb_dtype_parse(const char *text, size_t size, DLDataType *out);
/* The same for types that TVM stores in graphs: also integers of any width up to 64 bits,
 * `handle`, `void` (or nothing), and `int`, `uint`, `float` without a width, which have 32 bits. */
bool mb_dtype_parse_stored(const char *text, size_t size, DLDataType *out);

/* True if the bytes of `given` can be elements of the expected type: it is that type, by either
 * name; or uint8, where an 8-bit float is expected, which few callers have. */
bool mb_dtype_takes(DLDataType expected, DLDataType given);

/* The type as a function of the ffi dialect knows it, which is given a description of an
 * argument: DLPack's codes, but MBLOB_FLOAT8_E3M4 and uint1, which are translated when it is
 * called. */
DLDataType mb_dtype_for_ffi(DLDataType dtype);
/* The runtime's type for one that a file of the ffi dialect stores: DLPack's 6 and 7 are bool
 * and float8_e3m4 there. */
DLDataType mb_dtype_stored_in_ffi(DLDataType dtype);

/* True if elements of an array can have these parts of a DLDataType; recorded if not. Codes are
 * those of DLPack, and 129 and above, which TVM leaves to its users. */
bool mb_dtype_check(int code, int bits, int lanes);

/* "float32", "bool", "int8x4". */
#define MB_DTYPE_TEXT 32
const char *mb_dtype_text(DLDataType dtype, char text[MB_DTYPE_TEXT]);

/* An argument or a result, by its type code of TVM's, with an article: "a tensor". Codes that nothing
 * knows are "an object". */
const char *mb_type_code_name(int code);

#endif
