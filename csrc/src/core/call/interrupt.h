/* interrupt.h - asking the host, now and then, whether a call is to end. */
#ifndef MB_INTERRUPT_H
#define MB_INTERRUPT_H

#include <mblob.h>

/* What the host offers: not 0 after it recorded an error, with which the call is to end. */
typedef int (*mb_interrupt_hook)(void);
void mb_interrupt_ask(mb_interrupt_hook asked);
/* Ask now, if it is time. A mblob_status. */
int mb_interrupt_now(void);
/* The same once in `MB_INTERRUPT_STEPS` steps of a loop, which `steps` counts. */
#define MB_INTERRUPT_STEPS 16
static inline int mb_interrupt_check(unsigned *steps) {
  return ++*steps % MB_INTERRUPT_STEPS ? MBLOB_OK : mb_interrupt_now();
}

#endif
