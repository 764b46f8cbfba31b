"""The site: every page is found from its start, its reference says what it should, and its look
holds on a narrow screen."""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

import mblob
from docs.site import c_header, json_page, python_page
from mblob.cli.command_line import VERBS
from mblob.packager.link import manifest
from tests.html.browser import Browser, Page

ROOT = Path(__file__).resolve().parents[2]
HEADERS = [ROOT / "csrc/include/mblob.h", ROOT / "csrc/include/mblob/plugin.h"]
FUNCTIONS = {
    item.name: item for item in c_header.declarations(HEADERS[0]) if item.kind == "function"
}


def links_of(page: Path) -> set[Path]:
    """The files that a page of Markdown links to."""
    text = re.sub(r"^```.*?^```$|`[^`\n]+`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    return {(page.parent / link).resolve() for link in found if "://" not in link}


# -- the pages -------------------------------------------------------------------------------------


def test_the_index_lists_every_page() -> None:
    pages = {path.resolve() for path in (ROOT / "docs").rglob("*.md")} - {ROOT / "docs/index.md"}
    assert pages - links_of(ROOT / "docs/index.md") == set()


@pytest.mark.parametrize(
    "page", sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))
)
def test_every_link_of_a_page_leads_to_a_file(page: str) -> None:
    assert [path for path in links_of(ROOT / page) if not path.is_file()] == []


# -- the reference ---------------------------------------------------------------------------------


def test_every_public_name_of_python_has_its_place_by_task() -> None:
    placed = [name for names in python_page.GROUPS.values() for name in names]
    assert len(placed) == len(set(placed))
    assert sorted([*placed, "__version__"]) == mblob.__all__


def documented(name: str, value: Any) -> Iterator[tuple[str, Any, str]]:
    """The functions of a public name, and those of its classes: name, function, what is said."""
    if inspect.ismodule(value):
        for inner in python_page.public_names(value):
            yield from documented(f"{name}.{inner}", getattr(value, inner))
    elif inspect.isclass(value):
        said = inspect.getdoc(value) or ""
        yield name, None, said
        for inner, one in vars(value).items():
            if inner.startswith("_") or not (inspect.isfunction(one) or isinstance(one, property)):
                continue
            yield f"{name}.{inner}", one, inspect.getdoc(one) or ""
    elif inspect.isfunction(value):
        yield name, value, inspect.getdoc(value) or ""


@pytest.mark.parametrize("name", [n for n in mblob.__all__ if n != "__version__"])
def test_a_docstring_says_what_each_parameter_is(name: str) -> None:
    for place, function, said in documented(name, getattr(mblob, name)):
        assert said, place
        if inspect.isfunction(function):
            variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
            for parameter in inspect.signature(function).parameters.values():
                if parameter.name != "self" and parameter.kind not in variable:
                    assert re.search(rf"\b{parameter.name}\b", said), (place, parameter.name)


def test_no_declaration_of_the_headers_is_passed_over() -> None:
    for header in HEADERS:
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.DOTALL)
        declared = re.findall(r"^MBLOB_API[^;]*?\b(mblob_\w+)\((?!\*)", text, re.MULTILINE)
        declared += re.findall(r"^typedef\b[^;{]*(?:\{[^}]*\}[^;]*)?\b(\w+);", text, re.MULTILINE)
        declared += re.findall(r"^typedef\b[^;{]*?\(\*(\w+)\)\(", text, re.MULTILINE)
        found = [i.name for i in c_header.declarations(header) if i.kind in ("function", "type")]
        assert sorted(found) == sorted(declared)
    assert len(FUNCTIONS) > 40


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_c_says_what_it_does_its_errors_and_its_threads(name: str) -> None:
    function = FUNCTIONS[name]
    assert function.description.endswith((".", ":", ";", ")")), function.comment
    assert {"Errors", "Threads"} <= function.facts.keys()


@pytest.mark.parametrize("name", [n for n, f in FUNCTIONS.items() if f.passes_pointers()])
def test_a_function_of_c_that_passes_pointers_says_who_owns_them(name: str) -> None:
    said = FUNCTIONS[name].facts.get("Ownership", "")
    words = ("borrowed", "new reference", "copied", "kept", "keeps", "the caller's")
    assert any(word in said for word in words), FUNCTIONS[name].comment


@pytest.mark.parametrize(
    ("code", "passes"),
    [
        ("int mblob_f(mblob_module *module, const char *name)", False),
        ("int mblob_f(const char *name, int *out)", False),
        ("const char *mblob_f(const mblob_module *module)", True),
        ("int mblob_f(mblob_module *module, mblob_module *child)", True),
        ("int mblob_f(const char *path, mblob_module **out)", True),
        ("int mblob_f(mblob_module *module, DLTensor *out)", True),
        ("int mblob_f(const mblob_loader *loader)", True),
    ],
)
def test_what_passes_pointers_is_seen_in_the_declaration(code: str, passes: bool) -> None:
    assert c_header.Declaration("function", "mblob_f", code, "").passes_pointers() is passes


def test_the_manifest_shown_has_every_key_that_is_read() -> None:
    shown = set(re.findall(r"^    (?:\[(\w+)\]|(\w+) =)", manifest.__doc__ or "", re.MULTILINE))
    names = {a or b for a, b in shown} - {"labels", "library", "data"}  # names of the example
    assert names == set(manifest._KEYS)


def test_the_page_of_the_report_has_every_member_of_its_schema() -> None:
    page = json_page.page()
    found = json_page.schema()
    for name in (*found["properties"], *found["$defs"]["entry"]["properties"]):
        assert f"`{name}`\n: " in page


def test_help_does_not_name_files_that_are_not_there() -> None:
    """A reader of `help(mblob.f)` looks for the page."""
    for name in mblob.__all__:
        for page in re.findall(r"[\w/]+\.md", getattr(mblob, name).__doc__ or ""):
            assert (ROOT / page).is_file(), (name, page)


# -- the site that is built ------------------------------------------------------------------------


class Html(HTMLParser):
    """The links and the anchors of a page of HTML."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors = {""}
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.append(unquote(value))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built without a network; a warning is an error."""
    for package in ("sphinx", "myst_parser", "furo"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: make docs installs it")
    output = tmp_path_factory.mktemp("site") / "docs"
    done = subprocess.run(
        [sys.executable, "-B", "-m", "docs.site.build", str(output)],
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return output


@pytest.mark.slow
def test_every_link_and_anchor_of_the_site_leads_somewhere(site: Path) -> None:
    pages = {path: Html(path) for path in site.rglob("*.html")}
    wrong = []
    for path, page in pages.items():
        for link in page.links:
            name, _, anchor = link.partition("#")
            name = name.partition("?")[0]
            target = (path.parent / name).resolve() if name else path
            if "://" in link or link.startswith(("data:", "mailto:")):
                continue
            if not target.exists() or (target in pages and anchor not in pages[target].anchors):
                wrong.append(f"{path.relative_to(site)}: {link}")
    assert wrong == []


@pytest.mark.slow
def test_every_page_is_reached_from_the_index(site: Path) -> None:
    seen: set[Path] = set()
    waiting = [site / "index.html"]
    while waiting:
        path = waiting.pop()
        if path.suffix != ".html" or path in seen:
            continue
        seen.add(path)
        links = [link.partition("#")[0] for link in Html(path).links if "://" not in link]
        waiting += [(path.parent / link).resolve() for link in links if link]
    assert set(site.rglob("*.html")) - seen == set()
    made = {
        f"reference/{n}.html" for n in ("c", "plugin", "python", "cli", "inspect_json", "manifest")
    }
    assert made <= {str(path.relative_to(site)) for path in seen}


@pytest.mark.slow
def test_the_reference_has_every_name(site: Path) -> None:
    pages = sorted(site.glob("reference/python_*.html"))
    assert len(pages) >= len(python_page.GROUPS)
    anchors = {anchor for page in pages for anchor in Html(page).anchors}
    missing = {f"mblob.{name}" for name in mblob.__all__} - anchors - {"mblob.__version__"}
    assert {name for name in missing if f"module-{name}" not in anchors} == set()
    assert {f"c.{name}" for name in FUNCTIONS} <= Html(site / "reference/c.html").anchors
    assert {f"mblob-pack-{v}" for v in VERBS} <= Html(site / "reference/cli.html").anchors


@pytest.mark.slow
def test_a_search_finds_guides_and_typed_names_before_internals(
    site: Path, require: Callable[[str], str], tmp_path: Path
) -> None:
    """Sphinx's own search, asked for the pages and anchors that it would list."""
    ask = """(() => {
      const [query, terms, excluded, marked, objects] = Search._parseQuery(%r);
      return Search._performSearch(query, terms, excluded, marked, objects).reverse().map((one) => one[0] + one[2]);
    })()"""
    with Browser(require("chromium"), tmp_path / "profile") as browser, Page(browser) as page:
        page.open(site / "search.html")
        page.until("typeof Search !== 'undefined' && Search._index")
        found = {q: page.value(ask % q) for q in ("inspect", "weights", "swap", "load_module")}
    assert found["inspect"][0].startswith("howto/")
    assert found["weights"][0].startswith(("howto/", "tutorial"))
    assert found["swap"][0] == "reference/python_change_what_is_packed#mblob.swap"
    assert found["load_module"][0] == "reference/python_load_and_call#mblob.load_module"
    internal = [i for i, one in enumerate(found["inspect"]) if "#mblob.inspect." in one]
    others = [
        i for i, one in enumerate(found["inspect"]) if one.startswith(("howto/", "reference/c"))
    ]
    assert internal and max(others) < min(internal)


@pytest.mark.slow
def test_no_page_is_wider_than_a_narrow_screen(
    site: Path, require: Callable[[str], str], tmp_path: Path
) -> None:
    with Browser(require("chromium"), tmp_path / "profile") as browser, Page(browser) as page:
        wide = {}
        for path in sorted(site.rglob("*.html")):
            page.open(path, width=400)
            if (width := page.value("document.documentElement.scrollWidth")) > 400:
                wide[path.name] = width
        assert wide == {}
        colour = "getComputedStyle(document.body).backgroundColor"
        page.open(site / "tutorial.html", prefers_color_scheme="light")
        light = page.value(colour)
        page.open(site / "install.html", prefers_color_scheme="dark")
        assert (light, page.value(colour)) == ("rgb(255, 255, 255)", "rgb(19, 20, 22)")
