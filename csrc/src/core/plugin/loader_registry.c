/* Loaders of type keys that a program, or a plug-in, registered. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "core/call/call.h"
#include "core/plugin/plugin.h"

static struct mb_lock registry_lock = MB_LOCK_INIT;

/* Loaders of the process, in order of registration. Those of `measuring` have no function, and say only
 * where payloads end. They were registered after the first loader of their key, and count in its place. */
static struct registry {
  mblob_loader *items;
  size_t count;
} first, last, measuring;

/* ---- registry -------------------------------------------------------------------------------- */

static size_t place_in(const struct registry *r, const char *key) {
  size_t i = 0;
  while (i < r->count && strcmp(r->items[i].type_key, key) != 0) i++;
  return i;
}

int mb_loader_copy(const mblob_loader *given, mblob_loader *out) {
  *out = (mblob_loader){0};
  memcpy(out, given, given->struct_size < sizeof(*out) ? given->struct_size : sizeof(*out));
  size_t key = strlen(out->type_key) + 1, layout = out->layout ? strlen(out->layout) + 1 : 0;
  char *texts = malloc(key + layout);
  if (!texts) return mb_fail_memory(key + layout);
  out->type_key = memcpy(texts, out->type_key, key);
  if (layout) out->layout = memcpy(texts + key, out->layout, layout);
  return MBLOB_OK;
}

void mb_loader_free(mblob_loader *copy) { free((char *)(uintptr_t)copy->type_key); }

static int add_to(struct registry *r, const mblob_loader *loader) {
  size_t at = place_in(r, loader->type_key);
  mblob_loader copy;
  int status = mb_loader_copy(loader, &copy);
  if (status) return status;
  if (at == r->count) {
    mblob_loader *grown = realloc(r->items, (r->count + 1) * sizeof(*grown));
    if (!grown) {
      mb_loader_free(&copy);
      return mb_fail_memory((r->count + 1) * sizeof(*grown));
    }
    r->items = grown;
    r->count++;
  } else {
    mb_loader_free(&r->items[at]);
  }
  r->items[at] = copy;
  return MBLOB_OK;
}

bool mb_no_loader(const char *function, const mblob_loader *loader) {
  if (mb_is_null(function, "loader", loader)) return true;
  /* that of a host that was compiled before a loader told layouts */
  if (mb_check_struct_size(function, loader->struct_size, offsetof(mblob_loader, layout)))
    return true;
  if (mb_is_null(function, "loader->type_key", loader->type_key)) return true;
  if (!*loader->type_key)
    (void)mb_fail(MBLOB_E_ARGUMENT, "%s: loader->type_key is empty", function);
  const char *layout = MB_LOADER_HAS(loader, layout) ? loader->layout : NULL;
  const bool measures = MB_LOADER_HAS(loader, measure) && loader->measure;
  if (layout && measures)
    (void)mb_fail(MBLOB_E_ARGUMENT, "%s: the loader of '%s' has a layout and measure, expected one",
                  function, loader->type_key);
  return !*loader->type_key || (layout && (measures || mb_layout_check(layout)));
}

static void drop_key(struct registry *r, const char *key) {
  size_t at = place_in(r, key);
  if (at == r->count) return;
  mb_loader_free(&r->items[at]);
  r->count--;
  memmove(r->items + at, r->items + at + 1, (r->count - at) * sizeof(*r->items));
}

/* Without a function: whether it tells where payloads end. */
static bool only_tells(const mblob_loader *loader) {
  return !loader->function && MB_LOADER_HAS(loader, layout) &&
         (loader->layout || (MB_LOADER_HAS(loader, measure) && loader->measure));
}

static int set_in(struct registry *r, const char *function, const mblob_loader *loader) {
  if (mb_no_loader(function, loader)) return MBLOB_E_ARGUMENT;
  if (!loader->function && loader->open)
    return mb_fail(MBLOB_E_ARGUMENT, "%s: the loader of '%s' has no function callback", function,
                   loader->type_key);
  int status = MBLOB_OK;
  mb_lock(&registry_lock);
  const bool tells = r == &first && only_tells(loader);
  if (r == &first) drop_key(&measuring, loader->type_key);
  if (tells || loader->function)
    status = add_to(tells ? &measuring : r, loader);
  else
    drop_key(r, loader->type_key);
  mb_unlock(&registry_lock);
  return status;
}

int mblob_register_loader(const mblob_loader *loader) { return set_in(&first, __func__, loader); }

int mblob_register_last_loader(const mblob_loader *loader) {
  return set_in(&last, __func__, loader);
}

/* ---- asking ---------------------------------------------------------------------------------- */

enum mb_found mb_registered_loader(enum mb_loader_order order, const char *type_key,
                                   mblob_loader *out) {
  const struct registry *r = order == MB_LAST_LOADERS ? &last : &first;
  mb_lock(&registry_lock);
  size_t at = place_in(r, type_key);
  bool found = at < r->count;
  if (found && out) *out = r->items[at];
  mb_unlock(&registry_lock);
  if (found && out) out->type_key = type_key, out->layout = NULL; /* the registry's copy may go */
  return found ? MB_PRESENT : MB_ABSENT;
}

void mb_loader_measure(const mblob_loader *loader, struct mb_measure *out) {
  if (loader->layout) (void)snprintf(out->layout, sizeof(out->layout), "%s", loader->layout);
  out->measure = loader->measure;
  out->context = loader->context;
}

bool mb_registered_measure(enum mb_loader_order order, const char *type_key,
                           struct mb_measure *out) {
  mb_lock(&registry_lock);
  const struct registry *r = order == MB_LAST_LOADERS                           ? &last
                             : place_in(&measuring, type_key) < measuring.count ? &measuring
                                                                                : &first;
  size_t at = place_in(r, type_key);
  bool found = at < r->count;
  if (found) mb_loader_measure(&r->items[at], out);
  mb_unlock(&registry_lock);
  return found;
}

void mb_list_registered_loaders(FILE *out, size_t *count) {
  mb_lock(&registry_lock);
  for (size_t i = 0; i < first.count; i++)
    (void)fprintf(out, "%s%s", (*count)++ ? "," : "", first.items[i].type_key);
  mb_unlock(&registry_lock);
}
