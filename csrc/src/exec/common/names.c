#define _GNU_SOURCE
#include "exec/common/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "core/call/call.h"
#include "core/library/library.h"
#include "exec/common/tensors.h"

#define NAMES_SHOWN 12 /* names that an error lists */

/* ---- which one ------------------------------------------------------------------------------- */

static bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* True if `given`, with '_' for what C has not in names, is `name`. */
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
  for (size_t i = 0; i < names->count && i < NAMES_SHOWN; i++)
    (void)fprintf(text, "%s%s", i ? ", " : ": ", names->names[i]);
  if (names->count > NAMES_SHOWN) (void)fputs(", ...", text);
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

/* Keys and values of a Map: names, and what is said of each, which is counted. */
struct pairs {
  TVMValue *values;
  int *codes;
  size_t count;
};

static void add_pair(struct pairs *pairs, const char *name, struct mb_object *said) {
  pairs->values[pairs->count].v_str = name;
  pairs->codes[pairs->count++] = kTVMStr;
  pairs->values[pairs->count].v_handle = said;
  pairs->codes[pairs->count++] = kTVMObjectHandle;
}

static int make_pairs(struct pairs *pairs, size_t count) {
  pairs->count = 0;
  pairs->values = calloc(2 * count + 1, sizeof(*pairs->values));
  pairs->codes = calloc(2 * count + 1, sizeof(*pairs->codes));
  return pairs->values && pairs->codes ? MBLOB_OK : mb_fail_memory(2 * count);
}

static void drop_pairs(struct pairs *pairs) {
  for (size_t i = 1; i < pairs->count; i += 2) mb_object_release(pairs->values[i].v_handle);
  free(pairs->values);
  free(pairs->codes);
}

static int make_map(const struct pairs *pairs, struct mb_return *out) {
  struct mb_call call = {"", pairs->values, pairs->codes, (int)pairs->count, out};
  return mb_object_make_map(NULL, &call);
}

static int describe_one(const struct mb_executor_io *end, bool dtype, struct mb_object **out) {
  char text[MB_DTYPE_TEXT];
  if (!dtype) return mb_object_new_shape(end->tensor->shape, (size_t)end->tensor->ndim, out);
  const char *shown = mb_dtype_text(end->tensor->dtype, text);
  return mb_object_new_string(shown, strlen(shown), out);
}

/* A Map by name: shapes, or element types. */
static int make_info(mb_describer describe, void *object, bool outputs, bool dtype,
                     struct mb_return *out) {
  struct pairs pairs = {NULL, NULL, 0};
  struct mb_executor_io end = {.name = ""};
  size_t count = 0;
  int status = describe(object, outputs, 0, &count, &end);
  if (!status) status = make_pairs(&pairs, count);
  for (size_t i = 0; !status && i < count; i++) {
    struct mb_object *said = NULL;
    status = describe(object, outputs, i, &count, &end);
    if (status || (!outputs && end.flags)) continue;
    status = describe_one(&end, dtype, &said);
    if (!status) add_pair(&pairs, end.name, said);
  }
  if (!status) status = make_map(&pairs, out);
  drop_pairs(&pairs);
  return status;
}

int mb_names_return_info(mb_describer describe, void *object, bool outputs, struct mb_call *call) {
  struct mb_return maps[2] = {MB_RETURN_NOTHING, MB_RETURN_NOTHING};
  int status = mb_call_expect(call, 0, 0);
  for (int i = 0; !status && i < 2; i++)
    status = make_info(describe, object, outputs, i != 0, &maps[i]);
  if (!status) {
    TVMValue values[] = {{.v_str = "shape"}, maps[0].value, {.v_str = "dtype"}, maps[1].value};
    int codes[] = {kTVMStr, maps[0].code, kTVMStr, maps[1].code};
    const struct pairs both = {values, codes, 4};
    status = make_map(&both, call->result);
  }
  mb_return_drop(&maps[0]);
  mb_return_drop(&maps[1]);
  return status;
}
