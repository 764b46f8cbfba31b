#include "base/near.h"

#include <stdio.h>
#include <string.h>

enum { CASE = 'a' ^ 'A' }; /* the bit in which letters of ASCII differ by case */

/* How many characters to change, insert or remove make `word` of the first `size` of `text`; their
 * case is no difference. */
static size_t distance(const char *text, size_t size, const char *word, size_t length) {
  size_t row[MB_NEAR_LIMIT];
  for (size_t k = 0; k <= length; k++) row[k] = k;
  for (size_t i = 0; i < size; i++) {
    size_t before = row[0];
    row[0] = i + 1;
    for (size_t k = 0; k < length; k++) {
      size_t best = before + ((text[i] ^ word[k]) & ~CASE ? 1 : 0);
      before = row[k + 1];
      if (before + 1 < best) best = before + 1;
      if (row[k] + 1 < best) best = row[k] + 1;
      row[k + 1] = best;
    }
  }
  return row[length];
}

void mb_near_offer(struct mb_near *near, const char *name) {
  const size_t length = strlen(name);
  if (near->size >= MB_NEAR_LIMIT || length >= MB_NEAR_LIMIT) return;
  const size_t away = distance(near->given, near->size, name, length);
  if (away >= near->least || 2 * away >= length) return;
  near->least = away;
  (void)snprintf(near->text, sizeof(near->text), "; did you mean '%s'?", name);
}
