"""The inputs of a link, in the order of the steps: compiled, read and judged; how each function is
called; what mblob compiles for them; what goes on the link line."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from mblob.binary.elf import ElfFile
from mblob.errors import HiddenNameWarning, ToolchainError
from mblob.format.exported_functions import FFI_PREFIX
from mblob.format.functions_table import Row
from mblob.format.own_functions import OWN_FUNCTIONS
from mblob.format.plugin_table import Plugin
from mblob.format.type_keys import EXECUTORS
from mblob.module import Module
from mblob.named_tuple import NamedTuple
from mblob.packager.compile.host_objects import (
    Generated,
    HostFile,
    LinkInput,
    compile_all,
    compile_generated,
    packed_functions_source,
    probe,
    read_input,
    unshared,
    with_names,
)
from mblob.packager.compile.toolchain import Toolchain
from mblob.packager.errors import BuildError, warn
from mblob.packager.functions import adapters
from mblob.packager.functions.adapters import Adapter, kept_rows, needed_adapters
from mblob.packager.functions.library_objects import compile_shims
from mblob.packager.functions.packed_or_plain import (
    WithoutPrototype,
    classify_undeclared,
    is_of_cxx,
    warn_of_no_model,
    warn_of_unknown,
    with_unseen,
)
from mblob.packager.functions.prototype_check import check_prototypes
from mblob.packager.functions.slot_shims import SLOTS, generate_defaults, slots_to_fill
from mblob.packager.functions.slot_shims import generate as generate_shims
from mblob.packager.functions.source_prototypes import (
    expanded_names,
    found_prototypes,
    with_types,
)
from mblob.packager.functions.wrappers import Wrapped, compiled_checks, rows_of, source
from mblob.packager.link.request import Request, warn_of_unreadable
from mblob.packager.modules.nodes import SourceNode
from mblob.packager.objects import object_files
from mblob.packager.objects.object_files import ElfTarget, ObjectSymbols
from mblob.packager.options import NEEDS_STACK, asks_for_stack
from mblob.source_suffixes import FORMAT_OF

# -- compiled, read and judged ---------------------------------------------------------------------


class ExportObjects(NamedTuple):
    """All objects of an export, compiled and checked, as they were given.

    Attributes:
        request: the caller's, with the functions whose prototypes the objects tell.
        tools: the compiler.
        machine: what all of them are for.
        host: host modules, and the packed functions of prototypes that the caller wrote.
        with_table: the object of the packed functions has the table of functions.
        addon_words: the addons as the link line has them, sources compiled.
        addons: objects and archives among them.
        carried: objects of plug-ins.
        plugins: what their tables say.
        shims: objects of functions that make objects of C++.
    """

    request: Request
    tools: Toolchain
    machine: ElfTarget
    host: list[LinkInput]
    with_table: bool
    addon_words: list[Path]
    addons: list[LinkInput]
    carried: list[LinkInput]
    plugins: list[Plugin]
    shims: list[LinkInput]

    @property
    def objects(self) -> list[LinkInput]:
        return [*self.host, *self.addons, *self.carried]


def gather(request: Request, work: Path, *, with_table: bool = False) -> ExportObjects:
    """Compile, look at every object, and refuse what a linker would refuse less clearly.

    Args:
        with_table: the object of the packed functions has the table of functions, as it is if the
            objects add no row. That saves a start of the compiler.

    Raises:
        ToolchainError, IncompatibleError, BuildError, OSError: as of `export_library`.
    """
    tools = request.tools()
    if request.is_copied_early:
        _ = tools.triple  # the copy waits for it
    request.triple.tell(lambda: tools.triple)

    def packed_forms() -> str:
        wrapped = request.wrapped()
        return source(wrapped, request.dialect, rows_of(wrapped) if with_table else ())

    looks = any(node.declared.looks for node in request.host)
    forms = packed_forms if any(node.declared.is_given for node in request.host) else None
    meanwhile = None if looks else partial(_prepare_linking, tools)
    try:
        compiled = compile_all(tools, request.host, forms, request.options, work, meanwhile)
    except ToolchainError:
        _ = tools.triple  # what is no compiler says so
        raise
    words, given = _addons(request, tools, work)
    host = unshared(compiled, work / "unshared")
    addons = unshared(given, work / "unshared_addons")
    moved = {before.file.path: item.file.path for before, item in zip(given, addons)}
    words = [moved.get(word, word) for word in words]
    plugins: list[list[LinkInput]] = []
    if request.carry:
        from mblob.packager.link import carried_plugins

        plugins = carried_plugins.compile_plugins(tools, request.carry, request.options, work)
    objects = [*host, *addons, *(part for plugin in plugins for part in plugin)]
    hides = any("version-script" in option for option in request.options)
    if any(file.elsewhere for file, _ in host):
        from mblob.packager.link.finished_names import with_places

        request = with_places(request, host)
    known = request.wrapped()
    shims: list[LinkInput] = []
    nodes = list(zip(request.host, host))
    others = ((None, addon) for addon in addons)
    if completed := with_types(known, [*nodes, *others], request.comments) if known else []:
        request = request.with_found(completed)
    if looks or _any_undefined(known, host):
        found = found_prototypes(
            nodes, [*host, *addons], known, request.table_rows(), request.dialect, request.comments,
            only_named=hides, has_names=not request.system_lib,
        )  # fmt: skip
        found, shims = compile_shims(tools, found, request.options, work)
        request = request.with_found([*completed, *found])
        request = request._replace(expanded_names=expanded_names(host))
    if request.found and (completed or not with_table):
        wrapped = request.wrapped()
        text = source(wrapped, request.dialect, rows_of(wrapped) if with_table else ())
        made = compile_generated(tools, [packed_functions_source(text)], request.options, work)
        host = [*(item for item in host if not item.file.generated), *made]
        objects = [*host, *addons, *(part for plugin in plugins for part in plugin)]
    own = next((c.machine for f, c in objects if f.own and c.machine), None)
    machine = own or probe(tools, request.options, work)
    for f, contents in objects:
        object_files.check_machine(contents, f.label, machine, " ".join(tools.cc))
    if any(file.elsewhere for file, _ in host):
        from mblob.packager.link.finished_names import with_its_functions

        request = with_its_functions(request, host)
    # A plug-in has no functions of the caller's: its names are all its own.
    refuse_unlinkable(
        request, objects, [*host, *addons], texts=lambda: _own_texts(tools, request, work)
    )
    gathered = ExportObjects(
        request, tools, machine, host, with_table, words, addons, carried=[], plugins=[], shims=unshared(shims, work)
    )  # fmt: skip
    if not request.carry:
        return gathered
    carried = carried_plugins.close_plugins(plugins, work, request.type_keys(), [*host, *addons])
    carried_plugins.check_needs(carried, [*host, *addons])
    warn_of_unreadable(request, carried.plugins)
    return gathered._replace(carried=carried.files, plugins=carried.plugins)


def _own_texts(tools: Toolchain, request: Request, work: Path) -> Sequence[str]:
    from mblob.packager.functions.undefined import own_texts  # it imports pyelftools

    return own_texts(tools, request.host, request.options, work)


def _any_undefined(wrapped: Sequence[Wrapped], files: Sequence[LinkInput]) -> bool:
    """True if a declared function has no symbol of its name, as with functions of C++."""
    defined = {name for f, c in files if not f.generated for name in c.defined | c.weak}
    return any(w.prototype.name not in defined for w in wrapped)


def _prepare_linking(tools: Toolchain) -> None:
    """Import what links, and ask for what the blob says of the target, while compilers run."""
    import_module("mblob.packager.link.linking")
    _ = tools.triple


def _addons(request: Request, tools: Toolchain, work: Path) -> tuple[list[Path], list[LinkInput]]:
    """The caller's additional inputs: sources become objects; objects and archives are also looked
    at."""
    line: list[Path] = []
    look: list[LinkInput] = []
    sources = [a for a in request.addons if a.suffix in FORMAT_OF]
    folder = work / "addons"
    compiled: list[LinkInput] = []
    if sources:
        folder.mkdir(exist_ok=True)
        nodes = [SourceNode(source, FORMAT_OF[source.suffix]) for source in sources]
        compiled = compile_all(tools, nodes, None, request.options, folder)
    for addon in request.addons:
        if addon.suffix in FORMAT_OF:
            made = compiled[sources.index(addon)]
            line.append(made.file.path)
            look.append(made)
        else:
            addon.stat()  # a missing file is an OSError that names it
            line.append(addon.absolute())
            if addon.suffix in (".o", ".a"):
                look.append(read_input(HostFile(addon.absolute(), str(addon), own=False)))
    return line, look


def refuse_unlinkable(
    request: Request,
    objects: Sequence[LinkInput],
    declaring: Sequence[LinkInput],
    *,
    has_all: bool = True,
    texts: Callable[[], Sequence[str]] = tuple,
) -> None:
    """Refuse objects that cannot be linked as the caller asks, whoever links them. `refuse_clashes`
    follows, when it is known what else defines names.

    Args:
        objects: all that is linked.
        declaring: those among them that may define declared functions.
        has_all: whatever defines a function is among them.
        texts: gives the sources for an error, as of `own_texts`.

    Raises:
        BuildError: naming the object or the function.
    """
    wrapped = request.wrapped()
    _check_stack(objects, request.options)
    if has_all:
        _check_functions(wrapped, request.named(), declaring, texts)
    check_prototypes(wrapped, declaring)
    _check_packed_names(wrapped, objects)


def _check_packed_names(wrapped: Sequence[Wrapped], files: Sequence[LinkInput]) -> None:
    """Refuse a plain function if an object has the packed function of its name already.

    Raises:
        BuildError: naming both.
    """
    symbols = {
        w.packed_symbol: w.prototype.name for w in wrapped if w.packed_symbol != w.prototype.symbol
    }
    for f, contents in files:
        found = symbols.keys() & contents.defined if not (f.generated or f.elsewhere) else ()
        if found:
            raise BuildError(
                f"{f.label}: has a function {symbols[min(found)]!r} already; give the other one another name"
            )


def _check_stack(files: Sequence[LinkInput], options: Sequence[str]) -> None:
    """Refuse objects that need an executable stack, unless an option asks for one. Libraries are linked
    without one.

    Raises:
        BuildError: naming the object.
    """
    found = next((c.executable_stack for _, c in files if c.executable_stack), None)
    if found is not None and not asks_for_stack(options):
        raise BuildError(f"{found}: {NEEDS_STACK}")


def _check_functions(
    wrapped: Sequence[Wrapped],
    named: Sequence[str],
    files: Sequence[LinkInput],
    texts: Callable[[], Sequence[str]],
) -> None:
    """Refuse a function that nobody defines, or that is a variable.

    Args:
        wrapped: plain functions, by their prototypes.
        named: functions by their names alone.

    Raises:
        BuildError: naming the function, and what may be wrong.
    """
    if not all(c.complete for _, c in files):
        return  # link-time optimization: only the compiler knows the symbols
    defined = {name for f, c in files if not f.generated for name in c.defined | c.weak}
    for name in named:
        symbols = {name, f"{FFI_PREFIX}{name}"} & defined
        _refuse_variables(symbols, files)
        if not symbols or is_of_cxx(name, files):
            raise _undefined(name, "void", defined, files, texts)
    for w in wrapped:
        name = w.prototype.name
        if w.prototype.symbol not in defined:
            raise _undefined(name, w.prototype.result_type, defined, files, texts)
        _refuse_variables({w.prototype.symbol}, files)


def _undefined(name: str, *args: Any) -> BuildError:
    """The error for a function that nobody defines."""
    from mblob.packager.functions.undefined import undefined  # it imports pyelftools

    return undefined(name, *args)


def _refuse_variables(names: Collection[str], files: Sequence[LinkInput]) -> None:
    for f, contents in files:
        for name in contents.variables.intersection(names):
            raise BuildError(
                f"functions: {name} is a variable in {f.label}, expected a function; give functions alone, or"
                f" write one that uses {name}"
            )


# -- how functions are called ----------------------------------------------------------------------


class Functions(NamedTuple):
    """The functions of a library, by the way they are called.

    Attributes:
        wrapped: plain functions with a prototype, which get a packed function.
        undeclared: those without a prototype.
        adapters: to functions of the other dialect.
        rows: the table of functions.
    """

    wrapped: list[Wrapped]
    undeclared: WithoutPrototype
    adapters: list[Adapter]
    rows: list[Row]


def classify_functions(
    request: Request, objects: Sequence[LinkInput], host: Sequence[LinkInput]
) -> Functions:
    """The functions of all objects, sorted by what is known of them.

    Args:
        host: the objects of the host modules.

    Warns:
        UserWarning: as of `mblob.packager.functions`.

    Raises:
        BuildError: objects of a dialect that no adapter is for.
    """
    wrapped, table_rows = request.wrapped(), request.table_rows()
    undeclared = classify_undeclared(wrapped, request.named(), objects, table_rows)
    warn_of_unknown(undeclared, wrapped, request.host, host, objects)
    adapted = needed_adapters(request.dialect, wrapped, undeclared.not_packed, objects, table_rows)
    kept = kept_rows(request.dialect, table_rows, objects)
    others = [*rows_of(wrapped), *kept, *(a.row for a in adapted)]
    others += request.standalone.rows() if request.standalone else []
    if request.dialect.is_ffi:  # whose functions have names of their own
        return Functions(wrapped, undeclared, adapted, [*others, *undeclared.plain])
    is_announced = request.plan.index and request.embed != "c" and request.fpack_imports is None
    unannounced = request.plan.is_needed and not is_announced
    rows = undeclared.rows(others, unannounced_blob=unannounced)
    return Functions(wrapped, undeclared, adapted, [*others, *rows])


def warn_of_functions(
    request: Request, rows: Sequence[Row], files: Sequence[LinkInput] | None,
    library: ElfFile | None = None,
) -> None:  # fmt: skip
    """Warn of functions that an attribute of modules hides; and of executors of a tree that call
    plain C functions, which crashes TVM's, or functions that no module has.

    Args:
        rows: of the library's table of functions, which executors look up by their symbols.
        files: all that is linked; None if the caller compiles.
        library: what was linked of them; None if that is done elsewhere.
    """
    packed = [row.name for row in rows if row.abi == "packed"]
    for name in packed:
        if hasattr(Module, name):
            warn(
                f"the function {name!r} has the name of an attribute of modules: call it as lib[{name!r}](...)",
                HiddenNameWarning,
            )
    warn_of_own_functions(packed, [module.type_key for module in request.module.walk()])
    if any(module.type_key in EXECUTORS for module in request.module.walk()):
        from mblob.packager.link.executor_checks import warn_of_calls

        warn_of_calls(request, rows, files, library)
    elif library is not None:
        warn_of_no_model(files or ())


def warn_of_own_functions(names: Iterable[str], type_keys: Iterable[str]) -> None:
    """Warn of functions of the code that have the name of a function of a model in the library."""
    own = {name: key for key in type_keys for name in OWN_FUNCTIONS.get(key, ())}
    for name in (name for name in names if name in own):
        warn(
            f"the function {name!r} has the name of a function that the {own[name]} has itself, and lib[{name!r}] is"
            f" that one: call yours as lib.ctypes.{name}(...), or give it another name",
            HiddenNameWarning,
        )


# -- what mblob compiles for them, and the link line -----------------------------------------------


class LinkLine(NamedTuple):
    """The inputs of the link, checked.

    Attributes:
        tools: the compiler.
        machine: what all of it is for.
        addons: as the caller gave them, sources compiled.
        files: objects and archives of the host modules and of generated code.
        objects: all objects and archives, with what is in them.
        rows: of the table of functions.
        plugins: those that are among the files.
        needs_cxx: the link takes the C++ library.
        refers_to_blob: an object uses the blob's symbol.
        looks_up: an object calls dlsym().
        joins: the library becomes a part of another one, which has code that this one calls.
    """

    tools: Toolchain
    machine: ElfTarget
    addons: list[Path]
    files: list[LinkInput]
    objects: list[LinkInput]
    rows: list[Row]
    plugins: list[Plugin]
    needs_cxx: bool
    refers_to_blob: bool
    looks_up: bool
    joins: bool


def make_link_line(
    request: Request, gathered: ExportObjects, functions: Functions, work: Path
) -> LinkLine:
    """Compile what the objects turn out to need, and give functions their final names.

    Raises:
        ToolchainError, BuildError: as of `export_library`.
    """
    wrapped, symbol = functions.wrapped, request.dialect.symbol
    objects = gathered.objects
    is_whole = not request.found and any(item.file.generated for item in gathered.host)
    has_table = is_whole and gathered.with_table and functions.rows == rows_of(wrapped)
    is_stale = gathered.with_table and bool(wrapped) and not has_table
    unseen = request.table_rows(unseen=True)
    rows = [] if has_table else with_unseen(functions.rows, gathered.host, unseen)
    helpers = _helpers(
        request, gathered, rows, functions.adapters, objects, work, packed_now=wrapped if is_stale else ()
    )  # fmt: skip
    helpers = [*gathered.shims, *helpers]
    host = [item for item in gathered.host if not (is_stale and item.file.generated)]
    objects = [*host, *gathered.addons, *gathered.carried, *helpers]
    refuse_clashes(request, objects)
    files = hide_plain_functions(wrapped, [*host, *gathered.carried], work)
    if functions.adapters:
        files = adapters.hide_adapted(functions.adapters, request.table_rows(), files, work)
    linked = [item for item in files if not item.file.elsewhere]
    contents = [c for _, c in objects]
    return LinkLine(
        tools=gathered.tools,
        machine=gathered.machine,
        addons=gathered.addon_words,
        files=[*linked, *helpers],
        objects=objects,
        rows=functions.rows,
        plugins=gathered.plugins,
        needs_cxx=any(f.cxx for f, _ in objects)
        or object_files.needs_cxx(contents, request.options),
        refers_to_blob=any(symbol in c.undefined for c in contents),
        looks_up=any("dlsym" in c.undefined for c in contents),
        joins=len(linked) < len(files),
    )


_AT_ONCE = 50  # functions: their compilation takes ten times as long as the start of a compiler


def _helpers(
    request: Request, gathered: ExportObjects, rows: Sequence[Row], adapted: Sequence[Adapter],
    objects: Sequence[LinkInput], work: Path, *, packed_now: Sequence[Wrapped],
) -> list[LinkInput]:  # fmt: skip
    """Compile what the objects turn out to need: the function table, functions of the other dialect
    in the convention of this one, and the runtime functions that foreign ones call.

    Args:
        rows: of a table of functions that is in no object yet.
        packed_now: functions whose packed functions are in no object yet, or without the right
            table.
    """
    tools = gathered.tools
    with_table = bool(packed_now) and gathered.with_table
    joins = any(f.elsewhere for f, _ in objects)
    # All of it would make what is added larger.
    is_apart = with_table and not (joins or any(f.prototype.has_own_checks for f in packed_now))
    compiled = compiled_checks(request.dialect, gathered.machine) if is_apart else None
    # Several compilers share many functions, if what these call is in an object of its own.
    size = _AT_ONCE if compiled else len(packed_now)
    parts = [packed_now[i : i + size] for i in range(0, len(packed_now), size or 1)]
    sources: list[Generated] = []
    for i, part in enumerate(parts):
        of_part = rows if with_table and not i else ()
        text = source(part, request.dialect, of_part, apart=bool(compiled))
        sources.append(packed_functions_source(text, i, apart=bool(compiled)))
    if rows and not with_table:
        text = source((), request.dialect, rows)
        sources.append(Generated("mblob_table", "the table of functions", text))
    if adapted:
        sources.append(adapters.generate(request.dialect, adapted, joins))
    if missing := missing_slots(objects):
        text = generate_shims(missing, joins)
        sources.append(Generated("mblob_slots", "the runtime slots of mblob", text))
    weak = {name for f, c in objects if not f.generated for name in c.weak}
    if request.dialect.is_ffi and (empty := slots_to_fill(weak)):
        text = generate_defaults(empty)
        sources.append(Generated("mblob_defaults", "what slots lead to without a loader", text))
    # Atomics out of line come with a constructor.
    inline = ("-mno-outline-atomics",) if joins and tools.triple.startswith("aarch64") else ()
    options = (*request.options, *inline)
    made = compile_generated(tools, sources, options, work, partial(_prepare_linking, tools))
    if compiled:
        there = work / "mblob_checks.o"
        shutil.copyfile(compiled, there)
        made.append(read_input(HostFile(there, "the checks of packed functions", generated=True)))
    return made


def refuse_clashes(request: Request, objects: Sequence[LinkInput]) -> None:
    """Refuse packed modules of another library, and two definitions of one name: as it will be when
    plain functions have made room for packed functions of their names.

    Raises:
        BuildError, ToolchainError: naming both places.
    """
    hidden = {w.prototype.name: w.plain_symbol for w in request.wrapped() if w.takes_name}
    if any(file.elsewhere for file, _ in objects):
        from mblob.packager.link.finished_names import check_names_are_new

        check_names_are_new(request, objects)
    definitions = [
        (f.label, c if f.generated else ObjectSymbols(hidden.get(n, n) for n in c.defined))
        for f, c in objects
    ]
    if request.plan.is_needed:
        symbol = request.dialect.symbol
        object_files.check_blobs(definitions, symbol)
        definitions.append(("the packed modules", ObjectSymbols([symbol])))
    object_files.check_duplicates(definitions)


def hide_plain_functions(
    wrapped: Sequence[Wrapped], files: Sequence[LinkInput], work: Path
) -> list[LinkInput]:
    """Give functions whose packed function takes the bare name another, hidden one; in every object
    that uses them.

    Raises:
        BuildError: such a function is in an archive, or known to the compiler only.
    """
    names = {w.prototype.name: w.plain_symbol for w in wrapped if w.takes_name}
    if not names:
        return list(files)
    renamed: list[LinkInput] = []
    for i, (f, contents) in enumerate(files):
        used = names.keys() & (contents.defined | contents.weak | contents.undefined)
        if f.generated or (not used and contents.complete):
            renamed.append(LinkInput(f, contents))
            continue
        if contents.is_archive or not contents.complete:
            what = "an archive" if contents.is_archive else "compiled with -flto"
            raise BuildError(
                f"packed=: {f.label} is {what}, where {sorted(used or names)[0]} cannot be renamed;"
                " pass the object files themselves, compiled without -flto"
            )
        renamed.append(LinkInput(with_names(f, names, work / f"hidden{i}.o"), contents))
    return renamed


def missing_slots(files: Sequence[LinkInput]) -> list[str]:
    """Runtime functions that objects call directly and nobody defines."""
    defined = {name for _, c in files for name in c.defined | c.weak}
    undefined = {name for _, c in files for name in c.undefined}
    return [name for name in SLOTS if name in undefined - defined]
