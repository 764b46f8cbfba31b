/* module_functions.h - global functions that ask modules, for builtin.c to register. */
#ifndef MB_MODULE_FUNCTIONS_H
#define MB_MODULE_FUNCTIONS_H

#include "native.h"

/* Ends with a name that is NULL; no object is needed. */
extern const struct mb_method mb_module_functions[];

#endif
