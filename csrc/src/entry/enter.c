/* enter.c - the first call of each public function of this layer: it says what this program can run. */
#include "entry/entry.h"

void mb_enter(void) {
  if (!mb_profile_of_program())
    atomic_store_explicit(&mb_profile_in_use, &mb_profile, memory_order_relaxed);
}
