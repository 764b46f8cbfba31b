"""`mblob-pack doctor`: what it finds here is true, and what is missing is said."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mblob.cli import doctor
from mblob.cli.findings import Finding, report_lines
from mblob.compilers import include_flags


@pytest.fixture(scope="module")
def said() -> subprocess.CompletedProcess[str]:
    """The report on this machine as JSON, for which it compiles and links with each linker."""
    words = [sys.executable, "-m", "mblob.cli.main", "doctor", "--json"]
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def report(said: subprocess.CompletedProcess[str]) -> Any:
    return json.loads(said.stdout)


def test_a_machine_that_runs_these_tests_is_sound(said, report) -> None:
    assert said.returncode == 0, said.stdout
    found = [Finding(**f) for f in report["findings"]]
    assert doctor.verdict(found, "it can build") == "it can build"


def test_what_is_missing_is_in_the_last_line() -> None:
    found = [Finding(s, s, ok=True, needed=True, version="1") for s in ("build", "load")]
    assert doctor.verdict(found, "it can build") == "it can build"
    found[0] = replace(found[0], ok=False)
    assert doctor.verdict(found, "it can build").startswith("this machine can load and run; for")
    found[1] = replace(found[1], ok=False)
    assert doctor.verdict(found, "it can build").startswith("something needed is missing")


def test_json_names_each_finding_with_version_and_place(report) -> None:
    assert (report["schema"], report["ok"]) == ("mblob/doctor/1", True)
    found = {f["name"]: f for f in report["findings"]}
    assert Path(found["C compiler"]["place"]).exists()
    assert found["C runtime"]["ok"]
    assert Path(found["C runtime"]["place"]).exists()
    assert found["default linker"]["ok"]
    assert found["ld.bfd"]["ok"] == (shutil.which("ld.bfd") is not None)


def test_each_section_is_one_block_in_the_order_of_the_work(report) -> None:
    lines = [*report_lines([Finding(**f) for f in report["findings"]])]
    sections = [line for line in lines if not line.startswith(" ")]
    assert sections == ["build", "link and run", "load", "plug-ins", "command line"]
    reported = [f["section"] for f in report["findings"]]
    assert list(dict.fromkeys(reported)) == sections


def test_a_linker_that_cannot_grow_a_library_says_which_forms_it_can(report, require) -> None:
    require("mold")
    found = {f["name"]: f for f in report["findings"]}
    assert found["ld.mold"]["ok"]
    assert found["ld.mold"]["version"].endswith("only with --embed object or append, not grow")
    assert "grow" not in found["ld.bfd"]["version"]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "target",
    [
        "aarch64-linux-gnu",
        "arm-linux-gnueabihf",
        "i686-linux-gnu",
        "riscv64-linux-gnu",
        "s390x-linux-gnu",
    ],
)
def test_for_a_target_it_packs_and_runs_a_trial(pack, require, target: str) -> None:
    require(f"{target}-gcc")
    emulator = require(f"qemu-{target.partition('-')[0].replace('i686', 'i386')}")
    done = pack("doctor", "--target", target, "--json")
    found = {f["name"]: f for f in json.loads(done.stdout)["findings"]}
    assert done.returncode == 0, done.stdout
    assert {name for name, f in found.items() if f["needed"]} == {
        "C compiler",
        "C library",
        "packing",
    }
    assert found["packing"]["version"].startswith("compiled, packed and verified a kernel for ")
    assert found["emulator"]["ok"] and found["emulator"]["place"] == emulator
    assert found["emulator"]["version"].endswith("; the trial runs")
    assert f"this machine can pack for {target}" in pack("doctor", "--target", target).stdout


def test_for_a_target_it_says_what_is_missing(pack, tmp_path: Path) -> None:
    """No compiler at all; one without a C library."""
    for triple, package in (("riscv64-linux-gnu", "riscv64"), ("s390x-linux-gnu", "s390x")):
        done = pack("doctor", "--target", triple, env={"PATH": str(tmp_path), "CC": ""})
        assert done.returncode == 6
        assert (
            f"!!  C compiler               no C compiler found for {triple}: tried" in done.stdout
        )
        assert f"apt-get install gcc-{triple} libc6-dev-{package}-cross" in done.stdout
        assert "or pass --cc" in done.stdout and " cc=" not in done.stdout
        assert done.stdout.endswith("something needed is missing: see the lines with !!\n")
    bare = tmp_path / "riscv64-linux-gnu-gcc"
    bare.write_text(BARE)
    bare.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = pack("doctor", "--target", "riscv64-linux-gnu", env={"PATH": path, "CC": str(bare)})
    assert done.returncode == 6
    assert re.search(
        r"!!  C library .*fatal error: dlfcn.h: No such file.*libc6-dev-riscv64-cross", done.stdout
    )


# A compiler that has no headers.
BARE = """#!/bin/sh
case $1 in -dumpmachine) echo riscv64-linux-gnu; exit 0;; --version) echo bare 1; exit 0;; esac
echo "host.c:1:10: fatal error: dlfcn.h: No such file or directory" >&2
exit 1
"""


def test_without_a_compiler_it_says_so_and_exits_with_6(pack, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    done = pack("doctor", "--json", env={"PATH": str(tmp_path / "bin"), "CC": ""})
    assert done.returncode == 6
    found = {f["name"]: f for f in json.loads(done.stdout)["findings"]}
    assert not found["C compiler"]["ok"]
    assert "not on PATH" in found["C compiler"]["version"]
    assert not found["default linker"]["ok"]
    assert found["C runtime"]["ok"]


def test_packages_that_the_command_line_uses_are_named_with_the_extra_that_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    found = {f.name: f for f in doctor.extra_findings()}
    bar, arrays = found["progress bar"], found["arrays"]
    assert (bar.ok, bar.needed) == (False, False)
    assert bar.version == "tqdm is not installed: pip install 'mblob[cli]'"
    assert (arrays.ok, arrays.version.split()[0]) == (True, "numpy")
    assert Path(arrays.place).exists()


@pytest.mark.slow
def test_it_leaves_nothing_behind(pack, tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    done = pack("doctor", env={"TMPDIR": str(tmp_path / "scratch")})
    assert done.returncode == 0
    assert done.stdout.endswith("this machine can build, load and run\n")
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.slow
def test_entry_points_are_loaded_and_told(pack, tmp_path: Path) -> None:
    info = tmp_path / "site" / "announced-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: announced\nVersion: 1\n")
    lines = ("good = announced:load", "gone = no_such_module:load", "number = announced:number")
    (info / "entry_points.txt").write_text("\n".join(("[mblob.loaders]", *lines, "")))
    (info.parent / "announced.py").write_text("def load(payload): ...\nnumber = 1\n")
    path = os.pathsep.join(filter(None, (str(info.parent), os.environ.get("PYTHONPATH"))))
    done = pack("doctor", "--json", env={"PYTHONPATH": path})
    found = {f["name"]: f for f in json.loads(done.stdout)["findings"]}
    assert done.returncode == 0
    names = ("good", "gone", "number")
    told = {
        name: (found[f"Python loader {name}"]["ok"], found[f"Python loader {name}"]["version"])
        for name in names
    }
    assert told["good"] == (True, "announced:load")
    assert told["gone"][0] is told["number"][0] is False
    assert "no_such_module:load does not load: ModuleNotFoundError" in told["gone"][1]
    assert "announced:number is int, expected a function" in told["number"][1]


@pytest.mark.slow
def test_two_plug_ins_for_one_key_are_told(pack, root: Path, cc, tmp_path: Path) -> None:
    flags = (
        *include_flags(),
        "-DMBLOB_HOST",
        '-DTOY_KEY="toy_key"',
        "-fvisibility=hidden",
    )
    source = (root / "tests/c/kernels/plugin_toy.c").read_text()
    files = []
    for folder, name in (("one", "toy"), ("one", "twin"), ("two", "later")):
        (tmp_path / folder).mkdir(exist_ok=True)
        renamed = source.replace("MBLOB_PLUGIN(toy)", f"MBLOB_PLUGIN({name})").replace(
            '"toy"', f'"{name}"'
        )
        files.append(cc(renamed, tmp_path / folder / f"libmblob-{name}.so", *flags))
    done = pack("doctor", "--json", env={"MBLOB_PLUGIN_PATH": os.pathsep.join(map(str, files))})
    found = {f["name"]: f for f in json.loads(done.stdout)["findings"]}
    assert [found[name]["ok"] for name in ("toy", "twin", "later")] == [True, False, True]
    assert "comes first" not in found["toy"]["version"]
    for name in ("twin", "later"):
        assert f"not used for toy_key: toy ({files[0]}) comes first" in found[name]["version"]
