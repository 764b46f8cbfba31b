"""Repack: write a loaded library, with the modules that it has now, to a new file.

A module that was made and is not packed yet has no functions. To find them in it all the same,
`loaded_copy` packs it to a temporary file and loads that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from shutil import copy
from typing import TYPE_CHECKING, Any, Union
from weakref import WeakKeyDictionary

import mblob
from mblob import errors
from mblob.module import LIBRARY, Module
from mblob.node import EXPORTABLE, has_same_bytes, to_write
from mblob.temporary import check_may_replace, folder_beside, temporary_folder
from mblob.user_warnings import suppressed_warnings

if TYPE_CHECKING:
    from mblob.typed import Dialect, Digest

# By the module that was made: what its tree was, and the loaded copy of it.
_copies: WeakKeyDictionary[Module, tuple[list[Module], Module]] = WeakKeyDictionary()


def loaded_copy(module: Module) -> Module:
    """A loaded copy of a module that constructors made. There is one copy as long as the tree stays
    as it is.

    Raises:
        BuildError, ToolchainError, OSError: as of `export_library`.
    """
    tree = [*module.walk()][1:]
    known = _copies.get(module)
    if known is not None and known[0] == tree:
        return known[1]
    with (
        temporary_folder() as folder,
        suppressed_warnings(mblob.PortabilityWarning),
    ):  # TVM never sees the copy
        path = folder / "lib.so"
        mblob.export_library(module, path)
        file = path.open("rb")
    with file:  # which has no name any more, so no pickle names it
        copy = mblob.load_module(file)
    _copies[module] = tree, copy
    return copy


def export_loaded(
    module: Module,
    output: Path,
    dialect: Dialect | None,
    index: bool | None,
    digest: Digest | None,
    reuse: bool,
    others: Mapping[str, Any],
) -> None:
    """Write the tree of a loaded library to another file: the code as it is, with what the modules have
    become.

    Args:
        dialect, index, digest, reuse: of `export_library`; None: as the library has it.
        others: options of `export_library` that are for compilers and linkers.

    Raises:
        BuildError: it is not the tree of one library, or the code would have to be linked again.
        ChangedError: the file was overwritten since it was loaded.
        PermissionError: `output` is that file, which is read-only.
        FormatError, DigestError, ToolchainError, OSError: as of `mblob.swap` and `mblob.convert`.
    """
    node = next(m._node for m in module.walk() if m.type_key == LIBRARY)
    shown = node.path or "a library from memory"
    asked = {name: value for name, value in others.items() if value}
    if output.suffix == ".tar":
        raise mblob.BuildError(
            f"{shown}: a loaded library has no objects to put into {output}; name a .so, or pack its objects"
            " (static_library) or sources (csource_module)"
        )
    if output.suffix in _NOT_ELF:
        raise mblob.BuildError(
            f"{shown}: a loaded library is an ELF file; name the output {output.with_suffix('.so').name}"
        )
    with node.opened_file() as opened:
        check_may_replace(output, opened)
        try:
            path: Any = opened
            steps = _steps(module, path, shown, dialect, index, digest, reuse, asked)
            with temporary_folder() if len(steps) < 2 else folder_beside(output) as folder:
                for i, step in enumerate(steps[:-1]):
                    step(path, folder / f"{i}.so")
                    path = folder / f"{i}.so"
                steps[-1](path, output)
        except mblob.MblobError as error:
            texts = (str(a).replace(str(path), shown) for a in error.args)
            how = "; replace=True replaces it"  # an export has no such argument
            error.args = tuple(t.replace(how, f"; mblob.add with{how[1:]}") for t in texts)
            raise


_NOT_ELF = (".dll", ".dylib", ".exe", ".pyd", ".lib")
_OF_STANDALONE = ("prefix", "header", "shapes")
_OF_CODE = ("cc", "target", "options")  # what compiling new code takes
Step = Callable[[Any, Path], Any]  # writes a file that is made of another one


def _steps(
    module: Module,
    path: Any,
    shown: str,
    dialect: Dialect | None,
    index: bool | None,
    digest: Digest | None,
    reuse: bool,
    asked: Mapping[str, Any],
) -> list[Step]:
    """The steps that make the new file of the old one, in order."""
    with mblob.open(path) as library:
        blob = library.blob
        has_index = blob is not None and blob.index_offset is not None
        had = next((e.digest_algorithm for e in library.entries if e.digest), None)
        other = None if dialect == library.dialect else dialect
        changed, same, new_imports = _payloads(module, library, shown)
    code = any(
        m._node.properties & EXPORTABLE
        for row in new_imports.values()
        for new in row
        for m in new.walk()
    )
    whole = asked.get("standalone", False)
    if whole and index is False:
        raise mblob.BuildError(
            f"{shown}: index= has no meaning for a standalone library; leave it out"
        )
    code_options: Any = {name: asked.get(name) for name in _OF_CODE} if code or whole else {}
    own = {name: asked[name] for name in _OF_STANDALONE if name in asked} if whole else {}
    asked = {name: value for name, value in asked.items() if name not in (*own, "standalone")}
    left = [name for name in asked if name not in code_options]
    if left and other is None:
        raise mblob.BuildError(
            f"{shown}: {min(left)}= has no meaning for a loaded library, whose code is linked already; leave it out,"
            " or pack its objects (static_library) or sources (csource_module)"
        )
    steps: list[Step] = []
    new = digest if other is None and index is not False else None  # digest of the same dialect
    if blob is None and other is None and (new or index) and not new_imports:
        raise mblob.BuildError(
            f"{shown}: the library has no modules but its code, so an index would list nothing; leave index= and"
            " digest= out"
        )
    if new and not (has_index or index or new_imports):
        raise mblob.BuildError(
            f"{shown}: digest={digest!r}: the library has no index, which has the digests; add index=True"
        )
    if changed or (new and has_index):
        steps.append(partial(_swap, changed, digest=new if has_index else None, reuse=reuse))
    if new_imports:
        steps.append(partial(_add, new_imports, reuse=reuse, **code_options))
        if new and not has_index:
            steps.append(partial(_swap, {}, digest=new, reuse=reuse))
        has_index = True
    if other is not None:
        kept: Any = {
            "index": has_index if index is None else index,
            "digest": digest or had or "crc32",
            **asked,
        }
        steps.append(partial(mblob.convert, dialect=other, **kept))
    elif index is False and has_index:
        steps.append(partial(mblob.strip_index, reuse=reuse))
    elif index and not has_index:
        steps.append(partial(mblob.add_index, digest=digest or "crc32", reuse=reuse))
    elif not steps and not whole:
        steps.append(partial(_swap, same, reuse=reuse) if same else _copy)
    if whole:
        steps.append(partial(_standalone, **own, **code_options))
    return steps


def _swap(changes: Mapping[int | str, Any], path: Any, output: Path, **options: Any) -> None:
    mblob.swap(path, changes, output, **options)


def _add(new_imports: Mapping[int, list[Module]], path: Any, output: Path, **options: Any) -> None:
    mblob.add(path, modules=new_imports, output=output, **options)


def _standalone(path: Any, output: Path, **options: Any) -> None:
    mblob.standalone(path, output, **options)


def _copy(path: Any, output: Path) -> None:
    with folder_beside(output) as folder:
        Path(copy(path, folder)).replace(output)


Payloads = dict[Union[int, str], memoryview]


def _payloads(
    module: Module, library: Any, shown: str
) -> tuple[Payloads, Payloads, dict[int, list[Module]]]:
    """The payloads that changed, by index of their entries; one of any; and the modules that entries
    import now, and did not.

    Raises:
        BuildError: it is not the tree of that library.
    """
    code = next(m for m in module.walk() if m.type_key == LIBRARY)
    of_file = {id(m) for m in module.walk() if m is module or _file_of(m) == _file_of(code)}
    modules = _walk(module, lambda m: [c for c in m.imported_modules if id(c) in of_file])
    order = _walk(0, lambda i: library.entries[i].imports) if library.entries else []
    entries = [library.entries[i] for i in order]
    index = {id(m): i for i, m in zip(order, modules)}
    keys, found = [e.type_key for e in entries], [m.type_key for m in modules]
    new_imports: dict[int, list[Module]] = {}
    for m, e in zip(modules, entries):
        below = {index[id(c)] for c in m.imported_modules if id(c) in index}
        if keys != found or below != {*e.imports}:
            raise mblob.BuildError(
                f"{shown}: a loaded library is exported with all modules that it has, and what they import besides;"
                f" expected {errors.listed(keys, 6)}, found {errors.listed(found, 6)}; to pack other modules with its"
                " code, pack its objects (static_library) or sources (csource_module) with them"
            )
        if new := [c for c in m.imported_modules if id(c) not in of_file]:
            new_imports[e.index] = new
    if any(id(m) in of_file for row in new_imports.values() for new in row for m in new.walk()):
        raise mblob.BuildError(
            f"{shown}: a module that was imported imports one of the loaded library, which has its own place already"
        )
    changed: Payloads = {}
    held: Payloads = {}
    for m, e in zip(modules, entries):
        if m.type_key == LIBRARY:
            continue
        # A root with an origin of its own is one that a function of the library made.
        of_open = getattr(m._node, "origin", None) is getattr(code._node, "origin", None)
        saved = m._node.saved()
        held[e.index] = to_write(m) if saved is None else saved
        if (saved is not None or not of_open) and not has_same_bytes(held[e.index], e.view()):
            changed[e.index] = held[e.index]
    return changed, dict([*held.items()][:1]), new_imports


def _file_of(module: Module) -> Any:
    """A key that tells modules of one opened library apart from others; None for one of none."""
    node = module._node
    return (node.path or id(getattr(node, "origin", None))) if node.is_opened else None


def _walk(root: Any, below: Callable[[Any], Sequence[Any]]) -> list[Any]:
    """The objects that a root leads to, itself first, in the order of `Module.walk`."""
    found: dict[Any, None] = {}
    stack = [root]
    while stack:
        if (at := stack.pop()) not in found:
            found[at] = None
            stack.extend(reversed(below(at)))
    return list(found)
