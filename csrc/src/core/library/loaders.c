/* Opens modules of type keys other than `library`: finds the loader, and keeps what it opened. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "core/call/call.h"
#include "core/library/builtin_class.h"
#include "core/library/library.h"
#include "core/loaded/loaded.h"
#include "core/plugin/plugin.h"

/* What a loader needs for a key that has none here: keys, and a word for it, in turn
 * (base/type_keys.h). */
#ifdef MBLOB_STANDALONE /* a library that was packed with the loaders of all its keys */
static const char hints[] = "";
#else
static const char hints[] = MB_KEY_NEEDS;
#endif

/* ---- whose loader ---------------------------------------------------------------------------- */

/* Each source tells whether it has the key of a module. `out` NULL: no code that is not here yet
 * may run for the answer. */

static enum mb_found loader_of_opening(const mblob_module *module, mblob_loader *out) {
  for (size_t i = 0; i < module->tree->loader_count; i++)
    if (strcmp(module->tree->loaders[i].type_key, module->type_key) == 0) {
      if (out) *out = module->tree->loaders[i];
      return MB_PRESENT;
    }
  return MB_ABSENT;
}

static enum mb_found registered_loader(const mblob_module *module, mblob_loader *out) {
  return mb_registered_loader(MB_FIRST_LOADERS, module->type_key, out);
}

static enum mb_found last_registered_loader(const mblob_module *module, mblob_loader *out) {
  return mb_registered_loader(MB_LAST_LOADERS, module->type_key, out);
}

static enum mb_found carried_loader(const mblob_module *module, mblob_loader *out) {
  const mblob_runtime *runtime = NULL;
  enum mb_found found = mb_plugin_carried(module->library, module->type_key, out ? &runtime : NULL);
  if (runtime) *out = mb_plugin_loader(runtime);
  return found;
}

/* Nothing is opened before the program has its table. */
static const struct mb_class *const *classes(void) { return mb_profile_of_program()->classes; }

static enum mb_found builtin_loader(const mblob_module *module, mblob_loader *out) {
  const struct mb_class *const *c = classes();
  while (*c && strcmp((*c)->type_key, module->type_key) != 0) c++;
  if (*c && out) *out = mb_builtin_loader(*c);
  return *c ? MB_PRESENT : MB_ABSENT;
}

static enum mb_found loader_in_files(const mblob_module *module, mblob_loader *out) {
  const mblob_runtime *runtime = NULL;
  enum mb_found found = mb_plugin_in_files(module->type_key, out ? &runtime : NULL);
  if (runtime) *out = mb_plugin_loader(runtime);
  return found;
}

/* In the order in which they count (mblob/plugin.h). */
static enum mb_found find_loader(const mblob_module *module, mblob_loader *out) {
  static enum mb_found (*const sources[])(const mblob_module *, mblob_loader *) = {
      loader_of_opening, registered_loader, carried_loader,
      builtin_loader,    loader_in_files,   last_registered_loader};
  enum mb_found found = MB_ABSENT;
  for (size_t i = 0; found == MB_ABSENT && i < sizeof(sources) / sizeof(*sources); i++)
    found = sources[i](module, out);
  return found;
}

/* `library`: whose plug-ins count, too; NULL: none. */
static bool measure_of(const struct mb_library *library, const char *type_key,
                       struct mb_measure *out) {
  return mb_registered_measure(MB_FIRST_LOADERS, type_key, out) ||
         mb_plugin_measure(library, type_key, out) ||
         mb_registered_measure(MB_LAST_LOADERS, type_key, out);
}

bool mb_opening_measure(const void *loaders, struct mb_slice key, struct mb_measure *out) {
  const struct mb_opening_loaders *of = loaders;
  char text[MB_KEY_LIMIT + 1];
  *out = (struct mb_measure){.layout = "rest"};
  (void)snprintf(text, sizeof(text), "%.*s", (int)key.size, (const char *)key.data);
  for (uint32_t i = 0; i < of->options->loader_count; i++) {
    mblob_loader all = {0};
    if (strcmp(of->options->loaders[i]->type_key, text) != 0) continue;
    if (mb_loader_copy(of->options->loaders[i], &all)) return false;
    mb_loader_measure(&all, out);
    mb_loader_free(&all);
    return true;
  }
  return measure_of(of->library, text, out) || of->options->missing == MBLOB_MISSING_STUB;
}

bool mb_run_measure(const struct mb_measure *measure, struct mb_cursor *c) {
  size_t size = 0;
  uint64_t before = mb_error_serial();
  MB_CATCHES;
  int status = measure->measure(measure->context, c->data + c->pos, mb_size(mb_left(c)), &size);
  if (status) (void)mb_fail_returned(status, before, MBLOB_E_LOADER, "it");
  return !status && mb_skip(c, size, "payload");
}

int mblob_payload_measure(const char *type_key, const void *bytes, size_t size, size_t *out,
                          int *known) {
  struct mb_measure measure = {.layout = "rest"};
  struct mb_cursor c = {bytes, 0, size, MB_UNKNOWN};
  bool rest = false;
  if (MB_IS_NULL(type_key) || MB_IS_NULL(known)) return MBLOB_E_ARGUMENT;
  *known = measure_of(NULL, type_key, &measure);
  if (*known && !measure.measure && strcmp(measure.layout, "rest") == 0) *known = 2;
  if (!*known || !out) return MBLOB_OK;
  bool fits =
      measure.measure ? mb_run_measure(&measure, &c) : mb_layout_walk(measure.layout, &c, &rest);
  *out = rest ? SIZE_MAX : (size_t)c.pos;
  return fits ? MBLOB_OK : mblob_last_error_info()->status;
}

static char *available(const mblob_module *module) {
  char *text = NULL;
  size_t size = 0, count = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return NULL;
  for (size_t i = 0; i < module->tree->loader_count; i++)
    (void)fprintf(out, "%s%s", count++ ? "," : "", module->tree->loaders[i].type_key);
  mb_list_registered_loaders(out, &count);
  for (const struct mb_class *const *c = classes(); *c; c++)
    (void)fprintf(out, "%s%s", count++ ? "," : "", (*c)->type_key);
  (void)fclose(out);
  return text;
}

static bool needs_loader(const mblob_module *module) {
  /* metadata_module only stands above the library of an AOT executor; it holds nothing. */
  return !module->is_library && !module->is_data &&
         strcmp(module->type_key, MB_KEY_METADATA_MODULE) != 0;
}

static int missing(const mblob_module *module) {
  const char *who = mb_profile_hint(module->type_key, ""),
             *needs = who ? NULL : mb_profile_hint(module->type_key, hints);
  if (!who) who = needs ? needs : "nothing in this process knows the key";
  char *list = available(module), *broken = mb_plugin_candidates(""), *hint;
  if (asprintf(
          &hint,
          "%s%s%s; register one with mblob_register_loader (Python: mblob.register_loader), let the library carry a "
          "plug-in for it, put one on MBLOB_PLUGIN_PATH (now %s), or open with missing=stub",
          needs ? "it needs " : "", who, broken ? broken : "", mb_plugin_path()) < 0)
    hint = NULL;
  int status = mb_fail_loader(
      module->type_key, (int64_t)mblob_module_index(module), list ? list : "", hint ? hint : who,
      "no loader for type key '%s' (entry %zu); loaders: %s; %s", module->type_key,
      mblob_module_index(module), list && *list ? list : "none", hint ? hint : who);
  free(list);
  free(broken);
  free(hint);
  return status;
}

static int check_loader(const mblob_module *module) {
  enum mb_found found = find_loader(module, NULL);
  return found == MB_PRESENT  ? MBLOB_OK
         : found == MB_BROKEN ? mblob_last_error_info()->status
                              : missing(module);
}

int mb_tree_check_loaders(const struct mb_tree *tree) {
  int status = MBLOB_OK;
  for (size_t i = 0; !status && i < tree->count && tree->missing == MBLOB_MISSING_ERROR; i++)
    if (needs_loader(&tree->modules[i])) status = check_loader(&tree->modules[i]);
  return status;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int loader_failed(const mblob_module *module, int status, uint64_t before) {
  char what[96];
  (void)snprintf(what, sizeof(what), "the loader of '%.64s'", module->type_key);
  return mb_fail_returned(status, before, MBLOB_E_LOADER, what);
}

static int run_open(mblob_module *module) {
  enum mb_found found = find_loader(module, &module->use->loader);
  if (found == MB_ABSENT) return missing(module);
  if (found == MB_BROKEN) {
    module->use->loader.function = NULL; /* tried again at the next use */
    return mblob_last_error_info()->status;
  }
  mblob_module_info info = {.struct_size = sizeof(info),
                            .type_key = module->type_key,
                            .index = mblob_module_index(module),
                            .path = module->library->source.path,
                            .dialect = mblob_module_dialect(module),
                            .payload = module->payload,
                            .payload_size = module->payload_size,
                            .module = module};
  if (!module->use->loader.open) return MBLOB_OK;
  uint64_t before = mb_error_serial();
  MB_CATCHES;
  int status = module->use->loader.open(module->use->loader.context, &info, &module->use->self);
  return status ? loader_failed(module, status, before) : MBLOB_OK;
}

/* Open the module unless it is open. One call of the loader's `open` per module; others wait for
 * it. A missing loader is not remembered: it may be registered later. */
static int ensure_open(mblob_module *module) {
  struct mb_library *library = module->library;
  mb_lock(&library->lock);
  struct mb_module_use *use = module->use;
  while (use->opening == MB_OPENING && use->opener != mb_thread_id() &&
         !mb_thread_is_gone(use->opener))
    mb_wait(&library->opened, &library->lock);
  enum mb_opening state = use->opening;
  if (state == MB_OPENING && mb_thread_is_gone(use->opener)) state = MB_UNOPENED;
  if (state == MB_UNOPENED) {
    module->is_used = true;
    use->opening = MB_OPENING;
    use->opener = mb_thread_id();
  }
  mb_unlock(&library->lock);
  if (state == MB_OPENED) return MBLOB_OK;
  if (state == MB_FAILED) return mb_error_restore(&use->failure);
  if (state == MB_OPENING)
    return mb_fail(MBLOB_E_LOADER,
                   "the loader of '%s' asks for a function of the module that it opens",
                   module->type_key);
  int status = run_open(module);
  mb_lock(&library->lock);
  bool absent = status && !use->loader.function;
  use->opening = !status ? MB_OPENED : absent ? MB_UNOPENED : MB_FAILED;
  if (status) use->name_count = 0;
  if (use->opening == MB_FAILED) mb_error_save(&use->failure);
  mb_wake(&library->opened);
  mb_unlock(&library->lock);
  return status;
}

/* The status of a `save` that failed. MBLOB_E_NOT_FOUND would say that there is none. */
static int save_failed(const mblob_module *module, int status, uint64_t before) {
  char what[112];
  int size = snprintf(what, sizeof(what), "the save function of '%.64s'", module->type_key);
  const bool said = mb_error_serial() != before;
  status = mb_fail_opening(status, before, MBLOB_E_KERNEL, what);
  if (said) {
    (void)snprintf(what + size, sizeof(what) - (size_t)size, " failed");
    mb_error_place(what);
  }
  return status;
}

int mblob_module_save(mblob_module *module, int (*write)(void *to, const void *bytes, size_t size),
                      void *to) {
  if (MB_NO_MODULE(module) || MB_IS_NULL(write)) return MBLOB_E_ARGUMENT;
  mb_lock(&module->library->lock);
  bool is_open = (module->is_used || module->is_created) && module->use->opening == MB_OPENED;
  mb_unlock(&module->library->lock);
  if (!is_open || !module->use->loader.save)
    return mb_fail(MBLOB_E_NOT_FOUND, "'%s' has nothing to save but its payload", module->type_key);
  uint64_t before = mb_error_serial();
  MB_CATCHES;
  int status = module->use->loader.save(module->use->self, write, to);
  return status ? save_failed(module, status, before) : MBLOB_OK;
}

/* Bind what the loader gave (a reference of ours) to the library, and keep it for the next
 * lookup. */
static int keep_found(mblob_module *module, const char *name, mblob_function *target,
                      mblob_function **out) {
  struct mb_library *library = module->library;
  mblob_function *function = mb_function_new(MB_FORWARD, library, name);
  if (!function) {
    mblob_function_release(target);
    return MBLOB_E_MEMORY;
  }
  function->u.target = target;
  if (target->library == library) mblob_function_release(target); /* kept by the library itself */
  mb_lock(&library->lock);
  mblob_function *other = mb_map_get(&module->use->functions, name);
  bool kept = other || mb_map_put(&module->use->functions, function->name, function);
  mb_unlock(&library->lock);
  if (other || !kept) mb_function_free(function);
  *out = other ? other : kept ? function : NULL;
  return kept ? MBLOB_OK : MBLOB_E_MEMORY;
}

/* Plain data may have a loader, or none. Files are searched once on its account: who passes by
 * it to what is behind must not look into folders each time. */
static bool may_have_functions(mblob_module *module) {
  if (module->is_created || needs_loader(module)) return true;
  if (loader_of_opening(module, NULL) || registered_loader(module, NULL) ||
      carried_loader(module, NULL) || builtin_loader(module, NULL))
    return true;
  if (atomic_load_explicit(&module->no_plugin, memory_order_relaxed)) return false;
  if (loader_in_files(module, NULL) != MB_ABSENT) return true;
  atomic_store_explicit(&module->no_plugin, true, memory_order_relaxed);
  return false;
}

int mb_loader_find(mblob_module *module, const char *name, mblob_function **out, bool *closed) {
  *out = NULL;
  *closed = false;
  if (!may_have_functions(module)) return MBLOB_OK;
  int status = ensure_open(module);
  *closed = status != MBLOB_OK;
  if (status) return status;
  mb_lock(&module->library->lock);
  *out = mb_map_get(&module->use->functions, name);
  mb_unlock(&module->library->lock);
  if (*out) return MBLOB_OK;
  mblob_function *target = NULL;
  uint64_t before = mb_error_serial();
  MB_CATCHES;
  status = module->use->loader.function(module->use->self, name, &target);
  if (status) {
    *closed = status == MBLOB_E_LOADER &&
              module->is_created; /* it has nothing to open; what it stands for cannot be */
    return loader_failed(module, status, before);
  }
  return target ? keep_found(module, name, target, out) : MBLOB_OK;
}
