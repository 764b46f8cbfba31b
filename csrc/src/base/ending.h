/* ending.h - the end of what owns values that own values, to any depth, on a stack of any size: a few
 * ends run within each other, those further in wait until the outermost has returned. */
#ifndef MB_ENDING_H
#define MB_ENDING_H

#include <stdbool.h>

/* Part of what ends, unused before. */
struct mb_ending {
  struct mb_ending *next;
  void (*end)(struct mb_ending *self);
};

/* Call `end`, which frees what `self` is part of: at once, or later on this thread. */
void mb_end(struct mb_ending *self, void (*end)(struct mb_ending *self));
/* The same of a library, whose code the ends of others may need: it waits for those. */
void mb_end_library(struct mb_ending *self, void (*end)(struct mb_ending *self));
/* What waits, apart from libraries, ends now: the code that it needs may go. */
void mb_end_waiting(void);

#endif
