/* Tables of plug-ins: their texts are read from a file, because no code of it may run before it
 * is needed; all of them is checked when it is in memory. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/device.h"
#include "core/plugin/plugin.h"

/* Copy a text of the table; false if it does not end inside its member. */
static bool take_bytes(char *to, const uint8_t *bytes, size_t offset, size_t size) {
  memcpy(to, bytes + offset, size);
  bool ends = memchr(to, 0, size) != NULL;
  to[ends ? strlen(to) : 0] = 0;
  return ends;
}

#define TAKE(member) \
  take_bytes(out->member, bytes.data, offsetof(mblob_plugin, member), sizeof(out->member))

/* The first `KEY=LAYOUT` of a list; the result is what stands behind it. */
static const char *take_layout(const char *list, size_t *key, char layout[MB_LAYOUT_SIZE]) {
  const size_t size = strcspn(list, " ");
  *key = strcspn(list, "= ");
  const size_t start = *key < size ? *key + 1 : size;
  (void)snprintf(layout, MB_LAYOUT_SIZE, "%.*s", (int)(size - start), list + start);
  return list + size + (list[size] != 0);
}

static void check_layouts(struct mb_plugin_head *head) {
  char layout[MB_LAYOUT_SIZE];
  size_t key;
  for (const char *item = head->layouts; *item && !*head->problem;) {
    item = take_layout(item, &key, layout);
    if (mb_layout_check(layout))
      (void)snprintf(head->problem, sizeof(head->problem), "its layouts: '%.40s' is no layout",
                     layout);
  }
}

void mb_plugin_read_head(struct mb_slice bytes, const char *symbol, struct mb_plugin_head *out) {
  *out = (struct mb_plugin_head){.name = ""};
  (void)snprintf(out->name, sizeof(out->name), "%.31s", symbol + strlen(MBLOB_PLUGIN_SYMBOL));
  uint32_t abi = 0, size = 0;
  if (bytes.size >= 8) {
    memcpy(&abi, bytes.data, 4);
    memcpy(&size, bytes.data + 4, 4);
  }
  if (abi != MBLOB_PLUGIN_ABI) {
    (void)snprintf(out->problem, sizeof(out->problem),
                   "it is built for version %u of the plug-in interface, here is %d", abi,
                   MBLOB_PLUGIN_ABI);
    return;
  }
  const size_t least = offsetof(mblob_plugin, convention); /* tables of before end there */
  if (bytes.size < least || size < least) {
    (void)snprintf(out->problem, sizeof(out->problem),
                   "its table has %llu bytes, expected at least %zu",
                   (unsigned long long)(bytes.size < size ? bytes.size : size), least);
    return;
  }
  char name[sizeof(out->name)];
  bool texts = take_bytes(name, bytes.data, offsetof(mblob_plugin, name), sizeof(name));
  texts = TAKE(version) && texts;
  texts = TAKE(type_keys) && texts;
  texts = TAKE(devices) && texts;
  texts = TAKE(needs) && texts;
  const size_t layouts = offsetof(mblob_plugin, layouts) + sizeof(out->layouts);
  if (bytes.size >= layouts && size >= layouts) texts = TAKE(layouts) && texts;
  if (*name) memcpy(out->name, name, sizeof(name));
  if (!texts)
    (void)snprintf(out->problem, sizeof(out->problem), "a text in its table does not end");
  check_layouts(out);
}

void mb_plugin_layout(const struct mb_plugin_head *head, const char *type_key,
                      char out[MB_LAYOUT_SIZE]) {
  char layout[MB_LAYOUT_SIZE];
  size_t key;
  for (const char *item = head->layouts, *next; *item; item = next) {
    next = take_layout(item, &key, layout);
    if (strlen(type_key) == key && memcmp(item, type_key, key) == 0)
      memcpy(out, layout, sizeof(layout));
  }
}

/* ---- lists ----------------------------------------------------------------------------------- */

bool mb_plugin_lists_number(const char *list, int number) {
  char text[16];
  (void)snprintf(text, sizeof(text), "%d", number);
  return mb_list_has(list, text);
}

/* ---- in files -------------------------------------------------------------------------------- */

int mb_plugin_symbols(const struct mb_elf *elf,
                      int (*visit)(void *context, const char *symbol, struct mb_slice bytes),
                      void *context) {
  int result = 0;
  for (uint64_t i = 1; !result && i < elf->symbol_count; i++) {
    ElfW(Sym) symbol = mb_elf_symbol(elf, i);
    const char *name = mb_elf_symbol_name(elf, &symbol);
    struct mb_slice bytes;
    if (!mb_elf_is_exported(&symbol) ||
        strncmp(name, MBLOB_PLUGIN_SYMBOL, strlen(MBLOB_PLUGIN_SYMBOL)) != 0)
      continue;
    if (mb_elf_object(elf, &symbol, name, &bytes)) bytes = (struct mb_slice){NULL, 0};
    result = visit(context, name, bytes);
  }
  return result;
}

/* ---- in memory ------------------------------------------------------------------------------- */

static int broken(const mblob_plugin *plugin, const char *origin, const char *problem) {
  return mb_fail(MBLOB_E_INCOMPATIBLE, "plug-in '%.31s' (%s): %s", plugin->name, origin, problem);
}

static size_t count_items(const char *list) {
  size_t items = *list != 0;
  for (; *list; list++) items += *list == ',';
  return items;
}

/* Its tables must be those that its texts promise: the texts are what it was chosen by. */
static int check_tables(const mblob_plugin *plugin, const char *origin) {
  char text[128];
  if (!*plugin->name) return broken(plugin, origin, "it has no name");
  if ((plugin->runtime_count && !plugin->runtimes) ||
      (plugin->device_api_count && !plugin->device_apis))
    return broken(plugin, origin, "a table is NULL");
  if (count_items(plugin->type_keys) != plugin->runtime_count ||
      count_items(plugin->devices) != plugin->device_api_count)
    return broken(plugin, origin, "its texts list other keys or devices than its tables");
  for (uint32_t i = 0; i < plugin->runtime_count; i++) {
    const mblob_runtime *r = &plugin->runtimes[i];
    if (!r->type_key || !r->open || !r->function || !r->call) {
      (void)snprintf(text, sizeof(text),
                     "the runtime of '%.60s' has no type key, open, function or call",
                     r->type_key ? r->type_key : "?");
      return broken(plugin, origin, text);
    }
    if (!mb_list_has(plugin->type_keys, r->type_key)) {
      (void)snprintf(text, sizeof(text), "its text does not list the key '%.60s' of its table",
                     r->type_key);
      return broken(plugin, origin, text);
    }
  }
  for (uint32_t i = 0; i < plugin->device_api_count; i++)
    if (!mb_plugin_lists_number(plugin->devices, plugin->device_apis[i].device_type))
      return broken(plugin, origin, "its text does not list a device type of its table");
  return MBLOB_OK;
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Plug-ins with devices that were started: for good, as the memory of their devices. */
struct started {
  struct started *next;
  const mblob_plugin *plugin;
};

static _Atomic(struct started *) all_started;

/* Before its devices can be found. */
static int remember_text(const mblob_plugin *plugin) {
  for (const struct started *s = atomic_load(&all_started); s; s = s->next)
    if (s->plugin == plugin) return MBLOB_OK;
  struct started *made = malloc(sizeof(*made));
  if (!made) return mb_fail_memory(sizeof(*made));
  made->plugin = plugin;
  made->next = atomic_load(&all_started);
  while (!atomic_compare_exchange_weak(&all_started, &made->next, made)) continue;
  return MBLOB_OK;
}

const mblob_plugin *mb_plugin_first(const char *name) {
  for (const struct started *s = atomic_load(&all_started); s; s = s->next)
    for (uint32_t i = 0; i < s->plugin->device_api_count; i++)
      if (strcmp(s->plugin->name, name) == 0 &&
          mb_device_registered(s->plugin->device_apis[i].device_type) == &s->plugin->device_apis[i])
        return s->plugin;
  return NULL;
}

int mb_plugin_start(const mblob_plugin *plugin, const char *origin) {
  struct mb_plugin_head head;
  mb_plugin_read_head((struct mb_slice){(const uint8_t *)plugin, sizeof(*plugin)},
                      MBLOB_PLUGIN_SYMBOL, &head);
  /* Of whatever version it is, its name is likely to be where this one has it. */
  if (*head.problem) return broken(plugin, origin, head.problem);
  int status = check_tables(plugin, origin);
  if (status) return status;
  uint64_t before = mb_error_serial();
  status = plugin->start ? plugin->start(mb_profile_of_program()->plugin_host) : MBLOB_OK;
  if (status) {
    char context[320];
    status = mb_fail_opening(status, before, MBLOB_E_INCOMPATIBLE, "its start");
    (void)snprintf(context, sizeof(context), "plug-in '%s' (%.255s)", head.name, origin);
    mb_error_prefix(context);
    return status;
  }
  if (plugin->device_api_count) status = remember_text(plugin);
  for (uint32_t i = 0; !status && i < plugin->device_api_count; i++)
    status = mb_device_register(&plugin->device_apis[i]);
  return status;
}

const mblob_runtime *mb_plugin_own_runtime(const mblob_plugin *plugin, const char *type_key) {
  for (uint32_t i = 0; plugin && i < plugin->runtime_count; i++)
    if (strcmp(plugin->runtimes[i].type_key, type_key) == 0) return &plugin->runtimes[i];
  return NULL;
}

/* Each copy of a plug-in knows only its own memory, and that of a device comes from the copy
 * that was first. */
const mblob_runtime *mb_plugin_runtime(const mblob_plugin *plugin, const char *type_key) {
  const mblob_runtime *runtime = mb_plugin_own_runtime(mb_plugin_first(plugin->name), type_key);
  return runtime ? runtime : mb_plugin_own_runtime(plugin, type_key);
}
