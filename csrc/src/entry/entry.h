/* entry.h - the room on top: the functions by which a program comes in, and the table of what
 * can be run, which they hand down. It knows everything below; nothing below knows of it. */
#ifndef MB_ENTRY_H
#define MB_ENTRY_H

#include "base/base.h"

/* The program's table: profile_full.c or profile_core.c, whichever is linked. */
extern __attribute__((visibility("hidden"))) const struct mb_profile mb_profile;

/* Address of this runtime's function `name`, NULL if it is none of its names. */
void *mb_host_symbol(const char *name);

/* First of all in each public function that can open something, or look something up. */
void mb_enter(void);

#endif
