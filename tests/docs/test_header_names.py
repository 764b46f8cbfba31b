"""The comments of mblob's C headers name only what their readers find."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.built_once import ROOT

INCLUDE = ROOT / "csrc" / "include"
PUBLIC = [INCLUDE / "mblob.h", *sorted((INCLUDE / "mblob").glob("*.h"))]
COMMENT = re.compile(r"/\*.*?\*/", re.S)
NAME = re.compile(r"(?<![\w$])(?:mblob_|MBLOB_|TVM|kTVM|kDL|DL[A-Z])\w*[a-zA-Z0-9](?!\w|\*)")
PROSE = {"TVM", "DLPack", "MBLOB"}


def code_of(path: Path, seen: set[Path]) -> str:
    """What a header and those of mblob that it includes declare, without comments."""
    if path in seen or not path.is_file():
        return ""
    seen.add(path)
    text = COMMENT.sub(" ", path.read_text())
    included = re.findall(r'#include ["<]([\w./]+)[">]', text)
    folders = (path.parent, INCLUDE, INCLUDE / "mblob" / "compat")
    return text + "".join(code_of(folder / name, seen) for name in included for folder in folders)


def unknown(path: Path, text: str) -> list[str]:
    """Names in the comments of a header that neither it nor a header beside the name declares."""
    whole = code_of(INCLUDE / "mblob.h", set())  # which programs include, whatever they need
    declared = set(re.findall(r"\w+", whole + code_of(path, set())))
    found = []
    for comment in COMMENT.findall(text):
        named = "".join(
            code_of(INCLUDE / "mblob" / "compat" / name, set())
            for name in re.findall(r"<([\w./]+\.h)>", comment)
        )
        if "<tvm/ffi/c_api.h>" in comment:  # tvm_ffi's own, whose functions libmblob-ffi has
            named += (ROOT / "csrc/plugins/ffi/exported.c").read_text()
        known = declared | set(re.findall(r"\w+", named)) | PROSE
        found += [name for name in NAME.findall(comment) if name not in known]
    return found


@pytest.mark.parametrize("path", PUBLIC, ids=lambda p: p.name)
def test_what_a_comment_names_is_declared_or_named_with_its_header(path: Path) -> None:
    assert unknown(path, path.read_text()) == []


def test_a_name_of_elsewhere_is_found() -> None:
    path = INCLUDE / "mblob.h"
    said = (
        "/* Give it back with TVMArrayFree. */ /* TVMArrayFree of <tvm/runtime/c_runtime_api.h> */"
    )
    assert unknown(path, said) == ["TVMArrayFree"]
