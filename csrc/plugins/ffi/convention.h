/* convention.h - how libmblob calls functions of the ffi dialect, and stores their values. */
#ifndef MB_FFI_CONVENTION_H
#define MB_FFI_CONVENTION_H

#include <mblob.h>

extern const mblob_convention mb_ffi_convention;

#endif
