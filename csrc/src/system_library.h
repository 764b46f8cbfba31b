/* system_library.h - statically linked libraries: what their constructors announce with
 * TVMBackendRegisterSystemLibSymbol, and the modules over it, which the global function "runtime.SystemLib"
 * (TVM's name) gives. */
#ifndef MB_SYSTEM_LIBRARY_H
#define MB_SYSTEM_LIBRARY_H

#include <tvm/runtime/c_runtime_api.h>

/* Address of the symbol `prefix``name`, else of `name`; NULL if neither was announced. */
void *mb_system_symbol(const char *prefix, const char *name);

/* The global function "runtime.SystemLib" (prefix="") -> module. */
int mb_system_library_get(TVMValue *args, int *codes, int count, TVMRetValueHandle ret, void *resource);

#endif
