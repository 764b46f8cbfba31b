/* json_text.h - the JSON that functions give where TVM gives maps and lists. */
#ifndef MB_JSON_TEXT_H
#define MB_JSON_TEXT_H

#include <stdio.h>

/* A string with its quotes; what JSON has no place for in one (quotes, backslashes, control characters) is
 * escaped. `text` is UTF-8, as names in payloads are. */
void mb_json_put_text(FILE *out, const char *text);

#endif
