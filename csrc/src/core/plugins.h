/* plugins.h - plug-ins (mblob/plugin.h): where they come from, and how they come to life.
 *
 * plugin/           their tables, and files that bring them
 * plugin_carried.c  those that a library carries itself
 * plugin_module.c   modules and functions made of what they give
 * plugins.c         by type key, by device, all of them */
#ifndef MB_PLUGINS_H
#define MB_PLUGINS_H

#include <mblob.h>
#include <stdbool.h>
#include <stdio.h>

#include "core/plugin/plugin.h"
#include "core/runtime.h"

/* ---- where they come from -------------------------------------------------------------------- */

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

/* The tables of all libraries that are open. */
int mb_plugin_carried_visit(mb_plugin_visitor visit, void *context);

/* The calling convention of TVM 0.21 and later, from the plug-in "ffi"; MBLOB_E_INCOMPATIBLE if
 * it is not there. */
int mb_plugin_convention(const mblob_convention **out);

/* ---- loaders that a program registered (loader_registry.c) ----------------------------------- */

/* Whether what a host gave as `loader` is none: NULL, too small, or without a type key;
 * recorded. */
bool mb_no_loader(const char *function, const mblob_loader *loader);
/* Those that count before the loaders that come with libraries, and those that count after all. */
enum mb_loader_order { MB_FIRST_LOADERS, MB_LAST_LOADERS };
/* Whether there is one for the key, which `out`, if it is not NULL, keeps. */
bool mb_registered_loader(enum mb_loader_order order, const char *type_key, mblob_loader *out);
/* The keys of the first ones, with commas, behind `*count` others. */
void mb_list_registered_loaders(FILE *out, size_t *count);

/* ---- using them ------------------------------------------------------------------------------ */

/* Look for a kind of device, in files and then in open libraries: what profiles have as
 * find_device. */
int mb_plugin_find_device(int device_type);
/* The loader of a runtime: modules made of what it gives. */
mblob_loader mb_plugin_loader(const mblob_runtime *runtime);
/* Whether a plug-in's table is behind the function. */
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
