/* mblob.h: what a program calls to look something up, or to register it: libraries that are linked in, functions,
 * plug-ins, devices. */
#include <string.h>

#include "base/base.h"
#include "core/call/call.h"
#include "core/device/device.h"
#include "core/library/library.h"
#include "core/plugin/plugin.h"
#include "entry/entry.h"

int mblob_system_lib(const char *prefix, mblob_module **out) {
  mb_enter();
  if (MB_IS_NULL(out)) return MBLOB_E_ARGUMENT;
  *out = NULL;
  if (MB_IS_NULL(prefix)) return MBLOB_E_ARGUMENT;
  return mb_system_library_open(prefix, out);
}

/* ---- functions ------------------------------------------------------------------------------- */

int mblob_register_global(const char *name, mblob_function *function, int replace) {
  mb_enter();
  if (MB_IS_NULL(name) || MB_NO_FUNCTION(function)) return MBLOB_E_ARGUMENT;
  return mb_global_register(name, function, replace != 0);
}

int mblob_get_global(const char *name, mblob_function **out) {
  mb_enter();
  if (MB_IS_NULL(out)) return MBLOB_E_ARGUMENT;
  *out = NULL;
  if (MB_IS_NULL(name)) return MBLOB_E_ARGUMENT;
  return mb_global_need(name, out);
}

int mblob_function_to_ffi(mblob_function *function, void **out) {
  mb_enter();
  if (MB_IS_NULL(out)) return MBLOB_E_ARGUMENT;
  *out = NULL;
  if (MB_NO_FUNCTION(function)) return MBLOB_E_ARGUMENT;
  const mblob_convention *convention;
  int status = mb_plugin_convention(&convention);
  return status ? status : convention->object_of_function(function, out);
}

int mblob_function_from_ffi(void *object, mblob_function **out) {
  mb_enter();
  if (MB_IS_NULL(out)) return MBLOB_E_ARGUMENT;
  *out = NULL;
  if (MB_IS_NULL(object)) return MBLOB_E_ARGUMENT;
  const mblob_convention *convention;
  int status = mb_plugin_convention(&convention);
  return status ? status : convention->function_of_object(object, out);
}

/* ---- plug-ins and devices -------------------------------------------------------------------- */

int mblob_register_plugin(const mblob_plugin *plugin) {
  mb_enter();
  return mb_plugin_register(plugin);
}

int mblob_plugin_describe(const char *name, char *text, size_t size) {
  mb_enter();
  return mb_plugin_describe(name, text, size);
}

int mblob_device_type(const char *name, int *out) {
  mb_enter();
  if (MB_IS_NULL(name) || MB_IS_NULL(out)) return MBLOB_E_ARGUMENT;
  struct mb_near near = MB_NEAR(name, strlen(name));
  for (int i = kDLCPU; i < 2 * MB_DEVICE_KINDS; i++) { /* twice: what starts a plug-in comes last */
    const mblob_device_api *api = mb_device_registered(*out = i % MB_DEVICE_KINDS);
    const char *own = mb_device_name(*out);
    if (i > MB_DEVICE_KINDS) (void)mb_device_api(*out, &api);
    if ((own && strcmp(own, name) == 0) || (api && strcmp(api->name, name) == 0)) return MBLOB_OK;
    if (own) mb_near_offer(&near, own);
  }
  return mb_fail(MBLOB_E_NOT_FOUND, "no kind of device is called '%s'%s", name, near.text);
}
