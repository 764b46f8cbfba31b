"""Argument types stand in one table (`mblob/argument_types.py`): each of its names works in a
prototype, in a call from Python and in one from C."""

from __future__ import annotations

import ast
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob import argument_types
from mblob.argument_types import OF_LIBRARIES, POINTER_SIZED, TABLE
from mblob.compilers import include_flags
from mblob.dtype import LAST_CODE, SMALL_FLOATS
from mblob.loader.prototype import check
from mblob.native.runtime import ffi, lib
from mblob.packager.functions import checks
from mblob.packager.functions.wrappers import packed_forms
from mblob.packager.write.dialects import DIALECTS, Dialect

ROOT = Path(__file__).resolve().parents[3]
PASSED = [row for row in TABLE if row.passed]
# Every name of a number that can be passed, and the word of its row.
NAMES = {name: row.word for row in PASSED for name in (row.c, *row.aliases, *row.others)}
NAMES |= {name: f"{kind}64" for name, kind in POINTER_SIZED.items()}
# As wide as the C library of this process has them.
BITS = {name: 8 * ffi.sizeof(name) for name in OF_LIBRARIES}
NAMES |= {name: f"{kind}{BITS[name]}" for name, kind in OF_LIBRARIES.items()}
# Words that C takes in any order.
NAMES |= {n: "uint64" for n in ("unsigned long", "long unsigned int", "unsigned long int long")}
# How C passes it through `...`.
VARIADIC = {
    "AS_INT": "int",
    "AS_UNSIGNED": "unsigned",
    "AS_INT64": "int64_t",
    "AS_UINT64": "uint64_t",
    "AS_DOUBLE": "double",
}
ALL_BITS = "expected an int from 0 to 2**64 - 1"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> mblob.Module:
    """`same_T` gives back a number, `first_T` the first of an array."""
    code = [
        "#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <sys/types.h>"
    ]
    code += ["typedef float float32_t; typedef double float64_t;"]
    prototypes = []
    for name in NAMES:
        suffix = name.replace(" ", "_")
        own = [f"{name} same_{suffix}({name} x)", f"{name} first_{suffix}(const {name} *x)"]
        code += [f"{own[0]} {{ return x; }}", f"{own[1]} {{ return *x; }}"]
        prototypes += own
    path = tmp_path_factory.mktemp("types") / "types.so"
    source = mblob.csource_module("\n".join(code), functions=prototypes)
    source.export_library(path)
    return mblob.load_module(path)


def call_of_c(library: mblob.Module, function: str, word: str, value: Any) -> str:
    """What `mblob_call` says of a call, "" if it went well."""
    row = next(row for row in TABLE if row.word == word)
    passed = ffi.cast(VARIADIC[row.passed], value)
    handle = library._node.handle  # type: ignore[attr-defined]
    status = lib.mblob_call(handle, function.encode(), word.encode(), passed)
    return ffi.string(lib.mblob_last_error()).decode() if status else ""


@pytest.mark.parametrize("name", NAMES)
def test_a_number_of_each_type_is_passed_from_python_and_from_c(
    library: mblob.Module, name: str
) -> None:
    value, same = 1 if NAMES[name] == "bool" else 7, f"same_{name.replace(' ', '_')}"
    assert library[same](value) == value
    assert call_of_c(library, same, NAMES[name], value) == ""


@pytest.mark.parametrize("name", [n for n, word in NAMES.items() if word == "uint64"])
def test_every_name_of_64_bits_without_a_sign_takes_and_gives_them_all(
    library: mblob.Module, name: str
) -> None:
    same, out = f"same_{name.replace(' ', '_')}", ffi.new("uint64_t *")
    handle = library._node.handle  # type: ignore[attr-defined]
    for high in (0, 2**63 - 1, 2**63, 2**64 - 1):
        assert library[same](high) == high
        number = ffi.cast("uint64_t", high)
        assert lib.mblob_call(handle, same.encode(), b"uint64 -> uint64", number, out) == 0
        assert out[0] == high
    with pytest.raises(OverflowError, match=re.escape(ALL_BITS)):
        library[same](-1)


@pytest.mark.parametrize("name", [n for n, kind in OF_LIBRARIES.items() if kind == "uint"])
def test_no_type_without_a_sign_takes_a_negative_number(library: mblob.Module, name: str) -> None:
    same = f"same_{name}"
    for number in (-1, -(2**40), 2 ** BITS[name], 2**64):
        with pytest.raises((OverflowError, mblob.KernelError), match="expected"):
            library[same](number)
    for number in (-1, -(2**40)):
        assert "expected" in call_of_c(library, same, "int64", number)


@pytest.mark.parametrize("name", NAMES)
def test_an_array_of_each_type_is_told_from_others(library: mblob.Module, name: str) -> None:
    word = NAMES[name]
    first = library[f"first_{name.replace(' ', '_')}"]
    assert first(np.ones(2, word)) == 1
    other = "float32" if word == "float64" else "float64"
    if name in OF_LIBRARIES:  # the kernel says it
        with pytest.raises(mblob.KernelError, match=f"expected {word}, found {other}"):
            first(np.ones(2, other))
        return
    with pytest.raises(
        TypeError, match=f"argument 0 .*: expected an array of {word}, found {other}; .*astype"
    ):
        first(np.ones(2, other))


@pytest.mark.parametrize("name", [*NAMES, *argument_types.HALVES])
def test_what_is_no_number_is_told_the_kind_of_number(name: str) -> None:
    kind = "float" if "float" in NAMES.get(name, "float") else "int"
    with pytest.raises(TypeError, match=rf"f: argument 0 \(x\): expected {kind}, found None"):
        check(f"void f({name} x)", "f", (None,))


def test_the_c_header_is_what_the_table_of_argument_types_makes() -> None:
    header = ROOT / "csrc/src/base/argument_types.h"
    assert header.read_text() == argument_types.header()


def test_the_public_header_names_the_words_of_the_table() -> None:
    comment = (ROOT / "csrc/include/mblob.h").read_text().split("call it with arguments described")
    text = comment[1].partition("*/")[0]
    shown = set(re.findall(r"\w+", text))
    for first, last in re.findall(r"\b(u?int\d+) to (u?int\d+)\b", text):
        kind, low, high = (
            first.rstrip("0123456789"),
            *(int(re.sub(r"\D", "", w)) for w in (first, last)),
        )
        shown |= {f"{kind}{bits}" for bits in (8, 16, 32, 64) if low <= bits <= high}
    words, _, others = (
        argument_types.macros()["MB_ARGUMENT_WORDS_TEXT"].strip('"').partition(", shape[")
    )
    assert others == "dimensions], DTYPE[dimensions] or (TYPE, ...)"
    words = words.split(", ")
    assert len(words) == len(PASSED) + 8 and set(words) <= shown


def test_no_other_file_of_calls_spells_a_name_of_the_table() -> None:
    """Names that only a table of types has; device sources have types of their own."""
    of_tables = {name for name in (*argument_types.KINDS, "__fp16") if name.endswith(("_t", "16"))}
    guilty = []
    for folder in ("packager/modules", "packager/functions", "loader/_call", "csrc/src"):
        for path in (ROOT / folder).rglob("*.[pch]*"):
            code = path.read_text(encoding="utf-8") if path.suffix in (".py", ".c", ".h") else ""
            if path.suffix == ".py":
                nodes = ast.walk(ast.parse(code))
                found = {n.value for n in nodes if isinstance(n, ast.Constant)}
            else:
                found = set(re.findall(r'"(\w+)"', code))
            if path.name != "argument_types.h":
                guilty += [f"{path.relative_to(ROOT)}: {name}" for name in found & of_tables]
    assert guilty == []


# -- small floats, whose names say their bits -------------------------------------------------------

NEXT = LAST_CODE + 1
ADDED = {"float5_e2m2": (NEXT, 5), **SMALL_FLOATS}  # in front: places of all others change


@pytest.fixture
def with_another(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(argument_types, "SMALL_FLOATS", ADDED)
    monkeypatch.setattr(argument_types, "LAST_CODE", NEXT)
    checks.text.cache_clear()
    yield
    checks.text.cache_clear()


def printed(folder: Path, code: str, *flags: str) -> list[str]:
    source = folder / "printing.c"
    source.write_text(code)
    include = [f"-I{folder}", f"-I{ROOT}/csrc/src", *include_flags()]
    compiler = os.environ.get("CC") or "cc"
    subprocess.run(
        [compiler, "-w", *flags, *include, "-o", folder / "printing", source], check=True
    )
    done = subprocess.run([folder / "printing"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.usefixtures("with_another")
@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda d: d.name)
def test_packed_forms_name_each_small_float_by_its_row(dialect: Dialect, tmp_path: Path) -> None:
    expected = {element: name for name, element in ADDED.items()}
    if dialect.is_ffi:
        expected |= {(6, 8): "bool", (7, 8): "float8_e3m4"}
    program = (
        f"{packed_forms([], dialect)}\nint puts(const char *text);\n"
        "int main(void) { for (int code = 6; code < 256; code++)"
        " for (int bits = 1; bits < 65; bits++) { DLDataType type = {(uint8_t)code, (uint8_t)bits, 2};"
        " char text[64]; mblob_dtype_name(type, text, sizeof text); puts(text); } return 0; }"
    )
    lines = iter(printed(tmp_path, program, "-O1"))
    found = {(code, bits): next(lines) for code in range(6, 256) for bits in range(1, 65)}
    assert found == {
        element: expected.get(element, f"custom[{element[0]}]{element[1]}") + "x2"
        for element in found
    }


@pytest.mark.usefixtures("with_another")
def test_the_runtime_knows_each_small_float_by_its_row(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base/argument_types.h").write_text(argument_types.header())
    program = (
        '#include "base/argument_types.h"\n#include "base/dtype.c"\n#include <stdio.h>\n'
        "int mb_fail(int status, const char *format, ...) { return status; }\n"
        "int main(void) { static const char names[][32] = {"
        + ", ".join(f'"{name}"' for name in ADDED)
        + "}; for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) { DLDataType t; char text[40];"
        ' int n = snprintf(text, sizeof(text), "%sx3", names[i]);'
        " bool known = mb_dtype_parse(text, (size_t)n, &t); const char *small = small_float(t);"
        ' printf("%s %d %d %d %d %d %d\\n", small ? small : "none", known, t.code, t.bits, t.lanes,'
        " mb_dtype_check(t.code, t.bits, 1), mb_dtype_check(t.code, t.bits + 1, 1)); } return 0; }"
    )
    assert printed(tmp_path, program, "-std=gnu11") == [
        f"{name} 1 {code} {bits} 3 1 0" for name, (code, bits) in ADDED.items()
    ]


@pytest.mark.parametrize("name", SMALL_FLOATS)
def test_a_tensor_says_the_name_of_its_small_float(name: str) -> None:
    assert str(mblob.empty((2,), name).dtype) == name
