/* system_library.h - statically linked libraries: what their constructors announce with
 * TVMBackendRegisterSystemLibSymbol, and the modules over it, which the global function
 * "runtime.SystemLib" (TVM's name) gives. */
#ifndef MB_SYSTEM_LIBRARY_H
#define MB_SYSTEM_LIBRARY_H

#include <mblob.h>
#include <tvm/runtime/c_runtime_api.h>

/* Which names a library of some prefix finds. */
enum mb_system_names {
  MB_NAMES_OF_PREFIX, /* those that begin with its prefix and with no longer one that a library has
                       */
  MB_NAMES_AS_TVM,    /* as TVM does: with its prefix, else as they are, whosever they are */
};

/* Address of the symbol `prefix``name`, else of `name`; NULL if neither was announced, or is
 * another's. Where there is none, that of a function of the ffi dialect: then *dialect becomes
 * MB_FFI. */
void *mb_system_symbol(const char *prefix, const char *name, enum mb_system_names names,
                       unsigned char *dialect);

/* As mblob_system_lib. */
int mb_system_library_open(const char *prefix, mblob_module **out);
/* The global function "runtime.SystemLib" (prefix="") -> module, which exists whatever was
 * announced. */
int mb_system_library_get(TVMValue *args, int *codes, int count, TVMRetValueHandle ret,
                          void *resource);

#endif
