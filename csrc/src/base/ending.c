#include "base/ending.h"

#include <stddef.h>

#define DEPTH 32 /* ends within each other */

static __thread struct {
  unsigned depth;
  struct mb_ending *waiting, *libraries;
} ends;

static bool run_one(struct mb_ending **list) {
  struct mb_ending *first = *list;
  if (!first) return false;
  *list = first->next;
  first->end(first);
  return true;
}

void mb_end_waiting(void) {
  while (run_one(&ends.waiting)) continue;
}

static void end(struct mb_ending *self, void (*call)(struct mb_ending *self),
                struct mb_ending **list) {
  if (ends.depth == DEPTH) {
    self->end = call;
    self->next = *list;
    *list = self;
    return;
  }
  ends.depth++;
  call(self);
  if (ends.depth == 1)
    while (run_one(&ends.waiting) || run_one(&ends.libraries)) continue;
  ends.depth--;
}

void mb_end(struct mb_ending *self, void (*call)(struct mb_ending *self)) {
  end(self, call, &ends.waiting);
}

void mb_end_library(struct mb_ending *self, void (*call)(struct mb_ending *self)) {
  end(self, call, &ends.libraries);
}
