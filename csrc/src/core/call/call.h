/* call.h - functions and values: what is passed, what comes back, what is called. */
#ifndef MB_CALL_H
#define MB_CALL_H

#include "core/call/aligned.h"      /* tensors that compiled code can take */
#include "core/call/argument.h"     /* checks of what public functions are given */
#include "core/call/call_watch.h"   /* seeing the calls of compiled code */
#include "core/call/function.h"     /* struct mblob_function */
#include "core/call/globals.h"      /* functions of the process */
#include "core/call/interrupt.h"    /* ending a call from outside */
#include "core/call/method.h"       /* functions that are written in C here */
#include "core/call/object.h"       /* arrays, maps and texts of TVM */
#include "core/call/return_value.h" /* results on their way to the caller */

#endif
