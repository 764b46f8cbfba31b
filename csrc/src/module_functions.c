/* Modules as TVM's own hosts look at them: global functions `runtime.Module*` (TVM src/runtime/module.cc). */
#include "module_functions.h"

#include <string.h>

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

/* Whether code for a target can run: the host's alone. */
static int runtime_enabled(void *object, struct mb_call *call) {
  (void)object;
  const char *target = NULL;
  int status = mb_call_expect(call, 1, 1);
  if (!status) status = mb_call_text(call, 0, &target);
  if (!status)
    mb_call_return_int(
        call, strcmp(target, "cpu") == 0 || strncmp(target, "llvm", 4) == 0 || strcmp(target, "c") == 0);
  return status;
}

const struct mb_method mb_module_functions[] = {
    {"runtime.ModuleLoadFromFile", load_from_file},
    {"runtime.ModuleGetTypeKey", type_key},
    {"runtime.ModuleImportsSize", imports_size},
    {"runtime.ModuleGetImport", get_import},
    {"runtime.ModuleImplementsFunction", implements_function},
    {"runtime.RuntimeEnabled", runtime_enabled},
    {NULL, NULL},
};
