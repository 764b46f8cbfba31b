"""The manifest of `mblob-pack build model.toml`. Paths in it are relative to its folder.

    output = "deploy.so"
    kernels = ["vadd.c", "conv.cc"]            # C, C++, CUDA, Fortran sources
    objects = ["old.o", "more.a"]
    functions = ["void vadd(const float *a, const float *b, float *c, int64_t n)"]
    packed = ["vadd"]                          # packed functions under these very names; "name": all
    weights = ["model.safetensors"]            # or one text
    carry = ["plugin.c"]                       # plug-ins that the library brings (mblob/plugin.h)
    graph = "graph.json"                       # whose operators are functions of the library
    params = "model.safetensors"               # of the graph, or of a Relax program
    order = "names.json"                       # of the parameters of a Relax program
    name = "default"                           # of the function that makes its executor
    options = ["-O3"]                          # or one text
    cc = "gcc"
    target = "x86_64-linux-gnu"
    dialect = "classic"
    embed = "auto"
    align = 64                                 # of the files in [blobs]: a power of two up to 4096
    index = true
    digest = "crc32"
    system_lib = true                          # for static linking: output .o, .a or .tar
    prefix = "vadd_"                           # of its symbols
    standalone = true                          # with the runtime inside, and a C interface
    header = "whole.h"                         # of that interface
    reuse = false                              # share no blocks with the library that is there

    [blobs]
    labels = "labels.txt"                      # type key = file

    [shapes]                                   # of a standalone library: what the model does not tell
    data = "float32[1, 3]"

    [imports]                                  # default: the library imports everything
    library = ["weights"]                      # "weights", or the file's stem if there are several
    weights = ["labels"]

Only `output` (or `-o`) and something to pack are needed.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mblob.errors import did_you_mean, needs_package
from mblob.packager.compile.toolchain import command_words
from mblob.packager.errors import BuildError
from mblob.packager.link.build import BuildPlan
from mblob.packager.modules.host_modules import refuse_language
from mblob.packager.modules.payload_modules import check_alignment
from mblob.packager.options import as_options
from mblob.packager.path_arguments import existing_file
from mblob.packager.write.dialects import CHOICES, check_choices
from mblob.texts import NESTING_LIMIT

_SIZE_LIMIT = 1 << 20  # bytes of a manifest
# What in TOML may hold brackets and dots that mean nothing: strings and comments. A string without
# an end goes on to the end of the text, so that each character is looked at once.
_STRINGS = re.compile(
    r"""
    \"{3} [^"\\]* (?: (?: \\.? | "{1,2}(?!") ) [^"\\]* )* (?: "{3,5} | \Z )
    | '{3} .*? (?: '{3,5} | \Z )
    | " [^"\\\n]* (?: \\.? [^"\\\n]* )* "?
    | ' [^'\n]* '?
    | \# [^\n]*
    """,
    re.DOTALL | re.VERBOSE,
)
_LONG_KEY = re.compile(rf"(?:\.[^.=,\[\]{{}}\n]*){{{NESTING_LIMIT}}}")

_TEXTS = ("cc", "target", "dialect", "embed", "digest", "prefix", "name")
_FLAGS = ("index", "system_lib", "standalone", "reuse")
_PATHS = ("kernels", "objects", "weights")
_FILES = ("graph", "params", "order", "header")
_KEYS = (
    "output",
    *_PATHS,
    "carry",
    *_FILES,
    "functions",
    "packed",
    "blobs",
    "align",
    "imports",
    "shapes",
    "options",
    *_FLAGS,
    *_TEXTS,
)


def load(path: str | os.PathLike[str], output: Path | None = None) -> BuildPlan:
    """Read a manifest.

    Args:
        path: the manifest.
        output: the file to write, instead of what the manifest says.

    Raises:
        OSError: it cannot be read.
        BuildError: it is no TOML, or has a key or value that means nothing; the text names file and
            key.
    """
    path = Path(path)
    refuse_language(path)  # of a source that stands where the manifest does
    table = _parse(path)
    if unknown := sorted(set(table) - set(_KEYS)):
        raise BuildError(
            f"{path}: unknown key {unknown[0]!r}; expected some of {', '.join(_KEYS)}"
            f"{did_you_mean(unknown[0], _KEYS)}"
        )
    folder = path.parent
    if output is None:
        if "output" not in table:
            raise BuildError(f'{path}: no output; expected output = "deploy.so", or -o')
        output = folder / _text(path, "output", table["output"])
    values: dict[str, Any] = {"output": output, "manifest": path}
    for key in _TEXTS:
        if key in table:
            values[key] = _text(path, key, table[key])
    check_choices(f"{path}: ", **{name: values[name] for name in CHOICES if name in values})
    if "cc" in values:
        values["cc"] = shlex.join(command_words(values["cc"], folder))
    for key in _PATHS:
        if key in table:
            values[key] = [folder / item for item in _texts(path, key, table[key])]
    if "carry" in table:
        items = _texts(path, "carry", table["carry"])
        names = {item for item in items if item.isidentifier() and not (folder / item).exists()}
        values["carry"] = [item if item in names else folder / item for item in items]
    for key in _FILES:
        if key in table:
            values[key] = folder / _text(path, key, table[key])
    for key in ("functions", "packed"):
        if key in table:
            values[key] = _texts(path, key, table[key])
    if "options" in table:
        options = table["options"]
        words = options if isinstance(options, str) else _texts(path, "options", options)
        values["options"] = list(as_options(words, folder))
    for key in _FLAGS:
        if key in table:
            if not isinstance(table[key], bool):
                raise BuildError(
                    f"{path}: {key}: expected true or false, found {_shown(table[key])}"
                )
            values[key] = table[key]
    if "align" in table:
        values["align"] = check_alignment(f"{path}: align", table["align"])
    blobs = _table(path, "blobs", table.get("blobs", {}))
    values["blobs"] = [
        (key, folder / _text(path, f"blobs.{key}", file)) for key, file in blobs.items()
    ]
    if "shapes" in table:
        rows = _table(path, "shapes", table["shapes"])
        values["shapes"] = {
            name: _text(path, f"shapes.{name}", text) for name, text in rows.items()
        }
    imports = _table(path, "imports", table.get("imports", {}))
    values["imports"] = [
        (name, _texts(path, f"imports.{name}", items)) for name, items in imports.items()
    ]
    return BuildPlan(**values)


def _parse(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        try:
            import tomli as tomllib
        except ModuleNotFoundError:
            raise needs_package(f"{path}: a manifest", "tomli") from None
    with existing_file(path, "manifest").open("rb") as file:
        raw = file.read(_SIZE_LIMIT + 1)
    expected = f"{path}: expected a manifest in TOML"
    if len(raw) > _SIZE_LIMIT:
        raise BuildError(f"{expected}, found a file of more than {_SIZE_LIMIT} bytes")
    try:
        text = raw.decode().replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise BuildError(f"{expected}, found a binary file") from None
    _check_depth(text, expected)
    try:
        return tomllib.loads(text)
    except ValueError as exc:  # also of a number that Python does not convert
        raise BuildError(f"{expected}: {exc}") from None


def _check_depth(text: str, expected: str) -> None:
    """Refuse what the parser would need stack or memory for: it recurses for each bracket, and
    keeps every beginning of a dotted key."""
    outside = _STRINGS.sub("s", text).replace(" ", "").replace("\t", "")
    depth = 0
    for bracket in re.findall(r"[][{}]", outside):
        depth += 1 if bracket in "[{" else -1
        if depth > NESTING_LIMIT:
            raise BuildError(f"{expected}: brackets nest deeper than {NESTING_LIMIT} levels")
    if _LONG_KEY.search(outside):
        raise BuildError(f"{expected}: a dotted key has more than {NESTING_LIMIT} parts")


def _shown(value: Any) -> str:
    """A value about as TOML writes it."""
    text = repr(value) if isinstance(value, str) else json.dumps(value, default=str)
    return f"{text:.80}"


def _text(path: Path, key: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise BuildError(f"{path}: {key}: expected a text, found {_shown(value)}")
    if "\0" in value:
        raise BuildError(f"{path}: {key}: {value!r} has a NUL in it")
    return value


def _texts(path: Path, key: str, value: Any) -> list[str]:
    """A list of texts; one text alone is a list of one."""
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list):
        raise BuildError(f"{path}: {key}: expected a list of texts, found {_shown(value)}")
    return [_text(path, key, item) for item in value]


def _table(path: Path, key: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise BuildError(f"{path}: {key}: expected a table, found {_shown(value)}")
    return value
