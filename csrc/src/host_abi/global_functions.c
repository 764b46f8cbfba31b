/* Global functions by which TVM's own hosts ask for modules, devices and threads (TVM
 * src/runtime/module.cc and others). */
#include "host_abi/host_abi.h"

#include <stdlib.h>
#include <string.h>

#include "core/call/call.h"
#include "core/library/library.h"
#include "core/loaded/loaded.h"
#include "core/device/device.h"
#include "core/threads/threads.h"

static int load_file(void *object, struct mb_call *call) {
  (void)object;
  const char *path = NULL;
  mblob_module *module = NULL;
  int status = mb_call_expect(call, 1, 2); /* the second is a format; the content decides */
  if (!status) status = mb_call_text(call, 0, &path);
  if (!status) status = mb_open(path, &module);
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

/* The key as a handle: text that lives as long as the module. */
static int type_key_text(void *object, struct mb_call *call) {
  (void)object;
  mblob_module *module = NULL;
  int status = mb_call_expect(call, 1, 1);
  if (!status) status = mb_call_module(call, 0, &module);
  TVMValue value = {.v_str = module ? mblob_module_type_key(module) : NULL};
  return status ? status : mb_return_set(call->result, value, kTVMOpaqueHandle);
}

/* ---- modules made of functions ---- */

static int find_through(void *self, const char *name, mblob_function **out) {
  TVMValue arg = {.v_str = name}, ret = {.v_handle = NULL};
  int code = kTVMStr, ret_code = kTVMNullptr;
  *out = NULL;
  int status = mblob_function_call(self, &arg, &code, 1, &ret, &ret_code);
  if (status || ret_code == kTVMNullptr) return status;
  if (ret_code == kTVMPackedFuncHandle) {
    *out = ret.v_handle;
    return MBLOB_OK;
  }
  mblob_value_release(ret, ret_code);
  return mb_fail_argument(MB_ARGUMENT_TYPE, "'%s': " MB_TEXT_EXPECTED, name,
                          "a function or nothing", mb_type_code_name(ret_code));
}

/* The function of this name is a C++ node's: save(write, to). */
static int save_through(void *self, int (*write)(void *, const void *, size_t), void *to) {
  mblob_function *save = NULL;
  TVMValue args[] = {{.v_handle = (void *)(uintptr_t)write}, {.v_handle = to}}, ret = {0};
  const int codes[] = {kTVMOpaqueHandle, kTVMOpaqueHandle};
  int code = kTVMNullptr, status = find_through(self, "mblob.cxx_save", &save);
  if (!status) status = mblob_function_call(save, args, codes, 2, &ret, &code);
  mblob_function_release(save);
  return status ? status : (int)ret.v_int64;
}

static void release_function(void *self) { mblob_function_release(self); }

/* (type key, function[, it can save]) -> a module; function(name) gives its functions. */
static int create_by_name(void *object, struct mb_call *call) {
  (void)object;
  const char *key = NULL;
  mblob_module *module = NULL;
  int status = mb_call_expect(call, 2, 3);
  if (!status) status = mb_call_text(call, 0, &key);
  if (status) return status;
  void *find = call->codes[1] == kTVMPackedFuncHandle ? call->args[1].v_handle : NULL;
  if (mb_no_function("argument 1", "the value", find)) return MBLOB_E_ARGUMENT;
  const mblob_loader loader = {.struct_size = sizeof(loader),
                               .type_key = key,
                               .function = find_through,
                               .close = release_function,
                               .save = call->count == 3 ? save_through : NULL};
  status = mblob_module_create(&loader, mblob_function_retain(find), &module);
  if (status)
    mblob_function_release(find);
  else
    mb_call_return_module(call, module);
  return status;
}

/* References to an array; to a module or function of a library, those to the whole library. */
static int use_count(void *object, struct mb_call *call) {
  (void)object;
  int status = mb_call_expect(call, 1, 1);
  if (status) return status;
  mb_call_return_int(call, (int64_t)mb_value_references(call->args[0], call->codes[0]));
  return MBLOB_OK;
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
    return mb_fail_argument(MB_ARGUMENT_INDEX, "module '%s' has no import %lld; it has %zu",
                            module->type_key, (long long)i, mblob_module_import_count(module));
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
  if (!status)
    status = mb_module_find(module, name, imports ? MB_WITH_IMPORTS : MB_ITSELF, &function);
  if (!status) mb_call_return_int(call, function != NULL);
  return status;
}

/* Returns true if code for a target can run: the host's, and that of devices whose runtime is here. */
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
    return mb_fail(MBLOB_E_ARGUMENT, "device (%lld, %lld) is impossible", (long long)type,
                   (long long)id);
  return status ? status : mb_device_set((DLDevice){(DLDeviceType)type, (int32_t)id});
}

/* (type, id): wait for what this thread gave to the device. */
static int synchronize(void *object, struct mb_call *call) {
  (void)object;
  int64_t type = 0, id = 0;
  int status = mb_call_expect(call, 2, 2);
  if (!status) status = mb_call_int(call, 0, &type);
  if (!status) status = mb_call_int(call, 1, &id);
  if (status) return status;
  if (type < 0 || type > INT32_MAX || id < 0 || id > INT32_MAX)
    return mb_fail(MBLOB_E_ARGUMENT, "device (%lld, %lld) is impossible", (long long)type,
                   (long long)id);
  return mb_device_synchronize((DLDevice){(DLDeviceType)type, (int32_t)id}, NULL);
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
  if (!status &&
      (type < 0 || type > INT32_MAX || id < 0 || id > INT32_MAX || kind < 0 || kind > INT32_MAX))
    return mb_fail(MBLOB_E_ARGUMENT, "device (%lld, %lld) or attribute %lld is impossible",
                   (long long)type, (long long)id, (long long)kind);
  if (!status)
    status = mb_device_attribute((DLDevice){(DLDeviceType)type, (int32_t)id}, (int)kind, &number,
                                 text, sizeof(text));
  if (status == MBLOB_E_NOT_FOUND) return MBLOB_OK;
  if (status) return status;
  if (*text) return mb_call_return_text(call, text);
  mb_call_return_int(call, number);
  return MBLOB_OK;
}

/* ---- threads ---- */

/* (mode, threads, processors...): how many tasks a parallel loop has when it does not say. 0
 * threads: what the environment says. The mode, big or little cores, and lists of processors are
 * not followed: threads are the scheduler's. */
static int config_threadpool(void *object, struct mb_call *call) {
  (void)object;
  int64_t mode = 0, threads = 0;
  int status = mb_call_expect(call, 2, INT32_MAX);
  if (!status) status = mb_call_int(call, 0, &mode);
  if (!status) status = mb_call_int(call, 1, &threads);
  if (status) return status;
  if (threads < 0 || threads > MB_WORKER_LIMIT)
    return mb_fail(MBLOB_E_ARGUMENT, "argument 1: %lld threads, expected 0 to %d",
                   (long long)threads, MB_WORKER_LIMIT);
  mb_set_parallel_width((int)threads);
  return MBLOB_OK;
}

static int num_threads(void *object, struct mb_call *call) {
  (void)object;
  int status = mb_call_expect(call, 0, 0);
  if (!status) mb_call_return_int(call, mb_parallel_width());
  return status;
}

/* ---- the registry ---- */

static int global_remove(void *object, struct mb_call *call) {
  (void)object;
  const char *name = NULL;
  int status = mb_call_expect(call, 1, 1);
  if (!status) status = mb_call_text(call, 0, &name);
  return status ? status : mb_global_remove(name);
}

/* An Array of all names. */
static int global_names(void *object, struct mb_call *call) {
  (void)object;
  const char **names = NULL;
  size_t count = 0;
  int status = mb_call_expect(call, 0, 0);
  if (!status) status = mb_global_names(&names, &count);
  if (!status) status = mb_object_return_texts(call, names, count);
  free(names);
  return status;
}

const struct mb_method mb_host_functions[] = {
    {"runtime.ModuleLoadFromFile", load_file},
    {"runtime.ModuleGetTypeKey", type_key},
    {"mblob.ModuleTypeKeyText", type_key_text},
    {"mblob.ModuleCreate", create_by_name},
    {"mblob.UseCount", use_count},
    {"runtime.ModuleImportsSize", imports_size},
    {"runtime.ModuleGetImport", get_import},
    {"runtime.ModuleImplementsFunction", implements_function},
    {"runtime.RuntimeEnabled", runtime_enabled},
    {"runtime.GetDeviceAttr", device_attribute},
    {"__tvm_set_device", set_device},
    {"mblob.Synchronize", synchronize},
    {"mblob.GlobalRemove", global_remove},
    {"mblob.GlobalNames", global_names},
    {"runtime.config_threadpool", config_threadpool},
    {"runtime.NumThreads", num_threads},
    {"", NULL},
};
