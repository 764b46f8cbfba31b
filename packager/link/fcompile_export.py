"""Exports that a caller's `fcompile` links: we write the files, TVM's names, and it makes the
library.

The steps of `export.py` differ here: sources are not compiled, so there is no `Gathered`, and what
mblob generates is C text, so there is no `LinkLine`. Only if functions must be renamed does mblob
compile the sources.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mblob.binary.archive import is_archive
from mblob.binary.elf_records import EM_ARM, MACHINES
from mblob.compilers import include_flags
from mblob.errors import ToolchainError
from mblob.format.functions_table import Row
from mblob.packager.compile.host_objects import (
    HostFile,
    LinkInput,
    compile_all,
    object_file,
    probe,
    read_input,
    standalone_text,
    write_source,
)
from mblob.packager.errors import BuildError
from mblob.packager.functions import adapters
from mblob.packager.functions.wrappers import source
from mblob.packager.link import carried_plugins, embed, system_lib
from mblob.packager.link.inputs import (
    classify_functions,
    hide_plain_functions,
    refuse_clashes,
    refuse_unlinkable,
    warn_of_functions,
)
from mblob.packager.link.read_back import opened
from mblob.packager.link.request import Request, warn_of_unreadable
from mblob.packager.modules.nodes import HostNode, ObjectNode, SourceNode
from mblob.packager.objects import object_files
from mblob.packager.objects.object_files import ElfTarget
from mblob.packager.objects.rename import unshare
from mblob.source_suffixes import FORMAT_OF

FCompile = Callable[..., Any]

# Machine, bits, byte order and e_flags by architecture of a triple. The flags are the ABI of
# common Linux distributions: EABI 5 with hard floats, RV64GC with lp64d, ELFv2.
_ARCHITECTURES: dict[str, tuple[str, int, str, int]] = {
    "x86_64": ("x86_64", 64, "<", 0), "amd64": ("x86_64", 64, "<", 0),
    **dict.fromkeys(("i386", "i486", "i586", "i686"), ("i386", 32, "<", 0)),
    "aarch64": ("aarch64", 64, "<", 0), "arm64": ("aarch64", 64, "<", 0),
    **dict.fromkeys(("arm", "armv7", "armv7a", "armv7l"), ("arm", 32, "<", 0x5000000)),
    "riscv64": ("riscv", 64, "<", 0x5), "riscv32": ("riscv", 32, "<", 0x5),
    "powerpc64le": ("ppc64", 64, "<", 2), "ppc64le": ("ppc64", 64, "<", 2),
    "s390x": ("s390x", 64, ">", 0), "loongarch64": ("loongarch", 64, "<", 0x43),
}  # fmt: skip
_NUMBERS = {name: number for number, name in MACHINES.items()}
_NO_ELF = ("darwin", "macos", "ios", "windows", "mingw", "msvc", "cygwin", "wasm", "emscripten")


def export(
    request: Request, fcompile: FCompile, output: Path, work: Path, kwargs: dict[str, Any]
) -> Any:
    """Write the inputs of a library into `work`, and call `fcompile(output, files, **kwargs)`.

    Raises:
        As of `export_library`; what `fcompile` raises.
    """
    if getattr(fcompile, "need_system_lib", False) and not request.system_lib:
        raise BuildError(
            f"fcompile {_name(fcompile)} needs a system library (static linking): pass system_lib=True"
        )
    object_format = getattr(fcompile, "object_format", None) or "o"
    rows: list[Row] = []
    if request.system_lib:
        files = _system_files(request, fcompile, object_format, work)
    else:
        files, rows = _files(request, fcompile, object_format, work)
    arguments = dict(kwargs)
    options = list(request.options)
    if any(f.suffix in FORMAT_OF for f in files) and output.suffix != ".tar":
        options += [*include_flags(), *_own_headers(request)]
    if options:
        arguments["options"] = options
    if request.cc is not None:
        arguments["cc"] = request.cc
    made = fcompile(str(output), [*map(str, files)], **arguments)
    if not output.exists():
        raise ToolchainError(
            f"fcompile {_name(fcompile)} returned, but did not write the file that it was given as its first"
            f" argument, {output.name}"
        )
    if not request.system_lib:
        warn_of_functions(request, rows, None, opened(output))
    return made


def _name(fcompile: FCompile) -> str:
    return str(getattr(fcompile, "__name__", type(fcompile).__name__))


def _system_files(
    request: Request, fcompile: FCompile, object_format: str, work: Path
) -> list[Path]:
    """The objects of a system library, which holds the addons too: they are renamed with it."""
    if object_format != "o":
        raise BuildError(
            f"system_lib: fcompile {_name(fcompile)} takes {object_format} files, we write ELF objects"
        )
    return [member.path for member in system_lib.members(request, work)]


def _files(
    request: Request, fcompile: FCompile, object_format: str, work: Path
) -> tuple[list[Path], list[Row]]:
    """The inputs of a shared library: the caller's, host modules, packed functions, packed modules.
    Also the rows of its table of functions."""
    host, known = _host_files(request, object_format, work)
    files = [*request.addons, *host, *_plugin_files(request, object_format, work)]
    functions = classify_functions(request, known, known)
    if functions.adapters:
        made = adapters.generate(request.dialect, functions.adapters)
        files.append(write_source(made.source(), work / f"{made.stem}.c"))
    if rows := functions.rows:
        text = source(functions.wrapped, request.dialect, rows)
        files.append(write_source(text, work / "mblob_functions.c"))
    packed = request.packed_file(work) or _blob_file(request, fcompile, object_format, work)
    if packed is not None:
        files.append(packed)
    return files, rows


def _plugin_files(request: Request, object_format: str, work: Path) -> list[Path]:
    """Objects of the plug-ins to carry: their tables are checked, and all else in them is hidden,
    before the link."""
    if not request.carry:
        return []
    if object_format != "o":
        raise BuildError(
            f"carry: fcompile= takes {object_format} files, a plug-in is linked as an ELF object"
        )
    tools = request.tools()
    made = carried_plugins.compile_plugins(tools, request.carry, request.options, work)
    plugins = carried_plugins.close_plugins(made, work, request.type_keys(), [])
    carried_plugins.check_needs(plugins, [])
    warn_of_unreadable(request, plugins.plugins)
    return [f.path for f, _ in plugins.files]


def _own_headers(request: Request) -> list[str]:
    """Options for the folders in which sources that we copied may have their headers."""
    nodes = [n for n in request.host if isinstance(n, SourceNode)]
    folders = [n.code.absolute().parent for n in nodes if isinstance(n.code, Path)]
    return [f"-I{folder}" for folder in dict.fromkeys(folders)]


def _host_files(
    request: Request, object_format: str, work: Path
) -> tuple[list[Path], Sequence[LinkInput]]:
    """One file per host module, `lib<i>.<ext>` as TVM names them: sources as sources. Also the
    objects among them, and what is in them."""
    for node in request.host:
        if isinstance(node, SourceNode) and node.declared.names:
            raise BuildError(
                f"functions: fcompile= compiles the source, so the types of {node.declared.names[0]} are unknown here;"
                " write its prototype, in types of C and without macros"
            )
    if any(w.takes_name for w in request.wrapped()):
        return _renamed_objects(request, work)
    files = [_host_file(node, i, object_format, work) for i, node in enumerate(request.host)]
    known = [
        read_input(HostFile(f, node.label))
        for f, node in zip(files, request.host)
        if f.suffix in (".o", ".a")
    ]
    _refuse(request, known, has_all=len(known) == len(files))
    return files, known


def _refuse(request: Request, known: Sequence[LinkInput], *, has_all: bool) -> None:
    """Refuse what every export refuses of objects, with these omissions.

    * Whether an object is for another machine: only `fcompile` knows which machine it links for.
    * Functions that no object defines, while there are sources: only the compiler of `fcompile` sees
      what sources define.
    * Addons and plug-ins: addons go to `fcompile` as they are, in any format that it takes; plug-ins are
      checked by `carry`.
    """
    refuse_unlinkable(request, known, known, has_all=has_all)
    refuse_clashes(request, known)


def _host_file(node: HostNode, i: int, object_format: str, work: Path) -> Path:
    if isinstance(node, SourceNode):
        name = f"lib{i}.{node.fmt}"
        return write_source(standalone_text(node, name), work / name)
    assert isinstance(node, ObjectNode)
    source = object_file(node, work / f"lib{i}.bytes").path
    copy = work / f"lib{i}.{'a' if is_archive(source) else object_format}"
    shutil.copyfile(source, copy)
    unshare(copy, copy, copy.name)
    return copy


def _renamed_objects(request: Request, work: Path) -> tuple[list[Path], Sequence[LinkInput]]:
    """Objects instead of sources: a function whose packed function takes its name is renamed in the
    object."""
    known = compile_all(request.tools(), request.host, None, request.options, work)
    _refuse(request, known, has_all=True)
    return [f.path for f, _ in hide_plain_functions(request.wrapped(), known, work)], known


# -- the blob --------------------------------------------------------------------------------------


def _blob_file(request: Request, fcompile: FCompile, object_format: str, work: Path) -> Path | None:
    """`devc.o` or `devc.c`, None if there is nothing to pack."""
    triple = _triple(request, fcompile)
    request.triple.tell(lambda: triple or "")
    if not request.plan.is_needed:
        return None
    no_elf = object_format != "o" or any(word in (triple or "") for word in _NO_ELF)
    machine = None if no_elf or request.embed == "c" else _machine(request, triple, work)
    if machine is None:
        if request.embed == "object":
            raise BuildError(
                f"embed='object': {triple or object_format} is no ELF target that we know; use embed='c'"
            )
        return embed.write_c(request, work)[0]
    made, size = embed.write_object(request, work, machine)
    embed.check_object(request, made, size)
    return made


def _triple(request: Request, fcompile: FCompile) -> str | None:
    if request.target:
        return request.target
    ask = getattr(fcompile, "get_target_triple", None)
    triple = ask() if callable(ask) else ask
    return str(triple) if triple else None


def _machine(request: Request, triple: str | None, work: Path) -> ElfTarget | None:
    """The target of the library: that of its objects, else of the triple, else of this machine's
    compiler."""
    for node in request.host:
        if isinstance(node, ObjectNode):
            found = object_files.read(
                object_file(node, work / "machine.bytes").path, node.label
            ).machine
            if found is not None:
                return found
    if triple:
        known = _ARCHITECTURES.get(triple.split("-", 1)[0])
        if known is None:
            return None
        name, bits, byte_order, e_flags = known
        if name == MACHINES[EM_ARM] and triple.endswith("hf"):
            e_flags |= 0x400  # EF_ARM_ABI_FLOAT_HARD
        return ElfTarget(
            bits, byte_order, _NUMBERS[name], e_flags, os_abi=0, properties=b"", name=name
        )
    return probe(request.tools(), request.options, work)
