"""Plug-ins that a library carries (mblob/plugin.h): given, compiled, checked, closed off from the
rest."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from mblob.arguments import items
from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import STB_GLOBAL, STB_LOCAL
from mblob.bytes.mapping import map_file
from mblob.errors import FormatError, did_you_mean
from mblob.format import plugin_table
from mblob.format.exported_functions import LIBMBLOB_PREFIX, OUR_PREFIXES
from mblob.format.plugin_table import SYMBOL_PREFIX, Plugin
from mblob.inspect.payload_layouts import checked_layout
from mblob.installed import get_plugin_sources
from mblob.module import Module
from mblob.named_tuple import NamedTuple
from mblob.packager.compile.commands import language
from mblob.packager.compile.host_objects import HostFile, LinkInput, compile_all
from mblob.packager.compile.toolchain import Toolchain
from mblob.packager.errors import BuildError, BuildTypeError, warn
from mblob.packager.link.linked_engines import with_engine
from mblob.packager.modules.host_modules import csource_module, object_module
from mblob.packager.modules.nodes import NOTHING, HostNode, SourceNode, node_of
from mblob.packager.objects import object_files
from mblob.packager.objects.object_files import ObjectSymbols
from mblob.packager.objects.rename import rename_symbols
from mblob.packager.path_arguments import checked, existing_file
from mblob.source_suffixes import FORMAT_OF, OF_C, SHOWN

_OBJECTS = (".o", ".a")


class CarriedPlugins(NamedTuple):
    """Plug-ins, ready to be linked.

    Attributes:
        files: their objects, of which nothing but the tables is exported, with what is in them.
        plugins: what the tables say.
    """

    files: list[LinkInput]
    plugins: list[Plugin]


# -- what was given --------------------------------------------------------------------------------


def given_plugins(given: Sequence[Any] | None) -> tuple[tuple[HostNode, ...], ...]:
    """The host code of each plug-in of `export_library(carry=...)`.

    Raises:
        TypeError: no list, or an item that is neither a path nor a module.
        OSError: no file at a path.
        BuildError: a file or module that no plug-in is made of.
    """
    if isinstance(given, Module):
        raise BuildTypeError(
            f"export_library: carry: expected a list of paths and modules, found {given!r}; put it into a list"
        )
    expected = "a list of paths and modules"
    plugins = (
        () if given is None else items("export_library", "carry", given, expected, BuildTypeError)
    )
    made: list[tuple[HostNode, ...]] = []
    linked: set[str] = set()  # shipped plug-ins share files, of which a library needs one
    for item in plugins:
        if is_name(item):
            files = [node for node in shipped_sources(str(item)) if node.text() not in linked]
            linked |= {node.text() for node in files}
            made.append(tuple(files))
        else:
            made.append(_nodes(item))
    return tuple(made)


def is_name(item: Any) -> bool:
    """True if an item of `carry` is the name of a plug-in that comes with mblob, not a file."""
    return isinstance(item, str) and item.isidentifier() and not Path(item).exists()


def _nodes(item: Any) -> tuple[HostNode, ...]:
    if isinstance(item, (str, os.PathLike)):
        item = _module_of(Path(os.fspath(item)))
    if not isinstance(item, Module):
        raise BuildTypeError(f"carry: expected a path or a module, found {type(item).__name__}")
    nodes = []
    for module in item.walk():
        node = node_of(module)
        if not isinstance(node, HostNode):
            raise BuildError(
                f"carry: a plug-in is made of host code (csource_module, static_library), found a {module.type_key!r}"
            )
        if node.declared.functions:
            raise BuildError(
                f"carry: {node.label}: functions= has no meaning in a plug-in, whose functions are reached through its"
                " table; leave it out"
            )
        if isinstance(node, SourceNode) and language(node) not in OF_C:
            raise BuildError(
                f"carry: {node.label}: a plug-in is C or C++, found {SHOWN[language(node)]}; carry its object file"
            )
        nodes.append(node)
    return tuple(nodes)


def _module_of(path: Path) -> Module:
    if path.suffix in _OBJECTS:
        return object_module(existing_file(path, "carry"), NOTHING)
    if path.suffix in FORMAT_OF:
        return csource_module(existing_file(path, "carry"))
    known = ", ".join((*FORMAT_OF, *_OBJECTS))
    raise BuildError(f"carry: {path}: suffix {path.suffix!r}, expected one of {known}")


# -- those that come with mblob --------------------------------------------------------------------

# A file of plug-ins in mblob-plugins.c (csrc/installed_sources.py): the plug-in, or nothing for a file of all plug-ins.
_UNIT = re.compile(r"^#ifdef (MBLOB_UNIT_(?:plugins_([a-z0-9]+)_)?\w+)$", re.MULTILINE)
# COMPILE of csrc/flags.mk.
SHIPPED_OPTIONS = (
    "-std=gnu11",
    "-D_FILE_OFFSET_BITS=64",
    "-fvisibility=hidden",
    "-pthread",
    "-DMBLOB_HOST",
)


@cache
def _units(path: Path) -> dict[str, list[str]]:
    """The macros that choose the files of each plug-in in mblob-plugins.c; of "" those of all."""
    found: dict[str, list[str]] = {}
    for macro, name in _UNIT.findall(path.read_text(encoding="utf-8")):
        found.setdefault(name, []).append(macro)
    return found


class ShippedNode(SourceNode):
    """A source of a plug-in that comes with mblob.

    Attributes:
        plugin: its name.
    """

    def __init__(self, code: str, plugin: str, options: Sequence[str]) -> None:
        super().__init__(code, "c", options=options)
        self.plugin = plugin


def shipped_sources(name: str) -> list[ShippedNode]:
    """The sources that a plug-in is compiled of, its own files first.

    Raises:
        BuildError: there is none of that name.
        ToolchainError: the installation is incomplete.
    """
    path = Path(get_plugin_sources())
    units = _units(path)
    names = sorted(filter(None, units))
    if name not in names:
        raise BuildError(
            f"carry: {name!r} is no file, and none of the plug-ins that come with mblob ({', '.join(names)}); a plug-in"
            f" of your own is a .c, .cc, .o or .a file{did_you_mean(name, names)}"
        )
    options = (*SHIPPED_OPTIONS, f"-I{path.parent}")
    own = f"#define MBLOB_PLUGIN_{name}\n"
    return [
        ShippedNode(f'{about}#define {macro}\n#include "{path.name}"\n', name, options)
        for about, macros in ((own, units[name]), ("", units[""]))
        for macro in macros
    ]


# -- compiled --------------------------------------------------------------------------------------


def compile_plugins(
    tools: Toolchain, plugins: Sequence[Sequence[HostNode]], options: Sequence[str], work: Path
) -> list[list[LinkInput]]:
    """The objects and archives of each plug-in, as they were given or as the compiler makes them.

    Raises:
        ToolchainError, BuildError, FormatError, OSError: as of `export_library`.
    """
    plugins = [_with_engine(plugin, tools, options) for plugin in plugins]
    nodes = [_without_lto(node) for plugin in plugins for node in plugin]
    if not nodes:
        return []
    folder = work / "carried"
    folder.mkdir(exist_ok=True)
    made = iter(compile_all(tools, nodes, None, options, folder))
    return [[next(made) for _ in plugin] for plugin in plugins]


def _with_engine(
    plugin: Sequence[HostNode], tools: Toolchain, options: Sequence[str]
) -> Sequence[HostNode]:
    first = plugin[0] if plugin else None
    if not isinstance(first, ShippedNode):
        return plugin
    return with_engine(first.plugin, plugin, tools, options)


def _without_lto(node: HostNode) -> HostNode:
    """The tables of a plug-in are read from its objects, where link-time optimization leaves
    none."""
    if not isinstance(node, SourceNode):
        return node
    return SourceNode(node.code, node.fmt, options=(*node.options, "-fno-lto"))


# -- checked and closed off ------------------------------------------------------------------------


def close_plugins(
    given: Sequence[Sequence[LinkInput]],
    work: Path,
    keys: Collection[str] | None,
    others: Sequence[LinkInput],
) -> CarriedPlugins:
    """The objects of plug-ins as they are linked: copies of ours, of archives the members that are
    needed.

    All their symbols but the tables are hidden, so that they are no functions of the library, and
    those that linkers merge have names of their own in each plug-in, so that none has its state in
    another's. What was given stays as it is.

    Args:
        keys: type keys in the library, None if that is not known.
        others: what is linked with them, as far as it is known.

    Warns:
        UserWarning: a plug-in that none of them is for.

    Raises:
        BuildError: no plug-in in what was given, one for another version of the interface, two of
            one name or for one key, or one that needs libmblob.
        FormatError: a table that cannot be read.
    """
    units: list[_Unit] = []
    plugins: list[tuple[Plugin, str]] = []
    for i, parts in enumerate(given):
        made = _needed(list(_copies(parts, work / "carried" / str(i))))
        found = [(plugin, f.label) for f, _ in made for plugin in tables_in(f.path, f.label)]
        if not found:
            raise BuildError(
                f"carry: {', '.join(f.label for f, _ in parts)}: no plug-in in it, expected a definition"
                " MBLOB_PLUGIN(name) = {...} (mblob/plugin.h)"
            )
        plugins += found
        units.append(_Unit(found[0][0].symbol.removeprefix(SYMBOL_PREFIX), made))
    _check_plugins(plugins)
    if keys is not None:
        _warn_of_unused(plugins, keys)
    hidden: list[LinkInput] = []
    for unit in units:
        names = _own_names(
            unit, [other for other in units if other is not unit], [c for _, c in others]
        )
        for f, _ in unit.files:
            # names that differ, for archives and tars
            path = f.path.rename(work / f"carried{len(hidden)}.o")
            rename_symbols(path, names, f.label)
            f = f._replace(path=path)
            hidden.append(LinkInput(f, object_files.read(path, f.label)))
    return CarriedPlugins(hidden, [plugin for plugin, _ in plugins])


class _Unit:
    """The objects of one plug-in.

    Attributes:
        name: no other has it.
        merged: of `defined`, what linkers merge, and the names of COMDAT groups.
        defined, undefined: symbols.
    """

    def __init__(self, name: str, files: list[LinkInput]) -> None:
        self.name = name
        self.files = files
        self.merged = {symbol for _, c in files for symbol in c.weak | c.comdat}
        self.defined = {symbol for _, c in files for symbol in c.defined} | self.merged
        self.undefined = {symbol for _, c in files for symbol in c.undefined} - self.defined


def _own_names(
    unit: _Unit, units: Sequence[_Unit], others: Sequence[ObjectSymbols]
) -> dict[str, str]:
    """The names of a plug-in's symbols in the library, where all of them are hidden.

    Inline functions, their statics, templates: two plug-ins that have them mean their own, of their
    own version. So they get names of their own, and so does what others define too; not what others
    call.

    Args:
        units: the other plug-ins.
        others: what is linked besides.
    """
    host = {name for c in others for name in c.defined | c.weak}
    needed = {name for other in units for name in other.undefined} | {
        name for c in others for name in c.undefined
    }
    both = host.union(*(other.defined for other in units))
    names = {}
    for name in sorted(unit.defined):
        if name.startswith(OUR_PREFIXES):
            # tables, and the slots of the runtime (format.md, section 9), one for all objects of a
            # library
            continue
        is_own = name in unit.merged or name in both
        renamed = is_own and "@" not in name and (name not in needed or name in host)
        names[name] = f"{name}.{unit.name}" if renamed else name
    return names


def _copies(
    parts: Sequence[LinkInput], folder: Path
) -> Iterator[tuple[HostFile, ObjectSymbols, bool]]:
    """Each object, and each member of each archive, as a file of ours; whether it is linked in any
    case."""
    folder.mkdir(exist_ok=True)
    number = 0
    for f, contents in parts:
        if not contents.complete:
            raise BuildError(
                f"carry: {f.label} is compiled with -flto, so its table cannot be read; compile it without"
            )
        for label, data in object_files.objects_in(f.path, f.label):
            path = folder / f"{number}.o"
            path.write_bytes(data)
            number += 1
            made = HostFile(path, label, cxx=f.cxx, carried=True)
            yield made, object_files.read(path, label), not contents.is_archive


def _needed(copies: Sequence[tuple[HostFile, ObjectSymbols, bool]]) -> list[LinkInput]:
    """Objects, members of archives that define a table, and members that those need, as linkers
    take them."""
    providers: dict[str, int] = {}
    for i, (_, contents, _) in enumerate(copies):
        for name in contents.defined | contents.weak:
            providers.setdefault(name, i)
    waiting = [
        i
        for i, (_, c, linked) in enumerate(copies)
        if linked or any(map(_is_table, c.defined | c.weak))
    ]
    taken = set(waiting)
    while waiting:
        for name in sorted(copies[waiting.pop()][1].undefined):
            provider = providers.get(name)
            if provider is not None and provider not in taken:
                taken.add(provider)
                waiting.append(provider)
    return [LinkInput(*copies[i][:2]) for i in sorted(taken)]


def _is_table(name: str) -> bool:
    return name.startswith(SYMBOL_PREFIX)


def tables_in(path: Path, label: str) -> list[Plugin]:
    """The plug-ins whose tables an object file defines.

    Raises:
        BuildError: a table that other files cannot see.
        FormatError: one that cannot be read.
    """
    elf = ElfFile(map_file(path), label)
    found = []
    for s in elf.symtab:
        if not (s.is_defined and _is_table(s.name)) or s.binding == STB_LOCAL:
            continue
        if not s.is_exported:
            raise BuildError(
                f"carry: {label}: {s.name} is hidden; define it with MBLOB_PLUGIN(name) (mblob/plugin.h)"
            )
        section = elf.sections[s.st_shndx] if s.st_shndx < len(elf.sections) else None
        data = (
            bytes(elf.contents(section)[s.st_value :][: s.st_size]) if section is not None else b""
        )
        try:
            found.append(plugin_table.decode(data, s.name, elf.byte_order, elf.bits))
        except FormatError as error:
            error.prefix(f"carry: {label}")
            raise
    return found


def _check_plugins(plugins: Sequence[tuple[Plugin, str]]) -> None:
    """Refuse what the runtime would not use, or could not tell apart."""
    names: dict[str, str] = {}  # and the files that they are in
    keys: dict[str, Plugin] = {}
    for plugin, label in plugins:
        if plugin.abi != plugin_table.ABI:
            raise BuildError(
                f"carry: {label}: plug-in {plugin.name!r} is built for version {plugin.abi} of the plug-in interface,"
                f" this is version {plugin_table.ABI}; compile it with the headers of this mblob"
            )
        if plugin.name in names:
            raise BuildError(
                f"carry: two plug-ins are called {plugin.name!r}: in {names[plugin.name]} and in {label}; carry one of"
                " them"
            )
        names[plugin.name] = label
        for key, form in plugin.layouts.items():
            checked(checked_layout, f"carry: {label}: plug-in {plugin.name!r}: {key}", form, None)
        for key in plugin.type_keys:
            first = keys.get(key)
            if first is plugin:
                raise BuildError(f"carry: {label}: plug-in {plugin.name!r} lists {key!r} twice")
            if first is not None:
                raise BuildError(
                    f"carry: plug-ins {first.name!r} and {plugin.name!r} both open {key!r}; carry one of them"
                )
            keys[key] = plugin


def _warn_of_unused(plugins: Sequence[tuple[Plugin, str]], keys: Collection[str]) -> None:
    """Tell of plug-ins that open nothing in the library, nor bring a device: a key is misspelt, a
    module missing."""
    for plugin, label in plugins:
        if plugin.devices or any(key in keys for key in plugin.type_keys):
            continue
        warn(
            f"carry: {label}: plug-in {plugin.name!r} opens {_listed(plugin.type_keys)}, and no module here has"
            f" that key; there are {_listed(sorted(keys))}",
        )


def _listed(keys: Iterable[str]) -> str:
    return ", ".join(map(repr, keys)) or "no key"


def check_needs(carried: CarriedPlugins, others: Sequence[LinkInput]) -> None:
    """Refuse plug-ins that call libmblob by name: the library would have undefined symbols that no
    host provides.

    Args:
        others: what is linked with them.

    Raises:
        BuildError: naming the plug-in's file and the function.
    """
    defined = {name for _, c in (*carried.files, *others) for name in c.defined | c.weak}
    for f, _ in carried.files:
        symbols = ElfFile(map_file(f.path), f.label).symtab
        needed = {s.name for s in symbols if not s.is_defined and s.binding == STB_GLOBAL}
        if missing := sorted(name for name in needed - defined if name.startswith(LIBMBLOB_PREFIX)):
            raise BuildError(
                f"carry: {f.label} calls {missing[0]}, which a library cannot link; a plug-in reaches the runtime"
                " through the mblob_host table that it is given"
            )
