/* thread_pool.h - parallel loops of kernels: TVM's contract (TVMBackendParallelLaunch,
 * c_backend_api.h) on one set of threads for the whole process. */
#ifndef MB_THREAD_POOL_H
#define MB_THREAD_POOL_H

#include <mblob.h>
#include <tvm/runtime/c_backend_api.h>

/* Run task(0..n-1, env, cdata) at the same time, task 0 on the calling thread, and wait for all.
 * `num_task` 0: as many as there are idle workers, at most mb_parallel_width(). Above 0: exactly
 * so many. Inside a task: one task, on the calling thread. Tasks have the floating-point control words
 * of the caller. Returns 0, or -1 with a line "Task <i> error: <text>" for each task that failed;
 * together they have some 64 KiB, and long texts are cut. */
int mb_parallel_launch(FTVMParallelLambda task, void *cdata, int num_task);

/* The same for steps of a graph, with `most` tasks, or fewer where threads are busy; no kernel waits for
 * one of them. The pool may grow to `most` - 1 workers. A loop of a kernel inside has as many tasks as
 * outside where all workers are idle, so that its result is the same. They run on the thread of the
 * step, one after the other; if one comes to a barrier, those that have not begun get threads. */
int mb_parallel_launch_steps(FTVMParallelLambda task, void *cdata, int most);
/* How many loops the calling thread began inside of tasks and steps. */
unsigned mb_parallel_nested_loops(void);

/* Whom the calling thread works for: the thread that launched the outermost loop or graph whose task
 * this is, or itself. `is_inside`: it runs a task. Called by Python's modules. */
MBLOB_API const void *mblob_parallel_caller(int *is_inside);

/* Wait until all tasks of the launch have come here, or have ended. */
int mb_parallel_barrier(int task_id, TVMParallelGroupEnv *env);

#endif
