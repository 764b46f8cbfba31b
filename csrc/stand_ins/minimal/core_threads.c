/* For core/threads: a parallel loop runs on the calling thread, and has one task unless the kernel asks for more, which
 * run one after the other. */
#include "base/base.h"
#include "core/threads/thread_pool.h"
#include "minimal.h"

int mb_parallel_launch(FTVMParallelLambda task, void *cdata, int num_task) {
  TVMParallelGroupEnv env = {NULL, num_task > 0 ? num_task : 1};
  const struct mb_float_control control = mb_float_control();
  int status = 0;
  for (int i = 0; !status && i < env.num_task; i++) {
    const uint64_t before = mb_error_serial();
    status = task(i, &env, cdata);
    mb_float_control_keep(control);
    if (status && mb_error_serial() == before)
      (void)mb_fail(MBLOB_E_KERNEL, "Task %d error: it gave no reason", i);
  }
  return status ? -1 : 0;
}

int mb_parallel_barrier(int task_id, TVMParallelGroupEnv *env) {
  (void)task_id;
  if (env->num_task == 1) return 0;
  (void)mb_fail(MBLOB_E_KERNEL,
                "%d tasks wait for each other, and there are no threads" MB_MORE_IN_CORE,
                env->num_task);
  return -1;
}
