"""A library as one page for a browser: `Library.to_html()`, `mblob-pack inspect --html`.

The page holds everything it needs and asks the network for nothing; its policy forbids that, and
any script but its own. What comes from the file is one JSON text, which the scripts put into the
page as text, never as markup.
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from mblob.inspect.html.data import page_data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mblob.inspect.library import Library

STYLE = "report.css"
# in this order, one scope
SCRIPTS = (
    "base.js", "table.js", "labels.js", "treemap.js", "tree.js", "hex.js", "graph.js", "main.js",
)  # fmt: skip

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; base-uri 'none'; form-action 'none'; \
style-src '{style_hash}'; script-src '{script_hash}'">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main id="page"><noscript>This page is drawn by its own JavaScript, which is switched off here. \
<code>mblob-pack</code> shows the same as text without <code>--html</code>.</noscript></main>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def page(library: Library) -> str:
    """The page of an open library: HTML, ASCII in what comes from the file, the same for the same
    file and path.

    Its size depends on how many entries, tensors and functions there are, up to limits, not on
    payloads.

    Raises:
        ValueError: the library is closed.
    """
    return assemble(SCRIPTS, page_data(library), "mblob: a library")


def assemble(scripts: Sequence[str], data: object, title: str) -> str:
    """A page of some scripts of this folder, in this order, and what they draw."""
    style = _read(STYLE)
    script = '"use strict";\n(() => {\n' + "".join(_read(name) for name in scripts) + "})();\n"
    return _PAGE.format(
        title=title,
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        data=json_for_html(data),
    )


def json_for_html(value: object) -> str:
    """JSON that can stand in a `<script>` element: nothing in it begins or ends a tag or a
    comment."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _read(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
