"""Error texts that several rooms share stand in one table, from which the C header is made."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mblob import texts
from mblob.packager.functions.wrappers import packed_forms
from mblob.packager.write.dialects import CLASSIC, FFI
from tests.unit.test_layering import parsed

ROOT = Path(__file__).resolve().parents[2]
HEADER = ROOT / "csrc/src/base/texts.h"
WORDS = 3  # fewer are no sentence: "an array"
# Rooms of C, by their folders; all Python is one more.
C_ROOMS = ("csrc/src", "csrc/plugins", "loader/_call", "packager/functions", "mblob/bytes")
# Left out: the readers of files in Python. csrc has a second, independent one, and about 85 texts
# stand in both. tests/vectors compares code, offset and entry of the two, tests/e2e/damage the
# texts of ELF files that it names. Installed headers (csrc/include) and
# rewritten C (packager/compile/vector_c) are compiled alone, in programs of others.
READERS = ("mblob/binary", "mblob/bytes", "mblob/format", "mblob/inspect")
MADE = {
    ROOT / name for name in ("csrc/src/base/type_keys.h", "csrc/src/base/texts.h", "mblob/texts.py")
}
# Sentences that are no texts of errors, and why they stand twice.
ALLOWED = {
    "unsigned long long": "a type of C, which compilers spell like this",
}

_CONVERSION = re.compile(r"%[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d+))?(?:hh|h|ll|l|z|j|t)?[a-zA-Z]")
_TOKEN = re.compile(
    r"/\*.*?\*/|//[^\n]*|\"((?:[^\"\\\n]|\\.)*)\"|'(?:[^'\\]|\\.)+'|[A-Za-z_]\w*|\s+|.", re.DOTALL
)


def c_literals(code: str) -> Iterator[tuple[int, str]]:
    """(line, text) of each string of C, those joined that stand side by side."""
    text, start, line = None, 0, 1
    for token in _TOKEN.finditer(code):
        word = token[0]
        if word[0] == '"':
            text, start = (text or "") + token[1].replace('\\"', '"'), start if text else line
        elif re.fullmatch(r"[A-Z][A-Z0-9_]+", word) and text is not None:
            text += "%s"  # a macro that is one
        elif not (word.isspace() or word == "\\" or word.startswith(("/*", "//"))):
            if text is not None:
                yield start, text
            text = None
        line += word.count("\n")
    if text is not None:
        yield start, text


def python_literals(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, text) of each string of Python but docstrings."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            parts = (p.value if isinstance(p, ast.Constant) else "%s" for p in node.values)
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def sentences(text: str) -> set[str]:
    """A text without its values, and what is behind its colons or in front of its advice."""
    plain = " ".join(_CONVERSION.sub("*", text).split())
    parts = plain.split(": ")
    found = {": ".join(parts[i:]) for i in range(len(parts))}
    found |= {sentence.partition("; ")[0] for sentence in found}
    found = {sentence.strip(" :;,.") for sentence in found}
    return {s for s in found if " " in s and len(re.findall("[A-Za-z]{2,}", s)) >= WORDS}


def room_of(path: str) -> str | None:
    if path.endswith((".c", ".h")):
        return next((room for room in C_ROOMS if path.startswith(f"{room}/")), None)
    return None if path.startswith(READERS) else "Python"


def rooms() -> dict[str, dict[str, list[str]]]:
    """The places of each sentence by room."""
    found: dict[str, dict[str, list[str]]] = {}
    for top in ("csrc", "loader", "mblob", "packager"):
        for path in sorted((ROOT / top).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            through_a_link = name.startswith(("mblob/loader/", "mblob/packager/"))
            if path.suffix not in (".c", ".h", ".py") or through_a_link or path in MADE:
                continue
            room = room_of(name)
            if room is None or path.name == "_native.c":
                continue
            is_python = path.suffix == ".py"
            literals = python_literals(parsed(path)) if is_python else c_literals(path.read_text())
            for line, text in literals:
                for sentence in sentences(text):
                    places = found.setdefault(sentence, {}).setdefault(room, [])
                    places.append(f"{name}:{line}")
    return found


@pytest.fixture(scope="module")
def spelled() -> dict[str, dict[str, list[str]]]:
    found = rooms()
    assert {room for places in found.values() for room in places} == {*C_ROOMS, "Python"}
    return found


def test_the_c_header_is_what_the_table_of_texts_makes() -> None:
    assert HEADER.read_text() == texts.header()


def test_no_text_is_spelled_in_two_rooms(spelled: dict[str, dict[str, list[str]]]) -> None:
    assert {s: r for s, r in spelled.items() if len(r) > 1 and s not in ALLOWED} == {}


def test_no_file_spells_a_text_of_the_table(spelled: dict[str, dict[str, list[str]]]) -> None:
    rows = {sentence for text in texts.TABLE.values() for sentence in sentences(text)}
    assert {sentence: spelled[sentence] for sentence in rows & set(spelled)} == {}


def test_every_row_is_used_and_every_used_one_is_there() -> None:
    used: set[str] = set()
    for top in ("csrc", "loader", "mblob", "packager"):
        for path in (ROOT / top).rglob("*"):
            if path.suffix in (".c", ".h", ".py") and path not in MADE:
                text = path.read_text(encoding="utf-8")
                used |= set(re.findall(r"\bMB_TEXT_([A-Z_]+)|\btexts\.([A-Z_]+)", text))
    names = {name for pair in used for name in pair if name}
    # MB_TEXT_NOWHERE is a place in a text
    assert names - {"NOWHERE", "FOR_PYTHON", "KINDS_OF_MISTAKES", "NESTING_LIMIT"} == set(
        texts.TABLE
    )


def test_generated_c_brings_the_texts_that_it_uses_and_no_others() -> None:
    for dialect in (CLASSIC, FFI):
        code = packed_forms([], dialect)
        defined = re.findall(r"^#define MB_TEXT_(\w+)", code, re.MULTILINE)
        assert {*defined} == set(re.findall(r"\bMB_TEXT_(\w+)", code))
        assert "DTYPE" in defined and "NO_DEVICE" not in defined


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('f("the wrong " /* of */\n "shape %d")', ["the wrong shape *"]),
        ('f("%s: the dtype is %s; convert it", x)', [
            "*: the dtype is *", "*: the dtype is *; convert it", "the dtype is *", "the dtype is *; convert it",
        ]),
        ("f('a', \"two words\") // \"in a comment\"", []),
        ('f("the old shape " MB_TEXT_SHAPE)', ["the old shape *"]),
    ],
)  # fmt: skip
def test_sentences_are_found_in_c(code: str, found: list[str]) -> None:
    assert sorted(s for _, text in c_literals(code) for s in sentences(text)) == found


def test_sentences_are_found_in_python() -> None:
    code = 'def f(x):\n  """Of a wrong kind."""\n  raise ValueError(f"{x}: no such {x} here")\n'
    assert [s for _, t in python_literals(ast.parse(code)) for s in sorted(sentences(t))] == [
        "*: no such * here",
        "no such * here",
    ]
