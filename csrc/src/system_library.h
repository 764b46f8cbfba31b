/* system_library.h - symbols of statically linked libraries, as their constructors announce them
 * (TVMBackendRegisterSystemLibSymbol). */
#ifndef MB_SYSTEM_LIBRARY_H
#define MB_SYSTEM_LIBRARY_H

/* Address of an announced symbol, NULL if there is none. */
void *mb_system_symbol(const char *name);

#endif
