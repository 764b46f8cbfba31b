/* module_functions.h - global functions that ask modules, for builtin.c to register. */
#ifndef MB_MODULE_FUNCTIONS_H
#define MB_MODULE_FUNCTIONS_H

#include "core/native.h"

/* Ends with one without a call; no object is needed. */
extern const struct mb_method mb_module_functions[];

#endif
