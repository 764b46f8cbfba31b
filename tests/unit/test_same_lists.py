"""Lists that Python, C and public headers each have, because none of them can read the others: the
same in all."""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest

from mblob import device_types, typed
from mblob.binary import c_text
from mblob.bytes.digest import ALGORITHM_NAMES, ALGORITHMS, SIZES
from mblob.bytes.wire import KEY_LIMIT
from mblob.cli import completion, report
from mblob.cli.build import make_plan
from mblob.cli.command_line import make_parser
from mblob.dtype import FLOAT8_E3M4, OF_DLPACK, SMALL_FLOATS, DataType
from mblob.format import (
    classic,
    exported_functions,
    ffi_dialect,
    note,
    system_library_prefixes,
    type_keys,
)
from mblob.format.own_functions import OWN_FUNCTIONS
from mblob.inspect import tensors
from mblob.inspect.html import headers
from mblob.loader import load, tensor, vm_common
from mblob.native import runtime
from mblob.packager.byoc import relax
from mblob.packager.compile import commands
from mblob.packager.device import modules as device_modules
from mblob.packager.edit import extract
from mblob.packager.link import build, manifest
from mblob.packager.modules import payload_conversion
from mblob.packager.write.dialects import DIALECTS, EMBEDDINGS
from mblob.source_suffixes import LANGUAGE_OF

ROOT = Path(__file__).resolve().parents[2]
VARIABLES = (*system_library_prefixes.BLOBS, *system_library_prefixes.CONTEXTS)


def text(path: str) -> str:
    return (ROOT / path).read_text()


def declared(path: str, name: str) -> str:
    """What stands in the braces of a declaration `NAME[..] = {...};`."""
    return re.split(rf"\b{name}(?:\[\w*\])+ =", text(path))[1].partition(";")[0]


def numbers(*headers: str) -> dict[str, int]:
    """Enumerators of headers that say their numbers."""
    rows = re.findall(r"\b(k\w+) = (\d+)", "".join(map(text, headers)))
    return {name: int(number) for name, number in rows}


# -- devices ---------------------------------------------------------------------------------------


def test_the_c_header_is_what_the_tables_of_devices_make() -> None:
    assert text("csrc/src/base/device_types.h") == device_types.header()


def test_the_header_of_cpp_names_devices_as_python_does() -> None:
    header = text("csrc/include/mblob/compat/tvm/runtime/device_api.h").partition(
        "DLDeviceType2Str"
    )[2]
    rows = re.findall(r'case (\w+): return "(\w+)";', header.partition("default:")[0])
    known = numbers(
        "csrc/include/mblob/dlpack.h", "csrc/include/mblob/compat/tvm/runtime/c_runtime_api.h"
    )
    found = {known[constant]: name for constant, name in rows}
    # TVM's own header has none for DLPack's newest
    assert {**found, known["kDLMAIA"]: "maia"} == device_types.NAMES and len(found) == len(rows)


# -- names of symbols ------------------------------------------------------------------------------


def test_c_leaves_out_the_helpers_that_python_does() -> None:
    body = (
        text("csrc/src/core/library/lookup.c")
        .partition("static bool is_helper(")[2]
        .partition("\n}")[0]
    )
    starts, names = (
        re.findall(r'"(\w+)"', part)
        for part in (body.partition("names[]")[0], body.partition("names[]")[2])
    )
    assert {*starts} == {*exported_functions.OUR_PREFIXES, "_Z"} and exported_functions.is_mangled(
        "_Zx"
    )
    assert sorted(names) == sorted(exported_functions.HELPERS)


def test_the_float16_helpers_of_the_runtime_are_no_functions() -> None:
    helpers = re.findall(r"NAME\((__\w+)\)", text("csrc/src/entry/host_symbols.c"))
    assert len(helpers) == 8 and {*helpers} <= {*exported_functions.HELPERS}


def test_c_and_python_know_the_same_slots() -> None:
    names = re.findall(r'NAME\(\d+, "(\w+)"\)', text("csrc/src/elf/slots.c"))
    assert sorted(names) == sorted(
        (*system_library_prefixes.SLOTS, *system_library_prefixes.CONTEXTS)
    )


def test_no_other_python_file_spells_a_symbol_of_a_dialect() -> None:
    """But rooms that do not import `mblob.format`: the next test."""
    homes = ("mblob/format/blob_model.py", "mblob/format/classic.py", "mblob/format/ffi_dialect.py")
    elsewhere = ("mblob/binary/c_text.py", "packager/compile/commands.py")
    spelled = re.compile(rf"\b({'|'.join(VARIABLES)})\b")
    guilty = []
    for path in (p for f in ("mblob", "packager", "loader") for p in (ROOT / f).rglob("*.py")):
        place, code = str(path.relative_to(ROOT)), path.read_text()
        if place in (*homes, *elsewhere) or not spelled.search(code):
            continue
        for node in ast.walk(ast.parse(code)):
            found = node.value if isinstance(node, ast.Constant) else None
            is_text = (
                isinstance(found, str) and "\n" not in found and "`" not in found
            )  # no docstring
            if is_text and spelled.search(str(found)):
                guilty.append(f"{place}:{node.lineno}: {found}")  # type: ignore[attr-defined]
    assert guilty == []


def test_c_text_is_searched_for_the_symbols_of_the_dialects() -> None:
    for name in system_library_prefixes.BLOBS:
        assert c_text._DEFINITION.search(f"unsigned char p_{name}[3] = {{".encode())
    for name in system_library_prefixes.CONTEXTS:
        assert c_text._CONTEXT.search(f"void* p_{name} = 0;".encode())
    assert commands._OWN_CONTEXT.search(f"void* {classic.CONTEXT} = NULL;")
    known = {*VARIABLES, ffi_dialect.CONTEXT.replace("i__", "i__?")}
    found = {n.decode() for n in (c_text._SYMBOLS + b"|" + c_text._CONTEXTS).split(b"|")}
    assert found <= known


def test_c_spells_the_symbols_of_the_dialects_as_python_does() -> None:
    found: set[str] = set()
    for path in (ROOT / "csrc").rglob("*.[ch]"):
        if "build" not in path.relative_to(ROOT).parts:
            found |= {*re.findall(r'"(__tvm_\w*(?:_ctx|_bin|_mblob))"', path.read_text())}
    assert found == {*VARIABLES}


# -- floats of 8 bits or less ----------------------------------------------------------------------

# Those of TVM 0.15 to 0.19, which have DLPack's numbers of other types, and what DLPack calls them.
OF_TVM = {"e4m3_float8": "float8_e4m3fn", "e5m2_float8": "float8_e5m2"}
# C files that turn numbers of the one into numbers of the other, and where they have TVM's.
TURNING = (
    "csrc/src/base/dtype.c",
    "loader/_call/dtype.c",
    "packager/functions/adapters.h",
    "csrc/plugins/ffi/abi.h",
)
CPP_TYPES = "csrc/include/mblob/compat/tvm/runtime/data_type.h"
OWN_CODES = {
    ("csrc/include/mblob/plugin.h", "MBLOB_FLOAT8_E3M4"),
    ("csrc/src/base/argument_types.h", "MB_FLOAT8_E3M4"),
    ("csrc/plugins/ffi/abi.h", "MB_FLOAT8_E3M4"),
}


def test_the_headers_number_small_floats_as_the_table_does() -> None:
    dlpack = numbers("csrc/include/mblob/dlpack.h")
    small = re.compile("kDLF(loat[468]_.*)|kDLB(ool)")
    found = {
        m[0][3].lower() + m[m.lastindex or 0]: n
        for k, n in dlpack.items()
        if (m := small.fullmatch(k))
    }
    table = {**SMALL_FLOATS, **OF_DLPACK}
    assert found == {name: code for name, (code, _) in table.items() if name not in OF_TVM}
    header = text(CPP_TYPES)
    codes = dict(re.findall(r"(kE\w+Float) = (\d+)", header))
    rows = re.findall(r'\{"(\w+)", (?:DataType::)?(\w+), ([1-9]\d*)\}', header)
    assert {
        name: (int(codes.get(code, code)), int(bits)) for name, code, bits in rows
    } == SMALL_FLOATS


def test_each_c_file_with_numbers_of_small_floats_has_those_of_the_table() -> None:
    of_tvm = {(name[:4].upper(), str(SMALL_FLOATS[name][0])) for name in OF_TVM}
    found, own = {}, {}
    for path in (p for f in ("csrc", "loader", "packager") for p in (ROOT / f).rglob("*.[ch]")):
        if path.parent.name == "_lib" or "build" in path.relative_to(ROOT).parts:  # made of csrc
            continue
        place, code = path.relative_to(ROOT).as_posix(), path.read_text()
        if codes := re.findall(r"(E4M3|E5M2)(?:_FLOAT8|Float)? (?:= )?(\d+)", code):
            found[place] = {*codes}
        for macro, number in re.findall(r"#define (\w*FLOAT8_E3M4) (\d+)", code):
            own[place, macro] = int(number)
    headers = {CPP_TYPES, *(path for path, name in OWN_CODES if name.startswith("MB_"))}
    assert found == dict.fromkeys(headers, of_tvm)
    assert own == dict.fromkeys(OWN_CODES, FLOAT8_E3M4)


def test_small_floats_of_tvm_are_the_same_of_dlpack_everywhere() -> None:
    pairs = {(tvm[:4].upper(), f"kDLF{dlpack[1:]}") for tvm, dlpack in OF_TVM.items()}
    for path in TURNING:
        found = re.findall(r"(E4M3|E5M2)(?:_FLOAT8)?\b[^;:]{0,30}?(kDLFloat8_\w+)", text(path))
        assert {*found} == pairs, path
    same = {DataType.parse(tvm): DataType.parse(dlpack) for tvm, dlpack in OF_TVM.items()}
    assert tensor._TVM_NAMES == OF_TVM and same == tensors._CODES_OF_CLASSIC
    turned = {SMALL_FLOATS[tvm]: SMALL_FLOATS[dlpack] for tvm, dlpack in OF_TVM.items()}
    turned |= {(1, 1): OF_DLPACK["bool"], SMALL_FLOATS["float8_e3m4"]: OF_DLPACK["float8_e3m4"]}
    assert turned == payload_conversion._TYPES


# -- numbers ---------------------------------------------------------------------------------------


def test_c_numbers_digests_and_limits_keys_as_python_does() -> None:
    found = re.findall(r"MB_DIGEST_(\w+) = (\d)", text("csrc/src/format/blob.h"))
    assert {name.lower(): int(number) for name, number in found} == ALGORITHMS
    sizes = re.findall(r"\[MB_DIGEST_(\w+)\] = (\d+)", text("csrc/src/format/index.c"))
    assert {ALGORITHMS[name.lower()]: int(size) for name, size in sizes} == SIZES
    checked = re.findall(r"case MB_DIGEST_(\w+):", text("csrc/src/format/index.c"))
    assert {"NONE", *checked} == {name for name, _ in found}
    limit = re.search(r"MB_KEY_LIMIT\b[ =]+(\d+)", text("csrc/src/base/bytes.h"))
    assert limit is not None and int(limit[1]) == KEY_LIMIT


def test_reports_know_each_digest() -> None:
    assert {*headers._CHOICES["digest algorithm"]} == {*ALGORITHM_NAMES}
    schema = json.loads(text("mblob/inspect/inspect-1.schema.json"))
    [taken] = {tuple(found["enum"]) for found in _properties(schema, "digest_algorithm")}
    assert {"none", *taken} == {*ALGORITHMS}  # without a digest there is no algorithm either


def _properties(schema: Any, name: str) -> Iterator[Any]:
    """The declarations of a property, wherever they stand."""
    items = schema.values() if isinstance(schema, dict) else schema
    if isinstance(schema, dict) and name in schema.get("properties", {}):
        yield schema["properties"][name]
    for item in items if isinstance(schema, (dict, list)) else ():
        yield from _properties(item, name)


def test_c_knows_the_flags_of_notes_that_python_does() -> None:
    found = re.findall(r"#define MB_NOTE_(HAS_\w+) (\d+)u", text("csrc/src/elf/elf.h"))
    flags = {name: flag for name, flag in vars(note).items() if name.startswith("HAS_")}
    assert {name: int(flag) for name, flag in found} == flags


def test_an_opening_shares_a_tree_only_with_the_same_options() -> None:
    source = text("csrc/src/core/library/module.c")
    compared = source.partition("static bool same_loader(")[2].partition("mb_tree_take_over(")[0]
    header = text("csrc/include/mblob.h")
    # Each opening verifies the file itself; what is unloaded is a matter of the library.
    of_others = {"struct_size", "verify", "unload", "loaders", "loader_count"}
    for struct, others in ("mblob_open_options", of_others), ("mblob_loader", {"struct_size"}):
        body = re.search(rf"typedef struct {struct} {{(.*?)\n}} {struct};", header, re.DOTALL)
        assert body is not None
        plain = re.sub(r"/\*.*?\*/", "", body[1], flags=re.DOTALL)
        members = re.findall(r"(?:\(\*(\w+)\)\([^;]*|(\w+));", plain)
        named = {a or b for a, b in members} - others
        assert named and all(re.search(rf"->{name}\b", compared) for name in named), named


def test_plug_ins_can_say_each_code_of_an_argument_and_python_has_its_classes() -> None:
    codes = dict(re.findall(r'#define (MB_ARGUMENT_\w+) "(\w+)"', text("csrc/src/base/error.h")))
    kept = declared("csrc/src/base/error.c", "codes")
    assert set(re.findall(r"MB_ARGUMENT_\w+", kept)) == set(codes)
    assert set(runtime._CLASSES) == set(codes.values())


# -- the command line ------------------------------------------------------------------------------

# It does not import the packager before a verb runs.
CHOICES = {
    ("build", "--dialect"): DIALECTS,
    ("build", "--embed"): EMBEDDINGS,
    ("build", "--digest"): ALGORITHMS,
    ("standalone", "--dialect"): DIALECTS,
    ("standalone", "--embed"): EMBEDDINGS,
    ("standalone", "--digest"): ALGORITHMS,
    ("import", "--engine"): relax._PLUG_INS,
    ("convert", "--dialect"): DIALECTS,
    ("extract", "--format"): extract.FORMATS,
    ("run", "--assume"): load.ASSUME,
    ("verify", "--level"): set(classic.LEVELS) - {"off"},
    ("completion", "shell"): completion.SHELLS,
}


def choices() -> Iterator[tuple[str, str, set[str]]]:
    """Verb, option and what it takes."""
    [verbs] = (a for a in make_parser()._actions if isinstance(a, argparse._SubParsersAction))
    for verb, parser in verbs.choices.items():
        for action in parser._actions:
            if action.choices is not None:
                yield verb, (*action.option_strings, action.dest)[0], {*action.choices}


def test_options_take_what_the_functions_take() -> None:
    found = {(verb, option): taken for verb, option, taken in choices()}
    assert found == {place: {*taken} for place, taken in CHOICES.items()}


LITERALS = {
    "Dialect": DIALECTS, "Embed": EMBEDDINGS, "Digest": ALGORITHMS, "Level": classic.LEVELS, "Missing": load.MISSING,
    "Assume": load.ASSUME, "SourceFormat": LANGUAGE_OF, "TensorFormat": extract.FORMATS,
    "DeviceCode": device_modules._ENCODERS, "Allocator": vm_common.ALLOCATORS,
}  # fmt: skip


@pytest.mark.parametrize("name", LITERALS)
def test_type_checkers_take_the_values_that_the_functions_take(name: str) -> None:
    assert {*get_args(getattr(typed, name))} == {*LITERALS[name]}


def test_every_literal_type_is_compared() -> None:
    assert {n for n, v in vars(typed).items() if get_origin(v) is Literal} == {*LITERALS}
    assert load.VERIFY.keys() == {*classic.LEVELS}


# Each option of `export_library` that `build` has: a value, and what says it on the command line and
# in a manifest. Here is none that `build` lacks.
OPTIONS: dict[str, tuple[object, list[str], str]] = {
    "dialect": ("ffi", ["--dialect", "ffi"], '"ffi"'),
    "embed": ("object", ["--embed", "object"], '"object"'),
    "index": (False, ["--no-index"], "false"),
    "digest": ("sha256", ["--digest", "sha256"], '"sha256"'),
    "cc": ("gcc", ["--cc", "gcc"], '"gcc"'),
    "target": ("arm-linux", ["--target", "arm-linux"], '"arm-linux"'),
    "options": (["-O1"], ["--", "-O1"], '["-O1"]'),
    "system_lib": (True, ["--system-lib"], "true"),
    "prefix": ("p_", ["--prefix", "p_"], '"p_"'),
    "standalone": (True, ["--standalone"], "true"),
    "header": (Path("/no/h.h"), ["--header", "/no/h.h"], '"/no/h.h"'),
    "shapes": ({"x": "int8[2]"}, ["--shape", "x=int8[2]"], '{x = "int8[2]"}'),
    "carry": (["opencl"], ["--carry", "opencl"], '["opencl"]'),
    "reuse": (False, ["--no-reuse"], "false"),
}
# Options of `build` that no argument in Python is named for.
OF_BUILD = {
    "help",
    "quiet",
    "json",
    "output",
    "kernel",
    "object",
    "depfile",
    "no-functions",
}


def test_every_option_of_export_library_is_one_of_build() -> None:
    assert {*OPTIONS} == {*typed.BuildOptions.__annotations__, *typed.ExportOptions.__annotations__}
    assert {*OPTIONS} <= {*build.BuildPlan._fields} & {*report._ARGUMENTS}
    [said] = re.findall(r"cc, target, [\w, ]*:", str(build.BuildPlan.__doc__))
    assert {*re.findall(r"\w+", said)} == {*OPTIONS} - {"options", "carry"}


@pytest.mark.parametrize("where", ["flags", "manifest"])
def test_every_option_of_build_reaches_export_library(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, object] = {}
    monkeypatch.setattr(build, "export_library", lambda module, path, **how: given.update(how))
    written = tmp_path / "m.toml"
    rows = "".join(f"{name} = {row}\n" for name, (_, _, row) in OPTIONS.items())
    written.write_text(f'output = "o.a"\nkernels = ["k.c"]\n{rows}')
    (tmp_path / "k.c").touch()
    if where == "manifest":
        plan = manifest.load(written)
    else:
        words = [word for _, row, _ in OPTIONS.values() for word in row if row[0] != "--"]
        kernel = ["--kernel", str(tmp_path / "k.c"), "-o", str(tmp_path / "o.a")]
        args = make_parser().parse_args(["build", *kernel, *words])
        args.cflags = OPTIONS["options"][0]
        plan = make_plan(args)
    build.build(plan)
    assert given == {name: value for name, (value, _, _) in OPTIONS.items()}


def test_errors_name_the_options_of_build() -> None:
    [verbs] = (a for a in make_parser()._actions if isinstance(a, argparse._SubParsersAction))
    flags = {flag for flag in verbs.choices["build"]._option_string_actions if flag[:2] == "--"}
    assert flags - {*report._ARGUMENTS.values()} == {f"--{name}" for name in OF_BUILD}


@pytest.mark.parametrize(
    ("source", "key"),
    [
        ("graph/factory", type_keys.GRAPH_FACTORY),
        ("aot/factory", type_keys.AOT_FACTORY),
        ("relax/executable", type_keys.RELAX_EXECUTABLE),
        ("relay/executable", type_keys.RELAY_EXECUTABLE),
    ],
)
def test_python_knows_the_functions_of_models_that_c_has(source: str, key: str) -> None:
    text = (ROOT / "csrc" / "src" / "exec" / f"{source}.c").read_text()
    table = re.search(r"struct mb_method \w*methods\[\] = \{(.*?)\};", text, re.DOTALL)
    assert table and tuple(re.findall(r'\{"(\w+)"', table[1])) == OWN_FUNCTIONS[key]


def test_the_page_lists_the_suffixes_of_all_inputs() -> None:
    from mblob.cli.inputs import OPTION_OF
    from mblob.source_suffixes import FORMAT_OF, SOURCES

    page = (ROOT / "docs/howto/pack.md").read_text()
    table = page.partition("| input | packed as |")[2].partition("\n\n")[0]
    listed = {
        s
        for row in table.splitlines()
        for s in re.findall(r"`(\.[\w.+]+)`", row.partition(" | ")[0])
    }
    of_archives = {".tar.gz", ".tar.bz2", ".tar.xz"}
    assert listed == {*FORMAT_OF, *(OPTION_OF.keys() - set(SOURCES)), *of_archives}
