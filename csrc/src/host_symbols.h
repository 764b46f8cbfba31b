/* host_symbols.h - the names that libraries may leave undefined, and what this runtime has for them. */
#ifndef MB_HOST_SYMBOLS_H
#define MB_HOST_SYMBOLS_H

#include <stddef.h>

/* Address of this runtime's function `name`, NULL if it is none of its names. Never another runtime's,
 * whatever the process has loaded. */
void *mb_host_symbol(const char *name);

/* Variables through which libraries reach the runtime: "__" and the name of a function, and last, number
 * MB_SLOTS, the one of their context. The same list in TVM 0.5 - 0.19 (docs/format.md, section 9). */
#define MB_SLOTS 7
const char *mb_slot_name(size_t i);

#endif
