/* Plug-ins of the process, and all of them together. */
#define _GNU_SOURCE
#include "core/loaded/loaded.h"
#include "core/plugin/plugin.h"

#include <stdlib.h>
#include <string.h>

#include "core/device/device.h"

/* The last one registered comes first: it counts. */
struct registered {
  struct registered *next;
  const mblob_plugin *plugin;
};

static struct registered *registered;
static struct mb_lock registered_lock = MB_LOCK_INIT;

static int remember_plugin(const mblob_plugin *plugin) {
  struct registered *entry = malloc(sizeof(*entry));
  if (!entry) return mb_fail_memory(sizeof(*entry));
  mb_lock(&registered_lock);
  struct registered **old = &registered;
  while (*old && strcmp((*old)->plugin->name, plugin->name) != 0) old = &(*old)->next;
  if (*old) {
    struct registered *replaced = *old;
    *old = replaced->next;
    free(replaced);
  }
  *entry = (struct registered){registered, plugin};
  registered = entry;
  mb_unlock(&registered_lock);
  return MBLOB_OK;
}

static void read_head(const mblob_plugin *plugin, struct mb_plugin_head *out) {
  mb_plugin_read_head((struct mb_slice){(const uint8_t *)plugin, sizeof(*plugin)},
                      MBLOB_PLUGIN_SYMBOL, out);
}

int mb_plugin_register(const mblob_plugin *plugin) {
  if (!plugin) return mb_fail(MBLOB_E_ARGUMENT, "mblob_register_plugin: plugin is NULL");
  int status = mb_plugin_start(plugin, "process");
  if (!status) status = remember_plugin(plugin);
  struct mb_plugin_head head;
  if (!status) read_head(plugin, &head);
  for (uint32_t i = 0; !status && i < plugin->runtime_count; i++) {
    mblob_loader loader = mb_plugin_loader(mb_plugin_runtime(plugin, plugin->runtimes[i].type_key));
    char layout[MB_LAYOUT_SIZE] = "rest";
    mb_plugin_layout(&head, loader.type_key, layout);
    loader.layout = layout;
    status = mblob_register_loader(&loader);
  }
  return status;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static int registered_visit(mb_plugin_visitor visit, void *context) {
  int result = 0;
  mb_lock(&registered_lock);
  for (const struct registered *r = registered; !result && r; r = r->next) {
    struct mb_plugin_head head;
    read_head(r->plugin, &head);
    result = visit(context, &head, "process");
  }
  mb_unlock(&registered_lock);
  return result;
}

static int visit_all(mb_plugin_visitor visit, void *context) {
  int result = registered_visit(visit, context);
  if (!result) result = mb_plugin_carried_visit(visit, context);
  return result ? result : mb_plugin_files_visit(visit, context);
}

struct plugin_listing {
  int (*visit)(void *context, const mblob_plugin_found *found);
  void *context;
};

static int list_one(void *context, const struct mb_plugin_head *head, const char *origin) {
  const struct plugin_listing *l = context;
  const mblob_plugin_found found = {.struct_size = sizeof(found),
                                    .name = head->name,
                                    .version = head->version,
                                    .type_keys = head->type_keys,
                                    .devices = head->devices,
                                    .needs = head->needs,
                                    .origin = origin,
                                    .problem = head->problem};
  return l->visit(l->context, &found);
}

int mblob_plugins(int (*visit)(void *context, const mblob_plugin_found *found), void *context) {
  struct plugin_listing l = {visit, context};
  if (!visit) return mb_fail(MBLOB_E_ARGUMENT, "mblob_plugins: visit is NULL");
  return visit_all(list_one, &l);
}

struct measuring {
  const char *type_key;
  struct mb_measure *out;
};

static int measure_one(void *context, const struct mb_plugin_head *head, const char *origin) {
  const struct measuring *m = context;
  (void)origin;
  if (*head->problem || !mb_list_has(head->type_keys, m->type_key)) return 0;
  mb_plugin_layout(head, m->type_key, m->out->layout);
  return 1;
}

bool mb_plugin_measure(const struct mb_library *library, const char *type_key,
                       struct mb_measure *out) {
  struct measuring m = {type_key, out};
  return (library && mb_carried_visit(library, measure_one, &m)) ||
         mb_plugin_files_visit(measure_one, &m);
}

/* libmblob-ffi.a, in a program that was linked with it and libmblob.a; in libmblob.so nothing is.
 * Not hidden: gold gives an undefined hidden symbol the address of the program. */
extern const mblob_plugin __mblob_static_plugin_ffi __attribute__((weak));

static int find_linked(const char *name, const mblob_plugin **out) {
  const mblob_plugin *const linked = &__mblob_static_plugin_ffi;
  if (!linked || strcmp(name, "ffi") != 0) return MBLOB_OK;
  int status = mb_plugin_register(linked);
  if (!status) *out = linked;
  return status;
}

/* The table of a plug-in that is in memory, or is brought there; `carrier` is to be given back
 * after its use. */
static int find_named_plugin(const char *name, const mblob_plugin **out,
                             struct mb_library **carrier) {
  *out = NULL;
  *carrier = NULL;
  mb_lock(&registered_lock);
  for (const struct registered *r = registered; !*out && r; r = r->next)
    if (strcmp(r->plugin->name, name) == 0) *out = r->plugin;
  mb_unlock(&registered_lock);
  int status = *out ? MBLOB_OK : find_linked(name, out);
  if (status || *out) return status;
  *carrier = mb_plugin_carrier(name, -1);
  if (*carrier) return mb_carried_start(*carrier, name, out);
  enum mb_found found = mb_plugin_named_in_files(name, out);
  if (found == MB_BROKEN) return mblob_last_error_info()->status;
  return *out ? MBLOB_OK : mb_fail(MBLOB_E_NOT_FOUND, "there is no plug-in '%s'", name);
}

int mb_plugin_convention(const mblob_convention **out) {
  const mblob_plugin *plugin;
  struct mb_library *carrier; /* stays: what it brings along may be called at any time */
  int status = find_named_plugin("ffi", &plugin, &carrier);
  bool has_one = !status && plugin->struct_size > offsetof(mblob_plugin, convention) &&
                 plugin->convention &&
                 plugin->convention->struct_size >= sizeof(*plugin->convention);
  *out = has_one ? plugin->convention : NULL;
  if (has_one || (status && status != MBLOB_E_NOT_FOUND)) return status;
  char *broken = mb_plugin_candidates("/libmblob-ffi.");
  status = mb_fail(
      MBLOB_E_INCOMPATIBLE,
      "libraries of TVM 0.21 and later need libmblob-ffi.so%s; put it beside libmblob (libmblob.a: beside the "
      "program, or link libmblob-ffi.a) or on MBLOB_PLUGIN_PATH (now %s)",
      broken && *broken ? broken : ", which is not there", mb_plugin_path());
  free(broken);
  return status;
}

static int describe_plugin(const mblob_plugin *plugin, char *text, size_t size) {
  if (!plugin->describe) return MBLOB_OK;
  uint64_t before = mb_error_serial();
  int status = plugin->describe(text, size);
  text[size - 1] = 0;
  if (!status) return MBLOB_OK;
  char what[64];
  (void)snprintf(what, sizeof(what), "describe of plug-in '%.31s'", plugin->name);
  return mb_fail_returned(status, before, MBLOB_E_INCOMPATIBLE, what);
}

int mb_plugin_describe(const char *name, char *text, size_t size) {
  const mblob_plugin *plugin;
  struct mb_library *carrier;
  if (!name || !text || !size)
    return mb_fail(MBLOB_E_ARGUMENT, "mblob_plugin_describe: an argument is NULL, or size is 0");
  *text = 0;
  int status = find_named_plugin(name, &plugin, &carrier);
  if (!status) status = describe_plugin(plugin, text, size);
  if (carrier) mb_library_release(carrier);
  return status;
}

/* ---- for errors ------------------------------------------------------------------------------ */

struct candidates {
  FILE *out;
  const char *name;
};

static int list_candidate(void *context, const struct mb_plugin_head *head, const char *origin) {
  /* One whose texts cannot be read may be the one that was meant. */
  const struct candidates *c = context;
  if (*head->problem && strstr(origin, c->name))
    (void)fprintf(c->out, "; %s is there but cannot be used: %s", origin, head->problem);
  return 0;
}

char *mb_plugin_candidates(const char *name) {
  char *text = NULL;
  size_t size = 0;
  struct candidates c = {open_memstream(&text, &size), name};
  if (!c.out) return NULL;
  (void)visit_all(list_candidate, &c);
  (void)fclose(c.out);
  return text;
}

const char *mb_plugin_path(void) {
  const char *set = getenv("MBLOB_PLUGIN_PATH");
  return set ? set : "not set";
}
