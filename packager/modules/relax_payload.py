"""Programs of Relax in the other dialect: docs/format.md, "Executables of Relax".

Code, functions and registers are the same in both. Constants have other tags, some element types
other numbers, and the ffi dialect has memory scopes, which TVM 0.23 brought.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from mblob.bytes.wire import Cursor, encode_string, encode_u64
from mblob.dtype import DataType
from mblob.errors import PortabilityWarning
from mblob.format.grammar import strings, text
from mblob.format.ndarray import encode_header, read_ndarray
from mblob.inspect import relax_code, vm_summary
from mblob.packager.errors import BuildError, warn

# Tags of constants.
_TAGS = {
    "classic": vm_summary.CONSTANTS_OF_CLASSIC,
    "ffi 0.21": vm_summary.CONSTANTS_OF_0_21,
    "ffi": vm_summary.CONSTANTS_OF_FFI,
}
# Functions that are called otherwise up to TVM 0.21.
_CACHES = {"classic": b"vm.builtin.ndarray_cache.", "ffi": b"vm.builtin.tensor_cache."}
# Functions whose arguments have another order up to TVM 0.19.
_PAGED = "vm.builtin.paged_attention_kv_cache_create"
# Builtins that no release of the classic dialect has.
_OF_FFI = tuple(
    f"vm.builtin.{name}" for name in (
        "call_py_func", "register_py_func", "get_py_func", "clear_py_func_registry", "check_string_info",
    )
)  # fmt: skip


def reexpressed(
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
        source, target: as of `mblob.packager.modules.reexpress.reexpress`.
        of_0_16: it is of TVM 0.16 to 0.19.
        mapped: an element type as the target has it.

    Raises:
        BuildError: the other dialect cannot run it.
        FormatError: it is damaged.
    """
    vm_summary.relax(code, 0, _TAGS[source], check=True)
    c = Cursor(code)
    scoped = c.u64("magic") == vm_summary.MAGIC_V2
    magic = vm_summary.MAGIC_V2 if target == "ffi" else vm_summary.MAGIC
    pieces: list[Any] = [encode_u64(magic), encode_string(bytes(c.string("version")))]
    rows = list(_functions(c))
    _check(key, [row[:2] for row in rows], target, of_0_16)
    pieces.append(encode_u64(len(rows)))
    for kind, name, rest in rows:
        pieces += [kind.to_bytes(4, "little"), encode_string(_name_in(name, target)), rest]
    start = c.pos
    scopes = c.count("scopes", 16) if scoped else 0
    for _ in range(scopes):
        c.i64("scopes")
        c.skip_string("scopes")
    if scopes and target != "ffi":
        raise BuildError(
            f"{key}: constants have memory scopes, which the {target} dialect cannot say"
        )
    if target == "ffi":
        pieces.append(code[start : c.pos] if scoped else encode_u64(0))
    pieces += _constants(key, c, source, target, mapped)
    return [*pieces, code[c.pos :]]


def _functions(c: Cursor) -> Iterator[tuple[int, bytes, memoryview]]:
    """Kind, name and the rest of each row of the table."""
    for _ in range(c.count("functions", 52)):
        kind, name, start = c.i32("function"), bytes(c.string("function")), c.pos
        c.skip(32, "function")
        strings(c, "function")
        yield kind, name, c.data[start : c.pos]


def _name_in(name: bytes, target: str) -> bytes:
    for cache in _CACHES.values():
        if name.startswith(cache):
            return _CACHES[target] + name[len(cache) :]
    return name


def _check(key: str, functions: Sequence[tuple[int, bytes]], target: str, of_0_16: bool) -> None:
    """Refuse a program that the other dialect could read, but not run."""
    compiled = next((name for kind, name in functions if kind == relax_code.COMPILED), None)
    if compiled is not None:
        raise BuildError(
            f"{key}: function {text(compiled)!r} is machine code (exec_mode='compiled') that reads the values of its"
            " own dialect; compile the model for the other one, or as bytecode"
        )
    named = {text(name) for kind, name in functions if kind == relax_code.PACKED}
    if of_0_16 and any(name.startswith(_PAGED) for name in named):
        raise BuildError(
            f"{key}: it calls {_PAGED}, whose arguments have another order since TVM 0.20; compile the model again"
        )
    late = named.intersection(_OF_FFI) if target != "ffi" else ()
    if late:
        _warn_of(key, late)


def _warn_of(key: str, late: Iterable[str]) -> None:
    warn(
        f"{key}: it names {', '.join(sorted(late))}, which no TVM of the classic dialect has; mblob runs it",
        PortabilityWarning,
    )


def _constants(
    key: str, c: Cursor, source: str, target: str, mapped: Callable[[DataType, str], DataType]
) -> list[Any]:
    tags = {name: tag for tag, name in _TAGS[target].items()}
    count = c.count("constants", 4)
    pieces: list[Any] = [encode_u64(count)]
    for i in range(count):
        what = f"{key}: constant {i}"
        kind = _TAGS[source][c.i32(what)]
        pieces.append(tags[kind].to_bytes(4, "little"))
        start = c.pos
        if kind == "tensor":
            record = read_ndarray(c, what)
            dtype = mapped(record.dtype, what)
            pieces += [encode_header(dtype, record.shape, record.data.nbytes), record.data]
        elif kind == "dtype":
            pieces.append(mapped(DataType.from_bytes(c.take(4, what)), what).to_bytes())
        else:
            if kind == "shape":
                c.skip(8 * c.count(what, 8), what)
            elif kind == "string":
                c.skip_string(what)
            else:
                c.skip(8, what)
            pieces.append(c.data[start : c.pos])
    return pieces
