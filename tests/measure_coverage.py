"""Which lines the tests reach: Python by coverage.py, C by gcov.

    python tests/measure_coverage.py --tree FOLDER [--report FILE] -- WORDS FOR PYTEST

FOLDER is a clone with its own `.venv` (make env). Everything compiled in it is compiled anew with
counters, so it is of no other use afterwards. A line counts once, however many builds and processes
have it; what a process counted that a signal ended is lost. The report is a line of JSON for each
file: its lines, and those that ran.

    python tests/measure_coverage.py --compare FILE FILE ...

prints the share of lines, by folder, of several reports beside each other. With `--page PAGE` the
table takes the place of the one in a page, docs/reliability.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

PRODUCT = ("mblob/", "packager/", "loader/", "csrc/")
# A compiler, and with counters for what is compiled of the product; it stands in front of the real
# one in PATH.
COMPILER = """#!/bin/sh
for word in "$@"; do case $word in
  {tree}/tests/*|tests/*) ;;
  *.c) case $(realpath -- "$word" 2>/dev/null) in {tree}/csrc/*|{tree}/loader/*|{tree}/mblob/*)
    set -- "$@" --coverage -fprofile-abs-path -fprofile-update=atomic; break;; esac;;
  *.o|*.a) if grep -q __gcov_init "$word" 2>/dev/null; then set -- "$@" --coverage; break; fi;;
esac; done
exec {real} "$@"
"""
COMPILERS = ("cc", "gcc", "c++", "g++")
# A child that a test forks ends by os._exit, which writes no counters: let C's exit do it, within
# limits.
EXIT = """import ctypes, os, signal
def _exit(code, _c=ctypes.CDLL(None)):
    signal.alarm(30)
    _c.exit(code)
os._exit = _exit
"""


def measure(tree: Path, words: list[str]) -> Iterator[tuple[str, set[int], set[int]]]:
    """Build `tree` with counters, run pytest, and yield (file, lines, lines that ran)."""
    python = tree / ".venv" / "bin" / "python"
    folder = Path(tempfile.mkdtemp(prefix="coverage-"))
    for name in COMPILERS:
        compiler = folder / "bin" / name
        compiler.parent.mkdir(exist_ok=True)
        compiler.write_text(COMPILER.format(tree=tree, real=shutil.which(name)))
        compiler.chmod(0o755)
    settings = folder / "settings"
    settings.write_text(
        f"[run]\ndata_file = {folder}/data\nparallel = true\n"
        f"source =\n  {tree}/mblob\n  {tree}/packager\n  {tree}/loader\n"
        "patch =\n  subprocess\n  _exit\nsigterm = true\n"
    )
    counters = folder / "counters"  # of folders that are gone by then, too
    path = f"{folder}/bin:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTEST_DEBUG_TEMPROOT": str(folder)}
    run = [str(python), "-m", "pip", "-qq", "install", "coverage>=7.10"]
    subprocess.run(run, check=True)
    for old in (tree / "build", tree / "csrc" / "build", tree / "loader" / "_lib"):
        shutil.rmtree(old, ignore_errors=True)
    # not pip, which throws the notes away
    build = [str(python), "setup.py", "-q", "build_ext", "--inplace"]
    subprocess.run(build, cwd=tree, env=environment, check=True)
    (packages,) = (tree / ".venv" / "lib").glob("python3*/site-packages")
    (packages / "c_exit.py").write_text(EXIT)
    # before coverage's, which saves and calls it
    (packages / "a0_c_exit.pth").write_text("import c_exit\n")
    run = [
        str(python),
        "-m",
        "coverage",
        "run",
        f"--rcfile={settings}",
        "-m",
        "pytest",
        "-q",
        *words,
    ]
    subprocess.run(
        run, cwd=tree, env={**environment, "COVERAGE_RCFILE": str(settings)}, check=False
    )
    yield from python_lines(tree, python, folder, settings)
    yield from c_lines(tree, (tree, folder), counters)


def python_lines(
    tree: Path, python: Path, folder: Path, settings: Path
) -> Iterator[tuple[str, set[int], set[int]]]:
    for command in ("combine", "json"):
        words = [
            "-q",
            f"--rcfile={settings}",
            *(["-o", f"{folder}/python.json"] if command == "json" else []),
        ]
        subprocess.run([python, "-m", "coverage", command, *words], cwd=tree, check=True)
    for name, facts in json.loads((folder / "python.json").read_text())["files"].items():
        ran = set(facts["executed_lines"])
        yield str((tree / name).relative_to(tree)), ran | set(facts["missing_lines"]), ran


def c_lines(
    tree: Path, roots: Iterable[Path], scratch: Path
) -> Iterator[tuple[str, set[int], set[int]]]:
    """Of every object with notes: gcov's answer, one object after the other, put together by
    source."""
    lines: defaultdict[str, set[int]] = defaultdict(set)
    ran: defaultdict[str, set[int]] = defaultdict(set)
    scratch.mkdir()
    for notes in (p for root in roots for p in sorted(root.rglob("*.gcno"))):
        counted = notes.with_suffix(".gcda")
        words = ["gcov", "--json-format", "--stdout", str(counted if counted.exists() else notes)]
        done = subprocess.run(words, cwd=scratch, capture_output=True, text=True)
        for text in done.stdout.splitlines():
            for file in json.loads(text)["files"]:
                path = Path(file["file"])
                if not path.is_relative_to(tree):
                    continue
                name = str(path.relative_to(tree))
                lines[name].update(line["line_number"] for line in file["lines"])
                ran[name].update(line["line_number"] for line in file["lines"] if line["count"])
    for name in sorted(lines):
        yield name, lines[name], ran[name]


def part_of(name: str) -> str | None:
    """The folder of a file of the product; files of the tests are of none."""
    return str(Path(name).parent) if name.startswith(PRODUCT) else None


def compare(reports: list[Path]) -> str:
    """A table of the shares, by folder."""
    found: list[defaultdict[tuple[str, str], list[int]]] = []
    for report in reports:
        counts: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
        for row in map(json.loads, report.read_text().splitlines()):
            part = part_of(row["file"])
            kind = "Python" if row["file"].endswith(".py") else "C"
            for key in [(kind, part), (kind, "all")] if part else []:
                counts[key][0] += len(row["lines"])
                counts[key][1] += len(row["ran"])
        found.append(counts)
    heads = ["share"] if len(reports) == 1 else [r.stem for r in reports]
    rows = [["lines that ran", *heads], ["---"] * (len(reports) + 1)]
    for key in sorted(set().union(*found)):
        pairs = [counts[key] for counts in found]
        cells = (f"{100 * ran / lines:.1f} % of {lines}" if lines else "" for lines, ran in pairs)
        rows.append([": ".join(key), *cells])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows).replace("| --- ", "|---")


def put_into(page: Path, table: str) -> None:
    """Replace the table of a page."""
    text, count = re.subn(r"^\| lines that ran .*\n(\|.*\n)*", table, page.read_text(), flags=re.M)
    assert count == 1, f"{page} has {count} tables of lines"
    page.write_text(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--tree", type=Path, help="a clone with a .venv; what is compiled in it is compiled anew"
    )
    parser.add_argument(
        "--report", type=Path, default=Path("coverage.jsonl"), help="a file to write"
    )
    parser.add_argument("--compare", type=Path, nargs="+", help="reports to put beside each other")
    parser.add_argument("--page", type=Path, help="a page whose table the comparison replaces")
    parser.add_argument("words", nargs="*", help="for pytest")
    args = parser.parse_args()
    if args.compare:
        table = compare(args.compare)
        print(table, end="")
        if args.page:
            put_into(args.page, table)
        return 0
    if args.tree is None:
        parser.error("which --tree?")
    rows = list(measure(args.tree.resolve(), args.words))
    with args.report.open("w") as file:
        for name, lines, ran in rows:
            file.write(
                json.dumps({"file": name, "lines": sorted(lines), "ran": sorted(ran & lines)})
                + "\n"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
