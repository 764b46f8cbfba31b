"""The public C headers: their declarations with the comments above them, as a page of the site."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

LABELS = ("Ownership", "Errors", "Threads")
_PART = re.compile(
    r"/\*(?P<comment>.*?)\*/"
    r"|(?P<macro>^\#define (?:[^\n]*\\\n)*[^\n]*)"
    r"|(?P<skipped>^\#[^\n]*|extern \"C\" \{|^\})"
    r"|(?P<code>(?:MBLOB_API|typedef|struct|extern const)\b[^;{]*(?:\{(?:/\*.*?\*/|[^{}])*\}[^;]*)?;)",
    re.MULTILINE | re.DOTALL,
)
_NOT_HANDED_OVER = re.compile(
    r"(?<=^\()(const )?mblob_\w+ \*(module|function|executor|factory)"
    r"|const char \*(name|path|prefix|types?)\b|\bint \*out\b"
)
_NAME = re.compile(r"\b(mblob_\w+)\((?!\*)")


@dataclass(frozen=True)
class Declaration:
    """A declaration of a header.

    Attributes:
        kind: "section", "text", "macro", "type", "variable" or "function".
        name: of what is declared; the title of a section.
        code: the declaration, without MBLOB_API.
        comment: the text above it, "" without one.
    """

    kind: str
    name: str
    code: str
    comment: str

    @property
    def facts(self) -> dict[str, str]:
        """The statements of the comment by label: Ownership, Errors, Threads."""
        found = re.split(rf"^({'|'.join(LABELS)}):", self.comment, flags=re.MULTILINE)
        return {label: " ".join(text.split()) for label, text in zip(found[1::2], found[2::2])}

    @property
    def description(self) -> str:
        """The comment before the first label."""
        return re.split(rf"^(?:{'|'.join(LABELS)}):", self.comment, flags=re.MULTILINE)[0].strip()

    def passes_pointers(self) -> bool:
        """True if somebody must know who owns what: it returns a pointer, or takes one beside the
        module or function that it is about, a name, and a place for a number."""
        result, _, arguments = self.code.partition(self.name)
        return "*" in result or "*" in _NOT_HANDED_OVER.sub("", arguments)


def declarations(header: Path) -> Iterator[Declaration]:
    """The sections, types, macros and functions of a header, in its order."""
    text = header.read_text(encoding="utf-8")
    comment, end = "", 0
    last: Declaration | None = None  # what a comment behind it, on its line, still belongs to
    for found in _PART.finditer(text):
        between, end = text[end : found.start()], found.end()
        if last and found["comment"] is not None and "\n" not in between:
            last = replace(last, comment=last.comment or _plain(found["comment"]))
            continue
        if last:
            yield last
            last = None
        if comment and ("\n\n" in between or not _is_declaration(found)):
            yield Declaration("text", "", "", comment)
            comment = ""
        if found["comment"] is not None:
            comment = _plain(found["comment"])
            if title := re.fullmatch(r"-+ (.*?) -+", comment):
                yield Declaration("section", title[1], "", "")
                comment = ""
        elif _is_declaration(found):
            last = _declared(found["macro"], found["code"], comment)
            comment = ""
    if last:
        yield last


def _is_declaration(found: re.Match[str]) -> bool:
    return found["macro"] is not None or found["code"] is not None


def _declared(macro: str | None, code: str | None, comment: str) -> Declaration | None:
    if macro is not None:
        name = macro.split()[1].partition("(")[0]
        note = re.search(r"/\*(.*?)\*/", macro)
        comment = comment or (_plain(note[1]) if note else "")
        return Declaration("macro", name, macro, comment) if comment else None
    assert code is not None
    if code.startswith("MBLOB_API"):
        code = " ".join(code.removeprefix("MBLOB_API").split())
        name = _NAME.search(code)
        assert name, code
        return Declaration("function", name[1], code.rstrip(";"), comment)
    if code.startswith("typedef"):
        # A function pointer has its name inside: typedef int (*NAME)(...).
        name = re.search(r"^[^{]*\(\*(\w+)\)\(|(\w+);$", code)
        assert name, code
        return Declaration("type", name[1] or name[2], code, comment)
    if code.startswith("extern"):
        code = code.removeprefix("extern ").rstrip(";")
        return Declaration("variable", code.split()[-1].removesuffix("[]"), code, comment)
    return None  # declared before its use


def _plain(comment: str) -> str:
    return re.sub(r"^[ ]*\*? ?", "", comment.strip(), flags=re.MULTILINE).strip()


# -- as Markdown -----------------------------------------------------------------------------------


def page(title: str, readers: str, header: Path) -> str:
    """The page of a header. `readers` is a sentence that says who needs it."""
    head, *items = declarations(header)
    lines = [f"# {title}", "", readers, "", *_head(head.comment)]
    for item in items:
        lines += _lines_of(item)
    return "\n".join(lines) + "\n"


def _head(comment: str) -> list[str]:
    """The comment on top of a header: paragraphs, and labels with what they say."""
    lines: list[str] = []
    for paragraph in comment.partition(" - ")[2].split("\n\n"):
        parts = re.split(r"^(\w+)[ ]{2,}", paragraph, flags=re.MULTILINE)
        lines += [_sentence(_escaped(parts[0])), ""]
        for label, text in zip(parts[1::2], parts[2::2]):
            lines += [label, f": {_sentence(_escaped(text))}", ""]
    return lines


def _lines_of(item: Declaration) -> list[str]:
    if item.kind == "section":
        return [f"## {item.name[0].upper()}{item.name[1:]}", ""]
    if item.kind == "text":
        return [*_paragraphs(item.comment), ""]
    body = _paragraphs(item.description)
    for label, text in item.facts.items():
        body += ["", label, f": {_escaped(text)}"]
    if item.kind == "function":
        return ["", f"````{{c:function}} {item.code}", *body, "````", ""]
    if item.kind == "variable":
        return ["", f"````{{c:var}} {item.code}", *body, "````", ""]
    if item.kind == "macro":
        shown = re.search(rf"{item.name}(?:\([^)]*\))?", item.code)
        return ["", f"````{{c:macro}} {shown[0] if shown else item.name}", *body, "````", ""]
    code = ["```c", item.code, "```"]
    return ["", f"````{{c:type}} {item.name}", *body, "", *code, "````", ""]


def _paragraphs(text: str) -> list[str]:
    """Text with its indented lines as code."""
    lines: list[str] = []
    code = False
    for line in text.splitlines():
        if line.startswith("  ") != code:
            code = not code
            lines += ["", "```text"] if code else ["```", ""]
        lines.append(line[2:] if code else _escaped(line))
    return [*lines, "```"] if code else lines


def _escaped(text: str) -> str:
    """Markdown that shows the text: `*`, `_` and `<` mean nothing outside of code, and functions of
    ours are links."""
    parts = re.split(r"(`[^`]*`|\bmblob_\w+\(\))", text)
    parts[::2] = [re.sub(r"([*_<\[\]])", r"\\\1", part) for part in parts[::2]]
    return re.sub(r"(?<!`)\b(mblob_\w+)\(\)", r"{c:func}`\1`", "".join(parts))


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    return text[:1].upper() + text[1:]
