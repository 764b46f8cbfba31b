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
  return mb_call_is_text(call, i)
             ? mb_call_text(call, i, &out->text)
             : mb_call_expected_int(call, i, "a name or an index", &out->index);
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
  if (given->text) {
    struct mb_near near = MB_NEAR(given->text, strlen(given->text));
    for (size_t i = 0; i < names->count; i++) mb_near_offer(&near, names->names[i]);
    (void)fputs(near.text, text);
  }
  (void)fclose(text);
  int status = list ? mb_fail_argument(given->text ? MB_ARGUMENT_NAME : MB_ARGUMENT_INDEX,
                                       "no %s %s", names->kind, list)
                    : mb_fail_memory(size);
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

static int put_info(FILE *out, mb_describer describe, void *object, bool outputs) {
  char dtype[MB_DTYPE_TEXT];
  for (int part = 0; part < 2; part++) {
    const char *comma = part ? "}, \"dtype\": {" : "{\"shape\": {";
    struct mb_end end;
    size_t count = 0;
    for (size_t i = 0; !i || i < count; i++) {
      int status = describe(object, outputs, i, &count, &end);
      if (status) return status;
      if (!i) (void)fputs(comma, out), comma = "";
      if (i >= count || (!outputs && end.is_parameter)) continue;
      (void)fputs(comma, out);
      comma = ", ";
      mb_json_put_text(out, end.name);
      (void)fputs(": ", out);
      if (part)
        (void)fprintf(out, "\"%s\"", mb_dtype_text(end.tensor->dtype, dtype));
      else
        put_shape(out, end.tensor);
    }
  }
  (void)fputs("}}", out);
  return MBLOB_OK;
}

int mb_names_return_info(mb_describer describe, void *object, bool outputs, struct mb_call *call) {
  char *text = NULL;
  size_t size = 0;
  int status = mb_call_expect(call, 0, 0);
  FILE *out = status ? NULL : open_memstream(&text, &size);
  if (!out) return status ? status : mb_fail_memory(0);
  (void)put_info(out, describe, object, outputs);
  return mb_call_return_stream(call, out, &text, &size);
}
