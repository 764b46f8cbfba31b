/* plugins.h - plug-ins (mblob/plugin.h): where they come from, and how they come to life.
 *
 * plugin_table.c  reads the part of a table that needs no code, and checks the whole one
 * plugin_files.c  shared objects on MBLOB_PLUGIN_PATH and beside libmblob
 * plugin_carried.c those that a library carries itself
 * plugin_host.c   the table that plug-ins get
 * plugin_module.c  modules and functions made of what they give
 * plugins.c       the face: by type key, by device, all of them */
#ifndef MB_PLUGINS_H
#define MB_PLUGINS_H

#include <mblob.h>
#include <stdbool.h>
#include <stdio.h>

#include "runtime.h"

/* ---- tables ------------------------------------------------------------------------------------ */

/* The part of a table that is read from a file: name, keys and the like, checked to be texts. */
struct mb_plugin_head {
  char name[32], version[32], type_keys[192], devices[64], needs[192];
  char problem[128]; /* why it cannot be used here; "" if nothing is against it */
};

/* The head of the table whose first bytes are these; `symbol` is its symbol, which names it if nothing else does. */
void mb_plugin_read_head(struct mb_slice bytes, const char *symbol, struct mb_plugin_head *out);
/* Whether the comma separated list has that item. */
bool mb_plugin_lists(const char *list, const char *item);
bool mb_plugin_lists_number(const char *list, int number);
/* The tables of a library, in the order of its symbols: `visit` gets the symbol and its bytes; ends at the first result
 * that is not 0. */
int mb_plugin_symbols(const struct mb_elf *elf,
                      int (*visit)(void *context, const char *symbol, struct mb_slice bytes), void *context);
/* Check a table in memory against its own texts, start it, and register its devices. `origin` is for errors. */
int mb_plugin_start(const mblob_plugin *plugin, const char *origin);
/* The copy of that name, of any version, that was started and has the devices; NULL if there is none. */
const mblob_plugin *mb_plugin_first(const char *name);
/* The plug-in's table for the key; NULL if it has none, or `plugin` is NULL. */
const mblob_runtime *mb_plugin_own_runtime(const mblob_plugin *plugin, const char *type_key);
/* Who serves the key: where another copy (of that name, of any version) was started before and has the devices, that one. */
const mblob_runtime *mb_plugin_runtime(const mblob_plugin *plugin, const char *type_key);

/* ---- where they come from -------------------------------------------------------------------- */

/* What a search tells: nothing there, there, or there and broken (recorded). */
enum mb_found { MB_ABSENT, MB_PRESENT, MB_BROKEN };

/* Note which tables the file under the library has, before it is loaded; free the notes. */
int mb_carried_read(struct mb_library *library);
/* Note one whose table is in memory, of which `room` bytes may be read. `symbol` is without a prefix. */
int mb_carried_add(struct mb_library *library, const char *symbol, const void *table, uint64_t room);
void mb_carried_free(struct mb_library *library);
/* Whether it carries a plug-in of that name, NULL for any, that brings the device, -1 for any or none. */
bool mb_carried_has(const struct mb_library *library, const char *name, int device_type);
/* The table of a carried plug-in, started; the library must be held as long as it is used. */
int mb_carried_start(struct mb_library *library, const char *name, const mblob_plugin **out);
/* An open library that has it (mb_carried_has), held for the caller; NULL if there is none. */
struct mb_library *mb_plugin_carrier(const char *name, int device_type);

/* `out` NULL: only whether there is one, and no code runs. */
enum mb_found mb_plugin_carried(struct mb_library *library, const char *type_key, const mblob_runtime **out);
enum mb_found mb_plugin_in_files(const char *type_key, const mblob_runtime **out);
enum mb_found mb_plugin_named_in_files(const char *name, const mblob_plugin **out);
/* Start a plug-in in a file that lists the device type; MBLOB_OK also if there is none. */
int mb_plugin_device_in_files(int device_type);
/* Start those carried plug-ins that bring the device, 0 for any, and that no copy of theirs has: its memory may outlive the
 * library, which stays for good. The last failure. */
int mb_plugin_carried_devices(struct mb_library *library, int device_type);
/* The same for all open libraries. MBLOB_OK also if none carries one. */
int mb_plugin_device_carried(int device_type);

typedef int (*mb_plugin_visitor)(void *context, const struct mb_plugin_head *head, const char *origin);
int mb_plugin_files_visit(mb_plugin_visitor visit, void *context);
/* Of one library; mb_plugin_carried_visit: of all that are open. */
int mb_carried_visit(const struct mb_library *library, mb_plugin_visitor visit, void *context);
int mb_plugin_carried_visit(mb_plugin_visitor visit, void *context);

/* The calling convention of TVM 0.21 and later, from the plug-in "ffi"; MBLOB_E_INCOMPATIBLE if it is not there. */
int mb_plugin_convention(const mblob_convention **out);

/* ---- using them ------------------------------------------------------------------------------ */

/* The loader of a runtime: modules made of what it gives. */
mblob_loader mb_plugin_loader(const mblob_runtime *runtime);
/* Whether a plug-in's table is behind the function. */
bool mb_plugin_has_function(const mblob_function *function);
const mblob_host *mb_plugin_host_table(void);
/* For errors: plug-ins with that in their path that are there and cannot be used, each with "; " in front; on the heap. */
char *mb_plugin_candidates(const char *name);
/* For errors: what MBLOB_PLUGIN_PATH is. */
const char *mb_plugin_path(void);

#endif
