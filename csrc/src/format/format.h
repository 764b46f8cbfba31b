/* format.h - docs/format.md as code: what is in a blob, and in the payloads that the runtime
 * itself reads. */
#ifndef MB_FORMAT_H
#define MB_FORMAT_H

#include "format/blob.h"           /* the stream of both dialects, the index, the tree of modules */
#include "format/function_table.h" /* __mblob_functions */
#include "format/ndarray.h"        /* arrays as TVM saves them */
#include "format/safetensors.h"    /* tensors by name */

#endif
