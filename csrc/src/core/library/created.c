/* Libraries and modules without a file: of statically linked code, and made by a program. */
#define _GNU_SOURCE
#include "core/library/created.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "core/call/call.h"
#include "core/library/builtin_class.h"
#include "core/library/library.h"
#include "core/loaded/loaded.h"
#include "core/plugin/plugin.h"

/* A library that has no file. */
static struct mb_library *new_library_without_file(void) {
  const struct mb_source nowhere = {.fd = -1, .dir_fd = -1, .path = strdup("")};
  struct mb_library *library = nowhere.path ? mb_library_new(&nowhere) : NULL;
  if (!library) {
    free(nowhere.path);
    return NULL;
  }
  library->context = (struct mb_context){MB_TAG_CONTEXT, library};
  atomic_store(&library->users, 1);
  return library;
}

int mb_library_new_system(const char *prefix, enum mb_system_names names, struct mb_library **out) {
  *out = new_library_without_file();
  if (!*out) return MBLOB_E_MEMORY;
  (*out)->system_prefix = prefix;
  (*out)->is_compiled_by_tvm = true; /* what is announced is packed, or in the table */
  (*out)->system_names = names;
  return MBLOB_OK;
}

int mblob_module_create(const mblob_loader *loader, void *self, mblob_module **out) {
  if (MB_IS_NULL(out)) return MBLOB_E_ARGUMENT;
  *out = NULL;
  if (mb_no_loader(__func__, loader)) return MBLOB_E_ARGUMENT;
  if (!loader->function)
    return mb_fail(MBLOB_E_ARGUMENT, "mblob_module_create: loader->function is NULL");
  struct mb_library *library = new_library_without_file();
  if (!library) return MBLOB_E_MEMORY;
  int status = mb_tree_new_single(library, loader, self, &library->trees);
  if (status)
    mb_library_free(library);
  else
    *out = &library->trees->modules[0];
  return status;
}

int mb_builtin_create(const struct mb_class *class, void *object, mblob_module **out) {
  const mblob_loader loader = mb_builtin_loader(class);
  void *builtin = NULL;
  *out = NULL;
  int status = mb_builtin_new(class, object, &builtin);
  if (!status) status = mblob_module_create(&loader, builtin, out);
  if (status) free(builtin);
  return status;
}
