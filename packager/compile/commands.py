"""Command lines of compilations: which compiler a source gets, and with which options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from mblob.compilers import include_flags
from mblob.installed import include_dir
from mblob.packager.compile.processes import Command, Job
from mblob.packager.compile.toolchain import Toolchain
from mblob.packager.modules.nodes import SourceNode
from mblob.packager.options import compile_options, options_behind_preprocessor
from mblob.source_suffixes import LANGUAGE_OF, OF_C


def language(node: SourceNode) -> str:
    """Language a source is compiled as: "c", "c++", "cuda" or "fortran"."""
    return LANGUAGE_OF[node.fmt]


_OWN_CONTEXT = re.compile(r"\bvoid\s*\*\s*__tvm_module_ctx\s*(?:=|;)")
_OLD_DEVICE = re.compile(r"\(\(?(?:TVMArray|DLTensor)\s*\*\)\s*\w+\)\[[^]]*\]\.ctx\.device_")
_OF_TVM = re.compile(r"^#define TVM_EXPORTS$", re.MULTILINE)


def _memory_model(node: SourceNode) -> tuple[str, ...]:
    """Options for C that TVM writes: there one buffer holds values of several types, one after the
    other."""
    return ("-fno-strict-aliasing",) if _OF_TVM.search(node.text()) else ()


def source_macros(node: SourceNode) -> list[str]:
    """Macros that our headers need to know about a source of TVM's generator.

    In C++ whether it defines `__tvm_module_ctx`; of 0.7 and before, that it calls the device of a
    DLTensor `ctx`.
    """
    if language(node) not in OF_C:
        return []
    text = node.text()
    made = ["MBLOB_DLTENSOR_CTX"] if _OLD_DEVICE.search(text) else []
    if language(node) == "c++":
        lines = (line for line in text.splitlines() if _OWN_CONTEXT.search(line))
        made += (
            ["MBLOB_OWN_MODULE_CTX"]
            if any("extern" not in line or "=" in line for line in lines)
            else []
        )
    return made


def compile_command(
    tools: Toolchain,
    node: SourceNode,
    source: Path,
    output: str,
    options: Sequence[str],
    work: Path,
) -> Command:
    """The command that compiles one source into `output`, a name in `work`."""
    kind = language(node)
    own = compile_options((*options, *node.options))
    if kind == "cuda":
        return (
            *tools.nvcc,
            "-O2",
            "-Xcompiler",
            "-fPIC",
            *_headers(),
            *own,
            "-c",
            str(source),
            "-o",
            output,
        )
    if kind == "fortran":
        head: Sequence[str] = (*tools.fc, "-O2", "-fPIC")
        if tools.is_gfortran:  # others know few options of gcc
            head = (*_head(tools, kind, source, work), *TREE)
        return (*head, *own, *_own_modules(), "-c", str(source), "-o", output)
    return _c_command(tools, node, source, output, options, work, _memory_model(node), "-c")


def _own_modules() -> tuple[str, ...]:
    """The folder in which the caller's Fortran compiler would find modules, as it works in another one."""
    return (f"-I{Path.cwd()}",)


def _c_command(
    tools: Toolchain,
    node: SourceNode,
    source: Path,
    output: str,
    options: Sequence[str],
    work: Path,
    first: Sequence[str],
    mode: str,
) -> Command:
    """The command of a compiler for a C or C++ source: `mode` says how far it goes, `first` are
    options before all others."""
    kind = language(node)
    own = compile_options((*options, *node.options))
    head = _head(tools, kind, source, work)
    macros = [f"-D{name}" for name in source_macros(node)]
    words = (*head, *first, *_headers(), *macros, *own, "-x", kind)
    return (*words, mode, str(source), "-o", output)


def preprocess_command(
    tools: Toolchain,
    node: SourceNode,
    source: Path,
    output: str,
    options: Sequence[str],
    work: Path,
    first: Sequence[str],
) -> Command:
    """The command that preprocesses a C or C++ source into `output`.

    Args:
        first: options before all others.
    """
    return _c_command(tools, node, source, output, options, work, first, "-E")


def dependency_command(
    tools: Toolchain,
    node: SourceNode,
    source: Path,
    output: str,
    options: Sequence[str],
    work: Path,
) -> Command:
    """The command that writes the rule of make for one source: which files it includes, without
    those of the system."""
    own = compile_options((*options, *node.options))
    if language(node) == "cuda":
        return (*tools.nvcc, *_headers(), *own, "-MM", str(source), "-o", output)
    if language(node) == "fortran":
        # Behind its -o is always what became of the source.
        return (
            *tools.fc,
            *own,
            *_own_modules(),
            "-cpp",
            "-E",
            "-MM",
            "-MF",
            output,
            str(source),
            "-o",
            f"{output}.i",
        )
    return preprocess_command(tools, node, source, output, options, work, ("-MM",))


def compile_preprocessed_command(
    tools: Toolchain,
    node: SourceNode,
    source: Path,
    preprocessed: Path,
    output: str,
    options: Sequence[str],
    work: Path,
) -> Command:
    """The command that compiles what became of `source` behind `preprocess_command`."""
    kind = language(node)
    own = options_behind_preprocessor(compile_options((*options, *node.options)))
    head = _head(tools, kind, source, work)
    stage = "c++-cpp-output" if kind == "c++" else "cpp-output"
    # Functions that are always inlined take vectors; whether those have registers changes nothing
    # outside.
    return (
        *head,
        *_memory_model(node),
        "-Wno-psabi",
        *own,
        "-x",
        stage,
        "-c",
        str(preprocessed),
        "-o",
        output,
    )


# gfortran prints what it read: what `mblob.packager.compile.fortran_tree` reads.
TREE = ("-fdump-fortran-original",)


def _headers() -> tuple[str, ...]:
    """Our headers, in the mode for kernels; `-DMBLOB_HOST` among the caller's options turns it
    off."""
    return (*include_flags(), "-DMBLOB_KERNEL")


def _head(tools: Toolchain, kind: str, source: Path, work: Path) -> Command:
    # Paths of this machine must not reach the output: same inputs, same bytes. The last one that
    # fits counts: of folders in each other, the inner one.
    folders = {str(folder) for folder in (work, Path.cwd(), source.parent, include_dir())}
    maps = [
        f"-ffile-prefix-map={folder}=." for folder in sorted(folders, key=lambda f: (len(f), f))
    ]
    # The assembler starts with the compiler. gfortran prints what it read, into the pipe, too.
    pipe = () if kind == "fortran" else ("-pipe",)
    return (*tools.compiler(kind), "-O2", "-fPIC", *pipe, *maps, _seed(source.name))


def _seed(name: str) -> str:
    """The option with the seed for names of gcc that have to differ between objects, such as those
    of sections for link-time optimization: by default random numbers."""
    return f"-frandom-seed={name}"


def options_of_folder(work: Path, name: str) -> Command:
    """Options that keep a temporary folder out of what is compiled in it: of a source that we wrote, and of
    what gcc compiles at the link, which has those of each source, and a folder of its own.

    Args:
        name: unlike that of any other compilation of the link.
    """
    # ccache makes paths relative to the folder, which begin so.
    return (f"-ffile-prefix-map={work}=.", f"-ffile-prefix-map=../{work.name}=.", _seed(name))


# -- debug information -----------------------------------------------------------------------------

_NO_DEBUG = ("-g0", "-ggdb0")
_NOT_DEBUG = ("-gcc-", "-gen-")  # of clang
# What only says how debug information looks, if there is any.
_MANNERS = (
    "-gz", "-gno-", "-gsplit-dwarf", "-gdwarf32", "-gdwarf64", "-gdwarf-aranges", "-gcolumn-info", "-gstrict-dwarf",
    "-grecord-", "-gpubnames", "-ggnu-pubnames", "-gas-loc", "-ginline-points", "-gstatement-frontiers",
    "-ginternal-reset", "-gvariable-location", "-gdescribe-dies", "-gembed-source", "-gsimple-template", "-gsrc-hash",
    "-gtemplate-alias", "-gkey-instructions",
)  # fmt: skip
_TYPES_APART = "-fdebug-types-section"  # units of types, which are not read
# The C that mblob writes. The command of the compiler may name another one (`gcc -std=c89`); the last one counts.
STANDARD = ("-std=gnu11", "-Wno-pedantic")
LTO = ("-flto", "-fno-lto", "-ffat-lto-objects", "-fno-fat-lto-objects")


def keeps_debug(words: Sequence[str]) -> bool:
    """True if the result of a compilation has to stay as its options say.

    They ask for debug information, which belongs into the library then, or for link-time
    optimization.
    """
    debug = lto = False
    for word in words:
        if word in _NO_DEBUG:
            debug = False
        elif word.startswith("-g") and not word.startswith((*_MANNERS, *_NOT_DEBUG)):
            debug = True
        elif word.startswith("-flto") or word == "-fno-lto":
            lto = word != "-fno-lto"
    return debug or lto


def describing(job: Job, output: str | None = None) -> Job:
    """The compilation of a job with debug information that tells types, whatever its options say
    about that.

    Options of link-time optimization are left out too: with them the compiler keeps the types to
    itself.

    Args:
        output: what it writes; by default what the job does.
    """
    count = len(job.compiler)
    compiler = _undecided(job.compiler)
    words = _undecided(job.command[count:])
    # Types, not where variables are: half the time. Of Fortran, places tell how arguments are passed.
    more = ["-g"] if job.is_fortran else ["-g", "-fno-var-tracking"]
    if output is not None:
        words[len(words) - words[::-1].index("-o")] = output
        more.append("-fno-lto")  # which the compiler's configuration may ask for
    return job._replace(command=(*compiler, *words, *more), compiler=tuple(compiler))


def _undecided(words: Sequence[str]) -> list[str]:
    """The words without those that decide about debug information and link-time optimization."""
    kept: list[str] = []
    for before, word in zip(("", *words), words):
        decides = word.startswith(("-g", _TYPES_APART, *LTO)) and not word.startswith(_NOT_DEBUG)
        if not decides or before.startswith("-X"):  # -Xclang: the next word is another program's
            kept.append(word)
    return kept
