/* runtime_names.h - the names that libraries may leave undefined, as one text, in which the
 * loader looks them up and which tools read from the file (mblob/inspect/runtime_names.py):
 * libmblob and libmblob-ffi each export theirs.
 *
 * Texts, each with its NUL. "=" and a word start a part, whose names are for libraries of that
 * kind: all, ffi (TVM 0.22 and later), ffi-0.21. */
#ifndef MB_RUNTIME_NAMES_H
#define MB_RUNTIME_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define MB_NAMES_FOR(kind) "=" kind "\0"

extern __attribute__((visibility("default"))) const char mblob_runtime_names[];

typedef void (*mb_code)(void);

/* The function of a name for a kind of libraries, NULL without one; `functions` is as long as
 * the text `names`, with NULL in the place of each "=". */
static inline void *mb_code_of(const char *names, const char *kind, const char *name,
                               const mb_code *functions, size_t count) {
  const char *at = names;
  bool meant = false;
  for (size_t i = 0; i < count; i++, at += strlen(at) + 1) {
    if (*at == '=') {
      meant = strcmp(at + 1, kind) == 0;
    } else if (meant && strcmp(at, name) == 0) {
      void *found;
      memcpy(&found, &functions[i], sizeof(found));
      return found;
    }
  }
  return NULL;
}

#endif
