/* common.h - the room under all plug-ins, whole: they include this one header of it. */
#ifndef MB_PLUGIN_COMMON_H
#define MB_PLUGIN_COMMON_H

#include "host.h"        /* the runtime's table, errors through it */
#include "kernel_list.h" /* kernels of a payload: launch parameters, checks of arguments */

#endif
