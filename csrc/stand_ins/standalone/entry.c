/* For entry: what kernels reach and what runs here, in place of entry/profile_full.c. */
#include "entry/entry.h"

/* What kernels reach: slots of the library that lead to these functions, if it has them. */
struct alone_slot {
  char name[36];
  void (*function)(void);
};
#define SLOT(name, function) {"__" #name, (void (*)(void))function}
static const struct alone_slot alone_slots[] = {
    SLOT(TVMFuncCall, mblob_alone_TVMFuncCall),
    SLOT(TVMAPISetLastError, mblob_alone_TVMAPISetLastError),
    SLOT(TVMBackendGetFuncFromEnv, mblob_alone_TVMBackendGetFuncFromEnv),
    SLOT(TVMBackendAllocWorkspace, mblob_alone_TVMBackendAllocWorkspace),
    SLOT(TVMBackendFreeWorkspace, mblob_alone_TVMBackendFreeWorkspace),
    SLOT(TVMBackendParallelLaunch, mblob_alone_TVMBackendParallelLaunch),
    SLOT(TVMBackendParallelBarrier, mblob_alone_TVMBackendParallelBarrier)};

static void *alone_symbol(const char *name) {
  for (size_t i = 0; i < sizeof(alone_slots) / sizeof(*alone_slots); i++)
    if (strcmp(alone_slots[i].name + 2, name) == 0) {
      void *found;
      memcpy(&found, &alone_slots[i].function, sizeof(found));
      return found;
    }
  return NULL;
}
static int alone_no_device(int device_type) {
  (void)device_type;
  return MBLOB_OK;
}

/* What runs here: graphs are made without a class. */
const struct mb_profile mb_profile = {
    .classes =
        {
#ifdef MBLOB_ALONE_CONSTANTS
            &mb_const_loader_class, &mb_metadata_class,
#endif
#ifdef MBLOB_WITH_AOT
            &mb_aot_factory_class,
#endif
#ifdef MBLOB_WITH_RELAY
            &mb_vm_executable_class,
#endif
#ifdef MBLOB_WITH_RELAX
            &mb_relax_executable_class, &mb_relax_executable_of_0_16_class,
#endif
            NULL},
    .methods =
        {
#ifdef MBLOB_WITH_RELAX
#ifdef MBLOB_WITH_FFI
            mb_object_functions, /* its values become objects by them */
#endif
            relax_memory_functions, relax_shape_functions, relax_check_functions,
            relax_closure_functions, relax_executable_functions,
#endif
#ifdef MBLOB_WITH_CONTRIB
            mb_sort_functions, mb_random_functions, mb_run_functions,
#endif
            NULL},
    .symbol = alone_symbol,
#ifdef MBLOB_WITH_FFI
    .plugin_host = &mb_plugin_host_table,
#endif
    .find_device = alone_no_device,
};
