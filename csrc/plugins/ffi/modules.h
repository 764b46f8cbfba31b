/* modules.h - modules of the runtime as those of C++ programs, whose class only C++ code can make
 * objects of. mblob/ffi_module.h says how, by two attributes of the class ffi.Module. */
#ifndef MB_FFI_MODULES_H
#define MB_FFI_MODULES_H

#include "abi.h"

/* An object of ffi.Module for a module; MB_ANY_NONE if no code in the process makes them. */
int mb_any_of_module(void *module, struct mb_any *out);
/* The module behind such an object, which the object keeps; NULL for a module of others. */
int mb_module_of_object(void *object, void **module);

#endif
