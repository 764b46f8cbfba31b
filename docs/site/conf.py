"""Sphinx's settings: what `make docs` shows, and what it takes for an error."""

import re
from pathlib import Path
from typing import Any

from docutils import nodes

import mblob

project = "mblob"
release = version = mblob.__version__
html_title = f"mblob {release}"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_domain_indices = False
smartquotes = False  # `--` is an option
pygments_style = "friendly"
pygments_dark_style = "github-dark"

myst_enable_extensions = ["attrs_inline", "deflist", "fieldlist"]
myst_heading_anchors = 4
myst_links_external_new_tab = True
suppress_warnings = ["misc.highlighting_failure"]  # of a block in two languages

# In docstrings `name` is code. Annotations stand in the signature as they are in the source.
default_role = "literal"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
autoclass_content = "both"

# A reference to a name of ours must lead somewhere. Others are documented elsewhere.
nitpicky = True
nitpick_ignore_regex = [
    # the last: a type variable
    (r"py:.*", r"(?!mblob\.).*|mblob\.binary\..*|.*\.(operators|contents)\.Tensor|.*\.[A-Z]"),
    # of annotations, and explained where they are used
    (
        r"py:.*",
        r"mblob\.(name_mappings\.(CFunctions|Flag)|node\.Node|typed\.(HasName|LinkedWhenAsked))",
    ),
    (r"c:.*", r"(?!mblob_|MBLOB_).*"),
]


_TEXT = re.compile(r"(`[^`]*`)|([*|]|(?<=\w)_(?!\w))")


def show_marks(
    _app: Any, what: str, _name: str, _value: Any, _options: Any, lines: list[str]
) -> None:
    """Docstrings are text: `*` and `_` mean nothing outside of code, and what stands before a colon
    in the first line of a property is not its type."""
    lines[:] = [_TEXT.sub(lambda m: m[1] or f"\\{m[2]}", line) for line in lines]
    if what in ("attribute", "property"):
        lines.insert(0, "\\ ")  # nothing


def show_dashes(_app: Any, page: nodes.document) -> None:
    """Between a parameter and what is said of it."""
    for text in list(page.findall(nodes.Text)):
        if text == " -- ":
            text.parent.replace(text, nodes.Text(": "))


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("doctree-read", show_dashes)
    app.connect(
        "autodoc-process-docstring", show_marks, priority=100
    )  # before Google's form is read
