"""Type keys stand in one table, from which the C header is made."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from mblob.format import type_keys
from mblob.format.grammar import FFI_GRAMMARS, FIELDS, GRAMMARS
from mblob.format.type_keys import NONE, ROWS, TABLE

ROOT = Path(__file__).resolve().parents[2]
TABLE_FILE, HEADER = ROOT / "mblob/format/type_keys.py", ROOT / "csrc/src/base/type_keys.h"
KEYS = {*ROWS, type_keys.SAFETENSORS}
# Words that are other things, too: kinds of devices, formats of code, suffixes, arguments. Where
# they are a type key is told by what they are compared with, or given to.
OF_OTHERS = {
    "cuda", "hip", "hsaco", "opencl", "metal", "vulkan", "webgpu", "opengl", "hexagon", "c", "static_library",
    "metadata", "torch", "safetensors",
}  # fmt: skip


def product(*suffixes: str) -> list[Path]:
    found = [
        p
        for f in ("mblob", "packager", "loader", "csrc/src", "csrc/plugins")
        for p in (ROOT / f).rglob("*")
    ]
    found = [
        p
        for p in found
        if p.suffix in suffixes and p not in (TABLE_FILE, HEADER) and p.name != "_native.c"
    ]
    assert len(found) > 100
    return found


def test_the_c_header_is_what_the_table_makes() -> None:
    assert HEADER.read_text() == type_keys.header()


def test_every_key_is_there_once_with_fields_that_are_known() -> None:
    assert len(ROWS) == len(TABLE)
    for row in TABLE:
        for text in (row.classic, row.ffi):
            for form in text.rpartition(" ? ")[2].split("|"):
                assert text == NONE or all(
                    word.partition(":")[2] in FIELDS for word in form.split()
                )
        assert type_keys.FIRST <= row.first <= row.last <= type_keys.LAST
        assert row.ffi != NONE or row.last <= 23 or not row.no_ffi
    assert GRAMMARS.keys() == ROWS.keys() and FFI_GRAMMARS.keys() == {
        r.key for r in TABLE if r.ffi != NONE
    }


def _is_of_a_key(node: ast.expr) -> bool:
    """Whether an expression is a type key by its name."""
    name = (
        node.attr
        if isinstance(node, ast.Attribute)
        else node.id
        if isinstance(node, ast.Name)
        else ""
    )
    return name in ("type_key", "key", "keys", "type_keys")


def _words(node: ast.expr) -> list[str]:
    return [
        n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)
    ]


def test_no_other_python_file_of_the_product_spells_a_key() -> None:
    guilty = []
    for path in product(".py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and node.value in KEYS - OF_OTHERS:
                guilty.append(f"{path}:{node.lineno}: {node.value!r}")
            elif isinstance(node, ast.Compare) and _is_of_a_key(node.left):
                # of a graph, too
                words = [
                    w
                    for c in node.comparators
                    for w in _words(c)
                    if w in KEYS - {type_keys.METADATA}
                ]
                guilty += [f"{path}:{node.lineno}: {word!r}" for word in words]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
                words = (
                    _words(node.args[0])
                    if node.func.id in ("OutEntry", "PayloadNode", "Module")
                    else []
                )
                guilty += [f"{path}:{node.lineno}: {w!r}" for w in words if w in KEYS]
    assert guilty == []


@pytest.mark.parametrize("key", sorted(KEYS - OF_OTHERS))
def test_no_c_file_spells_a_key(key: str) -> None:
    guilty = [str(p) for p in product(".c", ".h") if f'"{key}"' in p.read_text()]
    assert guilty == []


def test_no_c_file_compares_or_declares_a_key_by_its_text() -> None:
    pattern = re.compile(
        r'(?:type_keys?|->key|\bkey)\b[^;\n]{0,24}"(' + "|".join(map(re.escape, KEYS)) + ')"'
    )
    guilty = [f"{p}: {m[0]}" for p in product(".c", ".h") for m in pattern.finditer(p.read_text())]
    assert [g for g in guilty if not g.endswith('key, "metadata"')] == []  # of a graph
