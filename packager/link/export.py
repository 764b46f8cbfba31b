"""`export_library`: a module tree becomes a file. This file has the steps of an export in their order;
each is a function of another file.

1. Choose the dialect, if the caller names none: `dialect_of` in `request.py`. Check the arguments,
   choose the order of the modules in the blob, check the tree and the output: `request_of` and
   `check_request` in `request.py`, `plan_blob` in `packager/write/blob_stream.py`.
2. Start to copy a large blob: `started` in `background_copy.py`.
3. Compile the sources; and beside them the packed functions of declared functions, with the table of
   functions and the note that announces the table. Read all objects, make prototypes of debug information,
   refuse what cannot be linked: `gather` in `inputs.py`, with `packager/compile/host_objects.py`,
   `packager/functions/wrappers.py`, `packager/functions/source_prototypes.py` and
   `packager/functions/prototype_check.py`.
4. Classify functions as packed, plain C, or of the other dialect: `classify_functions` in `inputs.py`, with
   `packager/functions/packed_or_plain.py` and `packager/functions/adapters.py`.
5. Compile what the objects turn out to need: packed functions of prototypes from debug information (what
   they call was compiled before: `packager/functions/checks.py`), adapters, slots, and another table if
   functions without a prototype add rows to it. Give functions their
   final names: `make_link_line` in `inputs.py`, with `packager/functions/adapters.py` and
   `packager/functions/slot_shims.py`.
   Of a standalone library, link once to see what it runs, and compile its runtime and its interface:
   `packager/standalone/parts.py`.
6. Choose the way of `embed=`; link with a placeholder for the blob and the note that announces its index:
   `link` in `linking.py`, with `packager/write/elf_writer.py`.
7. Write the blob in that way: `grow` in `packager/write/grow.py`, `append` and others in `embed.py`.
8. Read the library back, check it: `check` in `read_back.py`.
9. Rename the library: `replacing` in `mblob/temporary.py`.

`system_lib.py` and `fcompile_export.py` have steps of their own for 5 to 8.

The tree of a loaded library goes another way: `mblob.repack.export_loaded` writes it without a compiler.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from mblob.errors import ArgumentTypeError, did_you_mean
from mblob.interrupts import DeferredSignals
from mblob.module import Module, is_linked
from mblob.packager.errors import BuildTypeError
from mblob.packager.link import inputs
from mblob.packager.link.request import (
    Request,
    check_format,
    check_request,
    dialect_of,
    request_of,
)
from mblob.packager.path_arguments import output_path, workspace
from mblob.packager.write.dialects import check_choices
from mblob.packager.write.file_sink import old_library
from mblob.temporary import replacing

if TYPE_CHECKING:
    from typing import TypeVar

    from typing_extensions import Unpack

    from mblob.packager.link.background_copy import BackgroundCopy
    from mblob.packager.link.inputs import LinkLine
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
    dialect: Dialect | None = None,
    embed: Embed = "auto",
    index: bool | None = None,
    digest: Digest | None = None,
    cc: str | Sequence[str] | None = None,
    target: str | None = None,
    options: str | Sequence[str] | None = None,
    system_lib: bool = False,
    prefix: str = "",
    carry: Sequence[str | os.PathLike[str] | Module] | None = None,
    standalone: bool = False,
    header: str | os.PathLike[str] | None = None,
    shapes: Mapping[str, str] | None = None,
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
    dialect: Dialect | None = None,
    embed: Embed = "auto",
    index: bool | None = None,
    digest: Digest | None = None,
    cc: str | Sequence[str] | None = None,
    target: str | None = None,
    options: str | Sequence[str] | None = None,
    system_lib: bool = False,
    prefix: str = "",
    carry: Sequence[str | os.PathLike[str] | Module] | None = None,
    standalone: bool = False,
    header: str | os.PathLike[str] | None = None,
    shapes: Mapping[str, str] | None = None,
    reuse: bool = True,
    **kwargs: Any,
) -> Any:
    """Pack a module and everything that it imports into one shared library, or into objects for
    static linking.

    Host code is compiled and linked, and all other modules are written into the library. The file
    appears when it is complete, and mblob has read back the library, or the object with the
    modules. mblob does not read what `fcompile` makes, nor C text (`embed="c"`) that somebody else
    compiles. After a failure the old file remains. The same inputs give the same bytes.

    The tree of a loaded library is written without a compiler: its code as it is, what its modules
    have become, and the modules that they import now, as `mblob.add` adds them. Host code among
    these is compiled with `cc`, `target` and `options`, and joins the code of the library.
    `dialect`, `index` and `digest` are then by default those of the library. With another `dialect`
    it is converted, as `mblob.convert` does it. Other arguments than these and `reuse` are errors.

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
        dialect: "classic", for TVM 0.5 - 0.20, or "ffi", for TVM 0.22 and later and for tvm_ffi. By
            default that of the inputs: of objects that TVM compiled or that define functions of the
            ffi dialect (`__tvm_ffi_NAME`), of sources of such objects, of the `.tar` of a library, of graphs
            (classic), of programs of Relax; classic if there are none. Inputs of both dialects need the argument.
        embed: "grow" (link a placeholder, then stream the modules in), "object" (an object file on
            the link line), "c" (C text), "append" (behind the linked file). "auto" is grow, but
            object with `fcompile`, for `.tar`, and for a system library, and c for a target without
            ELF. grow and append are for libraries that mblob links itself.
        index: write the index behind the modules (default). False writes only TVM's bytes, which do
            not say where the payload of an unknown type key ends. TVM opens such a library if it has a
            loader; mblob does not.
        digest: the digest of each payload in the index: "crc32" (default), "sha256" or "none".
        cc: the compiler command; by default $CC, cc, gcc or clang. A launcher may stand before it:
            "ccache gcc".
        target: a triple to build for.
        options: options for every compilation and for the link.
        system_lib: write a library to link into a program. `mblob_system_lib`, `mblob.system_lib`
            and TVM's `runtime.SystemLib` find it there. All its symbols are hidden, so that the
            program does not export them.
        prefix: prefix of all symbols of a system library. With different prefixes, a program can
            contain several, and finds each by its prefix. Of a standalone library, prefix of the
            functions of its C interface; by default the stem of `file_name`.
        carry: plug-ins (mblob/plugin.h) that run modules of this library. mblob links them into the
            library, and exports only their tables. Each is a C or C++ source, an object, an archive
            (of which only the needed members are linked), a module of host code with its imports,
            or the name of a plug-in that comes with mblob. mblob compiles the sources itself, even
            with `fcompile`, with `cc`, `target` and `options`.
        standalone: link the runtime that the modules need into the library, hidden, and a C interface
            of four functions (docs/howto/standalone.md). A program then runs its one model, or its
            one function with a prototype, without mblob.
        header: write the header of that interface here.
        shapes: type and shape of inputs and outputs of a standalone library, where it does not tell
            them: {"data": "float32[1, 3]"}.
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
            the same name; or a function has the name of an attribute of modules, or of a function that a
            model has itself.
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
    _check_call(mod, fcompile, kwargs)
    path = output_path(file_name, fcompile is not None, system_lib)
    if is_linked(mod):
        check_choices(dialect=dialect or "classic", embed=embed, digest=digest or "crc32")
        others = {
            "embed": "" if embed == "auto" else embed,
            "cc": cc,
            "target": target,
            "options": options,
            "system_lib": system_lib,
            "prefix": prefix,
            "carry": carry,
            "standalone": standalone,
            "header": header,
            "shapes": shapes,
            "fcompile": fcompile,
            "fpack_imports": fpack_imports,
            "addons": addons,
            "workspace_dir": workspace_dir,
        }
        from mblob import repack

        repack.export_loaded(
            mod, path, dialect=dialect, index=index, digest=digest, reuse=reuse, others=others
        )
        return None
    asked = None
    if standalone or header is not None or shapes is not None:
        from mblob.packager.standalone.parts import asked_of

        others = {
            "system_lib": system_lib, "fcompile": fcompile, "fpack_imports": fpack_imports,
            "carry": carry, "index": index is False,
        }  # fmt: skip
        asked, prefix = asked_of(standalone, path, prefix, header, shapes, others), ""
    request = request_of(
        mod,
        dialect=dialect_of(mod, cc, target, options) if dialect is None else dialect,
        embed=embed,
        index=index is None or index,
        digest="crc32" if digest is None else digest,
        cc=cc,
        target=target,
        options=options,
        system_lib=system_lib,
        prefix=prefix,
        fpack_imports=fpack_imports,
        addons=addons,
        carry=carry,
    )._replace(standalone=asked)
    check_request(request, path, fcompile is not None)
    with (
        DeferredSignals(),
        replacing(path) as temporary,  # which gets the name of `path` when all is done
        workspace(workspace_dir) as work,
        old_library(path, reuse) as old,
    ):
        request = request._replace(old=old)
        made = None
        if fcompile is not None:
            from mblob.packager.link import fcompile_export

            made = fcompile_export.export(request, fcompile, temporary, work, kwargs)
        elif system_lib:
            from mblob.packager.link import system_lib as system_library

            system_library.export(request, temporary, work)
        elif path.suffix == ".tar":
            _export_objects(request, temporary, work)
        else:
            _export_shared(request, temporary, work)
            if asked is not None:
                asked.write_header(work)
        check_format(path, temporary)
        return made


def _check_call(mod: Any, fcompile: Any, kwargs: dict[str, Any]) -> None:
    if not isinstance(mod, Module):
        raise BuildTypeError(f"export_library: expected a Module, found {type(mod).__name__}")
    if kwargs and fcompile is None:
        unknown, known = min(kwargs), export_library.__annotations__.keys() - {"return"}
        raise ArgumentTypeError(
            f"export_library: unknown argument {unknown!r} (only an fcompile takes more)"
            f"{did_you_mean(unknown, known)}"
        )
    if fcompile is not None and not callable(fcompile):
        raise BuildTypeError(
            f"fcompile: expected a function called as fcompile(file_name, files, **kwargs), found {fcompile!r};"
            " a compiler to use is named by cc="
        )


# -- the steps -------------------------------------------------------------------------------------


def _export_shared(request: Request, library: Path, work: Path) -> None:
    """Write a shared library that mblob links itself."""
    with _early_copy(request, library) as copy:
        # Compile the host modules and the packed functions with their table, read all objects, and
        # refuse what cannot be linked.
        gathered = inputs.gather(request, work, with_table=True)
        request = gathered.request
        # Classify how each function is called: as a packed, a plain C, or another dialect's function.
        functions = inputs.classify_functions(request, gathered.objects, gathered.host)
        # Compile what the objects turn out to need: adapters, slots, a longer table. Rename what makes
        # room for packed functions.
        line = inputs.make_link_line(request, gathered, functions, work)

        from mblob.packager.link import linking  # imported while compilers ran

        if request.standalone is not None:
            request, line = _with_runtime(request, line, work)
        # Link with a placeholder, and write the blob in its place; or as `embed` says.
        blob_size = linking.link(request, line, library, work, copy)
        from mblob.packager.link import read_back

        # Read the library back, and check it.
        read_back.check(request, line, library, blob_size)


def _with_runtime(request: Request, line: LinkLine, work: Path) -> tuple[Request, LinkLine]:
    """The link of a standalone library: the library is linked without its runtime, to tell what that has
    to be."""
    from mblob.packager.link import linking
    from mblob.packager.standalone.parts import link_options, make_parts

    assert request.standalone is not None
    plain = work / "plain.so"
    linking.link(request, line, plain, work, None)
    files = make_parts(
        plain, request.standalone, line.tools, request.options, work, catches=line.needs_cxx
    )
    plain.unlink()
    line = line._replace(files=[*line.files, *files], objects=[*line.objects, *files])
    options = (*request.options, *link_options(catches=line.needs_cxx))
    return request._replace(options=options), line


def _early_copy(request: Request, library: Path) -> AbstractContextManager[BackgroundCopy | None]:
    """A large blob is copied while compilers run."""
    if not request.is_copied_early:
        return nullcontext()
    from mblob.packager.link.background_copy import started

    return started(library, request)


def _export_objects(request: Request, tar: Path, work: Path) -> None:
    """Write a tar of objects that make the library when they are linked with `-shared`.

    Sources are compiled: whoever links the objects later needs neither our headers nor the options.
    The table of functions is an object of its own, for who links the tar again leaves it out.
    """
    gathered = inputs.gather(request, work)
    request = gathered.request
    functions = inputs.classify_functions(request, gathered.objects, gathered.host)
    line = inputs.make_link_line(request, gathered, functions, work)
    inputs.warn_of_functions(request, line.rows, line.objects)
    from mblob.packager.link import linking

    linking.write_objects(request, line, tar, work)
