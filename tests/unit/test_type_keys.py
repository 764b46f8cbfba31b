"""Type keys stand in one table, from which the C header is made."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from mblob.format import type_keys
from mblob.format.grammar import FFI_GRAMMARS, FIELDS, GRAMMARS
from mblob.format.type_keys import NONE, ROWS, TABLE
from tests.unit.test_layering import parsed
from tests.unit.test_texts import c_literals

ROOT = Path(__file__).resolve().parents[2]
TABLE_FILE, HEADER = ROOT / "mblob/format/type_keys.py", ROOT / "csrc/src/base/type_keys.h"
KEYS = {*ROWS, type_keys.SAFETENSORS, *type_keys.RESERVED}
# Words that are other things, too: kinds of devices, formats of code, suffixes, arguments. Where
# they are a type key is told by what they are compared with, or given to.
OF_OTHERS = {
    "cuda", "hip", "hsaco", "opencl", "metal", "vulkan", "webgpu", "opengl", "hexagon", "c", "static_library",
    "metadata", "torch", "safetensors", "library", "_lib",
}  # fmt: skip
OF_A_GRAPH = {("graph_json.py", "metadata")}  # a key of graph JSON


def product(*suffixes: str) -> list[Path]:
    found = [
        p
        for f in ("mblob", "packager", "loader", "csrc/src", "csrc/plugins")
        for p in (ROOT / f).rglob("*")
    ]
    found = [
        p
        for p in found
        if p.suffix in suffixes
        and p not in (TABLE_FILE, HEADER)
        and p.name != "_native.c"
        and p.parent.name != "_lib"  # made of csrc
    ]
    assert len(found) > 100
    return found


def test_the_c_header_is_what_the_table_makes() -> None:
    assert HEADER.read_text() == type_keys.header()


def test_c_reads_each_type_of_field_but_the_rest_of_a_payload() -> None:
    """A payload with `r` has its length in the stream, so C never walks it."""
    source = (ROOT / "csrc/src/format/payload_grammar.c").read_text()
    enumerators = source.partition("enum field {")[2].partition("};")[0]
    in_c = set(re.findall(r"=\s*'(.)'", enumerators))
    assert in_c == FIELDS.keys() - {"r"}
    grammars = re.findall(
        r'"[^" ]+ ([^"]*)\\0" \\$', HEADER.read_text().partition("MB_KEY_NEEDS")[0], re.M
    )
    letters = {
        letter
        for grammar in grammars
        for form in (grammar.split(" ")[::2])  # texts stand between two forms
        for letter in form
    }
    assert letters == in_c


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


NAMES = {"key", "keys", "type_key", "type_keys"}  # of what holds a type key
NAMES_OF_DEVICES = {*NAMES, "kind", "kinds", "language"}  # in packager/device
MAKERS = {"OutEntry": 0, "PayloadNode": 0, "Module": 0, "Entry": 1}  # where each takes a key


def _words(*nodes: ast.AST | None) -> list[str]:
    """The type keys that stand in expressions, as text or bytes."""
    values = (
        n.value for node in nodes if node for n in ast.walk(node) if isinstance(n, ast.Constant)
    )
    texts = (v.decode("latin-1") if isinstance(v, bytes) else v for v in values)
    return [t for t in texts if isinstance(t, str) and t in KEYS]


def _is_named(node: ast.AST, names: set[str]) -> bool:
    """Whether an expression is a key by its name: `key`, `entry.key`, `row["key"]`, `key.lower()`."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and _is_named(node.func.value, names)
    if isinstance(node, ast.Subscript):
        node = node.slice
        return isinstance(node, ast.Constant) and node.value in names
    return (getattr(node, "attr", None) or getattr(node, "id", None)) in names


def _in_a_comparison(node: ast.AST, names: set[str]) -> list[str]:
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        if any(_is_named(side, names) for side in sides):
            return _words(*(s for s in sides if not _is_named(s, names)))
    elif type(node).__name__ == "Match" and _is_named(node.subject, names):  # type: ignore[attr-defined]
        return _words(*(case.pattern for case in node.cases))  # type: ignore[attr-defined]
    return []


def _given(node: ast.AST, names: set[str]) -> list[str]:
    """In what is given to something that is a key by its name, or asked of it."""
    if isinstance(node, ast.Call):
        function, found = node.func, []
        for k in node.keywords:
            if k.arg in names and not isinstance(k.value, ast.Lambda):  # the key of a sort
                found += _words(k.value)
        place = next((p for n, p in MAKERS.items() if _is_named(function, {n})), None)
        if place is not None:
            found += _words(*node.args[place : place + 1])
        if isinstance(function, ast.Attribute) and _is_named(function.value, names):
            found += _words(*node.args)
        if isinstance(function, ast.Attribute) and any(_is_named(a, names) for a in node.args):
            found += _words(function.value)  # {"cuda": 1}.get(key)
        return found
    if isinstance(node, ast.Subscript) and _is_named(node.slice, names):
        return _words(node.value)
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return _words(node.value) if any(_is_named(t, names) for t in targets) else []
    if isinstance(node, ast.arguments):
        takers = [*node.posonlyargs, *node.args][::-1]
        pairs = [*zip(takers, node.defaults[::-1]), *zip(node.kwonlyargs, node.kw_defaults)]
        return _words(*(default for taker, default in pairs if taker.arg in names))
    return []


def _in_a_table(node: ast.AST, of_devices: bool) -> list[str]:
    """In a collection of keys alone; with `of_devices` in the keys of any dict, and in subscripts."""
    if of_devices and isinstance(node, ast.Subscript):
        return _words(node.slice)
    if isinstance(node, (ast.Dict, ast.Set, ast.Tuple, ast.List)):
        items = node.keys if isinstance(node, ast.Dict) else node.elts
        found = _words(*(i for i in items if isinstance(i, ast.Constant)))
        if (isinstance(node, ast.Dict) and of_devices) or 1 < len(items) == len(found):
            return found
    return []


def spelled(tree: ast.Module, of_devices: bool = False) -> list[tuple[int, str]]:
    """Lines of a Python source that spell a type key, each with the key."""
    names = NAMES_OF_DEVICES if of_devices else NAMES
    found = set()
    if not _words(tree):  # most files
        return []
    for node in ast.walk(tree):
        words = [
            *_in_a_comparison(node, names),
            *_given(node, names),
            *_in_a_table(node, of_devices),
        ]
        if isinstance(node, ast.Constant):
            words += [w for w in _words(node) if w not in OF_OTHERS]
        found |= {(node.lineno if hasattr(node, "lineno") else 0, word) for word in words}
    return sorted(found)


def test_no_other_python_file_of_the_product_spells_a_key() -> None:
    guilty = [
        f"{path}:{line}: {word!r}"
        for path in product(".py")
        for line, word in spelled(parsed(path), "packager/device" in str(path))
        if (path.name, word) not in OF_A_GRAPH
        and path.name != "typed.py"  # types, which take literals only
    ]
    assert guilty == []


@pytest.mark.parametrize(
    "source",
    [
        "x == 'dnnl_json'",
        "raw != b'_import_tree'",
        "key == 'cuda'",
        "'cuda' == entry.type_key",
        "entry.type_key in ('cuda', other)",
        "key.startswith('metal')",
        "PayloadNode('c', payload)",
        "nodes.PayloadNode('c', payload)",
        "Entry(0, 'library', None)",
        "thing(type_key='hip')",
        "type_key: str = 'opencl'",
        "def f(a, key='vulkan'): ...",
        "def f(*, type_key='vulkan'): ...",
        "TABLE = {'cuda': 1, 'hip': 2}",
        "TABLE = ('cuda', 'hip')",
        "row['type_key'] == 'cuda'",
        "entry.type_key.lower() == 'cuda'",
        "{'cuda': 1}[key]",
        "{'cuda': 1}.get(entry.type_key)",
    ],
)
def test_a_key_that_is_spelled_is_seen(source: str) -> None:
    assert spelled(ast.parse(source)) != []


@pytest.mark.parametrize(
    "source",
    ["kind == 'cuda'", "TABLE = {'cuda': f, **others}", "TABLE['hip'] = f", "language in ('hip',)"],
)
def test_a_key_that_is_spelled_where_kinds_are_keys_is_seen(source: str) -> None:
    tree = ast.parse(source)
    assert spelled(tree, of_devices=True) != [] == spelled(tree)


def test_words_that_are_other_things_are_left_alone() -> None:
    source = (
        "kind == 'cuda'; fmt = 'hip'; run('-x', 'cuda'); d = {'library': 1}; ('metadata', 'doc')"
    )
    assert spelled(ast.parse(source)) == []


# Words of C that are other things: names of devices and of plug-ins, a machine, a key of graph JSON.
C_WORDS = {
    "csrc/src/base/device_types.h": {
        "cuda", "hexagon", "metal", "opencl", "opengl", "vulkan", "webgpu",
    },
    "csrc/src/core/device/device.c": {"c"},
    "csrc/src/core/library/library.c": {"library"},
    "csrc/src/elf/elf.c": {"hexagon"},
    "csrc/src/exec/graph/graph_text.c": {"metadata"},
    **{f"csrc/plugins/cuda/{name}.c": {"cuda"} for name in ("code", "context", "memory", "plugin")},
    **{f"csrc/plugins/opencl/{name}.c": {"opencl"} for name in ("cl_device", "cl_memory", "plugin")},
}  # fmt: skip


def test_no_c_file_spells_a_key() -> None:
    found: dict[str, set[str]] = {}
    for path in product(".c", ".h"):
        words = KEYS & {text.partition("\\0")[0] for _, text in c_literals(path.read_text())}
        if words:
            found[path.relative_to(ROOT).as_posix()] = words
    assert found == C_WORDS


def test_a_key_that_c_spells_is_seen() -> None:
    code = (
        'if (strcmp("cuda", key)) f((struct row[]){{"hip", start}}, "metal\\0" "vulkan\\0"); // "c"'
    )
    assert KEYS & {text.partition("\\0")[0] for _, text in c_literals(code)} == {
        "cuda",
        "hip",
        "metal",
    }


def test_the_document_of_the_format_has_every_key() -> None:
    text = (ROOT / "docs/format.md").read_text()
    listed = text.partition("### 3.1")[2].partition("### 3.2")[0]
    table = [line.split(" | ")[0] for line in listed.splitlines() if line.startswith("| `")]
    assert {k.strip("`| ") for row in table for k in row.split(",")} == {
        *ROWS,
        type_keys.SAFETENSORS,
    }
