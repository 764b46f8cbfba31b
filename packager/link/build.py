"""Building from a description: what `mblob-pack build` does, from flags or from a manifest."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mblob.format.type_keys import GRAPHS, RELAX_EXECUTABLES
from mblob.module import Module
from mblob.named_tuple import NamedTuple
from mblob.packager.errors import BuildError
from mblob.packager.link.export import export_library
from mblob.packager.link.request import dialects_of
from mblob.packager.modules.host_modules import object_module, source_module, warn_of_left_out
from mblob.packager.modules.nodes import NOTHING, DeclaredFunctions, PayloadNode, is_host, node_of
from mblob.packager.modules.payload_modules import (
    blob_module,
    check_alignment,
    graph_executor_factory,
)
from mblob.packager.modules.repeated_names import check_names
from mblob.packager.path_arguments import check_output, existing_file
from mblob.source_suffixes import FORMAT_OF

if TYPE_CHECKING:
    from mblob.typed import Dialect, Digest, Embed


DEFAULT_NAME = "default"  # of a model


class BuildPlan(NamedTuple):
    """A library to build. Paths are as a process in the working directory sees them.

    Attributes:
        output: the file to write.
        kernels: C, C++, CUDA and Fortran sources.
        objects: object files and archives, and folders of these. Kernels and objects together are the root library.
        functions: prototypes and names of plain C functions in them; None: all whose types the sources
            and debug information tell.
        packed: functions whose packed function takes the bare name (["name"]: all).
        blobs: (key, file); each becomes an import of the root.
        align: of all of these, as `alignment` of `blob_module`.
        weights: safetensors files; each becomes an import of the root.
        carry: plug-ins to link in: sources, objects, archives; names of those that come with mblob.
        graph: JSON of a graph whose operators are functions of the library. Its executor's factory
            is the root then, and imports the library.
        params: the graph's parameters: a safetensors file, or one of `save_param_dict`. Without a
            graph those of the Relax program that is packed, in the order of the file.
        order: a JSON list of the names of these, in the order of the program.
        name: of the factory's function.
        options: of all compilations and the link.
        cc, target, dialect, embed, index, digest, system_lib, prefix, standalone, header, shapes, reuse: as
            of `export_library`.
        depfile: the rule of make that tells what was read is written there.
        manifest: the file that all this stands in, None without one.
        imports: (module, what it imports), by name: "library", keys of blobs, "weights" (or, of
            several, the stems of their files; of a stem that is taken, the path). What nobody imports,
            the library imports.
    """

    output: Path
    kernels: Sequence[Path] = ()
    objects: Sequence[Path] = ()
    functions: Sequence[str] | None = None
    packed: Sequence[str] = ()
    blobs: Sequence[tuple[str, Path]] = ()
    align: int = 1
    weights: Sequence[Path] = ()
    carry: Sequence[Path | str] = ()
    graph: Path | None = None
    params: Path | None = None
    order: Path | None = None
    name: str = DEFAULT_NAME
    options: Sequence[str] = ()
    cc: str | None = None
    target: str | None = None
    dialect: Dialect | None = None
    embed: Embed = "auto"
    index: bool = True  # type: ignore[assignment]  # tuple.index
    digest: Digest = "crc32"
    system_lib: bool = False
    prefix: str = ""
    standalone: bool = False
    header: Path | None = None
    shapes: Mapping[str, str] | None = None
    reuse: bool = True
    imports: Sequence[tuple[str, Sequence[str]]] = ()
    manifest: Path | None = None
    depfile: Path | None = None


def build(plan: BuildPlan) -> dict[str, str]:
    """Carry a plan out.

    Returns:
        An input that was converted, by its dialect: that of the library is another one, which the plan names.

    Raises:
        As of `export_library` and the constructors.
    """
    if plan.manifest is not None:
        check_output(plan.output, [("the manifest", plan.manifest)])
    inputs = [
        ("the graph", plan.graph),
        ("the parameters", plan.params),
        ("the order of the parameters", plan.order),
    ]
    given = [(what, path) for what, path in inputs if path is not None]
    check_output(plan.output, given)
    if plan.depfile is not None:
        from mblob.packager.link.depfile import check_target, write_depfile

        check_target(plan.output)
        files = [("a kernel", Path(path)) for path in plan.kernels]
        files += [("an object", Path(path)) for path in plan.objects]
        files += [("a blob", path) for _, path in plan.blobs]
        files += [("weights", Path(path)) for path in plan.weights]
        files += [("the manifest", plan.manifest)] if plan.manifest is not None else []
        check_output(plan.depfile, [*given, *files, ("the library", plan.output)])
    root = module_of(plan)
    export_library(
        root, plan.output, dialect=plan.dialect, embed=plan.embed, index=plan.index, digest=plan.digest,
        cc=plan.cc, target=plan.target, options=list(plan.options), system_lib=plan.system_lib, prefix=plan.prefix,
        carry=plan.carry, standalone=plan.standalone, header=plan.header,
        shapes=plan.shapes, reuse=plan.reuse,
    )  # fmt: skip
    if plan.depfile is not None:
        write_depfile(plan, plan.depfile)
    found = {} if plan.dialect is None else dialects_of(root.walk())
    return {name: file for name, file in found.items() if name != plan.dialect}


def module_of(plan: BuildPlan) -> Module:
    """The module tree of a plan.

    Raises:
        BuildError: nothing to pack, or `imports` names something that is not there.
    """
    if not (plan.kernels or plan.objects or plan.blobs or plan.weights or plan.graph):
        raise BuildError("nothing to pack: expected kernels, objects, blobs, weights or a graph")
    check_alignment("align", plan.align)
    library = _with_imports(plan)
    if plan.order is not None and (plan.params is None or plan.graph is not None):
        raise BuildError("order= is that of params= of a Relax program, without graph=")
    root = library
    if plan.graph is not None:
        root = _factory(plan.graph, plan.params, plan.name)
        root.import_module(library)
    elif plan.name != DEFAULT_NAME:
        raise BuildError(f"name= names the model of graph=; found {plan.name!r} and no graph")
    elif plan.params is not None:
        _add_params(library, plan.params, plan.order)
    modules = list(root.walk())
    check_names(modules)
    return root


def _add_params(root: Module, params: Path, order: Path | None) -> None:
    """Hang parameters below the one program of Relax in a tree."""
    programs = [module for module in root.walk() if module.type_key in RELAX_EXECUTABLES]
    if len(programs) != 1:
        how = "other weights are packed by weights="
        if any(module.type_key in GRAPHS for module in root.walk()):
            how = "build without params=, and give them to the graph model with add and params="
        raise BuildError(f"params= needs graph= or one Relax program, found {len(programs)}; {how}")
    from mblob.packager.modules.weights import safetensors_module

    programs[0].import_module(safetensors_module(params, order=order or True))


def _factory(graph: Path, params: Path | None, name: str) -> Module:
    from mblob.packager.modules.weights import read_tensors

    try:
        text = existing_file(graph, "build: graph").read_text(encoding="utf-8")
        tensors = read_tensors(existing_file(params, "build: params")) if params else None
        factory = graph_executor_factory(text, tensors, name)
    except (BuildError, UnicodeDecodeError) as exc:
        raise BuildError(f"{graph}: {exc}") from None
    node = node_of(factory)
    assert isinstance(node, PayloadNode)
    node.files = [graph, *([params] if params else [])]
    return factory


def _with_imports(plan: BuildPlan) -> Module:
    """The library with what it imports."""
    _check_once(plan.weights, "weights")
    root, library = _host(plan)
    named: dict[str, Module] = {"library": library}
    for key, path in plan.blobs:
        _add(named, key, blob_module(key, path, alignment=plan.align))
    weights = _weights(plan.weights)
    stems = [path.stem if len(weights) > 1 else "weights" for path in plan.weights]
    folder = plan.manifest.parent if plan.manifest else "."
    for stem, path, module in zip(stems, plan.weights, weights):
        is_taken = stem in named or stems.count(stem) > 1
        _add(named, os.path.relpath(path, folder) if is_taken else stem, module)
    if plan.imports:
        _connect(named, plan.imports)
    else:
        for name, module in named.items():
            if name != "library":
                root.import_module(module)
    return root


def _weights(paths: Sequence[Path]) -> list[Module]:
    if not paths:
        return []
    from mblob.packager.modules.weights import safetensors_module

    return [safetensors_module(path) for path in paths]


def _host(plan: BuildPlan) -> tuple[Module, Module]:
    """The root, and the host module that imports all others, which become one library with it. The root
    is that module, or the root of packed modules among the objects."""
    packed = (
        None if not plan.packed else "name" if set(plan.packed) == {"name"} else list(plan.packed)
    )
    # Prototypes are parsed when a large payload is on its way.
    made = host_modules(plan.kernels, plan.objects, plan.functions, packed, "build")
    if not made:
        if plan.functions:
            raise BuildError("functions= needs kernels or objects that define them")
        made = [source_module("", "c", NOTHING)]
    root = next((m for m in made if not is_host(m)), made[0])
    library = next(m for m in root.walk() if is_host(m))
    for module in made:
        if module is not root:
            library.import_module(module)
    return root, library


def host_modules(
    kernels: Sequence[Path],
    objects: Sequence[Path],
    functions: Sequence[str] | None,
    packed: str | Sequence[str] | None,
    who: str,
) -> list[Module]:
    """Modules of sources and of objects; of objects with packed modules, their tree. Prototypes belong to
    the library, not to one of its files; the first module carries them.

    Args:
        functions, packed, who: as of `DeclaredFunctions`.

    Raises:
        BuildError: packed modules of two libraries.
    """
    declared = DeclaredFunctions(functions, packed, who)
    others = declared.without_prototypes() if declared.is_open else NOTHING
    _check_once(kernels, "code")
    _check_once(objects, "code")
    if any(Path(path).name == "devc.c" for path in kernels):  # the members of a `.tar` of C
        kernels, objects = (), (*kernels, *objects)
    sources, files, is_tree = [*map(Path, kernels)], [*map(Path, objects)], False
    if files:
        from mblob.packager.link.relink import has_blob, is_tar, parts_in, tree_of

        parts = [part for path in files for part in parts_in(path)]
        of_folders = [part for part in parts if part not in files]
        there = [path for path in parts if path.is_file()]
        # The code that packed modules call is in the objects or sources beside them.
        is_tree = any(is_tar(path) or has_blob(path) for path in there)
        if not is_tree:
            sources += [path for path in of_folders if path.suffix in FORMAT_OF]
        # A folder may have files that are given by themselves, too.
        sources = _each_once(sources, parts if is_tree else ())
        own = {path.resolve() for path in sources}
        files = _each_once(p for p in parts if is_tree or p in files or p.resolve() not in own)
    warn_of_left_out((*sources, *files))
    made: list[Module] = []
    for path in sources:
        made.append(source_module(path, None, others if made else declared))
    if is_tree:
        return [*made, tree_of(files, others if made else declared)]
    for path in files:
        made.append(object_module(path, others if made else declared))
    return made


def _each_once(paths: Iterable[Path], taken: Iterable[Path] = ()) -> list[Path]:
    """The paths of files that no earlier path names, and no taken one."""
    known = {path.resolve() for path in taken}
    found: dict[Path, Path] = {}
    for path in paths:
        if path.resolve() not in known:
            found.setdefault(path.resolve(), path)
    return list(found.values())


def _check_once(paths: Sequence[Path], what: str) -> None:
    if twice := next((path for path, n in Counter(paths).items() if n > 1), None):
        raise BuildError(f"{twice}: given twice, expected each file of {what} once")


def _add(named: dict[str, Module], name: str, module: Module) -> None:
    if name in named:
        raise BuildError(f"two modules are called {name!r}; give each file its own key")
    named[name] = module


def _connect(named: dict[str, Module], imports: Sequence[tuple[str, Sequence[str]]]) -> None:
    """Give modules the imports that the plan lists; what nobody imports is imported by the
    library."""
    imported: set[str] = set()
    for parent, children in imports:
        for name in (parent, *children):
            if name not in named:
                raise BuildError(
                    f"imports: no module is called {name!r}; there are {', '.join(named)}"
                )
        for child in children:
            try:
                named[parent].import_module(named[child])
            except ValueError as exc:
                raise BuildError(f"imports: {parent!r} -> {child!r}: {exc}") from None
            imported.add(child)
    for name, module in named.items():
        if name != "library" and name not in imported:
            named["library"].import_module(module)
