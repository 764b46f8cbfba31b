/* core.h - libraries, modules and functions: opened, looked up, called, closed. Below it are
 * rooms of its own: core/threads, core/device, core/plugin. */
#ifndef MB_CORE_H
#define MB_CORE_H

#include "core/aligned.h"        /* tensors that compiled code can take */
#include "core/announced.h"      /* symbols of statically linked libraries */
#include "core/argument.h"       /* checks of what public functions are given */
#include "core/builtin_class.h"  /* modules that are written in C here */
#include "core/call_watch.h"     /* seeing the calls of compiled code */
#include "core/ffi_library.h"    /* libraries of the ffi dialect */
#include "core/created.h"        /* modules without a file */
#include "core/method.h"         /* functions that are written in C here */
#include "core/object.h"         /* arrays, maps and texts of TVM */
#include "core/plugins.h"        /* plug-ins: carried, registered, in files */
#include "core/return_value.h"   /* results on their way to the caller */
#include "core/runtime.h"        /* struct mb_library, mblob_module, mblob_function */
#include "core/system_library.h" /* statically linked libraries */

#endif
