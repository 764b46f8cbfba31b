"""Finished libraries become standalone ones: the runtime joins their code."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.binary.elf_facts import stays_by
from mblob.cli.main import main
from tests.e2e.programs import run
from tests.e2e.test_other_machines import CONVERTED, Machine
from tests.packager.standalone.test_standalone import (
    DIGITS,
    PREDICT,
    Interface,
    digits,
    expected_of,
    images,
    pack_digits,
)

pytestmark = pytest.mark.filterwarnings("ignore::mblob.errors.PortabilityWarning")
_FIXTURES = digits, images
INTERFACE = ("open", "run", "close", "error")
C_LIBRARY = re.compile(r"lib(c|m|pthread|dl)\.so\.\d|ld(-linux|64).*")


def whole(source: Path, folder: Path, *more: str) -> Path:
    """whole.so of a copy of a finished library, which needs the C library alone, and what the copy needs."""
    copy = shutil.copy(source, folder / "finished.so")
    words = [str(copy), "-o", str(folder / "whole.so"), "--header", str(folder / "whole.h")]
    assert main(["standalone", *words, *more]) == 0
    with mblob.open(folder / "whole.so") as library:
        needed = {*library.elf.needed} - {*mblob.open(source).elf.needed}
        assert all(C_LIBRARY.fullmatch(name) for name in needed)
        assert not [name for name in library.undefined if "TVM" in name]
        assert {*INTERFACE} <= {name.rpartition("_")[2] for name in library.plain_functions}
    return folder / "whole.so"


def test_a_c_program_runs_the_model_of_a_finished_library(
    digits: Path, images: Any, tmp_path: Path
) -> None:
    path = whole(digits / "plain.so", tmp_path, "--prefix", "digits")
    assert path.stat().st_size - (digits / "plain.so").stat().st_size <= 150_000
    (tmp_path / "whole.h").rename(tmp_path / "digits.h")
    (tmp_path / "digits.c").write_text(DIGITS)
    run("cc", "-std=c11", "digits.c", path, "-Wl,-rpath,$ORIGIN", "-o", "digits", cwd=tmp_path)
    done = subprocess.run([tmp_path / "digits"], input=images.tobytes(), capture_output=True)
    known = expected_of(digits / "plain.so", images)
    assert (done.returncode, done.stderr) == (0, b"")
    assert [*map(int, done.stdout.split())] == known == expected_of(path, images)


# Name, type and shape of its input if the library does not tell them, and the names of both in the .npz.
OF_TVM = {
    "mlp_llvm.so": (None, "mlp_llvm.npz", "data", "out"),
    "aot_mlp.so": (None, "mlp_llvm.npz", "data", "out"),
    "vm_mlp.so": ("data=float32[1,1,8,8]", "mlp_llvm.npz", "data", "out"),
    "relax/cnn_bound.so": (None, "relax/cnn_bound.npz", "c0_a0", "c0_r"),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n == "aot_mlp.so")) for n in OF_TVM]
)
def test_a_library_that_tvm_linked_runs_without_tvm(
    golden: Path, name: str, tmp_path: Path
) -> None:
    shape, arrays, x, y = OF_TVM[name]
    path = whole(golden / name, tmp_path, *(["--shape", shape] if shape else []))
    most = 200_000 if "relax" in name else 150_000
    assert path.stat().st_size - (golden / name).stat().st_size <= most
    io = np.load(golden / arrays)
    out = np.zeros_like(io[y])
    model = Interface(path, "whole")
    for _ in range(2):
        assert model.run([io[x]], [out]) == 0, model.error()
        np.testing.assert_allclose(out, io[y], rtol=1e-5, atol=1e-6)
    model.close()
    with mblob.open(path) as library, mblob.open(golden / name) as old:
        assert "nodelete" in stays_by(library.elf)  # threads of the runtime run its code
        places = [[e.offset for e in found.entries] for found in (library, old)]
        assert places[0] == places[1]  # the packed modules are there once
        assert library.is_of_tvm


def test_a_loaded_library_is_exported_with_its_runtime_and_what_it_imports_now(
    tmp_path: Path,
) -> None:
    mblob.csource_module(PREDICT).export_library(tmp_path / "plain.so")
    lib = mblob.load_module(tmp_path / "plain.so")
    lib.import_module(mblob.safetensors_module({"w": np.arange(6, dtype="f").reshape(2, 3)}))
    lib.export_library(tmp_path / "whole.so", standalone=True, header=tmp_path / "whole.h")
    y, model = np.zeros(2, "f"), Interface(tmp_path / "whole.so", "whole")
    assert model.run([np.array([1, 2, 3], "f")], [y]) == 0, model.error()
    assert [*y] == [8, 26]


@pytest.mark.slow
@pytest.mark.parametrize("machine", CONVERTED, ids=lambda machine: machine.name)
def test_a_finished_library_for_another_machine_gets_its_runtime(
    digits: Path, images: Any, tmp_path: Path, require: Callable[[str], str], machine: Machine
) -> None:
    cc, qemu = require(f"{machine.triplet}-gcc"), require(f"qemu-{machine.name}")
    pack_digits(tmp_path, cc=cc)
    path = whole(tmp_path / "plain.so", tmp_path, "--prefix", "digits", "--cc", cc)
    shutil.copy(path, tmp_path / "digits.so")
    command = [qemu, "-L", f"/usr/{machine.triplet}", tmp_path / "digits"]
    done = subprocess.run(command, input=images.tobytes(), capture_output=True)
    assert done.returncode == 0, done.stderr
    assert [*map(int, done.stdout.split())] == expected_of(digits / "plain.so", images)


def test_build_with_standalone_takes_a_finished_library_as_the_verb_does(tmp_path: Path) -> None:
    plain, output = tmp_path / "plain.so", tmp_path / "w.so"
    mblob.csource_module("void two(float y[1]) { y[0] = 2; }").export_library(plain)
    assert main(["build", "--standalone", str(plain), "-o", str(output)]) == 0
    y = np.zeros(1, "f")
    assert Interface(output, "w").run([], [y]) == 0 and y[0] == 2


def test_options_behind_two_hyphens_are_those_of_the_compiler(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text("void k(float y[1]) { y[0] = SIX; }\n")
    words = [str(tmp_path / "k.c"), "-o", str(tmp_path / "k.so"), "--", "-DSIX=6"]
    assert main(["standalone", *words]) == 0
    y = np.zeros(1, "f")
    assert Interface(tmp_path / "k.so", "k").run([], [y]) == 0 and y[0] == 6


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (["w.npz"], "found w.npz"),
        (["--embed", "c"], "found --embed"),
        (["--no-index"], "found --no-index"),
    ],
)
def test_a_finished_library_with_more_inputs_is_refused_with_what_to_do(
    more: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mblob.csource_module(PREDICT).export_library(tmp_path / "plain.so")
    assert (
        main(["standalone", str(tmp_path / "plain.so"), *more, "-o", str(tmp_path / "o.so")]) == 2
    )
    told = capsys.readouterr().err
    assert text in told and "mblob-pack add" in told and not (tmp_path / "o.so").exists()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("relax/compiled_tuples.so", 'exec_mode="bytecode"'),
        ("opencl_llvm.so", "runs 'opencl': it needs an OpenCL driver"),
        ("relax/tuples.so", "--shape 'output=float32[1,10]'"),
        ("vm_mlp.so", "--shape 'data=float32[1,3]'"),
    ],
)
def test_a_finished_library_that_nothing_can_run_is_refused_and_old_files_stay(
    golden: Path, name: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(golden / name, tmp_path / "m.so")
    old = [tmp_path / "o.so", tmp_path / "o.h"]
    for path in old:
        path.write_text("old")
    words = [str(tmp_path / "m.so"), "-o", str(old[0]), "--header", str(old[1])]
    assert main(["standalone", *words]) == 2
    assert text in capsys.readouterr().err
    assert [path.read_text() for path in old] == ["old", "old"]
