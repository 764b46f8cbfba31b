#include "maps.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "containers.h"
#include "errors.h"

#define DEPTH 64 /* Maps within Maps: they are converted by recursion, on stacks of any thread */
#define RELEASES MB_RELEASES_0_22

/* ---- functions of libtvm_ffi ----------------------------------------------------------------- */

enum function { MAKE, SIZE, ITERATOR, FUNCTIONS };

/* An object of a function, kept for good; NULL if the process has no libtvm_ffi. */
static void *function(enum function which) {
  static const char names[FUNCTIONS][28] = {"ffi.Map", "ffi.MapSize", "ffi.MapForwardIterFunctor"};
  static void *_Atomic found[FUNCTIONS];
  void *known = atomic_load_explicit(&found[which], memory_order_acquire);
  if (known) return known;
  union {
    void *address;
    int (*call)(const struct mb_text *name, void **out);
  } find = {mb_process_function("TVMFFIFunctionGetGlobal")};
  const struct mb_text name = {names[which], strlen(names[which])};
  void *object = NULL, *none = NULL;
  if (!find.address || find.call(&name, &object) || !object) return NULL;
  if (atomic_compare_exchange_strong(&found[which], &none, object)) return object;
  mb_object_release(RELEASES, object);
  return none;
}

static int call(void *object, const struct mb_any *args, int32_t count, struct mb_any *result) {
  const struct mb_function_cell *cell = mb_object_cell(RELEASES, object);
  *result = (struct mb_any){.type = MB_ANY_NONE};
  mb_error_forget();
  const uint64_t before = mb_plugin_host()->error_count();
  const int rc = cell->call(object, args, count, result);
  return rc ? mb_error_record("Map", rc, before) : MBLOB_OK;
}

/* ---- to the ffi ------------------------------------------------------------------------------ */

static int ask(const char *name, TVMValue container, int64_t i, int count, TVMValue *out,
               int *code) {
  const TVMValue args[2] = {container, {.v_int64 = i}};
  const int codes[2] = {kTVMObjectHandle, kTVMArgInt};
  return mb_call_global(name, args, codes, count, out, code);
}

/* Keys and values in turn. */
static int any_of_items(TVMValue items, int64_t count, struct mb_any *out) {
  if (count > INT_MAX)
    return mb_fail(MBLOB_E_ARGUMENT, "a Map of %lld keys and values, at most %d can be passed",
                   (long long)count, INT_MAX);
  struct mb_any *anys = calloc((size_t)count + 1, sizeof(*anys));
  if (!anys) return mb_fail_memory((size_t)count * sizeof(*anys));
  int status = MBLOB_OK;
  int64_t made = 0;
  for (; !status && made < count; made++) {
    TVMValue item;
    int code;
    status = ask("runtime.ArrayGetItem", items, made, 2, &item, &code);
    if (status) break;
    status = mb_any_of_value(RELEASES, item, code, false, &anys[made]);
    mb_plugin_host()->value_release(item, code);
  }
  if (!status) status = call(function(MAKE), anys, (int32_t)count, out);
  while (made-- > 0) mb_any_release(RELEASES, &anys[made]);
  free(anys);
  return status;
}

int mb_any_of_map(TVMValue map, struct mb_any *out, bool *made) {
  static __thread int depth;
  TVMValue items = {.v_handle = NULL}, count = {.v_int64 = 0};
  int code = kTVMNullptr, count_code;
  *made = function(MAKE) != NULL;
  if (!*made) return MBLOB_OK;
  if (depth == DEPTH)
    return mb_fail(MBLOB_E_ARGUMENT,
                   "Maps are within Maps more than %d levels deep, which is the limit", DEPTH);
  int status = ask("runtime.MapItems", map, 0, 1, &items, &code);
  if (!status) status = ask("runtime.ArraySize", items, 0, 1, &count, &count_code);
  depth++;
  if (!status) status = any_of_items(items, count.v_int64, out);
  depth--;
  if (code != kTVMNullptr) mb_plugin_host()->value_release(items, code);
  return status;
}

/* ---- to the runtime -------------------------------------------------------------------------- */

/* One key or value, or the step to the next entry, of an iterator. */
static int step(void *iterator, int64_t command, struct mb_any *out) {
  const struct mb_any arg = {.type = MB_ANY_INT, .u.i64 = command};
  return call(iterator, &arg, 1, out);
}

/* What the conversion of one key or value holds until the Map is made. */
struct entry {
  struct mb_place place;
  struct mb_any any;
  TVMValue value;
  int code;
};

static int read_entries(void *iterator, int64_t count, struct entry *entries, int64_t *made) {
  enum { KEY = 0, NEXT = 2 };
  int status = MBLOB_OK;
  for (; !status && *made < count; ++*made) {
    struct entry *entry = &entries[*made];
    struct mb_any more;
    if (*made && *made % 2 == 0) {
      status = step(iterator, NEXT, &more);
      if (!status && !more.u.i64)
        status = mb_fail(MBLOB_E_KERNEL, "a Map has fewer entries than its size says");
    }
    entry->code = kTVMNullptr;
    entry->place.code = kTVMNullptr;
    if (!status) status = step(iterator, KEY + *made % 2, &entry->any);
    if (!status)
      status = mb_value_of_any(RELEASES, &entry->any, &entry->value, &entry->code, &entry->place);
  }
  return status;
}

static int map_of_entries(void *iterator, int64_t count, TVMValue *value, int *code) {
  struct entry *entries = calloc((size_t)count + 1, sizeof(*entries));
  TVMValue *values = calloc((size_t)count + 1, sizeof(*values));
  int *codes = calloc((size_t)count + 1, sizeof(*codes));
  int64_t made = 0;
  int status =
      entries && values && codes ? MBLOB_OK : mb_fail_memory((size_t)count * sizeof(*entries));
  if (!status) status = read_entries(iterator, count, entries, &made);
  for (int64_t i = 0; i < made; i++) values[i] = entries[i].value, codes[i] = entries[i].code;
  if (!status) status = mb_call_global("runtime.Map", values, codes, (int)count, value, code);
  while (made-- > 0) {
    mb_place_release(&entries[made].place);
    mb_any_release(RELEASES, &entries[made].any);
  }
  free(entries);
  free(values);
  free(codes);
  return status;
}

int mb_map_of_object(void *object, TVMValue *value, int *code, bool *made) {
  static __thread int depth;
  const struct mb_any map = {.type = MB_ANY_MAP, .u.pointer = object};
  struct mb_any size, iterator = {.type = MB_ANY_NONE};
  *made = function(SIZE) && function(ITERATOR);
  if (!*made) return MBLOB_OK;
  if (depth == DEPTH)
    return mb_fail(MBLOB_E_ARGUMENT,
                   "Maps are within Maps more than %d levels deep, which is the limit", DEPTH);
  int status = call(function(SIZE), &map, 1, &size);
  if (!status && (size.type != MB_ANY_INT || size.u.i64 < 0 || size.u.i64 > INT_MAX / 2))
    status = mb_fail(MBLOB_E_ARGUMENT, "a Map has more entries than can be passed");
  if (!status && size.u.i64) status = call(function(ITERATOR), &map, 1, &iterator);
  depth++;
  if (!status) status = map_of_entries(iterator.u.pointer, 2 * size.u.i64, value, code);
  depth--;
  mb_any_release(RELEASES, &iterator);
  return status;
}
