"""Plug-ins and loaders in C tell where payloads end, in libraries without an index: to the runtime,
and to Python's readers of files."""

from __future__ import annotations

import ctypes
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from mblob.compilers import include_flags
from mblob.loader.plugins import plugins
from tests.loader.streams import LIB, item, library, string, strings, tree, u64
from tests.packager.plugins import plugin

FORM = "string,u64,strings"
TOY = string(b"name") + u64(7) + strings(b"a", b"bc")
ITEMS = (LIB, item(b"toy_key", TOY), item(b"toy_key", TOY), tree([1, 2], [], []))


def telling(layouts: str) -> str:
    """A plug-in with layouts in its table."""
    text = plugin()
    assert text.count(" 1, 0};") == 1
    return text.replace(" 1, 0};", f' 1, 0, NULL, "{layouts}"}};')


def shared(source: str, output: Path, *flags: str) -> Path:
    """A shared library without mblob's: a plug-in."""
    source_file = output.with_suffix(".c")
    source_file.write_text(source)
    command = ["cc", "-shared", "-fPIC", *include_flags(), source_file, "-o", output, *flags]
    subprocess.run(command, check=True)
    return output


def host(source: str, output: Path) -> None:
    """A shared library of a host, loaded; its constructor registers something."""
    folder = mblob.get_library_dir()
    shared(source, output, "-DMBLOB_HOST", f"-L{folder}", "-lmblob", f"-Wl,-rpath,{folder}")
    ctypes.CDLL(str(output))


def opens(path: Path) -> bool:
    """Whether the runtime opens the library; Python's reader sees the same."""
    try:
        with mblob.open(path) as looked:
            sizes = [(e.type_key, e.size) for e in looked.entries]
    except mblob.FormatError as error:
        assert error.code in ("unknown_key", "layout")
        with pytest.raises(mblob.FormatError) as caught:
            mblob.load_module(path)
        assert (caught.value.code, caught.value.offset) == (error.code, error.offset)
        return False
    assert sizes == [("library", 0), ("toy_key", len(TOY)), ("toy_key", len(TOY))]
    lib = mblob.load_module(path)
    assert [m["size"]() for m in lib.imported_modules] == [len(TOY)] * 2
    return True


@pytest.mark.own_process
def test_a_plug_in_in_a_file_tells_it(
    cc: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = library(cc, tmp_path / "s.so", *ITEMS)
    assert not opens(path)
    for folder, text in (("old", plugin()), ("new", telling(f"other=u8 toy_key={FORM}"))):
        (tmp_path / folder).mkdir()
        shared(text, tmp_path / folder / "libmblob-toy.so")
    monkeypatch.setenv("MBLOB_PLUGIN_PATH", str(tmp_path / "old"))
    assert not opens(path), "the plug-in tells nothing, so only the last module is its"
    monkeypatch.setenv("MBLOB_PLUGIN_PATH", str(tmp_path / "new"))
    assert opens(path)
    mblob.verify(path).check()
    mblob.add_index(path, tmp_path / "i.so")
    mblob.strip_index(tmp_path / "i.so")
    assert opens(tmp_path / "i.so")


@pytest.mark.own_process
def test_a_carried_plug_in_tells_it(tmp_path: Path) -> None:
    (tmp_path / "p.c").write_text(telling(f"toy_key={FORM}"))
    tree = mblob.csource_module("int one(void) { return 1; }", functions=["int one(void)"])
    for _ in range(2):
        tree.import_module(mblob.blob_module("toy_key", TOY, data=False))
    tree.export_library(tmp_path / "c.so", carry=[tmp_path / "p.c"])
    assert opens(tmp_path / "c.so")
    with warnings.catch_warnings():
        warnings.simplefilter("error", mblob.errors.UnreadableWarning)
        tree.export_library(tmp_path / "n.so", carry=[tmp_path / "p.c"], index=False)
    assert opens(tmp_path / "n.so")
    (tmp_path / "p.c").write_text(plugin())
    with pytest.warns(mblob.errors.UnreadableWarning, match="'toy_key' and no index"):
        tree.export_library(tmp_path / "o.so", carry=[tmp_path / "p.c"], index=False)
    (tmp_path / "p.c").write_text(telling("toy_key=text"))
    with pytest.raises(mblob.BuildError, match="plug-in 'toy': toy_key: layout 'text': at 'text'"):
        tree.export_library(tmp_path / "o.so", carry=[tmp_path / "p.c"])
    mblob.strip_index(tmp_path / "c.so", tmp_path / "s.so")
    assert opens(tmp_path / "s.so")
    with mblob.open(tmp_path / "s.so") as looked:
        assert looked.plugins[0].layouts == {"toy_key": FORM}
        assert looked.blob is not None
        assert looked.blob.index_offset is None


@pytest.mark.own_process
def test_a_plug_in_of_the_process_tells_it(cc: Callable[..., Path], tmp_path: Path) -> None:
    path = library(cc, tmp_path / "s.so", *ITEMS)
    register = """
    __attribute__((constructor)) static void add(void) { (void)mblob_register_plugin(&__mblob_plugin_toy); }
    """
    host(telling(f"toy_key={FORM}") + register, tmp_path / "h.so")
    assert opens(path)


LOADER = """
#include <mblob.h>
#include <string.h>
static int find(void *self, const char *name, mblob_function **out) { (void)self, (void)name, (void)out; return 0; }
static int measure(void *context, const void *bytes, size_t size, size_t *out) {
  (void)context, (void)bytes;
  if (size < 8 || !bytes) return mblob_set_error(MBLOB_E_FORMAT, "nothing to measure");
  *out = 8;
  return MBLOB_OK;
}
__attribute__((constructor)) static void add(void) {
  const mblob_loader loader = {.struct_size = sizeof(loader), .type_key = "toy_key", .function = find, %s};
  (void)mblob_register_loader(&loader);
}
"""


@pytest.mark.own_process
@pytest.mark.parametrize("how", ['.layout = "u64"', ".measure = measure"])
def test_what_loaders_in_c_tell_is_known_in_python(
    cc: Callable[..., Path], tmp_path: Path, how: str
) -> None:
    toys = [item(b"toy_key", u64(1))] * 2
    path = library(cc, tmp_path / "s.so", LIB, *toys, tree([1, 2], [], []))
    with pytest.raises(mblob.FormatError, match="toy_key"):
        mblob.open(path)
    host(LOADER % how, tmp_path / "h.so")
    mblob.add_index(path)
    with mblob.open(path) as looked:
        assert [e.size for e in looked.entries] == [0, 8, 8]
    cut = library(cc, tmp_path / "t.so", LIB, item(b"toy_key", b"cut"), tree([1], []))
    with pytest.raises(mblob.FormatError, match="'toy_key'") as caught:
        mblob.open(cut)
    assert caught.value.code in ("layout", "tree_last", "unknown_key")


@pytest.mark.own_process
@pytest.mark.parametrize("layouts", ["toy_key=text", "toy_key", "toy_key=", "a=u8 toy_key=u64,,u8"])
def test_a_layout_that_is_none_is_told_of_its_plug_in(
    cc: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layouts: str
) -> None:
    shared(telling(layouts), tmp_path / "libmblob-toy.so")
    monkeypatch.setenv("MBLOB_PLUGIN_PATH", str(tmp_path / "libmblob-toy.so"))
    (found,) = (p for p in plugins() if p.name == "toy")
    assert found.problem.startswith("its layouts: '")
    assert found.problem.endswith("' is no layout")
    assert not opens(library(cc, tmp_path / "s.so", *ITEMS))


@pytest.mark.own_process
def test_a_table_of_before_has_no_layouts(
    cc: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = telling(f"toy_key={FORM}").replace(
        "sizeof(mblob_plugin), ", "offsetof(mblob_plugin, layouts), "
    )
    shared(text, tmp_path / "libmblob-toy.so")
    monkeypatch.setenv("MBLOB_PLUGIN_PATH", str(tmp_path / "libmblob-toy.so"))
    (found,) = (p for p in plugins() if p.name == "toy")
    assert found.problem == ""
    assert not opens(library(cc, tmp_path / "s.so", *ITEMS))
