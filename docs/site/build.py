"""Build the site: `python -m docs.site.build build/docs`.

The pages of `docs` stay plain Markdown, whose links work where files are read in the repository.
They are copied beside the output with every link led to the page that the site has for that file;
reference pages are made from what they describe. Then Sphinx makes HTML of all, and any warning is
an error: a link, anchor or name that leads nowhere, a page that no list has.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

from sphinx.cmd.build import build_main

from docs.site import c_header, cli_page, json_page, python_page
from mblob.packager.link import manifest

ROOT = Path(__file__).resolve().parents[2]
INDEX = Path("docs/index.md")

# Pages that are made: the file that says it all -> the page.
MADE = {
    "mblob/__init__.pyi": "reference/python.md",
    "csrc/include/mblob.h": "reference/c.md",
    "csrc/include/mblob/plugin.h": "reference/plugin.md",
    "mblob/cli/command_line.py": "reference/cli.md",
    "mblob/inspect/inspect-1.schema.json": "reference/inspect_json.md",
    "packager/link/manifest.py": "reference/manifest.md",
}
HEADERS = {
    "csrc/include/mblob.h": (
        "C: mblob.h",
        "For programs in C and C++. `#include <mblob.h>` and link with `-lmblob`.",
    ),
    "csrc/include/mblob/plugin.h": (
        "Plug-ins: mblob/plugin.h",
        "For those who bring a runtime or a device of their own. `#include <mblob.h>` has this, too.",
    ),
}
LANGUAGES = {".c": "c", ".h": "c", ".cpp": "cpp", ".py": "python", ".toml": "toml", ".json": "json"}
IMAGES = (".png", ".svg")
# Of a page that is read in the repository: a picture for each colour of the page.
_PICTURE = re.compile(
    r'<picture><source media="[^"]*" srcset="([^"]+)">\n<img alt="([^"]+)" src="([^"]+)"></picture>'
)
_CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FILE_BLOCK = re.compile(r"^```(\w+) file=(\S+)$", re.MULTILINE)
_PLACE_BLOCK = re.compile(r"^```(\w+) [^\n]+$", re.MULTILINE)


def place(path: Path) -> str:
    """The place that the site has for a file of the repository."""
    name = path.as_posix()
    if name in MADE:
        return MADE[name]
    if name.startswith("docs/"):
        return name.removeprefix("docs/")
    return f"project/{name}" if path.suffix in (".md", *IMAGES) else f"source/{name}.md"


class Pages:
    """The pages of the site, which grow by what they link to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._seen: set[Path] = set()
        self._waiting: list[Path] = []

    def write_all(self) -> None:
        """Write the pages of `docs`, what they link to, and the pages that are made.

        Raises:
            SystemExit: a link leads to no file.
        """
        for page in sorted((ROOT / "docs").rglob("*.md")):
            self._want(page.relative_to(ROOT))
        while self._waiting:
            self._write_page(self._waiting.pop())
        python = Path(MADE["mblob/__init__.pyi"])
        for end, text in python_page.pages().items():
            self._write(str(python.with_name(f"{python.stem}{end}.md")), text)
        self._write(MADE["mblob/cli/command_line.py"], cli_page.page())
        self._write(MADE["mblob/inspect/inspect-1.schema.json"], json_page.page())
        self._write(MADE["packager/link/manifest.py"], manifest_page())
        for name, (title, readers) in HEADERS.items():
            self._write(MADE[name], c_header.page(title, readers, ROOT / name))

    def _want(self, path: Path) -> None:
        if path not in self._seen and path.as_posix() not in MADE:
            self._seen.add(path)
            self._waiting.append(path)

    def _write_page(self, path: Path) -> None:
        if path.suffix in IMAGES:
            target = self.folder / place(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / path, target)
            return
        text = _PICTURE.sub(
            r"![\2](\3){.only-light}\n![\2](\1){.only-dark}",
            (ROOT / path).read_text(encoding="utf-8"),
        )
        if path.suffix != ".md":
            language = LANGUAGES.get(path.suffix, "text")
            self._write(
                place(path), f"---\norphan: true\n---\n# {path}\n\n````{language}\n{text}\n````\n"
            )
            return
        listed = path == INDEX or path in listed_pages() or place(path).startswith("howto/")
        parts = _CODE.split(text)
        parts[::2] = [_LINK.sub(lambda m: f"]({self._moved(m[1], path)})", p) for p in parts[::2]]
        text = _FILE_BLOCK.sub(r"```{code-block} \1\n:caption: \2", "".join(parts))
        text = _PLACE_BLOCK.sub(lambda m: m[0] if "{" in m[0] else f"```{m[1]}", text)
        if path == INDEX:
            text += toctrees()
        self._write(place(path), text if listed else f"---\norphan: true\n---\n{text}")

    def _moved(self, target: str, page: Path) -> str:
        """The link `target` of a page, as the site has it."""
        name, mark, anchor = target.partition("#")
        if not name or "://" in name or name.startswith("mailto:"):
            return target
        found = Path(os.path.normpath(page.parent / name))
        if not (ROOT / found).is_file():
            sys.exit(f"{page}: the link {target} leads to no file")
        self._want(found)
        return os.path.relpath(place(found), Path(place(page)).parent) + mark + anchor

    def _write(self, name: str, text: str) -> None:
        target = self.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def index_sections() -> dict[str, list[Path]]:
    """The sections of the index: titles, and the files that their links lead to."""
    sections: dict[str, list[Path]] = {}
    text = (ROOT / INDEX).read_text(encoding="utf-8")
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        links = _LINK.findall(body)
        sections[title] = [
            Path(os.path.normpath(INDEX.parent / link)) for link in links if "://" not in link
        ]
    return sections


def listed_pages() -> set[Path]:
    """The files that the index links to in its sections."""
    return {path for paths in index_sections().values() for path in paths}


def toctrees() -> str:
    """The navigation: a list of pages for each section of the index."""
    lines = []
    for title, paths in index_sections().items():
        lines += ["", "```{toctree}", ":hidden:", f":caption: {title}", ""]
        lines += [place(path).removesuffix(".md") for path in dict.fromkeys(paths)]
        lines += ["```"]
    return "\n".join(lines) + "\n"


def manifest_page() -> str:
    """The page about manifests, from the docstring of the module that reads it."""
    before, _, rest = (manifest.__doc__ or "").partition("\n\n")
    sample, _, after = rest.rpartition("\n\n")
    sample = re.sub(r"^    ", "", sample, flags=re.MULTILINE)
    return (
        "# The manifest of mblob-pack build\n\nFor those who build the same library more than once.\n"
        f"{before}\n\n```toml\n{sample}\n```\n\n{after}\n"
    )


def main(argv: list[str] | None = None) -> int:
    """Build the site into the folder that is given; Sphinx's exit code."""
    parser = argparse.ArgumentParser(prog="docs.site.build", description="Build the documentation.")
    parser.add_argument("output", type=Path, help="folder of the site")
    output = parser.parse_args(argv).output
    with tempfile.TemporaryDirectory(prefix="mblob-docs-") as folder:
        pages = Path(folder) / "pages"
        Pages(pages).write_all()
        shutil.rmtree(output, ignore_errors=True)
        words = ["-q", "-W", "--keep-going", "-n", "-b", "html", "-c", str(Path(__file__).parent)]
        return build_main([*words, "-d", f"{folder}/doctrees", str(pages), str(output)])


if __name__ == "__main__":
    sys.exit(main())
