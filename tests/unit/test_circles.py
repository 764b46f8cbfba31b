"""Files that use each other in a circle can only be read together: no circle is of more than six."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tests.unit.test_layering import ROOT, SOURCES, imports

LARGEST = 6  # files of one circle


def circles(uses: Mapping[str, set[str]]) -> list[list[str]]:
    """The sets of files that reach each other, largest first (strongly connected components).

    One walk forwards gives an order, one walk backwards from its end a set at a time.
    """
    order: list[str] = []
    seen: set[str] = set()
    for start in uses:
        pending = [(start, False)]
        while pending:
            file, is_done = pending.pop()
            if is_done:
                order.append(file)
            elif file not in seen:
                seen.add(file)
                pending.append((file, True))
                pending += [(used, False) for used in sorted(uses[file] & set(uses))]
    users: dict[str, set[str]] = {file: set() for file in uses}
    for file in uses:
        for used in uses[file] & set(uses):
            users[used].add(file)
    found = []
    while order:
        together, backwards = [], [order[-1]]
        while backwards:
            file = backwards.pop()
            if file in seen:
                seen.remove(file)
                together.append(file)
                backwards += sorted(users[file] & seen)
        found.append(sorted(together))
        order = [file for file in order if file in seen]
    return sorted((c for c in found if len(c) > 1), key=len, reverse=True)


def test_circles_are_found() -> None:
    uses = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": {"d"}, "f": {"a", "f", "g"}}
    assert circles(uses) == [["a", "b", "c"], ["d", "e"]]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def too_large(uses: Mapping[str, set[str]]) -> list[str]:
    """A line for each circle with too many files."""
    return [f"{len(c)} files: {' '.join(c)}" for c in circles(uses) if len(c) > LARGEST]


def test_no_large_circle_of_python_files() -> None:
    uses = {
        module: {name for _, name in imports(path) if name in SOURCES and name != module}
        for module, path in SOURCES.items()
    }
    assert too_large(uses) == []


# ---- C ------------------------------------------------------------------------------------------

# Comments, texts, lines of the preprocessor, names of types.
NOISE = re.compile(
    r"""/\*.*?\*/|"(?:\\.|[^"\\])*"|^[ \t]*#.*?(?<!\\)$|(?<=\bstruct )\w+|(?<=\benum )\w+""",
    re.DOTALL | re.MULTILINE,
)
# A function or variable that begins in the first column, and is not static.
DEFINED = re.compile(
    r"^(?!static|extern|typedef)(?:\w|\(\w+\))(?:[\w \t*]|\(\w+\))*?[ *](\w+)(?:\(|\[| =|;)",
    re.MULTILINE,
)


def defined(text: str) -> set[str]:
    """The names that a C file defines for others."""
    found = set()
    for match in DEFINED.finditer(text):
        rest = text[match.end() - 1 :]
        if rest[0] != "(" or re.match(r"\([^;{]*\)\s*\{", rest):
            found.add(match[1])
    return found


MACRO = re.compile(r"^#define (\w+)((?:.*\\\n)*.*)", re.MULTILINE)


def words_of(text: str, macros: Mapping[str, set[str]]) -> set[str]:
    """The words of a text, and of the macros that it uses."""
    pending = set(re.findall(r"\w+", text))
    found: set[str] = set()
    while pending:
        found |= pending
        pending = {word for used in pending & set(macros) for word in macros[used]} - found
    return found


def uses_of_c(folder: Path, base: Path) -> dict[str, set[str]]:
    """The files of each C file's functions and variables, read without a compiler."""
    texts = {
        p.relative_to(base).as_posix(): NOISE.sub(" ", p.read_text()) for p in folder.rglob("*.c")
    }
    home: dict[str, set[str]] = {}
    for file, text in texts.items():
        for name in defined(text):
            home.setdefault(name, set()).add(file)
    macros = {
        name: set(re.findall(r"\w+", body))
        for header in folder.rglob("*.h")
        for name, body in MACRO.findall(header.read_text())
    }
    return {
        file: {
            f
            for name in words_of(text, macros) & set(home)
            for f in home[name]
            if file not in home[name]
        }
        for file, text in texts.items()
    }


def test_definitions_and_uses_are_read_from_c(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text(
        "/* c(); */ static int own(void) { return c; }\nconst char *a(int x,\n     int y) {\n"
        '  return "d";\n}\n#define B b\nint c(void);\nstruct s e = {0};\n'
    )
    (tmp_path / "b.c").write_text("int own;\nint b[2];\nvoid c(void) { (void)a(1, 2); e.x = 1; }\n")
    (tmp_path / "d.c").write_text("void d(void) {\n  M;\n}\n")
    (tmp_path / "d.h").write_text("#define M \\\n  N(1)\n#define N(x) a(x)\n")
    assert defined(NOISE.sub(" ", (tmp_path / "a.c").read_text())) == {"a", "e"}
    assert uses_of_c(tmp_path, tmp_path) == {"a.c": {"b.c"}, "b.c": {"a.c"}, "d.c": {"a.c"}}


def test_no_large_circle_of_c_files() -> None:
    folders = [ROOT / "csrc" / "src", *sorted((ROOT / "csrc" / "plugins").iterdir())]
    large = [c for folder in folders for c in too_large(uses_of_c(folder, ROOT / "csrc"))]
    assert large == []
