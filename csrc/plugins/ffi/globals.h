/* globals.h - global functions that libtvm_ffi has, and C and C++ programs ask for by their names. They
 * are found by TVMFFIFunctionGetGlobal alone, behind those of the registry. */
#ifndef MB_FFI_GLOBALS_H
#define MB_FFI_GLOBALS_H

#include <mblob.h>

/* The caller's to give back; MBLOB_E_NOT_FOUND for another name, and nothing recorded. */
int mb_global_of_tvm_ffi(const char *name, mblob_function **out);

#endif
