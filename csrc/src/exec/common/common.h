/* common.h - what executors share: names of inputs, arrays in payloads, copies of tensors; and
 * modules of constants. */
#ifndef MB_EXEC_COMMON_H
#define MB_EXEC_COMMON_H

#include "exec/common/const_loader.h"
#include "exec/common/names.h"
#include "exec/common/parameter_bytes.h"
#include "exec/common/storage.h"
#include "exec/common/stored_arrays.h"
#include "exec/common/tensors.h"

#endif
