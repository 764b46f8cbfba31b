/* executor.h - runs a model that was compiled ahead of time: one entry function over inputs and
 * outputs. */
#ifndef MB_AOT_EXECUTOR_H
#define MB_AOT_EXECUTOR_H

#include <mblob.h>

#include "exec/common/common.h"

/* An AotExecutor over the kernels that `factory` (a module of any kind) imports; it keeps the
 * factory. `params` are copied into the inputs of their names; others are passed over. A
 * mblob_status. */
int mb_aot_executor_create(mblob_module *factory, const struct mb_stored_arrays *params,
                           mblob_module **out);

#endif
