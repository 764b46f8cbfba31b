"""Programs of the Relay virtual machine that are damaged or lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import mblob
from tests.loader import payloads
from tests.loader.executors import vm_programs
from tests.loader.executors.vm_programs import F32, Function, Program

RET: list[tuple[Any, ...]] = [("Ret", 0)]
LIES: list[tuple[str, Sequence[Any], str]] = [  # what, code of main() with 3 registers, error
    ("register", [("Move", 0, 3), *RET], "no such register"),
    ("negative register", [("Move", -1, 1), *RET], "no such register"),
    ("function", [("Invoke", 1, 0, 0), *RET], "no such function"),
    ("arguments", [("Invoke", 0, 1, 0, 0), *RET], "a wrong number of arguments"),
    ("captures", [("AllocClosure", 0, 1, 0, 0), *RET], "more captures than parameters"),
    ("primitive", [("InvokePacked", 0, 0, 0), *RET], "no such primitive"),
    ("constant", [("LoadConst", 1, 0), *RET], "no such constant"),
    ("jump out", [("Goto", 2), *RET], "a jump to outside"),
    ("jump before", [("Goto", -1), *RET], "a jump to outside"),
    ("jump to itself", [*RET, ("Goto", 0)], "or to itself"),
    ("jump far", [("If", 0, 0, 1, 2**62), *RET], "a jump to outside"),
    ("end", [("LoadConsti", 0, 0)], "does not end in Ret"),
    ("no code", [], "it has no instructions"),
    ("alignment", [("AllocStorage", 0, 48, *F32, 1), *RET], "an impossible alignment"),
    ("large alignment", [("AllocStorage", 0, 2**40, *F32, 1), *RET], "an impossible alignment"),
    ("dtype", [("AllocStorage", 0, 64, 2, 0, 1, 1), *RET], "an impossible data type"),
    ("dimension", [("AllocTensor", 0, 0, *F32, 1, 1, -4), *RET], "a negative dimension"),
    ("dimensions", [("AllocTensor", 0, 0, *F32, 65, 1, *[1] * 65), *RET], "too many dimensions"),
    ("count", [("AllocADT", 0, 2, 0, 0), *RET], "a wrong number of fields"),
    ("negative count", [("AllocADT", 0, -1, 0), *RET], "a wrong number of fields"),
    ("index", [("GetField", 0, -1, 0), *RET], "a negative index"),
    ("device", [("DeviceCopy", 0, 0, 1, 1), *RET], "no device of that index"),
]


@pytest.mark.parametrize(
    ("code", "message"), [lie[1:] for lie in LIES], ids=[lie[0] for lie in LIES]
)
def test_code_that_lies_is_refused_before_it_runs(
    load: Any, code: Sequence[Any], message: str
) -> None:
    with pytest.raises(mblob.FormatError, match=message):
        load(Program({"main": Function([], 3, code)}, [np.int64(1)]))


def test_a_host_that_is_no_device_of_the_program_is_refused(load: Any) -> None:
    program = Program({"main": Function([], 1, RET)}, [np.int64(1)], devices=(1, 1), host=1)
    load(program)
    program.host = 2
    with pytest.raises(
        mblob.FormatError, match="the index of the host device is outside of the devices"
    ):
        load(program)


def test_values_that_lie_are_errors_when_they_run(machine: Any) -> None:
    def run(*code: Any, registers: int = 4) -> None:
        functions = {"main": Function([], registers, code), "two": Function(["a", "b"], 2, RET)}
        vm = machine(
            Program(
                functions, [np.int64(-1), np.float32(1), np.int64(8), np.int64(2**61)], ["vm_add"]
            )
        )
        with pytest.raises((mblob.FormatError, ValueError, MemoryError)) as caught:
            vm["invoke"]("main")
        assert "function 'main', instruction" in str(caught.value) or "out of memory" in str(
            caught.value
        )

    run(("GetTag", 0, 1), ("Ret", 1))
    run(("ShapeOf", 0, 1), ("Ret", 1))
    run(("InvokePacked", 0, 1, 1, 0), ("Ret", 0))
    run(("InvokeClosure", 0, 0, 1), ("Ret", 1))
    run(("AllocClosure", 1, 0, 0), ("InvokeClosure", 0, 0, 1), ("Ret", 1))
    run(("AllocClosure", 1, 0, 0), ("InvokePacked", 0, 1, 1, 0), ("Ret", 1))
    for size in (0, 1, 3):
        run(("LoadConst", size, 0), ("AllocStorage", 0, 64, *F32, 1), ("Ret", 1))
    storage = [("LoadConst", 2, 0), ("AllocStorage", 0, 64, *F32, 1)]
    run(*storage, ("AllocTensor", 1, 0, *F32, 1, 2, 1), ("Ret", 2))  # at 8: not aligned
    run(*storage, ("LoadConst", 0, 0), ("AllocTensor", 1, 0, *F32, 1, 2, 1), ("Ret", 2))
    run(*storage, ("LoadConsti", 0, 0), ("AllocTensor", 1, 0, *F32, 2, 2, 2**40, 2**40), ("Ret", 2))
    run(*storage, ("LoadConsti", 0, 0), ("AllocTensor", 1, 0, *F32, 1, 2, 2**40), ("Ret", 2))
    run(*storage, ("AllocTensor", 0, 1, *F32, 0, 2), ("Ret", 2))


@pytest.mark.slow
def test_every_cut_and_many_changes_of_a_program_are_errors_or_programs(load: Any) -> None:
    rng = np.random.default_rng(3)
    values = [0, 1, 2, 7, 2**31, 2**32 - 1, 2**63, 2**64 - 1]
    refused = 0
    for name, make in vm_programs.PROGRAMS.items():
        good = make().code()
        cuts = range(0, len(good), 7)
        for cut in cuts:
            with pytest.raises(mblob.FormatError):
                load(good[:cut])
        for _ in range(150):
            data = bytearray(good)
            at = int(rng.integers(len(data)))
            if rng.random() < 0.5:
                data[at] ^= 1 << int(rng.integers(8))
            else:
                data[at : at + 8] = int(rng.choice(np.array(values, "uint64"))).to_bytes(
                    8, "little"
                )
            try:
                load(bytes(data))
            except (mblob.FormatError, MemoryError):
                refused += 1
        assert refused, name


def test_a_wrong_header_is_told(load: Any) -> None:
    good = vm_programs.arithmetic().code()
    with pytest.raises(mblob.FormatError, match="does not start as a program"):
        load(b"\0" * 8 + good[8:])
    with pytest.raises(mblob.FormatError, match="bytes follow the last function"):
        load(good + b"\0")
    with pytest.raises(mblob.FormatError, match="its hash differs"):
        load(good[:-8] + payloads.u64(1))
