/* relay.h - Relay's virtual machine: what the rest of the runtime sees of it. */
#ifndef MB_RELAY_H
#define MB_RELAY_H

#include "core/library/library.h"

extern const struct mb_class mb_vm_executable_class; /* key VMExecutable */

/* Global function runtime.Load_Executable(code, library): a VMExecutable from code that was
 * saved alone. */
int mb_vm_load_executable(TVMValue *args, int *codes, int count, TVMRetValueHandle ret,
                          void *resource);
/* Global functions runtime.Tuple(fields...) and runtime.ADT(tag, fields...). */
int mb_vm_tuple(TVMValue *args, int *codes, int count, TVMRetValueHandle ret, void *resource);
int mb_vm_adt(TVMValue *args, int *codes, int count, TVMRetValueHandle ret, void *resource);

#endif
