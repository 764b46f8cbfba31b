/* Modules and functions made of what plug-ins give. An instance lives until it was closed and
 * the last of its functions is gone: functions may be given back after the module is closed. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdlib.h>

#include "core/call/call.h"
#include "core/plugin/plugin.h"

struct instance {
  const mblob_runtime *runtime;
  mblob_module_info info;
  void *self;
  atomic_size_t users; /* the module, and each function */
};

struct plugin_function {
  struct instance *instance;
  void *function;
};

static void release_instance(struct instance *instance) {
  if (atomic_fetch_sub_explicit(&instance->users, 1, memory_order_acq_rel) != 1) return;
  if (instance->runtime->close) instance->runtime->close(instance->self);
  free(instance);
}

static int call_plugin_function(TVMValue *args, int *codes, int count, TVMRetValueHandle ret,
                                void *resource) {
  const struct plugin_function *b = resource;
  const mblob_runtime *runtime = b->instance->runtime;
  uint64_t before = mb_error_serial();
  MB_CATCHES;
  int status = runtime->call(b->instance->self, b->function, args, codes, count, ret);
  if (status && !mb_fail_thrown(status, "a function of the plug-in") && mb_error_serial() == before)
    (void)mb_fail(MBLOB_E_KERNEL, "a function of a module '%s' returned %d and gave no reason",
                  runtime->type_key, status);
  return status;
}

bool mb_plugin_has_function(const mblob_function *function) {
  while (function->kind == MB_FORWARD) function = function->u.target;
  return function->kind == MB_CALLBACK && function->u.callback.call == call_plugin_function;
}

static void give_back_function(void *resource) {
  struct plugin_function *b = resource;
  if (b->instance->runtime->release) b->instance->runtime->release(b->instance->self, b->function);
  release_instance(b->instance);
  free(b);
}

static int open_module(void *context, const mblob_module_info *info, void **self) {
  struct instance *instance = calloc(1, sizeof(*instance));
  if (!instance) return mb_fail_memory(sizeof(*instance));
  instance->runtime = context;
  instance->info = *info;
  atomic_init(&instance->users, 1);
  uint64_t before = mb_error_serial();
  MB_CATCHES;
  int status = instance->runtime->open(mb_profile_of_program()->plugin_host, &instance->info,
                                       &instance->self);
  if (!status) {
    *self = instance;
    return MBLOB_OK;
  }
  free(instance);
  char where[352];
  status = mb_fail_opening(status, before, MBLOB_E_LOADER, "open of its plug-in");
  (void)snprintf(where, sizeof(where), "module %llu ('%.64s') of %.255s",
                 (unsigned long long)info->index, info->type_key,
                 *info->path ? info->path : MB_TEXT_IN_MEMORY);
  mb_error_prefix(where);
  return status;
}

static int find_plugin_function(void *self, const char *name, mblob_function **out) {
  struct instance *instance = self;
  void *function = NULL;
  uint64_t before = mb_error_serial();
  MB_CATCHES;
  int status = instance->runtime->function(instance->self, name, &function);
  if (status) return mb_fail_returned(status, before, MBLOB_E_KERNEL, "function of the plug-in");
  if (!function) return MBLOB_OK;
  struct plugin_function *b = malloc(sizeof(*b));
  if (b) {
    *b = (struct plugin_function){instance, function};
    atomic_fetch_add_explicit(&instance->users, 1, memory_order_relaxed);
    status = mblob_function_create(call_plugin_function, b, give_back_function, out);
    if (!status) {
      (*out)->alignment = 1; /* any; what it writes to is nowhere said, as of kernels */
      return MBLOB_OK;
    }
    atomic_fetch_sub_explicit(&instance->users, 1,
                              memory_order_relaxed); /* the module holds another */
    free(b);
  } else {
    status = mb_fail_memory(sizeof(*b));
  }
  if (instance->runtime->release) instance->runtime->release(instance->self, function);
  return status;
}

static void close_module(void *self) { release_instance(self); }

mblob_loader mb_plugin_loader(const mblob_runtime *runtime) {
  return (mblob_loader){.struct_size = sizeof(mblob_loader),
                        .type_key = runtime->type_key,
                        .context = (void *)(uintptr_t)runtime,
                        .open = open_module,
                        .function = find_plugin_function,
                        .close = close_module};
}
