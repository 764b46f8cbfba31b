"""`mblob-pack doctor`: what this machine can build, link, load and run."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from mblob.cli.doctor_checks import build_findings, extra_findings, link_findings, load_findings
from mblob.cli.report import INCOMPATIBLE, one_line
from mblob.cli.verbs import VERBS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mblob.cli.doctor_checks import Finding

NAME = "doctor"
SCHEMA = "mblob/doctor/1"


def configure(verbs: Any) -> None:
    """Add the verb to the command line."""
    summary = VERBS[NAME]
    parser = verbs.add_parser(
        NAME, help=summary, description=summary, epilog="example: mblob-pack doctor --json"
    )
    parser.add_argument("--json", action="store_true", help=f"one JSON object, schema {SCHEMA}")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Look, try, print. Exit code 6 when something needed is missing."""
    findings = [*build_findings(), *link_findings(), *load_findings(), *extra_findings()]
    ok = all(f.ok for f in findings if f.needed)
    if args.json:
        print(
            json.dumps(
                {"schema": SCHEMA, "ok": ok, "findings": [asdict(f) for f in findings]}, indent=2
            )
        )
    else:
        for line in report_lines(findings):
            print(line)
        print(
            "this machine can build, load and run"
            if ok
            else "something needed is missing: see the lines with !!"
        )
    return 0 if ok else INCOMPATIBLE


def report_lines(findings: list[Finding]) -> Iterator[str]:
    """The findings as a table, by section."""
    section = ""
    for f in findings:
        if f.section != section:
            section = f.section
            yield section
        mark = "ok" if f.ok else "!!" if f.needed else "--"
        yield f"  {mark}  {f.name:<24} {one_line(f.version)}" + (
            f"  [{f.place}]" if f.place else ""
        )
