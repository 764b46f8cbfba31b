"""The layout of the payload of each type key: docs/format.md, section 3, and in the ffi dialect
(TVM 0.21 and later) section 11.

Classic payloads carry no length; a reader without an index must walk them. Each key has a grammar,
declared as data in `mblob.format.type_keys`: a sequence of named fields. Where two releases wrote
two layouts under one key, the payload's first string tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from mblob.bytes.wire import Cursor, encode_string, encode_strings, encode_u64
from mblob.dtype import DataType
from mblob.errors import FormatError
from mblob.format.ndarray import ArrayRecord, read_ndarray
from mblob.format.type_keys import NONE, RELAX_EXECUTABLE, TABLE
from mblob.named_tuple import NamedTuple

Read = Callable[[Cursor, str], Any]
Grammar = Sequence[tuple[str, Read]]
Grammars = Mapping[str, "Grammar | Callable[[Cursor], Grammar]"]


class FunctionInfo(NamedTuple):
    """A device kernel: parameter types in order, launch tags (`blockIdx.x`, `threadIdx.x`, ...); in
    the ffi dialect a number for each parameter, too (1: a descriptor of CUDA's tensor maps)."""

    name: str
    arg_types: tuple[DataType, ...]
    launch_param_tags: tuple[str, ...]
    arg_extra_tags: tuple[int, ...] = ()


# -- fields ----------------------------------------------------------------------------------------


def string(c: Cursor, what: str) -> memoryview:
    return c.string(what)


def strings(c: Cursor, what: str) -> list[memoryview]:
    return [c.string(what) for _ in range(c.count(what, 8))]


def i32(c: Cursor, what: str) -> int:
    return c.i32(what)


def function_map(c: Cursor, what: str) -> dict[str, FunctionInfo]:
    """unordered_map<string, FunctionInfo>; the inner name is written empty, the key is the kernel's
    name."""
    functions: dict[str, FunctionInfo] = {}
    for _ in range(c.count(what, 32)):
        info = function_info(c, what)
        functions[info.name] = info
    return functions


def function_info(c: Cursor, what: str) -> FunctionInfo:
    name = text(c.string(f"{what}.name"))
    c.skip_string(f"{what}.name")
    types = c.take(4 * c.count(f"{what}.arg_types", 4), f"{what}.arg_types")
    tags = tuple(text(tag) for tag in strings(c, f"{what}.launch_param_tags"))
    args = tuple(DataType.from_bytes(types[i : i + 4]) for i in range(0, len(types), 4))
    return FunctionInfo(name, args, tags)


def ffi_function_map(c: Cursor, what: str) -> dict[str, FunctionInfo]:
    """The same in the ffi dialect: behind the launch tags of each a vector<i32>, one number for each parameter (or none
    at all)."""
    functions = {}
    for _ in range(c.count(what, 40)):
        info = function_info(c, what)
        extra = tuple(
            c.i32(f"{what}.arg_extra_tags") for _ in range(c.count(f"{what}.arg_extra_tags", 4))
        )
        types = tuple(t.of_ffi() for t in info.arg_types)
        functions[info.name] = info._replace(arg_types=types, arg_extra_tags=extra)
    return functions


def string_map(c: Cursor, what: str) -> dict[str, memoryview]:
    return {text(c.string(what)): c.string(what) for _ in range(c.count(what, 16))}


def shader_map(c: Cursor, what: str) -> dict[str, memoryview]:
    """map<string, {u32 flag, vector<u32> words}>."""
    shaders = {}
    for _ in range(c.count(what, 20)):
        name = text(c.string(what))
        c.skip(4, f"{what}.flag")
        shaders[name] = c.take(4 * c.count(f"{what}.words", 4), f"{what}.words")
    return shaders


def named_arrays(c: Cursor, what: str) -> dict[str, ArrayRecord]:
    return dict(named_array_pairs(c, what))


def named_array_pairs(c: Cursor, what: str) -> list[tuple[str, ArrayRecord]]:
    """u64 n, vector<string> names (n of them), n arrays."""
    start = c.pos
    count = c.u64(what)
    names = [text(n) for n in strings(c, f"{what}.names")]
    if count != len(names):
        raise c.fail(f"{what}: {count} arrays, {len(names)} names", at=start)
    return [(name, read_ndarray(c, f"{what}[{name!r}]")) for name in names]


def constants(c: Cursor, what: str) -> dict[str, ArrayRecord]:
    return dict(constant_pairs(c, what))


def constant_pairs(c: Cursor, what: str) -> list[tuple[str, ArrayRecord]]:
    """vector<string> names, u64 n (the same count), n arrays."""
    names = [text(n) for n in strings(c, f"{what}.names")]
    start = c.pos
    count = c.u64(what)
    if count != len(names):
        raise c.fail(f"{what}: {len(names)} names, {count} arrays", at=start)
    return [(name, read_ndarray(c, f"{what}[{name!r}]")) for name in names]


def symbol_constants(c: Cursor, what: str) -> dict[str, list[str]]:
    """vector<string> symbols, u64 n (the same count), n vector<string>."""
    symbols = [text(s) for s in strings(c, f"{what}.symbols")]
    start = c.pos
    count = c.u64(what)
    if count != len(symbols):
        raise c.fail(f"{what}: {len(symbols)} symbols, {count} lists", at=start)
    return {symbol: [text(v) for v in strings(c, what)] for symbol in symbols}


def ethos_n(c: Cursor, what: str) -> None:
    """u64 n, n * {string name, string stream, then for inputs and outputs: u64 k, k u32 orders, k
    u32 sizes}."""
    for _ in range(c.count(what, 32)):
        c.skip_string(f"{what}.name")
        c.skip_string(f"{what}.command_stream")
        for side in ("inputs", "outputs"):
            c.skip(8 * c.count(f"{what}.{side}", 8), f"{what}.{side}")


def rest(c: Cursor, what: str) -> memoryview:
    """All that is left: a payload with a grammar of its own, which is not read here."""
    return c.take(c.left, what)


# -- grammars --------------------------------------------------------------------------------------

FIELDS: Mapping[str, Read] = {
    "s": string, "v": strings, "i": i32, "f": function_map, "m": string_map, "h": shader_map, "n": named_arrays,
    "c": constants, "y": symbol_constants, "e": ethos_n, "r": rest,
}  # fmt: skip
_FFI_FIELDS = {**FIELDS, "f": ffi_function_map}


def first_string(c: Cursor) -> bytes:
    """The first string of a payload if it is short enough to be a format name, else b""."""
    ahead = Cursor(c.data, c.pos, c.end)
    if ahead.left < 8 or (size := ahead.u64("fmt")) > min(ahead.left, 64):
        return b""
    return bytes(ahead.take(size, "fmt"))


def grammar_of(
    text: str, fields: Mapping[str, Read] = FIELDS
) -> Grammar | Callable[[Cursor], Grammar]:
    """The grammar in a column of `mblob.format.type_keys.TABLE`, or a function that chooses it.

    Args:
        fields: what the letters stand for.
    """
    texts, _, forms = text.rpartition(" ? ")
    made = [
        tuple((name, fields[letter]) for name, letter in _words(form)) for form in forms.split("|")
    ]
    if not texts:
        return made[0]
    known = {word.encode() for word in texts.split(",")}
    return lambda c: made[0] if first_string(c) in known else made[1]


def _words(form: str) -> list[tuple[str, str]]:
    return [(name, letter) for name, _, letter in (word.partition(":") for word in form.split())]


GRAMMARS: Grammars = {row.key: grammar_of(row.classic) for row in TABLE}
# From 0.22 on every payload has its length; 0.21 wrote the executable as one string.
FFI_GRAMMARS: Grammars = {
    row.key: grammar_of(row.ffi, _FFI_FIELDS) for row in TABLE if row.ffi != NONE
}
FFI_GRAMMARS_OF_0_21: Grammars = {**FFI_GRAMMARS, RELAX_EXECUTABLE: GRAMMARS[RELAX_EXECUTABLE]}


def text(raw: memoryview | bytes) -> str:
    """Text of a name from a file; bytes that are not UTF-8 are shown as such, never refused."""
    return bytes(raw).decode("utf-8", "backslashreplace")


def read_payload(key: str, cursor: Cursor, grammars: Grammars = GRAMMARS) -> dict[str, Any]:
    """Walk one payload and return its fields; the cursor ends behind it. Strings are views, nothing
    is copied.

    Args:
        grammars: those of the dialect.

    Raises:
        FormatError: "unknown_key" if the key has no grammar, "payload" or "truncated" if it breaks
            it.
    """
    grammar = grammars.get(key)
    if grammar is None:
        raise unknown_key(key, cursor)
    if callable(grammar):
        grammar = grammar(cursor)
    return {name: read(cursor, f"{key}.{name}") for name, read in grammar}


def unknown_key(key: str, cursor: Cursor, why: str = "") -> FormatError:
    """The error of a key without a grammar, whose payload begins at the cursor.

    Args:
        why: behind the reason, for those who have a loader.
    """
    error = cursor.fail(
        f"type key {key!r} has no known payload grammar and there is no index{why}: what follows cannot be read. Its"
        f" loader can tell its layout (register_loader({key!r}, layout=...))",
        "unknown_key",
    )
    error.type_key = key
    return error


def decode_payload(key: str, payload: memoryview, grammars: Grammars = GRAMMARS) -> dict[str, Any]:
    """Fields of a whole payload ({} for a key without a grammar).

    Raises:
        FormatError: it breaks its grammar, or bytes follow.
    """
    if key not in grammars:
        return {}
    cursor = Cursor(payload)
    fields = read_payload(key, cursor, grammars)
    if cursor.left:
        raise cursor.fail(f"{key}: {cursor.left} bytes follow the payload")
    return fields


def encode_function_map(functions: Iterable[FunctionInfo]) -> bytes:
    """`fmap` of a device module, in the order given."""
    items = list(functions)
    out = [encode_u64(len(items))]
    for f in items:
        out += [encode_string(f.name), encode_string(""), encode_u64(len(f.arg_types))]
        out += [t.to_bytes() for t in f.arg_types]
        out.append(encode_strings(f.launch_param_tags))
    return b"".join(out)
