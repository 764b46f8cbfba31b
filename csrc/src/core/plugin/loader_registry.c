/* Loaders of type keys that a program, or a plug-in, registered. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "core/call/call.h"
#include "core/plugin/plugin.h"

static struct mb_lock registry_lock = MB_LOCK_INIT;

/* Loaders of the process, in order of registration. */
static struct registry {
  mblob_loader *items;
  size_t count;
} first, last;

/* ---- registry -------------------------------------------------------------------------------- */

static size_t place_in(const struct registry *r, const char *key) {
  size_t i = 0;
  while (i < r->count && strcmp(r->items[i].type_key, key) != 0) i++;
  return i;
}

static int add_to(struct registry *r, size_t at, const mblob_loader *loader) {
  char *key = strdup(loader->type_key);
  if (!key) return mb_fail_memory(0);
  if (at == r->count) {
    mblob_loader *grown = realloc(r->items, (r->count + 1) * sizeof(*grown));
    if (!grown) {
      free(key);
      return mb_fail_memory((r->count + 1) * sizeof(*grown));
    }
    r->items = grown;
    r->count++;
  } else {
    free((char *)(uintptr_t)r->items[at].type_key);
  }
  r->items[at] = *loader;
  r->items[at].type_key = key;
  return MBLOB_OK;
}

bool mb_no_loader(const char *function, const mblob_loader *loader) {
  if (mb_is_null(function, "loader", loader)) return true;
  if (mb_check_struct_size(function, loader->struct_size, sizeof(*loader))) return true;
  if (mb_is_null(function, "loader->type_key", loader->type_key)) return true;
  if (!*loader->type_key)
    (void)mb_fail(MBLOB_E_ARGUMENT, "%s: loader->type_key is empty", function);
  return !*loader->type_key;
}

static int set_in(struct registry *r, const char *function, const mblob_loader *loader) {
  if (mb_no_loader(function, loader)) return MBLOB_E_ARGUMENT;
  if (!loader->function && loader->open)
    return mb_fail(MBLOB_E_ARGUMENT, "%s: the loader of '%s' has no function callback", function,
                   loader->type_key);
  int status = MBLOB_OK;
  mb_lock(&registry_lock);
  size_t at = place_in(r, loader->type_key);
  if (loader->function) {
    status = add_to(r, at, loader);
  } else if (at < r->count) {
    free((char *)(uintptr_t)r->items[at].type_key);
    r->count--;
    memmove(r->items + at, r->items + at + 1, (r->count - at) * sizeof(*r->items));
  }
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
  if (found && out) out->type_key = type_key; /* the registry's copy may go */
  return found ? MB_PRESENT : MB_ABSENT;
}

void mb_list_registered_loaders(FILE *out, size_t *count) {
  mb_lock(&registry_lock);
  for (size_t i = 0; i < first.count; i++)
    (void)fprintf(out, "%s%s", (*count)++ ? "," : "", first.items[i].type_key);
  mb_unlock(&registry_lock);
}
