"""Which oneDNN is found, and that everything runs on both versions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import mblob
from tests.loader.dnnl.dnnl_graphs import ROOT, python

pytestmark = [pytest.mark.own_process, pytest.mark.usefixtures("onednn")]
DESCRIBE = "from mblob.loader.plugins import plugins\nprint(next(p for p in plugins() if p.name == 'dnnl').describe())"


def test_a_library_that_is_named_and_absent() -> None:
    done = python(DESCRIBE, MBLOB_DNNL_LIBRARY="/nowhere/libdnnl.so.3")
    assert done.returncode
    assert "MBLOB_DNNL_LIBRARY=/nowhere/libdnnl.so.3 cannot be opened" in done.stderr


def test_python_tells_its_prefix() -> None:
    """`lib` of it is where wheels put libdnnl, and where the plug-in looks when the linker knows
    none."""
    assert mblob.get_global_func("mblob.python_prefix")() == sys.prefix


def fake(folder: Path, source: str) -> str:
    (folder / "fake.c").write_text(source)
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", folder / "fake.so", folder / "fake.c"], check=True
    )
    return str(folder / "fake.so")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("int unused;", "is not oneDNN: it has no dnnl_version"),
        (
            "static int v[8] = {2, 5, 1}; int *dnnl_version(void) { return v; }",
            "is oneDNN 2.5.1, and dnnl_json runs on 2.6, 2.7 and 3",
        ),
        ("static int v[8] = {4, 0, 0}; int *dnnl_version(void) { return v; }", "is oneDNN 4.0.0"),
        (
            "static int v[8] = {3, 9, 9}; int *dnnl_version(void) { return v; }",
            "has no dnnl_engine_create",
        ),
    ],
)
def test_libraries_that_do_not_fit(source: str, text: str, tmp_path: Path) -> None:
    done = python(DESCRIBE, MBLOB_DNNL_LIBRARY=fake(tmp_path, source))
    assert done.returncode
    assert text in done.stderr


@pytest.mark.slow
def test_the_other_version(onednn: str) -> None:
    """All operators again on the other major version, where both are installed."""
    if "OTHER_ONEDNN" in os.environ:
        return
    wanted = "libdnnl.so.2" if "oneDNN 3" in onednn else "libdnnl.so.3"
    for path in (wanted, f"{sys.prefix}/lib/{wanted}"):
        found = python(DESCRIBE, MBLOB_DNNL_LIBRARY=path)
        if not found.returncode:
            break
    else:
        pytest.skip(f"{wanted} is not installed")
    files = [
        f"tests/loader/dnnl/test_dnnl{part}.py"
        for part in (
            "_convolutions",
            "_operators",
            "_errors",
            "_shapes",
            "_types",
            "_bytes",
            "_releases",
            "_random",
            "_packed",
            "_primitives",
            "",
        )
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *files],
        cwd=ROOT,
        check=False,
        text=True,
        capture_output=True,
        env={**os.environ, "MBLOB_DNNL_LIBRARY": path, "OTHER_ONEDNN": "1"},
    )
    assert not done.returncode, done.stdout[-4000:]


@pytest.mark.parametrize("folder", ["/usr/include", f"{sys.prefix}/include"])
def test_numbers_are_those_of_the_headers(folder: str) -> None:
    if not Path(folder, "oneapi/dnnl/dnnl.h").is_file():
        pytest.skip(f"no headers of oneDNN in {folder}")
    source = ROOT / "tests/c/plugins/dnnl_headers.c"
    subprocess.run(
        ["cc", "-std=gnu11", "-fsyntax-only", "-Wall", "-Werror", f"-I{folder}", source],
        check=True,
    )
