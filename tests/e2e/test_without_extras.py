"""Machines that run libraries, and have none of the packages that packing needs."""

from __future__ import annotations

import importlib.util
import os
import runpy
import shutil
import subprocess
import sys
import venv
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.packager import MODULES, PARTS
from tests.wheel import built_parts

ABSENT = (
    "import sys; sys.modules.update(dict.fromkeys(('lief', 'elftools', 'pycparser', 'tomli')))\n"
)
KERNEL = """
void twice(float x[2]) { for (int i = 0; i < 2; ++i) x[i] *= 2; }
int three(void) { return 3; }
"""
RUNNING = """
import array, mblob
from mblob.cli.main import main
x = array.array("f", [1, 2])
lib = mblob.load_module("lib.so")
lib.twice(x)
assert list(x) == [2, 4] and bytes(lib.payloads["config"]) == b"cat" and "w" in lib.tensors
mblob.verify("lib.so")
mblob.add("lib.so", blobs={"more": b"dog"}, output="more.so")
mblob.swap("more.so", blobs={"config": b"new"}, output="new.so")
lib = mblob.load_module("new.so")
assert bytes(lib.payloads["config"]) == b"new" and bytes(lib.payloads["more"]) == b"dog"
for words in ("inspect lib.so", "inspect lib.so --html page.html", "verify lib.so", "diff lib.so new.so",
              "extract lib.so -o parts/", "run lib.so three"):
    assert main(words.split()) in (None, 0, 1), words
"""
WITHOUT_PROTOTYPE = """
import ctypes, mblob
lib = mblob.load_module("plain.so")
try:
    lib.ctypes.one(1)
except TypeError as error:
    print(error)
assert lib.symbol("one", ctypes.c_int, [ctypes.c_int])(1) == 2
"""
PE = (
    b"MZ".ljust(60, b"\0")
    + (64).to_bytes(4, "little")
    + b"PE\0\0"
    + (0x8664).to_bytes(2, "little").ljust(240, b"\0")
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Libraries, and what they are made of."""
    made = tmp_path_factory.mktemp("without_extras")
    (made / "k.c").write_text(KERNEL)
    (made / "x.dll").write_bytes(PE)
    library = mblob.csource_module(made / "k.c")
    library.import_module(mblob.blob_module("config", b"cat"))
    library.import_module(mblob.safetensors_module({"w": np.ones(2, "float32")}))
    library.export_library(made / "lib.so")
    return made


def without(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", ABSENT + code], cwd=folder, capture_output=True, text=True
    )


def copied(folder: Path, tmp_path: Path) -> Path:
    """A copy that a test may write into."""
    return shutil.copytree(folder, tmp_path / "work", ignore=shutil.ignore_patterns("parts"))


@pytest.mark.compiles
def test_libraries_run_and_their_payloads_change(folder: Path) -> None:
    done = without(RUNNING, folder)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_a_wheel_runs_beside_cffi_alone(folder: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=False)
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    with zipfile.ZipFile(built_parts()[0]) as wheel:
        wheel.extractall(packages)
    for name in ("cffi", "_cffi_backend"):
        found = importlib.util.find_spec(name)
        assert found is not None and found.origin is not None
        place = Path(found.origin)
        place = place.parent if found.submodule_search_locations else place
        (packages / place.name).symlink_to(place)
    python = tmp_path / "venv" / "bin" / "python"
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    work = copied(folder, tmp_path)
    run = partial(subprocess.run, cwd=work, env=environment, capture_output=True, text=True)
    done = run([python, "-c", RUNNING])
    assert (done.returncode, done.stderr) == (0, "")
    done = run([python, "-m", "mblob.cli.main", "doctor"])
    assert done.returncode == 6
    assert done.stdout.splitlines()[-1].startswith("this machine can load and run; for building")
    assert done.stdout.count("packing needs mblob-packager: pip install 'mblob[pack]'") == 1
    assert "Error" not in done.stdout
    done = run([python, "-m", "mblob", "--libdir", "--amalgamation"])
    assert done.returncode == 6 and done.stdout.endswith("/_lib\n")
    expected = "mblob.c needs mblob-packager: pip install 'mblob[pack]'"
    assert done.stderr == f"python -m mblob: {expected}\n"


@pytest.fixture(scope="module")
def small(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with mblob as the wheel of mblob has it: without the rooms of mblob-packager."""
    site = tmp_path_factory.mktemp("small")
    (site / "mblob" / "packager").mkdir(parents=True)
    for path in (*(root / "mblob").iterdir(), *(root / "packager").iterdir()):
        if path.name not in (*PARTS, "packager", "__pycache__"):
            within = site / "mblob" if path.parent.name == "mblob" else site / "mblob" / "packager"
            (within / path.name).symlink_to(path)
    return site


def on_small(small: Path, folder: Path, code: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", ABSENT + code, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(small)},
        capture_output=True,
        text=True,
    )


@pytest.mark.compiles
def test_libraries_run_and_their_payloads_change_without_the_packager(
    small: Path, folder: Path, tmp_path: Path
) -> None:
    work = copied(folder, tmp_path)
    where = f"import mblob; assert mblob.__file__.startswith('{small}')\n"
    done = on_small(small, work, where + RUNNING)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.compiles
@pytest.mark.parametrize(
    "code",
    [
        "mblob.csource_module('k.c').export_library('new.so')",
        "mblob.blob_module('alone', b'data').export_library('new.so')",
        "mblob.add('lib.so', kernels=['k.c'], output='new.so')",
        "mblob.convert('lib.so', 'new.so', dialect='ffi')",
        "mblob.static_library('k.o')",
        "mblob.device_module('opencl', '', functions=[])",
        "mblob.byoc",
        "import mblob.packager.standalone.runtime",
        "mblob.standalone('lib.so', 'new.so')",
    ],
)
def test_what_compiles_or_links_needs_the_packager_and_writes_nothing(
    small: Path, folder: Path, code: str
) -> None:
    before = sorted(folder.iterdir())
    done = on_small(small, folder, f"import mblob\n{code}")
    expected = "packing needs mblob-packager: pip install 'mblob[pack]'"
    assert done.stderr.splitlines()[-1] == f"mblob.errors.IncompatibleError: {expected}"
    assert sorted(folder.iterdir()) == before


@pytest.mark.compiles
@pytest.mark.parametrize(
    "words",
    [
        "build k.c -o new.so",
        "add lib.so k.c -o new.so",
        "convert lib.so --dialect ffi -o new.so",
        "standalone lib.so -o new.so",
        "doctor --target aarch64-linux-gnu",
    ],
)
def test_commands_that_need_the_packager_say_it_in_one_line(
    small: Path, folder: Path, words: str
) -> None:
    code = "from mblob.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    done = on_small(small, folder, code, *words.split())
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (6, "", 1), done
    assert done.stderr.endswith("packing needs mblob-packager: pip install 'mblob[pack]'\n")


def test_a_packager_of_another_version_is_refused_and_the_rest_works(
    small: Path, folder: Path, tmp_path: Path
) -> None:
    site = shutil.copytree(small, tmp_path / "site", symlinks=True)
    other = site / "mblob" / "packager" / "compile"
    other.mkdir()
    (other / "__init__.py").write_text('\n__version__ = "0.0.9"\nraise SystemError\n')
    code = "from mblob.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    version = mblob.__version__
    text = (
        f"packing needs mblob-packager of the version of mblob, {version}, found another: pip install"
        f" 'mblob[pack]=={version}'\n"
    )
    for words in (
        "build k.c -o new.so",
        "standalone k.c -o new.so",
        "doctor --target aarch64-linux-gnu",
    ):
        done = on_small(site, folder, code, *words.split())
        assert (done.returncode, done.stdout) == (6, "") and done.stderr.endswith(text), done
    assert text.replace("\n", "") in on_small(site, folder, code, "doctor").stdout
    assert on_small(site, folder, code, "run", "lib.so", "three").stdout == "3\n"


def test_the_wheel_of_the_packager_has_the_rooms_that_are_asked_for(root: Path) -> None:
    split = runpy.run_path(str(root / "wheel_parts.py"))["PACKAGER"]
    found = [name for name in split if name.startswith("mblob/packager/")]
    modules = [f"{module.replace('.', '/')}.py" for module in MODULES]
    assert found == [
        f"mblob/packager/{name}" for name in (*(f"{part}/" for part in PARTS), *modules)
    ]
    assert all((root / "packager" / part / "__init__.py").is_file() for part in PARTS)
    assert all((root / "packager" / module).is_file() for module in modules)


@pytest.mark.compiles
def test_types_in_debug_information_name_the_extra_and_may_be_given(folder: Path) -> None:
    (folder / "plain.c").write_text("int one(int x) { return x + 1; }\n")
    words = ["cc", "-g", "-shared", "-fPIC", folder / "plain.c", "-o", folder / "plain.so"]
    subprocess.run(words, check=True)
    done = without(WITHOUT_PROTOTYPE, folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "needs pyelftools: pip install 'mblob[pack]'; get it with symbol('one'" in done.stdout


@pytest.mark.compiles
@pytest.mark.parametrize(
    ("code", "package"),
    [
        ("mblob.csource_module('k.c').export_library('new.so')", "pyelftools"),
        ("mblob.csource_module('k.c', functions=['void twice(float *x)']).export_library('new.so')", "pycparser"),
        ("mblob.add('lib.so', kernels=['k.c'], output='new.so')", "pyelftools"),
        ("mblob.open('x.dll')", "lief"),
    ],
)  # fmt: skip
def test_what_needs_a_package_names_the_extra_and_writes_nothing(
    folder: Path, code: str, package: str
) -> None:
    before = sorted(folder.iterdir())
    done = without(f"import mblob\n{code}", folder)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("mblob.errors.IncompatibleError: ")
    assert last.endswith(f" needs {package}: pip install 'mblob[pack]'")
    assert sorted(folder.iterdir()) == before


@pytest.mark.compiles
@pytest.mark.parametrize(
    "words", ["build k.c -o new.so", "add lib.so k.c -o new.so", "inspect x.dll"]
)
def test_commands_say_it_in_one_line(folder: Path, words: str) -> None:
    code = "from mblob.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", ABSENT + code, *words.split()]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (6, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith("pip install 'mblob[pack]'\n")
