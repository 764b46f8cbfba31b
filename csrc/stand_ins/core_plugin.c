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

#ifndef MBLOB_WITH_FFI
int mb_plugin_convention(const mblob_convention **out) {
  *out = NULL;
  return mb_fail(MBLOB_E_INCOMPATIBLE, "it has functions of TVM 0.21 or later" MB_MORE_IN_CORE);
}
#endif

void mb_loader_free(mblob_loader *copy) { (void)copy; }
