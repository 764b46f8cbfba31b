/* host_symbols.h - the names that libraries may leave undefined, and what this runtime has for them. */
#ifndef MB_HOST_SYMBOLS_H
#define MB_HOST_SYMBOLS_H

#include <stddef.h>

/* Address of this runtime's function `name`, NULL if it is none of its names. Never another runtime's,
 * whatever the process has loaded. */
void *mb_host_symbol(const char *name);

/* Variables through which libraries reach the runtime: "__" and the name of a function, and behind those, from number
 * MB_SLOTS on, the one of their context, in the order of enum mb_form. The classic ones are the same in TVM 0.5 - 0.20
 * (docs/format.md, section 9). */
#define MB_SLOTS 12
#define MB_SLOTS_AND_CONTEXTS (MB_SLOTS + 3)
const char *mb_slot_name(size_t i);

#endif
