"""Bytecode of the Relay virtual machine as each release of TVM writes it
(src/runtime/vm/executable.cc)."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

import mblob
from tests.loader.executors import vm_programs
from tests.loader.executors.vm_programs import F32, OPCODES, RELEASES, Function, Program, plain
from tests.loader.payloads import numbers

X, Y, W = np.ones(4, "float32"), np.array([1, 2, 3, 4], "float32"), np.arange(4, dtype="float32")

# Fields of each instruction behind its hash and opcode, from the first release with that list on.
# "*n": as many as the field n says.
FIELDS = {
    "Move": {7: "from dst"},
    "Ret": {7: "result"},
    "Invoke": {7: "func_index num_args dst *num_args"},
    "InvokeClosure": {7: "closure num_args dst *num_args"},
    "InvokePacked": {7: "packed_index arity output_size *arity"},
    "AllocTensor": {7: "storage offset code bits lanes ndim dst *ndim"},
    "AllocTensorReg": {7: "storage offset shape_register code bits lanes dst"},
    "AllocADT": {7: "constructor_tag num_fields dst *num_fields"},
    "AllocClosure": {7: "clo_index num_freevar dst *num_freevar"},
    "GetField": {7: "object field_index dst"},
    "If": {7: "test target true_offset false_offset"},
    "LoadConst": {7: "const_index dst", 14: "const_index device_index dst"},
    "Goto": {7: "pc_offset"},
    "GetTag": {7: "object dst"},
    "LoadConsti": {7: "val dst"},
    "Fatal": {7: ""},
    "AllocStorage": {
        7: "size alignment code bits lanes dst",
        8: "size alignment code bits lanes device dst",
        14: "size alignment code bits lanes device ndim dst *ndim",
    },
    "ShapeOf": {7: "tensor dst"},
    "ReshapeTensor": {7: "tensor newshape dst"},
    "DeviceCopy": {7: "src src_device dst_device dst"},
    "KillRegister": {9: "dst"},
}


def minor_of(version: str) -> int:
    return int(version.split(".")[1])


def fields_of(name: str, version: str) -> list[str]:
    """The list that a release has."""
    lists = FIELDS[name]
    return lists[max(minor for minor in lists if minor <= minor_of(version))].split()


def instructions(code: bytes) -> list[tuple[str, list[int], int]]:
    """What looks like an instruction in code: its name, its fields, where it starts. The hash
    tells."""
    found, at = [], 0
    while at + 24 <= len(code):
        count, _, opcode = struct.unpack_from("<QqQ", code, at)
        size = 8 + 8 * count
        if 2 <= count < 100 and opcode < len(OPCODES) and at + size <= len(code):
            fields = list(struct.unpack_from(f"<{count - 2}q", code, at + 24))
            name = [*OPCODES][opcode]
            devices = not fields and name != "Fatal"  # of two parameters: two equal numbers
            if not devices and vm_programs.instruction(opcode, *fields) == code[at : at + size]:
                found.append((name, fields, at))
                at += size
                continue
        at += 1
    return found


@pytest.mark.parametrize("version", RELEASES)
def test_the_tests_write_the_fields_of_each_release(version: str) -> None:
    seen = set()
    for make in vm_programs.PROGRAMS.values():
        for name, fields, _ in instructions(make().of(version).code(version)):
            names = fields_of(name, version)
            fixed = [n for n in names if not n.startswith("*")]
            more = sum(fields[names.index(n[1:])] for n in names if n.startswith("*"))
            assert len(fields) == len(fixed) + more, (name, fields)
            seen.add(name)
    assert seen == {name for name, lists in FIELDS.items() if min(lists) <= minor_of(version)}


@pytest.mark.parametrize("version", [*RELEASES, "0.9.dev12+g1234", "0.15.dev0"])
def test_bytecode_of_each_release_runs(load: Any, machine: Any, version: str) -> None:
    programs = {name: make().of(version) for name, make in vm_programs.PROGRAMS.items()}
    vm = machine(programs["arithmetic"], version)
    for x in (X, 2 * X):
        np.testing.assert_array_equal(vm["invoke"]("main", x, Y).numpy(), (x + W) * Y)
    vm = machine(programs["choice"], version)
    np.testing.assert_array_equal(vm["invoke"]("main", np.array(7), X).numpy(), X)
    assert plain(vm["invoke"]("main", np.array(-3), X))[0] == 3
    vm = machine(programs["calls"], version)
    assert plain(vm["invoke"]("main", np.array(3)))[1][1][1][0].tolist() == 2
    vm = machine(programs["shapes"], version)
    x = np.arange(6, dtype="float32").reshape(2, 3)
    np.testing.assert_array_equal(
        plain(vm["invoke"]("main", x, np.array([3, 2])))[1][2], -x.reshape(3, 2)
    )
    vm = machine(programs["endless"], version)
    with pytest.raises(mblob.KernelError, match="fatal error"):
        vm["invoke"]("fatal")
    assert (
        f"Written by TVM {version}, bytecode of "
        in load(programs["shapes"], version)["get_stats"]()
    )


@pytest.mark.parametrize("layout", RELEASES)
def test_the_form_of_the_bytecode_counts_not_the_version(load: Any, layout: str) -> None:
    """Builds between releases carry the next version and the form of the last."""
    executable = load(vm_programs.arithmetic().code("0.11.dev0", layout))
    minor = minor_of(layout)
    form = "0.7" if minor == 7 else "0.8" if minor == 8 else "0.9" if minor < 14 else "0.14"
    assert f"Written by TVM 0.11.dev0, bytecode of {form}\n" in executable["get_stats"]()
    vm = executable["vm_load_executable"]()
    np.testing.assert_array_equal(vm["invoke"]("main", X, Y).numpy(), (X + W) * Y)


@pytest.mark.parametrize("version", RELEASES)
def test_a_field_too_few_or_too_many_is_refused_in_each_release(load: Any, version: str) -> None:
    """Unless another release has that list; what is behind the instruction does not tell."""
    for name in FIELDS:
        if min(FIELDS[name]) > minor_of(version):
            continue
        code, old, at = find(name, version)
        known = {len(words.split()) for words in FIELDS[name].values() if "*" not in words}
        for fields in (old[:-1], [*old, 1]):
            if not old and not fields:
                continue
            if len(fields) in known or (name == "AllocStorage" and len(fields) in (7, 8)):
                continue
            changed = (
                code[:at]
                + vm_programs.instruction(OPCODES[name], *fields)
                + code[at + 24 + 8 * len(old) :]
            )
            with pytest.raises(mblob.FormatError, match="a wrong number of fields for its opcode"):
                load(changed)


def find(name: str, version: str) -> tuple[bytes, list[int], int]:
    """Code of a release with that instruction; its fields, and where it is."""
    for make in vm_programs.PROGRAMS.values():
        code = make().of(version).code(version)
        for found, fields, at in instructions(code):
            if found == name:
                return code, fields, at
    raise AssertionError(name)


@pytest.mark.parametrize("version", RELEASES)
def test_an_instruction_whose_hash_is_of_other_fields_is_refused(load: Any, version: str) -> None:
    code, fields, at = find("InvokePacked", version)
    words = numbers([*struct.unpack_from("<2q", code, at + 8), *fields[:-1], fields[-1] ^ 1])
    with pytest.raises(mblob.FormatError, match="its hash differs from what it says"):
        load(code[:at] + words + code[at + len(words) :])


@pytest.mark.parametrize("version", [v for v in RELEASES if minor_of(v) >= 14])
def test_storage_of_a_shape_needs_no_size(machine: Any, version: str) -> None:
    """From 0.14 on the shape stands in the instruction; the register of the size may be any."""
    storage = ("AllocStorage", -1, 64, *F32, 1, 2, 2)
    body = [
        storage,
        ("LoadConsti", 0, 2),
        ("AllocTensor", 1, 2, *F32, 1, 3, 4),
        ("InvokePacked", 0, 3, 1, 0, 0, 3),
    ]
    vm = machine(
        Program({"main": Function(["x"], 4, [*body, ("Ret", 3)])}, (), ["vm_add"]), version
    )
    np.testing.assert_array_equal(vm["invoke"]("main", Y).numpy(), 2 * Y)
