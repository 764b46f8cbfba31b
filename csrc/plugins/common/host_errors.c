/* The errors of base/error.h, over the runtime's table. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "host.h"

/* `code`: of an argument's error, NULL for others. */
static int fail_with(int status, const char *code, const char *prefix, const char *format,
                     va_list args) MB_PRINTF(4, 0);
static int fail_with(int status, const char *code, const char *prefix, const char *format,
                     va_list args) {
  char *text = NULL, *whole = NULL;
  if (vasprintf(&text, format, args) < 0) text = NULL;
  if (*prefix && text && asprintf(&whole, "%s%s", prefix, text) < 0) whole = NULL;
  const char *message = whole ? whole : text ? text : MB_TEXT_NO_MEMORY;
  if (code)
    (void)mb_plugin_host()->set_coded_error(status, code, message);
  else
    (void)mb_plugin_host()->set_error(status, message);
  free(whole);
  free(text);
  return status;
}

int mb_fail(int status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  status = fail_with(status, NULL, "", format, args);
  va_end(args);
  return status;
}

int mb_fail_argument(const char *code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int status = fail_with(MBLOB_E_ARGUMENT, code, "", format, args);
  va_end(args);
  return status;
}

int mb_fail_format(const char *code, int64_t offset, int64_t entry, const char *format, ...) {
  char prefix[96];
  va_list args;
  (void)entry;
  (void)snprintf(prefix, sizeof(prefix),
                 offset >= 0 ? "[%s] at byte %lld of the payload: " : "[%s] ", code,
                 (long long)offset);
  va_start(args, format);
  int status = fail_with(MBLOB_E_FORMAT, NULL, prefix, format, args);
  va_end(args);
  return status;
}

int mb_fail_memory(size_t size) {
  return mb_fail(MBLOB_E_MEMORY, MB_TEXT_NO_MEMORY ": %zu bytes", size);
}
