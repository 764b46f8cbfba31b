"""The command line as a page of the site: every verb with its options, from the parser."""

from __future__ import annotations

import argparse
import os
import re

from mblob.cli.command_line import make_parser
from mblob.cli.report import EXIT_CODES


def page() -> str:
    """The page, as Markdown."""
    os.environ["COLUMNS"] = "80"  # of the usage
    parser = make_parser()
    (verbs,) = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    lines = ["# mblob-pack", "", f"For everybody who works in a shell. {parser.description}", ""]
    for chosen in verbs._choices_actions:
        lines += [f"[`{parser.prog} {chosen.dest}`](#{parser.prog}-{chosen.dest})"]
        lines += [f": {_escaped(chosen.help or '')}", ""]
    for name, verb in verbs.choices.items():
        lines += _verb(f"{parser.prog} {name}", verb)
    lines += ["## Exit codes", "", "| code | meaning |", "|---|---|"]
    lines += [f"| {code} | {_escaped(meaning)} |" for code, meaning in EXIT_CODES]
    lines += ["", "Data goes to stdout, messages go to stderr.", ""]
    return "\n".join(lines)


def _verb(title: str, parser: argparse.ArgumentParser) -> list[str]:
    about = _sentence(_escaped(parser.description or ""))
    lines = [f"## {title}", "", about, "", "```text"]
    usage = re.sub(r"^ {7}", "", parser.format_usage().removeprefix("usage: "), flags=re.MULTILINE)
    lines += [usage.rstrip(), "```", ""]
    for group in parser._action_groups:
        actions = [a for a in group._group_actions if a.help is not argparse.SUPPRESS]
        if not actions or all(isinstance(a, argparse._HelpAction) for a in actions):
            continue
        lines += [f"**{_sentence(group.title or '').rstrip('.')}**", ""]
        for action in actions:
            if not isinstance(action, argparse._HelpAction):
                lines += [f"`{shown(action)}`", f": {_help(action)}", ""]
    examples = (parser.epilog or "").removeprefix("example: ")
    for command in re.split(r"; (?=mblob-pack )", examples) if examples else ():
        lines += ["```sh", command, "```", ""]
    return lines


def shown(action: argparse.Action) -> str:
    """An argument as it is written: its names, and its value."""
    names = ", ".join(action.option_strings)
    value = action.metavar if isinstance(action.metavar, str) else None
    if action.choices is not None and value is None:
        value = "|".join(map(str, action.choices))
    if not action.option_strings:
        return value or action.dest
    if action.nargs == 0:
        return names
    return f"{names} {value or action.dest.upper()}"


def _help(action: argparse.Action) -> str:
    return _escaped((action.help or "").replace("%%", "%"))


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith(".") or not text else text + "."


def _escaped(text: str) -> str:
    return re.sub(r"(?<!`)([*_<\[\]|])(?!`)", r"\\\1", text)
