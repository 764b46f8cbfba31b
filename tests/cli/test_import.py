"""`mblob-pack import`: models of ONNX, what of a command line is wrong, and what TVM and onnxruntime say."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.cli.command_line import make_parser
from mblob.errors import BuildError, KernelError
from mblob.packager.byoc import onnx_models
from tests.built_once import built_once
from tests.e2e.programs import run

SCRIPT = Path(__file__).with_name("onnx_networks.py")
# A stand-in for onnxruntime, of which an output is what ONE says.
RUNTIME = """
import numpy as np, onnx
from onnx.reference import ReferenceEvaluator

class SessionOptions:
    pass

class GraphOptimizationLevel:
    ORT_DISABLE_ALL = 0

class InferenceSession:
    def __init__(self, file, options=None, providers=()):
        model = onnx.load_from_string(file) if type(file) is bytes else onnx.load(file)
        self.of, graph = ReferenceEvaluator(model), model.graph
        self.outputs = [type("Value", (), {"name": o.name}) for o in graph.output]
    def get_inputs(self):
        return [type("Value", (), {"name": "x.1", "type": "tensor(float)", "shape": ["n", 3, 8, 8]})]
    def get_outputs(self):
        return self.outputs
    def run(self, names, inputs):
        return [y + np.float32(MORE) for y in self.of.run(names, inputs)]
"""


@pytest.fixture(scope="module")
def networks(package_of: Callable[[str], Path]) -> Path:
    package_of("tvm"), package_of("onnx")
    return built_once(
        "onnx-networks", lambda folder: run(sys.executable, SCRIPT, folder), SCRIPT.read_text()
    )


Imported = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def imported(networks: Path, tmp_path: Path) -> Imported:
    """Run the command on a network, beside a library that is already there."""
    (tmp_path / "model.so").write_text("old")

    def call(name: str, *words: str, more: str = "") -> subprocess.CompletedProcess[str]:
        paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
        if more:
            (tmp_path / "onnxruntime.py").write_text(RUNTIME.replace("MORE", more))
        return subprocess.run(
            [sys.executable, "-m", "mblob.cli.main", "import", networks / name, "-o", "model.so", *words],
            cwd=tmp_path, capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )  # fmt: skip

    return call


# -- with TVM --------------------------------------------------------------------------------------


@pytest.mark.own_process  # oneDNN
@pytest.mark.parametrize("engine", ["", "dnnl"])
def test_a_model_of_onnx_is_a_library_whose_outputs_are_compared(
    imported: Imported, tmp_path: Path, onednn: str, engine: str
) -> None:
    words = ["--engine", engine, "--carry", engine, "--prepack"] if engine else []
    done = imported("small.onnx", "--shape", "x.1=2,3,8,8", "--check", *words, more="0")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    renamed, *told = (line for line in done.stderr.splitlines() if "TVM " not in line)
    assert renamed == "mblob-pack: warning: Renaming name x.1 to x_1"
    assert told[0].startswith("read ") and told[-1].startswith("wrote model.so: ")
    assert told[-2].startswith("check: y: largest difference ")
    region = [line for line in told if line.startswith("tvmgen_dnnl_main_0: ")]
    assert bool(region) == bool(engine)
    lib = mblob.load_module(tmp_path / "model.so")
    assert [m.type_key for m in lib.walk()].count("dnnl_packed") == len(region)
    y = mblob.relax.VirtualMachine(lib, mblob.cpu())["main"](np.ones((2, 3, 8, 8), "float32"))
    assert y.numpy().shape == (2, 4, 6, 6)


@pytest.mark.own_process  # oneDNN
@pytest.mark.parametrize(
    ("engine", "names"), [("", ["conv.weight", "power", "both"]), ("dnnl", ["power"])]
)
def test_parameters_outside_are_one_tuple_that_swap_replaces(
    imported: Imported, tmp_path: Path, onednn: str, engine: str, names: list[str]
) -> None:
    words = ["--params-outside", *(["--engine", engine] if engine else [])]
    done = imported("weights.onnx", "--shape", "x.1=2,3,8,8", "--check", *words, more="0")
    assert done.returncode == 0, done.stderr
    told = f"parameters: {len(names)} outside of the code, {4 - len(names)} in it"
    assert told in done.stderr.splitlines()
    path = tmp_path / "model.so"
    machine = mblob.relax.VirtualMachine(mblob.load_module(path), mblob.cpu())
    with mblob.open(path) as library:
        assert [v.name for v in library.models[0].inputs] == ["x_1", "params"]
        (entry,) = (e for e in library.entries if e.type_key == "safetensors")
        assert entry.content.facts["parameters"] == names
    assert [p.numpy().ctypes.data % 64 for p in machine.params] == [0] * len(names)
    new = {n: p.numpy() + np.float32(0.5) for n, p in zip(names, machine.params)}
    x = np.random.default_rng(1).standard_normal((2, 3, 8, 8)).astype("float32")
    old, wanted = (machine["main"](x, p).numpy() for p in (machine.params, tuple(new.values())))
    assert np.abs(old - wanted).max() > 0.01
    mblob.save_tensors(tmp_path / "new.safetensors", dict(sorted(new.items())))
    mblob.swap(path, weights=tmp_path / "new.safetensors", output=tmp_path / "new.so")
    np.save(tmp_path / "x.npy", x)
    command = [sys.executable, "-m", "mblob.cli.main", "run", "new.so", "x_1=x.npy", "-o", "y.npz"]
    run(*command, cwd=tmp_path)
    (found,) = np.load(tmp_path / "y.npz").values()
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.own_process  # oneDNN
@pytest.mark.parametrize("engine", ["", "dnnl"])
@pytest.mark.parametrize(("more", "code"), [("0", 0), ("0.1", 0), ("0.5", 1)])
def test_a_network_of_integers_may_differ_by_the_steps_by_which_onnxruntime_moves(
    imported: Imported, onednn: str, engine: str, more: str, code: int
) -> None:
    words = ["--engine", engine] if engine else []
    done = imported("quantized.onnx", "--shape", "x.1=2,3,8,8", "--check", *words, more=more)
    assert done.returncode == code, done.stderr
    assert ", 1.0e-01 in onnxruntime if steps change by 1e-04" in done.stderr
    assert ("1 dnnl.qnn.conv2d" in done.stderr) == bool(engine)


def test_shapes_that_the_network_computes_are_computed_before_tvm_reads_it(
    imported: Imported, tmp_path: Path
) -> None:
    done = imported("shapes.onnx", "--shape", "x.1=2,3,8,8", "--check", more="0")
    assert done.returncode == 0, done.stderr
    with mblob.open(tmp_path / "model.so") as library:
        assert [value.name for value in library.models[0].inputs] == ["x_1"]


@pytest.mark.parametrize(
    ("name", "words", "code", "said"),
    [
        ("small.onnx", (), 2,
         "the sizes of these inputs are open: x.1[n,3,8,8]; give each a whole shape by --shape"),
        ("small.onnx", ("--shape", "x.1=1,4,8,8"), 2,
         "--shape has [1, 4, 8, 8] for x.1, expected positive sizes that fit x.1[n,3,8,8]"),
        ("small.onnx", ("--shape", "z=1,3,8,8"), 2, "--shape names 'z', which is no input; there are: x.1"),
        ("unknown.onnx", ("--shape", "x.1=1,3,8,8"), 2, "TVM cannot read this model: "),
        ("damaged.onnx", (), 2, "damaged.onnx: no model of ONNX, or a damaged one: "),
        ("empty.onnx", (), 2, "empty.onnx: no model of ONNX, or a damaged one: it has no outputs"),
        ("missing.onnx", (), 5, "missing.onnx: No such file or directory"),
    ],
)  # fmt: skip
def test_what_cannot_be_imported_is_one_line_and_the_old_library_stays(
    imported: Imported, tmp_path: Path, name: str, words: tuple[str, ...], code: int, said: str
) -> None:
    done = imported(name, *words)
    assert (done.returncode, done.stdout) == (code, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("mblob-pack: error: ") and said in line
    assert (tmp_path / "model.so").read_text() == "old"


def test_a_library_that_differs_from_onnxruntime_is_not_written(
    imported: Imported, tmp_path: Path
) -> None:
    done = imported("small.onnx", "--shape", "x.1=1,3,8,8", "--check", more="0.01")
    assert done.returncode == 1
    assert "--check: the outputs differ from onnxruntime's: y: largest" in done.stderr
    assert (tmp_path / "model.so").read_text() == "old"


@pytest.mark.parametrize(
    ("wanted", "ours", "differs"),
    [
        (np.float32([1e-3, 0]), np.float32([1.0005e-3, 0]), False),  # rounding of what came before
        (np.float32([1e-3, 0]), np.float32([1.01e-3, 0]), True),
        (np.float32([0, 0]), np.float32([0, 1e-5]), True),
        (np.float32([1000, 0]), np.float32([1000.09, 0]), False),
        (np.float32([1000, 0]), np.float32([1000.2, 0]), True),
        (np.float32([np.inf, np.nan]), np.float32([np.inf, np.nan]), False),
        (np.float32([np.inf, 1]), np.float32([1, 1]), True),
        (np.int64([1]), np.int64([2]), True),
    ],
)
def test_outputs_are_compared_by_their_own_scale(wanted: Any, ours: Any, differs: bool) -> None:
    verb = importlib.import_module("mblob.cli.import")
    if not differs:
        assert verb.compared("y", wanted, ours).startswith("y: largest difference ")
        return
    with pytest.raises(KernelError, match="the outputs differ from onnxruntime's: y: largest"):
        verb.compared("y", wanted, ours)


@pytest.mark.parametrize(
    ("name", "links"), [("net.so", ["net.so"]), ("net.tar", ["checked.so", "net.tar"])]
)
def test_what_is_checked_is_what_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, links: list[str]
) -> None:
    made: list[str] = []

    def export(path: Path, carry: Any) -> None:
        made.append(path.name)
        path.write_text(f"library {len(made)}")

    relax = SimpleNamespace(
        from_onnx=lambda *_, **__: None,
        build=lambda *_, **__: SimpleNamespace(export_library=export),
    )
    verb = importlib.import_module("mblob.cli.import")
    monkeypatch.setattr(mblob.byoc, "relax", relax)
    monkeypatch.setattr(verb, "_onnxruntime", lambda: SimpleNamespace())
    monkeypatch.setattr(verb, "_check", lambda *_: None)
    monkeypatch.setattr(verb, "tell_written", lambda *_, **__: None)
    words = ["import", str(tmp_path / "m.onnx"), "-o", str(tmp_path / name), "--check", "--quiet"]
    args = make_parser().parse_args(words)
    assert args.run(args) == 0
    assert made == links
    assert (tmp_path / name).read_text() == f"library {len(made)}"


@pytest.mark.own_process  # oneDNN
def test_a_size_that_stays_open_is_that_of_each_call(
    imported: Imported, tmp_path: Path, onednn: str
) -> None:
    done = imported("small.onnx", "--shape", "x.1=n,3,8,8", "--engine", "dnnl", "--check", more="0")
    assert done.returncode == 0 and "tvmgen_dnnl_main_0: " in done.stderr, done.stderr
    checks = [line for line in done.stderr.splitlines() if line.startswith("check ")]
    assert [line.partition(":")[0] for line in checks] == ["check n=1", "check n=2"]
    vm = mblob.relax.VirtualMachine(mblob.load_module(tmp_path / "model.so"), mblob.cpu())
    x = np.random.default_rng(1).standard_normal((5, 3, 8, 8)).astype("float32")
    whole = vm["main"](x).numpy()
    for n in (1, 4, 1):
        np.testing.assert_allclose(
            vm["main"](x[:n].copy()).numpy(), whole[:n], rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("shape", ["x.1=n,3,8,8", "x.1=n,3,h,8"])
def test_shapes_that_the_network_computes_of_open_sizes_are_open_there(
    imported: Imported, tmp_path: Path, shape: str
) -> None:
    done = imported("moved.onnx", "--shape", shape, "--check", "--check-size", "n=2", more="0")
    assert done.returncode == 0 and "check n=2" in done.stderr, done.stderr


def test_sizes_that_onnxruntime_refuses_are_not_compared(
    imported: Imported, tmp_path: Path
) -> None:
    words = ("--shape", "x.1=1,3,h,8", "--check")
    done = imported("moved.onnx", *words, more="0")  # h is at least 3
    assert done.returncode == 0 and "check h=32: " in done.stderr, done.stderr
    assert "check h=1: " not in done.stderr
    done = imported("moved.onnx", *words, "--check-size", "h=1", more="0")
    assert done.returncode == 6
    said = "cannot run this model with h=1: "
    assert said in done.stderr and "; --check-size gives other sizes" in done.stderr


def test_the_example_of_the_help_runs(networks: Path, tmp_path: Path) -> None:
    shutil.copy(networks / "model.onnx", tmp_path)
    example = (make_parser().verbs["import"].epilog or "").removeprefix("example: mblob-pack ")
    run(sys.executable, "-m", "mblob.cli.main", *example.split(), cwd=tmp_path)
    with mblob.open(tmp_path / "net.so") as library:
        assert [value.name for value in library.models[0].inputs] == ["x"]


# -- without ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--engine", "dnl"), "--engine: found 'dnl', expected one of dnnl; did you mean 'dnnl'?"),
        (
            ("--shape", "1,3"),
            "--shape: expected NAME=SIZES, as in x=n,3,224,224, found '1,3'",
        ),
        (
            ("--shape", "x=1,N+1"),
            "--shape: expected NAME=SIZES, as in x=n,3,224,224, found 'x=1,N+1'",
        ),
        (("--check-size", "n=2"), "--check-size: 'n' is no open size; --shape leaves none open"),
        (("--shape", "x=n,3", "--check-size", "n=2"), "--check-size is for --check"),
        (
            ("--shape", "x=n,m", "--check", "--check-size", "k=2"),
            "'k' is no open size; --shape names n, m",
        ),
        (("--check-size", "n=0"), "--check-size: expected NAME=N, as in n=4, found 'n=0'"),
        (("--shape", "x=1", "--shape", "x=2"), "--shape: given twice for x, expected once"),
        (("--prepack",), "--prepack stores weights of an engine"),
        (("-o", "-"), "import: -o -: a library is written to a file"),
    ],
)
def test_a_wrong_word_is_told_before_anything_is_read(
    pack: Any, words: tuple[str, ...], said: str
) -> None:
    output = () if "-o" in words else ("-o", "model.so")
    done = pack("import", "nowhere.onnx", *output, *words)
    assert done.returncode == 2 and said in done.stderr, done.stderr


@pytest.mark.parametrize("package", ["onnx", "tvm", "onnxruntime"])
def test_a_package_that_is_missing_is_named(package: str, tmp_path: Path) -> None:
    (tmp_path / "onnx.py").touch()
    code = (
        f"import sys; sys.modules[{package!r}] = None; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from mblob.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    )
    words = ["import", "m.onnx", "-o", "m.so", *(["--check"] if package == "onnxruntime" else [])]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    expected = {
        "onnx": "reading models of ONNX needs onnx: pip install 'mblob[onnx]'",
        "tvm": "reading models of ONNX needs apache-tvm: pip install 'mblob[onnx]'",
        "onnxruntime": "--check needs onnxruntime: pip install onnxruntime",
    }
    assert (done.returncode, done.stderr) == (6, f"mblob-pack: error: {expected[package]}\n")


def graph(**inputs: list[int | str] | None) -> Any:
    """What of a graph of ONNX is asked for shapes."""

    def size(value: int | str) -> SimpleNamespace:
        number = isinstance(value, int)
        return SimpleNamespace(
            HasField=lambda _: number,
            dim_value=value if number else 0,
            dim_param="" if number else value,
        )

    def value(name: str, sizes: list[int | str] | None) -> SimpleNamespace:
        shape = SimpleNamespace(dim=[size(s) for s in sizes or []])
        kind = SimpleNamespace(HasField=lambda _: sizes is not None, shape=shape)
        return SimpleNamespace(name=name, type=SimpleNamespace(tensor_type=kind))

    return SimpleNamespace(
        initializer=[SimpleNamespace(name="w")],
        input=[value(name, sizes) for name, sizes in {**inputs, "w": [3]}.items()],
    )


def test_shapes_are_those_of_the_model_with_what_it_leaves_open_filled_in() -> None:
    found = onnx_models._shapes(
        "m", graph(x=[1, "n", -1], y=None, z=[]), {"x": (1, 2, 3), "y": [4]}
    )
    assert found == {"x": [1, 2, 3], "y": [4], "z": []}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "m: the sizes of these inputs are open: x[1,n], y[...]; give each a whole shape by shapes="),
        ({"x": [1, 2], "y": ["k"]}, "has ['k'] for y, expected positive sizes that fit y[...]"),
        ({"x": [1, 0], "y": [1]}, "has [1, 0] for x, expected positive sizes that fit x[1,n]"),
        ({"x": [2, 2], "y": [1]}, "has [2, 2] for x, expected positive sizes that fit x[1,n]"),
        ({"x": [1], "y": [1]}, "has [1] for x, expected positive sizes that fit x[1,n]"),
        ({"w": [3]}, "m: shapes= names 'w', which is no input; there are: x, y"),
    ],
)  # fmt: skip
def test_shapes_that_are_missing_or_do_not_fit_are_named(given: Any, said: str) -> None:
    with pytest.raises(BuildError, match=re.escape(said)):
        onnx_models._shapes("m", graph(x=[1, "n"], y=None), given)
