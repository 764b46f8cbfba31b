/* The table of libmblob.so, libmblob.a and mblob.c: with the executors that base/profile.h tells, in
 * libmblob all of them. */
#include "base/base.h"
#include "core/call/call.h"
#include "core/library/library.h"
#include "core/plugin/plugin.h"
#include "entry/entry.h"
#include "host_abi/host_abi.h"

#ifdef MB_WITH_EXECUTORS
#include "exec/common/common.h"
#define COMMON_CLASSES &mb_const_loader_class, &mb_metadata_class,
#define COMMON_ELSEWHERE
#else
#define COMMON_CLASSES
#define COMMON_ELSEWHERE                  \
  MB_KEY_CONST_LOADER "," MB_KEY_METADATA \
                      "\0compile mblob.c with an executor, such as -DMBLOB_WITH_GRAPH\0"
#endif

#ifdef MBLOB_WITH_GRAPH
#include "exec/graph/graph.h"
#define GRAPH_CLASSES &mb_graph_factory_class, &mb_graph_runtime_factory_class,
#define GRAPH_GLOBALS                                                                            \
  {"tvm.graph_executor.create", mb_graph_create}, {"tvm.graph_runtime.create", mb_graph_create}, \
      {"tvm.graph_executor_debug.create", mb_graph_debug_create},                                \
      {"tvm.graph_runtime_debug.create", mb_graph_debug_create},
#define GRAPH_ELSEWHERE
#else
#define GRAPH_CLASSES
#define GRAPH_GLOBALS
#define GRAPH_ELSEWHERE            \
  MB_KEY_GRAPH_FACTORY             \
  "," MB_KEY_GRAPH_RUNTIME_FACTORY \
  ",tvm.graph_executor.create,tvm.graph_runtime.create,tvm.graph_executor_debug.create,tvm.graph_runtime_debug.create\0compile mblob.c with -DMBLOB_WITH_GRAPH\0"
#endif

#ifdef MBLOB_WITH_AOT
#include "exec/aot/aot.h"
#define AOT_CLASSES &mb_aot_factory_class,
#define AOT_ELSEWHERE
#else
#define AOT_CLASSES
#define AOT_ELSEWHERE MB_KEY_AOT_FACTORY "\0compile mblob.c with -DMBLOB_WITH_AOT\0"
#endif

#ifdef MBLOB_WITH_RELAY
#include "exec/relay/relay.h"
#define RELAY_CLASSES &mb_vm_executable_class,
#define RELAY_GLOBALS                                                             \
  {"runtime.ADT", mb_vm_adt}, {"runtime.Load_Executable", mb_vm_load_executable}, \
      {"runtime.Tuple", mb_vm_tuple},
#define RELAY_ELSEWHERE
#else
#define RELAY_CLASSES
#define RELAY_GLOBALS
#define RELAY_ELSEWHERE   \
  MB_KEY_RELAY_EXECUTABLE \
  ",runtime.ADT,runtime.Load_Executable,runtime.Tuple\0compile mblob.c with -DMBLOB_WITH_RELAY\0"
#endif

#ifdef MBLOB_WITH_RELAX
#include "exec/relax/relax.h"
#define RELAX_CLASSES &mb_relax_executable_class, &mb_relax_executable_of_0_16_class,
#define RELAX_METHODS                                                                            \
  relax_memory_functions, relax_shape_functions, relax_check_functions, relax_closure_functions, \
      relax_executable_functions,
#define RELAX_ELSEWHERE
#else
#define RELAX_CLASSES
#define RELAX_METHODS
#define RELAX_ELSEWHERE                                       \
  MB_KEY_RELAX_EXECUTABLE "," MB_KEY_RELAX_EXECUTABLE_OF_0_16 \
                          "\0compile mblob.c with -DMBLOB_WITH_RELAX\0"
#endif

#ifdef MBLOB_WITH_CONTRIB
#include "exec/contrib/contrib.h"
#define CONTRIB_METHODS mb_sort_functions, mb_random_functions, mb_run_functions,
#else
#define CONTRIB_METHODS
#endif

/* Hints for what is not here; nothing in libmblob. */
static const char elsewhere[] =
    COMMON_ELSEWHERE GRAPH_ELSEWHERE AOT_ELSEWHERE RELAY_ELSEWHERE RELAX_ELSEWHERE "\0";

const struct mb_profile mb_profile = {
    /* A class is in the file of its name. */
    .classes = {COMMON_CLASSES GRAPH_CLASSES AOT_CLASSES RELAY_CLASSES RELAX_CLASSES NULL},
    .methods = {mb_host_functions, mb_object_functions, RELAX_METHODS CONTRIB_METHODS NULL},
    .globals = {RELAY_GLOBALS{"runtime.SystemLib", mb_system_library_get}, GRAPH_GLOBALS{"", NULL}},
    .symbol = mb_host_symbol,
    .plugin_host = &mb_plugin_host_table,
    .find_device = mb_plugin_find_device,
    .elsewhere = elsewhere,
};
