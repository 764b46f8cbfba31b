"""`mblob.add`: more modules for a finished library, whose code stays byte for byte."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from mblob.arguments import items, mapping
from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import ET_EXEC
from mblob.bytes.payload_source import Payload
from mblob.errors import PortabilityWarning, did_you_mean, listed
from mblob.format.blob_plan import OutEntry, check_ffi
from mblob.format.ffi_dialect import CONTEXT_OF_0_21
from mblob.format.import_tree import topological_order
from mblob.format.ndarray import ArrayRecord
from mblob.format.type_keys import (
    EXECUTORS,
    GRAPHS,
    LIBRARY,
    RELAX_EXECUTABLES,
)
from mblob.inspect.elf_judge import check_loading
from mblob.inspect.library import EntryView, Library
from mblob.inspect.library_search import shared_elf
from mblob.module import Module, checked_module
from mblob.packager.edit.names import Names, below
from mblob.packager.edit.new_payloads import check_new
from mblob.packager.edit.rewrite import OF_0_21, PathLike, no_index, rewritten, write_library
from mblob.packager.errors import (
    BuildError,
    BuildTypeError,
    CannotJoinError,
    unknown_to_tvm,
    warn,
    warn_of_tvm,
)
from mblob.packager.join.first_blob import with_first_blob
from mblob.packager.modules.nodes import (
    PayloadNode,
    files_in,
    is_host,
    node_of,
    suggesting,
)
from mblob.packager.modules.payload_modules import blob_module, graph_executor_factory
from mblob.packager.modules.relax_parameters import is_set
from mblob.packager.modules.repeated_names import check_names
from mblob.packager.modules.weights import named_parameters, safetensors_module
from mblob.packager.options import as_options
from mblob.packager.path_arguments import (
    check_output,
    checked_path,
    existing_file,
    refuse_text,
    workspace,
)
from mblob.packager.write.blob_stream import out_entry
from mblob.packager.write.dialects import DIALECTS
from mblob.source_suffixes import FORMAT_OF
from mblob.temporary import check_may_replace


@suggesting()
def add(
    file: PathLike | Sequence[PathLike],
    *,
    weights: Any = (),
    params: Any = None,
    order: Any = None,
    blobs: Mapping[str, Any] | None = None,
    kernels: Any = (),
    objects: Any = (),
    functions: Sequence[str] | str | None = None,
    modules: Sequence[Module] | Mapping[int, Sequence[Module]] = (),
    output: PathLike | None = None,
    replace: bool = False,
    reuse: bool = True,
    cc: str | Sequence[str] | None = None,
    target: str | None = None,
    options: str | Sequence[str] | None = None,
) -> int:
    """Add weights, files and code to a finished library, of mblob, of TVM or of anybody else.

    The root stays the root, and imports what is added. Tree, order, keys and payloads stay, and so
    does the code, byte for byte. The result has an index. New code is compiled, linked, and joins
    the code of the library. Without new code, no compiler and no linker is needed.

    Args:
        file: the library; or the `.tar` with its objects, or a folder or list of its members, which are then
            linked with what is added.
        weights: what `safetensors_module` takes, such as the path of a `.safetensors` or `.npz` file
            or a dictionary of arrays by name; or a list of these.
        params: the parameters of the one model in the library, as `weights`. A Relax program gets them as
            `VirtualMachine(...).params`, a tuple in the order of the file or dictionary; `params` may then
            also be a folder with `tensor-cache.json` or `ndarray-cache.json`. For a graph model they
            are the parameters of its graph executor: inputs that have values. Without `replace`, a
            program that has parameters, or a graph that has one of that name, is an error.
        order: another order of the parameters of a Relax program, as of `safetensors_module`: a list of
            their names, or the path of a JSON file with such a list.
        blobs: payloads by type key: what `blob_module` takes, such as the path of a file, or bytes.
        kernels: paths of C, C++, CUDA and Fortran sources.
        objects: paths of objects and archives.
        functions: names and prototypes of plain C functions in these, as of `csource_module`, and of
            functions that the library exports already. Types of these come from its debug information
            or its table of functions, else from a prototype. Without `functions`, all of the new code
            whose types are known are callable.
        modules: any other modules, with what they import: a list that the root imports, or lists by
            the index of the entry that imports them. Host code among them joins the library.
        output: path of the new library. Without it, or if it is the library's own path, the new
            library takes the place of `file` when it is complete, by a rename; that of a symbolic
            link takes the place of what the link names. Programs that opened the old file keep it. A
            `.tar`, a folder or a list needs an `output`, and a file that is read-only is not replaced.
        replace: let a new payload, module of weights or function replace one of the same key, with the
            same tensors, or of the same name; functions that replace others are listed in `functions`.
            New parameters of a Relax program replace all old ones. Without it, names that exist already
            are an error.
        reuse: share unchanged blocks, if the file system can share blocks between files.
        cc, target, options: for new code, as of `export_library`.

    Returns:
        The number of bytes of the old packed modules that stay behind unused: 0, unless the modules
        had no place to grow, as in libraries that TVM linked.

    Warns:
        PortabilityWarning: TVM could open the library, and cannot open the result; `strip` breaks
            the result; or, with the option `-Wl,-z,undefs`, nothing defines a symbol that the new code takes.
        HiddenNameWarning: a function of a library with a model is replaced; the text says which one the
            model calls.

    Raises:
        BuildError: nothing to add; a name that exists already; a library of TVM 0.21, or one that is
            no ELF shared library; a blob that does not fit and cannot move, because code refers to
            it; code that cannot join the library (the text says why, and what to do); or code that takes a symbol
            that nothing defines, without the option `-Wl,-z,undefs`.
        FormatError: the library is damaged, or a new payload breaks the grammar of its key.
        DigestError: the library is damaged.
        IncompatibleError: the library is for another machine than the compiler.
        ToolchainError: no compiler, or it fails.
        ChangedError: somebody replaced `file` meanwhile.
        OSError: a file cannot be read or written; or it is read-only, and would be replaced.
    """
    export_options = {"cc": cc, "target": target, "options": options}
    new_imports = _given(weights, blobs, modules)
    sources, others = _paths(kernels, "kernels"), _paths(objects, "objects")
    path, members = _file(file, [*others, *sources])
    known = {p.resolve() for p in members or ()}
    again = [p for p in (*sources, *others) if p.resolve() in known]
    sources, others = ([p for p in row if p not in again] for row in (sources, others))
    code: list[Module] = []
    if sources or others:
        from mblob.packager.link.build import host_modules

        made = host_modules(sources, others, functions, None, "add")
        code = [m for m in made if is_host(m)]
        new_imports[0] += [m for m in made if not is_host(m)]  # the root of a .tar
    if isinstance(params, (str, os.PathLike)):
        params = checked_path(params, "add: params")
    if order is not None and params is None:
        raise BuildError("order= is that of params= of a Relax program; give params=, too")
    if not (code or functions) and params is None and not any(new_imports.values()):
        why = f"{again[0]} is a file of the library that is added to; " if again else ""
        raise BuildError(
            f"add: nothing to add; {why}give weights, params, blobs, kernels, objects or functions"
        )
    result = Path(checked_path(path if output is None else output, "output"))
    with ExitStack() as stack:
        opened = stack.enter_context(Library(path))
        is_of_objects = opened.kind == "tar" or members is not None
        if is_of_objects and output is None:
            raise BuildError(
                f"{path}: has objects of a library, and add links a new one of them; output= names it"
            )
        check_may_replace(result, path)
        if functions and not (code or is_of_objects):  # of the library
            from mblob.packager.edit.add_code import without_code

            code = [without_code(functions)]
        names = Names(opened, replace, of_objects=is_of_objects)
        _check_importers(opened, new_imports)
        if is_of_objects:
            from mblob.packager.edit.add_code import link_again

            link_again(
                opened,
                members or [path],
                () if functions and code else functions,
                *_for_objects(opened, new_imports, params, order, names),
                code,
                result,
                export_options,
            )
            return 0
        if output is not None and result.suffix in (".tar", ".o", ".a"):
            raise BuildError(
                f"{path}: a finished library has no objects to put into {result}; name a .so, or add to the .tar"
                " that TVM exported"
            )
        dialect = _dialect_for(opened, [*code, *_all(new_imports)], export_options)
        check_loading(opened.image)  # its segments get company
        graph = (
            {}
            if params is None
            else _parameters(opened, params, order, new_imports, replace, names)
        )
        check_names((*_all(new_imports), *graph.values()))
        work = stack.enter_context(workspace(None))
        new = _New(opened, new_imports, code, names, graph)
        changed, added = _entries(opened, new, dialect)
        inputs = {f"{what} {p}": p for what, p in files_in(map(node_of, new.all))}
        check_output(result, inputs.items())
        library, left = opened, 0
        if new.code:
            from mblob.packager.edit.add_code import check_joined, with_code

            joined, left = with_code(opened, dialect, new.code, replace, work, export_options)
            library = stack.enter_context(Library(joined))
            check_joined(opened, library, as_options(options))
        elif opened.blob is None:
            library = stack.enter_context(Library(_with_blob(opened, dialect, work)))
        source = library if opened.blob is None else opened
        plan = rewritten(source, changed, index=True, added=added, importers=new.importers)
        if plan.dialect == "ffi":
            try:
                check_ffi(plan.entries)
            except ValueError as error:
                raise BuildError(str(error)) from None
        moved = write_library(library, plan, result, reuse=reuse, inputs=inputs, source=opened)
        if opened.is_of_tvm and not unknown_to_tvm(opened.entries):
            warn_of_tvm(added)
        names.warn_of_weights(new.all)
        _warn_of_strip(opened, result)
        return left if new.code else moved


def _for_objects(
    library: Library, new_imports: dict[int, list[Module]], params: Any, order: Any, names: Names
) -> tuple[list[Module], Module | None]:
    """The additions to objects of a library: modules for the root, and parameters of its program.

    Raises:
        BuildError: they cannot get that.
    """
    if new_imports.keys() != {0}:
        raise BuildError(
            f"{library.path}: modules by the entry that imports them, expected a list, which the root imports"
        )
    rows, parameters = dict(new_imports), None
    if params is not None:
        model = _model(library)
        if model.type_key in GRAPHS:
            raise BuildError(
                f"{model.place}: gets parameters only in a finished library; build that first"
            )
        parameters = _set_of(params, order)
        rows[model.index] = [*rows.get(model.index, ()), parameters]
    check_names(_all(rows))
    for i, row in rows.items():
        for module in (m for new in row for m in new.walk() if not is_host(m)):
            names.taken_by(module, i)
    return new_imports[0], parameters


# -- parameters of a model -------------------------------------------------------------------------


def _model(library: Library) -> EntryView:
    """The model in a library that gets parameters.

    Raises:
        BuildError: none, or several.
    """
    models = [e for e in library.entries if e.type_key in (*RELAX_EXECUTABLES, *GRAPHS)]
    if len(models) == 1:
        return models[0]
    how = "add other files by weights="
    if models:
        how = "mblob.add(modules={INDEX: [MODULE]}) names the program"
    elif other := next((e for e in library.entries if e.type_key in EXECUTORS), None):
        how = f"swap replaces tensors of the {other.type_key}"
    raise BuildError(
        f"{library.path}: params= needs one Relax program or graph model, found {len(models)}; {how}"
    )


def _set_of(params: Any, order: Any) -> Module:
    return safetensors_module(params, order=True if order is None else order)


def _parameters(
    library: Library,
    params: Any,
    order: Any,
    new_imports: dict[int, list[Module]],
    replace: bool,
    names: Names,
) -> dict[int, Module]:
    """Give the model in a library parameters: a Relax program imports them (`new_imports`); of a graph model, the
    result is the model that takes the place of the old one.

    Raises:
        BuildError: it has some already, or cannot get these.
    """
    model = _model(library)
    if model.type_key in RELAX_EXECUTABLES:
        new_imports.setdefault(model.index, []).append(_set_of(params, order))
        return {}
    if order is not None:
        raise BuildError("order= is that of params= of a Relax program; a graph model has none")
    if model.content.problem is not None:
        raise model.content.problem
    new, files, _ = named_parameters("add: params", params)
    old = {t.name: ArrayRecord(*t[1:3], t.data) for t in model.tensors}
    if (taken := next((n for n in new if n in old), None)) and not replace:
        raise BuildError(
            f"{model.place}: the graph has a parameter {taken[:80]!r} already; replace=True replaces it"
        )
    _check_inputs(model, new)
    names.check_parameters(model.type_key, new)
    fields = model.fields()
    graph, name = (bytes(fields[n]).decode() for n in ("graph_json", "module_name"))
    made = graph_executor_factory(graph.rstrip(" "), {**old, **new}, name)
    node = node_of(made)
    assert isinstance(node, PayloadNode)
    node.files = files
    return {model.index: made}


def _check_inputs(model: EntryView, params: Mapping[str, ArrayRecord]) -> None:
    """Refuse parameters that are none of the graph's inputs, or of another type or shape."""
    inputs = {v["name"]: v for v in model.content.facts["graph"]["inputs"]}
    for name, array in params.items():
        if name not in inputs:
            raise BuildError(
                f"{model.place}: the graph has no input {name[:80]!r}; it has {listed(list(inputs), 6)}"
                f"{did_you_mean(name, inputs)}"
            )
        want = inputs[name]
        dtype, shape = want["dtype"] or str(array.dtype), want["shape"]
        if (dtype, list(array.shape if shape is None else shape)) != (
            str(array.dtype),
            list(array.shape),
        ):
            raise BuildError(
                f"{model.place}: parameter {name[:80]!r}: expected {dtype} of shape {shape}, found {array.dtype} of"
                f" shape {list(array.shape)}"
            )


# -- what was given --------------------------------------------------------------------------------


def _given(weights: Any, blobs: Any, modules: Any) -> dict[int, list[Module]]:
    """The modules that the arguments ask for, by the entry that shall import them.

    Raises:
        BuildError: one is no module to add.
    """
    if blobs is not None:
        mapping("add", "blobs", blobs, "a dict of payloads by type key", BuildTypeError)
    given = weights if isinstance(weights, (list, tuple)) else [] if weights is None else [weights]
    made = [safetensors_module(w) for w in given]
    made += [blob_module(key, payload) for key, payload in (blobs or {}).items()]
    new_imports = {0: made}
    for index, row in (modules if isinstance(modules, Mapping) else {0: modules}).items():
        row = [row] if isinstance(row, (str, os.PathLike)) else row
        row = items("add", "modules", row, "a list of modules", BuildTypeError)
        for module in row:
            _check_has_no_code(checked_module("add", "modules", module))
        new_imports.setdefault(index, []).extend(row)
    return new_imports


def _all(rows: Mapping[int, Sequence[Module]]) -> Iterable[Module]:
    """Modules that entries shall import, with what those import."""
    return (m for row in rows.values() for root in row for m in root.walk())


def _check_importers(library: Library, new_imports: Mapping[int, Sequence[Module]]) -> None:
    """Refuse a circle: modules that import the library below the library itself.

    Raises:
        BuildError: naming the module.
    """
    home = next((e.index for e in library.entries if e.offset is None), None)
    under = () if home is None else below(library, home)
    for module in _all({i: row for i, row in new_imports.items() if i in under}):
        if not is_host(module) and any(map(is_host, module.walk())):
            where = node_of(module).home or ("", f"a module {module.type_key!r}")
            raise BuildError(
                f"{where[1]}: its {module.type_key} imports the library, which is the root of {library.path}; build a"
                f" library of these modules and of the sources or objects (.o) of {library.path} instead"
            )


def _check_has_no_code(module: Module) -> None:
    """Refuse a module that imports, or is, the linked code of another library."""
    for m in module.walk():
        if m.type_key == LIBRARY and not is_host(m):
            raise BuildError(
                f"modules: {node_of(m).path or m.type_key}: linked code of another library, which cannot be linked"
                " again; give its objects (objects=) or sources (kernels=)"
            )


def _file(given: Any, others: Sequence[Path]) -> tuple[Path, list[Path] | None]:
    """The file of the library that is added to, and the members of the library if it is given as these.

    Args:
        others: files that are added, of which some may be further members.
    """
    if not isinstance(given, (list, tuple)):
        if isinstance(given, Module):
            raise BuildTypeError(
                "add: file: expected a path, found a Module; import into that with its import_module, and write it with"
                " its export_library"
            )
        path = Path(checked_path(given, "add: file"))
        is_member = path.suffix in (".o", ".a", *FORMAT_OF) and path.is_file()
        if not (is_member or path.is_dir()):
            return existing_file(path, "add"), None
        given = [path]
    elif not given:
        raise BuildError("add: file: an empty list, expected the members of a library")
    from mblob.packager.edit.add_code import members_of

    return members_of([Path(checked_path(p, "add: file")) for p in given], others)


def _paths(given: Any, what: str) -> list[Path]:
    """Files that were given as one path, or as a list of paths."""
    if isinstance(given, (str, bytes, os.PathLike, Module)):
        given = [given]
    given = items("add", what, given or (), "a list of paths", BuildTypeError)
    constructor = {"kernels": "csource_module", "objects": "static_library"}[what]
    for path in given:
        refuse_text(path, f"add: {what}", constructor)
    return [Path(checked_path(p, f"add: {what}")) for p in given]


class _New:
    """Modules that are added.

    Attributes:
        all: each once.
        code: the host modules among them.
        replacing: those that take the place of a payload, by its entry.
        added: the others, importers first, and what each imports, by number. None is the library
            itself, if there is host code and no module for it yet.
        importers: what old modules import of them, by number.

    Raises:
        BuildError: a name that exists already; no such importer.
    """

    def __init__(
        self,
        library: Library,
        new_imports: Mapping[int, Sequence[Module]],
        code: Sequence[Module],
        names: Names,
        replacing: Mapping[int, Module],
    ) -> None:
        seen: dict[int, tuple[Module, int]] = {}  # and the entry that imports it, or what does
        for i, module in (
            *((0, m) for m in code),
            *((i, m) for i, row in new_imports.items() for m in row),
        ):
            for m in module.walk():
                seen.setdefault(id(m), (m, i))
        self.all = [*replacing.values(), *(m for m, _ in seen.values())]
        self.code = [m for m in self.all if is_host(m)]
        self.replacing = dict(replacing)
        payloads = []
        for m, i in seen.values():
            entry = None if is_host(m) else names.taken_by(m, i)
            if entry is not None:
                self.replacing[entry] = m
            elif not is_host(m):
                payloads.append(m)
        if unknown := next((i for i in new_imports if not 0 <= i < len(library.entries)), None):
            raise BuildError(
                f"modules: no entry {unknown}; there are 0 to {len(library.entries) - 1}"
            )
        self._place = {id(m): i for i, m in self.replacing.items()}
        number = {id(m): i for i, m in enumerate(payloads)}
        below = [[number[id(c)] for c in m.imported_modules if id(c) in number] for m in payloads]
        first = len(library.entries)
        home = next((e.index for e in library.entries if e.offset is None), first)
        is_first = bool(self.code) and home == first
        self._place.update((id(m), home) for m in self.code)
        payloads = [payloads[i] for i in topological_order(below)]
        self._place.update((id(m), first + is_first + i) for i, m in enumerate(payloads))
        self.added: list[tuple[Module | None, tuple[int, ...]]] = []
        self.importers: dict[int, tuple[int, ...]] = {}
        under = [c for m in self.code for c in m.imported_modules if not is_host(c)]
        if is_first:
            self.added.append((None, self._numbers(under)))
            self.importers[0] = (first,)
        elif self.code:
            self.importers[home] = self._numbers(under)
        self.added += [(m, self._numbers(m.imported_modules)) for m in payloads]
        for i, row in new_imports.items():
            new = self._numbers(m for m in row if is_set(m) or m not in self.replacing.values())
            self.importers[i] = (*self.importers.get(i, ()), *(n for n in new if n != i))

    def _numbers(self, modules: Iterable[Module]) -> tuple[int, ...]:
        return tuple(sorted({self._place[id(m)] for m in modules}))


def _entries(
    library: Library, new: _New, dialect: str
) -> tuple[dict[int, Payload], list[OutEntry]]:
    """New payloads by the entry that they replace, and what is added."""
    added = [
        OutEntry(LIBRARY, None, row) if m is None else out_entry(m, dialect)._replace(imports=row)
        for m, row in new.added
    ]
    changed: dict[int, Payload] = {}
    for index, module in new.replacing.items():
        payload = out_entry(module, dialect).payload
        assert payload is not None
        check_new(library.entries[index], payload, library.grammars, dialect)
        changed[index] = payload
    return changed, added


# -- the library that gets it ----------------------------------------------------------------------


def _dialect_for(
    library: Library, modules: Sequence[Module], export_options: Mapping[str, Any]
) -> str:
    """The dialect of a library, of what is added to it if it has none.

    Raises:
        BuildError: nothing can be added to it, or it is of another dialect than the modules.
    """
    image, elf = library.image, shared_elf(library)
    if isinstance(image, ElfFile) and (image.e_type == ET_EXEC or image.is_program):
        raise BuildError(
            f"{library.path}: an executable, which no program opens as a library; add to a shared library (.so), or"
            " link code and files into the executable as a system library (build with system_lib=True)"
        )
    if elf is None:
        raise BuildError(
            f"{library.path}: no ELF shared library (.so), and only these can be added to; pack it again"
        )
    why = "" if library.blob is None else no_index(library)
    if library.blob is None and CONTEXT_OF_0_21 in {s.name for s in elf.dynsym}:
        why = OF_0_21
    if why:
        raise BuildError(
            f"{library.path}: {why}; export the model with another release of TVM, or build a library of what you would"
            " add, and open both"
        )
    if any(map(is_host, modules)):
        from mblob.packager.edit.add_code import dialect_with

        return dialect_with(library, modules, export_options)
    return library.dialect or "classic"


def _with_blob(library: Library, dialect: str, work: Path) -> Path:
    """A copy of a library without a blob that has an empty one."""
    made = work / "with_blob.so"
    try:
        with_first_blob(library.elf, library.path, made, DIALECTS[dialect])
    except CannotJoinError as error:
        raise BuildError(f"{error}; pack the objects that it was linked from again") from None
    return made


def _warn_of_strip(library: Library, result: Path) -> None:
    """Warn of program headers that had no room in front, where `strip` and `objcopy` write them."""
    with Library(result, verify="off") as written:
        at, count = written.elf.e_phoff, len(written.elf.segments)
    if at != library.elf.e_phoff:
        warn(
            f"do not run strip or objcopy on {result}: it would not load afterwards, because there is no room for its"
            f" {count} program headers in front of its first section; run strip before add, or add all code in one"
            " call to the library as its linker wrote it",
            PortabilityWarning,
        )
