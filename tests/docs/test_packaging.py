"""The files that are distributed: a source archive that can be built and tested, a wheel with what
users need."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from itertools import chain
from pathlib import Path

import pytest

import mblob
from mblob.binary.elf import ElfFile
from mblob.binary.file_kind import ELF_MAGIC
from tests.docs.test_one_package import check_program
from tests.wheel import MADE, built_parts, built_wheel, call_backend, unpack

# Bytes of the wheels: of mblob, which a machine downloads that runs libraries, and of mblob-packager.
LARGEST = (1_500_000, 1_250_000)


def files_of(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def checkout(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree without what was made in it; libraries of some folders are committed."""
    target = tmp_path_factory.mktemp("checkout") / "mblob"
    made = shutil.ignore_patterns(*MADE)

    def ignore(folder: str, names: list[str]) -> set[str]:
        committed = {"examples", "golden_0_1_0"} & {*Path(folder).parts}
        kept = {n for n in names if n.endswith(".so") and committed}
        return {*made(folder, names)} - kept

    return Path(shutil.copytree(root, target, symlinks=True, ignore=ignore))


@pytest.fixture(scope="module")
def unpacked(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the source archive."""
    folder = tmp_path_factory.mktemp("sdist")
    tracked = files_of(checkout)
    source = unpack(call_backend("build_sdist", checkout, folder), folder)
    (folder / "tracked").write_text("\n".join(sorted(tracked)))
    return source


@pytest.mark.slow
def test_the_source_archive_holds_the_whole_tree(unpacked: Path) -> None:
    tracked = set((unpacked.parent / "tracked").read_text().splitlines())
    assert len(tracked) > 300
    # by setuptools; there already where this tree is such an archive itself
    made = {"PKG-INFO", "setup.cfg"}
    found = {f for f in files_of(unpacked) if not f.startswith("mblob.egg-info/")}
    links = [unpacked / "mblob" / name for name in ("packager", "loader")]
    assert [p for p in links if p.exists()] == []  # setup.py makes them: each file is there once
    assert {f"examples/relax/digits_relax{n}.so" for n in ("", "_20")} <= found
    assert "tests/golden_0_1_0/kernels.so" in found
    assert found - made == tracked - made
    assert os.access(unpacked / ".ci" / "run", os.X_OK)


@pytest.mark.slow
def test_a_wheel_of_the_source_archive_packs_and_loads(unpacked: Path, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    with zipfile.ZipFile(built_wheel()) as wheel:
        wheel.extractall(tmp_path / "site")
    tops = {p.name for p in (tmp_path / "site").iterdir()}
    assert tops == {"mblob", *(f"mblob-{mblob.__version__}.{end}" for end in ("data", "dist-info"))}
    data = tmp_path / "site" / f"mblob-{mblob.__version__}.data" / "data"
    assert files_of(data) == {"share/man/man1/mblob-pack.1"}
    compiled = [
        p
        for p in (tmp_path / "site" / "mblob").rglob("*")
        if ".so" in p.name and p.read_bytes()[:4] == ELF_MAGIC
    ]
    plugins = {p.name for p in (unpacked / "csrc" / "plugins").iterdir() if p.is_dir()} - {"common"}
    assert {p.name.partition(".")[0] for p in compiled} == {
        *("_call", "_copy", "_native", "_programs", "libmblob"),
        *(f"libmblob-{name}" for name in plugins),
    }
    lib = tmp_path / "site" / "mblob" / "loader" / "_lib"
    sources = {p for p in (tmp_path / "site").rglob("*.c")}
    part = (
        tmp_path / "site" / "mblob" / "packager" / "standalone" / "runtime.c"
    )  # a standalone library's own
    assert sources == {lib / "mblob.c", lib / "mblob-plugins.c", part}  # in place of csrc
    assert {p.name for p in lib.glob("*.[ao]")} == {"libmblob.a", "libmblob-ffi.a", "mblob-core.o"}
    for path in compiled:
        names = [s.name for s in ElfFile(memoryview(path.read_bytes())).sections]
        assert [name for name in names if name.startswith(".debug")] == []
    code = """
import array, mblob
assert mblob.__file__.startswith("{site}"), mblob.__file__
source = "void twice(float *x, long n) {{ for (long i = 0; i < n; ++i) x[i] *= 2; }}"
mblob.csource_module(source, functions=["void twice(float *x, long n)"]).export_library("{out}")
with mblob.open("{out}") as library:
    assert "</html>" in library.to_html()
x = array.array("f", [1, 2])
mblob.load_module("{out}")["twice"](x, 2)
assert list(x) == [2, 4]
""".format(site=tmp_path / "site", out=tmp_path / "x.so")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    program = tmp_path / "program"
    program.mkdir()
    python = new_environment(tmp_path / "venv")
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    shutil.copytree(tmp_path / "site", packages, dirs_exist_ok=True)
    check_program(program, unpacked, python)


def listed(wheel: Path) -> dict[str, str]:
    """The digests of the files of a wheel, by name, without those about it."""
    with zipfile.ZipFile(wheel) as archive:
        (record,) = (n for n in archive.namelist() if n.endswith(".dist-info/RECORD"))
        rows = [line.split(",") for line in archive.read(record).decode().splitlines()]
        for name, digest, size in rows:
            data = archive.read(name)
            if name != record:
                own = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
                assert (digest, int(size)) == (f"sha256={own}", len(data)), name
        assert sorted(name for name, *_ in rows) == sorted(
            i.filename for i in archive.infolist() if not i.is_dir()
        )
    return {name: digest for name, digest, _ in rows if ".dist-info/" not in name}


@pytest.mark.slow
def test_the_two_wheels_of_a_release_have_what_one_of_the_sources_has() -> None:
    run, packager = (listed(wheel) for wheel in built_parts())
    assert run.keys() & packager.keys() == set()
    assert {**run, **packager} == listed(built_wheel())
    assert packager.keys() >= {f"mblob/loader/_lib/{n}" for n in ("mblob.c", "libmblob.a")}
    sizes = [wheel.stat().st_size for wheel in built_parts()]
    assert all(size <= most for size, most in zip(sizes, LARGEST)), sizes


@pytest.mark.slow
def test_each_wheel_of_a_release_requires_the_other_in_its_version(tmp_path: Path) -> None:
    version = mblob.__version__
    wanted = (f'mblob-packager=={version}; extra == "pack"', f"mblob[pack]=={version}")
    for wheel, requirement in zip(built_parts(), wanted):
        with zipfile.ZipFile(wheel) as archive:
            (name,) = (n for n in archive.namelist() if n.endswith("/METADATA"))
            assert f"\nRequires-Dist: {requirement}\n" in archive.read(name).decode()
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--dry-run",
        "--no-index",
    ]
    words = ["--ignore-installed", "--no-deps", *map(str, built_parts())]
    done = subprocess.run([*command, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"Would install mblob-{version} mblob-packager-{version}" in done.stdout


def test_a_wheel_that_is_split_is_refused(root: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "mblob-0.1.0-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("mblob/__init__.py", "")
    words = [sys.executable, root / "wheel_parts.py", wheel, "-o", tmp_path / "out"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 1
    expected = f"wheel_parts.py: {wheel.name}: expected a wheel of mblob with its packager\n"
    assert done.stderr == expected and not (tmp_path / "out").exists()


def new_environment(folder: Path, *sources: Path) -> Path:
    """The Python of a new environment that sees trees of sources, and numpy and others of ours."""
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    paths = [*map(str, sources), sysconfig.get_path("purelib")]
    (packages / "others.pth").write_text("\n".join(paths))
    return folder / "bin" / "python"


def test_a_relative_folder_of_an_installation_is_below_the_one_where_make_runs(root: Path) -> None:
    words = ["make", "-n", "uninstall", "PREFIX=some/usr", "DESTDIR=a stage"]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"if cd '{root}/a stage{root}/some/usr/lib' " in done.stdout


def test_an_installation_has_the_manual_page(root: Path, installed: Path, tmp_path: Path) -> None:
    """`installed` built what `make install` installs."""
    words = ["make", "-s", "-j2", "install", f"PREFIX={tmp_path}/usr"]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    page = tmp_path / "usr" / "share" / "man" / "man1" / "mblob-pack.1"
    assert page.read_text() == (root / "docs" / "mblob-pack.1").read_text()


def test_every_requirement_is_imported_by_the_product(root: Path) -> None:
    names = {
        "pyelftools": "elftools",
        "cffi": "cffi",
        "apache-tvm-ffi": "tvm_ffi",
        "apache-tvm": "tvm",
    }
    toml = pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")
    project = toml.loads((root / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert [re.split(r"[^\w-]", name)[0] for name in project["dependencies"]] == ["cffi"]
    added = (extras[name] for name in ("cli", "numpy", "onnx", "pack", "tvm"))
    wanted = [*project["dependencies"], *chain.from_iterable(added)]
    folders = [root / name for name in ("mblob", "packager", "loader")]
    text = "\n".join(p.read_text() for folder in folders for p in folder.rglob("*.py"))
    unused = set()
    for requirement in wanted:
        name = re.split(r"[^\w-]", requirement)[0]
        if not re.search(rf"\b(import|from) {names.get(name, name)}\b", text):
            unused.add(name)
    assert unused == set()


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["as files", "whole"])
def test_links_that_an_archive_lost_are_made_again(
    checkout: Path, tmp_path: Path, lost: str
) -> None:
    source = Path(shutil.copytree(checkout, tmp_path / "source", symlinks=True))
    for name in ("packager", "loader"):
        (source / "mblob" / name).unlink()
        if lost == "as files":
            (source / "mblob" / name).write_text(f"../{name}")
    words = [sys.executable, "setup.py", "--quiet", "--version"]
    done = subprocess.run(words, cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (source / "mblob" / "loader" / "__init__.py").samefile(source / "loader" / "__init__.py")
    shutil.rmtree(source / "packager")
    done = subprocess.run(words, cwd=source, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("packager is missing: the source tree is not complete")


@pytest.mark.nightly
def test_an_unpacked_source_archive_can_be_installed_in_place(
    unpacked: Path, tmp_path: Path
) -> None:
    source = shutil.copytree(unpacked, tmp_path / unpacked.name)
    words = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    done = subprocess.run(words, cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    code = "import mblob.native.runtime as r; print(r.lib.mblob_abi_version(), r.__file__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, text=True)
    assert done.stdout.split()[0] == "1" and str(tmp_path) in done.stdout, done.stderr
    program = tmp_path / "program"
    program.mkdir()
    check_program(program, unpacked, new_environment(tmp_path / "venv", source))
