#define _GNU_SOURCE
#include "exec/common/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "exec/common/tensors.h"

#define SHOWN 12 /* names that an error lists */

/* ---- which one ------------------------------------------------------------------------------- */

static bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Whether `given`, with '_' for what C has not in names, is `name`. */
static bool is_spelled(const char *name, const char *given) {
  for (; *name && *given; name++, given++)
    if (*name != (is_plain(*given) ? *given : '_')) return false;
  return *name == *given;
}

int mb_name_argument(const struct mb_call *call, int i, struct mb_name *out) {
  *out = (struct mb_name){NULL, -1};
  return mb_call_is_text(call, i) ? mb_call_text(call, i, &out->text)
                                  : mb_call_int(call, i, &out->index);
}

int mb_names_unknown(const struct mb_names *names, const struct mb_name *given) {
  char *list = NULL;
  size_t size = 0;
  FILE *text = open_memstream(&list, &size);
  if (!text) return mb_fail_memory(0);
  if (given->text)
    (void)fprintf(text, "'%.80s'", given->text);
  else
    (void)fprintf(text, "%lld", (long long)given->index);
  (void)fprintf(text, "; there are %zu", names->count);
  for (size_t i = 0; i < names->count && i < SHOWN; i++)
    (void)fprintf(text, "%s%s", i ? ", " : ": ", names->names[i]);
  if (names->count > SHOWN) (void)fputs(", ...", text);
  (void)fclose(text);
  int status =
      list ? mb_fail(MBLOB_E_ARGUMENT, "no %s %s", names->kind, list) : mb_fail_memory(size);
  free(list);
  return status;
}

static int64_t find_spelled(const struct mb_names *names, const char *given) {
  for (size_t i = 0; i < names->count; i++)
    if (strcmp(names->names[i], given) == 0) return (int64_t)i;
  for (size_t i = 0; i < names->count; i++)
    if (is_spelled(names->names[i], given)) return (int64_t)i;
  return -1;
}

int mb_names_argument(const struct mb_names *names, const struct mb_call *call, int i,
                      size_t *out) {
  struct mb_name given;
  int status = mb_name_argument(call, i, &given);
  if (status) return status;
  if (given.text) given.index = find_spelled(names, given.text);
  if (given.index < 0 || (uint64_t)given.index >= names->count)
    return mb_names_unknown(names, &given);
  *out = (size_t)given.index;
  return MBLOB_OK;
}

/* ---- what they are --------------------------------------------------------------------------- */

static void put_shape(FILE *out, const DLTensor *t) {
  (void)fputc('[', out);
  for (int32_t d = 0; d < t->ndim; d++)
    (void)fprintf(out, "%s%lld", d ? ", " : "", (long long)t->shape[d]);
  (void)fputc(']', out);
}

static void put_info(FILE *out, const struct mb_named_tensor *items, size_t count) {
  char dtype[MB_DTYPE_TEXT];
  (void)fputs("{\"shape\": {", out);
  for (size_t i = 0; i < count; i++) {
    if (i) (void)fputs(", ", out);
    mb_json_put_text(out, items[i].name);
    (void)fputs(": ", out);
    put_shape(out, items[i].tensor);
  }
  (void)fputs("}, \"dtype\": {", out);
  for (size_t i = 0; i < count; i++) {
    if (i) (void)fputs(", ", out);
    mb_json_put_text(out, items[i].name);
    (void)fprintf(out, ": \"%s\"", mb_dtype_text(items[i].tensor->dtype, dtype));
  }
  (void)fputs("}}", out);
}

int mb_names_return_info(const struct mb_named_tensor *items, size_t count, struct mb_call *call) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return mb_fail_memory(0);
  put_info(out, items, count);
  return mb_call_return_stream(call, out, &text, &size);
}
