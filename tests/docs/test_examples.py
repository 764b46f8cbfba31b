"""The example hosts build without a warning, give the right answer, and leak nothing."""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.compilers import include_flags

WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")
PROTOTYPE = "void vadd(const float *a, const float *b, float *c, int64_t n)"

Build = Callable[..., Path]


def pack(folder: Path, *arguments: object) -> None:
    subprocess.run(
        [sys.executable, "-m", "mblob.cli.main", "build", *map(str, arguments)],
        cwd=folder,
        check=True,
    )


@pytest.fixture(scope="module")
def deploy(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deploy")
    pack(
        folder, "--kernel", root / "examples" / "vadd.c", "--function", PROTOTYPE, "-o", "deploy.so"
    )
    return folder / "deploy.so"


@pytest.fixture(scope="module")
def digits(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    pack(folder, root / "examples" / "digits" / "digits.toml", "-o", "digits.so")
    return folder / "digits.so"


@pytest.fixture(scope="module")
def build(
    installed: Path, tmp_path_factory: pytest.TempPathFactory, require: Callable[[str], str]
) -> Build:
    """`build(source, *flags)`: a program linked with the installed libmblob.so."""
    folder = tmp_path_factory.mktemp("programs")

    def compile_program(source: Path, *flags: str) -> Path:
        cxx = source.suffix == ".cpp"
        compiler = (
            [require(os.environ.get("CXX") or "c++"), "-std=c++17"]
            if cxx
            else [os.environ.get("CC") or "cc", "-std=c11"]
        )
        program = folder / f"{source.parent.name}_{source.stem}"
        libraries = [f"-L{installed}/lib", f"-Wl,-rpath,{installed}/lib", "-lmblob", "-ldl"]
        subprocess.run(
            [
                *compiler,
                "-O1",
                "-g",
                *WARNINGS,
                f"-I{installed}/include",
                str(source),
                "-o",
                str(program),
                *libraries,
                *flags,
            ],
            check=True,
        )
        return program

    return compile_program


def tvm_headers(installed: Path) -> str:
    """The option for TVM's header paths, which pkg-config mblob-tvm gives."""
    return f"-I{installed}/include/mblob/compat"


def run(*command: object) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_c_host_adds(root: Path, build: Build, deploy: Path) -> None:
    assert run(build(root / "examples/c_host/main.c"), deploy) == "11 22 33\n"


def test_the_c_host_reports_a_missing_library(root: Path, build: Build) -> None:
    done = subprocess.run(
        [build(root / "examples/c_host/main.c"), "nope.so"], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "nope.so" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_cxx_host_prints_the_tree_and_adds(root: Path, build: Build, deploy: Path) -> None:
    assert run(build(root / "examples/cxx_host/main.cpp"), deploy) == "library\n11\n22\n33\n"


def test_the_dlopen_host_finds_the_plain_function(root: Path, build: Build, deploy: Path) -> None:
    program = build(root / "examples/dlopen_host/main.c")
    assert run(program, deploy) == "11 22 33\n"


OF_PYTHON = """
import sys
import numpy as np
from mblob.compilers import include_flags
import mblob
vm = mblob.relax.VirtualMachine(mblob.load_module(sys.argv[1]), mblob.cpu(0))
images, batch = np.load(sys.argv[2]), int(sys.argv[3])
for i in range(0, len(images), batch):
    print(*vm["main"](images[i : i + batch]).numpy(), sep=chr(10))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "batch"), [("digits_relax", 360), ("digits_relax_20", 20)])
def test_relax_programs_read_the_same_digits_from_c_python_and_the_command_line(
    root: Path, build: Build, tmp_path: Path, name: str, batch: int
) -> None:
    if platform.machine() != "x86_64":
        pytest.skip("the library is compiled for x86-64")
    library, folder = root / f"examples/relax/{name}.so", root / "examples/digits"
    labels = np.load(folder / "test_labels.npy")
    images = np.load(folder / "test_images.npy")[:, None]
    program = build(root / "examples/relax/classify.c")
    words = [batch] if batch < len(images) else []
    lines = run(program, library, folder / "test_images.npy", *words)
    digits = np.array([int(line) for line in lines.split()])
    assert np.count_nonzero(digits == labels) == 359
    np.save(tmp_path / "images.npy", images)
    assert run(sys.executable, "-c", OF_PYTHON, library, tmp_path / "images.npy", batch) == lines
    np.save(tmp_path / "images.npy", images[:batch])
    run(
        *(sys.executable, "-m", "mblob.cli.main", "run", library),
        *(f"image={tmp_path}/images.npy", "-o", tmp_path / "out.npz"),
    )
    with np.load(tmp_path / "out.npz") as out:
        np.testing.assert_array_equal(out["out0"], digits[:batch])


@pytest.mark.own_process
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the library is compiled for x86-64")
def test_a_relax_program_takes_the_batches_that_it_was_compiled_for(root: Path) -> None:
    images = np.load(root / "examples/digits/test_images.npy")[:, None]
    any_batch, twenty = (
        mblob.relax.VirtualMachine(
            mblob.load_module(root / f"examples/relax/{name}.so"), mblob.cpu(0)
        )
        for name in ("digits_relax", "digits_relax_20")
    )
    for count in (0, 1, 20, 360):
        assert any_batch["main"](images[:count]).shape == (count,)
    with pytest.raises(ValueError, match=r"param=image.*mismatch to specified constant"):
        twenty["main"](images[:19])


def test_warm_calls_of_a_relax_program_allocate_nothing(
    root: Path, build: Build, installed: Path, golden: Path
) -> None:
    """Dynamic and static shapes, shapes from data, kernels that sort, tuples, closures, recursion;
    bytecode and compiled."""
    if platform.machine() != "x86_64" or platform.libc_ver()[0] != "glibc":
        pytest.skip("the library is compiled for x86-64, and allocations of glibc are counted")
    source = root / "tests/c/hosts/relax_allocations.c"
    program = build(source, f"-I{installed}/include/mblob/compat")
    assert run(program, root / "examples/relax/digits_relax.so", "main", "u3,1,8,8") == "0\n"
    for call in (
        "mlp_dynamic forward f3,16 f12,16 f12 f4,12 f4",
        "data_dependent sorted f2,5",
        "data_dependent unique i6",
        "data_dependent unique i5000",
        "data_dependent nonzero i5000",
        "data_dependent of_shape f3,4,2",
        "data_dependent to_shape f6 l2",
        "tuples split f4,6",
        "closures apply f3 f3",
        "control_flow power_of_two i",
        "compiled_control power_of_two i",
        "compiled_tuples split f4,6",
        "compiled_shapes shape_of f3,4",
        "compiled_shapes cast f4,4",
        "compiled_shapes same f4 f4",
    ):
        library, *words = call.split()
        assert run(program, golden / "relax" / f"{library}.so", *words) == "0\n", call


@pytest.mark.slow
def test_the_commands_of_the_examples_page_run(
    blocks, root: Path, installed: Path, require, tmp_path: Path
) -> None:
    require("pkg-config")
    work = tmp_path / "examples"
    work.mkdir()
    for name in ("vadd.c", "c_host", "cxx_host", "dlopen_host", "tvm_deploy", "static_host"):
        (work / name).symlink_to(root / "examples" / name)
    text = "".join(b.text for b in blocks(root / "examples" / "README.md") if b.language == "sh")
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PKG_CONFIG_PATH": f"{installed}/lib/pkgconfig",
        "LD_LIBRARY_PATH": f"{installed}/lib",
    }
    done = subprocess.run(["sh", "-euc", text], cwd=work, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "11 22 33\nlibrary\n11\n22\n33\n11 22 33\n10\n11 22 33\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "way",
    ["one", *(pytest.param(way, marks=pytest.mark.slow) for way in ("numpy", "dask", "ray"))],
)
def test_the_batch_example_reads_the_same_digits_each_way(
    blocks, root: Path, tmp_path: Path, way: str
) -> None:
    """The commands of its page, for fewer images."""
    if way == "dask":
        pytest.importorskip("distributed")
    if way == "ray" and importlib.util.find_spec("ray") is None:
        pytest.skip("no ray: it has no wheel for this Python, or is not installed")
    page = blocks(root / "examples" / "batch" / "README.md")
    commands = [b.text for b in page if b.language == "sh" and b.info in ("", way)]
    text = "".join(commands).replace("2000000", "50000")
    assert f" {way}" in text or way in ("one", "numpy")
    (tmp_path / "examples").symlink_to(root / "examples")
    # Their files; a name of a socket in it may have 107 characters.
    with tempfile.TemporaryDirectory(prefix="b") as short:
        folders = dict.fromkeys(("HOME", "TMPDIR", "RAY_TMPDIR"), short)
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["sh", "-euc", text],
            cwd=tmp_path,
            env={**os.environ, **folders, "PATH": path},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    images, labels = (
        np.load(root / f"examples/digits/test_{name}.npy") for name in ("images", "labels")
    )
    at = np.arange(50000) % len(images)
    rows = [line.split()[4:] for line in done.stdout.splitlines()]
    assert len(rows) >= 2
    assert all(row == rows[0] for row in rows)
    assert abs(np.array(rows[0], int) - np.bincount(labels[at])).max() < 0.01 * len(at)


@pytest.fixture(scope="module")
def addone(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("addone")
    pack(folder, "--kernel", root / "examples/tvm_deploy/addone.c", "-o", "lib.so")
    return folder / "lib.so"


@pytest.mark.slow
def test_the_host_of_tvms_guides_adds_and_leaks_nothing(
    root: Path, build: Build, installed: Path, addone: Path, require
) -> None:
    program = build(root / "examples/tvm_deploy/main.cpp", tvm_headers(installed))
    assert run(program, addone) == "10\n"
    valgrind = require("valgrind")
    run(valgrind, "--quiet", "--error-exitcode=99", "--leak-check=full", program, addone)


@pytest.mark.slow
def test_the_host_of_tvms_guides_says_what_is_wrong(
    root: Path, build: Build, deploy: Path, installed: Path
) -> None:
    program = build(root / "examples/tvm_deploy/main.cpp", tvm_headers(installed))
    for argument, text in (("nope.so", "nope.so"), (deploy, "the library has no function addone")):
        done = subprocess.run([program, argument], capture_output=True, text=True)
        assert done.returncode == 1
        assert text in done.stderr
        assert len(done.stderr.splitlines()) == 1


TEN_LINES = """\
#include <mblob.h>
#include <stdio.h>
int main(int argc, char **argv) {
  unsigned char pixels[64] = {0, 8, 16};
  float image[64];
  mblob_module *net;
  if (argc < 2 || mblob_open(argv[1], NULL, &net)) return 1;
  if (mblob_call(net, "normalize", "uint8[1,8,8],float32[1,8,8]", pixels, image)) return 2;
  printf("%g %g %g\\n", (double)image[0], (double)image[1], (double)image[2]), mblob_module_release(net);
}
"""


@pytest.mark.parametrize("suffix", [".c", ".cpp"])
def test_ten_lines_of_c_or_cxx_open_the_digits(
    build: Build, digits: Path, tmp_path: Path, suffix: str
) -> None:
    source = tmp_path / f"ten_lines{suffix}"
    source.write_text(TEN_LINES)
    assert run(build(source), digits) == "0 0.5 1\n"


@pytest.fixture(scope="module")
def images(root: Path) -> Path:
    return root / "examples" / "digits" / "test_images.npy"


@pytest.mark.slow
def test_valgrind_reports_nothing_on_the_digits(
    root: Path, build: Build, digits: Path, images: Path, require
) -> None:
    valgrind = require("valgrind")
    checks = [
        "--quiet",
        "--error-exitcode=99",
        "--leak-check=full",
        "--errors-for-leak-kinds=definite,indirect,possible",
    ]
    assert (
        len(
            run(
                valgrind, *checks, build(root / "examples/digits/classify.c"), digits, images
            ).split()
        )
        == 360
    )


@pytest.mark.slow
def test_valgrind_reports_nothing_on_the_cxx_host(
    root: Path, build: Build, deploy: Path, require
) -> None:
    valgrind = require("valgrind")
    run(
        valgrind,
        "--quiet",
        "--error-exitcode=99",
        "--leak-check=full",
        build(root / "examples/cxx_host/main.cpp"),
        deploy,
    )


@pytest.mark.slow
def test_address_and_undefined_sanitizers_report_nothing(
    root: Path, sanitized: Path, digits: Path, images: Path, tmp_path: Path
) -> None:
    """The runtime's own sources are instrumented too."""
    program = tmp_path / "classify"
    subprocess.run(
        [
            os.environ.get("CC") or "cc", "-std=gnu11", "-O1", "-g",
            "-fsanitize=address,undefined", "-fno-sanitize-recover=all", *include_flags(),
            str(root / "examples/digits/classify.c"), str(sanitized / "address" / "libmblob.a"), "-o", str(program),
            "-pthread", "-ldl", "-lm",
        ],
        check=True,
    )  # fmt: skip
    done = subprocess.run([program, digits, images], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.split()) == 360


@pytest.mark.slow
def test_a_kind_of_module_in_each_language_saves_what_it_has_become(
    root: Path, tmp_path: Path, require: Callable[[str], str]
) -> None:
    require("c++")
    program = root / "examples" / "own_kind" / "own_kind.py"
    done = subprocess.run(
        [sys.executable, program, tmp_path], capture_output=True, text=True, check=False
    )
    expected = [f"{d} {w} 3 4 5" for d in ("classic", "classic", "ffi") for w in ("classic", "ffi")]
    assert done.stdout.splitlines() == expected, done.stderr
