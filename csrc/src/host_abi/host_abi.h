/* host_abi.h - what compiled kernels, TVM's C hosts and plug-ins find beside the functions that
 * are found by their names: the tables that entry/ hands down. */
#ifndef MB_HOST_ABI_H
#define MB_HOST_ABI_H

#include <mblob.h>

#include "core/call/call.h"

/* Global functions by which hosts ask for modules, devices and threads; ends with one without a
 * call, and needs no object. */
extern const struct mb_method mb_host_functions[];
/* What plug-ins get when they start. */
extern const mblob_host mb_plugin_host_table;

#endif
