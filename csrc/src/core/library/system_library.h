/* system_library.h - statically linked libraries: the modules over what their constructors announced
 * (system_symbols.h), which the global function "runtime.SystemLib" (TVM's name) gives. */
#ifndef MB_SYSTEM_LIBRARY_H
#define MB_SYSTEM_LIBRARY_H

#include <mblob.h>
#include <tvm/runtime/c_runtime_api.h>

/* As mblob_system_lib. */
int mb_system_library_open(const char *prefix, mblob_module **out);
/* The global function "runtime.SystemLib" (prefix="") -> module, which exists whatever was
 * announced. */
int mb_system_library_get(TVMValue *args, int *codes, int count, TVMRetValueHandle ret,
                          void *resource);

#endif
