/* ffi_library.h - libraries of the ffi dialect (TVM 0.21 and later). How their functions are
 * called, and what they find under the names of the runtime, is not here but in a plug-in,
 * libmblob-ffi.so, which is opened when it is needed. */
#ifndef MB_FFI_LIBRARY_H
#define MB_FFI_LIBRARY_H

#include "core/loaded/loaded.h"

#define MB_FFI_PREFIX "__tvm_ffi_" /* of the symbol of a function, from 0.22 on */

/* What is behind the prefix, NULL if the symbol has none. */
const char *mb_ffi_function_name(const char *symbol);

/* Find out which dialect the functions of the library have, and whether TVM compiled them. */
void mb_ffi_recognize(struct mb_library *library);

/* The share of its code that uses the classes of tvm_ffi, whose parameters may be objects.
 * With its lock. */
enum mb_cxx mb_ffi_cxx(struct mb_library *library);

/* What the library gets for a name of the runtime, NULL if that is no such name. */
void *mb_library_host_symbol(const struct mb_library *library, const char *name);

#endif
