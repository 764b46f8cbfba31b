"""Programs of the Relay virtual machine as TVM writes them, in the form of each release
(docs/format.md, section 3): an assembler, and the programs that the tests run.

`python -m tests.loader.executors.vm_programs tests/c/exec/vm_programs.bin` writes them for the C
tests.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.loader.payloads import array, dtype_fields, numbers, text, texts, u32, u64

MAGIC = 0xD225DE2F4214151D
# Primitives, as TVM's kernels see arrays of the machine.
PRIMITIVES = r"""
#define ARRAYS(count)                                                                            \
  if (n != count) return fail("num_args is wrong");                                              \
  for (int i = 0; i < n; ++i)                                                                    \
    if (codes[i] != kTVMNDArrayHandle || (uintptr_t)tensor(args[i])->data % 64 || tensor(args[i])->byte_offset) \
      return fail("Expect aligned arrays")
#define FLOATS(i) ((float *)tensor(args[i])->data)

KERNEL(vm_add) { UNUSED; ARRAYS(3); for (int i = 0; i < 4; ++i) FLOATS(2)[i] = FLOATS(0)[i] + FLOATS(1)[i]; return 0; }
KERNEL(vm_mul) {
  UNUSED;
  ARRAYS(3);
  if (FLOATS(1)[0] < 0) return fail("vm_mul: negative\nsecond line");
  for (int i = 0; i < 4; ++i) FLOATS(2)[i] = FLOATS(0)[i] * FLOATS(1)[i];
  return 0;
}
KERNEL(vm_add_int) {
  UNUSED;
  ARRAYS(3);
  *(int64_t *)tensor(args[2])->data = *(int64_t *)tensor(args[0])->data + *(int64_t *)tensor(args[1])->data;
  return 0;
}
/* out = -x, for a tuple (x, shape) */
KERNEL(vm_flip) {
  UNUSED;
  ARRAYS(3);
  int64_t count = 1;
  for (int d = 0; d < tensor(args[2])->ndim; ++d) count *= tensor(args[2])->shape[d];
  for (int64_t i = 0; i < count; ++i) FLOATS(2)[i] = -FLOATS(0)[i];
  return 0;
}
"""

RELEASES = tuple(f"0.{minor}.0" for minor in range(7, 20))
NAMES = (
    "Move Ret Invoke InvokeClosure InvokePacked AllocTensor AllocTensorReg AllocADT AllocClosure GetField If LoadConst "
    "Goto GetTag LoadConsti Fatal AllocStorage ShapeOf ReshapeTensor DeviceCopy KillRegister"
)
OPCODES = {name: i for i, name in enumerate(NAMES.split())}
F32, I64 = dtype_fields("float32"), dtype_fields("int64")


def instruction(opcode: int, *fields: int) -> bytes:
    mask = 2**64 - 1
    h = opcode
    for f in fields:
        h ^= ((f & mask) + 0x9E3779B9 + ((h << 6) & mask) + (h >> 2)) & mask
    signed = h - 2**64 if h >= 2**63 else h
    return numbers([signed, opcode, *fields])


@dataclass
class Late:
    """A constant that is bound late."""

    name: str


@dataclass
class Function:
    params: Sequence[str]
    registers: int
    code: Sequence[tuple[Any, ...]]


@dataclass
class Program:
    """`functions` by name; instructions are (name, fields...) in the latest form but for what a
    release lacks."""

    functions: Mapping[str, Function]
    constants: Sequence[Any] = ()
    primitives: Sequence[str] = ()
    devices: Sequence[int] = (1,)
    host: int = 0
    attributes: Mapping[int, Mapping[str, str]] = field(
        default_factory=lambda: {0: {"hash": "12ab"}}
    )

    def code(self, version: str = "0.14.0", layout: str | None = None) -> bytes:
        """The bytes; `layout`: of another release than the version says."""
        minor = int((layout or version).split(".")[1])
        device = 0 if minor >= 9 else 1
        out = u64(MAGIC) + text(version)
        if minor >= 9:
            scope = text("global") if minor >= 14 else b""
            out += (
                u64(len(self.devices))
                + b"".join(u32(d) + u32(0) + scope for d in self.devices)
                + u32(self.host)
            )
        out += texts(self.functions) + u64(len(self.constants))
        for c in self.constants:
            tag = u32(isinstance(c, Late)) if minor >= 9 else b""
            out += tag + (text(c.name) if isinstance(c, Late) else array(c))
        out += numbers([device] * len(self.constants)) if minor >= 8 else b""
        out += texts(self.primitives)
        if minor >= 8:
            out += u64(len(self.attributes))
            for index, pairs in self.attributes.items():
                out += (
                    u64(index)
                    + u64(len(pairs))
                    + b"".join(text(k) + text(v) for k, v in pairs.items())
                )
        out += u64(len(self.functions))
        for name, f in self.functions.items():
            out += texts([name, str(f.registers), str(len(f.code))]) + texts(f.params)
            out += numbers([device] * len(f.params)) if minor >= 8 else b""
            out += b"".join(self._instruction(minor, device, *i) for i in f.code)
        return out

    def of(self, version: str) -> Program:
        """The same program without what a release does not have: registers are not killed before
        0.9."""
        if int(version.split(".")[1]) >= 9:
            return self
        functions = {
            name: Function(f.params, f.registers, [i for i in f.code if i[0] != "KillRegister"])
            for name, f in self.functions.items()
        }
        return Program(
            functions, self.constants, self.primitives, self.devices, self.host, self.attributes
        )

    def payload(self, version: str = "0.14.0") -> bytes:
        code = self.code(version)
        return u64(len(code)) + code

    @staticmethod
    def _instruction(minor: int, device: int, name: str, *fields: int) -> bytes:
        if name == "LoadConst" and minor >= 14:
            fields = (fields[0], device, fields[1])
        if name == "AllocStorage":  # size, alignment, dtype, target, shape
            shape = fields[6:]
            middle = () if minor == 7 else (device,) if minor < 14 else (device, len(shape))
            fields = (*fields[:5], *middle, fields[5], *(shape if minor >= 14 else ()))
        return instruction(OPCODES[name], *fields)


def binary(primitive: int, a: int, b: int, out: int, const: int) -> list[tuple[Any, ...]]:
    """out = primitive(a, b), float32[4] in storage of its own; constants `const` are its size and
    0."""
    return [
        ("LoadConst", const, out - 3),
        ("AllocStorage", out - 3, 64, *F32, out - 2),
        ("LoadConst", const + 1, out - 1),
        ("AllocTensor", out - 2, out - 1, *F32, 1, out, 4),
        ("InvokePacked", primitive, 3, 1, a, b, out),
    ]


def arithmetic() -> Program:
    """main(x, y) = (x + w) * y, over float32[4]."""
    w = np.arange(4, dtype="float32")
    code = [("LoadConst", 0, 2), *binary(0, 0, 2, 6, 1), ("DeviceCopy", 6, 0, 0, 7), ("Move", 7, 8)]
    code += [*binary(1, 8, 1, 12, 1), ("Ret", 12)]
    constants = [w, np.int64(16), np.int64(0)]
    return Program({"main": Function(["x", "y"], 13, code)}, constants, ["vm_add", "vm_mul"])


def choice() -> Program:
    """main(n, x) = x if n == 7, else a tuple (n, (x, 5)) of tag 3; via If, Goto, GetTag and
    GetField."""
    code: list[tuple[Any, ...]] = [
        ("LoadConsti", 7, 2),
        ("If", 0, 2, 1, 3),
        ("Move", 1, 9),
        ("Goto", 6),
        ("LoadConsti", 5, 3),
        ("AllocADT", 0, 2, 4, 1, 3),
        ("AllocADT", 3, 2, 5, 0, 4),
        ("GetTag", 5, 6),
        ("Move", 5, 9),
        ("Ret", 9),
    ]
    tag: list[tuple[Any, ...]] = [("AllocADT", 9, 1, 1, 0), ("GetTag", 1, 2), ("GetField", 1, 0, 3)]
    tag += [("AllocADT", 0, 2, 4, 2, 3), ("Ret", 4)]
    return Program({"main": Function(["n", "x"], 10, code), "tag": Function(["x"], 5, tag)})


def calls() -> Program:
    """main(n) counts n down to 0 by calling itself through a closure that captured a list of all
    before it."""
    step = np.int64(-1)
    count: list[tuple[Any, ...]] = [  # count(list, n)
        ("LoadConsti", 0, 2),
        ("If", 1, 2, 1, 2),
        ("Ret", 0),
        ("LoadConst", 1, 3),
        ("AllocStorage", 3, 64, *I64, 4),
        ("AllocTensor", 4, 2, *I64, 0, 5),
        ("LoadConst", 0, 6),
        ("InvokePacked", 0, 3, 1, 1, 6, 5),
        ("AllocADT", 1, 2, 7, 1, 0),
        ("AllocClosure", 1, 1, 8, 7),
        ("InvokeClosure", 8, 1, 9, 5),
        ("Ret", 9),
    ]
    main: list[tuple[Any, ...]] = [("AllocADT", 0, 0, 1), ("Invoke", 1, 2, 2, 1, 0), ("Ret", 2)]
    functions = {"main": Function(["n"], 3, main), "count": Function(["list", "n"], 10, count)}
    return Program(functions, [step, np.int64(8)], ["vm_add_int"])


def shapes() -> Program:
    """main(x, s) = (x in shape s, shape of x, a new float32 tensor of shape s filled by a primitive
    that takes a tuple (x, s))."""
    code: list[tuple[Any, ...]] = [
        ("ReshapeTensor", 0, 1, 2),
        ("ShapeOf", 0, 3),
        ("LoadConst", 0, 4),
        ("AllocStorage", 4, 64, *F32, 5),
        ("LoadConsti", 0, 6),
        ("AllocTensorReg", 5, 6, 1, *F32, 7),
        ("AllocADT", 0, 2, 8, 0, 1),
        ("InvokePacked", 0, 2, 1, 8, 7),
        ("AllocADT", 0, 3, 9, 2, 3, 7),
        ("KillRegister", 8),
        ("Ret", 9),
    ]
    return Program({"main": Function(["x", "s"], 10, code)}, [np.int64(256)], ["vm_flip"])


def endless() -> Program:
    """main() jumps for ever, deep() calls itself for ever, fatal() ends in Fatal, constant()
    returns one."""
    functions = {
        "main": Function([], 1, [("LoadConsti", 0, 0), ("Goto", -1)]),
        "deep": Function([], 1, [("Invoke", 1, 0, 0), ("Ret", 0)]),
        "fatal": Function([], 1, [("Fatal",)]),
        "constant": Function([], 1, [("LoadConst", 0, 0), ("Ret", 0)]),
        "shared": Function([], 2, [("LoadConst", 0, 0), ("AllocADT", 0, 1, 1, 0), ("Ret", 1)]),
        "empty": Function([], 1, [("Ret", 0)]),
    }
    return Program(functions, [np.arange(32, dtype="float32")])


def plain(value: Any) -> Any:
    """A result of a machine as numpy arrays in (tag, fields)."""
    if hasattr(value, "type_key"):
        return value["get_tag"](), [
            plain(value["get_field"](i)) for i in range(value["get_size"]())
        ]
    return value.numpy()


PROGRAMS = {
    "arithmetic": arithmetic,
    "choice": choice,
    "calls": calls,
    "shapes": shapes,
    "endless": endless,
}


def seeds() -> bytes:
    """All programs as payloads, one behind the other: what tests/c/exec/vm_programs.bin holds."""
    releases = {"arithmetic": ("0.7.0", "0.8.0", "0.9.0", "0.14.0")}  # one of each form
    return b"".join(
        make().payload(v)
        for name, make in PROGRAMS.items()
        for v in releases.get(name, ("0.14.0",))
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(seeds())
