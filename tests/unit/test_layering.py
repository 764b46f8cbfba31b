"""The imports that are allowed: docs/design.md, "Layers"."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import mblob

ROOT = Path(__file__).resolve().parents[2]
HALVES = ("packager", "loader")
BASE = ["mblob", "mblob.bytes", "mblob.binary", "mblob.format"]
FILES_OF_A_FOLDER = 40
IMPORTING = ("import_module", "__import__")  # functions that take a name as a text
# what a statement may be in
STATEMENTS = (
    ast.stmt,
    ast.excepthandler,
    *([ast.match_case] if hasattr(ast, "match_case") else []),
)
# Arrows that are no room's. A device's name may be one that a plug-in brings: then the loader is
# asked, if it is installed.
ASKS_THE_LOADER = ("mblob.devices", "mblob.loader.plugins")
# Types of rooms above: a page is made from a Library; a Module has tensors and `export_library`.
TYPES_ALONE = {
    ("mblob.inspect.html", "mblob.inspect"),
    ("mblob", "mblob.loader"),
    ("mblob", "mblob.packager.link"),
}
# What imports the face, `mblob`: a module has the methods that users call on it, the command line is
# a user, as is what stands for TVM's package, and an index says which version wrote it. Code
# generators are global functions, and some of these come with `mblob.byoc`. The packager refuses parts of another
# version.
TAKES_FROM_THE_FACE = {
    "mblob.module", "mblob.repack", "mblob.cli", "mblob.packager", "mblob.packager.write", "mblob.packager.byoc",
    "mblob.loader", "mblob.compat",
}  # fmt: skip


def sources() -> dict[str, Path]:
    """The Python files of the package by the name that each is imported by."""
    found = {}
    for top in ("mblob", *HALVES):
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = list(path.relative_to(ROOT).with_suffix("").parts)
            if top == "mblob" and len(parts) > 1 and parts[1] in HALVES:  # through the links
                continue
            parts = ["mblob", *parts] if top in HALVES else parts
            found[".".join(parts).removesuffix(".__init__")] = path
    assert len(found) > 200
    return found


SOURCES = sources()
COMPILED = ("mblob.bytes._copy", "mblob.loader._call", "mblob.native._native")


@cache
def parsed(path: Path) -> ast.Module:
    """The tree of a file, which all tests share."""
    return ast.parse(path.read_text(), str(path))


def imports(path: Path, *, deferred: bool = True, types: bool = False) -> list[tuple[int, str]]:
    """(line, module) of each import in a file.

    `deferred` counts those inside functions too, `types` those that only type checkers see. A name
    that is given to `import_module` or `__import__` as a text counts as an import.
    """
    return [
        (i.line, i.module)
        for i in all_imports(path)
        if (deferred or not i.in_function) and (types or not i.is_type)
    ]


class Import(NamedTuple):
    line: int
    module: str
    in_function: bool
    is_type: bool  # only type checkers see it


@cache
def all_imports(path: Path) -> list[Import]:
    """The imports of a file, which is walked once for all tests."""
    found = []
    tree = parsed(path)
    text = path.read_text()
    # an expression imports only by one of these, and a file has few statements
    kinds = (ast.AST,) if any(name in text for name in IMPORTING) else STATEMENTS
    pending: list[tuple[ast.AST, bool, bool]] = [(tree, False, False)]
    while pending:
        node, in_function, is_type = pending.pop()
        found += [Import(node.lineno, name, in_function, is_type) for name in named(node, path)]
        in_function |= isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            pending.extend((child, in_function, True) for child in node.body)
            pending.extend((child, in_function, is_type) for child in node.orelse)
        else:
            children = (c for c in ast.iter_child_nodes(node) if isinstance(c, kinds))
            pending.extend((child, in_function, is_type) for child in children)
    return found


def named(node: Any, path: Path) -> Iterator[str]:
    """The modules that one node of a file's tree imports."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0 and node.module is not None, (
            f"{path}:{node.lineno}: a relative import"
        )
        for alias in node.names:
            name = f"{node.module}.{alias.name}"
            yield name if name in SOURCES or name in COMPILED else node.module
    elif isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
        called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        first = node.args[0] if called in IMPORTING and node.args else None
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            yield first.value


def room_of(module: str) -> str:
    """The folder of a module, as a name."""
    while module not in SOURCES:  # a compiled one
        module = module.rpartition(".")[0]
    return module if SOURCES[module].name == "__init__.py" else module.rpartition(".")[0]


def is_standard(name: str) -> bool:
    """Whether a top-level module comes with Python."""
    if name in sys.builtin_module_names:
        return True
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        return False
    place = Path(spec.origin)
    return spec.origin == "frozen" or (
        Path(sysconfig.get_path("stdlib")) in place.parents and "site-packages" not in place.parts
    )


def documented_rooms() -> dict[str, list[str]]:
    """The table of docs/design.md: rooms in its order, and what each imports. `*base*` is short for
    BASE, `.NAME` for `mblob.packager.NAME`."""
    text = (ROOT / "docs" / "design.md").read_text()
    begin = text.index("\n## Layers\n")
    table = text[begin : text.index("\n* ", begin)]
    found = {}
    for room, allowed in re.findall(r"^\| `([\w.]+)` \| [^|]+ \|([^|]*)\|$", table, re.MULTILINE):
        names = re.findall(r"`([\w.]+)`", allowed)
        found[room] = [f"mblob.packager{n}" if n.startswith(".") else n for n in names]
        found[room] += BASE if "*base*" in allowed else []
    return found


def test_rooms_import_what_the_document_says_and_nothing_else() -> None:
    found: dict[str, set[str]] = {room_of(module): set() for module in SOURCES}
    for module, path in SOURCES.items():
        for _, name in imports(path):
            if (
                name.partition(".")[0] == "mblob"
                and name != "mblob"
                and (module, name) != ASKS_THE_LOADER
                and room_of(name) != room_of(module)
            ):
                found[room_of(module)].add(room_of(name))
    documented = documented_rooms()
    assert {room: sorted(names) for room, names in found.items()} == {
        r: sorted(n) for r, n in documented.items()
    }
    above: list[str] = []
    for room, allowed in documented.items():
        assert set(allowed) <= set(above), f"{room} imports a room that is not above it"
        above.append(room)


def test_types_come_from_rooms_that_are_imported_but_for_a_few() -> None:
    allowed = documented_rooms()
    wrong = {
        (room_of(module), room_of(name))
        for module, path in SOURCES.items()
        for _, name in imports(path, types=True)
        if name.startswith("mblob.") and (module, name) != ASKS_THE_LOADER
        if room_of(name) not in (room_of(module), *allowed[room_of(module)])
    }
    assert wrong == TYPES_ALONE


def test_the_face_is_imported_by_few() -> None:
    found = {
        module if room_of(module) == "mblob" else room_of(module)
        for module, path in SOURCES.items()
        for _, name in imports(path)
        if name == "mblob"
    }
    assert found == TAKES_FROM_THE_FACE


def test_an_import_by_a_text_or_behind_a_type_check_is_seen(tmp_path: Path) -> None:
    text = (
        "if TYPE_CHECKING:\n    import a\nelse:\n    import b\n"
        "importlib.import_module('c')\ndef f():\n    __import__('d')\n"
    )
    (tmp_path / "x.py").write_text(text)
    seen = {name for _, name in imports(tmp_path / "x.py")}
    assert seen == {"b", "c", "d"}
    assert {name for _, name in imports(tmp_path / "x.py", types=True)} == {"a", "b", "c", "d"}
    assert {name for _, name in imports(tmp_path / "x.py", deferred=False)} == {"b", "c"}


def test_the_two_halves_never_import_each_other() -> None:
    for half, other in (HALVES, HALVES[::-1]):
        guilty = [
            f"{path}:{line}"
            for module, path in SOURCES.items()
            if module.startswith(f"mblob.{half}")
            for line, name in imports(path)
            if name.startswith(f"mblob.{other}")
        ]
        assert guilty == []


# A room whose other files are its own affair.
ENTRIES = {
    "mblob.packager.join": {
        "mblob.packager.join.first_blob",
        "mblob.packager.join.join",
        "mblob.packager.join.reembed",
    }
}


def test_a_room_with_entries_is_entered_by_them() -> None:
    found: dict[str, set[str]] = {room: set() for room in ENTRIES}
    for module, path in SOURCES.items():
        for _, name in imports(path):
            if name in SOURCES and room_of(name) in ENTRIES and room_of(module) != room_of(name):
                found[room_of(name)].add(name)
    assert found == ENTRIES


def test_what_is_no_half_imports_the_standard_library_and_others_when_it_reads() -> None:
    found = {
        (module, name, (line, name) in imports(path, deferred=False))
        for module, path in SOURCES.items()
        if module.split(".")[1:2] not in (["packager"], ["loader"], ["cli"])
        for line, name in imports(path)
        if name.partition(".")[0] != "mblob" and not is_standard(name.partition(".")[0])
    }
    assert found == {
        # imported late
        ("mblob.binary.debug_sections", "elftools.dwarf.dwarf_expr", True),
        ("mblob.binary.debug_sections", "elftools.dwarf.dwarfinfo", True),
        ("mblob.binary.non_elf", "lief", False),
        ("mblob.native._native_build", "cffi", True),
        ("mblob.inspect.largest_difference", "numpy", False),
        ("mblob.compat.utilities", "numpy", False),
        ("mblob.pyinstaller.hook-mblob", "PyInstaller.utils.hooks", True),  # which runs it
    }


def test_the_command_line_imports_the_halves_only_when_a_verb_runs() -> None:
    guilty = [
        f"{path}:{line} {name}"
        for module, path in SOURCES.items()
        if module.startswith("mblob.cli")
        for line, name in imports(path, deferred=False)
        if name.split(".")[:2] in (["mblob", "packager"], ["mblob", "loader"])
        or not (name.partition(".")[0] == "mblob" or is_standard(name.partition(".")[0]))
    ]
    assert guilty == []


def test_no_folder_has_more_files_than_a_reader_can_look_through() -> None:
    count: dict[str, int] = {}
    for top in ("mblob", "packager", "loader", "csrc", "tests", "benchmarks", "examples"):
        for path in (ROOT / top).rglob("*"):
            if path.suffix in (".py", ".c", ".h", ".cc", ".cpp", ".hpp") and path.name not in (
                "_native.c",
                "_programs.c",
            ):
                folder = str(path.parent.relative_to(ROOT))
                count[folder] = count.get(folder, 0) + 1
    assert {
        folder: n
        for folder, n in count.items()
        if n > FILES_OF_A_FOLDER and folder != "tests/vectors"
    } == {}


VERBS = {
    "inspect": ["inspect", "FILE"],
    "functions": ["inspect", "FILE", "--functions"],
    "verify": ["verify", "FILE"],
    "verify against": ["verify", "FILE", "--against", "libc.so.6"],
    "diff": ["diff", "FILE", "FILE"],
    "extract": ["extract", "FILE", "-o", "OUT"],
    "no library": ["inspect", "/etc/passwd"],
}
# Each takes 2 ms or more behind what the command line itself imports; small files are looked into
# without them.
HEAVY = (
    "dataclasses", "inspect", "ast", "hashlib", "difflib", "tarfile", "tempfile", "shutil", "bz2", "lzma", "secrets",
    "random", "base64", "subprocess", "ctypes", "zipfile", "importlib.metadata",
)  # fmt: skip
# What a verb works with: `shutil` imports the other two.
WORKS_WITH = {"diff": {"difflib"}, "extract": {"shutil", "bz2", "lzma"}}


@pytest.mark.parametrize("verb", VERBS)
def test_looking_at_a_small_file_imports_little(verb: str, golden: Path, tmp_path: Path) -> None:
    words = [{"FILE": str(golden / "dag.so"), "OUT": f"{tmp_path}/"}.get(w, w) for w in VERBS[verb]]
    code = (
        "import sys\nfrom mblob.cli.command_line import execute\nexecute(sys.argv[1].split('|'))\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    root = Path(mblob.__file__).parents[1]
    cffi = importlib.util.find_spec("_cffi_backend")  # the judge of ELF files is libmblob
    assert cffi and cffi.origin
    done = subprocess.run(  # -S: what the environment itself imports does not count
        [sys.executable, "-S", "-c", code, "|".join(words)],
        capture_output=True,
        text=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(Path(cffi.origin).parent)},
    )
    assert done.returncode == 0, done.stderr
    loaded = set(done.stderr.splitlines()[-1].split())
    assert "mblob.inspect.library" in loaded or verb == "no library"
    assert sorted((loaded & set(HEAVY)) - WORKS_WITH.get(verb, set())) == []


PARSER = "import mblob.cli.command_line; mblob.cli.command_line.make_parser()"  # with all verbs


@pytest.mark.parametrize(
    "statement", ["import mblob", "import mblob.cli.main", PARSER, "import mblob; mblob.open"]
)
def test_looking_at_files_imports_no_compiler_driver_and_no_numpy(statement: str) -> None:
    code = f"import sys; {statement}; print(*(m for m in sys.argv[1:] if m in sys.modules))"
    heavy = ["numpy", "mblob.packager", "mblob.loader", "elftools", "lief", "pycparser", "cffi"]
    done = subprocess.run(
        [sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


QUESTION = "(?:What|Whether|Where|Who|Why|How)\\b"
# On top of a file, of a test or in C.
HEAD = re.compile(rf'(?:#.*\n)*"""{QUESTION}|/\* (?:\S+ - )?{QUESTION}')


def files(suffixes: str, *folders: str) -> list[Path]:
    """The files below folders of the tree that have one of the suffixes."""
    return [p for f in folders for s in suffixes.split() for p in sorted((ROOT / f).rglob(f"*{s}"))]


def test_docstrings_say_what_a_thing_is_or_does_and_begin_with_no_question() -> None:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    others = files(".py", "benchmarks", "docs/site", "csrc", "examples")
    guilty = [
        f"{path.relative_to(ROOT)}: {text.splitlines()[0]}"
        for path in (*SOURCES.values(), *others, *ROOT.glob("*.py"))
        for node in ast.walk(parsed(path))
        if isinstance(node, kinds) and (text := ast.get_docstring(node, clean=False))
        if re.match(QUESTION, text)
    ]
    assert guilty == []


def test_files_of_tests_and_of_c_begin_with_no_question() -> None:
    in_c = files(".c .h", "csrc/src", "csrc/plugins", "csrc/include", "loader/_call", "packager")
    guilty = [str(p) for p in (*files(".py", "tests"), *in_c) if HEAD.match(p.read_text())]
    assert guilty == []
