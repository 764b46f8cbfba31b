"""examples/byoc: the library alone runs the model, from Python and from C; its plug-in believes no
payload."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.compilers import include_flags
from tests.e2e.programs import ROOT, run

FOLDER = ROOT / "examples" / "byoc"
VALUES = (np.arange(1000) % 10 - 4).astype("float32")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with nothing but model.so, and one with plain.so."""
    folder = tmp_path_factory.mktemp("byoc")
    for name, flags in (("model", ()), ("plain", ("--plain",))):
        (folder / name).mkdir()
        run(sys.executable, FOLDER / "fuse.py", folder / name / f"{name}.so", *flags, cwd=folder)
    return folder


def expected() -> float:
    steps = np.arange(1000, dtype="float32")
    positive = np.maximum(VALUES * (steps / 1000) + (1 - steps / 500), 0)
    return float((positive * positive + VALUES).sum(dtype="float64"))


def test_the_library_alone_in_c(models: Path, installed: Path, tmp_path: Path) -> None:
    host = tmp_path / "host"
    run("cc", "-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror", *include_flags(), FOLDER / "host.c",
        installed / "lib" / "libmblob.a", "-pthread", "-ldl", "-o", host)  # fmt: skip
    for name in ("model", "plain"):
        done = run(host, f"{name}.so", cwd=models / name, env={})
        assert float(done.stdout) == pytest.approx(expected(), rel=1e-5)


def test_the_library_alone_in_python(models: Path) -> None:
    code = (
        "import mblob, numpy as np\n"
        "m = mblob.graph_executor.GraphModule(mblob.load_module('model.so')['default'](mblob.cpu(0)))\n"
        "m.set_input('x', (np.arange(1000) % 10 - 4).astype('float32'))\n"
        "m.run()\n"
        "print(float(m.get_output(0).numpy()[0]))"
    )
    done = run(sys.executable, "-c", code, cwd=models / "model", env={"PYTHONPATH": str(ROOT)})
    assert float(done.stdout) == pytest.approx(expected(), rel=1e-5)


@pytest.mark.slow
def test_the_command_line_runs_it(models: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", VALUES)
    run(sys.executable, "-m", "mblob.cli.main", "run", models / "model" / "model.so", f"x={tmp_path / 'x.npy'}",
        "-o", tmp_path / "out.npz", cwd=ROOT)  # fmt: skip
    with np.load(tmp_path / "out.npz") as found:
        assert float(found[found.files[0]][0]) == pytest.approx(expected(), rel=1e-5)


def test_its_files_compile_as_strictly_as_ours(tmp_path: Path) -> None:
    for name in ("plugin.c", "kernels.c"):
        run("cc", "-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror", *include_flags(), "-c",
            FOLDER / name, "-o", tmp_path / "x.o")  # fmt: skip


PAYLOADS = [
    "", "fuse 1", "fuse 2 s 4 1 0 1 1\n+ 0 0\n1", "fuse 1 s 0 1 0 1 0\n0", "fuse 1 s 4 -1 0 1 0\n0",
    "fuse 1 s 4 99 0 1 0\n0", "fuse 1 s 4 1 64 1 0\n0", "fuse 1 s 4 1 0 65 0\n0", "fuse 1 s 4 1 0 0 0\n",
    "fuse 1 s 4 1 0 1 -1\n0", "fuse 1 s 4 1 0 1 64\n0", "fuse 1 s 4 1 0 1 2147483647\n0",
    "fuse 1 s 4 1 0 1 1\n+ 0 1\n1", "fuse 1 s 4 1 0 1 1\n+ -1 0\n1", "fuse 1 s 4 1 0 1 1\n^ 0 0\n1",
    "fuse 1 s 4 1 0 1 1\n+ 0\n", "fuse 1 s 4 1 0 1 1\n+ 0 0\n2", "fuse 1 s 4 1 0 1 1\n+ 0 0\n",
    "fuse 1 s 4 1 0 1 2\n+ 0 0\n1", "fuse 1 s 4 1 0 1 1\n+ 0 0\n1 junk", "fuse 1 s 4 1 0 1 0\n0 0",
    "fuse 1 " + "s" * 200 + " 4 1 0 1 1\n+ 0 0\n1",
]  # fmt: skip


@pytest.mark.sample(2)
@pytest.mark.parametrize("payload", PAYLOADS, ids=[repr(p[:30]) for p in PAYLOADS])
def test_a_payload_that_lies_is_an_error(payload: str, tmp_path: Path) -> None:
    module = mblob.blob_module("fuse", payload.encode(), data=False)
    module.export_library(tmp_path / "x.so", carry=[FOLDER / "plugin.c"])
    with pytest.raises(mblob.FormatError, match=r"the payload is none of fuse\.py's"):
        mblob.load_module(tmp_path / "x.so").get_function("s")


def test_generator_and_plug_in_are_small_enough_to_read() -> None:
    for name in ("fuse.py", "plugin.c"):
        assert len((FOLDER / name).read_text().splitlines()) <= 150


def test_a_function_that_it_has_not_is_told_with_those_that_it_has(tmp_path: Path) -> None:
    module = mblob.blob_module("fuse", b"fuse 1 s 4 1 0 1 1\n+ 0 0\n1", data=False)
    module.export_library(tmp_path / "x.so", carry=[FOLDER / "plugin.c"])
    opened = mblob.load_module(tmp_path / "x.so")
    with pytest.raises(AttributeError, match=r"module 'fuse' has no function 'r'; it has: s$"):
        opened.get_function("r")


def test_arguments_that_do_not_fit_are_errors(tmp_path: Path) -> None:
    module = mblob.blob_module("fuse", b"fuse 1 s 4 1 1 1 2\n> 0 1\n- 2 0\n3", data=False)
    module.export_library(tmp_path / "x.so", carry=[FOLDER / "plugin.c"])
    opened = mblob.load_module(tmp_path / "x.so")
    x, y = np.array([1, 2, 3, 4], "float32"), np.zeros(4, "float32")
    with pytest.raises(mblob.KernelError, match="its constants were not set"):
        opened["s"](x, y)
    opened["__init_s"](np.array([4, 3, 2, 1], "float32"))
    opened["s"](x, y)
    assert y.tolist() == [3, 1, 0, 0]
    for bad in (x[:3], x.astype("float64"), 1):
        with pytest.raises(
            (TypeError, ValueError), match="no compact float32 array of the right size"
        ):
            opened["s"](bad, y)
    with pytest.raises((TypeError, ValueError), match="wrong number of arguments"):
        opened["s"](x)
    with pytest.raises((TypeError, ValueError), match="wrong number of constants"):
        opened["__init_s"](x, x)


def test_its_generator_refuses_what_its_plug_in_has_no_room_for(tmp_path: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(FOLDER)!r})\n"
        "import fuse, mblob\n"
        "g = mblob.GraphBuilder()\n"
        "x, w = g.input('x', 9), g.input('w', 9)\n"
        "for _ in range(70): x = g.call('multiply', [x, w], 9)\n"
        "g.output(x)\n"
        "mblob.partition_graph(g, None, None, {'fuse': fuse.is_elementwise})\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert "tvmgen_default_fuse_main_0: more than 64 values" in done.stderr
