"""`--layout KEY=FORM`, for libraries without an index that have modules of a user's own kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mblob.cli.command_line import make_parser
from tests.loader.streams import LIB, item, library, string, strings, tree, u64

FORM = "string,u64,strings"
ACME = string(b"name") + u64(7) + strings(b"a", b"bc")
ITEMS = (LIB, item(b"acme", ACME), item(b"acme", ACME), tree([1, 2], [], []))


@pytest.fixture
def path(cc: Callable[..., Path], tmp_path: Path) -> Path:
    return library(cc, tmp_path / "s.so", *ITEMS)


def test_commands_take_layouts(path: Path, pack, tmp_path: Path) -> None:
    layout = f"--layout=acme={FORM}"
    done = pack("inspect", path, "--tree")
    assert done.returncode == 1
    assert "--layout acme=FORM" in done.stderr
    done = pack("inspect", path, "--tree", layout)
    assert (done.returncode, done.stdout.count("acme")) == (0, 2)
    assert pack("verify", path).returncode == 1
    assert pack("verify", path, layout).returncode == 0
    done = pack("extract", path, "--entry", "1", "-o", tmp_path / "p.bin", layout)
    assert done.returncode == 0
    assert (tmp_path / "p.bin").read_bytes() == ACME
    assert pack("add-index", path, "-o", tmp_path / "i.so", layout).returncode == 0
    assert pack("verify", tmp_path / "i.so").returncode == 0
    (tmp_path / "new.bin").write_bytes(string(b"n") + ACME[12:])
    done = pack("swap", path, f"--entry=1={tmp_path / 'new.bin'}", "-o", tmp_path / "s2.so", layout)
    assert done.returncode == 0, done.stderr
    assert pack("verify", tmp_path / "s2.so", layout).returncode == 0


def test_every_command_that_reads_a_library_takes_layouts(
    path: Path, cc: Callable[..., Path], pack, tmp_path: Path
) -> None:
    layout = f"--layout=acme={FORM}"
    assert pack("diff", path, path).returncode == 1
    done = pack("diff", path, path, layout)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    other = library(
        cc, tmp_path / "o.so", LIB, *[item(b"acme", ACME)] * 3, tree([1, 2, 3], [], [], [])
    )
    done = pack("diff", path, other, layout)
    assert (done.returncode, "+ entry [3] library/acme" in done.stdout) == (1, True)
    indexed, stripped = tmp_path / "i.so", tmp_path / "p.so"
    assert pack("add-index", path, "-o", indexed, layout).returncode == 0
    done = pack("strip-index", indexed, "-o", stripped)
    assert (done.returncode, "only the index says where its payload ends" in done.stderr) == (
        2,
        True,
    )
    assert pack("strip-index", indexed, "-o", stripped, layout).returncode == 0
    assert pack("verify", stripped, layout).returncode == 0
    convert = ("convert", path, "--dialect=ffi", "-o", tmp_path / "ffi.so")
    assert "--layout acme=FORM" in pack(*convert).stderr
    done = pack(*convert, layout)
    assert done.returncode == 0, done.stderr
    assert pack("inspect", tmp_path / "ffi.so", "--tree").stdout.count("acme") == 2
    last = library(
        cc, tmp_path / "l.so", LIB, item(b"acme", ACME), item(b"acme", ACME), tree([1], [2], [])
    )
    done = pack("run", last, "give", layout)
    assert "no loader for type key 'acme'" in done.stderr  # it was read; nobody opens its modules


def test_no_command_that_reads_a_library_is_forgotten() -> None:
    verbs = make_parser().verbs
    takes = {verb for verb, parser in verbs.items() if "--layout" in parser.format_help()}
    assert takes == verbs.keys() - {"build", "standalone", "import", "doctor", "completion"}


@pytest.mark.parametrize("layout", ["acme", "acme=", "=string", "acme=text"])
def test_a_wrong_layout_on_the_command_line_is_usage(path: Path, pack, layout: str) -> None:
    done = pack("inspect", path, "--layout", layout)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) <= 2
    assert done.stderr.startswith("mblob-pack: error: --layout: ")
