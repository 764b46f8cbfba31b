/* profile.h - time of a model that was compiled ahead of time, as far as it is seen from
 * outside. */
#ifndef MB_AOT_PROFILE_H
#define MB_AOT_PROFILE_H

#include "core/call/call.h"

/* Call `entry` `repeat` times. The result of `call` is JSON text: [{"function", "count" (calls
 * in all runs), "seconds" (of one run, mean)}]: first the entry function as a whole, then the
 * functions that it called through the runtime, whose time is part of it. What compiled code
 * calls itself is not seen. */
int mb_aot_profile(mblob_function *entry, const TVMValue *args, const int *codes, int count,
                   int64_t repeat, struct mb_call *call);

#endif
