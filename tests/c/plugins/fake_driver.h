/* fake_driver.h - what the doubles of drivers share: calls that fail on request, and objects in
 * a list (what is left to the driver at the end of a process is no leak of the test). */
#ifndef FAKE_DRIVER_H
#define FAKE_DRIVER_H

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- calls that fail: said by tests, asked by doubles ---------------------------------------- */

struct fake_failure {
  char function[64]; /* "": any */
  int after, times;  /* that many calls succeed, then that many fail; times 0: all */
  int code;          /* 0: the slot is free */
};

struct fake_calls {
  struct fake_failure failures[8];
  int count; /* of calls so far */
};

/* The calls of `function` (NULL: of all functions together) behind the next `after` fail with
 * `code`, `times` of them (0: from then on). */
static inline void fake_fail(struct fake_calls *calls, const char *function, int after, int times,
                             int code) {
  for (size_t i = 0; i < sizeof(calls->failures) / sizeof(*calls->failures); i++) {
    struct fake_failure *f = &calls->failures[i];
    if (f->code) continue;
    (void)snprintf(f->function, sizeof(f->function), "%s", function ? function : "");
    f->after = after, f->times = times, f->code = code;
    return;
  }
  abort();
}

static inline void fake_succeed(struct fake_calls *calls) {
  memset(calls->failures, 0, sizeof(calls->failures));
}

/* What this call is to fail with, 0 if it is not. Counts it. The double's lock is held. */
static inline int fake_code(struct fake_calls *calls, const char *function) {
  int code = 0;
  calls->count++;
  for (size_t i = 0; i < sizeof(calls->failures) / sizeof(*calls->failures); i++) {
    struct fake_failure *f = &calls->failures[i];
    if (!f->code || (*f->function && strcmp(f->function, function) != 0) || f->after-- > 0)
      continue;
    code = f->code;
    if (f->times && --f->times == 0) f->code = 0;
  }
  return code;
}

/* ---- objects --------------------------------------------------------------------------------- */

/* In front of each object. */
struct fake_link {
  _Alignas(max_align_t) struct fake_link *next, **back;
};
struct fake_objects {
  struct fake_link *first;
  pthread_mutex_t lock;
};

static inline void *new_object(struct fake_objects *all, size_t size) {
  struct fake_link *l = calloc(1, sizeof(*l) + size);
  if (!l) abort();
  pthread_mutex_lock(&all->lock);
  *l = (struct fake_link){all->first, &all->first};
  if (all->first) all->first->back = &l->next;
  all->first = l;
  pthread_mutex_unlock(&all->lock);
  return l + 1;
}

static inline void forget(struct fake_objects *all, void *object) {
  struct fake_link *l = (struct fake_link *)object - 1;
  pthread_mutex_lock(&all->lock);
  *l->back = l->next;
  if (l->next) l->next->back = l->back;
  pthread_mutex_unlock(&all->lock);
  free(l);
}

#endif
