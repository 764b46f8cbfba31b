/* system_symbols.h - symbols of statically linked libraries, which their constructors announce with
 * TVMBackendRegisterSystemLibSymbol. */
#ifndef MB_SYSTEM_SYMBOLS_H
#define MB_SYSTEM_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/loaded/loaded.h"

/* Address of the symbol `prefix``name`, else of `name`; NULL if neither was announced, or is
 * another's. Where there is none, that of a function of the ffi dialect: then *dialect becomes
 * MB_FFI. */
void *mb_system_symbol(const char *prefix, const char *name, enum mb_system_names names,
                       unsigned char *dialect);

/* What a library announces of itself, behind its prefix; in the ffi dialect under names of its
 * own. */
enum mb_part {
  MB_PART_BLOB,
  MB_PART_CONTEXT,
  MB_PART_TABLE,
  MB_PART_RECORD,
  MB_PART_FFI_BLOB,
  MB_PART_FFI_CONTEXT,
  MB_PARTS
};
/* Its address, NULL if it was not announced. It carries the prefix, and is not shared with other
 * libraries. */
void *mb_announced_part(const char *prefix, enum mb_part part);

/* True if any name is the prefix's own. */
bool mb_is_announced(const char *prefix);

struct mb_announced_symbol {
  const char *name;
  const void *address;
};
/* Names that start with `prefix`, with their addresses, to an array that the caller frees:
 * borrowed, for good. */
int mb_all_announced(const char *prefix, struct mb_announced_symbol **out, size_t *count);

#endif
