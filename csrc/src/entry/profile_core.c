/* The table of libmblob-core.a: no executors. Kernels, system libraries, loaders and plug-ins
 * work as with libmblob.a. */
#include "core/call/call.h"
#include "core/library/library.h"
#include "core/plugin/plugin.h"
#include "entry/entry.h"
#include "host_abi/host_abi.h"

/* What profile_full.c has; a test compares. */
static const char elsewhere[] = MB_KEY_AOT_FACTORY
    "," MB_KEY_CONST_LOADER "," MB_KEY_GRAPH_FACTORY "," MB_KEY_GRAPH_RUNTIME_FACTORY
    "," MB_KEY_METADATA "," MB_KEY_RELAX_EXECUTABLE "," MB_KEY_RELAX_EXECUTABLE_OF_0_16
    "," MB_KEY_RELAY_EXECUTABLE
    ","
    "runtime.ADT,runtime.Load_Executable,runtime.Tuple,tvm.graph_executor.create,tvm.graph_executor_debug.create,"
    "tvm.graph_runtime.create,tvm.graph_runtime_debug.create\0"
    "libmblob-core.a has no executors: link libmblob.a in its place\0";

const struct mb_profile mb_profile = {
    .methods = {mb_host_functions, mb_object_functions, NULL},
    .globals = {{"runtime.SystemLib", mb_system_library_get}},
    .symbol = mb_host_symbol,
    .plugin_host = &mb_plugin_host_table,
    .find_device = mb_plugin_find_device,
    .elsewhere = elsewhere,
};
