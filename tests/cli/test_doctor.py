"""`mblob-pack doctor`: what it finds here is true, and what is missing is said."""

from __future__ import annotations

import json
import shutil
from pathlib import Path


def test_a_machine_that_runs_these_tests_is_sound(pack) -> None:
    done = pack("doctor")
    assert done.returncode == 0, done.stdout
    assert "this machine can build, load and run" in done.stdout


def test_json_names_each_finding_with_version_and_place(pack) -> None:
    report = json.loads(pack("doctor", "--json").stdout)
    assert (report["schema"], report["ok"]) == ("mblob/doctor/1", True)
    found = {f["name"]: f for f in report["findings"]}
    assert Path(found["C compiler"]["place"]).exists()
    assert found["C runtime"]["ok"]
    assert Path(found["C runtime"]["place"]).exists()
    assert found["default linker"]["ok"]
    assert found["ld.bfd"]["ok"] == (shutil.which("ld.bfd") is not None)


def test_each_section_is_one_block_in_the_order_of_the_work(pack) -> None:
    sections = [line for line in pack("doctor").stdout.splitlines()[:-1] if not line.startswith(" ")]
    assert sections == ["build", "link and run", "load", "plug-ins"]
    reported = [f["section"] for f in json.loads(pack("doctor", "--json").stdout)["findings"]]
    assert list(dict.fromkeys(reported)) == sections


def test_a_linker_that_cannot_grow_a_library_says_which_forms_it_can(pack, require) -> None:
    require("mold")
    found = {f["name"]: f for f in json.loads(pack("doctor", "--json").stdout)["findings"]}
    assert found["ld.mold"]["ok"]
    assert found["ld.mold"]["version"].endswith("only with embed=object or append, not grow")
    assert "grow" not in found["ld.bfd"]["version"]


def test_without_a_compiler_it_says_so_and_exits_with_6(pack, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    done = pack("doctor", "--json", env={"PATH": str(tmp_path / "bin"), "CC": ""})
    assert done.returncode == 6
    found = {f["name"]: f for f in json.loads(done.stdout)["findings"]}
    assert not found["C compiler"]["ok"]
    assert "not on PATH" in found["C compiler"]["version"]
    assert not found["default linker"]["ok"]
    assert found["C runtime"]["ok"]


def test_it_leaves_nothing_behind(pack, tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    assert pack("doctor", env={"TMPDIR": str(tmp_path / "scratch")}).returncode == 0
    assert list((tmp_path / "scratch").iterdir()) == []
