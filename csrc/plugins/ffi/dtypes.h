/* dtypes.h - element types as texts, and integers of more than 64 bits. */
#ifndef MB_FFI_DTYPES_H
#define MB_FFI_DTYPES_H

#include "objects.h"

/* "int8", "float32x4", "bool", "handle", "void" or nothing; short names such as "f32" too. Lanes that
 * a machine multiplies are "xvscalex4", and negative. 0, or -1 with the error left. */
int mb_dtype_from_text(const struct mb_text *text, DLDataType *out);
/* The long name. */
int mb_dtype_to_text(const DLDataType *dtype, struct mb_any *out);

/* Whole words of 64 bits, the lowest first, as a two's complement; an int if it fits one. */
int mb_big_int_from_words(const struct mb_text *words, struct mb_any *out);
/* The words of an int or a big int, which are the value's; nothing of another value. */
struct mb_text mb_big_int_words(const struct mb_any *value);

#endif
