"""Command lines of compilations: which compiler a source gets, and with which options."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from mblob.paths import include_dir
from packager.nodes import SourceNode
from packager.options import compile_options, options_behind_preprocessor
from packager.processes import Command, Job
from packager.toolchain import Toolchain


def language(node: SourceNode) -> str:
    """Language a source is compiled as: "c", "c++" or "cuda"."""
    if node.fmt == "cu":
        return "cuda"
    return "c++" if node.fmt in ("cc", "cpp") else "c"


_ARCHITECTURES = ("-gencode", "--generate-code", "-arch", "--gpu-architecture", "-code", "--gpu-code")


def compile_job(
    tools: Toolchain, node: SourceNode, label: str, command: Command, options: Sequence[str],
    words: Callable[[str], str] = str,
) -> Job:  # fmt: skip
    """The job of a command that compiles a source; what of it may be kept depends on its compiler."""
    kind = language(node)
    if kind != "cuda":
        return Job(label, command, words, tools.cxx if kind == "c++" else tools.cc)
    # nvcc preprocesses for the device and for the host; for more than one device it does so more often.
    one = not any(o.startswith(_ARCHITECTURES) for o in (*options, *node.options))
    return Job(label, command, words, tools.nvcc if one else (), ((), ("-U__CUDA_ARCH__",)))


_OWN_CONTEXT = re.compile(r"\bvoid\s*\*\s*__tvm_module_ctx\s*(?:=|;)")
_OLD_DEVICE = re.compile(r"\(\(?(?:TVMArray|DLTensor)\s*\*\)\s*\w+\)\[[^]]*\]\.ctx\.device_")
_OF_TVM = re.compile(r"^#define TVM_EXPORTS$", re.MULTILINE)


def _memory_model(node: SourceNode) -> tuple[str, ...]:
    """Options for C that TVM writes: there one buffer holds values of several types, one after the other."""
    return ("-fno-strict-aliasing",) if _OF_TVM.search(node.text()) else ()


def source_macros(node: SourceNode) -> list[str]:
    """Macros that our headers need to know about a source of TVM's generator.

    In C++ whether it defines `__tvm_module_ctx`; of 0.7 and before, that it calls the device of a DLTensor `ctx`.
    """
    if language(node) == "cuda":
        return []
    text = node.text()
    made = ["MBLOB_DLTENSOR_CTX"] if _OLD_DEVICE.search(text) else []
    if language(node) == "c++":
        lines = (line for line in text.splitlines() if _OWN_CONTEXT.search(line))
        made += ["MBLOB_OWN_MODULE_CTX"] if any("extern" not in line or "=" in line for line in lines) else []
    return made


def compile_command(
    tools: Toolchain, node: SourceNode, source: Path, output: str, options: Sequence[str], work: Path,
    describe: bool = False,
) -> Command:  # fmt: skip
    """The command that compiles one source into `output`, a name in `work`.

    Args:
        describe: with debug information, unless the caller's options decide about that.
    """
    kind = language(node)
    own = compile_options((*options, *node.options))
    if kind == "cuda":
        return (*tools.nvcc, "-O2", "-Xcompiler", "-fPIC", *_headers(), *own, "-c", str(source), "-o", output)
    head = _head(tools, kind, source, work, describe)
    macros = [f"-D{name}" for name in source_macros(node)]
    return (*head, *_memory_model(node), *_headers(), *macros, *own, "-x", kind, "-c", str(source), "-o", output)


def preprocess_command(
    tools: Toolchain, node: SourceNode, source: Path, output: str, options: Sequence[str], work: Path,
    first: Sequence[str],
) -> Command:  # fmt: skip
    """The command that preprocesses a C or C++ source into `output`.

    Args:
        first: options before all others.
    """
    kind = language(node)
    own = compile_options((*options, *node.options))
    head = _head(tools, kind, source, work, describe=False)
    macros = [f"-D{name}" for name in source_macros(node)]
    return (*head, *first, *_headers(), *macros, *own, "-x", kind, "-E", str(source), "-o", output)


def compile_preprocessed_command(
    tools: Toolchain, node: SourceNode, source: Path, preprocessed: Path, output: str, options: Sequence[str],
    work: Path, describe: bool = False,
) -> Command:  # fmt: skip
    """The command that compiles what became of `source` behind `preprocess_command`."""
    kind = language(node)
    own = options_behind_preprocessor(compile_options((*options, *node.options)))
    head = _head(tools, kind, source, work, describe)
    stage = "c++-cpp-output" if kind == "c++" else "cpp-output"
    # Functions that are always inlined take vectors; whether those have registers changes nothing outside.
    return (*head, *_memory_model(node), "-Wno-psabi", *own, "-x", stage, "-c", str(preprocessed), "-o", output)


def _headers() -> tuple[str, ...]:
    """Our headers, in the mode for kernels; `-DMBLOB_HOST` among the caller's options turns it off."""
    return (f"-I{include_dir()}", "-DMBLOB_KERNEL")


def _head(tools: Toolchain, kind: str, source: Path, work: Path, describe: bool) -> Command:
    # Paths of this machine must not reach the output: same inputs, same bytes.
    maps = [f"-ffile-prefix-map={folder}=." for folder in (work, Path.cwd(), source.parent, include_dir())]
    debug = ["-g", "-fno-var-tracking"] if describe else []  # types, not where variables are: half the time
    compiler = tools.cxx if kind == "c++" else tools.cc
    return (*compiler, "-O2", "-fPIC", *debug, *maps)
