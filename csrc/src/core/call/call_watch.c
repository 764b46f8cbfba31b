#include "core/call/call_watch.h"

#include "core/call/function.h"

#include <stddef.h>

#include "base/base.h"

atomic_int mb_call_watches;
static __thread const struct mb_call_watch *current;

const struct mb_call_watch *mb_call_watch_begin(const struct mb_call_watch *watch) {
  const struct mb_call_watch *before = current;
  current = watch;
  (void)atomic_fetch_add(&mb_call_watches, 1);
  return before;
}

void mb_call_watch_end(const struct mb_call_watch *before) {
  current = before;
  (void)atomic_fetch_sub(&mb_call_watches, 1);
}

int mb_call_watched(mblob_function *function, const TVMValue *args, const int *codes, int count,
                    TVMValue *ret, int *ret_code) {
  const struct mb_call_watch *watch = current;
  if (!watch || !function) return mblob_function_call(function, args, codes, count, ret, ret_code);
  current = NULL;
  double start = mb_seconds_now();
  int status = mblob_function_call(function, args, codes, count, ret, ret_code);
  double seconds = mb_seconds_now() - start;
  current = watch;
  watch->seen(watch->context, function, seconds);
  return status;
}
