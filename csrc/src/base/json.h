/* json.h - a pull reader for the JSON that libraries carry (RFC 8259): no tree, no recursion, no
 * allocation but for strings with escapes.
 *
 * The caller walks: begin an object or array, ask for its next member until there is none, read
 * or skip each value. The first error sticks: every later call returns false, mb_json_error()
 * has text and offset. */
#ifndef MB_JSON_H
#define MB_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/bytes.h"
#include "base/texts.h"

struct mb_json {
  const char *start, *pos, *end;
  const char *error; /* NULL, or what is wrong at `pos` */
  int depth;
  bool first[MB_NESTING_LIMIT]; /* nothing was read of this object or array yet */
};

void mb_json_init(struct mb_json *j, const void *text, size_t size);

/* Enter the object or array that comes next. */
bool mb_json_begin_object(struct mb_json *j);
bool mb_json_begin_array(struct mb_json *j);
/* The next member's key (still escaped, as in the text; mb_json_text decodes it), or false at
 * the end of the object or after an error. */
bool mb_json_next_key(struct mb_json *j, struct mb_slice *key);
/* True if the array has another element; the element comes next. */
bool mb_json_next_element(struct mb_json *j);

/* Read a value. The slice of a string is its text between the quotes, escapes and all: they are
 * right, and it is UTF-8. */
bool mb_json_string(struct mb_json *j, struct mb_slice *out);
bool mb_json_uint(struct mb_json *j, uint64_t *out);
/* Pass over any value. */
bool mb_json_skip(struct mb_json *j);
/* Nothing but white space is left. */
bool mb_json_end(struct mb_json *j);
/* First character of the value that comes next ('{', '[', '"', ...), 0 at the end. */
char mb_json_peek(struct mb_json *j);

bool mb_json_fail(struct mb_json *j, const char *what);

/* True if an escaped string is `text`. */
bool mb_json_is(struct mb_slice escaped, const char *text);
/* The decoded string, NUL terminated, on the heap; NULL for memory or a wrong escape. */
char *mb_json_text(struct mb_slice escaped);

/* Write a string with its quotes, for the JSON that functions give where TVM gives maps and
 * lists; what JSON has no place for in one (quotes, backslashes, control characters) is escaped.
 * `text` is UTF-8, as names in payloads are. */
void mb_json_put_text(FILE *out, const char *text);

#endif
