/* For core/plugin/loader_registry.c, besides what stand_ins/core_plugin.c has: a loader is refused. */
#include "core/plugin/plugin.h"
#include "minimal.h"

bool mb_no_loader(const char *function, const mblob_loader *loader) {
  (void)loader;
  (void)mb_fail(MBLOB_E_ARGUMENT, "%s: there are no loaders" MB_MORE_IN_CORE, function);
  return true;
}

int mb_loader_copy(const mblob_loader *given, mblob_loader *out) {
  *out = (mblob_loader){0};
  return mb_no_loader("options", given) ? MBLOB_E_ARGUMENT : MBLOB_OK;
}
