#define _GNU_SOURCE
#include "executor/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "executor/tensors.h"

#define SHOWN 12 /* names that an error lists */

static bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Whether `given`, with '_' for what C has not in names, is `name`. */
static bool is_spelled(const char *name, const char *given) {
  for (; *name && *given; name++, given++)
    if (*name != (is_plain(*given) ? *given : '_')) return false;
  return *name == *given;
}

static int unknown(const struct mb_names *names, const char *given) {
  char *list = NULL;
  size_t size = 0;
  FILE *text = open_memstream(&list, &size);
  if (!text) return mb_fail_memory(0);
  for (size_t i = 0; i < names->count && i < SHOWN; i++)
    (void)fprintf(text, "%s%s", i ? ", " : "", names->names[i]);
  if (names->count > SHOWN) (void)fputs(", ...", text);
  (void)fclose(text);
  int status = mb_fail(MBLOB_E_ARGUMENT, "no %s '%s'; there are: %s", names->kind, given,
                       list && *list ? list : "none");
  free(list);
  return status;
}

int mb_names_argument(const struct mb_names *names, const struct mb_call *call, int i, size_t *out) {
  const char *given = NULL;
  int64_t index = 0;
  if (!mb_call_is_text(call, i)) {
    int status = mb_call_int(call, i, &index);
    if (status) return status;
    if (index < 0 || (uint64_t)index >= names->count)
      return mb_fail(MBLOB_E_ARGUMENT, "no %s %lld; there are %zu", names->kind, (long long)index,
                     names->count);
    *out = (size_t)index;
    return MBLOB_OK;
  }
  int status = mb_call_text(call, i, &given);
  if (status) return status;
  for (*out = 0; *out < names->count; ++*out)
    if (strcmp(names->names[*out], given) == 0) return MBLOB_OK;
  for (*out = 0; *out < names->count; ++*out)
    if (is_spelled(names->names[*out], given)) return MBLOB_OK;
  return unknown(names, given);
}

static void write_json_text(FILE *out, const char *text) {
  (void)fputc('"', out);
  for (; *text; text++) {
    if ((unsigned char)*text < 0x20)
      (void)fprintf(out, "\\u%04x", *text);
    else
      (void)fprintf(out, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
  }
  (void)fputc('"', out);
}

static void write_info(FILE *out, const struct mb_names *names, DLTensor *const *tensors) {
  char dtype[MB_DTYPE_TEXT];
  (void)fputs("{\"shape\": {", out);
  for (size_t i = 0; i < names->count; i++) {
    if (i) (void)fputs(", ", out);
    write_json_text(out, names->names[i]);
    (void)fputs(": [", out);
    for (int32_t d = 0; d < tensors[i]->ndim; d++)
      (void)fprintf(out, "%s%lld", d ? ", " : "", (long long)tensors[i]->shape[d]);
    (void)fputc(']', out);
  }
  (void)fputs("}, \"dtype\": {", out);
  for (size_t i = 0; i < names->count; i++) {
    if (i) (void)fputs(", ", out);
    write_json_text(out, names->names[i]);
    (void)fprintf(out, ": \"%s\"", mb_dtype_text(tensors[i]->dtype, dtype));
  }
  (void)fputs("}}", out);
}

int mb_names_return_info(const struct mb_names *names, DLTensor *const *tensors, struct mb_call *call) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return mb_fail_memory(0);
  write_info(out, names, tensors);
  (void)fclose(out);
  int status = text ? mb_call_return_text(call, text) : mb_fail_memory(size);
  free(text);
  return status;
}
