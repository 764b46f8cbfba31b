/* host.h - what the plug-ins of this tree share: the runtime's table, and errors recorded
 * through it.
 *
 * A plug-in links none of the runtime. It may compile files of src/ that need nothing but
 * mb_fail(), mb_fail_argument(), mb_fail_memory() and mb_fail_format() (PLUGIN_SHARED in flags.mk);
 * those functions are here for them. */
#ifndef MB_PLUGIN_COMMON_HOST_H
#define MB_PLUGIN_COMMON_HOST_H

#include <mblob.h>

#include "base/base.h"

/* For `start` of a plug-in: remember the table. MBLOB_E_INCOMPATIBLE if it is older than what is
 * used here. */
int mb_host_start(const mblob_host *host);
/* The table; valid after mb_host_start. */
const mblob_host *mb_plugin_host(void);

#endif
