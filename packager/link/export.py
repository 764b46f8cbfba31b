"""`export_library`: a module tree becomes a file. Plan, compile, link, embed, verify, rename."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from mblob.arguments import items
from mblob.binary.file_kind import ELF_MAGIC
from mblob.bytes.digest import ALGORITHMS
from mblob.bytes.whole_file import replacing
from mblob.errors import (
    ArgumentTypeError,
    HiddenNameWarning,
    PortabilityWarning,
    UnreadableWarning,
    did_you_mean,
    one_of,
)
from mblob.format.type_keys import GRAPHS
from mblob.interrupts import DeferredSignals
from mblob.module import Module, listed
from mblob.packager import output
from mblob.packager.errors import BuildError, BuildTypeError, warn
from mblob.packager.link.background_copy import started
from mblob.packager.link.request import EMBEDDINGS, STATIC_SUFFIXES, Request, Triple, check_prefix
from mblob.packager.modules.nodes import HostNode, PayloadNode, files_in, files_of, node_of
from mblob.packager.options import as_options, check_options
from mblob.packager.path_arguments import checked_path
from mblob.packager.write.blob_stream import plan_blob
from mblob.packager.write.dialects import DIALECTS
from mblob.packager.write.graph_names import packed_names
from mblob.packager.write.reuse import old_library

if TYPE_CHECKING:
    from typing import TypeVar

    from typing_extensions import Unpack

    from mblob.typed import Dialect, Digest, Embed, ExportOptions

    R = TypeVar("R")


@overload
def export_library(
    mod: Module,
    file_name: str | os.PathLike[str],
    fcompile: Literal[False] | None = None,
    fpack_imports: Callable[..., Any] | None = None,
    addons: Sequence[str | os.PathLike[str]] | None = None,
    workspace_dir: str | os.PathLike[str] | None = None,
    **options: Unpack[ExportOptions],
) -> None: ...


@overload
def export_library(
    mod: Module,
    file_name: str | os.PathLike[str],
    fcompile: Callable[..., R],
    fpack_imports: Callable[..., Any] | None = None,
    addons: Sequence[str | os.PathLike[str]] | None = None,
    workspace_dir: str | os.PathLike[str] | None = None,
    *,
    dialect: Dialect = "classic",
    embed: Embed = "auto",
    index: bool = True,
    digest: Digest = "crc32",
    cc: str | Sequence[str] | None = None,
    target: str | None = None,
    options: str | Sequence[str] | None = None,
    system_lib: bool = False,
    prefix: str = "",
    carry: Sequence[str | os.PathLike[str] | Module] | None = None,
    reuse: bool = True,
    **kwargs: Any,
) -> R: ...


def export_library(
    mod: Module,
    file_name: str | os.PathLike[str],
    fcompile: Callable[..., Any] | Literal[False] | None = None,
    fpack_imports: Callable[..., Any] | None = None,
    addons: Sequence[str | os.PathLike[str]] | None = None,
    workspace_dir: str | os.PathLike[str] | None = None,
    *,
    dialect: Dialect = "classic",
    embed: Embed = "auto",
    index: bool = True,
    digest: Digest = "crc32",
    cc: str | Sequence[str] | None = None,
    target: str | None = None,
    options: str | Sequence[str] | None = None,
    system_lib: bool = False,
    prefix: str = "",
    carry: Sequence[str | os.PathLike[str] | Module] | None = None,
    reuse: bool = True,
    **kwargs: Any,
) -> Any:
    """Pack a module and everything that it imports into one shared library, or into objects for
    static linking.

    Host code is compiled and linked, and all other modules are written into the library. The file
    appears when it is complete and was read back. After a failure the old file remains. The same
    inputs give the same bytes.

    Args:
        mod: the root of the tree.
        file_name: the output: `.so`, or `.tar` with objects to link elsewhere. For a system
            library: `.o`, `.a`, or `.tar` with its objects. It must not be an input.
        fcompile: a function that links instead of mblob, as in TVM: `fcompile(path, files,
            **kwargs)`. mblob uses its attributes `object_format` and `get_target_triple`. `path` is
            in a folder beside `file_name`; mblob moves the result to `file_name`.
        fpack_imports: a function that writes the packed modules instead of mblob, as in TVM:
            `fpack_imports(mod, is_system_lib, prefix, workspace_dir)` returns the path of a file.
        addons: more inputs for the linker, first on its command line: objects, archives, sources,
            libraries.
        workspace_dir: keeps intermediate files here.
        dialect: "classic", for TVM 0.5 - 0.20, or "ffi", for TVM 0.22 and later and for tvm_ffi.
        embed: "grow" (link a placeholder, then stream the modules in), "object" (an object file on
            the link line), "c" (C text), "append" (behind the linked file). "auto" is grow, but
            object with `fcompile`, and c for a target without ELF.
        index: write the index behind the modules. False writes only TVM's bytes, which do not say
            where the payload of an unknown type key ends. TVM opens such a library if it has a
            loader; mblob does not.
        digest: the digest of each payload in the index: "crc32", "sha256" or "none".
        cc: the compiler command; by default $CC, cc, gcc or clang. A launcher may stand before it:
            "ccache gcc".
        target: a triple to build for.
        options: options for every compilation and for the link.
        system_lib: write a library to link into a program. `mblob_system_lib`, `mblob.system_lib`
            and TVM's `runtime.SystemLib` find it there. All its symbols are hidden, so that the
            program does not export them.
        prefix: prefix of all symbols of a system library. With different prefixes, a program can
            contain several, and finds each by its prefix.
        carry: plug-ins (mblob/plugin.h) that run modules of this library. mblob links them into the
            library, and exports only their tables. Each is a C or C++ source, an object, an archive
            (of which only the needed members are linked), a module of host code with its imports,
            or the name of a plug-in that comes with mblob. mblob compiles the sources itself, even
            with `fcompile`, with `cc`, `target` and `options`.
        reuse: share unchanged blocks with the old `file_name`, if the file system can share blocks.
            The old file is compared byte for byte.
        kwargs: for `fcompile`.

    Returns:
        What `fcompile` returns, else None.

    Warns:
        UnreadableWarning: mblob cannot open the library that it writes: index=False with an unknown
            type key.
        PortabilityWarning: TVM cannot run an executor, because of its graph, because it calls plain
            C functions, or because no module has a function.
        HiddenNameWarning: two modules of the tree have the same key of `blob_module`, or a tensor of
            the same name; or a function has the name of an attribute of modules.
        UserWarning: a carried plug-in opens no module of the tree.

    Raises:
        BuildError: the tree or an argument is wrong.
        TypeError: an argument of the wrong type.
        ToolchainError: no compiler, or it fails; `output` is what it printed.
        IncompatibleError: an object for another machine.
        OSError: a file cannot be read or written.
    """
    if fcompile is False:  # as some of TVM's programs say None
        fcompile = None
    path = _checked_path(mod, file_name, fcompile, system_lib, kwargs)
    check_choices(dialect=dialect, embed=embed, digest=digest)
    check_prefix(prefix, system_lib)
    triple = Triple()
    # A system library announces packed functions under the names of the C functions.
    names = {} if system_lib else packed_names(mod, DIALECTS[dialect])
    plan, host = plan_blob(
        mod, DIALECTS[dialect], index=index, digest=digest, target=triple, names=names
    )
    request = Request(
        mod, plan, host, DIALECTS[dialect], triple, fpack_imports, _addons(addons), embed, cc, target,
        as_options(options), system_lib, prefix, _plugins(carry), names=names,
    )  # fmt: skip
    _check_files(request, path)
    _tell_of_aligned(request)
    _warn_of_unreadable(request)
    _warn_of_graphs(request)
    _warn_of_repeated(mod)
    with (
        DeferredSignals(),
        replacing(path) as temporary,
        output.workspace(workspace_dir) as work,
        old_library(path, reuse) as old,
    ):
        done = _write(request._replace(old=old), temporary, path.suffix, work, fcompile, kwargs)
        _check_format(path, temporary)
        return done


def _write(
    request: Request, path: Path, suffix: str, work: Path, fcompile: Any, kwargs: dict[str, Any]
) -> Any:
    """Write what a checked request asks for: compile, link, embed, read back.

    Args:
        path: to write, under a name of its own.
        suffix: of the file that it will be.

    Returns:
        What `fcompile` returns, else None.
    """
    # What most exports do not need is imported by those that do.
    if fcompile is not None:
        from mblob.packager.link import fcompile_export

        return fcompile_export.export(request, fcompile, path, work, kwargs)
    if request.system_lib:
        from mblob.packager.link import system_lib as system_library

        system_library.export(request, path, work)
    elif suffix == ".tar":
        from mblob.packager.link import linked_export

        linked_export.export_tar(request, path, work)
    else:
        with started(path, request) as copy:
            from mblob.packager.link import linked_export

            linked_export.export_shared(request, path, work, copy)
    return None


# -- what is asked for -----------------------------------------------------------------------------


def _check_format(path: Path, written: Path) -> None:
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


def _checked_path(
    mod: Any, file_name: Any, fcompile: Any, system_lib: bool, kwargs: dict[str, Any]
) -> Path:
    if not isinstance(mod, Module):
        raise BuildTypeError(f"export_library: expected a Module, found {type(mod).__name__}")
    if kwargs and fcompile is None:
        from inspect import signature  # slow to import

        unknown, known = min(kwargs), signature(export_library).parameters
        raise ArgumentTypeError(
            f"export_library: unknown argument {unknown!r} (only an fcompile takes more)"
            f"{did_you_mean(unknown, known)}"
        )
    path = Path(checked_path(file_name, "export_library: file_name"))
    if fcompile is None:
        _check_suffix(path, system_lib)
    elif not callable(fcompile):
        raise BuildTypeError(
            f"fcompile: expected a function called as fcompile(file_name, files, **kwargs), found {fcompile!r};"
            " a compiler to use is named by cc="
        )
    return path


def _check_files(request: Request, path: Path) -> None:
    check_options(request.options)
    carried = (node for nodes in request.carry for node in nodes)
    addons = (("an addon", addon) for addon in request.addons)
    output.check_output(path, [*files_of(request.module), *addons, *files_in(carried)])


def _warn_of_unreadable(request: Request) -> None:
    keys = [] if request.fpack_imports else request.plan.unbounded_keys
    if keys:
        warn(
            f"mblob cannot open a library that has {', '.join(map(repr, keys))} and no index, because only the"
            " index says where such a payload ends; use index=False only for a library that TVM alone opens",
            UnreadableWarning,
        )


def _tell_of_aligned(request: Request) -> None:
    aligned = [] if request.fpack_imports else request.aligned_keys
    if not aligned:
        return
    names = listed(aligned, 6)
    if not request.plan.index:
        raise BuildError(
            f"index=False (--no-index): the index says where the aligned payload of {names} is; leave out one of both"
        )
    warn(
        f"TVM finds empty payloads of {names}: aligned ones are where only mblob reads them"
        " (docs/format.md, Alignment)",
        PortabilityWarning,
    )


def _warn_of_graphs(request: Request) -> None:
    if any(module.type_key in GRAPHS for module in request.module.walk()):
        from mblob.packager.link.host_checks import warn_of_graphs

        warn_of_graphs(request.module, request.dialect)


def _warn_of_repeated(mod: Module) -> None:
    """Warn of payloads and tensors that nobody finds by their names, because another module has the
    same."""
    seen: set[tuple[str, str]] = set()
    repeated: dict[tuple[str, str], None] = {}
    for module in mod.walk():
        node = node_of(module)
        if isinstance(node, PayloadNode):
            names = [("tensor", name) for name in node.tensor_names]
            names += [("payload", node.type_key)] if node.is_found_by_key else []
            repeated.update((name, None) for name in names if name in seen)
            seen.update(names)
    for what, name in repeated:
        warn(
            f"two modules of the tree have a {what} {name!r}, and lib.{what}s[{name!r}] gives only one of them;"
            " give each its own name",
            HiddenNameWarning,
        )


CHOICES = {"dialect": tuple(DIALECTS), "embed": EMBEDDINGS, "digest": tuple(ALGORITHMS)}


def check_choices(where: str = "", **given: str) -> None:
    """Refuse a value that an option of `CHOICES` does not have.

    Args:
        where: what the error begins with.
    """
    for name, value in given.items():
        if value not in CHOICES[name]:
            raise BuildError(f"{where}{name}: {one_of(CHOICES[name], value)}")


def _plugins(
    carry: Sequence[str | os.PathLike[str] | Module] | None,
) -> tuple[tuple[HostNode, ...], ...]:
    if carry is None or (isinstance(carry, (list, tuple)) and not carry):
        return ()
    from mblob.packager.link.carry import given_plugins

    return given_plugins(carry)


def _addons(given: Sequence[str | os.PathLike[str]] | None) -> list[Path]:
    if given is None:
        return []
    paths = items("export_library", "addons", given, "a list of paths", BuildTypeError)
    return [Path(checked_path(a, "addons")) for a in paths]


# What people ask for that is neither a library nor a tar of objects; a linker would write a library
# of that name.
_OBJECTS_AND_SOURCES = (".o", ".a", ".c", ".cc", ".cpp", ".cu", ".h")
_PACKED = (".gz", ".bz2", ".xz", ".zst", ".tgz", ".zip")
_DATA = (".npy", ".npz", ".safetensors", ".params", ".json", ".toml", ".txt", ".py", ".html")
_NOT_ELF = (".dll", ".dylib", ".exe", ".pyd", ".lib")
_OTHER_FILES = (*_OBJECTS_AND_SOURCES, *_PACKED, *_DATA)


def _check_suffix(path: Path, system_lib: bool) -> None:
    if system_lib:
        if path.suffix not in STATIC_SUFFIXES:
            raise BuildError(
                f"{path}: expected .o (one object), .a (an archive) or .tar (objects) for a system library, which is"
                " linked into a program"
            )
    elif path.suffix in _OTHER_FILES:
        name = ".tar" + path.suffix if path.stem.endswith(".tar") else path.suffix
        raise BuildError(
            f"{path}: expected a name that ends in .so (a shared library) or .tar (its objects), found {name}"
            + ("; for static linking add system_lib=True" if path.suffix in (".o", ".a") else "")
        )
