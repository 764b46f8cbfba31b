/* The table of libmblob.so and libmblob.a: with all executors. */
#include "core/call/call.h"
#include "core/library/library.h"
#include "core/plugin/plugin.h"
#include "entry/entry.h"
#include "exec/aot/aot.h"
#include "exec/common/common.h"
#include "exec/contrib/contrib.h"
#include "exec/graph/graph.h"
#include "exec/relax/relax.h"
#include "exec/relay/relay.h"
#include "host_abi/host_abi.h"

const struct mb_profile mb_profile = {
    /* A class is in the file of its name. */
    .classes = {&mb_aot_factory_class, &mb_const_loader_class, &mb_graph_factory_class,
                &mb_graph_runtime_factory_class, &mb_metadata_class, &mb_relax_executable_class,
                &mb_relax_executable_of_0_16_class, &mb_vm_executable_class, NULL},
    .methods = {mb_host_functions, mb_object_functions, relax_memory_functions,
                relax_shape_functions, relax_check_functions, relax_closure_functions,
                relax_executable_functions, mb_sort_functions, mb_random_functions,
                mb_run_functions, NULL},
    .globals = {{"runtime.ADT", mb_vm_adt},
                {"runtime.Load_Executable", mb_vm_load_executable},
                {"runtime.Tuple", mb_vm_tuple},
                {"runtime.SystemLib", mb_system_library_get},
                {"tvm.graph_executor.create", mb_graph_create},
                {"tvm.graph_executor_debug.create", mb_graph_debug_create},
                {"tvm.graph_runtime.create", mb_graph_create},
                {"tvm.graph_runtime_debug.create", mb_graph_debug_create},
                {"", NULL}},
    .symbol = mb_host_symbol,
    .plugin_host = &mb_plugin_host_table,
    .find_device = mb_plugin_find_device,
};
