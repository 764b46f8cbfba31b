/* builtin.h - what the runtime itself brings along: classes of modules and global functions. What a program
 * registers under the same name comes first. */
#ifndef MB_BUILTIN_H
#define MB_BUILTIN_H

#include <mblob.h>
#include <stdbool.h>
#include <stddef.h>

/* The loader for a type key that a class here opens; false if there is none. */
bool mb_builtin_loader(const char *type_key, mblob_loader *out);
/* The i-th key with such a loader, NULL behind the last. */
const char *mb_builtin_key(size_t i);
/* Register the global functions, once; called before the registry is first read or changed. */
void mb_builtin_globals(void);

#endif
