"""`mblob-pack build --depfile`: make packs again when a file that was read changes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def inputs(tmp_path: Path) -> list[str]:
    """Words of `build` with one input of each kind; the kernels include headers whose names make
    reads in its own way."""
    (tmp_path / "include dir").mkdir()
    (tmp_path / "include dir" / "b $x#1.h").write_text("#define B 1\n")
    (tmp_path / "a.h").write_text('#include "b $x#1.h"\n')
    (tmp_path / "k.c").write_text('#include <stdio.h>\n#include "a.h"\nint k(void) { return B; }\n')
    (tmp_path / "l.c").write_text("int l(void) { return 2; }\n")
    (tmp_path / "o.c").write_text("int o(void) { return 3; }\n")
    subprocess.run(["cc", "-c", "-fPIC", "o.c"], cwd=tmp_path, check=True)
    (tmp_path / "labels.txt").write_text("cat\n")
    np.savez(tmp_path / "w.npz", w=np.ones(2, "float32"))
    words = ["--kernel", "k.c", "--kernel", "l.c", "--object", "o.o", "--blob", "labels=labels.txt"]
    return [*words, "--weights", "w.npz", "--depfile", "d.d", "-o", "x.so"]


OPTIONS = ["--", "-I", "include dir"]
READ = ["k.c", "l.c", "a.h", "include dir/b $x#1.h", "o.o", "labels.txt", "w.npz"]


@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_make_packs_again_when_any_file_that_was_read_changes(
    pack: Callable[..., subprocess.CompletedProcess[str]],
    inputs: list[str],
    tmp_path: Path,
    require: Callable[[str], str],
    cc: str,
) -> None:
    require(cc)
    done = pack("build", *inputs, "-q", "--cc", cc, *OPTIONS)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (tmp_path / "Makefile").write_text("x.so:\n\t@echo packs\ninclude d.d\n")

    made = (tmp_path / "x.so").stat().st_mtime

    def packs_when_newer(name: str) -> bool:
        path = tmp_path / name
        before = path.stat().st_mtime
        os.utime(path, (made + 9, made + 9))
        done = subprocess.run(["make", "-r"], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        os.utime(path, (before, before))
        return "packs" in done.stdout

    assert {name: packs_when_newer(name) for name in READ} == dict.fromkeys(READ, True)
    assert not packs_when_newer("o.c")
    assert "stdio.h" not in (tmp_path / "d.d").read_text()


def test_what_a_fortran_source_includes_was_read(
    pack: Callable[..., subprocess.CompletedProcess[str]],
    tmp_path: Path,
    require: Callable[[str], str],
) -> None:
    require("gfortran")
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "k.h").write_text("#define K 3.0\n")
    text = '#include "k.h"\nsubroutine s(x)\n  real, intent(inout) :: x(3)\n  x = x * K\nend subroutine\n'
    (tmp_path / "s.F90").write_text(text)
    words = ["--kernel", "s.F90", "-o", "s.so", "-q", "--depfile", "s.d", "--", "-I", "inc"]
    done = pack("build", *words)
    assert (done.returncode, done.stderr) == (0, "")
    files = (tmp_path / "s.d").read_text().replace("\\\n", " ").split(": ")[1].split()
    assert {Path(name).name for name in files} >= {"s.F90", "k.h"}
    assert not any("math-vector" in name for name in files)


def test_a_manifest_and_a_model_are_files_that_were_read(
    pack: Callable[..., subprocess.CompletedProcess[str]], root: Path, tmp_path: Path
) -> None:
    manifest = root / "examples/digits/digits.toml"
    assert pack("build", manifest, "-o", "x.so", "--depfile", "d.d").returncode == 0
    rule = (tmp_path / "d.d").read_text()
    assert rule.startswith("x.so: \\\n")
    named = {Path(line.strip(" \\")).name for line in rule.splitlines()[1:]}
    assert {"digits.toml", "kernels.c"} <= named
    assert any(name.endswith(".json") for name in named)


@pytest.mark.parametrize(
    ("depfile", "what"), [("k.c", "a kernel (k.c)"), ("x.so", "the library (x.so)")]
)
def test_a_depfile_that_is_an_input_or_the_library_is_refused(
    pack: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path, depfile: str, what: str
) -> None:
    (tmp_path / "k.c").write_text("int k(void) { return 1; }\n")
    (tmp_path / "x.so").write_text("old")
    done = pack("build", "--kernel", "k.c", "-o", "x.so", "--depfile", depfile)
    assert done.returncode != 0
    assert done.stderr.count("\n") == 1 and f"{depfile}: the output is also {what}" in done.stderr
    assert (tmp_path / "k.c").read_text().startswith("int k") and (
        tmp_path / "x.so"
    ).read_text() == "old"


def test_make_follows_names_that_it_reads_in_its_own_way(
    pack: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    names = ["a=b.c", "a:b.c", "a;b.c"]
    for name in names:
        (tmp_path / name).write_text(f"int f{names.index(name)}(void) {{ return 1; }}\n")
    (tmp_path / "Makefile").write_text("k\\:.so:\n\t@echo packs\ninclude k.d\n")
    for words in (names[:1], names):
        kernels = [word for name in words for word in ("--kernel", name)]
        done = pack("build", *kernels, "-o", "k:.so", "--depfile", "k.d")
        assert done.returncode == 0, done.stderr
        made = (tmp_path / "k:.so").stat().st_mtime
        for name in words:
            os.utime(tmp_path / name, (made + 9, made + 9))
            done = subprocess.run(["make", "-r"], cwd=tmp_path, capture_output=True, text=True)
            assert (done.returncode, done.stdout) == (0, "packs\n"), (name, done)
            os.utime(tmp_path / name, (made - 9, made - 9))
    done = pack("build", "--kernel", "a:b.c", "-o", "k=.so", "--depfile", "k.d")
    assert "make cannot have a target with '=' in its name" in done.stderr
