"""The binary interface of libmblob: what a program that was compiled with its headers relies on.

python -m tests.c.abi LIBRARY > tests/c/abi_0_1_0.txt

Each line is a key, " = " and a value. The layouts are those of machines whose pointers and longs have
64 bits.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pycparser import c_ast, c_generator, c_parser

from tests.e2e.programs import exported

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "csrc" / "include"
HEADERS = ("mblob.h", "mblob/plugin.h", "mblob/packed.h", "mblob/dlpack.h")
# What gcc's own headers write beside C.
_WORDS = (
    "-D__attribute__(x)=", "-D__extension__=", "-D__asm__(x)=", "-D__inline=inline", "-D__restrict=",
    "-D__builtin_va_list=int",
)  # fmt: skip
_NUMBER = re.compile(r"#define (MBLOB_(?!VERSION)\w+) (\(?-?(?:0[xX][0-9a-fA-F]+|\d+)[uUlL]*\)?)$")


def described(library: Path, include: Path = INCLUDE) -> dict[str, str]:
    """The interface, sorted by key.

    Args:
        library: libmblob.so. Of its functions that begin with mblob_, only those in the headers count:
            mblob's Python package calls others.
    """
    found = dict(_of_headers(include))
    for name, version in exported(library).items():
        if not name.startswith("mblob_") or f"function {name}" in found:
            found[f"symbol {name}"] = version
    return dict(sorted(found.items()))


def read(path: Path) -> dict[str, str]:
    """What a file has that this program wrote."""
    return dict(line.split(" = ", 1) for line in path.read_text().splitlines())


def breaks(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """What an old program relies on that the new interface does not have. Additions are no breaks, also
    members at the end of structures that begin with `struct_size`."""
    found = []
    for key, value in old.items():
        now = new.get(key)
        if now == value:
            continue
        kind, name = key.split(" ", 1)
        grows = kind == "struct" and f"member {name}.struct_size" in old and now is not None
        if grows and int(now or 0) > int(value):
            continue
        found.append(f"{key}: {value}, now {now}" if now is not None else f"{key}: removed")
    return found


def _of_headers(include: Path) -> Iterator[tuple[str, str]]:
    compiler = shlex.split(os.environ.get("CC") or "cc")
    text = "".join(f'#include "{header}"\n' for header in HEADERS)
    words = [*compiler, f"-I{include}", "-E", "-x", "c", "-"]
    plain = subprocess.run(
        [*words, *_WORDS], input=text, capture_output=True, text=True, check=True
    )
    macros = subprocess.run(
        [*words, "-dM"], input=text, capture_output=True, text=True, check=True
    ).stdout
    for macro in filter(None, map(_NUMBER.match, macros.splitlines())):
        yield f"macro {macro[1]}", macro[2].strip("()")
    questions: list[str] = []
    for node in c_parser.CParser().parse(plain.stdout).ext:
        if str(include) in str(node.coord):
            yield from _of_declaration(node, questions)
    yield from _answers(compiler, include, text, questions)


def _of_declaration(node: Any, questions: list[str]) -> Iterator[tuple[str, str]]:
    """The lines of a declaration; what only a compiler knows is asked in C."""
    if isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.FuncDecl):
        if not {"static", "inline"} & {*node.storage, *node.funcspec}:
            yield f"function {node.name}", _text(node.type)
        return
    made = getattr(node, "type", None)
    if isinstance(node, c_ast.Typedef) and isinstance(made, (c_ast.PtrDecl, c_ast.FuncDecl)):
        yield f"type {node.name}", _text(made)
    inner = made.type if isinstance(made, c_ast.TypeDecl) else made
    if isinstance(inner, c_ast.Enum) and inner.values:
        for one in inner.values.enumerators:
            questions.append(_ask(f"enumerator {one.name}", f"(long)({one.name})"))
    if isinstance(inner, (c_ast.Struct, c_ast.Union)) and inner.decls:
        tag = "struct" if isinstance(inner, c_ast.Struct) else "union"
        name = node.name or f"{tag} {inner.name}"
        shown = node.name or inner.name
        questions.append(_ask(f"struct {shown}", f"(long)sizeof({name})"))
        for member in inner.decls:
            if member.name is None:
                continue
            key = f"member {shown}.{member.name}"
            place = f"(long)offsetof({name}, {member.name})"
            size = f"(long)sizeof((({name} *)0)->{member.name})"
            questions.append(_ask(key, place, size, _text(member.type)))


def _ask(key: str, *numbers: str) -> str:
    """A statement in C that prints a line; the last of four words is a text."""
    if len(numbers) == 1:
        return f'printf("{key} = %ld\\n", {numbers[0]});'
    place, size, text = numbers
    shown = text.replace("%", "%%").replace('"', '\\"')
    return f'printf("{key} = at %ld, %ld bytes, {shown}\\n", {place}, {size});'


def _answers(
    compiler: list[str], include: Path, text: str, questions: list[str]
) -> Iterator[tuple[str, str]]:
    body = "\n  ".join(questions)
    source = f"#include <stddef.h>\n#include <stdio.h>\n{text}int main(void) {{\n  {body}\n}}\n"
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "layout"
        words = [*compiler, f"-I{include}", "-x", "c", "-", "-o", str(program)]
        subprocess.run(words, input=source, text=True, check=True)
        for line in subprocess.run([program], capture_output=True, text=True).stdout.splitlines():
            key, _, value = line.partition(" = ")
            yield key, value


def _text(node: Any) -> str:
    """A type without the names of parameters, which are no part of the interface."""
    for inner in _nodes(node):
        if isinstance(inner, c_ast.TypeDecl):
            inner.declname = None
        elif isinstance(inner, c_ast.Decl):
            inner.name = None
    made = c_generator.CGenerator().visit(c_ast.Typename(None, [], None, node))
    return " ".join(str(made).split())


def _nodes(node: Any) -> Iterator[Any]:
    yield node
    for _, child in node.children():
        yield from _nodes(child)


if __name__ == "__main__":
    for line in described(Path(sys.argv[1])).items():
        print(*line, sep=" = ")
