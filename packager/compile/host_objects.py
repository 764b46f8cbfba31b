"""From host modules to object files: which compiler and options each source gets."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from mblob.binary.elf import ElfFile
from mblob.binary.file_kind import ELF_MAGIC
from mblob.binary.function_names import MANGLED
from mblob.errors import ToolchainError
from mblob.named_tuple import NamedTuple
from mblob.packager.compile.commands import (
    LTO,
    STANDARD,
    compile_command,
    compile_preprocessed_command,
    describing,
    keeps_debug,
    language,
    options_of_folder,
    preprocess_command,
    source_macros,
)
from mblob.packager.compile.first_look import may_name_vectors, may_tell
from mblob.packager.compile.processes import Job, run_all, warn_of_remarks
from mblob.packager.compile.toolchain import CompilerAnswers, Toolchain
from mblob.packager.errors import BuildError
from mblob.packager.modules.nodes import HostNode, ObjectNode, SourceNode
from mblob.packager.objects import object_files
from mblob.packager.objects.object_files import (
    ElfTarget,
    ObjectSymbols,
    machine_of,
)
from mblob.packager.objects.rename import rename_symbols, unshare
from mblob.source_suffixes import OF_C

if TYPE_CHECKING:
    from mblob.binary.dwarf_functions import Function
    from mblob.packager.compile.fortran_tree import Dummy


class HostFile(NamedTuple):
    """An input of the link.

    Attributes:
        path: the object or archive.
        label: what messages call it.
        cxx: needs the C++ library.
        cuda: needs the CUDA runtime.
        fortran: may need the library of Fortran.
        own: compiled or copied here, so it may be rewritten.
        generated: the packed functions, which have their final names.
        carried: of a plug-in, whose names are all its own.
        elsewhere: names of code that another library has: it is looked at, and not linked.
        exports: of that library, symbols of functions.
        own_calls: functions that its source says are called in another way than C's, and the
            attribute.
        arrays: declarations of functions with arrays among their parameters, as its source has them.
        dummies: of a Fortran source, what it says of the dummy arguments of its procedures.
        enums: the enums of its source, if array bounds may name enumerators.
        array_types: typedefs of arrays in its source by name, if functions or prototypes may have them.
        written: by function, prototypes of the caller's, in which the macros of its source are replaced.
        expanded_names: of functions whose names in such prototypes are macros, by the macros.
        functions: what it defines, as far as debug information tells; of a source compiled for
            link-time optimization what it exports.
        local: functions that nothing outside of its source finds, as of `DebugFunctions`.
    """

    path: Path
    label: str
    cxx: bool = False
    cuda: bool = False
    fortran: bool = False
    own: bool = True
    generated: bool = False
    carried: bool = False
    elsewhere: bool = False
    exports: tuple[str, ...] = ()
    own_calls: Mapping[str, str] = {}
    arrays: Mapping[str, str] = {}
    dummies: Mapping[str, Mapping[str, Dummy]] = {}
    enums: tuple[str, ...] = ()
    array_types: Mapping[str, str] = {}
    written: Mapping[str, str] = {}
    expanded_names: Mapping[str, str] = {}
    functions: tuple[Function, ...] = ()
    local: tuple[str, ...] = ()


class LinkInput(NamedTuple):
    """An input of the link, and what is in it, which was read once."""

    file: HostFile
    contents: ObjectSymbols


def compile_all(
    tools: Toolchain,
    nodes: Sequence[HostNode],
    forms: Callable[[], str] | None,
    options: Sequence[str],
    work: Path,
    meanwhile: Callable[[], object] | None = None,
) -> list[LinkInput]:
    """Objects of all host modules, in their order, the packed functions last.

    Args:
        forms: makes C text of the packed functions while the sources compile; None if there are
            none.
        options: the caller's options for every compilation.
        work: folder for what is written.
        meanwhile: called while compilers run.

    Raises:
        ToolchainError: a compiler is missing or refuses a source.
    """
    jobs: list[Job] = []
    looks: list[Job] = []  # beside them
    files: list[HostFile] = []
    kept: dict[Path, Job] = {}
    described: set[Path] = set()
    preprocessed: dict[Path, Path] = {}
    dummies: dict[Path, Mapping[str, Mapping[str, Dummy]]] = {}
    sources = {
        i: (n, *source_file(n, i, work)) for i, n in enumerate(nodes) if isinstance(n, SourceNode)
    }
    rewritten = _without_vectors(tools, sources, options, work)
    looking = any(node.declared.looks for node in nodes)
    is_declared = looking or any(node.declared.functions for node in nodes)
    texts = {name: t for node in nodes for name, t in node.declared.of_source.items()}
    for i, node in enumerate(nodes):
        if isinstance(node, SourceNode):
            _, source, label = sources[i]
            output = work / f"lib{i}.o"
            words: Callable[[str], str] = (
                str if isinstance(node.code, Path) else partial(_without_folder, work)
            )
            if i in rewritten:
                command = compile_preprocessed_command(
                    tools, node, source, rewritten[i], output.name, options, work
                )
                words = partial(_of_rewritten, words)
            else:
                command = compile_command(tools, node, source, output.name, options, work)
            kind = language(node)
            if kind == "cuda":
                job = Job(label, command, words)
            else:
                remarks = partial(warn_of_remarks, words, (*options, *node.options))
                job = Job(label, command, words, tools.compiler(kind), on_output=remarks)
                if kind == "fortran":
                    job = _of_fortran(job, partial(dummies.__setitem__, output))
                if keeps_debug(command):
                    kept[output] = job
                else:
                    job = describing(job)
                    described.add(output)
            jobs.append(job)
            files.append(
                HostFile(output, label, kind in ("c++", "cuda"), kind == "cuda", kind == "fortran")
            )
            if kind in OF_C and (
                texts or (is_declared and i not in rewritten and may_tell(node, options, looking))
            ):
                preprocessed[output] = work / f"lib{i}.words.i"
                if texts:
                    source = _with_prototypes(source, texts, work / f"lib{i}.words.{node.fmt}")
                name = preprocessed[output].name
                command = preprocess_command(tools, node, source, name, options, work, ())
                looks.append(Job(label, command, words))
            elif i in rewritten:
                preprocessed[output] = rewritten[i]
        elif isinstance(node, ObjectNode):
            files.append(object_file(node, work / f"lib{i}.o"))
    if forms is not None:
        job, file = _generated(tools, packed_functions_source(forms), options, work)
        jobs.append(job)
        files.append(file)

    def beside() -> None:
        # these take as long to import as a small file to compile
        if described:
            import_module("mblob.packager.objects.debug_info")
        if preprocessed and looking:
            import_module("mblob.packager.modules.source_words")  # with pycparser
        if meanwhile is not None:
            meanwhile()

    run_all([*jobs, *looks], work, beside)
    files = [_with_declarations(f, preprocessed.get(f.path), looking, texts) for f in files]
    files = [f._replace(dummies=dummies.get(f.path, {})) for f in files]
    read = [read_input(f, ours=f.path in described) for f in files]
    return _described_by_another_compilation(tools, read, kept, work)


def _of_fortran(job: Job, keep: Callable[[Mapping[str, Mapping[str, Dummy]]], object]) -> Job:
    """A compilation of Fortran, whose compiler prints what it read.

    Args:
        keep: called with what that says of dummy arguments.
    """
    from mblob.packager.compile import fortran_tree

    return job._replace(
        is_fortran=True,
        on_output=lambda output: keep(fortran_tree.read(output)),
        words=lambda output: job.words(fortran_tree.with_places(output)),
    )


def _with_prototypes(source: Path, texts: Mapping[str, str], path: Path) -> Path:
    """A source with prototypes behind it, in whose texts the preprocessor then replaces macros."""
    from mblob.packager.compile.call_attributes import with_prototypes

    return write_source(with_prototypes(source, texts.values()), path)


def _with_declarations(
    file: HostFile, preprocessed: Path | None, looking: bool, texts: Mapping[str, str]
) -> HostFile:
    """A file with what its source says of how functions are called, and of arrays if prototypes are made
    of what it says.

    Args:
        texts: prototypes behind the source.
    """
    if preprocessed is None:
        return file
    from mblob.packager.compile import call_attributes  # 3 ms, as `vector_c`

    text = preprocessed.read_text("utf-8", "surrogateescape")
    text, *written = call_attributes.split_prototypes(text)
    names = list(map(call_attributes.declared_name, texts, written))
    own = call_attributes.own_text(text) if looking else ""
    arrays = call_attributes.array_parameters(own)
    return file._replace(
        own_calls=call_attributes.attributes(text),
        arrays=arrays,
        enums=call_attributes.enums(own) if arrays or texts else (),
        array_types=call_attributes.array_types(own) if arrays or texts else {},
        written=dict(zip(names, written)),
        expanded_names={old: new for old, new in zip(texts, names) if new and new != old},
    )


def source_file(node: SourceNode, i: int, work: Path) -> tuple[Path, str]:
    """The file of a source module, and what messages call it; a text is written to `work`."""
    if isinstance(node.code, Path):
        return node.code.absolute(), node.label
    name = f"lib{i}.{node.fmt}"
    return write_source(node.text(), work / name), f"{name} (a source text)"


def _without_folder(work: Path, output: str) -> str:
    """The output of a compiler about a text of the caller's, without the folder that is gone when
    that is read."""
    return output.replace(f"{work}/", "")


def read_input(file: HostFile, ours: bool = False) -> LinkInput:
    """A file with what is in it, and what its debug information tells.

    Args:
        ours: the debug information is there for that alone: it is not linked.

    Raises:
        OSError, BuildError, FormatError, IncompatibleError: as of `object_files.read`.
    """
    if file.generated or file.elsewhere:
        return LinkInput(file, object_files.read(file.path, file.label))
    found: list[Function] = []
    local: list[str] = []

    def describe(elf: ElfFile) -> None:
        found.extend(object_files.functions_of(elf, ours, local))
        if ours:
            object_files.exclude_debug_sections(file.path, elf)

    contents = object_files.read(file.path, file.label, describe)
    return LinkInput(file._replace(functions=tuple(found), local=tuple(local)), contents)


def _described_by_another_compilation(
    tools: Toolchain, files: Sequence[LinkInput], jobs: Mapping[Path, Job], work: Path
) -> list[LinkInput]:
    """The files; those whose objects do not tell all functions are compiled once more, with debug
    information of ours.

    Args:
        jobs: what compiled objects with debug information of the caller's, or for link-time
            optimization.
    """
    silent = {f.path: jobs[f.path] for f, c in files if f.path in jobs and _is_silent(f, c)}
    jobs = {path: job._replace(on_output=None) for path, job in silent.items()}
    apart = {path: describing(job, f"{path.stem}.types.o") for path, job in jobs.items()}
    try:
        run_all(list(apart.values()), work)
    except ToolchainError:  # some options are for link-time optimization alone
        apart = {path: job for path, job in apart.items() if _succeeds(job, tools, work)}
    described = {path: work / job.output for path, job in apart.items()}
    return [
        LinkInput(f._replace(functions=_exported(described[f.path], f.label)), contents)
        if f.path in described
        else LinkInput(f, contents)
        for f, contents in files
    ]


def _is_silent(file: HostFile, contents: ObjectSymbols) -> bool:
    """True if debug information does not tell all functions that C code can call."""
    known = {function.name for function in file.functions}
    return not contents.complete or any(
        not name.startswith(MANGLED) for name in contents.functions - known
    )


def _succeeds(job: Job, tools: Toolchain, work: Path) -> bool:
    try:
        run_all([job], work)
    except ToolchainError:
        return False
    return True


def _exported(path: Path, label: str) -> tuple[Function, ...]:
    file, contents = read_input(HostFile(path, label), ours=True)
    return tuple(function for function in file.functions if function.name in contents.functions)


# -- sources with vector types ---------------------------------------------------------------------
# They are preprocessed and rewritten, and the preprocessed text is compiled.


def _without_vectors(
    tools: Toolchain,
    sources: Mapping[int, tuple[SourceNode, Path, str]],
    options: Sequence[str],
    work: Path,
) -> dict[int, Path]:
    """Rewrite the sources that use vector types.

    The compiler preprocesses them first: vectors may come from macros and headers, and a name that
    a header declares is the user's. Sources without a word that may be such a type cost a search in
    their text.

    Args:
        sources: by number, with their files and what messages call them.

    Returns:
        for those that were rewritten, the preprocessed text to compile.

    Raises:
        ToolchainError: a source cannot be preprocessed. BuildError: vectors that cannot be
            combined.
    """
    texts = {i: node.text() for i, (node, _, _) in sources.items() if language(node) in OF_C}
    texts = {i: text for i, text in texts.items() if may_name_vectors(text)}
    if not texts:
        return {}
    from mblob.packager.compile.vector_c import own_names, rewrite  # 14 ms, and few sources need it

    texts = {i: text for i, text in texts.items() if own_names.mentions(text)}
    jobs = []
    for i, text in texts.items():
        node, path, label = sources[i]
        first = rewrite.preprocessor_options(text)
        jobs.append(
            Job(label, preprocess_command(tools, node, path, f"lib{i}.i", options, work, first))
        )
    run_all(jobs, work)
    made: dict[int, Path] = {}
    for i in texts:
        output = work / f"lib{i}.i"
        head, user = rewrite.user_part(output.read_text("utf-8", "surrogateescape"))
        node, path, label = sources[i]
        # A text of the caller's lies in a folder that is gone when the error is read.
        rewritten = rewrite.rewrite(
            user, label, {} if isinstance(node.code, Path) else {str(path): path.name}
        )
        if rewritten is not None:
            text = rewrite.in_preprocessed(head, rewritten)
            output.write_bytes(text.encode(errors="surrogateescape"))
            made[i] = output
    return made


def _of_rewritten(words: Callable[[str], str], output: str) -> str:
    """A compiler's output about the text of `_without_vectors`, in terms of the source."""
    from mblob.packager.compile.vector_c import rewrite

    return rewrite.translate_diagnostics(words(output))


def standalone_text(node: SourceNode, name: str) -> str:
    """The text of a source for a compiler that a caller runs: rewritten if it uses vector types,
    else as it is.

    We do not know that compiler, nor can we ask it to preprocess: it may be for another machine, or
    none at all.

    Raises:
        BuildError: vectors that cannot be combined, or that stand in macros or in a header beside
            the source.
    """
    text = node.text()
    macros = "".join(f"#define {macro}\n" for macro in source_macros(node))
    plain = f'{macros}#line 1 "{name}"\n{text}' if macros else text
    if language(node) not in OF_C or not may_name_vectors(text):
        return plain
    from mblob.packager.compile.vector_c import own_names, rewrite

    if not own_names.mentions(text):
        return plain
    folder = node.code.parent if isinstance(node.code, Path) else None
    file = str(node.code) if isinstance(node.code, Path) else name
    if (hidden := own_names.hidden_vectors(text, file, folder)) is not None:
        raise BuildError(
            f"{hidden}; for an fcompile only what stands in the source itself can be rewritten:"
            " move it there, or export without fcompile"
        )
    made = rewrite.rewrite(text, file)
    return plain if made is None else macros + rewrite.standalone(made, file)


# -- sources that we wrote -------------------------------------------------------------------------


class Generated(NamedTuple):
    """A C source that we wrote.

    Attributes:
        stem: name of its files.
        label: what messages call it.
        text: the source, or what makes it.
        optimize: -O1 is as quick to call as -O2, and compiled in two thirds of the time.
    """

    stem: str
    label: str
    text: str | Callable[[], str]
    optimize: str = "-O1"

    def source(self) -> str:
        """The source, made now if it was not."""
        return self.text() if callable(self.text) else self.text


def packed_functions_source(
    text: str | Callable[[], str], part: int = 0, *, apart: bool = False
) -> Generated:
    """The source of the packed functions, or a part of it. If what they call is `apart`, little is left to
    optimise."""
    stem = f"mblob_functions_{part}" if part else "mblob_functions"
    return Generated(stem, "the packed functions", text, "-Og" if apart else "-O1")


def compile_generated(
    tools: Toolchain,
    sources: Sequence[Generated],
    options: Sequence[str],
    work: Path,
    meanwhile: Callable[[], object] | None = None,
) -> list[LinkInput]:
    """Objects of sources that we wrote, in their order. Of the caller's options they get what
    decides the ABI. `meanwhile` is called while compilers run.

    Raises:
        ToolchainError: the compiler refuses one.
    """
    made = [_generated(tools, source, options, work) for source in sources]
    run_all([job for job, _ in made], work, meanwhile)
    return [read_input(file) for _, file in made]


def _generated(
    tools: Toolchain, source: Generated, options: Sequence[str], work: Path
) -> tuple[Job, HostFile]:
    path = work / f"{source.stem}.c"
    output = f"{source.stem}.o"
    label = f"{source.label} ({path.name})"
    node = SourceNode("" if callable(source.text) else source.text, "c")
    # Freestanding: the compiler's own headers are enough, for machines without those of a C library, too.
    # Exceptions of a kernel leave through it, and clang writes no unwind tables for freestanding code unless told.
    # Link-time optimization would put definitions into one object that linkers choose among by their objects:
    # the slots of the headers, weak and in assembler text, and what fills them.
    machine = [o for o in machine_options(options) if not o.startswith(LTO)]
    lto = ["-fno-lto"] if any(o.startswith("-flto") for o in (*tools.cc, *options)) else []
    own = [source.optimize, "-ffreestanding", "-fexceptions", *STANDARD, *machine, *lto]
    command = compile_command(tools, node, path, output, own, work)

    def before() -> None:
        write_source(source.source(), path)

    return Job(label, command, compiler=tools.cc, before=before), HostFile(
        work / output, label, generated=True
    )


def compile_blob(
    tools: Toolchain, options: Sequence[str], work: Path, output: str, *more: str
) -> None:
    """Compile `devc.c` in `work`, the packed modules as C, into `output`.

    Raises:
        ToolchainError: the compiler refuses it.
    """
    own = (*STANDARD, *machine_options(options), "-fPIC", *more, *options_of_folder(work, "devc.c"))
    run_all([Job("devc.c", (*tools.cc, *own, "-c", "devc.c", "-o", output))], work)


def machine_options(options: Sequence[str]) -> list[str]:
    """Those of the caller's options that decide the ABI: they apply to generated code too, warnings
    do not."""
    own = ("-m", "--target=", "--sysroot", "-isysroot", "-g", "-fsanitize", "-fcf-protection", "-O")
    return [o for o in options if o.startswith((*own, *LTO))]


def write_source(text: str, path: Path) -> Path:
    """Write a source text to `path`, byte for byte."""
    path.write_bytes(text.encode(errors="surrogateescape"))
    return path


def object_file(node: ObjectNode, path: Path) -> HostFile:
    """The file of an object module; bytes are written to `path`."""
    if isinstance(node.content, Path):
        # a file that went away since is an OSError here, not the linker's riddle
        node.content.stat()
        file = HostFile(node.content.absolute(), node.label, own=False, elsewhere=node.elsewhere)
        return file._replace(exports=node.exports, functions=node.described)
    path.write_bytes(node.content)
    return HostFile(path, node.label, own=False)


def with_names(file: HostFile, names: Mapping[str, str], copy: Path) -> HostFile:
    """The file with its symbols renamed and hidden (`rename.rename_symbols`). The caller's file stays as
    it is, and `copy` is made."""
    if not file.own:
        shutil.copyfile(file.path, copy)
        file = file._replace(path=copy, own=True)
    rename_symbols(file.path, names, file.label)
    return file


def unshared(files: Sequence[LinkInput], folder: Path) -> list[LinkInput]:
    """The files, of which none has statics that other libraries of the process would share
    (`rename.unshare`).

    Args:
        folder: for copies of the caller's files that have some.
    """
    made = []
    for i, (f, contents) in enumerate(files):
        if contents.unique:
            path = f.path
            if not f.own:
                path = folder / str(i) / f.path.name
                path.parent.mkdir(parents=True, exist_ok=True)
            unshare(f.path, path, f.label)
            f = f._replace(path=path)
        made.append(LinkInput(f, contents))
    return made


def probe(tools: Toolchain, options: Sequence[str], work: Path) -> ElfTarget:
    """The machine the compiler compiles for, seen from what it makes of an empty file; asked once
    in a process.

    Raises:
        ToolchainError: it does not compile. BuildError: it makes no ELF objects.
    """
    command = (*tools.cc, *machine_options(options))
    return _probed.of(command, lambda: _probe(command, work))


_probed: CompilerAnswers[ElfTarget] = CompilerAnswers()


def _probe(compiler: Sequence[str], work: Path) -> ElfTarget:
    (work / "empty.c").write_text("")
    run_all([Job("an empty C file", (*compiler, "-fPIC", "-c", "empty.c", "-o", "empty.o"))], work)
    data = (work / "empty.o").read_bytes()
    if data[:4] != ELF_MAGIC:
        raise BuildError(
            f"{' '.join(compiler)} makes no ELF objects; pass fcompile= and embed='c' for other formats"
        )
    return machine_of(ElfFile(memoryview(data), "empty.o"))
