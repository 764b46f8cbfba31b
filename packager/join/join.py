"""New code and a new blob for a finished library, whose own code and data keep their bytes and
addresses.

A caller describes the new library as a module tree, as for `export_library`. In this tree, the node
that `finished_code` makes stands for the code of the finished library. `join` takes these steps:

1. `export_library` links all other host modules, and the blob of the tree, to a small library.
2. `mblob.packager.join.merge` merges symbols and relocations of both libraries.
3. `mblob.packager.join.merged_file` writes both, and one table of each kind.
4. libmblob checks that a dynamic linker can load the result, which then gets its name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import MAX_PAGE, STT_FUNC, STT_GNU_IFUNC, Symbol
from mblob.binary.function_names import function_names, shown_name
from mblob.bytes.mapping import map_file
from mblob.errors import FormatError, IncompatibleError
from mblob.format.exported_functions import read_table
from mblob.format.system_library_prefixes import BLOBS
from mblob.inspect.elf_judge import check_loading
from mblob.inspect.library import Library
from mblob.module import Module
from mblob.packager.compile.host_objects import Generated, compile_generated, probe
from mblob.packager.compile.toolchain import find
from mblob.packager.errors import CannotJoinError, NameTakenError, unknown_to_tvm
from mblob.packager.functions.packed_or_plain import plain_row
from mblob.packager.functions.slot_shims import SLOTS
from mblob.packager.join.blob_references import find_reference
from mblob.packager.join.merge import CONTENTS, Names, is_shared, merge
from mblob.packager.join.merged_file import write
from mblob.packager.link.export import export_library
from mblob.packager.modules.nodes import DeclaredFunctions, ObjectNode
from mblob.packager.objects.object_files import ElfTarget, finished_functions
from mblob.packager.options import as_options
from mblob.packager.write.dialects import CLASSIC, Dialect
from mblob.temporary import replacing

_NAME = re.compile(r"[A-Za-z0-9_.$]+")
_TEXT = 4096  # bytes of the name that __tvm_main__ may hold


def join(
    path: Path,
    tree: Module,
    output: str | os.PathLike[str],
    dialect: Dialect,
    work: Path,
    export_options: Mapping[str, Any],
    *,
    hidden: Names = lambda name: False,
    replaced: Collection[str] = (),
    replaces: bool = False,
    keeps_blob: bool = False,
) -> None:
    """Write a library that has the code of `path`, and the other code and the blob of `tree`.

    Args:
        path: the finished library. It is only read, and may have any size: symbols, relocations and
            other tables of both libraries are in memory, the rest is mapped and copied.
        tree: all modules of the new library. It has the node of `finished_code(path, ...)`, and a
            payload module for each payload that the new library keeps. The old blob is not read. It
            becomes a hole, if it has at least 64 KiB and no code or data has its address.
        output: the new library, which may be `path`. The file is made beside `output` and renamed
            when it is complete; after an error, `output` is as it was, and nothing is left.
        dialect: of the new library.
        work: a folder of the caller's, for the objects and the small library with the new blob. So
            the disk has room for the new blob twice.
        export_options: options of `export_library` for the small library: cc, target, options, index, ...
        hidden: names, of either library, that nobody finds in the new one by name.
        replaced: names of the finished library that lead elsewhere in the new library, or nowhere.
            The blob, and tables whose names begin with `__mblob_`, are always replaced.
        replaces: what the new code exports takes the place of what has the same name. Code of the
            finished library goes on to use its own.
        keeps_blob: the blob stays where it is, and `tree` has code alone.

    Raises:
        CannotJoinError: the two cannot be one library; the text says why, but not what to do instead.
            The new code has constructors, destructors or thread-local variables with initial
            values, or exports a name of the finished library; the relocations of the machine are
            not known; there is no room for more program headers; or a dynamic linker would not
            load the result.
        IncompatibleError: there are no addresses behind the last segment, or the new code needs another C
            library.
        FormatError: the finished library is damaged.
        BuildError, ToolchainError, OSError: as of `export_library`.
    """
    part = work / "joined.so"
    own = {"dialect": dialect.name, "reuse": False, **({"index": False} if keeps_blob else {})}
    export_library(tree, part, **{**export_options, **own})
    with replacing(output) as temporary:
        new = _read(part)
        taken = {s.name for s in new.dynsym if s.is_exported and s.type in CONTENTS}
        names = {*replaced, *(n for n in taken if replaces and not is_shared(n))}
        unused = (0, 0)
        if not keeps_blob:
            names.update(BLOBS)
            unused = _unused_blob(path)
        merged = merge(_read(path), new, hidden, names)
        write(merged, path, temporary, unused, keeps_blob=keeps_blob)
        _check_loading(temporary, path)


def _read(path: Path) -> ElfFile:
    elf = ElfFile(map_file(path), str(path))
    elf.check_tables()
    return elf


def _check_loading(written: Path, path: Path) -> None:
    """Have libmblob judge what was written, if it is for this machine.

    Raises:
        CannotJoinError: the dynamic linker would not open it.
    """
    try:
        check_loading(ElfFile(map_file(written), str(path)))
    except (FormatError, IncompatibleError) as error:
        raise CannotJoinError(str(error)) from None


def _unused_blob(path: Path) -> tuple[int, int]:
    """Offset and size of the old blob, if it is worth a hole or has a segment of its own, and no code has its
    address; else zeros."""
    with Library(path) as library:
        elf, blob = library.elf, library.blob
        symbol = elf.find(blob.symbol) if blob is not None else None
        if symbol is None:
            return 0, 0
        found = elf.offset_of(symbol.st_value, symbol.st_size, symbol.name), symbol.st_size
        is_alone = any((s.p_offset, s.p_filesz) == found for s in elf.segments)
        is_worth = symbol.st_size >= MAX_PAGE or is_alone
        return found if is_worth and find_reference(elf, symbol) is None else (0, 0)


def check_machine(
    machine: ElfTarget, label: str, work: Path, export_options: Mapping[str, Any]
) -> None:
    """Refuse a library for another machine than the compiler's.

    Raises:
        IncompatibleError: naming both.
    """
    tools = find(export_options.get("cc"), export_options.get("target"))
    ours = probe(tools, as_options(export_options.get("options")), work)
    if ours.identity != machine.identity:
        raise IncompatibleError(
            f"{label} is for {machine}, the compiler {' '.join(tools.cc)} links for {ours}; pass cc= or target= of a"
            f" compiler for {machine.name}"
        )


# -- the finished library as a module --------------------------------------------------------------


def finished_code(
    path: Path,
    work: Path,
    export_options: Mapping[str, Any],
    *,
    needs_runtime: bool = False,
    asked: Collection[str] = (),
    replaces: bool = False,
) -> ObjectNode:
    """The code of a finished library as a host module of another tree: an object with its names alone.

    Args:
        path, work, export_options: as of `join`.
        needs_runtime: functions of a runtime that the code calls are not there in the new library's
            runtime, so the tree has to have them.
        asked: names of functions that the tree has prototypes of, or asks for by name. Plain C functions
            of the library among them get packed functions.
        replaces: the tree may define functions of the library once more, and its packed functions of
            the names that are asked for.

    Raises:
        CannotJoinError: a name that no assembler takes.
        NameTakenError: a packed function of the library has a name that is asked for.
        ToolchainError: the compiler does not work.
        FormatError, OSError: the library is damaged, or cannot be read.
    """
    tools = find(export_options.get("cc"), export_options.get("target"))
    options = as_options(export_options.get("options"))
    label = str(path)
    with Library(path) as library:
        replaced = asked if replaces else ()
        functions = finished_functions(library.elf, asked) if asked else []
        table = library.function_table
        unseen = read_table(library.elf, library.prefix, unseen=True)[len(table) :]
        plain = {f.name for f in functions if plain_row(f, of_tvm=True) is not None}
        plain.difference_update(row.symbol for row in table if row.abi == "packed")
        rows = [row for row in table if row.abi == "plain" or row.name not in replaced]
        rows = [row for row in rows if row.symbol not in plain]
        packed = [f for f in library.host_functions if f.abi != "plain" and f.symbol not in plain]
        kept = [f for f in packed if f.name not in replaced]
        if taken := {f.name for f in kept}.intersection(asked):
            raise NameTakenError(f"{label}: has a function {shown_name(min(taken))!r} already")
        symbols = {f.name for f in functions}.union(asked).difference(f.symbol for f in packed)
        symbols.update(f.symbol for f in kept)
        symbols.update(row.symbol for row in rows)
        text = "\n".join(
            f"__asm__({_c_string(line)});"
            for line in _lines(library, label, needs_runtime, symbols, replaces)
        )
        exports = tuple(sorted(function_names(library.elf)))
        opens_in_tvm = library.is_of_tvm and not unknown_to_tvm(library.entries)
    ((made, _),) = compile_generated(
        tools, [Generated("finished", f"names of {label}", text)], options, work
    )
    declared = DeclaredFunctions([f.symbol for f in kept if f.abi == "packed"])
    node = ObjectNode(made.path, declared, label=label, elsewhere=True)
    node.rows, node.described, node.exports = (*rows, *unseen), tuple(functions), exports
    node.opens_in_tvm = opens_in_tvm
    return node


def _c_string(line: str) -> str:
    return '"' + line.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _lines(
    library: Library, label: str, needs_runtime: bool, functions: Collection[str], weak: bool
) -> Iterator[str]:
    elf = library.elf
    yield ".text"
    for name in sorted(function_names(elf).intersection({*functions, CLASSIC.entry})):
        _check_name(name, label)
        yield f".{'weak' if weak else 'globl'} {name}"
        yield f".type {name}, %function"
        yield f"{name}: .byte 0"
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
        elif needs_runtime and not s.is_defined and s.name in SLOTS:
            yield f".dc.a {s.name}"


def _is_function(s: Symbol) -> bool:
    return s.type in (STT_FUNC, STT_GNU_IFUNC)


def _check_name(name: str, label: str) -> None:
    if not _NAME.fullmatch(name):
        raise CannotJoinError(f"{label}: has a function {name!r}, a name that no assembler takes")


def _text_of(library: Library, symbol: Symbol) -> str:
    """The text at a symbol, which may have no size."""
    elf = library.elf
    start = elf.offset_of(symbol.st_value, max(symbol.st_size, 1), symbol.name)
    return bytes(elf.data[start : start + _TEXT]).partition(b"\0")[0].decode(errors="replace")
