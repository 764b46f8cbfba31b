/* contrib.h - functions that compiled code and Relax programs look up by name, as TVM registers
 * them. Tables of global functions, each of which ends with one without a call. */
#ifndef MB_CONTRIB_H
#define MB_CONTRIB_H

#include "core/call/call.h"

extern const struct mb_method mb_sort_functions[], /* tvm.contrib.sort.* */
    mb_random_functions[],                         /* tvm.contrib.random.* */
    mb_run_functions[];                            /* relax.run.* */

#endif
