/* call_watch.h - seeing the calls that compiled code makes through the runtime (TVMFuncCall). */
#ifndef MB_CALL_WATCH_H
#define MB_CALL_WATCH_H

#include <mblob.h>
#include <stdatomic.h>
#include <stdbool.h>

/* `seen` gets each call that this thread makes while the watch is set, after it returned; calls
 * that the function makes itself are part of it and not told. */
struct mb_call_watch {
  void (*seen)(void *context, const mblob_function *function, double seconds);
  void *context;
};

/* Watches of all threads: one load tells whether there may be one. */
extern __attribute__((visibility("hidden"))) atomic_int mb_call_watches;

/* Set this thread's watch; the one of before, to be given to mb_call_watch_end. */
const struct mb_call_watch *mb_call_watch_begin(const struct mb_call_watch *watch);
void mb_call_watch_end(const struct mb_call_watch *before);
/* mblob_function_call, told to this thread's watch. */
int mb_call_watched(mblob_function *function, const TVMValue *args, const int *codes, int count,
                    TVMValue *ret, int *ret_code);

#endif
