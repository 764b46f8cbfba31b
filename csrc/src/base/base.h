/* base.h - the room below all others, whole: what knows nothing of libraries. Other folders
 * include this one header.
 *
 * Of these, plug-ins may use what PLUGIN_SHARED in flags.mk has, and what is inline. */
#ifndef MB_BASE_H
#define MB_BASE_H

#include "base/argument_types.h"   /* types of arguments, names of elements */
#include "base/block_cache.h"      /* small blocks that come and go with each call */
#include "base/byte_order.h"       /* elements of other machines */
#include "base/bytes.h"            /* a cursor that bounds every number of a file */
#include "base/device_types.h"     /* types of devices, and what their memory is */
#include "base/dtype.h"            /* types of elements */
#include "base/deferred_destroy.h" /* the end of what owns what owns .. */
#include "base/error.h"            /* the last error of a thread */
#include "base/float16.h"          /* half precision in software */
#include "base/float_control.h"    /* the control words of floating-point arithmetic */
#include "base/json.h"             /* a pull reader */
#include "base/locks.h"            /* locks that survive fork, ends of threads */
#include "base/hash_map.h"         /* texts to pointers */
#include "base/profile.h"          /* what can be run, handed down from above */
#include "base/runtime_names.h"    /* the text of names that libraries may leave undefined */
#include "base/seconds.h"          /* a clock */
#include "base/source_file.h"      /* a file, mapped, and advice on it */
#include "base/tensor_check.h"     /* shapes and sizes that can be */
#include "base/texts.h"            /* texts of errors that others say too */
#include "base/exceptions.h"       /* exceptions that leave code of others */
#include "base/type_keys.h"        /* type keys of modules, and their grammars */
#include "base/atomic_file.h"      /* a file, written whole or not at all */

#endif
