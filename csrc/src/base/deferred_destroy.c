#include "base/deferred_destroy.h"

#include <stddef.h>

#define DEPTH 32 /* ends within each other */

static __thread struct {
  unsigned depth;
  struct mb_destruction *waiting, *libraries;
} ends;

static bool run_one(struct mb_destruction **list) {
  struct mb_destruction *first = *list;
  if (!first) return false;
  *list = first->next;
  first->end(first);
  return true;
}

void mb_destroy_waiting(void) {
  while (run_one(&ends.waiting)) continue;
}

static void end_destruction(struct mb_destruction *self, void (*call)(struct mb_destruction *self),
                            struct mb_destruction **list) {
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

void mb_destroy(struct mb_destruction *self, void (*call)(struct mb_destruction *self)) {
  end_destruction(self, call, &ends.waiting);
}

void mb_destroy_library(struct mb_destruction *self, void (*call)(struct mb_destruction *self)) {
  end_destruction(self, call, &ends.libraries);
}
