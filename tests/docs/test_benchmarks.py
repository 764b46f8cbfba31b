"""The benchmarks run, say what they left out, clean up, and their figures are what they are called.
No time counts."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import __main__ as bench_main
from benchmarks import (
    embedding,
    networks,
    peer_tvm,
    plots,
    relax,
    replacing,
    report,
    sampling,
    sizes,
)
from benchmarks.results import MIB, Row, Sample, Section, Table, Target, medians, row_of_pairs

SUBJECTS = ("packing", "embedding", "opening", "replacing", "calling", "starting", "before")
SECTIONS = (
    "Packing",
    "Packing, beside others",
    "Opening",
    "Opening, beside others",
    "Replacing",
    "Calling",
    "Starting",
    "Beside an earlier commit",
)


def samples(*walls: float) -> list[Sample]:
    return [Sample(wall=wall) for wall in walls]


@pytest.fixture
def bench(tmp_path: Path) -> sampling.Bench:
    return sampling.Bench(tmp_path, sampling.SCALES["tiny"], "it is not asked for")


# ---- figures -------------------------------------------------------------------------------------


def test_ratios_and_differences_are_those_of_pairs() -> None:
    row = Row("ours", None, "theirs", samples(2, 9, 40), samples(1, 3, 10))
    assert (row.ratio("wall"), row.over("wall"), row.pairs) == (3, 6, 3)
    assert (row.ratio("cpu"), row.over("peak")) == (None, None)


def test_a_yardstick_of_nothing_has_no_ratio() -> None:
    row = Row("ours", None, "theirs", samples(2, 2), samples(0, 0))
    assert (row.ratio("wall"), row.over("wall")) == (None, 2)


def test_a_median_needs_every_sample() -> None:
    assert medians([Sample(1, cpu=5), Sample(3, cpu=None), Sample(2, cpu=6)]) == Sample(wall=2)
    assert medians([]) == Sample()


def test_pairs_of_a_clock_make_a_row() -> None:
    row = row_of_pairs("ours", "theirs", "cpu", iter([(4.0, 2.0), (3.0, 1.0)]))
    assert (row.ratio("cpu"), row.ratio("wall"), row.pairs) == (2.5, None, 2)


@pytest.mark.parametrize(
    ("found", "verdict"), [(1.5, "met"), (1.51, "not met"), (None, "not measured")]
)
def test_a_target_is_met_up_to_its_limit(found: float | None, verdict: str) -> None:
    assert Target("pack", 1.5, found, "x", "why").verdict == verdict


def test_cases_take_turns() -> None:
    order: list[str] = []

    def case(name: str) -> Callable[[], Sample]:
        def run() -> Sample:
            order.append(name)
            return Sample(wall=len(order))

        return run

    found = sampling.alternate({name: case(name) for name in "ab"}, 2, lambda: order.append("-"))
    assert "".join(order) == "-a-b-b-a-a-b"
    assert [s.wall for s in found["a"]] == [8, 10]  # the first turn is not counted
    order.clear()
    found = sampling.alternate({name: case(name) for name in "ab"}, 1, runs=2)
    assert "".join(order) == "aabbbbaa"
    assert [s.wall for s in found["a"]] == [8]


def test_a_command_is_measured_with_what_it_starts(bench: sampling.Bench) -> None:
    python = "bytearray(200 << 20)"
    found = sampling.command(bench, ["sh", "-c", f'{sys.executable} -c "{python}"; true'])
    assert found.peak is not None and 200 * MIB < found.peak < 400 * MIB


def test_a_command_does_not_begin_with_the_memory_of_the_benchmarks(bench: sampling.Bench) -> None:
    ballast = bytearray(os.urandom(4096) * (100 * MIB // 4096))
    found = sampling.command(bench, ["true"])
    assert found.peak is not None and found.peak < 20 * MIB < len(ballast)


def test_a_command_that_fails_is_named_with_what_it_said(bench: sampling.Bench) -> None:
    with pytest.raises(sampling.Missing, match=r"^sh failed: no such luck$"):
        sampling.command(bench, ["sh", "-c", "echo no such luck >&2; exit 3"])
    with pytest.raises(sampling.Missing, match="nothing-of-that-name"):
        sampling.command(bench, ["nothing-of-that-name"])


def test_a_worker_that_ends_is_named() -> None:
    with (
        sampling.Worker("mblob") as worker,
        pytest.raises(sampling.Missing, match=r"worker_mblob.*load"),
    ):
        worker.ask("load", path="/nowhere", count=0, size=0)


def test_an_earlier_commit_that_cannot_run_is_told(root: Path, tmp_path: Path) -> None:
    process = start(root, tmp_path / "output", tmp_path, "--before", str(tmp_path))
    assert f"--before: {tmp_path} has no .venv/bin/mblob-pack" in process.communicate()[1]
    assert process.returncode == 2


# ---- peers that are absent -----------------------------------------------------------------------


def test_tools_that_are_absent_are_left_out_by_name(
    bench: sampling.Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(bench.folder))
    found, missing = embedding.peers(bench)
    assert [peer.name for peer in found] == ["LIEF, add a section", "bytes as C text, cc"]
    text = " ".join(missing)
    assert all(
        f"{name} was not measured" in text
        for name in (".incbin", "objcopy --add-section", "clang #embed")
    )


def test_tvm_that_is_absent_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TVM_PYTHON", sys.executable + "-without")
    assert "has none that works" in str(peer_tvm.python(install=True))
    monkeypatch.delenv("TVM_PYTHON")
    monkeypatch.setattr(peer_tvm, "FOLDER", tmp_path / "build" / "tvm")
    assert str(peer_tvm.python(install=False)).startswith("build/tvm is not there")


def test_programs_of_relax_are_measured_beside_tvm_or_not_at_all(bench: sampling.Bench) -> None:
    found = relax.run(bench)
    assert (found.rows, found.notes) == ([], ["Apache TVM was not measured: it is not asked for."])
    assert [target.verdict for target in found.targets] == 6 * ["not measured"]


def test_networks_without_tvm_or_a_place_to_fetch_them_from_are_told_as_not_measured(
    bench: sampling.Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = networks.run(bench)
    told = "Networks were not measured: there is no Apache TVM: it is not asked for."
    assert (found.rows, found.notes) == ([], [told])
    assert [target.verdict for target in found.targets] == 5 * ["not measured"]
    monkeypatch.setattr(networks, "FOLDER", tmp_path / "cache")
    with pytest.raises(sampling.Missing, match=r"cache has not all.* a full run fetches them"):
        networks._file(bench, networks.NETWORKS[0])
    assert not (tmp_path / "cache").exists()


def test_networks_that_were_fetched_are_not_fetched_again(
    bench: sampling.Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(networks, "FOLDER", tmp_path)
    package, member, *_ = network = networks.NETWORKS[0]
    kept = tmp_path / "networks" / package / Path(member).name
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"onnx")
    assert networks._file(bench, network) == kept


def test_a_library_that_is_replaced_leaves_nothing_in_memory(bench: sampling.Bench) -> None:
    mappings, descriptors = replacing.run(bench).targets[1:]
    assert (mappings.unit, mappings.found, mappings.verdict) == ("mappings", 0, "met")
    assert (descriptors.unit, descriptors.found) == ("descriptors", 0)


@pytest.mark.slow
def test_what_is_shipped_is_weighed(bench: sampling.Bench) -> None:
    found = sizes.run(bench)
    assert [(t.unit, t.verdict) for t in found.targets] == [("kB", "met")] * 2
    profiles, standalone = found.tables
    assert profiles.head == ["mblob.c with, kB", "this machine"]
    assert [line[0] for line in profiles.lines] == [f"`{sizes.SMALLEST}`"]
    plain, *made = map(int, standalone.lines[0][1:])
    for whole, grown in zip(made[:2], made[2:]):
        assert 0 < plain < whole and abs(whole - plain - grown) <= 1
    assert re.fullmatch(r"libmblob, stripped: 4\d\d kB\.", found.notes[-1])


# ---- the report ----------------------------------------------------------------------------------


def section() -> Section:
    found = Section("Packing", "How.", business="Load 9.")
    found.rows = [
        Row("ours", mib, "cp", samples(0.2 * mib), samples(0.1 * mib)) for mib in (1, 16, 64)
    ]
    found.targets = [
        Target("good", 2, 1.98, "x", "because"),
        Target("bad", 2, 2.5, "ms", "it is slow."),
        Target("absent", 2, None, "ns", "because"),
    ]
    found.tables = [Table(["kB", "grown"], [["a kernel", "81"]])]
    found.notes = ["something was not measured."]
    return found


def test_the_report_has_rows_targets_reasons_and_notes() -> None:
    text = report.report([section()], "make bench", "ext4", [("a.svg", "A")])
    assert "`make bench`" in text and "![A](a.svg)" in text and "Files lay on ext4." in text
    assert "1 of 3 targets are met." in text
    assert "| good | 2x | 1.98x | met |" in text
    assert "| bad | 2 ms | 2.5 ms | not met |" in text
    assert "| absent | 2 ns |  | not measured |" in text
    assert "* bad: 2.5 ms, it is slow. Load 9." in text
    assert "| 16 | ours | 3.2 s | cp | 1.6 s | 2.00 | 1 |" in text
    assert "| kB | grown |\n| --- | --- |\n| a kernel | 81 |\n\n* some" in text
    assert text.endswith("* something was not measured.\n")


@pytest.mark.slow
def test_pictures_have_a_line_for_each_series(tmp_path: Path) -> None:
    found = section()
    # of packing, CPU time and memory are drawn, which these rows have not
    assert plots.pictures([found]) == []
    found.rows = [
        Row("a < b", mib, "cp", [Sample(cpu=mib / 50, peak=MIB)], [Sample(cpu=mib / 100)])
        for mib in (1, 64, 16)
    ]
    time, memory = plots.pictures([found])
    assert (time.file, memory.file) == ("pack-time.svg", "pack-memory.svg")
    pytest.importorskip("matplotlib")
    plots.draw(time, tmp_path / "a.svg")
    plots.draw(time, tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    root = ElementTree.parse(tmp_path / "a.svg").getroot()
    texts = {e.text for e in root.iter() if e.tag.endswith("text")}
    assert {"a < b", "cp", "MiB of payload", "s", "1", "64"} <= texts
    uses = [e for e in root.iter() if e.tag.endswith("use")]
    assert len(uses) >= 2 * 3  # a mark for each size of each series


# ---- the suite -----------------------------------------------------------------------------------


def start(root: Path, output: Path, folder: Path, *words: str) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "benchmarks",
        "--scale",
        "tiny",
        "--output",
        str(output),
        "--folder",
        str(folder),
    ]
    return subprocess.Popen(
        [*command, *words],
        cwd=root,
        env={**os.environ, "TVM_PYTHON": "/nowhere"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.sample(1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_run_that_is_stopped_leaves_nothing(root: Path, tmp_path: Path, number: int) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    process = start(root, tmp_path / "output", folder, "--only", "packing")
    assert process.stderr is not None
    assert any("packing 0 MiB" in line for line in process.stderr)
    process.send_signal(number)
    process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert list(tmp_path.iterdir()) == [folder]
    assert list(folder.iterdir()) == []


@pytest.mark.slow
def test_the_suite_measures_reports_and_cleans_up(root: Path, tmp_path: Path) -> None:
    folder, output = tmp_path / "folder", tmp_path / "output"
    folder.mkdir()
    earlier = tmp_path / "earlier"  # this tree stands for an earlier one
    earlier.mkdir()
    (earlier / ".venv").symlink_to(sys.prefix)
    only = [word for name in SUBJECTS for word in ("--only", name)]
    process = start(root, output, folder, *only, "--before", str(earlier))
    printed, progress = process.communicate(timeout=900)
    assert process.returncode == 0, progress
    assert list(folder.iterdir()) == []
    text = (output / "RESULTS.md").read_text()
    assert text == printed
    assert tuple(re.findall(r"^## (.*)$", text, re.MULTILINE)) == ("Targets", *SECTIONS)
    assert (
        text.count("Apache TVM was not measured: $TVM_PYTHON, /nowhere, has none that works") == 3
    )
    assert re.search(r"^\| 1 \| mblob-pack build \|.*\| cp \|", text, re.MULTILINE)
    assert re.search(r"^\| 1 \| \.incbin \|.*\| cp \|", text, re.MULTILINE)
    assert re.search(
        r"^\| 16 \| C: mblob_open, list \|.*\| an empty library \|", text, re.MULTILINE
    )
    assert "| load_module, 256 MiB: CPU over the earlier commit | 1.1x |" in text
    assert "| call, bound beforehand |" in text and "| first result, without numpy |" in text
    pictures = re.findall(r"^!\[.*\]\((.*)\)$", text, re.MULTILINE)
    assert len(pictures) == (4 if find_spec("matplotlib") else 0)
    for name in pictures:
        ElementTree.parse(output / name)


def test_the_results_in_the_tree_are_of_a_full_run(root: Path) -> None:
    folder = root / "benchmarks"
    text = (folder / "RESULTS.md").read_text()
    assert re.search(r"^`python -m benchmarks( --before \S+)?`$", text, re.MULTILINE)
    assert "| not measured |" not in text
    assert "pack 1 GiB" in text and "pack 5 GiB" in text and "Apache TVM, export_library" in text
    missed = text.count("| not met |")
    reasons = re.search(r"^Not met:\n\n((?:\* .*\n)*)", text, re.MULTILINE)
    assert missed == (len(reasons[1].splitlines()) if reasons else 0)
    for name in re.findall(r"^!\[.*\]\((.*)\)$", text, re.MULTILINE):
        ElementTree.parse(folder / name)


@pytest.mark.parametrize(
    ("words", "folder"),
    [
        ([], "benchmarks"),
        (["--quick"], "build/benchmarks"),
        (["--only", "opening"], "build/benchmarks"),
        (["--quick", "--output", "x"], "x"),
    ],
)
def test_a_run_that_leaves_something_out_keeps_the_results_of_the_whole_one(
    monkeypatch: pytest.MonkeyPatch, root: Path, words: list[str], folder: str
) -> None:
    monkeypatch.setattr("sys.argv", ["benchmarks", *words])
    assert root / bench_main._arguments().output == root / folder
