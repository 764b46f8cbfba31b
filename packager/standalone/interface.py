"""The C interface of a standalone library: its header, and the source of its four functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from mblob.dtype import DataType
from mblob.format.exported_functions import OUR_PREFIXES, RUNTIME_PREFIXES
from mblob.packager.errors import BuildError
from mblob.packager.standalone.description import Description, Tensor

FUNCTIONS = ("open", "run", "close", "error")
_PREFIX_LIMIT = 128  # characters
_HERE = Path(__file__).parent
_KEYWORDS = {
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern",
    "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short",
    "signed", "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile",
    "while", "asm", "bool", "catch", "class", "delete", "explicit", "export", "false", "friend", "mutable",
    "namespace", "new", "operator", "private", "protected", "public", "template", "this", "throw", "true",
    "try", "typename", "using", "virtual", "and", "or", "not", "xor", "alignas", "alignof", "nullptr",
}  # fmt: skip
# Elements that C spells; others are bytes to it.
_C_TYPES = {
    (0, 8): "int8_t", (0, 16): "int16_t", (0, 32): "int32_t", (0, 64): "int64_t",
    (1, 1): "uint8_t", (1, 8): "uint8_t", (1, 16): "uint16_t", (1, 32): "uint32_t", (1, 64): "uint64_t",
    (2, 32): "float", (2, 64): "double",
}  # fmt: skip


def checked_prefix(prefix: str, output: Path) -> str:
    """The prefix of the interface's names: the caller's, else the stem of the output.

    Raises:
        BuildError: it is no C name, or too long.
    """
    found = prefix or output.name.partition(".")[0]
    if found.startswith((*OUR_PREFIXES, *RUNTIME_PREFIXES)):
        raise BuildError(f"prefix={found!r}: names that start so are the runtime's; choose another")
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", found) or len(found) > _PREFIX_LIMIT:
        what = f"prefix={found[:_PREFIX_LIMIT]!r}" if prefix else f"{output}: {found!r}"
        raise BuildError(
            f"{what} cannot begin the names of C functions; expected letters, digits and _, no digit first, at most"
            f" {_PREFIX_LIMIT} characters" + ("" if prefix else ": add prefix=")
        )
    return found


def header(prefix: str, described: Description) -> str:
    """The text of the header."""
    guard = f"{prefix.upper()}_STANDALONE_H"
    return f"""\
/* {prefix}: a library with its runtime, packed by mblob. Link it, or open it with dlopen.
 *
 * Data is compact, in row-major order, and in the byte order of the machine. A model may be used by one
 * thread at a time; several models may run at the same time. */
#ifndef {guard}
#define {guard}

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

typedef struct {prefix}_model {prefix}_model;

typedef struct {prefix}_inputs {{
{_members(described.inputs, is_output=False)}\
}} {prefix}_inputs;

typedef struct {prefix}_outputs {{
{_members(described.outputs, is_output=True)}\
}} {prefix}_outputs;

/* 0, or an error, of which {prefix}_error() has the text. *model is given back with {prefix}_close. */
int32_t {prefix}_open({prefix}_model **model);
/* 0, or an error. Reads what the inputs point to, and writes what the outputs point to. */
int32_t {prefix}_run({prefix}_model *model, const {prefix}_inputs *inputs, const {prefix}_outputs *outputs);
void {prefix}_close({prefix}_model *model);
/* The text of this thread's last error, valid until the next one. */
const char *{prefix}_error(void);

#ifdef __cplusplus
}}
#endif
#endif
"""


def _members(tensors: Sequence[Tensor], *, is_output: bool) -> str:
    if not tensors:
        return "  const void *nothing; /* there are none */\n"
    const = "" if is_output else "const "
    return "".join(
        f"  {const}{_c_type(t.dtype)} *{name}; /* {_shown(t)} */\n"
        for t, name in zip(tensors, member_names(t.name for t in tensors))
    )


def _c_type(dtype: DataType) -> str:
    return _C_TYPES.get((dtype.code, dtype.bits), "void") if dtype.lanes == 1 else "void"


def _shown(t: Tensor) -> str:
    text = f"{t.dtype}[{', '.join(map(str, t.shape))}]"
    return text if t.name.isidentifier() else f"{text}: {_in_comment(t.name)}"


def _in_comment(text: str) -> str:
    return text.replace("*/", "* /").encode("unicode_escape").decode()


def member_names(names: Iterable[str]) -> list[str]:
    """Names of members of a struct: as the library has them, where C takes them, and each once."""
    found: list[str] = []
    for name in names:
        made = re.sub("[^A-Za-z0-9_]", "_", name)
        made = f"_{made}" if not made or made[0].isdigit() else made
        made = f"{made}_" if made in _KEYWORDS else made
        base, number = made, 1
        while made in found:
            number += 1
            made = f"{base}_{number}"
        found.append(made)
    return found


def source(prefix: str, described: Description) -> str:
    """The C source of the interface."""
    stored = [name for place, name in described.arguments if place == "stored"]
    lines = [
        "/* The interface of a standalone library, generated by mblob. */",
        text_of("runtime.h"),
        *_values("inputs", described.inputs),
        *_values("outputs", described.outputs),
        f"static const uint8_t arguments[] = {{{_listed(_place(p) for p, _ in described.arguments)}}};",
        f"static const char *const stored[] = {{{_listed(map(_quoted, stored))}}};",
        "static const struct mblob_alone described = {",
        f"    .kind = MBLOB_ALONE_{described.kind.upper()},",
        f"    .is_compiled_by_tvm = {int(described.is_compiled_by_tvm)},",
        f"    .blob = {_quoted(described.blob)},",
        f"    .module = {described.module},",
        f"    .name = {_quoted(described.name)},",
        f"    .input_count = {len(described.inputs)}, .output_count = {len(described.outputs)},",
        f"    .argument_count = {len(described.arguments)},",
        "    .inputs = inputs, .outputs = outputs, .arguments = arguments, .stored = stored,",
        "};",
        "#pragma GCC visibility push(default)",
        f"int32_t {prefix}_open(struct mblob_alone_model **model) {{ return mblob_alone_open(&described, model); }}",
        f"int32_t {prefix}_run(struct mblob_alone_model *model, const void *const *given, void *const *wanted) {{",
        "  return mblob_alone_run(model, given, wanted);",
        "}",
        f"void {prefix}_close(struct mblob_alone_model *model) {{ mblob_alone_close(model); }}",
        f"const char *{prefix}_error(void) {{ return mblob_alone_error(); }}",
        "#pragma GCC visibility pop",
    ]
    return "\n".join(lines) + "\n"


def text_of(name: str) -> str:
    """The text of a C file of this room."""
    return (_HERE / name).read_text(encoding="utf-8")


def _place(place: str) -> str:
    return f"MBLOB_ALONE_{place.upper()}"


def _listed(items: Iterable[str]) -> str:
    return ", ".join(items) or "0"  # no array of C is empty


def _values(what: str, tensors: Sequence[Tensor]) -> Iterator[str]:
    rows = []
    for i, t in enumerate(tensors):
        yield f"static const int64_t {what}_shape{i}[] = {{{_listed(map(str, t.shape))}}};"
        code, bits, lanes = t.dtype
        rows.append(
            f"{{{_quoted(t.name)}, {code}, {bits}, {lanes}, {len(t.shape)}, {what}_shape{i}}}"
        )
    yield f"static const struct mblob_alone_value {what}[] = {{{', '.join(rows) or '{0}'}}};"


def _quoted(text: str) -> str:
    """A string of C."""
    return '"' + "".join(_escaped(b) for b in text.encode()) + '"'


def _escaped(byte: int) -> str:
    plain = 0x20 <= byte < 0x7F and chr(byte) not in '"\\?'
    return chr(byte) if plain else f"\\{byte:03o}"
