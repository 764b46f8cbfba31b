/* Plug-ins that a packed library carries itself (export_library(..., carry=...)): tables among
 * its exported symbols, or, of a system library, among those that it announces. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "core/device/device.h"
#include "core/link/link.h"
#include "core/loaded/loaded.h"
#include "core/plugin/plugin.h"

struct mb_carried {
  struct mb_carried *next;
  char *symbol;
  struct mb_plugin_head head;
  const mblob_plugin
      *table; /* where it is known before the library is in memory: of a system library */
  const mblob_plugin *started; /* NULL until it is */
};

static struct mb_lock carried_lock = MB_LOCK_INIT;

static int append(struct mb_carried **end, const char *symbol, struct mb_slice bytes,
                  const mblob_plugin *table) {
  struct mb_carried *one = calloc(1, sizeof(*one));
  if (one) one->symbol = strdup(symbol);
  if (!one || !one->symbol) {
    free(one);
    return mb_fail_memory(sizeof(*one));
  }
  mb_plugin_read_head(bytes, symbol, &one->head);
  one->table = table;
  while (*end) end = &(*end)->next;
  *end = one;
  return MBLOB_OK;
}

static int add_carried(void *context, const char *symbol, struct mb_slice bytes) {
  return append(context, symbol, bytes, NULL);
}

int mb_carried_read(struct mb_library *library) {
  return mb_plugin_symbols(&library->elf, add_carried, &library->carried);
}

int mb_carried_add(struct mb_library *library, const char *symbol, const void *table,
                   uint64_t room) {
  return append(&library->carried, symbol, (struct mb_slice){table, room}, table);
}

void mb_carried_free(struct mb_library *library) {
  while (library->carried) {
    struct mb_carried *one = library->carried;
    library->carried = one->next;
    free(one->symbol);
    free(one);
  }
}

/* With the lock. */
static int start_carried(struct mb_library *library, struct mb_carried *one) {
  ElfW(Sym) symbol;
  if (one->started) return MBLOB_OK;
  const mblob_plugin *table = one->table;
  if (!table && library->handle) table = mb_library_symbol(library, one->symbol, &symbol);
  if (!table)
    return mb_fail(MBLOB_E_INCOMPATIBLE, "plug-in '%s': its library is not in memory",
                   one->head.name);
  int status = mb_plugin_start(table, *library->source.path ? library->source.path : "memory");
  if (!status) one->started = table;
  return status;
}

enum mb_found mb_plugin_carried(struct mb_library *library, const char *type_key,
                                const mblob_runtime **out) {
  struct mb_carried *one = library->carried;
  while (one && (*one->head.problem || !mb_list_has(one->head.type_keys, type_key)))
    one = one->next;
  if (!one) return MB_ABSENT;
  if (!out) return MB_PRESENT;
  *out = mb_plugin_own_runtime(mb_plugin_first(one->head.name), type_key);
  if (*out) return MB_PRESENT;
  mb_lock(&carried_lock);
  int status = start_carried(library, one);
  mb_unlock(&carried_lock);
  if (!status) *out = mb_plugin_runtime(one->started, type_key);
  return status ? MB_BROKEN : MB_PRESENT;
}

/* True if it can be used, has the name, NULL for any, and brings the device: 0 for any one, -1
 * for any or none. */
static bool is_one(const struct mb_carried *one, const char *name, int device_type) {
  return !*one->head.problem && (!name || strcmp(one->head.name, name) == 0) &&
         (device_type > 0 ? mb_plugin_lists_number(one->head.devices, device_type)
                          : device_type || *one->head.devices);
}

static struct mb_carried *find_carried(const struct mb_library *library, const char *name,
                                       int device_type) {
  struct mb_carried *one = library->carried;
  while (one && !is_one(one, name, device_type)) one = one->next;
  return one;
}

int mb_plugin_carried_devices(struct mb_library *library, int device_type) {
  bool started = false;
  int status = MBLOB_OK;
  mb_lock(&carried_lock);
  for (struct mb_carried *one = library->carried; one; one = one->next) {
    if (!is_one(one, NULL, device_type) || mb_plugin_first(one->head.name)) continue;
    int failed = start_carried(library, one);
    started |= !failed;
    if (failed) status = failed;
  }
  mb_unlock(&carried_lock);
  if (started) mb_library_retain(library);
  return status;
}

int mb_carried_start(struct mb_library *library, const char *name, const mblob_plugin **out) {
  struct mb_carried *one = find_carried(library, name, -1);
  mb_lock(&carried_lock);
  int status = start_carried(library, one);
  mb_unlock(&carried_lock);
  *out = one->started;
  return status;
}

/* ---- of all open libraries ------------------------------------------------------------------- */

int mb_carried_visit(const struct mb_library *library, mb_plugin_visitor visit, void *context) {
  int result = 0;
  for (const struct mb_carried *one = library->carried; !result && one; one = one->next)
    result = visit(context, &one->head, *library->source.path ? library->source.path : "memory");
  return result;
}

int mb_plugin_carried_visit(mb_plugin_visitor visit, void *context) {
  int result = 0;
  mb_lock(&mb_loaded.lock);
  for (const struct mb_library *l = mb_loaded.first; !result && l; l = l->next)
    result = mb_carried_visit(l, visit, context);
  mb_unlock(&mb_loaded.lock);
  return result;
}

struct mb_library *mb_plugin_carrier(const char *name, int device_type) {
  mb_lock(&mb_loaded.lock);
  struct mb_library *found = mb_loaded.first;
  while (found && !(atomic_load(&found->users) && find_carried(found, name, device_type)))
    found = found->next;
  if (found) mb_library_retain(found);
  mb_unlock(&mb_loaded.lock);
  return found;
}

/* Start those of the device that open libraries carry. MBLOB_OK also if none carries one. */
static int start_device(int device_type) {
  struct mb_library *library = mb_plugin_carrier(NULL, device_type);
  if (!library) return MBLOB_OK;
  int status = mb_plugin_carried_devices(library, device_type);
  mb_library_release(library);
  return status;
}

int mb_plugin_find_device(int device_type) {
  int status = mb_plugin_device_in_files(device_type);
  /* Those that libraries carry were started as these were opened: where one is not there, it
   * failed. */
  return status || mb_device_registered(device_type) ? status : start_device(device_type);
}
