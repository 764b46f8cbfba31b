"""The rooms of csrc: which folder may need which, by the symbols of the objects and by the includes
of the sources."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from mblob.compilers import include_flags
from tests.e2e.programs import ROOT, run

SRC, PLUGINS = ROOT / "csrc" / "src", ROOT / "csrc" / "plugins"

FOR_EXECUTORS = {"base", "format", "core/device", "core/loaded", "core/call", "core/library"}
# Every arrow that there is. A new one belongs here, if it goes downwards.
NEEDS = {
    "base": set[str](),
    "format": {"base"},
    "elf": {"base"},
    "core/threads": {"base"},
    "core/device": {"base"},
    "core/loaded": {"base", "format", "elf"},
    "core/call": {"base", "format", "core/device", "core/loaded"},
    "core/link": {"base", "elf", "core/loaded", "core/call"},
    "core/plugin": {
        "base",
        "format",
        "elf",
        "core/device",
        "core/loaded",
        "core/call",
        "core/link",
    },
    "core/library": {
        "base",
        "format",
        "elf",
        "core/device",
        "core/loaded",
        "core/call",
        "core/link",
        "core/plugin",
    },
    "host_abi": {"base", "core/threads", "core/device", "core/loaded", "core/call", "core/library"},
    "exec/common": FOR_EXECUTORS | {"core/plugin"},
    "exec/graph": FOR_EXECUTORS | {"core/threads", "exec/common"},
    "exec/aot": FOR_EXECUTORS | {"elf", "exec/common"},
    "exec/relay": FOR_EXECUTORS | {"exec/common"},
    "exec/relax": FOR_EXECUTORS | {"core/link", "core/plugin", "exec/common"},
    "exec/contrib": {"base", "core/device", "core/call", "exec/common"},
    "entry": {
        "base",
        "core/device",
        "core/loaded",
        "core/call",
        "core/link",
        "core/plugin",
        "core/library",
        "host_abi",
        "exec/common",
        "exec/graph",
        "exec/aot",
        "exec/relay",
        "exec/relax",
        "exec/contrib",
    },
}
EXECUTORS = {room for room in NEEDS if room.startswith("exec/")}
LARGEST = 40  # files


def room_of(source: Path) -> str:
    return source.parent.relative_to(SRC).as_posix()


def sources(folder: Path, *suffixes: str) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.suffix in suffixes)


def of_archive(archive: Path, members: list[Path]) -> Mapping[Path, tuple[set[str], set[str]]]:
    """The names that each source defines, and those that it needs. Objects lie in the order of the
    sources."""
    text = run("nm", archive).stdout
    objects = re.split(r"^(\S+\.o):$", text, flags=re.MULTILINE)[1:]
    assert objects[::2] == [f"{p.stem}.o" for p in members]
    found = {}
    for source, lines in zip(members, objects[1::2]):
        words = [line.split() for line in lines.splitlines() if line.strip()]
        defined = {w[-1] for w in words if w[-2].isupper() and w[-2] != "U"}
        found[source] = (defined, {w[-1] for w in words if w[-2] in "Uwv"})
    return found


@pytest.fixture(scope="module")
def symbols(installed: Path) -> Mapping[Path, tuple[set[str], set[str]]]:
    members = [p for p in sources(SRC, ".c") if p.name != "profile_core.c"]
    return of_archive(installed / "lib" / "libmblob.a", members)


def arrows(symbols: Mapping[Path, tuple[set[str], set[str]]]) -> Iterator[tuple[Path, Path, str]]:
    """(source, source whose symbol it needs, the symbol)."""
    home = {name: source for source, (defined, _) in symbols.items() for name in defined}
    for source, (_, needed) in symbols.items():
        yield from ((source, home[name], name) for name in sorted(needed) if name in home)


def test_every_folder_with_sources_is_a_room_that_is_known() -> None:
    assert {room_of(p) for p in sources(SRC, ".c", ".h")} == set(NEEDS)


def test_the_design_notes_show_the_rooms_as_they_are() -> None:
    text = (
        (ROOT / "docs" / "design.md")
        .read_text()
        .partition("## Layers of csrc")[2]
        .partition("\n## ")[0]
    )
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| `")]
    shown = {row[1].strip(" `"): set(re.findall(r"`([^`]+)`", row[3])) for row in rows}
    assert list(shown) == list(NEEDS)
    assert shown == NEEDS


def test_the_objects_of_a_room_need_only_what_is_below(
    symbols: Mapping[Path, tuple[set[str], set[str]]],
) -> None:
    wrong = [
        f"{a.relative_to(SRC)} needs {name} of {b.relative_to(SRC)}"
        for a, b, name in arrows(symbols)
        if room_of(a) != room_of(b) and room_of(b) not in NEEDS[room_of(a)]
    ]
    assert wrong == []


def test_every_arrow_that_is_allowed_is_there(
    symbols: Mapping[Path, tuple[set[str], set[str]]],
) -> None:
    """By a symbol, or by an include: of a room whose types are used."""
    found = {(room_of(a), room_of(b)) for a, b, _ in arrows(symbols)}
    found |= {
        (room_of(source), name.rpartition("/")[0])
        for source in sources(SRC, ".c", ".h")
        for name in includes(source.read_text())
    }
    assert {(a, b) for a, below in NEEDS.items() for b in below} - found == set()


# Called by Python's extensions alone: mblob/bytes/_copy.c, mblob/native/_native_build.py.
OF_PYTHON = {
    "mb_crc32_is_fast",
    "mblob_elf_check",
    "mblob_module_dlhandle",
    "mblob_layout_measure",
    "mblob_payload_measure",
    "mblob_parallel_caller",
}


def test_a_function_that_only_its_own_file_calls_is_static(
    symbols: Mapping[Path, tuple[set[str], set[str]]],
) -> None:
    """And one that nobody calls is none: compilers warn of it."""
    needed = {name for a, b, name in arrows(symbols) if a != b} | OF_PYTHON
    public = "".join(p.read_text() for p in sources(ROOT / "csrc" / "include", ".h"))
    needed |= set(re.findall(r"\w+", public))
    assert {name for defined, _ in symbols.values() for name in defined} - needed == set()


def test_no_rooms_stand_in_a_circle() -> None:
    left = {room: set(below) for room, below in NEEDS.items()}
    while lowest := {room for room, below in left.items() if not below & set(left)}:
        left = {room: below for room, below in left.items() if room not in lowest}
    assert left == {}


def test_only_the_full_table_knows_executors(
    symbols: Mapping[Path, tuple[set[str], set[str]]],
) -> None:
    knowing = {
        a for a, b, _ in arrows(symbols) if room_of(b) in EXECUTORS and room_of(a) not in EXECUTORS
    }
    assert knowing == {SRC / "entry" / "profile_full.c"}


INCLUDE = re.compile(r"""^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]""", re.MULTILINE)


def includes(text: str) -> list[str]:
    """What a source includes, but for headers of the system and of the public folder."""
    return [name for mark, name in INCLUDE.findall(text) if mark == '"' or (SRC / name).is_file()]


def header_of(room: str) -> str:
    """The one header of a room that others include."""
    return f"{room}/{room.rpartition('/')[2]}.h"


def test_a_source_includes_of_another_room_its_one_header_alone() -> None:
    wrong = []
    for source in sources(SRC, ".c", ".h"):
        own = room_of(source)
        for name in includes(source.read_text()):
            other = name.rpartition("/")[0]
            if other != own and not (other in NEEDS[own] and name == header_of(other)):
                wrong.append(f"{source.relative_to(SRC)} includes {name}")
    assert wrong == []


def test_an_include_is_seen_however_it_is_written() -> None:
    text = ' # include <core/call/call.h>\n#include <stdio.h>\n\t#include "elf/elf.h"\n'
    assert includes(text) == ["core/call/call.h", "elf/elf.h"]


def test_the_header_of_a_room_needs_no_other_include_before_it(tmp_path: Path) -> None:
    rooms = [room for room in NEEDS if (SRC / header_of(room)).is_file()]
    assert rooms == list(NEEDS)
    text = "".join(f'#include "{header_of(room)}"\n' for room in reversed(rooms))
    (tmp_path / "all.c").write_text(text)
    flags = ("-std=gnu11", "-DMBLOB_HOST", "-Wall", "-Wextra", "-Werror", "-fsyntax-only")
    run("cc", *flags, f"-I{SRC}", *include_flags(), tmp_path / "all.c")


@pytest.mark.parametrize("plugin", sorted(p.name for p in PLUGINS.iterdir() if p.is_dir()))
def test_a_plug_in_includes_its_own_headers_and_one_of_each_room(plugin: str) -> None:
    own = [p.resolve() for p in sources(PLUGINS / plugin, ".c", ".h")]
    others = {header_of("base")} | ({"common.h"} if plugin != "common" else set())
    included = {
        n for p in own for n in includes(p.read_text()) if (p.parent / n).resolve() not in own
    }
    assert included <= others


@pytest.mark.parametrize(
    "plugin", sorted(p.name for p in PLUGINS.iterdir() if p.is_dir() and p.name != "common")
)
def test_a_plug_in_needs_no_symbol_of_the_runtime(
    installed: Path, plugin: str, symbols: Mapping[Path, tuple[set[str], set[str]]]
) -> None:
    ours = {name for defined, _ in symbols.values() for name in defined}
    lines = run(
        "nm", "-D", "--undefined-only", installed / "lib" / f"libmblob-{plugin}.so"
    ).stdout.splitlines()
    undefined = {line.split()[-1] for line in lines if " U " in line}
    assert "malloc" in {name.partition("@")[0] for name in undefined}
    assert ours & undefined == set()


def test_the_lists_of_sources_name_files_that_there_are() -> None:
    """A moved file that a list does not follow would be compiled as any other, and nobody told."""
    lists = re.findall(
        r"^(FAST|READERS|PLUGIN_SHARED) := (.*)$",
        (ROOT / "csrc" / "flags.mk").read_text(),
        re.MULTILINE,
    )
    assert [name for name, _ in lists] == ["FAST", "READERS", "PLUGIN_SHARED"]
    named = [name for _, names in lists for name in names.split()]
    assert [name for name in named if not (SRC / name).is_file()] == []


# -- the C++ headers of TVM's classes ----------------------------------------------------------------

COMPAT = ROOT / "csrc" / "include" / "mblob" / "compat"
# What libmblob, kernels and C programs include; all else in the folder is C++.
IN_C = {
    "tvm/runtime/base.h",
    "tvm/runtime/c_backend_api.h",
    "tvm/runtime/c_runtime_api.h",
    "tvm/runtime/kernel_slots.h",
    "tvm/runtime/vector_types.h",
    *("tvm/ffi/c_api.h", "tvm/ffi/extra/c_env_api.h", "tvm/ffi/kernel_slots.h"),
    "dlpack/dlpack.h",
}
CLASSES = {p.relative_to(COMPAT).as_posix() for p in COMPAT.rglob("*.h")} - IN_C
OF_THE_STANDARD = re.compile(r"[a-z_]+")


def included(source: Path) -> set[str]:
    return {name for _, name in INCLUDE.findall(source.read_text())}


def test_the_classes_of_tvm_use_public_c_functions_alone() -> None:
    for name in CLASSES:
        others = included(COMPAT / name) - CLASSES
        ours = {n for n in others if not OF_THE_STANDARD.fullmatch(n)}
        assert ours <= {"tvm/runtime/c_runtime_api.h", "tvm/runtime/c_backend_api.h", "mblob.h"}, (
            name
        )


def test_no_code_of_the_runtime_includes_a_class_of_tvm() -> None:
    code = {*sources(ROOT / "csrc", ".c", ".h")} - {COMPAT / name for name in CLASSES}
    assert {p: found for p in code if (found := included(p) & CLASSES)} == {}


def test_each_class_of_tvm_has_a_program_that_includes_it() -> None:
    """Themselves, or another header that a program includes."""
    folders = [ROOT / "tests" / "peers", ROOT / "tests" / "cxx", ROOT / "examples"]
    programs = [p for folder in folders for p in sources(folder, ".cpp", ".h")]
    reached: set[str] = set()
    pending = {name for p in programs for name in included(p)}
    while new := (pending & CLASSES) - reached:
        reached |= new
        pending = {name for found in new for name in included(COMPAT / found)}
    assert CLASSES - reached == set()


def test_a_folder_has_no_more_files_than_a_reader_takes_in() -> None:
    folders = [
        p
        for top in (SRC, PLUGINS, ROOT / "tests" / "c")
        for p in (top, *top.rglob("*"))
        if p.is_dir()
    ]
    counts = {
        str(p.relative_to(ROOT)): sum(f.is_file() and f.suffix != ".pyc" for f in p.iterdir())
        for p in folders
    }
    assert {name: count for name, count in counts.items() if count > LARGEST} == {}
