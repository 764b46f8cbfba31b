"""Remarks on a library: what will not work, or not everywhere, told by a code that stays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from mblob.binary import elf_facts
from mblob.binary.container import ObjectSet
from mblob.binary.elf import ElfFile
from mblob.binary.elf_object import ElfObject
from mblob.binary.elf_records import (
    DT_VERDEF,
    PF_X,
    PT_GNU_STACK,
    SHF_EXECINSTR,
    SHF_WRITE,
    STB_GLOBAL,
    STV_DEFAULT,
    Symbol,
)
from mblob.binary.image import Image
from mblob.binary.non_elf import ForeignFile
from mblob.errors import FormatError, IncompatibleError
from mblob.format import (
    classic,
    exported_functions,
    ffi_dialect,
    functions_table,
    note,
    plugin_table,
    system_library_prefixes,
)
from mblob.format.exported_functions import NO_MODEL
from mblob.format.type_keys import EXECUTORS, GRAPHS, RELAX_EXECUTABLES, ROWS
from mblob.inspect.elf_judge import NOT_JUDGED, check_loading, static_tls
from mblob.inspect.runtime_lookups import looked_up_names
from mblob.module import LIBRARY

if TYPE_CHECKING:
    from mblob.inspect.library import Library

Remark = tuple[str, str]  # code, message

# glibc gives code of these machines an executable stack when the file does not say that it needs
# none.
_EXECUTABLE_BY_DEFAULT = ("i386", "x86_64", "arm", "ppc", "s390x", "sparc", "sparc64", "mips")
# What asks for the modules around a library, and the variable in which the runtime leaves them for
# it.
_CONTEXT_USERS = {
    "classic": (("TVMBackendGetFuncFromEnv",), classic.CONTEXT),
    "ffi": (
        ("TVMFFIEnvModLookupFromImports", "TVMBackendGetFuncFromEnv"),
        ffi_dialect.CONTEXT,
    ),
}
# Remarks that need no action.
_NO_ACTION = ("era", "trailing_bytes", NOT_JUDGED)


def diagnose(library: Library) -> list[dict[str, Any]]:
    """All remarks: {"code", "severity", "message"}; what kept a part from being read comes first,
    as an error. A "warning" is something that its reader can do something about, or should know
    before the library is used; "info" is everything else, which is shown in JSON alone."""
    problem, remark = _judged(library)
    remarks = [remark] if remark is not None else []
    for part in (
        _of_linking,
        _of_blobs,
        _of_names,
        wrong_rows,
        _of_entries,
        _of_executors,
        _of_plugins,
    ):
        remarks += part(library)
    found = [
        {"code": code, "severity": _severity(library, code), "message": text}
        for code, text in remarks
    ]
    problem = library.problem or problem
    if problem is not None:
        found.insert(0, {"code": problem.code, "severity": "error", "message": str(problem)})
    return found


def _severity(library: Library, code: str) -> str:
    if code in _NO_ACTION or (code == "interposable_blob" and not _users_of_blob(library)):
        return "info"
    return "warning"


def _judged(library: Library) -> tuple[FormatError | None, Remark | None]:
    """The error that a dynamic linker finds in a library, and a remark on loading it."""
    image = library.image
    if library.kind != "shared" or not isinstance(image, ElfFile) or image.is_program:
        return None, None
    try:
        return None, check_loading(image)
    except FormatError as error:
        return error, None
    except IncompatibleError as error:
        return None, ("not_loadable", str(error).removeprefix(f"{error.culprit}: "))


def _of_linking(library: Library) -> Iterator[Remark]:
    image = library.image
    if library.kind not in ("shared", "object", "archive", "tar", "universal", "bundle", "source"):
        what = (
            f"ELF type {image.e_type}, a shared library has 3"
            if isinstance(image, ElfFile)
            else library.kind
        )
        yield "not_shared", f"{what}: nothing loads it as a library"
    elif isinstance(image, ElfFile) and image.is_program:
        yield "not_shared", "a position-independent executable: glibc does not load it as a library"
    yield from executable_stack(image)
    yield from damaged_sections(library.image)
    if isinstance(image, ElfFile) and image.has_text_relocations:
        yield (
            "text_relocations",
            "code is changed when it is loaded (text relocations), which hardened systems refuse",
        )
    if isinstance(image, ElfFile) and elf_facts.has_read_only_dynamic_section(image):
        yield (
            "read_only_dynamic",
            "its dynamic section is read-only (-z rodynamic): glibc before 2.35 crashes",
        )
    yield from headers_behind(image)
    yield from static_threads(image)
    machines = Counter((i.machine, i.bits, i.endian) for i in image.images if i.format != "c")
    if len(machines) > 1:
        names = ", ".join(f"{m} ({bits} bits, {endian})" for m, bits, endian in sorted(machines))
        yield "mixed_machines", f"its members are for several machines: {names}"


def headers_behind(image: Image) -> Iterator[Remark]:
    """Program headers that `strip` breaks."""
    if isinstance(image, ElfFile) and elf_facts.has_no_room_for_headers(image):
        yield (
            "headers_behind",
            "strip and objcopy break it: they write its program headers in front of its first section, where there is"
            " no room",
        )


def static_threads(image: Image) -> Iterator[Remark]:
    """More variables of threads than glibc promises room for."""
    if isinstance(image, ElfFile) and (text := static_tls(image)):
        yield "static_tls", text


def executable_stack(image: Image) -> Iterator[Remark]:
    """An executable stack that a file asks for, or seems to."""
    if any(map(_wants_executable_stack, image.images)):
        yield (
            "executable_stack",
            "asks for an executable stack; glibc 2.41 and later refuse to load it",
        )


def damaged_sections(image: Image) -> Iterator[Remark]:
    """Section headers that are not used, because they or their names are damaged, or lead out of
    the file."""
    for part in image.images:
        if isinstance(part, ElfFile) and part.section_problem is not None:
            yield (
                "section_headers",
                "its section headers are damaged, and not used; loading needs none: "
                f"{part.section_problem}",
            )


def _wants_executable_stack(image: Image) -> bool:
    if isinstance(image, ElfObject):
        note = image.section(".note.GNU-stack")
        if note is not None:
            return bool(note.sh_flags & SHF_EXECINSTR)
        # so GNU ld takes it, also where there is no code in it
        return image.machine in _EXECUTABLE_BY_DEFAULT
    if not isinstance(image, ElfFile):
        return False
    stack = next((s for s in image.segments if s.p_type == PT_GNU_STACK), None)
    if stack is None:
        return image.machine in _EXECUTABLE_BY_DEFAULT
    return bool(stack.p_flags & PF_X)


def two_blobs(library: Library) -> Iterator[Remark]:
    """Packed modules under two names, of which a runtime reads one."""
    present = [
        name for name in system_library_prefixes.BLOBS if library.image.find(library.prefix + name)
    ]
    if len(present) > 1:
        names = " and ".join(present)
        yield (
            "two_dialects",
            f"has {names}: which one is read depends on the runtime; here it is {present[0]}",
        )


def _of_blobs(library: Library) -> Iterator[Remark]:
    if not library.is_model_library:
        yield "no_model", NO_MODEL
    yield from two_blobs(library)
    others = [p for p in library.prefixes if p != library.prefix]
    if others:
        shown = _few(map(repr, others))
        yield (
            "several_prefixes",
            f"prefix {library.prefix!r} is shown; for another, add prefix=: there are also {shown}",
        )
    if library.prefix and library.kind == "shared" and library.blob is not None:
        yield (
            "prefixed_blob",
            f"{library.blob.symbol} has a prefix: TVM's load_module sees a library without a blob",
        )
    yield from _of_placing(library)
    blob = library.blob
    if blob is None:
        return
    symbol, size = library.blob_symbol, blob.size
    if symbol is not None and symbol.st_size not in (0, size):
        yield (
            "blob_size",
            f"{symbol.name} has {symbol.st_size} bytes, its length prefix says {size}",
        )
    end = blob.index_offset if blob.index_offset is not None else size
    if blob.index_offset is None and library.problem is None and blob.stream_size < end:
        left = end - blob.stream_size
        yield (
            "trailing_bytes",
            f"{left} bytes follow the last module of the blob; runtimes ignore them",
        )


def _of_placing(library: Library) -> Iterator[Remark]:
    """Remarks on the place of the blob, and on other libraries that may stand in for it."""
    symbol = library.blob_symbol
    if symbol is None:
        return
    image = library.image.owner(symbol)
    writable = False
    if isinstance(image, ElfObject):
        section = image.section_of(symbol)
        writable = section is not None and bool(section.sh_flags & SHF_WRITE)
    elif isinstance(image, ElfFile):
        writable = elf_facts.is_writable(image, symbol)
        is_library = image.kind == "shared" and not image.is_program
        if (
            is_library
            and symbol.st_other & 3 == STV_DEFAULT
            and not _finds_its_own(library, image, symbol)
        ):
            yield "interposable_blob", _interposed(library, symbol)
    elif isinstance(image, ForeignFile):
        span = image.span_of(symbol)
        writable = span is not None and span.writable
    if writable:
        yield (
            "writable_blob",
            f"{symbol.name} lies in writable memory: each process has a copy of what it touches",
        )


def _users_of_blob(library: Library) -> list[str]:
    """The blob and what leads to it, by the names that relocations have: code that refers to them
    so may come to another library's. Loaders ask the library itself."""
    symbol, image = library.blob_symbol, library.image
    if symbol is None or not isinstance(image, ElfFile):
        return []
    contexts = {library.prefix + context for _, context in _CONTEXT_USERS.values()}
    others = (s for s in image.exports if s.name in contexts and s.st_other & 3 == STV_DEFAULT)
    return [s.name for s in (symbol, *others) if elf_facts.is_relocated_to(image, s)]


def _interposed(library: Library, symbol: Symbol) -> str:
    """The message on code that may take another library's blob: the library's own, or only a search
    of the whole process."""
    used = " and ".join(_users_of_blob(library))
    if used:
        return f"its code may find {used} in another library that was loaded first: link with -Wl,-Bsymbolic"
    return (
        f"what looks for {symbol.name} in the whole process may find it in another library that was loaded first; "
        "load_module does not look so, and no code of the library does"
    )


def _finds_its_own(library: Library, elf: ElfFile, symbol: Symbol) -> bool:
    """True if the library was linked with -Bsymbolic, which matters where code refers to the symbol
    by name. mold leaves no mark of that option; mblob links all it packs so, unless the link is the
    caller's."""
    if elf_facts.is_symbolic(elf):
        return True
    packed_here = bool(note.announced(elf).flags) or bool(library.blob and library.blob.producer)
    by_mold = any(text.startswith("mold ") for text in elf_facts.compilers(elf))
    return (packed_here or by_mold) and not elf_facts.is_relocated_to(elf, symbol)


def _of_names(library: Library) -> Iterator[Remark]:
    image = library.image
    twice = image.duplicates if isinstance(image, ObjectSet) else _defined_twice(image)
    if twice:
        shown = _few(twice)
        what = "1 symbol is" if len(twice) == 1 else f"{len(twice)} symbols are"
        yield "duplicate_symbols", f"{what} defined more than once: {shown}"
    names = {s.name for s in image.exports}
    needed = {s.name for s in image.imports}
    for dialect, (users, context) in _CONTEXT_USERS.items():
        used = [u for u in users if f"__{u}" in names or u in needed]
        has_context = any(n.endswith(context) for n in names)
        if used and not has_context and (dialect == "ffi") == (library.era.dialect == "ffi"):
            yield (
                "missing_context",
                f"calls {used[0]}, but has no {context}: its packed calls find no imported module",
            )
    if library.era.contradiction:
        yield "era", "no release of TVM writes all of what is in it: see the facts"


def wrong_rows(library: Library) -> Iterator[Remark]:
    """Rows of the table of functions that cannot be true. Runtimes open the library."""
    missing = exported_functions.without_code(library.image, library.function_table, library.prefix)
    if missing:
        shown = _few(f"{r.name} (symbol {r.symbol})" for r in missing)
        yield (
            "table_symbols",
            f"its table of functions lists {shown}, and it exports no such function: pack it again",
        )
    differ = [row for row in library.function_table if functions_table.contradicts(row)]
    if differ:
        shown = _few(f"{r.name}: ({r.types}) and {r.prototype}" for r in differ)
        yield (
            "table_prototypes",
            f"its table of functions has types and a prototype that differ: {shown}",
        )


def _few(texts: Iterable[str]) -> str:
    found = list(texts)
    return ", ".join(found[:8]) + (", ..." if len(found) > 8 else "")


def _defined_twice(image: Image) -> list[str]:
    """Names of dynamic symbols with several definitions; those with versions may have them."""
    if not isinstance(image, ElfFile) or isinstance(image, ElfObject):
        return []
    places = {(s.name, s.st_value) for s in image.exports if s.binding == STB_GLOBAL}
    if DT_VERDEF in image.dynamic:
        return []
    return sorted(name for name, count in Counter(name for name, _ in places).items() if count > 1)


def _of_entries(library: Library) -> Iterator[Remark]:
    for e in library.entries:
        content = e.content
        if content.problem is not None:
            yield (
                content.problem.code or "payload",
                f"entry {e.index} ({e.type_key}): {content.problem}",
            )
    carried = {
        key
        for plugin in library.plugins
        if plugin.abi == plugin_table.ABI
        for key in plugin.type_keys
    }
    waiting: dict[str, list[int]] = {}
    for e in library.entries:
        row = ROWS.get(e.type_key)
        if row is not None and row.needs and row.where and e.type_key not in carried and not e.data:
            waiting.setdefault(e.type_key, []).append(e.index)
    for key, places in waiting.items():
        shown = _few(map(str, places))
        what = f"entry {shown}" if len(places) == 1 else f"{len(places)} entries ({shown})"
        needs = ROWS[key].needs + ROWS[key].where
        yield "no_runtime", f"{what} of type {key}: nothing of mblob runs it, it needs {needs}"


def _of_executors(library: Library) -> Iterator[Remark]:
    """Remarks on graphs that TVM's executors cannot read, or functions that they cannot call;
    mblob's can."""
    yield from missing_functions(library)
    yield from unreadable_graphs(library)
    if library.dialect != "classic":
        return
    plain = [f.name for f in library.host_functions if f.abi == "plain" and f.symbol == f.name]
    without_form = {*plain} - {f.name for f in library.host_functions if f.abi != "plain"}
    for e in library.entries if plain else ():
        if e.type_key not in EXECUTORS:
            continue
        from mblob.inspect import tvm_executor

        why = tvm_executor.crash(
            tvm_executor.called_functions(e.type_key, e.content.facts), plain, without_form
        )
        if why is not None:
            yield "plain_operators", f"entry {e.index} ({e.type_key}): {why}"


def missing_functions(library: Library) -> Iterator[Remark]:
    """Functions that programs of Relax name, and that neither the library nor mblob has."""
    for e in library.entries:
        if e.type_key not in RELAX_EXECUTABLES or e.content.problem is not None:
            continue
        own = set(library.functions)
        named = [
            f["name"] for f in e.content.facts["executable"]["functions"] if f["kind"] == "packed"
        ]
        asked = (
            n for n in looked_up_names(library) if not n.startswith("__tvm_")
        )  # of the runtime
        named = list(dict.fromkeys((*named, *asked)))
        from mblob.inspect.relax_program import PROVIDED

        missing = [name for name in named if name not in own and name not in PROVIDED]
        if any(x.type_key != LIBRARY and x.index != e.index for x in library.entries):
            missing = [name for name in missing if "." in name]  # others may be of those modules
        if missing:
            shown = _few(missing)
            yield (
                "missing_functions",
                f"entry {e.index} ({e.type_key}): it names functions that neither the library nor mblob has: "
                f"{shown}; register them before it runs (mblob.register_func)",
            )


def unreadable_graphs(library: Library) -> Iterator[Remark]:
    """Graphs that mblob may run, and TVM's graph executor does not read, or reads wrongly."""
    for e in library.entries:
        if e.type_key in GRAPHS and e.offset is not None and e.content.problem is None:
            from mblob.inspect import tvm_executor

            problem = tvm_executor.read_problem(e.type_key, e.view(), library.grammars)
            if problem is not None:
                what = f"TVM's graph executor cannot run its graph: {problem}"
                yield "tvm_graph", f"entry {e.index} ({e.type_key}): {what}"


def _of_plugins(library: Library) -> Iterator[Remark]:
    plugins, broken = library.plugin_tables
    for problem in broken:
        yield "plugin_table", f"a plug-in that cannot be used: {problem}"
    for plugin in plugins:
        if plugin.abi != plugin_table.ABI:
            what = f"plug-in {plugin.name!r} is built for version {plugin.abi} of the plug-in interface"
            yield "plugin_abi", f"{what}, this is version {plugin_table.ABI}: it is not used"
