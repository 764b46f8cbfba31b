/* plugin.h - what opens modules of further type keys: plug-ins (mblob/plugin.h), and loaders that a
 * program registered.
 *
 * table.c            reads the part of a table that needs no code, checks the whole one, and starts it
 * files.c            shared objects on MBLOB_PLUGIN_PATH and beside libmblob
 * carried.c          plug-ins that a library carries itself
 * module.c           modules and functions made of what plug-ins give
 * plugins.c          by type key, by device, all of them
 * loader_registry.c  loaders by type key */
#ifndef MB_PLUGIN_H
#define MB_PLUGIN_H

#include <mblob.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/base.h"
#include "core/loaded/loaded.h"
#include "elf/elf.h"

/* ---- tables ---------------------------------------------------------------------------------- */

/* The part of a table that is read from a file: name, keys and the like, checked to be texts. */
struct mb_plugin_head {
  char name[32], version[32], type_keys[192], devices[64], needs[192], layouts[256];
  char problem[128]; /* why it cannot be used here; "" if nothing is against it */
};

/* The head of the table whose first bytes are these; `symbol` is its symbol, which names it if
 * nothing else does. */
void mb_plugin_read_head(struct mb_slice bytes, const char *symbol, struct mb_plugin_head *out);
/* The layout of a key, if the plug-in tells one. */
void mb_plugin_layout(const struct mb_plugin_head *head, const char *type_key,
                      char out[MB_LAYOUT_SIZE]);
/* True if the comma separated list has that number. */
bool mb_plugin_lists_number(const char *list, int number);
/* The tables of a library, in the order of its symbols: `visit` gets the symbol and its bytes;
 * ends at the first result that is not 0. */
int mb_plugin_symbols(const struct mb_elf *elf,
                      int (*visit)(void *context, const char *symbol, struct mb_slice bytes),
                      void *context);
/* Check a table in memory against its own texts, start it, and register its devices. `origin` is
 * for errors. */
int mb_plugin_start(const mblob_plugin *plugin, const char *origin);
/* The copy of that name, of any version, that was started and has the devices; NULL if there is
 * none. */
const mblob_plugin *mb_plugin_first(const char *name);
/* The plug-in's table for the key; NULL if it has none, or `plugin` is NULL. */
const mblob_runtime *mb_plugin_own_runtime(const mblob_plugin *plugin, const char *type_key);
/* Who serves the key: where another copy (of that name, of any version) was started before and
 * has the devices, that one. */
const mblob_runtime *mb_plugin_runtime(const mblob_plugin *plugin, const char *type_key);

/* ---- files ----------------------------------------------------------------------------------- */

/* What a search tells: nothing there, there, or there and broken (recorded). */
enum mb_found { MB_ABSENT, MB_PRESENT, MB_BROKEN };

enum mb_found mb_plugin_in_files(const char *type_key, const mblob_runtime **out);
enum mb_found mb_plugin_named_in_files(const char *name, const mblob_plugin **out);
/* Start a plug-in in a file that lists the device type; MBLOB_OK also if there is none. */
int mb_plugin_device_in_files(int device_type);
typedef int (*mb_plugin_visitor)(void *context, const struct mb_plugin_head *head,
                                 const char *origin);
int mb_plugin_files_visit(mb_plugin_visitor visit, void *context);

/* ---- in libraries ---------------------------------------------------------------------------- */

/* Note which tables the file under the library has, before it is loaded; free the notes. */
int mb_carried_read(struct mb_library *library);
/* Note one whose table is in memory, of which `room` bytes may be read. `symbol` is without a
 * prefix. */
int mb_carried_add(struct mb_library *library, const char *symbol, const void *table,
                   uint64_t room);
void mb_carried_free(struct mb_library *library);
/* The table of a carried plug-in, started; the library must be held as long as it is used. */
int mb_carried_start(struct mb_library *library, const char *name, const mblob_plugin **out);
/* An open library that carries a plug-in of that name, NULL for any, that brings the device, -1 for
 * any or none; held for the caller. NULL if there is none. */
struct mb_library *mb_plugin_carrier(const char *name, int device_type);

/* `out` NULL: only whether there is one, and no code runs. */
enum mb_found mb_plugin_carried(struct mb_library *library, const char *type_key,
                                const mblob_runtime **out);
/* Start those carried plug-ins that bring the device, 0 for any, and that no copy of theirs has:
 * its memory may outlive the library, which stays for good. The last failure. */
int mb_plugin_carried_devices(struct mb_library *library, int device_type);

/* The tables of a library, and of all that are open. */
int mb_carried_visit(const struct mb_library *library, mb_plugin_visitor visit, void *context);
int mb_plugin_carried_visit(mb_plugin_visitor visit, void *context);
/* What the first plug-in for the key tells of its payloads, of those that the library carries (NULL:
 * none) and those in files; false if there is none. No code runs. */
bool mb_plugin_measure(const struct mb_library *library, const char *type_key,
                       struct mb_measure *out);

/* The calling convention of TVM 0.21 and later, from the plug-in "ffi"; MBLOB_E_INCOMPATIBLE if
 * it is not there. */
int mb_plugin_convention(const mblob_convention **out);

/* ---- loaders that a program registered ------------------------------------------------------- */

/* True if what a host gave as `loader` is none: NULL, too small, or without a type key;
 * recorded. */
bool mb_no_loader(const char *function, const mblob_loader *loader);
#define MB_LOADER_HAS(loader, member) ((loader)->struct_size > offsetof(mblob_loader, member))
/* A copy with all members, and texts of its own. */
int mb_loader_copy(const mblob_loader *given, mblob_loader *out);
void mb_loader_free(mblob_loader *copy);
/* What a loader with all members tells of its payloads. */
void mb_loader_measure(const mblob_loader *loader, struct mb_measure *out);
/* Those that count before the loaders that come with libraries, and those that count after all. */
enum mb_loader_order { MB_FIRST_LOADERS, MB_LAST_LOADERS };
/* The one for the key, which `out`, if it is not NULL, keeps. */
enum mb_found mb_registered_loader(enum mb_loader_order order, const char *type_key,
                                   mblob_loader *out);
bool mb_registered_measure(enum mb_loader_order order, const char *type_key,
                           struct mb_measure *out);
/* The keys of the first ones, with commas, behind `*count` others. */
void mb_list_registered_loaders(FILE *out, size_t *count);

/* ---- using them ------------------------------------------------------------------------------ */

/* Look for a kind of device, in files and then in open libraries: what profiles have as
 * find_device. */
int mb_plugin_find_device(int device_type);
/* The loader of a runtime: modules made of what it gives. */
mblob_loader mb_plugin_loader(const mblob_runtime *runtime);
/* True if a plug-in's table is behind the function. */
bool mb_plugin_has_function(const mblob_function *function);
/* As mblob_register_plugin and mblob_plugin_describe. */
int mb_plugin_register(const mblob_plugin *plugin);
int mb_plugin_describe(const char *name, char *text, size_t size);
/* For errors: plug-ins with that in their path that are there and cannot be used, each with "; "
 * in front; on the heap. */
char *mb_plugin_candidates(const char *name);
/* For errors: what MBLOB_PLUGIN_PATH is. */
const char *mb_plugin_path(void);

#endif
