/* For core/plugin: there are no plug-ins, and no loaders. */
#include "core/plugin/plugin.h"
#include "minimal.h"

int mb_carried_read(struct mb_library *library) {
  (void)library;
  return MBLOB_OK;
}

void mb_carried_free(struct mb_library *library) { (void)library; }

int mb_plugin_carried_devices(struct mb_library *library, int device_type) {
  (void)library, (void)device_type;
  return MBLOB_OK;
}

int mb_plugin_convention(const mblob_convention **out) {
  *out = NULL;
  return mb_fail(MBLOB_E_INCOMPATIBLE, "it has functions of TVM 0.21 or later" MB_MORE_IN_CORE);
}

bool mb_no_loader(const char *function, const mblob_loader *loader) {
  (void)loader;
  (void)mb_fail(MBLOB_E_ARGUMENT, "%s: there are no loaders" MB_MORE_IN_CORE, function);
  return true;
}

int mb_loader_copy(const mblob_loader *given, mblob_loader *out) {
  *out = (mblob_loader){0};
  return mb_no_loader("options", given) ? MBLOB_E_ARGUMENT : MBLOB_OK;
}

void mb_loader_free(mblob_loader *copy) { (void)copy; }
