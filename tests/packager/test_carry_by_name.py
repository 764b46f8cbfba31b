"""Carried plug-ins that come with mblob: by name."""

from __future__ import annotations

import re
import runpy
import shutil
from pathlib import Path

import pytest

import mblob
from mblob.packager.link.build import build
from mblob.packager.link.manifest import load
from tests.packager.conftest import PackedLibrary
from tests.packager.plugins import exported, plugin, refused, write

# What is carried here is looked at, and most of the libraries have nothing for it to open.
pytestmark = pytest.mark.filterwarnings(
    "ignore:carry. .* and no module here has that key:UserWarning"
)


@pytest.fixture
def shipped(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree of sources with two plug-ins, which use what all share."""
    tree = tmp_path / "csrc"
    shutil.copytree(root / "csrc" / "plugins" / "common", tree / "plugins" / "common")
    for name in ("one", "two"):
        (tree / "plugins" / name).mkdir()
        text = plugin(
            name, f"{name}_key", before='#include "host.h"\n#include "base/json.h"\n'
        ).replace(
            "host = given;",
            "host = given;\n  if (mb_host_start(given)) return MBLOB_E_INCOMPATIBLE;",
        )
        write(tree / "plugins" / name / "plugin.c", text)
    text = runpy.run_path(str(root / "csrc" / "installed_sources.py"))["plugins"](tree)
    write(tmp_path / "mblob-plugins.c", text)
    monkeypatch.setattr("mblob.installed.library_dir", lambda: tmp_path)
    return tree


@pytest.mark.slow
def test_plug_ins_that_come_with_mblob_go_by_name(
    tree: mblob.Module, shipped: Path, tmp_path: Path
) -> None:
    tree.export_library(tmp_path / "plain.so")
    tree.export_library(tmp_path / "x.so", carry=["one", "two"])
    with mblob.open(tmp_path / "x.so") as lib:
        assert [p.name for p in lib.plugins] == ["one", "two"]
    found = exported(tmp_path / "x.so") - exported(tmp_path / "plain.so")
    assert found == {"__mblob_plugin_one", "__mblob_plugin_two"}
    PackedLibrary(tmp_path / "x.so")
    build(
        load(
            write(
                tmp_path / "m.toml",
                'output = "y.so"\ncarry = ["two"]\n[blobs]\ntwo_key = "m.toml"\n',
            )
        )
    )
    assert mblob.load_module(tmp_path / "y.so")["size"]() == (tmp_path / "m.toml").stat().st_size


def test_a_file_comes_before_a_name(
    tree: mblob.Module, shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "one", "")
    refused(tree, tmp_path, ["one"], "carry: one: suffix '', expected one of")


def test_a_name_that_there_is_not(tree: mblob.Module, shipped: Path, tmp_path: Path) -> None:
    refused(tree, tmp_path, ["three"], r"'three' is no file, .* that come with mblob \(one, two\)")


def test_they_are_compiled_as_the_runtime_compiles_them(root: Path) -> None:
    from mblob.packager.link import carried_plugins

    flags = dict(
        re.findall(r"^(\w+) := (.*)$", (root / "csrc" / "flags.mk").read_text(), re.MULTILINE)
    )
    assert set(flags["COMPILE"].split()) - {"-fPIC"} == set(carried_plugins.SHIPPED_OPTIONS)
