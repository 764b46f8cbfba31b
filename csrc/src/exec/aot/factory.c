/* Modules of the key AotExecutorFactory: parameters, and a function of the model's name that
 * makes executors.
 */
#define _GNU_SOURCE
#include "exec/aot/aot.h"

#include <stdlib.h>

#include "core/call/call.h"
#include "core/library/library.h"
#include "core/loaded/loaded.h"
#include "exec/aot/executor.h"

struct aot_factory {
  mblob_module *module; /* itself, not counted: its imports have the kernels */
  char *name;
  struct mb_stored_arrays params;
};

static bool read_aot_payload(struct mb_cursor *c, struct aot_factory *factory) {
  uint64_t start = c->pos, count = 0;
  struct mb_slice name;
  if (!mb_read_u64(c, &count, "params.count") || !mb_stored_arrays_names(c, &factory->params))
    return false;
  if (count != factory->params.count) {
    (void)mb_fail_format("payload", (int64_t)start, c->entry,
                         "params: counts of arrays and of names differ");
    return false;
  }
  if (!mb_stored_arrays_data(c, &factory->params) || !mb_read_string(c, &name, "module_name"))
    return false;
  if (mb_left(c)) {
    (void)mb_fail_format("payload", (int64_t)c->pos, c->entry, "bytes follow the module name");
    return false;
  }
  factory->name = strndup((const char *)name.data, mb_size(name.size));
  if (!factory->name) (void)mb_fail_memory(mb_size(name.size));
  return factory->name != NULL;
}

static void close_aot_factory(void *object) {
  struct aot_factory *factory = object;
  mb_stored_arrays_free(&factory->params);
  free(factory->name);
  free(factory);
}

static int open_aot_factory(const mblob_module_info *info, void **object) {
  struct aot_factory *factory = calloc(1, sizeof(*factory));
  if (!factory) return mb_fail_memory(sizeof(*factory));
  factory->module = info->module;
  struct mb_cursor c = {info->payload, 0, info->payload_size, (int64_t)info->index};
  if (read_aot_payload(&c, factory)) {
    *object = factory;
    return MBLOB_OK;
  }
  mb_error_prefix(info->type_key);
  close_aot_factory(factory);
  return mblob_last_error_info()->status;
}

static int check_aot_imports(const struct aot_factory *factory) {
  return factory->module->import_count
             ? MBLOB_OK
             : mb_fail(MBLOB_E_FORMAT, "the factory imports no library of kernels");
}

static int create_aot_executor(void *object, struct mb_call *call) {
  struct aot_factory *factory = object;
  DLDevice device = {kDLCPU, 0};
  mblob_module *executor = NULL;
  size_t count = 0;
  int status = mb_call_devices(call, 0, &device, 1, &count);
  if (!status && (device.device_type != kDLCPU || device.device_id != 0))
    status = mb_fail(MBLOB_E_INCOMPATIBLE,
                     "device (%d, %d): models compiled ahead of time run on cpu:0 here",
                     (int)device.device_type, device.device_id);
  if (!status) status = check_aot_imports(factory);
  if (!status) status = mb_aot_executor_create(factory->module, &factory->params, &executor);
  if (!status) mb_call_return_module(call, executor);
  return status;
}

/* The same factory without parameters; it keeps the kernels. */
static int remove_aot_params(void *object, struct mb_call *call) {
  const struct aot_factory *factory = object;
  mblob_module *made = NULL;
  int status = mb_call_expect(call, 0, 0);
  if (!status) status = check_aot_imports(factory);
  if (status) return status;
  struct aot_factory *bare = calloc(1, sizeof(*bare));
  if (!bare) return mb_fail_memory(sizeof(*bare));
  bare->name = strdup(factory->name);
  status = bare->name ? mb_builtin_create(&mb_aot_factory_class, bare, &made) : mb_fail_memory(0);
  if (status) {
    close_aot_factory(bare);
    return status;
  }
  bare->module = made;
  status = mb_module_import_all(made, factory->module);
  if (status)
    mblob_module_release(made);
  else
    mb_call_return_module(call, made);
  return status;
}

static int list_module_names(void *object, struct mb_call *call) {
  const struct aot_factory *factory = object;
  int status = mb_call_expect(call, 0, 0);
  const char *const names[] = {factory->name};
  return status ? status : mb_object_return_texts(call, names, 1);
}

static const struct mb_method create_method = {MB_KEY_AOT_FACTORY, create_aot_executor};

static const struct mb_method aot_factory_methods[] = {
    {"remove_params", remove_aot_params}, {"list_module_names", list_module_names}, {"", NULL}};

static const char *aot_extra_name(void *object, size_t i) {
  const struct aot_factory *f = object;
  return i ? NULL : f->name;
}

static int find_aot_function(void *object, const char *name, mblob_function **out) {
  struct aot_factory *factory = object;
  return strcmp(name, factory->name) == 0 ? mb_method_bind(&create_method, factory, out) : MBLOB_OK;
}

const struct mb_class mb_aot_factory_class = {.type_key = MB_KEY_AOT_FACTORY,
                                              .methods = aot_factory_methods,
                                              .open = open_aot_factory,
                                              .function = find_aot_function,
                                              .extra_name = aot_extra_name,
                                              .close = close_aot_factory};
