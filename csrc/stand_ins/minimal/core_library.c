/* For core/library/loaders.c and builtin_class.c: modules are libraries and data. */
#include "core/library/library.h"
#include "minimal.h"

bool mb_opening_measure(const void *loaders, struct mb_slice key, struct mb_measure *out) {
  const struct mb_opening_loaders *of = loaders;
  (void)key;
  *out = (struct mb_measure){.layout = "rest"};
  return of->options->missing == MBLOB_MISSING_STUB;
}

bool mb_run_measure(const struct mb_measure *measure, struct mb_cursor *c) {
  (void)c;
  return !measure->measure;
}

/* metadata_module only stands above the library of an AOT executor. */
static bool holds_data(const mblob_module *module) {
  return module->is_library || module->is_data ||
         strcmp(module->type_key, MB_KEY_METADATA_MODULE) == 0;
}

static int not_run(const mblob_module *module) {
  static const char hint[] = "open it with missing=stub to read its payload" MB_MORE_IN_CORE;
  return mb_fail_loader(module->type_key, (int64_t)mblob_module_index(module), "", hint,
                        "no loader for type key '%s' (entry %zu); %s", module->type_key,
                        mblob_module_index(module), hint);
}

int mb_tree_check_loaders(const struct mb_tree *tree) {
  int status = MBLOB_OK;
  for (size_t i = 0; !status && i < tree->count && tree->missing == MBLOB_MISSING_ERROR; i++)
    if (!holds_data(&tree->modules[i])) status = not_run(&tree->modules[i]);
  return status;
}

int mb_loader_find(mblob_module *module, const char *name, mblob_function **out, bool *closed) {
  (void)name;
  *out = NULL;
  *closed = !holds_data(module);
  return *closed ? not_run(module) : MBLOB_OK;
}

void mb_known_names(const mblob_module *module, void (*visit)(void *context, const char *name),
                    void *context) {
  (void)module, (void)visit, (void)context;
}
