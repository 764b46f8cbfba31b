"""oneDNN inside of a library: a `libdnnl.a` in place of the shared library that its plug-in opens."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.errors import BuildError
from mblob.installed import get_plugin_sources
from mblob.loader.plugins import plugins
from mblob.packager.compile import toolchain
from mblob.packager.link.carried_plugins import shipped_sources
from mblob.packager.link.linked_engines import libraries, with_engine
from mblob.packager.modules.nodes import ObjectNode, SourceNode
from tests.e2e.programs import exported, run

# As the functions of a static oneDNN, which call those of a shared one.
FORWARDS = """
#include <dlfcn.h>
#define X(i, name) __asm__(".text\\n.globl " #name "\\n" #name ": jmp *to+8*" #i "(%rip)\\n");
FUNCTIONS
#undef X
__attribute__((visibility("hidden"))) void *to[1000];
__attribute__((constructor)) static void find(void) {
  void *lib = dlopen("@PATH@", RTLD_NOW | RTLD_LOCAL);
#define X(i, name) to[i] = dlsym(lib, #name);
  FUNCTIONS
}
"""


def archive(folder: Path, text: str) -> Path:
    (folder / "dnnl.c").write_text(text)
    run("cc", "-fPIC", "-O1", "-c", "dnnl.c", "-o", "dnnl.o", cwd=folder)
    run("ar", "rcs", "libdnnl.a", "dnnl.o", cwd=folder)
    return folder / "libdnnl.a"


def defines(options: list[str]) -> str:
    """The definition by which the compiler of the plug-in knows the functions of an archive."""
    first, *_, last = with_engine("dnnl", shipped_sources("dnnl"), toolchain.find(), options)
    assert isinstance(first, SourceNode)
    return first.text().partition("\n")[0] if isinstance(last, ObjectNode) else ""


def test_an_archive_in_a_folder_of_the_options_is_found_and_its_functions_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MBLOB_DNNL_ARCHIVE", raising=False)
    archive(
        tmp_path, "void dnnl_version(void) {} void dnnl_engine_create(void) {} void dnnl_x(void) {}"
    )
    expected = "#define MBLOB_LINKED_DNNL(X) X(dnnl_engine_create) X(dnnl_version)"
    assert defines([f"-L{tmp_path}"]) == expected
    monkeypatch.setenv("MBLOB_DNNL_ARCHIVE", "")
    assert defines([f"-L{tmp_path}"]) == ""


def test_an_archive_with_openmp_brings_its_runtime_and_tells_of_its_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "void GOMP_barrier(void); void dnnl_version(void) { GOMP_barrier(); }"
    monkeypatch.setenv("MBLOB_DNNL_ARCHIVE", str(archive(tmp_path, text)))
    expected = "X(dnnl_version) X(omp_get_max_threads) X(omp_set_num_threads)"
    assert defines([]) == f"#define MBLOB_LINKED_DNNL(X) {expected}"
    assert libraries([{"GOMP_barrier"}, {"malloc"}]) == ["-lgomp"]


def test_a_file_that_is_missing_or_another_library_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = archive(tmp_path, "void other(void) {}")
    for given, said in (
        (path, f"carry: {path}: expected libdnnl.a, found no dnnl_version in it"),
        (tmp_path / "none.a", f"carry: MBLOB_DNNL_ARCHIVE={tmp_path}/none.a: no such file"),
    ):
        monkeypatch.setenv("MBLOB_DNNL_ARCHIVE", str(given))
        with pytest.raises(BuildError, match=re.escape(said)):
            defines([])


@pytest.mark.slow
@pytest.mark.own_process  # oneDNN
@pytest.mark.skipif(platform.machine() != "x86_64", reason="its archive is of assembly")
def test_a_library_with_the_archive_inside_runs_it_and_exports_nothing_of_it(
    onednn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = onednn.partition("(")[2].rstrip(")")
    names = sorted({*re.findall(r'"(dnnl_\w+)"', Path(get_plugin_sources()).read_text())})
    rows = " ".join(f"X({i}, {name})" for i, name in enumerate(names))
    text = FORWARDS.replace("FUNCTIONS", rows).replace("@PATH@", shared)
    monkeypatch.setenv("MBLOB_DNNL_ARCHIVE", str(archive(tmp_path, text)))
    graph = mblob.GraphBuilder()
    data, weights = graph.input("x", (1, 2, 4, 4)), graph.input("w", (3, 2, 1, 1))
    graph.output(graph.call("conv", [data, weights], (1, 3, 4, 4), attrs={"op": "nn.conv2d"}))
    w = {"w": np.arange(6, dtype="float32").reshape(3, 2, 1, 1)}
    model = mblob.partition_graph(graph, w, None, ["dnnl"])
    model.export_library(tmp_path / "model.so", carry=["dnnl"])
    assert not [name for name in exported(tmp_path / "model.so") if name.startswith("dnnl")]
    with mblob.open(tmp_path / "model.so") as library:
        (plugin,) = library.plugins
        assert plugin.needs == ""
    told = "dnnl_json: run by the plug-in dnnl of this library, which opens no other file"
    assert mblob.verify(tmp_path / "model.so").info == (("plugin_needs", told),)
    lib = mblob.load_module(tmp_path / "model.so")
    executor = mblob.graph_executor.GraphModule(lib["default"](mblob.cpu()))
    executor.run(x=np.ones((1, 2, 4, 4), "float32"))
    assert executor.get_output(0).numpy()[0, :, 0, 0].tolist() == [1, 5, 9]
    said = next(p for p in plugins() if p.name == "dnnl").describe()
    assert said.endswith("(in the library itself)")
