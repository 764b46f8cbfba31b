"""docs/compatibility.md: its numbers are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

from mblob.cli.report import EXIT_CODES
from mblob.format import index
from mblob.inspect.inspect_json import schema


def rows(root: Path, heading: str) -> dict[str, str]:
    text = (root / "docs" / "compatibility.md").read_text()
    begin = text.index(f"## {heading}")
    return dict(
        re.findall(
            r"^\| ([^|]+?) \| ([^|]+?) \|", text[begin : text.index("\n## ", begin)], re.MULTILINE
        )
    )


def test_versions_are_those_of_the_code(root: Path) -> None:
    found = rows(root, "Versions")
    include = root / "csrc" / "include"
    (abi,) = re.findall(r"#define MBLOB_ABI_VERSION (\d+)", (include / "mblob.h").read_text())
    (plugin,) = re.findall(
        r"#define MBLOB_PLUGIN_ABI (\d+)", (include / "mblob" / "plugin.h").read_text()
    )
    (soname,) = re.findall(
        r"^SONAME := (\S+)", (root / "csrc" / "flags.mk").read_text(), re.MULTILINE
    )
    assert found["index, which lists the modules in a file"] == str(index.VERSION)
    assert (found["`MBLOB_ABI_VERSION`"], found["`MBLOB_PLUGIN_ABI`"], found["SONAME"]) == (
        abi,
        plugin,
        f"`{soname}`",
    )
    assert found["JSON of `inspect`"].strip("`") in str(schema())


def test_exit_codes_are_those_of_the_command(root: Path) -> None:
    found = rows(root, "Exit codes")
    for code, text in EXIT_CODES:
        assert found[str(code)].startswith(text)
