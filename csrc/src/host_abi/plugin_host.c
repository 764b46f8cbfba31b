/* The table that plug-ins get. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_backend_api.h>

#include "base/base.h"
#include "core/call/call.h"
#include "core/library/library.h"
#include "core/loaded/loaded.h"
#include "core/device/device.h"
#include "core/threads/threads.h"
#include "host_abi/host_abi.h"

static int return_value(void *ret, TVMValue value, int code) {
  return mb_return_set(ret, value, code);
}

struct loop {
  int (*task)(int task_id, int task_count, void *data);
  void *data;
};

static int run_plugin_task(int task_id, TVMParallelGroupEnv *env, void *data) {
  const struct loop *loop = data;
  return loop->task(task_id, env->num_task, loop->data);
}

static int parallel(int (*task)(int task_id, int task_count, void *data), void *data,
                    int task_count) {
  struct loop loop = {task, data};
  if (task_count <= 0) return MBLOB_OK;
  return mb_parallel_launch(run_plugin_task, &loop, task_count) ? mblob_last_error_info()->status
                                                                : MBLOB_OK;
}

static int return_strings(void *ret, const char *const *texts, size_t count) {
  char *list = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&list, &size);
  if (!out) return mb_fail_memory(0);
  for (size_t i = 0; i < count; i++) {
    (void)fputs(i ? ", " : "[", out);
    mb_json_put_text(out, texts[i]);
  }
  (void)fputs(count ? "]" : "[]", out);
  (void)fclose(out);
  int status = list ? mb_return_set(ret, (TVMValue){.v_str = list}, kTVMStr) : mb_fail_memory(size);
  free(list);
  return status;
}

/* A module that is opened belongs to one thread until it is open. */
static void set_names(mblob_module *module, const char *const *names, size_t count) {
  module->use->names = names;
  module->use->name_count = count;
}

static int module_function(mblob_module *module, const char *name, int query_imports,
                           mblob_function **out) {
  return mblob_module_function(module, name, query_imports, out);
}

static const char *last_code(void) { return mblob_last_error_info()->code; }
static int last_status(void) { return mblob_last_error_info()->status; }

static void *function_resource(const mblob_function *function, TVMPackedCFunc call) {
  bool is_one = function->kind == MB_CALLBACK && function->u.callback.call == call;
  return is_one ? function->u.callback.resource : NULL;
}

static const char *builtin_name(mblob_function *function) {
  mblob_function *target = function;
  if (function->kind == MB_ENVIRONMENT && mb_environment_target(function, &target)) return NULL;
  const struct mb_method *method = mb_method_of(target);
  return method ? method->name : NULL;
}

/* What a plug-in makes a function of is an object of the ffi. */
static int function_create(TVMPackedCFunc call, void *resource, TVMPackedCFuncFinalizer finalize,
                           mblob_function **out) {
  int status = mblob_function_create(call, resource, finalize, out);
  if (!status) (*out)->takes = MBLOB_ARGUMENTS_OBJECTS;
  return status;
}

const mblob_host mb_plugin_host_table = {
    .struct_size = sizeof(mblob_host),
    .abi_version = MBLOB_PLUGIN_ABI,
    .version = MBLOB_VERSION,
    .set_error = mblob_set_error,
    .last_error = mblob_last_error,
    .return_value = return_value,
    .return_strings = return_strings,
    .module_function = module_function,
    .global_function = mb_global_need,
    .function_call = mblob_function_call,
    .function_release = mblob_function_release,
    .allocate = mb_device_allocate,
    .free = mb_device_free,
    .copy = mb_device_copy,
    .array_retain = mb_array_retain,
    .array_release = mb_array_release,
    .parallel = parallel,
    .names = set_names,
    .symbol = mb_profile_symbol,
    .last_status = last_status,
    .error_count = mb_error_serial,
    .function_create = function_create,
    .function_resource = function_resource,
    .value_retain = mb_value_retain,
    .value_release = mblob_value_release,
    .array_view = mb_array_view,
    .set_coded_error = mb_set_coded_error,
    .last_code = last_code,
    .builtin_name = builtin_name,
    .registry_generation = &mb_global_generation_now,
};
