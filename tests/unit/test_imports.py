"""What is imported inside functions, and what for the types of annotations."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import mblob
from tests.unit.test_layering import HALVES, HEAVY, SOURCES, imports

ANNOTATIONS = "mblob.annotations"
# Packages that are slow to import, or that may be missing.
OTHERS = {"argcomplete", "lief", "ml_dtypes", "numpy", "pycparser", "tomli", "tqdm", "tvm_ffi"}
# The same of Python's own: a look at a small file, and a first call, need none.
STANDARD = {
    *HEAVY, "bz2", "ctypes", "difflib", "functools", "importlib", "json", "lzma", "pickle", "platform", "re", "shlex",
    "signal", "tomllib", "zipfile",
}  # fmt: skip
# Modules of ours, or whole layers, by the reason why they come late.
OURS = {
    "only for files that are no ELF files": {"mblob.binary.c_text", "mblob.binary.mach_o", "mblob.binary.pe"},
    "a look at a library imports what the library makes it need": {
        "mblob.inspect", "mblob.inspect.html", "mblob.native"
    },
    "only for functions without a prototype": {"mblob.binary.dwarf_functions"},
    "runs a compiler, for libraries that are not linked yet": {"mblob.loader.link_object"},
    "has what a Tensor can do, made of Tensors": {"mblob.loader.conversion", "mblob.loader.pickled_tensor"},
    "a large blob is on its way to the file, or compilers run, while it is imported": {
        "mblob.packager.compile.toolchain", "mblob.packager.functions.wrappers", "mblob.packager.link",
        "mblob.packager.modules.reexpress", "mblob.packager.modules.weights", "mblob.packager.objects.debug_info",
        "mblob.packager.write.devc_c", "mblob.packager.write.elf_writer",
    },
    "only for sources with vector types, or attributes of calls": {
        "mblob.packager.compile.call_attributes", "mblob.packager.compile.vector_c",
    },
    "reads programs of Relax": {"mblob.packager.modules.relax_payload"},
    "writes what the module that imports it describes": {"mblob.packager.join.merged_file"},
}  # fmt: skip
FIRST_RESULT = """
import sys
before = set(sys.modules)
import mblob
assert mblob.load_module(sys.argv[1])["one"](1) == 2
print(*set(sys.modules) - before)
"""


def half_of(module: str) -> str:
    """The packager, the loader, or "" of all else."""
    return next((half for half in HALVES if module.startswith(f"mblob.{half}")), "")


def imported_by_a_first_result(folder: Path) -> set[str]:
    (folder / "k.c").write_text("int one(int x) { return x + 1; }\n")
    host = mblob.csource_module(folder / "k.c", functions=["int one(int x)"])
    host.export_library(folder / "k.so")
    command = [sys.executable, "-c", FIRST_RESULT, str(folder / "k.so")]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_imports_inside_functions_name_only_what_may_come_late(tmp_path: Path) -> None:
    road = imported_by_a_first_result(tmp_path)
    found = set()
    for module, path in SOURCES.items():
        # A first result does not wait for what only other uses of its modules need, nor the command
        # line for what its verbs do.
        is_short = module in road or module.startswith("mblob.cli.")
        for _, name in {*imports(path)} - {*imports(path, deferred=False)}:
            is_between = name == "mblob" or half_of(name) not in ("", half_of(module))
            if not name.startswith("mblob"):
                found.add(name.partition(".")[0])
            elif not is_short and not is_between:
                found.add(name)
    late = OTHERS | STANDARD | set().union(*OURS.values())
    assert {name for name in found if not {name, name.rpartition(".")[0]} & late} == set()


def test_no_module_but_one_hides_types_from_python() -> None:
    hidden = {m for m, path in SOURCES.items() if "TYPE_CHECKING = " in path.read_text()}
    assert hidden == {ANNOTATIONS}


def test_a_first_result_imports_neither_typing_nor_numpy_nor_re(tmp_path: Path) -> None:
    road = imported_by_a_first_result(tmp_path)
    assert (
        not {
            "typing",
            "collections",
            "numpy",
            "re",
            "enum",
            "functools",
            "dataclasses",
            "contextlib",
        }
        & road
    )
    takes = {m for m, path in SOURCES.items() if f"from {ANNOTATIONS} import" in path.read_text()}
    assert takes <= road  # all others take their types from `typing`
