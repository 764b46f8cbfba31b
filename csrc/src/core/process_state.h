/* process_state.h - what code of a library may change in the process, beside the memory. */
#ifndef MB_PROCESS_STATE_H
#define MB_PROCESS_STATE_H

#include <stdint.h>

#define MB_SIGNALS 65 /* one more than the highest of Linux (MIPS has 127; the rest are real-time) */
#define MB_CHANGES_SIZE 512 /* bytes of a text */

struct mb_process_state {
  uintptr_t handlers[MB_SIGNALS];
  char locale[256];
};

void mb_process_state_take(struct mb_process_state *state);
/* What is otherwise now, as a text on the heap for people; NULL: nothing, or no memory. */
char *mb_process_state_changes(const struct mb_process_state *before);

#endif
