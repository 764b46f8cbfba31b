"""Fixtures of the documentation tests: blocks of Markdown files, and an installed C runtime."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

_BLOCK = re.compile(r"^```(\w*)[ ]?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the words behind it, its text."""

    language: str
    info: str
    text: str

    @property
    def file(self) -> str | None:
        """Name of the file that the block shows, None for commands."""
        return self.info.removeprefix("file=") if self.info.startswith("file=") else None


def read_blocks(path: Path) -> list[Block]:
    """The fenced blocks of a Markdown file, in order."""
    return [Block(*match) for match in _BLOCK.findall(path.read_text())]


@pytest.fixture(scope="session")
def blocks():
    """`blocks(path)`: the fenced blocks of a Markdown file."""
    return read_blocks
