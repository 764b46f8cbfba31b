"""The findings of `doctor` about a machine, and how they are shown."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mblob.cli.report import in_options, one_line


@dataclass(frozen=True)
class Finding:
    """One thing that was looked for.

    Attributes:
        section: "build", "link and run", "load", "plug-ins", "command line" or "target TRIPLE";
            findings of one section stand together.
        name: what was looked for.
        ok: whether it is there and works.
        needed: whether mblob is of no use here without it.
        version: what it says of itself, or why it does not work.
        place: where it was found, "" for nowhere.
    """

    section: str
    name: str
    ok: bool
    needed: bool
    version: str
    place: str = ""


def report_lines(findings: list[Finding]) -> Iterator[str]:
    """The findings as a table, by section."""
    section = ""
    for f in findings:
        if f.section != section:
            section = f.section
            yield section
        mark = "ok" if f.ok else "!!" if f.needed else "--"
        yield f"  {mark}  {f.name:<24} {in_options(one_line(f.version))}" + (
            f"  [{f.place}]" if f.place else ""
        )


def tool(section: str, name: str, command: str, *, needed: bool = False) -> Finding:
    """Look for a program and ask its version."""
    words = command.split()
    place = shutil.which(words[0]) if words else None
    if place is None:
        return Finding(
            section, name, ok=False, needed=needed, version=f"{command!r} is not on PATH"
        )
    try:
        done = subprocess.run(
            [place, *words[1:], "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=20,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(section, name, ok=False, needed=needed, version=str(error), place=place)
    lines = (done.stdout or done.stderr).splitlines() or ["says no version"]
    return Finding(
        section, name, ok=done.returncode == 0, needed=needed, version=lines[0], place=place
    )


def attempt(
    section: str, name: str, look: Callable[[], tuple[str, str]], *, needed: bool = False
) -> Finding:
    """A finding from a function that returns (version, place), or raises."""
    try:
        version, place = look()
    except Exception as error:  # whatever is wrong with this machine is what the report is about
        return Finding(
            section, name, ok=False, needed=needed, version=f"{type(error).__name__}: {error}"
        )
    return Finding(section, name, ok=True, needed=needed, version=version, place=place)
