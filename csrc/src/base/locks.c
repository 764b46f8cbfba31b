#define _GNU_SOURCE
#include "base/locks.h"

#include <stdint.h>
#include <time.h>

/* How long a fork waits. Threads that hold a lock may themselves wait for the one that forks:
 * for Python's interpreter, say. */
#define PATIENCE 1000000000 /* nanoseconds */
#define PAUSE 20000

static __thread struct {
  size_t id;
  unsigned held; /* counted locks */
} own_locks;

static atomic_size_t last_id, last_before_fork, survivor;
static atomic_uint forks;
static atomic_uint forking; /* threads that are about to fork */
/* Threads that hold counted locks. All threads write it, so it shares a cache line with nothing
 * that they read. */
static struct {
  _Alignas(64) atomic_uint count;
} inside;

static void sleep_briefly(void) { (void)nanosleep(&(const struct timespec){0, PAUSE}, NULL); }

/* ---- threads --------------------------------------------------------------------------------- */

unsigned mb_forks(void) { return atomic_load_explicit(&forks, memory_order_relaxed); }

size_t mb_thread_id(void) {
  if (!own_locks.id)
    own_locks.id = atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1;
  return own_locks.id;
}

bool mb_thread_is_gone(size_t id) {
  return id <= atomic_load_explicit(&last_before_fork, memory_order_relaxed) &&
         id != atomic_load_explicit(&survivor, memory_order_relaxed);
}

/* ---- forks ----------------------------------------------------------------------------------- */

/* A thread that holds locks gets what else it needs to come out. A thread that holds none stays
 * out while another forks. */
static bool enter(void) {
  (void)atomic_fetch_add(&inside.count, 1);
  if (!atomic_load(&forking)) return true;
  (void)atomic_fetch_sub(&inside.count, 1);
  return false;
}

static void leave(void) { (void)atomic_fetch_sub_explicit(&inside.count, 1, memory_order_release); }

static int64_t now(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Runs before the C library takes locks of its own. A constructor or kernel may fork inside of
 * ours: they stay its own. */
static void before_fork(void) {
  const unsigned own = own_locks.held ? 1 : 0;
  (void)mb_thread_id();
  (void)atomic_fetch_add(&forking, 1);
  for (int64_t end = now() + PATIENCE; atomic_load(&inside.count) > own && now() < end;)
    sleep_briefly();
}

static void in_parent(void) { (void)atomic_fetch_sub(&forking, 1); }

static pthread_mutex_t renewing = PTHREAD_MUTEX_INITIALIZER;

static void in_child(void) {
  (void)pthread_mutex_init(&renewing, NULL);
  atomic_store(&survivor, own_locks.id);
  atomic_store(&last_before_fork, atomic_load(&last_id));
  atomic_store(&inside.count, own_locks.held ? 1 : 0);
  atomic_store(&forking, 0);
  (void)atomic_fetch_add(&forks, 1);
}

/* Of a shared library these go when it is unloaded: pthread_atfork() is linked into it, and
 * knows it. */
MB_HANDLER(constructor) static void watch_forks(void) {
  (void)pthread_atfork(before_fork, in_parent, in_child);
}

/* ---- locks ----------------------------------------------------------------------------------- */

void mb_lock_init(struct mb_lock *lock) {
  *lock = (struct mb_lock)MB_LOCK_INIT;
  atomic_init(&lock->forks, mb_forks());
}

void mb_lock_init_uncounted(struct mb_lock *lock) {
  mb_lock_init(lock);
  lock->uncounted = true;
}

void mb_lock_destroy(struct mb_lock *lock) {
  if (atomic_load_explicit(&lock->forks, memory_order_acquire) == mb_forks())
    (void)pthread_mutex_destroy(&lock->mutex);
}

/* The first use in this process of a lock of its parent. */
static void renew(struct mb_lock *lock) {
  (void)pthread_mutex_lock(&renewing);
  if (atomic_load_explicit(&lock->forks, memory_order_relaxed) != mb_forks()) {
    const size_t owner = atomic_load_explicit(&lock->owner, memory_order_relaxed);
    if (!owner || mb_thread_is_gone(owner)) {
      (void)pthread_mutex_init(&lock->mutex, NULL);
      atomic_store_explicit(&lock->owner, 0, memory_order_relaxed);
    }
    atomic_store_explicit(&lock->forks, mb_forks(), memory_order_release);
  }
  (void)pthread_mutex_unlock(&renewing);
}

static void renew_after_fork(struct mb_lock *lock) {
  if (atomic_load_explicit(&lock->forks, memory_order_acquire) != mb_forks()) renew(lock);
}

void mb_lock(struct mb_lock *lock) {
  const size_t me = mb_thread_id();
  if (atomic_load_explicit(&lock->owner, memory_order_relaxed) == me) {
    lock->depth++;
    return;
  }
  for (const bool counted = !lock->uncounted && !own_locks.held;;) {
    while (counted && atomic_load(&forking)) sleep_briefly();
    renew_after_fork(lock);
    (void)pthread_mutex_lock(&lock->mutex);
    if (!counted || enter())
      break; /* those who wait for the mutex are not inside: its owner may be the one that forks */
    (void)pthread_mutex_unlock(&lock->mutex);
  }
  own_locks.held += !lock->uncounted;
  atomic_store_explicit(&lock->owner, me, memory_order_relaxed);
  lock->depth = 1;
}

/* The mutex stays locked. */
static void disown(struct mb_lock *lock) {
  renew_after_fork(lock); /* as this thread's own, before nobody is its owner */
  atomic_store_explicit(&lock->owner, 0, memory_order_relaxed);
}

void mb_unlock(struct mb_lock *lock) {
  if (--lock->depth) return;
  const bool uncounted = lock->uncounted; /* the lock may be gone as soon as it is free */
  disown(lock);
  (void)pthread_mutex_unlock(&lock->mutex);
  if (!uncounted && !--own_locks.held) leave();
}

/* ---- conditions ------------------------------------------------------------------------------ */

void mb_condition_init(struct mb_condition *condition) {
  *condition = (struct mb_condition)MB_CONDITION_INIT;
  atomic_init(&condition->forks, mb_forks());
}

/* One with waiters of the parent would wait for them. */
void mb_condition_destroy(struct mb_condition *condition) {
  if (atomic_load(&condition->forks) == mb_forks())
    (void)pthread_cond_destroy(&condition->condition);
}

/* With the lock that belongs to it. */
static void renew_condition(struct mb_condition *condition) {
  if (atomic_load(&condition->forks) == mb_forks()) return;
  (void)pthread_cond_init(&condition->condition, NULL);
  atomic_store(&condition->forks, mb_forks());
}

void mb_wait(struct mb_condition *condition, struct mb_lock *lock) {
  const unsigned depth = lock->depth;
  renew_condition(condition);
  disown(lock);
  if (!lock->uncounted && !--own_locks.held) leave();
  (void)pthread_cond_wait(&condition->condition, &lock->mutex);
  (void)pthread_mutex_unlock(
      &lock->mutex); /* a fork may be under way: who comes back waits for it, as others do */
  mb_lock(lock);
  lock->depth = depth;
}

void mb_wake(struct mb_condition *condition) {
  renew_condition(condition);
  (void)pthread_cond_broadcast(&condition->condition);
}

void mb_wake_one(struct mb_condition *condition) {
  renew_condition(condition);
  (void)pthread_cond_signal(&condition->condition);
}

/* ---- ends of threads ------------------------------------------------------------------------- */

static _Atomic(struct mb_thread_end *) thread_ends;
static atomic_bool unloading;

static bool make_key(struct mb_thread_end *end) {
  mb_lock(&end->lock);
  bool made = atomic_load(&end->made);
  if (!made && (made = pthread_key_create(&end->key, end->end) == 0)) {
    end->next = atomic_load(&thread_ends);
    while (!atomic_compare_exchange_weak(&thread_ends, &end->next, end)) {
    }
    atomic_store_explicit(&end->made, true, memory_order_release);
  }
  mb_unlock(&end->lock);
  return made;
}

void mb_thread_end_set(struct mb_thread_end *end, void *what) {
  if (atomic_load_explicit(&unloading, memory_order_relaxed)) return;
  if (!atomic_load_explicit(&end->made, memory_order_acquire) && !make_key(end)) return;
  (void)pthread_setspecific(end->key, what);
}

/* A thread that ends later would call functions that are not there any more. Runs last: threads
 * of the pool end before. */
MB_HANDLER(destructor(101)) static void forget_ends(void) {
  atomic_store(&unloading, true);
  for (struct mb_thread_end *end = atomic_exchange(&thread_ends, NULL); end; end = end->next)
    (void)pthread_key_delete(end->key);
}
