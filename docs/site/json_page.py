"""The output of `inspect --json` as a page of the site: from its JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from mblob.inspect.inspect_json import schema

INTRODUCTION = """# The report of inspect --json

For programs that read what is in a library. `mblob-pack inspect FILE --json` prints one JSON object;
`mblob.open(FILE).to_json()` gives the same as a dict. [Looking into libraries](../inspect.md)
explains what the fields mean.

The report is described by a JSON Schema, `{name}`. It lies in the package, and
`mblob.inspect.inspect_json.schema()` gives it as a dict.
"""


def page() -> str:
    """The page, as Markdown."""
    found = schema()
    lines = [INTRODUCTION.format(name=found["$id"]), "## The report", "", *_fields(found)]
    for name, kind in found["$defs"].items():
        lines += [f"## {name}", "", *_about(kind), *_fields(kind)]
    lines += ["## The schema", "", "```json", json.dumps(found, indent=1), "```", ""]
    return "\n".join(lines)


def _about(kind: dict[str, Any]) -> list[str]:
    return [kind["description"], ""] if "description" in kind else []


def _fields(kind: dict[str, Any]) -> list[str]:
    lines = []
    for path, field, always in _walk(kind, ""):
        note = field.get("description", "")
        said = f"{_type(field)}{'' if always else ', may be absent'}."
        lines += [f"`{path}`", f": {said} {note}".rstrip(), ""]
    return lines


def _walk(kind: dict[str, Any], at: str) -> Iterator[tuple[str, dict[str, Any], bool]]:
    """Every member of an object: its path, what it is, whether it is always there."""
    for name, field in kind.get("properties", {}).items():
        yield at + name, field, name in kind.get("required", ())
        for inner in (field, *field.get("anyOf", ())):
            yield from _walk(inner, f"{at}{name}.")
        yield from _walk(field.get("items", {}), f"{at}{name}[].")


def _type(field: dict[str, Any]) -> str:
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return f"[{name}](#{name})"
    if "const" in field:
        return f"`{json.dumps(field['const'])}`"
    if "enum" in field:
        return " or ".join(f"`{json.dumps(value)}`" for value in field["enum"])
    if "anyOf" in field:
        return " or ".join(_type(one) for one in field["anyOf"])
    if isinstance(field["type"], list):
        return " or ".join(field["type"])
    if field["type"] == "array":
        return f"array of {_type(field['items'])}"
    return str(field["type"])
