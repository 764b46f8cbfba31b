"""The calls of Relax programs as drawings: what is left out, branches, bounds, and the page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.inspect import relax_graph, relax_program
from mblob.inspect.html.data import page_data
from mblob.native import programs
from tests.html.browser import Page
from tests.loader.executors import relax_programs
from tests.loader.executors.relax_programs import c, call, i, r, ret

Write = Callable[[Path], Path]


def program_of(calls: int, path: Path) -> Path:
    """A program whose `main` calls the kernel `add` so often, each time on what it gave last."""
    code, last = [call(relax_programs.STORAGE, [relax_programs.VM, c(0), i(0), c(1), c(2)], 1)], 0
    for k in range(calls):
        code.append(call(relax_programs.TENSOR, [r(1), i(0), c(3), c(4)], k + 2))
        code.append(call(len(relax_programs.BUILTINS), [r(last), c(5), r(k + 2)]))
        if last:
            code.append(call(relax_programs.NULL, [], last))
        last = k + 2
    functions = [relax_programs.Function(f"vm.builtin.{name}") for name in relax_programs.BUILTINS]
    functions.append(relax_programs.Function("add"))
    functions.append(
        relax_programs.Function("main", [*code, ret(last)], ["x"], registers=calls + 3)
    )
    constants = [
        (24,),
        np.dtype("uint8"),
        "global",
        (2, 3),
        np.dtype("float32"),
        np.ones((2, 3), "f4"),
    ]
    payload = relax_programs.Program(functions, constants).payload()
    root = mblob.blob_module("relax.VMExecutable", payload)
    root.import_module(mblob.csource_module(""))
    root.export_library(path, dialect="ffi")
    return path


def graphs_of(path: Path) -> dict[str, dict[str, Any]]:
    with mblob.open(path) as lib:
        return {row["name"]: row for row in page_data(lib)["graphs"]["rows"]}


@pytest.mark.parametrize("calls", [10, 1000])
def test_the_calls_of_a_program_are_drawn_without_what_only_serves_them(
    tmp_path: Path, calls: int
) -> None:
    (drawn,) = graphs_of(program_of(calls, tmp_path / "p.so")).values()
    assert [b[1] for b in drawn["boxes"]] == ["input", *["operator"] * (calls - 1), "output"]
    assert drawn["boxes"][1][2] == ["add", "+ constant 5 float32[2, 3]", "→ float32[2, 3]"]
    assert drawn["boxes"][1][8:] == [
        "2: call add in: %0, c[5], %2 dst: %void",
        "add",
        ["x", "constant 5 float32[2, 3]"],
        ["float32[2, 3]"],
    ]
    assert len(drawn["edges"]) == calls
    assert drawn["left_out"] == 0
    assert drawn["width"] < 600


def test_each_function_and_its_branches_are_drawn(golden: Path) -> None:
    if not (golden / "relax").exists():
        pytest.skip("no golden libraries of Relax")
    drawn = graphs_of(golden / "relax" / "control_flow.so")
    assert set(drawn) == {"branch", "is_even", "is_odd", "nested", "power_of_two", "prim_cond"}
    boxes = {b[0]: b[2][0] for b in drawn["branch"]["boxes"]}
    edges = {(boxes[a], boxes[b]) for a, b, _ in drawn["branch"]["edges"]}
    assert edges == {
        ("c", "If"),
        ("x", "add"),
        ("If", "add"),
        ("x", "tir_negative"),
        ("If", "tir_negative"),
    }
    assert {b[2][0] for b in drawn["branch"]["boxes"] if b[1] == "output"} == {
        "add",
        "tir_negative",
    }
    (called,) = (b for b in drawn["is_even"]["boxes"] if b[9] == "is_odd")
    assert called[1] == "output"
    dynamic = graphs_of(golden / "relax" / "mlp_dynamic.so")["forward"]
    assert dynamic["boxes"][0][2] == ["x", "→ float32[batch, 16]"]
    assert [b[2][-1] for b in dynamic["boxes"] if b[9] == "softmax"] == ["→ float32[?, 4]"]


def test_a_program_that_writes_in_place_is_drawn_in_its_order(golden: Path) -> None:
    if not (golden / "relax").exists():
        pytest.skip("no golden libraries of Relax")
    drawn = graphs_of(golden / "relax" / "inplace.so")["rw"]
    assert [b[1:3] for b in drawn["boxes"]][2] == ["output", ["add"]]


def test_programs_that_lie_or_are_too_long_are_not_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    functions = [relax_programs.Function("main", [call(7), ret(0)], ["x"])]
    payload = relax_programs.Program(functions).payload()
    root = mblob.blob_module("relax.VMExecutable", payload)
    root.import_module(mblob.csource_module(""))
    with monkeypatch.context() as another_packer:
        another_packer.setattr("mblob.inspect.contents.check", lambda *args: True)
        root.export_library(tmp_path / "lies.so", dialect="ffi")
    assert graphs_of(tmp_path / "lies.so") == {}
    monkeypatch.setattr(relax_graph, "NODES", 5)
    drawn = graphs_of(program_of(10, tmp_path / "p.so"))["main"]
    assert len(drawn["boxes"]) == 4
    assert drawn["left_out"] > 10
    monkeypatch.setattr(relax_graph, "INSTRUCTIONS", 5)
    assert graphs_of(tmp_path / "p.so") == {}


def test_an_opcode_without_a_case_is_not_taken_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mblob.open(program_of(2, tmp_path / "p.so")) as lib:
        entry = lib.entries[0]
        program = relax_program.Program(entry.fields()["code"], programs.FFI)
        assert len(list(program.listing())) > 5
        monkeypatch.setattr(relax_program, "CALL", -1)
        monkeypatch.setattr(relax_graph, "CALL", -1)
        for show in (lambda: list(program.listing()), entry.program_graphs):
            with pytest.raises(AssertionError, match="an instruction with the opcode 1"):
                show()


@pytest.mark.slow
@pytest.mark.parametrize("calls", [10, 1000])
def test_the_page_draws_a_program_that_keys_walk(
    browser: Page, write: Write, tmp_path: Path, calls: int
) -> None:
    browser.open(write(program_of(calls, tmp_path / "p.so")), width=420, height=900)
    assert browser.problems == []
    assert browser.value("document.querySelectorAll('#models .graph .box').length") == calls + 1
    browser.value("document.querySelector('.graph .box').focus()")
    browser.press("ArrowDown")
    chosen = "document.querySelector('.graph .chosen').getAttribute('aria-label')"
    assert browser.value(chosen) == "add, + constant 5 float32[2, 3], → float32[2, 3]"
