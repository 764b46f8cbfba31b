"""From host modules to object files: which compiler and options each source gets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mblob.elf import ElfFile
from packager.errors import BuildError
from packager.nodes import HostNode, ObjectNode, SourceNode
from packager.objects import Machine, machine_of
from packager.paths import include_dir
from packager.toolchain import Command, Job, Toolchain, compile_options, run_all

SUFFIXES = {".c": "c", ".cc": "cc", ".cxx": "cc", ".cpp": "cpp", ".cu": "cu"}
TVM_C_HEAD = "// tvm target: c"
_VECTOR = re.compile(r"\b(?:u?int(?:8|16|32|64)?(?:_t)?|float|double|half)(?:2|3|4|8|16)\s*[(*)]")


@dataclass(frozen=True)
class HostFile:
    """An input of the link.

    Attributes:
        path: the object or archive.
        label: what messages call it.
        cxx: needs the C++ library.
        cuda: needs the CUDA runtime.
        own: made here, so it may be rewritten.
        generated: the packed forms, which have their final names.
    """

    path: Path
    label: str
    cxx: bool = False
    cuda: bool = False
    own: bool = True
    generated: bool = False


def language(node: SourceNode) -> str:
    """Language a source is compiled as: "c", "c++" or "cuda"."""
    if node.fmt == "cu":
        return "cuda"
    if node.fmt in ("cc", "cpp"):
        return "c++"
    # TVM's C generator writes vectorized loops with OpenCL's vector types and constructors, `float4(a, b, c, d)`.
    # No C compiler takes that; as C++, with our vector_types.h, it means what TVM meant.
    code = node.text()
    if code.startswith(TVM_C_HEAD) and _VECTOR.search(code):
        return "c++"
    return "c"


def compile_command(
    tools: Toolchain, node: SourceNode, source: Path, output: str, options: Sequence[str], work: Path
) -> Command:
    """The command that compiles one source into `output`, a name in `work`."""
    kind = language(node)
    own = compile_options((*options, *node.options))
    include = f"-I{include_dir()}"
    if kind == "cuda":
        return (*tools.nvcc, "-O2", "-Xcompiler", "-fPIC", include, *own, "-c", str(source), "-o", output)
    # Paths of this machine must not reach the output: same inputs, same bytes.
    maps = [f"-ffile-prefix-map={work}=.", f"-ffile-prefix-map={source.parent}=."]
    compiler = tools.cxx if kind == "c++" else tools.cc
    plain = ["-fno-exceptions", "-fno-rtti"] if kind == "c++" and node.fmt == "c" else []
    head = (*compiler, "-O2", "-fPIC", *maps, *plain, include)
    return (*head, *own, "-x", kind, "-c", str(source), "-o", output)


def compile_all(
    tools: Toolchain, nodes: Sequence[HostNode], wrappers: str | None, options: Sequence[str], work: Path
) -> list[HostFile]:
    """Objects of all host modules, in their order, the packed forms last.

    Args:
        wrappers: C text of the packed forms and the function table, None if there are none.
        options: the caller's options for every compilation.
        work: folder for what is written.

    Raises:
        ToolchainError: a compiler is missing or refuses a source.
    """
    jobs: list[Job] = []
    files: list[HostFile] = []
    for i, node in enumerate(nodes):
        if isinstance(node, SourceNode):
            name = f"lib{i}.{node.fmt}"
            if isinstance(node.code, Path):
                source, label = node.code.absolute(), node.label
            else:
                source, label = write_source(node, work / name), f"{name} (a source text)"
            jobs.append(Job(label, compile_command(tools, node, source, f"lib{i}.o", options, work)))
            # TVM's C needs a C++ compiler at most, never the C++ library.
            files.append(HostFile(work / f"lib{i}.o", label, node.fmt != "c", node.fmt == "cu"))
        elif isinstance(node, ObjectNode):
            files.append(object_file(node, work / f"lib{i}.o"))
    if wrappers is not None:
        node = SourceNode(wrappers, "c")
        source = write_source(node, work / "mblob_functions.c")
        label = "the packed forms (mblob_functions.c)"
        command = compile_command(tools, node, source, "mblob_functions.o", machine_options(options), work)
        jobs.append(Job(label, command))
        files.append(HostFile(work / "mblob_functions.o", label, generated=True))
    run_all(jobs, work)
    return files


def machine_options(options: Sequence[str]) -> list[str]:
    """Those of the caller's options that decide the ABI: they apply to generated code too, warnings do not."""
    prefixes = (
        "-m",
        "--target=",
        "--sysroot",
        "-isysroot",
        "-g",
        "-flto",
        "-fsanitize",
        "-fcf-protection",
        "-O",
    )
    return [o for o in options if o.startswith(prefixes)]


def write_source(node: SourceNode, path: Path) -> Path:
    """Write a source text to `path`, byte for byte."""
    path.write_bytes(node.text().encode(errors="surrogateescape"))
    return path


def object_file(node: ObjectNode, path: Path) -> HostFile:
    """The file of an object module; bytes are written to `path`."""
    if isinstance(node.content, Path):
        node.content.stat()  # a file that went away since is an OSError here, not the linker's riddle
        return HostFile(node.content.absolute(), node.label, own=False)
    path.write_bytes(node.content)
    return HostFile(path, node.label)


def probe(tools: Toolchain, options: Sequence[str], work: Path) -> Machine:
    """The machine the compiler compiles for, seen from what it makes of an empty file.

    Raises:
        ToolchainError: it does not compile. BuildError: it makes no ELF objects.
    """
    (work / "empty.c").write_text("")
    command = (*tools.cc, *machine_options(options), "-fPIC", "-c", "empty.c", "-o", "empty.o")
    run_all([Job("an empty C file", command)], work)
    data = (work / "empty.o").read_bytes()
    if data[:4] != b"\x7fELF":
        raise BuildError(f"{' '.join(tools.cc)} makes no ELF objects; pass fcompile= and embed='c' for other formats")
    return machine_of(ElfFile(memoryview(data), "empty.o"))
