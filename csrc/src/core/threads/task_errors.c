#define _GNU_SOURCE
#include "core/threads/task_errors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define ERROR_SIZE_MIN 256 /* bytes that each text has, however many there are */

/* Bytes of `text` that `limit` leaves, without a part of a UTF-8 character. */
static size_t cut(const char *text, size_t limit) {
  size_t size = strnlen(text, limit + 1);
  if (size <= limit) return size;
  while (limit && ((unsigned char)text[limit] & 0xC0) == 0x80) limit--;
  return limit;
}

/* One text of all errors, with a part of each where they are long; NULL when memory is out. */
static char *join_errors(char **errors, int tasks, int failures) {
  char *text = NULL;
  size_t size = 0, limit = MB_TASK_ERRORS_SIZE / (size_t)failures;
  FILE *out = open_memstream(&text, &size);
  if (limit < ERROR_SIZE_MIN) limit = ERROR_SIZE_MIN;
  for (int i = 0; i < tasks && out; ++i) {
    if (!errors[i]) continue;
    size_t part = cut(errors[i], limit);
    (void)fprintf(out, "Task %d error: ", i);
    (void)fwrite(errors[i], 1, part, out);
    (void)fprintf(out, "%s%s", errors[i][part] ? "..." : "", --failures ? "\n" : "");
  }
  if (out) (void)fclose(out);
  return text;
}

int mb_task_errors_report(char **errors, int tasks) {
  int failures = 0;
  for (int i = 0; i < tasks; ++i) failures += errors[i] != NULL;
  if (!failures) return 0;
  char *text = join_errors(errors, tasks, failures);
  mb_set_kernel_error(text ? text : "a parallel task failed");
  free(text);
  for (int i = 0; i < tasks; ++i) free(errors[i]);
  return -1;
}
