"""The inputs and constants of Relax programs that `inspect` shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.relax_texts import annotated
from tests.e2e.programs import run_warm
from tests.loader.executors.relax_programs import (
    BUILTINS,
    CHECK,
    COMPILED,
    COPY,
    F32,
    MATCH,
    VOID,
    Function,
    Program,
    c,
    call,
    i,
    r,
    ret,
)

pytestmark = pytest.mark.own_process
TUPLE_INFO = len(BUILTINS)
RULE = "ErrorContext(fn=main, loc=param[0], param={}, annotation={}) "
CONSTANTS = [
    F32,
    np.arange(6, dtype="int16").reshape(2, 3),
    "",
    RULE.format("x", 'R.Tensor((n, 4), dtype="float32")'),
    RULE.format("s", "R.Shape([n, T.int64(2)])"),
]


def packed(functions: list[Function]) -> Program:
    names = [*BUILTINS, "check_tuple_info"]
    table = [Function(f"vm.builtin.{name}") for name in names]
    return Program([*table, *functions], CONSTANTS)


PROGRAM = packed(
    [
        Function(
            "main",
            [
                call(CHECK, [r(0), i(2), c(0), c(2)]),
                call(CHECK, [r(1), i(3), c(0), c(2)]),
                call(CHECK, [r(2), i(1), c(2)]),
                call(TUPLE_INFO, [r(4), i(3), c(2)]),
                call(MATCH, [r(0), VOID, i(2), i(1), i(0), i(0), i(4), c(2)]),
                call(COPY, [r(0)], 5),
                call(CHECK, [r(5), i(7), c(0), c(2)]),  # no parameter any more
                ret(0),
            ],
            ["x", "w", "v", "s", "t", "u"],
        ),
        Function("code", kind=COMPILED, params=["x"], registers=2),
    ]
)
INPUTS = [
    "x  float32[n, 4]", "w  float32[?, ?, ?]", "v  ?[?]", "s  Shape([n, 2])", "t  tuple of 3", "u",
]  # fmt: skip


@pytest.fixture
def library(tmp_path: Path) -> Path:
    root = mblob.blob_module("relax.VMExecutable", PROGRAM.payload())
    root.import_module(mblob.csource_module("int f(void) { return 0; }"))
    root.export_library(tmp_path / "x.so", dialect="ffi")
    return tmp_path / "x.so"


def test_inputs_have_the_types_and_shapes_that_the_code_checks(
    library: Path, validate: Any
) -> None:
    with mblob.open(library) as lib:
        main, compiled = lib.models
        assert [str(v) for v in main.inputs or ()] == INPUTS
        assert [str(v) for v in compiled.inputs or ()] == ["x"]  # the texts are of `main`
        report = lib.to_json()
    validate(report)
    told = report["models"][0]["inputs"]
    assert told[0] == {"name": "x", "shape": ["n", 4], "dtype": "float32"}
    assert told[3] == {"name": "s", "shape": None, "dtype": None, "type": "Shape([n, 2])"}
    lines = run_warm("mblob.cli.main", "mblob.cli.main", "inspect", library).stdout.splitlines()
    assert [line.split(maxsplit=1)[1] for line in lines if line.startswith("      input ")] == [
        *INPUTS,
        "x",
    ]


def test_constants_of_a_program_are_tensors_of_its_module(library: Path) -> None:
    lib = mblob.load_module(library)
    with mblob.open(library) as opened:
        (shown,) = opened.entries[0].content.tensors
    assert list(lib.tensors) == [shown.name] == ["constant 1"]
    np.testing.assert_array_equal(lib.tensors["constant 1"].numpy(), CONSTANTS[1])


@pytest.mark.parametrize(
    "magic, key", [("0.21", "relax.VMExecutable"), ("classic", "relax.Executable")]
)
def test_constants_of_earlier_releases_too(golden: Path, magic: str, key: str) -> None:
    name = {"0.21": "relax_021.so", "classic": "relax_019.so"}[magic]
    path = golden / "relax" / "classic" / name
    if not path.exists():
        pytest.skip("no golden libraries of Relax")
    lib = mblob.load_module(path)
    assert lib.type_key == key
    assert lib.tensors["constant 20"].numpy().tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    "annotation, shown",
    [
        ('R.Tensor((2, 32), dtype="float32")', "float32[2, 32]"),
        ('R.Tensor((), dtype="bool")', "bool[]"),
        ('R.Tensor((T.int64(3),), dtype="int8")', "int8[3]"),
        ('R.Tensor((T.max(n, 3), n + T.int64(1)), dtype="int8")', "int8[T.max(n, 3), n + 1]"),
        ('R.Tensor(dtype="float32", ndim=2)', "float32[?, ?]"),
        ("R.Tensor((m, n))", "?[m, n]"),
        ("R.Tensor(ndim=1)", "?[?]"),
        ("R.Any", ""),
        ("T.int64", "int64"),
        ('T.Tuple(R.Tensor((n,), dtype="int8"), R.Any)', "Tuple(int8[n], Any)"),
        ("R.Tensor((" * 2000, f"{'Tensor((' * 12} ..."),
    ],
)
def test_annotations_are_read(annotation: str, shown: str) -> None:
    assert annotated(annotation).text == shown


def test_functions_that_share_code_are_no_program(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged table does not make reading quadratic: `inspect` says what running says."""
    code = [*[call(CHECK, [r(0), i(2), c(0), c(2)])] * 2000, ret(0)]
    shared = [
        Function(f"f{k}", [], params=["x"], kind=1, place=(0, len(code))) for k in range(2000)
    ]
    program = packed([Function("first", code, ["x"]), *shared])
    entry = mblob.blob_module("relax.VMExecutable", program.payload())
    entry.import_module(mblob.csource_module("int f(void) { return 0; }"))
    with monkeypatch.context() as another_packer:
        another_packer.setattr("mblob.inspect.contents.check", lambda *args: True)
        entry.export_library(library, dialect="ffi")
    with mblob.open(library, verify="header") as lib:
        assert lib.models == []
        (problem,) = [e.content.problem for e in lib.entries if e.content.problem]
        assert "functions share instructions" in str(problem)
