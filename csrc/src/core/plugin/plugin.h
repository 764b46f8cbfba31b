/* plugin.h - tables of plug-ins (mblob/plugin.h), and the files that bring them. What libraries
 * carry, and what becomes of it all, is in core/plugins.h.
 *
 * table.c  reads the part of a table that needs no code, checks the whole one, and starts it
 * files.c  shared objects on MBLOB_PLUGIN_PATH and beside libmblob */
#ifndef MB_PLUGIN_H
#define MB_PLUGIN_H

#include <mblob.h>
#include <stdbool.h>

#include "base/base.h"
#include "elf/elf.h"

/* ---- tables ---------------------------------------------------------------------------------- */

/* The part of a table that is read from a file: name, keys and the like, checked to be texts. */
struct mb_plugin_head {
  char name[32], version[32], type_keys[192], devices[64], needs[192];
  char problem[128]; /* why it cannot be used here; "" if nothing is against it */
};

/* The head of the table whose first bytes are these; `symbol` is its symbol, which names it if
 * nothing else does. */
void mb_plugin_read_head(struct mb_slice bytes, const char *symbol, struct mb_plugin_head *out);
/* Whether the comma separated list has that number. */
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

#endif
