/* thread_settings.h - what the environment says about threads: the variables that TVM's runtime
 * reads. */
#ifndef MB_THREAD_SETTINGS_H
#define MB_THREAD_SETTINGS_H

#include <pthread.h>

#define MB_WORKER_LIMIT 1024 /* threads; a kernel that asks for more tasks is refused */

/* Tasks that a launch with num_task 0 starts at most: TVM_NUM_THREADS, else OMP_NUM_THREADS,
 * else the processors this process may use. Read once, unless a number was set. */
int mb_parallel_width(void);
/* From now on so many; 0: what the environment says, read again. */
void mb_set_parallel_width(int threads);
/* Threads of a launch of which one mostly waits for devices: one more, unless somebody asked for
 * a single thread. */
int mb_parallel_width_beside(void);

/* With TVM_BIND_THREADS=1, let the thread run on the processor of that number only, counted
 * round over those that this process may use. */
void mb_thread_bind(pthread_t thread, int number);

#endif
