"""The Python names as pages of the site, one for each task; Sphinx reads their docstrings."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import mblob

GROUPS = {
    "Load and call": (
        "load_module", "system_lib", "Module", "PackedFunction", "register_loader", "register_func",
        "get_global_func", "packed_function", "list_global_func_names", "remove_global_func",
    ),
    "Tensors and devices": (
        "Tensor", "Shape", "array", "empty", "from_dlpack", "save_tensors", "save_param_dict",
        "load_param_dict", "Device", "device", "cpu", "cuda", "opencl",
    ),
    "Run models": ("graph_executor", "graph_runtime", "aot_executor", "vm", "relax"),
    "Pack": (
        "csource_module", "static_library", "device_module", "safetensors_module", "blob_module",
        "json_module", "const_loader_module", "graph_executor_factory", "GraphBuilder", "export_library",
    ),
    "Look and compare": ("open", "Library", "verify", "diff"),
    "Change what is packed": ("add", "swap", "extract", "strip_index", "add_index", "convert", "standalone"),
    "Bring your own codegen": ("partition_graph", "register_codegen", "byoc"),
    "Compile C programs": ("get_amalgamation", "get_include", "get_library_dir"),
    "What these give": (),
    "Errors and warnings": (
        "MblobError", "ArgumentError", "FormatError", "DigestError", "IncompatibleError", "LoaderMissingError",
        "NotFoundError", "KernelError", "BuildError", "ToolchainError", "PortabilityWarning",
        "UnreadableWarning", "HiddenNameWarning",
    ),
}  # fmt: skip
# Classes of results. They are reached through the names above; where they are may change.
RESULTS = (
    "mblob.name_mappings.Signature", "mblob.loader.loaders.LoaderContext",
    "mblob.inspect.entry_view.EntryView", "mblob.inspect.verification.Verification",
    "mblob.inspect.verification.CheckedEntry", "mblob.inspect.linkage.Linkage",
    "mblob.inspect.linkage.Reference", "mblob.inspect.linkage.MissingLibrary",
    "mblob.inspect.linkage.MissingVersion",
    "mblob.inspect.difference.Difference", "mblob.inspect.difference.EntryChange",
    "mblob.inspect.difference.ItemChange", "mblob.inspect.largest_difference.LargestDifference",
    "mblob.inspect.difference.Change", "mblob.format.exported_functions.HostFunction",
    "mblob.format.plugin_table.Plugin", "mblob.inspect.tvm_releases.Releases",
    "mblob.inspect.tvm_releases.Fact", "mblob.inspect.tensors.StoredTensor",
    "mblob.inspect.contents.DecodedPayload", "mblob.format.grammar.FunctionInfo", "mblob.dtype.DataType",
    "mblob.dtype.TypeName", "mblob.loader.handle.Handle",
    "mblob.format.ndarray.ArrayRecord", "mblob.packager.byoc.graph.Node",
    "mblob.packager.byoc.annotate.Tensors", "mblob.packager.byoc.patterns.Pattern",
    "mblob.packager.byoc.patterns.OpPattern",
)  # fmt: skip
INTRODUCTION = """# Python: import mblob

For programs in Python. Every name is an attribute of `mblob`; [what stays from release to
release](../compatibility.md) says what is promised about them. `mblob.__version__` is the version,
as text.
"""


def pages() -> dict[str, str]:
    """The pages by the ends of their names, as Markdown: "" is the list of the others."""
    placed = {name for names in GROUPS.values() for name in names}
    groups = dict(GROUPS)
    if more := sorted(set(mblob.__all__) - placed - {"__version__"}):
        groups["More"] = tuple(more)
    made = {"": ""}
    lists = []
    for title, names in groups.items():
        end = f"_{title.lower().replace(' ', '_')}"
        made[end] = "\n".join(
            [f"# {title}", "", "```{eval-rst}", *_entries(title, names), "```", ""]
        )
        shown = ", ".join(f"{{py:obj}}`{name} <mblob.{name}>`" for name in names)
        lists.append(f"* [{title}](python{end}.md): {shown or 'classes of results'}")
    toc = ["```{toctree}", ":hidden:", "", *(f"python{end}" for end in made if end), "```", ""]
    made[""] = "\n".join([INTRODUCTION, *lists, "", *toc])
    return made


def _entries(title: str, names: tuple[str, ...]) -> list[str]:
    lines = [line for name in names for line in _directives(name, getattr(mblob, name))]
    for full in RESULTS if title == "What these give" else ():
        lines += ["", f".. autoclass:: {full}", "   :members:"]
    return lines


def public_names(module: ModuleType) -> list[str]:
    """The public names of a module of ours: those that it defines itself, in its order."""
    own = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and getattr(value, "__module__", None) == module.__name__
        and (inspect.isclass(value) or inspect.isfunction(value))
    ]
    return list(getattr(module, "__all__", own))


def _directives(name: str, value: Any) -> list[str]:
    full = f"mblob.{name}"
    if isinstance(value, ModuleType):
        other = value.__name__.rpartition(".")[2]
        if other != name.rpartition(".")[2]:  # a second name of one
            return [
                "",
                f".. py:module:: {full}",
                "",
                f"   Another name of :py:mod:`mblob.{other}`.",
            ]
        lines = ["", f".. py:module:: {full}", "", *_text(value)]
        for inner in public_names(value):
            if f"mblob.{inner}" != full and inner not in mblob.__all__:
                lines += _directives(f"{name}.{inner}", getattr(value, inner))
        return lines
    if not inspect.isclass(value):
        return ["", f".. autofunction:: {full}"]
    if issubclass(value, BaseException):
        return ["", f".. autoexception:: {full}", "   :members:"]
    options = ["   :members:", "   :undoc-members:", "   :inherited-members: dict, tuple, Sequence"]
    return ["", f".. autoclass:: {full}", *options]


def _text(module: ModuleType) -> list[str]:
    return [inspect.getdoc(module) or "", ""]
