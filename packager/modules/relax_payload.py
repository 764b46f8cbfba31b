"""Programs of Relax in the other dialect: docs/format.md, "Executables of Relax".

Code, functions and registers are the same in both. Constants have other tags, some element types
other numbers, and the ffi dialect has memory scopes, which TVM 0.23 brought.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import pack
from typing import Any

from mblob.bytes.wire import encode_string, encode_strings, encode_u64
from mblob.dtype import DataType
from mblob.errors import PortabilityWarning
from mblob.format.grammar import FFI_GRAMMARS, FFI_GRAMMARS_OF_0_21, GRAMMARS
from mblob.format.ndarray import encode_header
from mblob.inspect.relax_program import COMPILED, PACKED, VERSION, Constant, Program, Row
from mblob.inspect.tensors import relax_program
from mblob.packager.errors import BuildError, warn

# Tags of constants.
_KINDS = ("tensor", "dtype", "shape", "string", "int", "float")
_TAGS = {"classic": (0, 1, 2, 3, 4, 5), "ffi": (70, 5, 69, 65, 1, 3)}
_GRAMMARS = {"classic": GRAMMARS, "ffi 0.21": FFI_GRAMMARS_OF_0_21, "ffi": FFI_GRAMMARS}
_NUMBERS = {"int": "<q", "float": "<d"}
_MAGIC, _MAGIC_WITH_SCOPES = 0xD225DE2F4214151D, 0xD225DE2F4214151E
# Functions that are called otherwise up to TVM 0.21.
_CACHES = {"classic": b"vm.builtin.ndarray_cache.", "ffi": b"vm.builtin.tensor_cache."}
# Functions whose arguments have another order up to TVM 0.19.
_PAGED = "vm.builtin.paged_attention_kv_cache_create"
# Builtins that no release of the classic dialect has.
_OF_FFI = tuple(
    f"vm.builtin.{name}"
    for name in (
        "call_py_func",
        "register_py_func",
        "get_py_func",
        "clear_py_func_registry",
        "check_string_info",
    )
)


def converted_program(
    key: str,
    code: memoryview,
    source: str,
    target: str,
    of_0_16: bool,
    mapped: Callable[[DataType, str], DataType],
) -> list[Any]:
    """A program in the other dialect, in pieces that may be views of it.

    Args:
        key: of its module, for errors.
        code: the program, without the length that may stand in front.
        source, target: as of `mblob.packager.modules.payload_conversion.convert_payload`.
        of_0_16: it is of TVM 0.16 to 0.19.
        mapped: an element type as the target has it.

    Raises:
        BuildError: the other dialect cannot run it.
        FormatError: it is damaged.
    """
    program = relax_program(code, _GRAMMARS[source])
    _check(key, program, target, of_0_16)
    magic = _MAGIC_WITH_SCOPES if target == "ffi" else _MAGIC
    pieces: list[Any] = [encode_u64(magic), encode_string(VERSION)]
    pieces.append(encode_u64(len(program.functions)))
    pieces += [_function(row, target) for row in program.rows()]
    if target == "ffi":
        scopes = program.scopes or ()
        pieces.append(encode_u64(len(scopes)))
        pieces += [pack("<q", i) + encode_string(scope) for i, scope in scopes]
    pieces.append(encode_u64(len(program.constants)))
    for i, constant in enumerate(program.constants):
        pieces += _constant(f"{key}: constant {i}", constant, target, mapped)
    return [*pieces, code[len(code) - program.instruction_bytes :]]


def _function(row: Row, target: str) -> bytes:
    """A row of the table. Names may be no text."""
    kind, name, numbers, params = row
    return b"".join(
        (
            pack("<i", kind),
            encode_string(_name_in(name, target)),
            pack("<4q", *numbers),
            encode_strings(params),
        )
    )


def _name_in(name: bytes, target: str) -> bytes:
    for cache in _CACHES.values():
        if name.startswith(cache):
            return _CACHES[target] + name[len(cache) :]
    return name


def _check(key: str, program: Program, target: str, of_0_16: bool) -> None:
    """Refuse a program that the other dialect could read, but not run."""
    compiled = next((f.name for f in program.functions if f.kind == COMPILED), None)
    if compiled is not None:
        raise BuildError(
            f"{key}: function {compiled!r} is machine code (exec_mode='compiled') that reads the values of its"
            " own dialect; compile the model for the other one, or as bytecode"
        )
    named = {f.name for f in program.functions if f.kind == PACKED}
    if of_0_16 and any(name.startswith(_PAGED) for name in named):
        raise BuildError(
            f"{key}: it calls {_PAGED}, whose arguments have another order since TVM 0.20; compile the model again"
        )
    late = named.intersection(_OF_FFI) if target != "ffi" else ()
    if late:
        _warn_of(key, late)
    if program.scopes and target != "ffi":
        raise BuildError(
            f"{key}: constants have memory scopes, which the {target} dialect cannot say"
        )


def _warn_of(key: str, late: Iterable[str]) -> None:
    warn(
        f"{key}: it names {', '.join(sorted(late))}, which no TVM of the classic dialect has; mblob runs it",
        PortabilityWarning,
    )


def _constant(
    what: str, constant: Constant, target: str, mapped: Callable[[DataType, str], DataType]
) -> list[Any]:
    kind, value = constant
    tag = pack("<i", _TAGS[target][_KINDS.index(kind)])
    if kind == "tensor":
        dtype = mapped(value.dtype, what)
        return [tag + encode_header(dtype, value.shape, value.data.nbytes), value.data]
    if kind == "dtype":
        return [tag + mapped(value, what).to_bytes()]
    if kind == "shape":
        return [tag + encode_u64(len(value)) + pack(f"<{len(value)}q", *value)]
    return [tag + (encode_string(value) if kind == "string" else pack(_NUMBERS[kind], value))]
