"""Measure packing, opening, calling and models; write RESULTS.md and its pictures.

    python -m benchmarks [--quick] [--only SUBJECT]... [--before WORKTREE] [--folder DIR] [--output DIR]

What is measured beside mblob and is not here is left out by name. The full run writes up to 12 GiB
to the folder, which it removes again, and makes an environment with Apache TVM in build/ if there
is none ($TVM_PYTHON names a Python that has it). Networks are kept in $XDG_CACHE_HOME/mblob-benchmarks.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from benchmarks import (
    before,
    calling,
    devices,
    embedding,
    executors,
    networks,
    opening,
    packing,
    peer_tvm,
    plots,
    relax,
    replacing,
    report,
    sizes,
    starting,
)
from benchmarks.results import Section
from benchmarks.sampling import HERE, SCALES, Bench

SUBJECTS: dict[str, Callable[[Bench], Section | list[Section]]] = {
    "packing": packing.run,
    "embedding": embedding.run,
    "opening": opening.run,
    "replacing": replacing.run,
    "calling": calling.run,
    "starting": starting.run,
    "executors": executors.run,
    "relax": relax.run,
    "networks": networks.run,
    "devices": devices.run,
    "sizes": sizes.run,
    "before": before.run,
}


def main() -> None:
    args = _arguments()
    for number in (signal.SIGINT, signal.SIGTERM):  # the folder is removed on the way out
        signal.signal(number, lambda found, _: sys.exit(128 + found))
    # Read when OpenMP is loaded. Its threads would spin for each other, and a busy machine be all
    # that is measured.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    with tempfile.TemporaryDirectory(prefix="mblob-bench-", dir=args.folder) as name:
        os.environ["TMPDIR"] = name
        # or each process would compile all that it imports
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(name) / "bytecode")
        bench = Bench(Path(name), SCALES[args.scale], "", args.before)
        if find_spec("matplotlib") is None:
            bench.say("no pictures: matplotlib is not installed (pip install 'mblob[bench]')")
        bench.say(f"Apache TVM {peer_tvm.VERSION}")
        bench.tvm = peer_tvm.python(bench.scale.installs)
        sections = [
            section for subject in args.only or SUBJECTS for section in _measured(bench, subject)
        ]
        where = f"{_file_system(bench.folder)}"
    drawn = plots.pictures(sections) if find_spec("matplotlib") else []
    command = shlex.join(["python", "-m", "benchmarks", *sys.argv[1:]])
    text = report.report(sections, command, where, [(p.file, p.title) for p in drawn])
    args.output.mkdir(parents=True, exist_ok=True)
    for picture in drawn:
        plots.draw(picture, args.output / picture.file)
    (args.output / "RESULTS.md").write_text(text)
    print(text, end="")
    bench.say(f"written: {args.output / 'RESULTS.md'}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure mblob beside others."
    )
    parser.add_argument(
        "--scale", choices=SCALES, default="full", help="how much is measured (default: full)"
    )
    parser.add_argument(
        "--quick",
        dest="scale",
        action="store_const",
        const="quick",
        help="--scale quick: two minutes",
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=SUBJECTS,
        metavar="SUBJECT",
        help=f"one subject, may be repeated: {', '.join(SUBJECTS)}",
    )
    parser.add_argument(
        "--folder", type=Path, help="where to write what is measured (default: $TMPDIR, else /tmp)"
    )
    parser.add_argument(
        "--before",
        type=Path,
        metavar="WORKTREE",
        help="a worktree of an earlier commit, in which `make env` was run: measured beside this one",
    )
    parser.add_argument(
        "--output",
        type=Path,
        help="for RESULTS.md and pictures (default: benchmarks; of a run that leaves something out: build/benchmarks)",
    )
    args = parser.parse_args()
    if args.output is None:
        whole = args.scale == "full" and not args.only
        args.output = HERE if whole else HERE.parent / "build" / "benchmarks"
    if "before" in (args.only or ()) and args.before is None:
        parser.error("--only before: name a worktree with --before")
    if args.before is not None:
        args.before = args.before.resolve()
        if not (args.before / ".venv" / "bin" / "mblob-pack").exists():
            parser.error(
                f"--before: {args.before} has no .venv/bin/mblob-pack; run `make env` there"
            )
    return args


def _measured(bench: Bench, subject: str) -> list[Section]:
    """The sections of a subject, each with how busy the machine was."""
    business = _business()
    bench.say(f"{subject}. {business}")
    found = SUBJECTS[subject](bench)
    sections = found if isinstance(found, list) else [found]
    for section in sections:
        section.business = business
    return sections


def _business() -> str:
    """The load of the machine, and what share of time something waited for a processor."""
    text = f"Load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
    pressure = Path("/proc/pressure/cpu")
    words = pressure.read_text().split() if pressure.exists() else []
    share = next((word[6:] for word in words if word.startswith("avg60=")), None)
    return (
        f"{text}, something waited for one {float(share):.0f} % of a minute."
        if share
        else f"{text}."
    )


def _file_system(folder: Path) -> str:
    """Its kind, by its mount."""
    best = ("", "an unknown file system")
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        if folder.resolve().is_relative_to(place) and len(place) >= len(best[0]):
            best = (place, kind)
    return best[1]


if __name__ == "__main__":
    main()
