"""Imports inside functions, and those for the types of annotations alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import mblob
from tests.unit.test_layering import HALVES, SOURCES, imports

ANNOTATIONS = "mblob.annotations"
NAMED_TUPLE = "mblob.named_tuple"  # is that of `typing` for those who check types
# Packages that are slow to import, or that may be missing; some of them stand in Python, or in some
# releases of it.
OTHERS = {
    "bz2",
    "lief",
    "lzma",
    "ml_dtypes",
    "numpy",
    "onnx",
    "onnxruntime",
    "tomli",
    "tomllib",
    "tqdm",
    "tvm",
    "tvm_ffi",
}
# What imports pyelftools and pycparser.
READERS = {
    "mblob.binary.dwarf_functions",
    "mblob.packager.functions.pointer_types",
    "mblob.packager.functions.undefined",
    "mblob.packager.modules.prototype_parser",
    "mblob.packager.modules.source_words",
    "mblob.packager.objects.debug_info",
}
# Everything else by the reason why it comes late. Times are of the machine on which Python itself
# takes 12 ms to start.
LATE = {
    "a first result does not wait for `re`, `typing`, `contextlib` and what imports them, 3 to 10 ms": {
        "difflib", "re", "mblob.repack", "mblob.benchmark", "mblob.inspect.payload_layouts", "mblob.json_text",
        "mblob.relax_texts", "mblob.user_warnings",
        "mblob.loader.c_functions", "mblob.loader.call_hooks", "mblob.loader.loaded_module",
        "mblob.loader.relax_missing_functions",
        "mblob.loader.payloads", "mblob.loader.pickled", "mblob.loader.library_sources",
    },
    "2 to 30 ms of Python's own, which a look at a small file does not need": {
        "ast", "concurrent", "ctypes", "hashlib", "importlib", "inspect", "tarfile", "tempfile", "zipfile",
        "mblob.format.dlpack",  # with ctypes
    },
    "2 to 6 ms, for keys that TVM does not have": {"mblob.native", "mblob.native.runtime"},
    "2 to 5 ms, which building a library, and counting what is in it, do not need": {
        "mblob.inspect.contents", "mblob.inspect.diagnostics", "mblob.inspect.inspect_json", "mblob.inspect.models",
        "mblob.inspect.tvm_releases", "mblob.inspect.unloading", "mblob.packager.modules.source_comments",
    },
    "an interrupt is one line from the first moment of `mblob-pack`": {
        "signal", "mblob.cli.command_line", "mblob.cli.late_modules", "mblob.interrupts",
    },
    "the command line imports the module of the verb that runs, and `dataclasses` for models only": {
        "mblob.cli.completion", "mblob.cli.run_model",
    },
    "few libraries are standalone ones, and fewer of them run Relax": {
        "mblob.packager.standalone.parts", "mblob.packager.standalone.relax_outputs",
    },
    "only a link that fails asks for it": {"mblob.packager.objects.fixed_addresses"},
    "pages, C files and sources that are linked first are rare": {
        "mblob.binary.c_text", "mblob.cli.pages", "mblob.inspect.html", "mblob.loader.link_object",
    },
    "made of Tensors, and has what a Tensor can do": {
        "mblob.loader.element_conversion", "mblob.loader.pickled_tensor",
    },
    "10 ms, for a look at a file without programs, which checks nothing": {
        "mblob.inspect.relax_graph", "mblob.inspect.relax_program", "mblob.inspect.relax_summary",
        "mblob.inspect.relay_summary",
        "mblob.inspect.tvm_executor", "mblob.inspect.verification", "mblob.native.programs",
    },
    "compilers do not wait for what links, and reads the finished library": {
        "mblob.inspect.library", "mblob.packager.link.background_copy", "mblob.packager.link.executor_checks",
        "mblob.packager.link.fcompile_export", "mblob.packager.link.linking", "mblob.packager.link.system_lib",
        "mblob.packager.link.read_back", "mblob.packager.modules.relax_parameters",
        "mblob.packager.modules.relax_payload",
    },
    "3 to 14 ms, for sources in Fortran, with vector types or attributes of calls, and for errors": {
        "mblob.packager.compile.call_attributes", "mblob.packager.compile.fortran_tree",
        "mblob.binary.dwarf_fortran", "mblob.packager.functions.fortran_prototypes",
        "mblob.packager.compile.vector_c.own_names",
        "mblob.packager.compile.vector_c.rewrite",
    },
    "20 ms, for libraries that get weights and files, which need nothing that compiles or links": {
        "mblob.packager.edit.add_code", "mblob.packager.link.build",
    },
    "2 to 30 ms, for builds with objects, payloads, plug-ins, code of a finished library, or a rule of make": {
        "mblob.packager.link.carried_plugins", "mblob.packager.link.depfile", "mblob.packager.link.finished_names",
        "mblob.packager.link.linked_engines", "mblob.packager.link.relink",
        "mblob.packager.modules.payload_conversion", "mblob.packager.modules.weights",
    },
    "the face costs nothing": {"mblob.errors"},
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


def test_imports_inside_functions_name_only_what_may_come_late() -> None:
    found = set()
    for module, path in SOURCES.items():
        for _, name in {*imports(path)} - {*imports(path, deferred=False)}:
            is_between = name == "mblob" or half_of(name) not in ("", half_of(module))
            if not is_between:
                found.add(name if name.startswith("mblob") else name.partition(".")[0])
    assert sorted(found - OTHERS - READERS) == sorted(set().union(*LATE.values()))


def test_two_modules_hide_types_from_python() -> None:
    hidden = {m for m, path in SOURCES.items() if "TYPE_CHECKING = " in path.read_text()}
    assert hidden == {ANNOTATIONS, NAMED_TUPLE}


@pytest.mark.compiles
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


def test_payloads_are_added_and_replaced_without_what_compiles_and_links() -> None:
    script = "import sys, mblob.packager.edit.add, mblob.packager.edit.swap\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    rooms = ("mblob.packager.compile.", "mblob.packager.link.")
    assert not [name for name in done.stdout.split() if name.startswith(rooms)]


def test_a_command_loads_pycparser_without_the_modules_that_inspect_needs() -> None:
    script = """
import sys
from mblob.cli.late_modules import load_when_used
load_when_used("dataclasses", "inspect")
import pycparser.c_parser
print("tokenize" in sys.modules)
import inspect
print(inspect.signature(lambda x: None))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    asks_for_more = sys.version_info >= (3, 12)  # `dataclasses` does: for annotations
    assert done.stdout.split() == [str(asks_for_more), "(x)"]


def test_a_command_reads_no_translations_and_its_help_is_the_same() -> None:
    script = """
import sys
if len(sys.argv) > 1:
    from mblob.cli.late_modules import without_translations
    without_translations()
import argparse
parser = argparse.ArgumentParser("x")
parser.add_argument("y", nargs=2)
print(parser.format_help())
try:
    parser.parse_args(["1"])
except SystemExit:
    print("locale" in sys.modules)
"""
    said = [
        subprocess.run([sys.executable, "-c", script, *words], capture_output=True, check=True)
        for words in ([], ["late"])
    ]
    assert [done.stderr for done in said] == [said[0].stderr] * 2
    assert said[0].stdout.split()[:-1] == said[1].stdout.split()[:-1]
    assert said[1].stdout.split()[-1] == b"False"


def test_what_a_command_puts_off_is_loaded_by_a_call() -> None:
    script = """
import sys
from mblob.cli.late_modules import load_when_called
load_when_called("elftools.dwarf.namelut", "elftools.dwarf.lineprogram")
from elftools.dwarf.dwarfinfo import NameLUT
print(type(NameLUT(None, 0, None)).__module__)
print(sys.modules["elftools.dwarf.namelut"].NameLUT is not NameLUT)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["elftools.dwarf.namelut", "True"]
