#include "entry/builtin.h"

#include <pthread.h>
#include <string.h>

#include "exec/aot/factory.h"
#include "exec/common/const_loader.h"
#include "exec/graph/graph_module.h"
#include "host_abi/module_functions.h"
#include "core/native.h"
#include "core/object.h"
#include "core/runtime.h"
#include "core/system_library.h"
#include "host_abi/thread_functions.h"
#include "exec/relay/adt.h"
#include "exec/relay/executable.h"

/* Classes that open payloads; a class is in the file of its name. Ends with NULL. */
static const struct mb_class *const classes[] = {
    &mb_aot_factory_class,
    &mb_const_loader_class,
    &mb_graph_factory_class,
    &mb_graph_runtime_factory_class,
    &mb_metadata_class,
    &mb_vm_executable_class,
    NULL,
};

static const struct {
  char name[32];
  TVMPackedCFunc call;
} functions[] = {
    {"runtime.ADT", mb_vm_adt},
    {"runtime.Load_Executable", mb_vm_load_executable},
    {"runtime.SystemLib", mb_system_library_get},
    {"runtime.Tuple", mb_vm_tuple},
    {"tvm.graph_executor.create", mb_graph_create},
    {"tvm.graph_executor_debug.create", mb_graph_debug_create},
    {"tvm.graph_runtime.create", mb_graph_create},
    {"tvm.graph_runtime_debug.create", mb_graph_debug_create},
};

bool mb_builtin_loader(const char *type_key, mblob_loader *out) {
  for (size_t i = 0; classes[i]; i++)
    if (strcmp(classes[i]->type_key, type_key) == 0) {
      *out = mb_native_loader(classes[i]);
      return true;
    }
  return false;
}

const char *mb_builtin_key(size_t i) { return classes[i] ? classes[i]->type_key : NULL; }

/* Takes the reference over. */
static void register_one(const char *name, mblob_function *function) {
  (void)mb_global_add(name, function, false);
  mblob_function_release(function);
}

static void register_all(void) {
  mblob_function *function = NULL;
  for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
    if (mblob_function_create(functions[i].call, NULL, NULL, &function)) return;
    register_one(functions[i].name, function);
  }
  const struct mb_method *const tables[] = {mb_module_functions, mb_object_functions, mb_thread_functions};
  for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
    for (const struct mb_method *m = tables[i]; m->call; m++) {
      if (mb_method_bind(m, NULL, &function)) return;
      register_one(m->name, function);
    }
}

void mb_builtin_globals(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  (void)pthread_once(&once, register_all);
}
