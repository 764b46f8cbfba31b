"""Programs of Relax's virtual machine, which the C reader of the machine reads: functions, constants,
instructions, and TVM's own listing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, List, Tuple  # noqa: UP035

from mblob.dtype import DataType
from mblob.format.grammar import text
from mblob.format.ndarray import ArrayRecord, array_of_view
from mblob.named_tuple import NamedTuple
from mblob.native import programs
from mblob.native.programs import ffi, lib

CALL, RET, GOTO, IF = lib.RELAX_CALL, lib.RELAX_RET, lib.RELAX_GOTO, lib.RELAX_IF
REGISTER, IMMEDIATE, CONSTANT = lib.RELAX_REGISTER, lib.RELAX_IMMEDIATE, lib.RELAX_CONSTANT
VOID, CONTEXT = lib.RELAX_VOID, lib.RELAX_CONTEXT  # registers of every function
PACKED, CODE, COMPILED = "packed", "vm", "tir"
_KINDS = {lib.RELAX_PACKED: PACKED, lib.RELAX_CODE: CODE, lib.RELAX_COMPILED: COMPILED}
_CONSTANT_KINDS = {
    lib.RELAX_TENSOR: "tensor",
    lib.RELAX_DTYPE: "dtype",
    lib.RELAX_SHAPE: "shape",
    lib.RELAX_STRING: "string",
    lib.RELAX_INT: "int",
    lib.RELAX_FLOAT: "float",
}
VERSION = ffi.string(lib.RELAX_VERSION).decode()

_BUILTINS = (
    "alloc_shape_heap alloc_storage alloc_tensor call_py_func call_tir_dyn check_func_info check_prim_value_info "
    "check_shape_info check_string_info check_tensor_info check_tuple_info clear_py_func_registry copy "
    "cuda_graph.get_cached_alloc cuda_graph.run_or_capture debug_print ensure_zero_offset get_py_func invoke_closure "
    "invoke_debug_func make_closure make_prim_value make_shape make_tuple match_prim_value match_shape "
    "memory_manager.clear multinomial_from_uniform null_value read_if_cond register_py_func reshape shape_of "
    "tensor_to_shape to_device tuple_getitem tuple_reset_item"
)
_SORT, _RANDOM = "argsort argsort_nms sort topk", "normal randint random_fill seed uniform"
_RUN = "assert_op nonzero print shape_to_tensor unique"
# What mblob registers for programs: libmblob (csrc/src/entry/profile_full.c), and in Python
# `mblob.loader.relax`.
PROVIDED = frozenset(
    f"{prefix}.{name}"
    for prefix, names in {
        "vm.builtin": _BUILTINS,
        "tvm.contrib.sort": _SORT,
        "tvm.contrib.random": _RANDOM,
        "relax.run": _RUN,
    }.items()
    for name in names.split()
)


class Function(NamedTuple):
    """A row of the table of functions.

    Attributes:
        kind: PACKED, CODE or COMPILED.
        start, end: its instructions, if it is of CODE.
        num_args: -2 if it is not defined here.
    """

    name: str
    kind: str
    start: int
    end: int
    num_args: int
    registers: int
    params: list[str]


# Kind, name, (start, end, num_args, registers), params.
Row = Tuple[int, bytes, Tuple[int, int, int, int], List[bytes]]  # noqa: UP006


class Constant(NamedTuple):
    """A constant: a "tensor" (ArrayRecord), "dtype" (DataType), "shape" (its extents), "string" (bytes),
    "int" or "float". Element types are as stored."""

    kind: str
    value: Any


class Instruction(NamedTuple):
    """An instruction.

    Attributes:
        target: the function of a CALL, the register of RET and IF, the offset of a GOTO.
        other: the register for the result of a CALL, the offset of an IF where it is false.
        operands: of a CALL, kind and value of each.
    """

    opcode: int
    target: int
    other: int
    operands: Sequence[tuple[int, int]]


class Program:
    """A program.

    Attributes:
        functions, constants: its tables.
        scopes: constants by number, and the scope of memory that each is for; None in programs
            without such a list.
        instruction_count: of all functions together.
    """

    def __init__(self, code: memoryview, dialect: int) -> None:
        """Read it.

        Args:
            dialect: as of `mblob.native.programs.read_relax`.

        Raises:
            FormatError: "payload", "truncated".
        """
        read = self._read = programs.read_relax(code, dialect)
        self.functions = [_function(row) for row in self.rows()]
        self.constants = [_constant(code, read.constants[i]) for i in range(read.constant_count)]
        self.scopes = (
            [
                (read.scopes[i].constant, programs.slice_bytes(read.scopes[i].name))
                for i in range(read.scope_count)
            ]
            if read.has_scopes
            else None
        )
        self.instruction_count = int(read.code_count)
        self.instruction_bytes = 16 + 8 * (read.code_count + read.word_count)  # at the end

    def rows(self) -> Iterator[Row]:
        """The table of functions as stored."""
        for i in range(self._read.function_count):
            f = self._read.functions[i]
            params = [ffi.string(f.params[k]) for k in range(f.param_count)]
            numbers = (f.start, f.end, f.num_args, f.register_file)
            yield f.kind, ffi.string(f.name), numbers, params

    def check_parameters(self, tensors: Sequence[tuple[str, DataType, Sequence[int]]]) -> None:
        """As `mblob.native.programs.check_relax_parameters`."""
        programs.check_relax_parameters(self._read, tensors)

    def instructions(self, f: Function) -> Iterator[Instruction]:
        """The instructions of a function."""
        numbers = self.numbers(f)
        at = 0
        while at < len(numbers):
            opcode, target, other, count = numbers[at : at + 4]
            end = at + 4 + 2 * count
            operands = list(zip(numbers[at + 4 : end : 2], numbers[at + 5 : end : 2]))
            yield Instruction(opcode, target, other, operands)
            at = end

    def kernel_arguments(self, f: Function) -> set[int]:
        """Arguments that a function of bytecode gives to kernels, or reshapes: they are tensors. Other functions,
        which may take tuples, have names with points."""
        found: set[int] = set()
        for i in self.instructions(f) if f.kind == CODE else ():
            callee = self.functions[i.target] if i.opcode == CALL else f
            is_kernel = "." not in callee.name or callee.name.endswith(".reshape")
            if callee.kind == PACKED and is_kernel:
                found.update(v for kind, v in i.operands if kind == REGISTER and v < f.num_args)
        return found

    def numbers(self, f: Function) -> list[int]:
        """The same in one list: opcode, target, other, the count of operands, and the operands."""
        count = lib.relax_numbers(self._read, f.start, f.end, ffi.NULL)
        numbers = ffi.new("int64_t[]", count)
        lib.relax_numbers(self._read, f.start, f.end, numbers)
        return list(ffi.unpack(numbers, count)) if count else []

    def arrays(self) -> list[tuple[str, ArrayRecord]]:
        """The tensors among its constants, by name. Offsets count from the code."""
        found = enumerate(self.constants)
        return [(f"constant {i}", c.value) for i, c in found if c.kind == "tensor"]

    # -- as text -----------------------------------------------------------------------------------

    def listing(self) -> Iterator[str]:
        """Lines of TVM's own listing."""
        for f in self.functions:
            if f.kind == PACKED:
                yield f"@{f.name} packed_func;"
            elif f.kind == COMPILED:
                yield f"@{f.name} num_inputs={f.num_args} vm_tir_func;"
            else:
                yield f"@{f.name}:"
            yield from map(self.line, self.instructions(f))
            yield ""

    def line(self, found: Instruction) -> str:
        """An instruction as TVM lists it."""
        if found.opcode == RET:
            return f"  {'ret':6}{_register(found.target)}"
        if found.opcode == GOTO:
            return f"  {'goto':6}{found.target}"
        if found.opcode == IF:
            return f"  {'If':6}{_register(found.target)}, {found.other}"
        if found.opcode != CALL:
            raise unknown_opcode(found)
        name = self.functions[found.target].name
        operands = ", ".join([self._operand(kind, value) for kind, value in found.operands])
        return f"  {'call':6}{name:16} in: {operands:12} dst: {_register(found.other)}"

    def _operand(self, kind: int, value: int) -> str:
        if kind == REGISTER:
            return _register(value)
        if kind == IMMEDIATE:
            return f"i{value}"
        return f"c[{value}]" if kind == CONSTANT else f"f[{self.functions[value].name}]"


def unknown_opcode(found: Instruction) -> AssertionError:
    """The error for an opcode that the C reader accepts and the caller has no case for."""
    return AssertionError(f"an instruction with the opcode {found.opcode}")


def _register(i: int) -> str:
    return f"%{i}" if i < VOID else "%vm" if i == CONTEXT else "%void"


def _function(row: Row) -> Function:
    kind, name, (start, end, num_args, registers), params = row
    words = [text(word) for word in params]
    return Function(text(name), _KINDS[kind], start, end, num_args, registers, words)


def _constant(code: memoryview, read: Any) -> Constant:
    kind = _CONSTANT_KINDS[read.kind]
    value: Any
    if kind == "tensor":
        value = array_of_view(code, read.array.view, read.end)
    elif kind == "dtype":
        stored = read.value.v_type
        value = DataType(stored.code, stored.bits, stored.lanes)
    elif kind == "shape":
        value = tuple(ffi.unpack(read.extents, read.extent_count)) if read.extent_count else ()
    elif kind == "string":
        value = programs.slice_bytes(read.text)
    else:
        value = read.value.v_int64 if kind == "int" else read.value.v_float64
    return Constant(kind, value)
