/* created.h - libraries and modules without a file. */
#ifndef MB_CREATED_H
#define MB_CREATED_H

#include "core/library/builtin_class.h"
#include "core/loaded/loaded.h"

/* A library of what constructors announced under `prefix`. Never closed. */
int mb_library_new_system(const char *prefix, enum mb_system_names names, struct mb_library **out);
/* A module of that class; it owns `object` unless this fails. */
int mb_builtin_create(const struct mb_class *class, void *object, mblob_module **out);

#endif
