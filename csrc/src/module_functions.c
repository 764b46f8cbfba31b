/* Modules as TVM's own hosts look at them: global functions `runtime.Module*` (TVM src/runtime/module.cc). */
#include "module_functions.h"

#include <string.h>

#include "device/device.h"
#include "runtime.h"

static int load_from_file(void *object, struct mb_call *call) {
  (void)object;
  const char *path = NULL;
  mblob_module *module = NULL;
  int status = mb_call_expect(call, 1, 2); /* the second is a format; the content decides */
  if (!status) status = mb_call_text(call, 0, &path);
  if (!status) status = mblob_open(path, NULL, &module);
  if (!status) mb_call_return_module(call, module);
  return status;
}

static int type_key(void *object, struct mb_call *call) {
  (void)object;
  mblob_module *module = NULL;
  int status = mb_call_expect(call, 1, 1);
  if (!status) status = mb_call_module(call, 0, &module);
  return status ? status : mb_call_return_text(call, mblob_module_type_key(module));
}

static int imports_size(void *object, struct mb_call *call) {
  (void)object;
  mblob_module *module = NULL;
  int status = mb_call_expect(call, 1, 1);
  if (!status) status = mb_call_module(call, 0, &module);
  if (!status) mb_call_return_int(call, (int64_t)mblob_module_import_count(module));
  return status;
}

static int get_import(void *object, struct mb_call *call) {
  (void)object;
  mblob_module *module = NULL;
  int64_t i = 0;
  int status = mb_call_expect(call, 2, 2);
  if (!status) status = mb_call_module(call, 0, &module);
  if (!status) status = mb_call_int(call, 1, &i);
  if (status) return status;
  mblob_module *import = i < 0 ? NULL : mblob_module_import_at(module, (size_t)i);
  if (!import)
    return mb_fail(MBLOB_E_ARGUMENT, "module '%s' has no import %lld; it has %zu", module->type_key,
                   (long long)i, mblob_module_import_count(module));
  mb_call_return_module(call, mblob_module_retain(import));
  return MBLOB_OK;
}

static int implements_function(void *object, struct mb_call *call) {
  (void)object;
  mblob_module *module = NULL;
  mblob_function *function = NULL;
  const char *name = NULL;
  int64_t imports = 0;
  int status = mb_call_expect(call, 2, 3);
  if (!status) status = mb_call_module(call, 0, &module);
  if (!status) status = mb_call_text(call, 1, &name);
  if (!status && call->count == 3) status = mb_call_int(call, 2, &imports);
  if (!status) status = mb_module_find(module, name, imports != 0, &function);
  if (!status) mb_call_return_int(call, function != NULL);
  return status;
}

/* Whether code for a target can run: the host's, and that of devices whose runtime is here. */
static int runtime_enabled(void *object, struct mb_call *call) {
  (void)object;
  const char *target = NULL;
  int status = mb_call_expect(call, 1, 1);
  if (!status) status = mb_call_text(call, 0, &target);
  if (!status) mb_call_return_int(call, mb_device_is_target(target));
  return status;
}

/* __tvm_set_device(type, id): host code calls it before it launches kernels. */
static int set_device(void *object, struct mb_call *call) {
  (void)object;
  int64_t type = 0, id = 0;
  int status = mb_call_expect(call, 2, 2);
  if (!status) status = mb_call_int(call, 0, &type);
  if (!status) status = mb_call_int(call, 1, &id);
  if (!status && (type < 0 || type > INT32_MAX || id < 0 || id > INT32_MAX))
    return mb_fail(MBLOB_E_ARGUMENT, "device (%lld, %lld) is impossible", (long long)type, (long long)id);
  return status ? status : mb_device_set((DLDevice){(DLDeviceType)type, (int32_t)id});
}

/* runtime.GetDeviceAttr(type, id, kind): nothing where the device does not tell it. */
static int device_attribute(void *object, struct mb_call *call) {
  (void)object;
  int64_t type = 0, id = 0, kind = 0, number = 0;
  char text[256];
  int status = mb_call_expect(call, 3, 3);
  if (!status) status = mb_call_int(call, 0, &type);
  if (!status) status = mb_call_int(call, 1, &id);
  if (!status) status = mb_call_int(call, 2, &kind);
  if (!status && (type < 0 || type > INT32_MAX || id < 0 || id > INT32_MAX || kind < 0 || kind > INT32_MAX))
    return mb_fail(MBLOB_E_ARGUMENT, "device (%lld, %lld) or attribute %lld is impossible", (long long)type, (long long)id,
                   (long long)kind);
  if (!status) status = mb_device_attribute((DLDevice){(DLDeviceType)type, (int32_t)id}, (int)kind, &number, text, sizeof(text));
  if (status == MBLOB_E_NOT_FOUND) return MBLOB_OK;
  if (status) return status;
  if (*text) return mb_call_return_text(call, text);
  mb_call_return_int(call, number);
  return MBLOB_OK;
}

const struct mb_method mb_module_functions[] = {
    {"runtime.ModuleLoadFromFile", load_from_file},
    {"runtime.ModuleGetTypeKey", type_key},
    {"runtime.ModuleImportsSize", imports_size},
    {"runtime.ModuleGetImport", get_import},
    {"runtime.ModuleImplementsFunction", implements_function},
    {"runtime.RuntimeEnabled", runtime_enabled},
    {"runtime.GetDeviceAttr", device_attribute},
    {"__tvm_set_device", set_device},
    {NULL, NULL},
};
