"""The command line as data: what the manual page and the completions of shells are made of. It is read from the
parsers, which stay the one place that says what there is.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

EXAMPLE = "example: "


@dataclass(frozen=True)
class Argument:
    """An option or a positional argument.

    Attributes:
        names: of an option, as written (`-o`, `--output`); empty for a positional one.
        dest: how the code calls it.
        metavar: what stands for its value, "" for a switch.
        choices: its values, if they are few.
        help: what it does.
        repeated: may be given more than once, or takes several words.
        required: may not be left out.
        group: the heading that it stands under.
    """

    names: tuple[str, ...]
    dest: str
    metavar: str
    choices: tuple[str, ...]
    help: str
    repeated: bool
    required: bool
    group: str


@dataclass(frozen=True)
class Verb:
    """A verb, or the program itself (name "").

    Attributes:
        summary: one line, as in the list of verbs; description: the longer text.
        usage: one line.
        examples: command lines.
    """

    name: str
    summary: str
    description: str
    usage: str
    examples: tuple[str, ...]
    arguments: tuple[Argument, ...]

    @property
    def options(self) -> list[Argument]:
        return [a for a in self.arguments if a.names]

    @property
    def positionals(self) -> list[Argument]:
        return [a for a in self.arguments if not a.names]


def program() -> tuple[Verb, list[Verb]]:
    """The program itself, and its verbs in the order of its help."""
    from mblob.cli.command_line import make_parser

    parser = make_parser()
    verbs = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            summaries = {a.dest: a.help or "" for a in action._choices_actions}
            verbs = [_verb(name, summaries.get(name, ""), sub) for name, sub in action.choices.items()]
    return _verb("", parser.description or "", parser), verbs


def _verb(name: str, summary: str, parser: argparse.ArgumentParser) -> Verb:
    arguments = []
    for group in parser._action_groups:
        # The first two are argparse's own, for arguments without a heading.
        title = "" if group in parser._action_groups[:2] else group.title or ""
        arguments += [_argument(a, title, parser) for a in group._group_actions]
    shown = [a for a, action in zip(arguments, _actions(parser)) if not isinstance(action, argparse._SubParsersAction)]
    usage = parser.usage or " ".join([parser.prog, *_usage(shown, _exclusive(parser)), *([] if name else ["VERB ..."])])
    description = parser.description or ""
    return Verb(name, summary, description, usage, _examples(parser.epilog or ""), tuple(shown))


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [a for group in parser._action_groups for a in group._group_actions]


def _argument(action: argparse.Action, group: str, parser: argparse.ArgumentParser) -> Argument:
    takes_value = not action.option_strings or action.nargs != 0
    choices = tuple(map(str, action.choices)) if action.choices is not None else ()
    metavar = ""
    if takes_value:
        metavar = str(action.metavar) if action.metavar is not None else "|".join(choices) or action.dest.upper()
    text = (action.help or "") % {**vars(action), "prog": parser.prog}
    repeated = isinstance(action, argparse._AppendAction) or action.nargs in ("*", "+")
    required = action.required if action.option_strings else action.nargs not in ("?", "*")
    return Argument(tuple(action.option_strings), action.dest, metavar, choices, text, repeated, required, group)


def _exclusive(parser: argparse.ArgumentParser) -> list[list[str]]:
    """Destinations of options that exclude each other."""
    return [[a.dest for a in group._group_actions] for group in parser._mutually_exclusive_groups]


def _usage(arguments: Sequence[Argument], exclusive: Sequence[Sequence[str]]) -> list[str]:
    """The words of a usage line: positionals first, as they are written in the examples."""
    words: list[str] = []
    done: set[str] = set()
    for a in sorted(arguments, key=lambda a: bool(a.names)):
        if a.dest in done or a.dest in ("help", "version"):
            continue
        together = next((dests for dests in exclusive if a.dest in dests), [a.dest])
        done.update(together)
        text = " | ".join(_word(b) for b in arguments if b.dest in together)
        words.append((text if a.required else f"[{text}]") + ("..." if a.repeated else ""))
    return words


def _word(a: Argument) -> str:
    if not a.names:
        return a.metavar
    return f"{a.names[0]} {a.metavar}".rstrip()


def _examples(epilog: str) -> tuple[str, ...]:
    """The command lines of an epilog; several are separated by "; "."""
    if not epilog.startswith(EXAMPLE):
        return ()
    first, *others = epilog[len(EXAMPLE) :].split("; mblob-pack ")
    return (first, *(f"mblob-pack {other}" for other in others))
