"""A line that is typed in a shell, up to the cursor, as words: for completion."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_SAFE = re.compile(r"([^\w@%+=:,./~-])", re.ASCII)


@dataclass(frozen=True)
class Typed:
    """A line as it is typed.

    Attributes:
        words: those before the one at the cursor, without quotes.
        prefix: the word at the cursor, without quotes; "" behind a space.
        kept: how many characters of `prefix` stay as they are. bash replaces what comes behind them:
            the text behind the last character that breaks words, or behind an open quote.
        quote: the quote that is open at the cursor, "" without one.
    """

    words: Sequence[str]
    prefix: str
    kept: int
    quote: str

    def as_bash_takes(self, word: str) -> str:
        """The part of a word that bash puts in, so that it means the word."""
        text = word[self.kept :]
        if self.quote == "'":
            return text.replace("'", "'\\''")
        if self.quote:
            return re.sub(r'([\\"$`])', r"\\\1", text)
        return _SAFE.sub(r"\\\1", text)


def split_line(line: str, breaks: str = "") -> Typed:
    """Split a line as POSIX shells do.

    Args:
        line: up to the cursor.
        breaks: the characters that break words for bash's completion, which are no spaces.
    """
    words: list[str] = []
    word, kept, quote = "", 0, ""
    is_word = False  # also of an empty pair of quotes
    at = 0
    while at < len(line):
        c, following = line[at], line[at + 1 : at + 2]
        at += 1
        if quote == "'" and c != quote:
            word += c
        elif c == "\\" and following and (not quote or following in '\\"$`'):
            word += following
            at += 1
            is_word = True
        elif quote and c != quote:
            word += c
        elif c == quote:
            quote = ""
        elif c in "'\"":
            quote, kept, is_word = c, len(word), True
        elif c.isspace():
            if is_word:
                words.append(word)
            word, kept, is_word = "", 0, False
        else:
            word += c
            is_word = True
            if c in breaks:
                kept = len(word)
    return Typed(words, word, kept, quote)
