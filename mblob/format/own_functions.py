"""Functions that modules of models have themselves, under TVM's names. A library finds these before functions
of its code."""

from __future__ import annotations

from mblob.format.type_keys import AOT_FACTORY, GRAPHS, RELAX_EXECUTABLES, RELAY_EXECUTABLE

GRAPH_FUNCTIONS = (
    "debug_create",
    "cuda_graph_create",
    "get_graph_json",
    "get_graph_params",
    "remove_params",
)
OWN_FUNCTIONS = {
    **dict.fromkeys(GRAPHS, GRAPH_FUNCTIONS),
    AOT_FACTORY: ("remove_params", "list_module_names"),
    **dict.fromkeys(
        RELAX_EXECUTABLES,
        (
            "vm_load_executable",
            "vm_profiler_load_executable",
            "as_text",
            "as_python",
            "stats",
            "has_function",
            "get_function_names",
            "get_missing_functions",
        ),
    ),
    RELAY_EXECUTABLE: (
        "vm_load_executable",
        "load_late_bound_consts",
        "load_late_bound_consts_from_map",
        "move_late_bound_consts",
        "get_late_bound_consts",
        "get_lib",
        "save",
        "get_function_arity",
        "get_function_param_name",
        "get_bytecode",
        "get_stats",
        "get_constants",
        "get_primitives",
        "get_virtual_devices",
        "get_function_names",
        "get_primitive_names",
    ),
}
