"""Libraries that mblob 0.1.0 packed: every later version reads them, and runs them on x86-64."""

from __future__ import annotations

import ctypes
import platform
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mblob
from tests.golden_0_1_0.make import CONFIG, WEIGHTS, make, make_standalone
from tests.loader.executors import test_aot_executor as aot
from tests.loader.executors.test_relax_params import NAMES, check
from tests.packager.edit.test_add_params import run_graph

pytestmark = pytest.mark.own_process  # starts libmblob-ffi.so

FOLDER = Path(__file__).resolve().parent
FILES = sorted(path.name for path in FOLDER.glob("*.so"))
BOTH = ("kernels", "weights", "digests", "carried", "joined", "relax")


def scaled(path: Path) -> None:
    x = np.arange(3, dtype="float32")
    mblob.load_module(path).scale(x, 2)
    assert x.tolist() == [0, 2, 4]


def has_data(path: Path) -> None:
    scaled(path)
    lib = mblob.load_module(path)
    for name, array in WEIGHTS.items():
        np.testing.assert_array_equal(lib.tensors[name].numpy(), array)
    assert bytes(lib.payloads["config"]) == CONFIG


def carries(path: Path) -> None:
    scaled(path)
    assert mblob.load_module(path)["size"]() == 27


def joined(path: Path) -> None:
    scaled(path)
    lib = mblob.load_module(path)
    assert lib.half(9) == 4
    np.testing.assert_array_equal(lib.tensors["w"].numpy(), WEIGHTS["w"])


def computes(path: Path) -> None:
    assert run_graph(path, x=[1, 2, 3, 4], v=[100] * 4) == [111, 112, 113, 114]


def runs(path: Path) -> None:
    machine = mblob.relax.VirtualMachine(mblob.load_module(path), mblob.cpu(0))
    if path.name == "relax_ffi.so":
        check(machine, NAMES)
    else:
        x = np.ones((2, 3), "float32")
        np.testing.assert_array_equal(machine["main"](x).numpy(), 2 * x)


def runs_relay(path: Path) -> None:
    machine = mblob.vm.VirtualMachine(mblob.load_module(path), mblob.cpu(0))
    x, y = np.ones(4, "float32"), np.arange(1, 5, dtype="float32")
    np.testing.assert_array_equal(machine.run(x, y).numpy(), [1, 4, 9, 16])


def runs_aot(path: Path) -> None:
    model = mblob.aot_executor.AotModule(mblob.load_module(path)["m"](mblob.cpu(0)))
    x = np.arange(4, dtype="float32")
    model.run(x=x)
    np.testing.assert_array_equal(model.get_output(0).numpy(), x * aot.W + aot.K)


def predicted(path: Path) -> list[float]:
    """What a standalone library computes of [1, 2, 3], without mblob."""
    lib, model = ctypes.CDLL(str(path)), ctypes.c_void_p()
    x, y = np.array([1, 2, 3], "float32"), np.zeros(2, "float32")
    inputs, outputs = ((ctypes.c_void_p * 1)(a.ctypes.data) for a in (x, y))
    assert lib.alone_open(ctypes.byref(model)) == 0
    assert lib.alone_run(model, inputs, outputs) == 0
    lib.alone_close(model)
    return y.tolist()


def stands_alone(path: Path) -> None:
    assert predicted(path) == [8, 26]
    y = np.zeros(2, "float32")
    lib = mblob.load_module(path)
    lib.predict(np.array([1, 2, 3], "float32"), lib.tensors["w"], y)
    assert y.tolist() == predicted(path)  # each runtime after the other


RUNS: dict[str, Callable[[Path], None]] = {
    "kernels": scaled, "weights": has_data, "digests": has_data, "carried": carries,
    "joined": joined, "graph": computes, "no_index": computes, "aot": runs_aot, "relay": runs_relay,
    "relax": runs, "standalone": stands_alone,
}  # fmt: skip


def kind_of(name: str) -> str:
    return name.removesuffix(".so").removesuffix("_ffi")


def test_there_is_a_small_file_of_each_kind() -> None:
    of_one = {"graph.so", "no_index.so", "standalone.so", "aot.so", "relay.so"}
    assert of_one | {f"{kind}{end}.so" for kind in BOTH for end in ("", "_ffi")} == set(FILES)
    with_runtime = (FOLDER / "standalone.so").stat().st_size
    assert with_runtime < 96 << 10
    assert max((FOLDER / name).stat().st_size for name in {*FILES} - {"standalone.so"}) < 48 << 10


@pytest.mark.parametrize("name", FILES)
def test_it_is_read(name: str) -> None:
    assert mblob.verify(FOLDER / name).has_blob or kind_of(name) == "kernels"
    with mblob.open(FOLDER / name, verify="full") as library:
        found = library.to_json()
    assert found["era"]["dialect"] == ("ffi" if "_ffi" in name else "classic")
    assert [d for d in found["diagnostics"] if d["severity"] == "error"] == []


@pytest.mark.skipif(platform.machine() != "x86_64", reason="no golden libraries for this machine")
@pytest.mark.parametrize("name", FILES)
def test_it_runs(name: str) -> None:
    RUNS[kind_of(name)](FOLDER / name)


@pytest.mark.parametrize("name", ["weights.so", "weights_ffi.so", "joined.so"])
def test_it_is_changed(name: str, tmp_path: Path) -> None:
    path = Path(shutil.copy(FOLDER / name, tmp_path))
    mblob.swap(path, weights={"w": np.zeros((2, 3), "float32")})
    mblob.add(path, blobs={"more": b"1"})
    with mblob.open(path, verify="full") as library:
        assert "more" in [entry.type_key for entry in library.entries]
    if platform.machine() == "x86_64":
        lib = mblob.load_module(path)
        assert not lib.tensors["w"].numpy().any() and bytes(lib.payloads["more"]) == b"1"
        scaled(path)


def test_the_script_makes_the_same_files_again(tmp_path: Path) -> None:
    """In names; their bytes are those of this version and this compiler."""
    make(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES


@pytest.mark.skipif(platform.machine() != "x86_64", reason="no golden libraries for this machine")
def test_a_standalone_library_of_0_1_0_lives_beside_one_of_this_version(tmp_path: Path) -> None:
    make_standalone(tmp_path / "new.so")
    for path in (FOLDER / "standalone.so", tmp_path / "new.so") * 2:
        assert predicted(path) == [8, 26]
