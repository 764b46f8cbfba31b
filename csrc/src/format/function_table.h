/* function_table.h - the exported table `__mblob_functions` (docs/format.md, section 7). */
#ifndef MB_FUNCTION_TABLE_H
#define MB_FUNCTION_TABLE_H

#include "base/base.h"

#define MB_FUNCTION_TABLE_SYMBOL "__mblob_functions"
#define MB_DEFAULT_ALIGNMENT \
  64 /* bytes that kernels assume of which no table says otherwise: TVM's default */

struct mb_function_row {
  const char *name, *symbol, *types;
  const char *prototype; /* for people, "" if there is none */
  uint32_t alignment;    /* bytes; 0 = the element's own size */
  bool packed;
};

struct mb_function_table {
  char *text;            /* what the rows point into */
  struct mb_slice notes; /* behind the table, in the library's memory; none: empty */
  struct mb_function_row *rows;
  size_t count;
};

/* `crc`: of the table, NULL if nobody tells. MBLOB_E_DIGEST if it is another; MBLOB_E_FORMAT
 * "function_table" if the table breaks its rules. */
int mb_function_table_read(struct mb_slice bytes, const uint32_t *crc,
                           struct mb_function_table *out);
/* Records MBLOB_E_FORMAT "function_table_missing": `who` announced a table, and there is none. */
int mb_function_table_missing(const char *who);
void mb_function_table_free(struct mb_function_table *table);
const struct mb_function_row *mb_function_table_find(const struct mb_function_table *table,
                                                     const char *name, bool packed);
/* What the notes say of a plain function: why it has no packed function, and what to do. Empty
 * where they say nothing. */
struct mb_slice mb_function_table_note(const struct mb_function_table *table, const char *symbol);
const struct mb_function_row *mb_function_table_symbol(const struct mb_function_table *table,
                                                       const char *symbol);

#endif
