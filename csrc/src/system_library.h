/* system_library.h - statically linked libraries: what their constructors announce with
 * TVMBackendRegisterSystemLibSymbol, and the modules over it, which the global function "runtime.SystemLib"
 * (TVM's name) gives. */
#ifndef MB_SYSTEM_LIBRARY_H
#define MB_SYSTEM_LIBRARY_H

/* Address of the symbol `prefix``name`, else of `name`; NULL if neither was announced. */
void *mb_system_symbol(const char *prefix, const char *name);

#endif
