#include "modules.h"

#include <mblob.h>

#include "calls.h"
#include "common.h"
#include "errors.h"
#include "reflection.h"

/* Call an attribute of the class ffi.Module; MB_ANY_NONE if the class does not have it. */
static int call_attribute(struct mb_text name, const struct mb_any *arg, struct mb_any *out) {
  const struct mb_any *function = mb_class_attribute(&name, MB_ANY_MODULE);
  *out = (struct mb_any){.type = MB_ANY_NONE};
  if (!function || function->type != MB_ANY_FUNCTION) return MBLOB_OK;
  const uint64_t before = mb_plugin_host()->error_count();
  const int rc = mb_object_call(MB_RELEASES_0_22, function->u.pointer, arg, 1, out);
  return rc ? mb_error_record(name.data, rc, before) : MBLOB_OK;
}

#define TEXT_CELL(text) ((struct mb_text){text, sizeof(text) - 1})

int mb_any_of_module(void *module, struct mb_any *out) {
  const struct mb_any pointer = {.type = MB_ANY_POINTER, .u.pointer = module};
  return call_attribute(TEXT_CELL("__mblob_object__"), &pointer, out);
}

int mb_module_of_object(void *object, void **module) {
  const struct mb_any given = {.type = MB_ANY_MODULE, .u.pointer = object};
  struct mb_any found;
  int status = call_attribute(TEXT_CELL("__mblob_handle__"), &given, &found);
  *module = !status && found.type == MB_ANY_POINTER ? found.u.pointer : NULL;
  return status;
}
