/* fake_objects.h - objects that a double of a driver gives out, in a list: what is left to the driver at the end of a
 * process is no leak of the test. */
#ifndef FAKE_OBJECTS_H
#define FAKE_OBJECTS_H

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

/* In front of each object. */
struct link {
  _Alignas(max_align_t) struct link *next, **back;
};
static struct link *all;
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;

static inline void *new_object(size_t size) {
  struct link *l = calloc(1, sizeof(*l) + size);
  if (!l) abort();
  pthread_mutex_lock(&all_lock);
  *l = (struct link){all, &all};
  if (all) all->back = &l->next;
  all = l;
  pthread_mutex_unlock(&all_lock);
  return l + 1;
}

static inline void forget(void *object) {
  struct link *l = (struct link *)object - 1;
  pthread_mutex_lock(&all_lock);
  *l->back = l->next;
  if (l->next) l->next->back = l->back;
  pthread_mutex_unlock(&all_lock);
  free(l);
}

#endif
