#include "host_abi/thread_functions.h"

#include "base/error.h"
#include "core/threads/thread_settings.h"

/* (mode, threads, processors...): how many tasks a parallel loop has when it does not say. 0 threads: what the
 * environment says. The mode, big or little cores, and lists of processors are not followed: threads are the
 * scheduler's. */
static int config_threadpool(void *object, struct mb_call *call) {
  (void)object;
  int64_t mode = 0, threads = 0;
  int status = mb_call_expect(call, 2, INT32_MAX);
  if (!status) status = mb_call_int(call, 0, &mode);
  if (!status) status = mb_call_int(call, 1, &threads);
  if (status) return status;
  if (threads < 0 || threads > MB_WORKER_LIMIT)
    return mb_fail(MBLOB_E_ARGUMENT, "argument 1: %lld threads, expected 0 to %d", (long long)threads,
                   MB_WORKER_LIMIT);
  mb_set_parallel_width((int)threads);
  return MBLOB_OK;
}

static int num_threads(void *object, struct mb_call *call) {
  (void)object;
  int status = mb_call_expect(call, 0, 0);
  if (!status) mb_call_return_int(call, mb_parallel_width());
  return status;
}

const struct mb_method mb_thread_functions[] = {
    {"runtime.config_threadpool", config_threadpool}, {"runtime.NumThreads", num_threads}, {"", NULL}};
