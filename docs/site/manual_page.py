"""The manual page of `mblob-pack`, from the parser of the command line.

python -m docs.site.manual_page > docs/mblob-pack.1
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator

import mblob
from docs.site.cli_page import shown
from mblob.cli.command_line import make_parser
from mblob.cli.report import EXIT_CODES


def page() -> str:
    """The page, in the language of troff. It has no date: the same tree makes the same page."""
    parser = make_parser()
    (verbs,) = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    lines = [
        f'.TH MBLOB-PACK 1 "" "mblob {mblob.__version__}" "User Commands"',
        *(
            ".SH NAME",
            r"mblob-pack \- pack kernels and weights into a library, look into it, run it",
        ),
        *(".SH SYNOPSIS", ".B mblob-pack", r"\fIVERB\fR [\fIOPTION\fR]... [\fIWORD\fR]..."),
        *(".SH DESCRIPTION", _text(parser.description or "")),
    ]
    for chosen in verbs._choices_actions:
        lines += [".TP", rf"\fB{_text(chosen.dest)}\fR", _text(chosen.help or "")]
    for name, verb in verbs.choices.items():
        lines += _verb(name, verb)
    lines.append(".SH EXIT STATUS")
    for code, meaning in EXIT_CODES:
        lines += [".TP", rf"\fB{code}\fR", _text(meaning)]
    return "\n".join(lines) + "\n"


def _verb(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    """The section of a verb: what it takes, each argument, examples."""
    actions = [
        a
        for a in parser._actions
        if a.help is not argparse.SUPPRESS and not isinstance(a, argparse._HelpAction)
    ]
    words = [_word(a) for a in actions if not a.option_strings]
    yield f".SH mblob\\-pack {_text(name)}"
    yield f"\\fBmblob\\-pack {_text(name)}\\fR [\\fIOPTION\\fR]... {' '.join(words)}".rstrip()
    yield ".PP"
    yield _text(parser.description or "")
    for action in actions:
        yield ".TP"
        yield rf"\fB{_text(shown(action))}\fR"
        yield _text((action.help or "").replace("%%", "%"))
    examples = (parser.epilog or "").removeprefix("example: ")
    for command in re.split(r"; (?=mblob-pack )", examples) if examples else ():
        yield from (".PP", ".nf", f"    {_text(command)}", ".fi")


def _word(action: argparse.Action) -> str:
    text = rf"\fI{_text(shown(action))}\fR"
    return f"[{text}]..." if action.nargs == "*" else f"[{text}]" if action.nargs == "?" else text


def _text(text: str) -> str:
    """Text that means itself to troff: its dashes are those of options, and no line is a command."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return re.sub(r"^\.", r"\\&.", " ".join(escaped.split()))


if __name__ == "__main__":
    sys.stdout.write(page())
