"""Code of the Relax virtual machine, held to what `csrc/src/exec/relax/reader.c` checks before it
runs, and as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mblob.bytes.wire import Cursor

CALL, RET, GOTO, IF = 1, 2, 3, 4
_SIZES = {CALL: 4, RET: 2, GOTO: 2, IF: 3}
REGISTER, IMMEDIATE, CONSTANT, FUNCTION = range(4)
PACKED, CODE, COMPILED = range(3)
VOID, CONTEXT = 1 << 54, (1 << 54) + 1
UNDEFINED = -2  # arguments of a function that is not defined here
REGISTERS = 1 << 20  # of one function
OPERANDS = 0x7FFF
VERSION = "0.14"


_BUILTINS = (
    "alloc_shape_heap alloc_storage alloc_tensor call_py_func call_tir_dyn check_func_info check_prim_value_info "
    "check_shape_info check_string_info check_tensor_info check_tuple_info clear_py_func_registry copy "
    "cuda_graph.get_cached_alloc cuda_graph.run_or_capture ensure_zero_offset get_py_func invoke_closure "
    "invoke_debug_func make_closure make_prim_value make_shape make_tuple match_prim_value match_shape "
    "memory_manager.clear multinomial_from_uniform null_value read_if_cond register_py_func reshape shape_of "
    "tensor_to_shape to_device tuple_getitem tuple_reset_item"
)
_SORT, _RANDOM = "argsort argsort_nms sort topk", "normal randint random_fill seed uniform"
_RUN = "assert_op nonzero print shape_to_tensor unique"
# What the runtime registers for programs (csrc/src/entry/profile_full.c).
PROVIDED = frozenset(
    f"{prefix}.{name}"
    for prefix, names in {
        "vm.builtin": _BUILTINS, "tvm.contrib.sort": _SORT, "tvm.contrib.random": _RANDOM, "relax.run": _RUN,
    }.items()
    for name in names.split()
)  # fmt: skip


class Function(NamedTuple):
    """A row of the table of functions."""

    kind: int
    name: str
    start: int
    end: int
    num_args: int
    registers: int
    params: int


class Program(NamedTuple):
    """What instructions refer to."""

    functions: Sequence[Function]
    constants: int
    offsets: Sequence[int]
    words: Sequence[int]


def operand(word: int) -> tuple[int, int]:
    """The kind and the value of an operand."""
    value = word & (1 << 56) - 1
    return (word >> 56) & 0xFF, value - (1 << 56) if value >> 55 else value


def problem_of_function(f: Function) -> str | None:
    """Why a row of the table cannot be, None if nothing is against it."""
    if not PACKED <= f.kind <= COMPILED:
        return "a function is of a kind that is not known"
    if f.start < 0 or f.end < f.start:
        return "a function ends before it starts"
    if f.kind != CODE and (f.start or f.end):
        return "a function without instructions has a place in them"
    undefined = f.num_args == UNDEFINED
    if f.num_args < 0 and not undefined:
        return "a function has a negative number of arguments"
    if f.kind == COMPILED and undefined:
        return "a compiled function has no number of arguments"
    if not 0 <= f.registers <= REGISTERS:
        return "a function has an impossible number of registers"
    if f.kind == PACKED:
        return None
    if f.num_args > f.registers:
        return "a function has more arguments than registers"
    if f.params and f.params != f.num_args:
        return "a function has names for more or fewer arguments than it has"
    if f.kind == COMPILED and f.num_args == f.registers:
        return "a compiled function has no register for its result"
    return None


def instructions(c: Cursor, program: Program) -> list[Sequence[int]]:
    """The words of each instruction.

    Raises:
        FormatError: "payload".
    """
    found = []
    for k, at in enumerate(program.offsets):
        last = k + 1 == len(program.offsets)
        end = len(program.words) if last else program.offsets[k + 1]
        if not 0 <= at <= end <= len(program.words):
            raise c.fail("places of instructions are not in order, or outside of the code")
        words = program.words[at:end]
        size = _SIZES.get(words[0] if words else 0)
        if size is None:
            raise c.fail(f"instruction {k}: an opcode is not known")
        if len(words) < size:
            raise c.fail(f"instruction {k} is cut off")
        if words[0] == CALL and not 0 <= words[3] <= min(len(words) - 4, OPERANDS):
            raise c.fail(f"instruction {k}: a call has more operands than words")
        found.append(words[: size + words[3] if words[0] == CALL else size])
    return found


def check(c: Cursor, program: Program) -> list[Sequence[int]]:
    """Hold all functions against what instructions may do; the words of each instruction.

    Raises:
        FormatError: "payload".
    """
    code = instructions(c, program)
    total = 0
    for f in program.functions:
        if f.kind != CODE:
            continue
        total += f.end - f.start
        if f.end > len(code):
            raise c.fail("a function has instructions behind the last one")
        if total > len(code):
            raise c.fail("functions share instructions")
        for k in range(f.start, f.end):
            problem = _problem(program, f, k, code[k])
            if problem:
                raise c.fail(f"function {f.name!r}, instruction {k - f.start}: {problem}")
        last = code[f.end - 1][0] if f.end > f.start else None
        if f.num_args >= 0 and last not in (RET, GOTO):
            raise c.fail(f"function {f.name!r} does not end with Ret or Goto")
    return code


def _problem(program: Program, f: Function, at: int, words: Sequence[int]) -> str | None:
    if words[0] == CALL:
        return _problem_of_call(program, f, words)
    if words[0] == GOTO:
        return _problem_of_jump(f, at, words[1])
    if not (0 <= words[1] < f.registers or words[1] == VOID):
        return "a register that the function does not have"
    if words[0] == RET:
        return None
    return (
        "an If whose other way is not ahead of it"
        if words[2] <= 1
        else _problem_of_jump(f, at, words[2])
    )


def _problem_of_jump(f: Function, at: int, offset: int) -> str | None:
    return None if f.start <= at + offset < f.end else "a jump out of the function"


def _problem_of_call(program: Program, f: Function, words: Sequence[int]) -> str | None:
    to, function = words[1:3]
    if not 0 <= function < len(program.functions):
        return "a call of a function that is not there"
    if to < 0 or f.registers <= to < VOID:
        return "a result goes to a register that the function does not have"
    for word in words[4:]:
        kind, value = operand(word)
        if kind == REGISTER and not (0 <= value < f.registers or value in (VOID, CONTEXT)):
            return "a register that the function does not have"
        if kind == CONSTANT and not 0 <= value < program.constants:
            return "a constant that is not there"
        if kind == FUNCTION and not 0 <= value < len(program.functions):
            return "a function that is not there"
        if kind > FUNCTION:
            return "an operand of a kind that is not known"
    return None


# -- as text ---------------------------------------------------------------------------------------


def listing(program: Program, code: Sequence[Sequence[int]]) -> Iterator[str]:
    """Lines of TVM's own listing, of code that was checked."""
    for f in program.functions:
        if f.kind == PACKED:
            yield f"@{f.name} packed_func;"
        elif f.kind == COMPILED:
            yield f"@{f.name} num_inputs={f.num_args} vm_tir_func;"
        else:
            yield f"@{f.name}:"
        yield from (line(program, words) for words in code[f.start : f.end])
        yield ""


def _register(i: int) -> str:
    return "%vm" if i == CONTEXT else "%void" if i >= VOID else f"%{i}"


def _operand(program: Program, word: int) -> str:
    kind, value = operand(word)
    if kind == REGISTER:
        return _register(value)
    if kind == IMMEDIATE:
        return f"i{value}"
    return f"c[{value}]" if kind == CONSTANT else f"f[{program.functions[value].name}]"


def line(program: Program, words: Sequence[int]) -> str:
    """An instruction as TVM lists it."""
    if words[0] == RET:
        return f"  {'ret':6}{_register(words[1])}"
    if words[0] == GOTO:
        return f"  {'goto':6}{words[1]}"
    if words[0] == IF:
        return f"  {'If':6}{_register(words[1])}, {words[2]}"
    name = program.functions[words[2]].name
    operands = ", ".join(_operand(program, word) for word in words[4:])
    return f"  {'call':6}{name:16} in: {operands:12} dst: {_register(words[1])}"
