/* c_api.h - the functions that libraries of the ffi dialect call by name. */
#ifndef MB_FFI_C_API_H
#define MB_FFI_C_API_H

/* mblob_convention (mblob/plugin.h): the address of this dialect's function of that name, NULL
 * if it has none. */
void *mb_ffi_symbol(int releases, const char *name);

#endif
