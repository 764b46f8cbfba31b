"""The request of one export: checked arguments of `export_library`, and the plan of the blob. Also
what the steps need: the dialect of the inputs, the compiler, the declared functions, the file of `fpack_imports`."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mblob.arguments import items
from mblob.binary.elf import ElfFile
from mblob.binary.file_kind import ELF_MAGIC
from mblob.bytes.mapping import map_file
from mblob.errors import HiddenNameWarning, PortabilityWarning, UnreadableWarning, listed
from mblob.format import note
from mblob.format.blob_plan import BlobPlan
from mblob.format.exported_functions import OUR_PREFIXES, RUNTIME_PREFIXES, code_dialects, ffi_name
from mblob.format.plugin_table import Plugin
from mblob.format.type_keys import (
    GRAPH_FACTORY,
    GRAPHS,
    NONE,
    RELAX_EXECUTABLE,
    RELAX_EXECUTABLE_OF_0_16,
    RELAX_EXECUTABLES,
    ROWS,
    SAFETENSORS,
)
from mblob.module import Module
from mblob.named_tuple import NamedTuple
from mblob.packager.compile.host_objects import compile_all
from mblob.packager.compile.toolchain import find
from mblob.packager.errors import BuildError, BuildTypeError, warn, warn_of_tvm
from mblob.packager.functions.adapters import MARK
from mblob.packager.functions.wrappers import Wrapped
from mblob.packager.modules.nodes import (
    HostNode,
    ObjectNode,
    SourceNode,
    comment_finder,
    file_of,
    files_in,
    files_of,
    is_host,
    node_of,
)
from mblob.packager.modules.repeated_names import repeated_names
from mblob.packager.objects.object_files import objects_of
from mblob.packager.options import as_options, check_options, linker_named
from mblob.packager.path_arguments import check_output, checked_path, workspace
from mblob.packager.write.blob_stream import plan_blob, unreadable_keys
from mblob.packager.write.dialects import CHANGES_LINKED, DIALECTS, Dialect, check_choices
from mblob.packager.write.graph_names import packed_names
from mblob.source_suffixes import LANGUAGE_OF

if TYPE_CHECKING:
    from mblob.format.functions_table import Row
    from mblob.packager.compile.toolchain import Toolchain
    from mblob.packager.standalone.parts import Standalone
    from mblob.packager.write.file_sink import OldLibrary

EARLY_COPY_SIZE = 64 << 20  # bytes of payloads from which a copy beside compilers pays
PREFIX_LIMIT = 128  # characters


class Cancelled(Exception):
    """Nobody wants the blob any more."""


class Triple:
    """The triple that the library is for, which only the compiler knows: `gather` tells how to ask it, or
    the export with `fcompile`. A blob that is copied meanwhile waits for that. The thread of the export
    does not wait, for it would have to tell it."""

    def __init__(self) -> None:
        self._known = threading.Event()
        self._export = threading.get_ident()
        self._ask: Callable[[], str] | None = None

    def tell(self, ask: Callable[[], str]) -> None:
        self._ask = ask
        self._known.set()

    def give_up(self) -> None:
        """Nobody will tell; who waits gets `Cancelled`, until somebody does."""
        self._known.set()

    def __call__(self) -> str:
        if threading.get_ident() != self._export:
            self._known.wait()
        elif not self._known.is_set():
            raise RuntimeError("the blob is written before its triple is told")
        if self._ask is None:
            raise Cancelled
        return self._ask()


class Request(NamedTuple):
    """The arguments of `export_library`, of which see the meaning there; `options` is split,
    `carry` as of `mblob.packager.link.carried_plugins.given_plugins`.

    Attributes:
        plan: of the blob; its target is `triple`.
        host: the host modules, which are linked.
        comments: the comment above a function of one of them, as of `Comments.of`.
        old: the library whose blocks a new one may share.
        names: what graphs in the blob call instead of a plain C function.
        found: functions of the host modules that have a prototype since their objects are known
            (`mblob.packager.link.inputs.gather`).
        expanded_names: functions whose names in prototypes are macros, by the macros.
        standalone: the interface of a standalone library; None of others.
    """

    module: Module
    plan: BlobPlan
    host: list[HostNode]
    dialect: Dialect
    triple: Triple
    fpack_imports: Callable[..., Any] | None
    addons: list[Path]
    embed: str
    cc: str | Sequence[str] | None
    target: str | None
    options: tuple[str, ...]
    comments: Callable[..., str | None]
    system_lib: bool = False
    prefix: str = ""
    carry: tuple[tuple[HostNode, ...], ...] = ()
    old: OldLibrary | None = None
    names: Mapping[str, str] = MappingProxyType({})
    found: tuple[Wrapped, ...] = ()
    expanded_names: Mapping[str, str] = MappingProxyType({})
    standalone: Standalone | None = None

    def tools(self) -> Toolchain:
        """The compilers; errors are those of `mblob.packager.compile.toolchain.find`."""
        return find(self.cc, self.target)

    @property
    def is_copied_early(self) -> bool:
        """True if the blob is copied while compilers run: if the linker has no part in it, and it
        can be read twice, for the linker may turn out to need another place."""
        if (
            self._has_open_graph
            or linker_named(self.options) == "mold"
            or self.embed not in ("auto", "grow")
            or self.fpack_imports is not None
            or self.standalone is not None  # which is linked twice
        ):
            return False
        try:
            return (self.plan.known_size or 0) >= EARLY_COPY_SIZE
        except OSError:
            return False  # which will be told when the payload's turn comes

    @property
    def lead(self) -> int:
        """Bytes by which the blob starts behind a multiple of its alignment."""
        return self.plan.lead or 0

    @property
    def announced(self) -> int:
        """Flags of the note in the library."""
        is_of_tvm = any(node_of(module).opens_in_tvm for module in self.module.walk())
        return (note.HAS_INDEX if self.plan.index else 0) | (note.OF_TVM if is_of_tvm else 0)

    @property
    def symbol(self) -> str:
        """Of the blob in the library."""
        return self.prefix + self.dialect.symbol

    @property
    def aligned_keys(self) -> list[str]:
        """Keys of payloads whose alignment the caller asked for."""
        return [
            e.type_key for e in self.plan.entries if e.alignment > 1 and e.type_key != SAFETENSORS
        ]

    def type_keys(self) -> frozenset[str] | None:
        """Of the modules in the library; None if the caller's `fpack_imports` writes them."""
        return (
            None
            if self.fpack_imports
            else frozenset(module.type_key for module in self.module.walk())
        )

    def wrapped(self) -> list[Wrapped]:
        """The plain functions that get a packed function, of all host modules.

        Raises:
            BuildError: two modules declare one name differently.
        """
        found: dict[str, Wrapped] = {}
        comments: dict[str, list[str]] = {}
        for node in self.host:
            for prototype in node.declared.functions:
                wrapped = Wrapped(prototype, prototype.name in node.declared.packed, self.dialect)
                if found.setdefault(prototype.name, wrapped) != wrapped:
                    raise BuildError(
                        f"functions: {prototype.name} is declared by two modules, and differently"
                    )
                comment = self.comments(node, prototype.name)
                comments.setdefault(prototype.name, []).extend([] if comment is None else [comment])
        for name, found_comments in comments.items():
            if len(found_comments) == 1:  # else two modules define it
                found[name] = found[name].with_comment(found_comments[0])
        for wrapped in self.found:
            found[wrapped.prototype.name] = wrapped
        return list(found.values())

    @property
    def _has_open_graph(self) -> bool:
        """True if graphs call functions by names that are known when objects are."""
        return (
            not (self.dialect.is_ffi or self.system_lib)
            and any(m.type_key == GRAPH_FACTORY for m in self.module.walk())
            and any(node.declared.looks for node in self.host)
        )

    def with_found(self, found: Sequence[Wrapped]) -> Request:
        """The request with functions whose prototypes the objects tell: graphs call their packed
        functions."""
        changed = self._replace(found=tuple(found))
        if not self._has_open_graph:
            return changed
        names = packed_names(
            self.module,
            self.dialect,
            [w.prototype.name for w in found if not (w.takes_name or w.prototype.mangled)],
        )
        plan = self.plan
        plan, _ = plan_blob(
            self.module,
            self.dialect,
            index=plan.index,
            digest=plan.digest,
            target=self.triple,
            names=names,
        )
        return changed._replace(plan=plan, names=names)

    def named(self) -> list[str]:
        """Packed functions that host modules have by their names alone."""
        of_source = {w.prototype.name for w in self.found}
        names = (name for node in self.host for name in node.declared.names)
        names = (self.expanded_names.get(name, name) for name in names)
        return [name for name in names if name not in of_source]

    def table_rows(self, *, unseen: bool = False) -> list[Row]:
        """Rows of tables that came with the host modules; `unseen`: those of what no library exports."""
        rows = dict.fromkeys(row for node in self.host for row in node.rows)
        return [row for row in rows if bool(row.abi) != unseen]

    def packed_file(self, work: Path) -> Path | None:
        """The file of the caller's `fpack_imports`; None without one, or without imports (as in TVM)."""
        if self.fpack_imports is None or not self.module.imported_modules:
            return None
        made = self.fpack_imports(self.module, self.system_lib, self.prefix, str(work))
        if not isinstance(made, (str, Path)) or not Path(made).is_file():
            raise BuildError(
                f"fpack_imports returned {made!r}, expected the path of a file that it wrote"
            )
        return Path(made)


# -- the arguments ---------------------------------------------------------------------------------


def request_of(
    module: Module,
    *,
    dialect: str,
    embed: str,
    index: bool,
    digest: str,
    cc: str | Sequence[str] | None,
    target: str | None,
    options: str | Sequence[str] | None,
    system_lib: bool,
    prefix: str,
    fpack_imports: Callable[..., Any] | None,
    addons: Sequence[str | os.PathLike[str]] | None,
    carry: Sequence[str | os.PathLike[str] | Module] | None,
) -> Request:
    """The request that arguments of `export_library` make, with the plan of the blob.

    Raises:
        BuildError, TypeError, FormatError, OSError: as of `export_library`.
    """
    check_choices(dialect=dialect, embed=embed, digest=digest)
    _check_prefix(prefix, system_lib)
    triple, spoken = Triple(), DIALECTS[dialect]
    # A system library announces packed functions under the names of the C functions.
    has_graph = any(m.type_key == GRAPH_FACTORY for m in module.walk())
    names = packed_names(module, spoken) if has_graph and not system_lib else {}
    plan, host = plan_blob(module, spoken, index=index, digest=digest, target=triple, names=names)
    return Request(
        module=module,
        plan=plan,
        host=host,
        dialect=spoken,
        triple=triple,
        fpack_imports=fpack_imports,
        addons=_addons(addons),
        embed=embed,
        cc=cc,
        target=target,
        options=as_options(options),
        comments=comment_finder(),
        system_lib=system_lib,
        prefix=prefix,
        carry=_plugins(carry),
        names=names,
    )


def _plugins(
    carry: Sequence[str | os.PathLike[str] | Module] | None,
) -> tuple[tuple[HostNode, ...], ...]:
    if carry is None or (isinstance(carry, (list, tuple)) and not carry):
        return ()
    from mblob.packager.link.carried_plugins import given_plugins

    return given_plugins(carry)


def _addons(given: Sequence[str | os.PathLike[str]] | None) -> list[Path]:
    if given is None:
        return []
    paths = items("export_library", "addons", given, "a list of paths", BuildTypeError)
    return [Path(checked_path(a, "addons")) for a in paths]


def _check_prefix(prefix: str, system_lib: bool) -> None:
    """Refuse a prefix that symbols cannot have, or one without a system library.

    Raises:
        BuildError, TypeError: saying what is expected.
    """
    if not isinstance(prefix, str):
        raise BuildTypeError(f"prefix: expected a str, found {type(prefix).__name__}")
    if prefix and not system_lib:
        raise BuildError(
            f"prefix={prefix!r}: only the symbols of a system library have a prefix; add system_lib=True,"
            " or leave the prefix out"
        )
    if prefix and (
        not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", prefix) or len(prefix) > PREFIX_LIMIT
    ):
        raise BuildError(
            f"prefix={prefix[:PREFIX_LIMIT]!r}: expected the start of a C name: letters, digits and _, no digit first,"
            f" at most {PREFIX_LIMIT} characters"
        )
    if prefix.startswith((*OUR_PREFIXES, *RUNTIME_PREFIXES)):
        raise BuildError(
            f"prefix={prefix!r}: names that start so are the runtime's; choose another"
        )


# -- the dialect of the inputs ---------------------------------------------------------------------

# Programs of Relax begin so, but for one byte. In the classic dialect, their length stands in front.
_PROGRAM = 0xD225DE2F421415.to_bytes(7, "little")
# In sources with functions of the ffi dialect, or with a macro that defines one.
_OF_FFI = re.compile(r"TVM_?FFI|tvm[/_]ffi")


def dialect_of(
    root: Module,
    cc: str | Sequence[str] | None = None,
    target: str | None = None,
    options: str | Sequence[str] | None = None,
) -> str:
    """The dialect of the inputs in a tree: objects and packed modules of a library, objects that TVM
    compiled or that are written for its runtime, sources of such objects, graphs, programs of Relax.
    Others can be of either; if all are, it is classic.

    Args:
        cc, target, options: as of `export_library`, for sources.

    Raises:
        BuildError: inputs of both dialects; one of each is named.
        FormatError: a damaged object. OSError: one that cannot be read.
        ToolchainError: a compiler is missing or refuses a source.
    """
    found = dialects_with_sources(list(root.walk()), cc, target, options)
    if len(found) > 1:
        raise BuildError(f"{both_dialects(found)}: dialect= says which one the library is for")
    return next(iter(found), "classic")


def dialects_of(modules: Iterable[Module]) -> dict[str, str]:
    """The dialects of modules, as `dialect_of` tells them, and an input that is of each."""
    found: dict[str, str] = {}
    for module in modules:
        home = node_of(module).home
        name, file = home or (_name_of(module), file_of(module))
        if name is not None:
            found.setdefault(name, file or f"the module {module.type_key!r}")
    return found


def dialects_with_sources(
    modules: Sequence[Module],
    cc: str | Sequence[str] | None = None,
    target: str | None = None,
    options: str | Sequence[str] | None = None,
) -> dict[str, str]:
    """The same as `dialects_of`, with what the objects of sources will tell. A source with words of the
    ffi dialect is compiled to know that: macros may make its functions."""
    found = dialects_of(modules)
    nodes = [n for n in map(node_of, modules) if isinstance(n, SourceNode) and not n.home]
    texts = {n: _text(n) for n in nodes}
    if not any(map(_OF_FFI.search, texts.values())):
        return found
    marked = [n for n, text in texts.items() if "tvm" in text.lower()]
    with workspace(None) as work:
        plain = [SourceNode(n.code, n.fmt, options=n.options) for n in marked]
        made = compile_all(find(cc, target), plain, None, as_options(options), work)
        for node, (_, contents) in zip(marked, made):
            # weak: slots that headers define, too
            defined = contents.defined.union(filter(ffi_name, contents.weak))
            for name in code_dialects(defined, contents.undefined):
                found.setdefault(name, node.label)
    return found


def _text(node: SourceNode) -> str:
    try:
        return "" if LANGUAGE_OF[node.fmt] == "fortran" else node.text()
    except OSError:
        return ""  # which the compiler tells


def both_dialects(found: Mapping[str, str]) -> str:
    """The beginning of an error about inputs of two dialects."""
    return (
        f"{found['classic']} is of the classic dialect (TVM up to 0.20), {found['ffi']} of the ffi dialect (TVM"
        " 0.22 and later)"
    )


def check_dialect(modules: Iterable[Module], dialect: str, path: Path) -> None:
    """Refuse modules of another dialect than that of the library that they are added to.

    Raises:
        BuildError: naming both.
    """
    other = {name: file for name, file in dialects_of(modules).items() if name != dialect}
    if other:
        raise BuildError(
            f"{both_dialects({**other, dialect: str(path)})}, and a library is of one; convert writes a"
            " library or a .tar in the other dialect"
        )


def _name_of(module: Module) -> str | None:
    """The dialect that a module tells, None if it may be in a library of either."""
    node = node_of(module)
    if isinstance(node, ObjectNode):
        return None if node.elsewhere else _of_object(node)
    row = None if isinstance(node, HostNode) else ROWS.get(node.type_key)
    if row is None or row.key == RELAX_EXECUTABLE_OF_0_16:  # which convert writes in both
        return None
    if row.key == RELAX_EXECUTABLE:
        return "ffi" if bytes(module.payload[1:8]) == _PROGRAM else None
    return "classic" if row.ffi == NONE else "ffi" if row.classic == NONE else None


def _of_object(node: ObjectNode) -> str | None:
    """The dialect that the names in an object or archive tell, if it is one."""
    data = node.content if isinstance(node.content, bytes) else map_file(node.content)
    found: set[str] = set()
    # All of these names have one of these texts. Few objects have one: the others are not parsed.
    if any(re.search(text, data) for text in (rb"__tvm_", rb"TVM")):
        for label, part in objects_of(memoryview(data), node.label):
            symbols = ElfFile(part, label).symtab
            if not any(s.name.startswith(MARK) for s in symbols):  # adapters know both dialects
                defined = {s.name for s in symbols if s.is_defined}
                found |= code_dialects(defined, (s.name for s in symbols))
    return found.pop() if len(found) == 1 else None


# -- the output and the tree -----------------------------------------------------------------------

_NOT_ELF = (".dll", ".dylib", ".exe", ".pyd", ".lib")


def check_format(path: Path, written: Path) -> None:
    """Refuse an ELF file under a name that says Mach-O or PE.

    Raises:
        BuildError: what the output would be.
    """
    if path.suffix in _NOT_ELF and written.is_file():
        with written.open("rb") as file:
            if file.read(4) == ELF_MAGIC:
                raise BuildError(
                    f"{path}: the compiler makes ELF files; name the output {path.with_suffix('.so').name}, or"
                    f" choose a compiler that makes {path.suffix} files"
                )


def check_request(request: Request, path: Path, by_caller: bool) -> None:
    """Refuse options that no library comes out of, and an output that is an input; warn of what will
    not be found in the library.

    Args:
        by_caller: the caller's `fcompile` links it.

    Raises:
        BuildError: naming it.
    """
    check_options(request.options)
    _check_embed(request, path, by_caller)
    carried = (node for nodes in request.carry for node in nodes)
    addons = (("an addon", addon) for addon in request.addons)
    check_output(path, [*files_of(request.module), *addons, *files_in(carried)])
    _warn_of_aligned(request)
    if not request.carry:  # else as soon as the plug-ins are compiled
        warn_of_unreadable(request, ())
    _warn_of_graphs(request)
    _warn_of_repeated(request.module)
    modules = list(request.module.walk())
    if any(node_of(module).opens_in_tvm for module in modules):
        warn_of_tvm(module for module in modules if not is_host(module))
    if any(module.type_key in RELAX_EXECUTABLES for module in modules):
        from mblob.packager.modules.relax_parameters import check_tree

        check_tree(modules, request.dialect.is_ffi)


def _check_embed(request: Request, path: Path, by_caller: bool) -> None:
    """Refuse ways of `embed=` that change what mblob linked, where mblob links nothing."""
    if request.embed not in CHANGES_LINKED:
        return
    why = ""
    if request.system_lib:
        why = "a linked library; for a system library"
    elif by_caller:
        why = "our own link; with fcompile="
    elif path.suffix == ".tar":
        why = "a linked library; for a .tar of objects"
    if why:
        raise BuildError(f"embed={request.embed!r} needs {why} use 'object' or 'c'")


def _warn_of_aligned(request: Request) -> None:
    aligned = [] if request.fpack_imports else request.aligned_keys
    if not aligned:
        return
    names = listed(aligned, 6)
    if not request.plan.index:
        raise BuildError(
            f"index=False: the index says where the aligned payload of {names} is; leave out one of both"
        )
    warn(
        f"TVM finds empty payloads of {names}: aligned ones are where only mblob reads them"
        " (docs/format.md, Alignment)",
        PortabilityWarning,
    )


def warn_of_unreadable(request: Request, carried: Sequence[Plugin]) -> None:
    """Warn of payloads of which nothing says where they end.

    Args:
        carried: plug-ins in the library.
    """
    keys = [] if request.fpack_imports else unreadable_keys(request.plan, carried)
    if keys:
        warn(
            f"mblob cannot open a library that has {', '.join(map(repr, keys))} and no index, because only the"
            " index says where such a payload ends; use index=False only for a library that TVM alone opens, or"
            " register a loader with a layout (register_loader(key, layout=...)), or carry a plug-in with layouts",
            UnreadableWarning,
        )


def _warn_of_graphs(request: Request) -> None:
    if any(module.type_key in GRAPHS for module in request.module.walk()):
        from mblob.packager.link.executor_checks import warn_of_graphs

        warn_of_graphs(request.module, request.dialect)


def _warn_of_repeated(mod: Module) -> None:
    """Warn of payloads and tensors that nobody finds by their names, because another module has the
    same."""
    payloads = [module for module in mod.walk() if not is_host(module)]
    for what, name, _ in repeated_names(payloads) if len(payloads) > 1 else ():
        warn(
            f"two modules of the tree have a {what} {name!r}, and lib.{what}s[{name!r}] gives only one of them;"
            " give each its own name",
            HiddenNameWarning,
        )
