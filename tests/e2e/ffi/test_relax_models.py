"""Models that apache-tvm compiles run here with TVM's numbers, as bytecode and compiled."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.e2e.ffi import relax_models

pytestmark = [pytest.mark.slow, pytest.mark.own_process]


MODES = ("bytecode", "compiled")
CONVERTED = """
import sys
import numpy as np
import tvm
from tvm import relax

def tensor(value, dtype):
    return tvm.runtime.tensor(np.array(value, dtype))

for path in sys.argv[1:]:
    vm = relax.VirtualMachine(tvm.runtime.load_module(path), tvm.cpu())
    x = tensor([0, 1, 2, 3, 4], "float32")
    assert vm["main"](x, x).numpy().tolist() == [0, 2, 4, 6, 8]
    assert vm["branch"](tensor(True, "bool"), x).numpy().tolist() == [0, 2, 4, 6, 8]
    assert vm["branch"](tensor(False, "bool"), x).numpy().tolist() == [0, -1, -2, -3, -4]
    assert vm["pow2"](tensor(9, "int32")).numpy() == 512
    assert vm["weights"]().numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert (vm["wide"](), vm["real"]()) == (4611686018427387907, 2.75)
    try:
        vm["main"](x, tensor([1, 2, 3], "float32"))
    except RuntimeError as error:
        assert "mismatch to a previous" in str(error)
    else:
        raise AssertionError(path)
print("fine")
"""


def test_tvm_runs_programs_that_were_converted_to_its_dialect(
    package_of: Callable[[str], Path], golden: Path, tmp_path: Path
) -> None:
    package_of("tvm")
    made = [tmp_path / f"{release}.so" for release in ("016", "019", "020")]
    for path in made:
        source = golden / "relax" / "classic" / f"relax_{path.stem}.so"
        mblob.convert(source, path, dialect="ffi")
    done = subprocess.run(
        [sys.executable, "-c", CONVERTED, *made], capture_output=True, text=True, check=False
    )
    assert done.stdout == "fine\n", done.stderr


DIGITS = """
import sys
import numpy as np
import tvm
from tvm import relax

images = np.load(sys.argv[1])[:, None]
for path, batch in zip(sys.argv[2::2], map(int, sys.argv[3::2])):
    main = relax.VirtualMachine(tvm.runtime.load_module(path), tvm.cpu())["main"]
    parts = [images[i : i + batch] for i in range(0, len(images), batch)]
    print(*(d for part in parts for d in main(tvm.runtime.tensor(part)).numpy()))
"""


def test_the_networks_of_the_examples_read_the_digits_that_tvm_reads(
    package_of: Callable[[str], Path], root: Path, tmp_path: Path
) -> None:
    """Those beside compile.py, and what it writes now."""
    package_of("tvm")
    relax, images = root / "examples/relax", root / "examples/digits/test_images.npy"
    libraries = []
    for name, *words in (("digits_relax.so",), ("digits_relax_20.so", "20")):
        made = tmp_path / name
        subprocess.run([sys.executable, relax / "compile.py", made, *words], check=True)
        libraries += [(path, int(words[0]) if words else 360) for path in (relax / name, made)]
    command = [sys.executable, "-c", DIGITS, images, *(str(w) for pair in libraries for w in pair)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    assert len(lines) == 4, done.stderr
    pixels = np.load(images)[:, None]
    for (path, batch), line in zip(libraries, lines):
        main = mblob.relax.VirtualMachine(mblob.load_module(path), mblob.cpu(0))["main"]
        ours = [main(pixels[i : i + batch]).numpy() for i in range(0, len(pixels), batch)]
        assert np.concatenate(ours).tolist() == [int(word) for word in line.split()]


@pytest.fixture(scope="module")
def models(package_of: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    package_of("tvm")
    folder = tmp_path_factory.mktemp("models")
    subprocess.run([sys.executable, relax_models.__file__, folder], check=True)
    return folder


def flat(value: Any) -> list[Any]:
    if isinstance(value, mblob.Tensor):
        return [value.numpy()]
    if isinstance(value, mblob.Shape):
        return [np.array(value, "int64")]
    return [array for item in value for array in flat(item)]


def agrees(folder: Path, name: str, mode: str) -> None:
    vm = mblob.relax.VirtualMachine(mblob.load_module(folder / f"{name}.{mode}.so"), mblob.cpu(0))
    with np.load(folder / f"{name}.npz") as known:
        arguments = [known[key] for key in known.files if key.startswith("a")]
        expected = [known[key] for key in known.files if key.startswith("r")]
    for _ in range(2):
        found = flat(vm["main"](*arguments))
        assert len(found) == len(expected) > 0
        for ours, theirs in zip(found, expected):
            assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", sorted(relax_models.MODELS))
def test_models_of_tvm_give_tvms_numbers(
    models: Path, package_of: Callable[[str], Path], name: str, mode: str
) -> None:
    if "onnx" in name:
        package_of("onnx")
    agrees(models, name, mode)


@pytest.mark.nightly
@pytest.mark.parametrize("release", ["0.25.0.post1 apache-tvm-ffi==0.1.12", "0.26.0"])
def test_models_of_earlier_releases_give_their_numbers(tmp_path: Path, release: str) -> None:
    """In an environment of their own: two releases cannot be in one."""
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    packages = [*f"apache-tvm=={release}".split(), "onnx==1.23.2"]
    subprocess.run([python, "-m", "pip", "-qq", "install", *packages], check=True)
    subprocess.run([python, relax_models.__file__, tmp_path], check=True)
    for name in relax_models.MODELS:
        for mode in MODES:
            agrees(tmp_path, name, mode)
