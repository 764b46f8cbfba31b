/* locks.h - locks that a child of fork() finds free, and what threads leave behind at a fork or
 * at their end.
 *
 * All locks of the runtime and of its plug-ins are these, but those of the pool's workers, which
 * no child touches (thread_pool.c). locks.c alone has handlers for forks. A fork waits until no
 * other thread holds a counted lock, for a second at most: what the locks guard is whole in the
 * child. A child takes a lock that a thread of the parent holds nevertheless, and wakes
 * conditions that have waiters only in the parent. A thread may take a lock that it holds
 * already.
 *
 * Limit: libmblob and each plug-in have a copy of locks.c, and a copy counts its own locks only.
 * A thread that holds a lock of one copy counts as holding none in the others. When a fork has
 * closed one copy, and the thread needs its first lock there, the fork waits for the thread and
 * the thread for the fork. After the second the fork goes on, and what the held lock guards may
 * be half done in the child. It takes a constructor or a callback that runs under a lock and
 * uses a plug-in. */
#ifndef MB_LOCKS_H
#define MB_LOCKS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct mb_lock {
  pthread_mutex_t mutex;
  atomic_size_t owner; /* an mb_thread_id(), 0: free */
  unsigned depth;
  atomic_uint forks; /* mb_forks() when the mutex was made */
  bool uncounted;    /* held while code of others runs for long: a fork does not wait for it */
};

#define MB_LOCK_INIT {.mutex = PTHREAD_MUTEX_INITIALIZER}
#define MB_LOCK_INIT_UNCOUNTED {.mutex = PTHREAD_MUTEX_INITIALIZER, .uncounted = true}

struct mb_condition {
  pthread_cond_t condition;
  atomic_uint forks;
};

#define MB_CONDITION_INIT {.condition = PTHREAD_COND_INITIALIZER}

void mb_lock_init(struct mb_lock *lock);
void mb_lock_init_uncounted(struct mb_lock *lock);
void mb_lock_destroy(struct mb_lock *lock);
void mb_lock(struct mb_lock *lock);
void mb_unlock(struct mb_lock *lock);

void mb_condition_init(struct mb_condition *condition);
void mb_condition_destroy(struct mb_condition *condition);
/* Let go of `lock`, however often this thread took it, wait, and take it again. May return
 * early. */
void mb_wait(struct mb_condition *condition, struct mb_lock *lock);
/* Wake all that wait, or one of them. With the lock held. */
void mb_wake(struct mb_condition *condition);
void mb_wake_one(struct mb_condition *condition);

/* Of how many forks this process is the result. */
unsigned mb_forks(void);
/* A number of the calling thread that no other thread gets, in children of the process neither;
 * never 0. */
size_t mb_thread_id(void);
/* True if the thread is left behind in a parent of this process: what it began is never finished
 * here. */
bool mb_thread_is_gone(size_t id);

/* `MB_HANDLER(destructor) static void f(void)` runs when this code is unloaded, or the process ends. A standalone library
 * stays until then, and has none: what joins a finished library cannot have any. */
#ifdef MBLOB_STANDALONE
#define MB_HANDLER(kind) __attribute__((unused))
#else
#define MB_HANDLER(kind) __attribute__((kind))
#endif

/* What is done with what a thread has, when the thread ends; never once this code is unloaded,
 * or the process ends. What other threads have then is lost. */
struct mb_thread_end {
  void (*end)(void *what);
  struct mb_lock lock;
  atomic_bool made;
  pthread_key_t key;
  struct mb_thread_end *next;
};

#define MB_THREAD_END(function) {.end = (function), .lock = MB_LOCK_INIT}

/* `what` is the calling thread's; NULL: nothing more is to be done. */
void mb_thread_end_set(struct mb_thread_end *end, void *what);

#endif
