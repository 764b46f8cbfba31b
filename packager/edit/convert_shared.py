"""`convert` of a finished library that has functions: its code stays, and adapters to the other
dialect join it.

The adapters, the table of functions and the packed modules are a library that `export_library`
makes as any other, but for the functions that they call, of which it gets the names alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import MAX_PAGE, STT_FUNC, STT_GNU_IFUNC, Symbol
from mblob.bytes.mapping import map_file
from mblob.bytes.whole_file import replacing
from mblob.errors import FormatError, IncompatibleError
from mblob.format.exported import FFI_PREFIX
from mblob.format.prefixes import BLOBS
from mblob.inspect.elf_judge import check_loading
from mblob.inspect.library import Library
from mblob.module import Module
from mblob.packager.compile.host_objects import Generated, compile_generated
from mblob.packager.compile.toolchain import find
from mblob.packager.errors import BuildError
from mblob.packager.functions.slot_shims import SLOTS
from mblob.packager.join.blob_references import find_reference
from mblob.packager.join.merge import graft
from mblob.packager.link.export import export_library
from mblob.packager.modules.nodes import Declared, ObjectNode
from mblob.packager.options import as_options
from mblob.packager.write.dialects import CLASSIC, DIALECTS, Dialect

_NAME = re.compile(r"[A-Za-z0-9_.$]+")
_TEXT = 4096  # bytes of the name that __tvm_main__ may hold
# What only code of one dialect has; what else it has for the runtime is the same in both.
_OWN = {
    "classic": {"TVMFuncCall", "TVMAPISetLastError", "TVMBackendGetFuncFromEnv"},
    "ffi": {
        *(name for name in SLOTS if name.startswith("TVMFFI")),
        "TVMFFIStringFromByteArray",
        "TVMFFIBytesFromByteArray",
    },
}


def names_of(path: Path, work: Path, how: Mapping[str, Any]) -> ObjectNode:
    """An object with the names of a library that its adapters have to know.

    Raises:
        BuildError: a name that no assembler takes.
        ToolchainError: the compiler does not work.
    """
    tools = find(how.get("cc"), how.get("target"))
    options = [o for o in as_options(how.get("options")) if not o.startswith("-flto")]
    label = str(path)
    with Library(path) as library:
        text = "\n".join(f"__asm__({_c_string(line)});" for line in _lines(library, label))
        packed = [f.symbol for f in library.host_functions if f.abi == "packed"]
    ((made, _),) = compile_generated(
        tools, [Generated("finished", f"names of {label}", text)], options, work
    )
    return ObjectNode(made.path, Declared(packed, may_name=True), label=label, elsewhere=True)


def _c_string(line: str) -> str:
    return '"' + line.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _lines(library: Library, label: str) -> Iterator[str]:
    elf = library.elf
    rows = {row.symbol for row in library.function_table}
    functions = {f.symbol for f in library.host_functions if f.abi != "plain" or f.symbol in rows}
    yield ".text"
    for s in elf.dynsym:
        if s.is_exported and _is_function(s) and (s.name in functions or s.name == CLASSIC.entry):
            _check_name(s.name, label)
            yield f".globl {s.name}"
            yield f".type {s.name}, %function"
            yield f"{s.name}: .byte 0"
    yield ".data"
    for s in elf.dynsym:
        if s.is_exported and s.name == CLASSIC.entry and not _is_function(s):
            name = _text_of(library, s)
            _check_name(name, label)
            yield f".globl {s.name}"
            yield f".type {s.name}, %object"
            yield f'{s.name}: .asciz "{name}"'
        elif (
            s.is_exported
            and not _is_function(s)
            and s.name.startswith(("__TVM", "__tvm_"))
            and s.name not in BLOBS
        ):
            _check_name(s.name, label)
            yield f".weak {s.name}"
            yield f".type {s.name}, %object"
            yield f"{s.name}: .byte 0"
        elif not s.is_defined and s.name in SLOTS:
            yield f".dc.a {s.name}"


def _is_function(s: Symbol) -> bool:
    return s.type in (STT_FUNC, STT_GNU_IFUNC)


def _check_name(name: str, label: str) -> None:
    if not _NAME.fullmatch(name):
        raise BuildError(
            f"{label}: has a function {name!r}, a name that no assembler takes; convert the objects that it was linked"
            " from"
        )


def _text_of(library: Library, symbol: Symbol) -> str:
    """The text at a symbol, which may have no size."""
    elf = library.elf
    start = elf.offset_of(symbol.st_value, max(symbol.st_size, 1), symbol.name)
    return bytes(elf.data[start : start + _TEXT]).partition(b"\0")[0].decode(errors="replace")


def convert_finished(
    path: Path,
    tree: Module,
    file_name: str | os.PathLike[str],
    dialect: Dialect,
    work: Path,
    how: Mapping[str, Any],
) -> None:
    """Write `file_name`: the library `path` with `tree` in place of its modules, in the other
    dialect.

    Args:
        tree: has a node for the library, of code that is elsewhere.

    Raises:
        As of `mblob.packager.edit.convert.convert`.
    """
    _check(path, file_name, how)
    with Library(path) as library:
        adapted = {f.symbol for f in library.host_functions if f.abi != "plain"}
        unused = _old_blob(library)
    part = work / "adapters.so"
    export_library(tree, part, **{**how, "dialect": dialect.name, "reuse": False})
    with replacing(file_name) as temporary:
        graft(
            path,
            part,
            temporary,
            lambda name: _is_hidden(name, dialect),
            _is_shared,
            adapted,
            unused,
        )
        _check_loading(temporary, path)


def _check_loading(written: Path, path: Path) -> None:
    """Have libmblob judge what was written, if it is for this machine.

    Raises:
        BuildError: the dynamic linker would not open it.
    """
    try:
        check_loading(ElfFile(map_file(written), str(path)))
    except (FormatError, IncompatibleError) as error:
        raise BuildError(f"{error}; convert the objects that it was linked from") from None


def _old_blob(library: Library) -> tuple[int, int]:
    """Where the old blob is, if it is worth a hole and no code has its address."""
    symbol = library.elf.find(library.blob.symbol) if library.blob is not None else None
    if (
        symbol is None
        or symbol.st_size < MAX_PAGE
        or find_reference(library.elf, symbol) is not None
    ):
        return 0, 0
    return library.elf.offset_of(symbol.st_value, symbol.st_size, symbol.name), symbol.st_size


def _check(path: Path, file_name: str | os.PathLike[str], how: Mapping[str, Any]) -> None:
    for name in ("fcompile", "fpack_imports", "system_lib"):
        if how.get(name):
            raise BuildError(
                f"{path}: a finished library, to which adapters are added without {name}=; leave it out, or convert the"
                " objects that it was linked from"
            )
    if Path(file_name).suffix in (".tar", ".o", ".a"):
        raise BuildError(
            f"{path}: a finished library has no objects to put into {file_name}; name a .so, or convert the objects"
            " that it was linked from"
        )


def _is_hidden(name: str, target: Dialect) -> bool:
    """Whether a name is nothing for loaders of the target dialect, which would take it for
    something else."""
    (other,) = (d for d in DIALECTS.values() if d is not target)
    if name in SLOTS or name in _OWN["ffi"]:  # functions of ours that the code calls by name
        return True
    if name in BLOBS:
        return name != target.symbol
    if name.startswith("__TVM"):
        return name[2:] in _OWN[other.name]
    if name in (other.context, other.entry):
        return True
    return not target.is_ffi and name.startswith(FFI_PREFIX)


def _is_shared(name: str) -> bool:
    return name.startswith("__TVM") or name in {d.context for d in DIALECTS.values()}
