/* deferred_destroy.h - the end of what owns values that own values, to any depth, on a stack of any size: a few
 * ends run within each other, those further in wait until the outermost has returned. */
#ifndef MB_DEFERRED_DESTROY_H
#define MB_DEFERRED_DESTROY_H

#include <stdbool.h>

/* Part of what ends, unused before. */
struct mb_destruction {
  struct mb_destruction *next;
  void (*end)(struct mb_destruction *self);
};

/* Call `end`, which frees what `self` is part of: at once, or later on this thread. */
void mb_destroy(struct mb_destruction *self, void (*end)(struct mb_destruction *self));
/* The same of a library, whose code the ends of others may need: it waits for those. */
void mb_destroy_library(struct mb_destruction *self, void (*end)(struct mb_destruction *self));
/* What waits, apart from libraries, ends now: the code that it needs may go. */
void mb_destroy_waiting(void);

#endif
