/* near.h - the name that was meant: for an error about a name that does not exist. */
#ifndef MB_NEAR_H
#define MB_NEAR_H

#include <stddef.h>

enum { MB_NEAR_LIMIT = 48 }; /* characters of a name; a longer one is never suggested */

/* Start with MB_NEAR, offer all names that exist, then print the text. */
struct mb_near {
  const char *given;
  size_t size, least;
  char text[MB_NEAR_LIMIT + 20]; /* "; did you mean 'vadd'?", "" if no offered name is near */
};
#define MB_NEAR(given_, size_) ((struct mb_near){.given = (given_), .size = (size_), .least = 3})

/* Keep `name` if it is at most two characters away from the given one, apart from case, and nearer
 * than the others. */
void mb_near_offer(struct mb_near *near, const char *name);

#endif
