"""The release command: what it refuses, and the page that PyPI shows. Nothing is built."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

import mblob
from docs.site import manual_page

FILES = (
    "mblob/__init__.py", "csrc/include/mblob.h", "pyproject.toml", "CHANGELOG.md", "README.md",
    "docs/mblob-pack.1", "packager/compile/__init__.py",
)  # fmt: skip


@pytest.fixture(scope="module")
def release(root: Path) -> dict[str, Any]:
    return runpy.run_path(str(root / "release.py"), run_name="release")


@pytest.fixture
def tree(root: Path, tmp_path: Path) -> Path:
    """The files that must agree."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, tmp_path / name)
    return tmp_path


def test_version_change_log_and_project_agree(release: dict[str, Any], tree: Path) -> None:
    assert release["version"](tree) == mblob.__version__
    assert list(release["disagreements"](tree)) == []


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        (
            "CHANGELOG.md",
            r"^## 0.1.0 \(.*\)",
            "## 0.1.0 (unreleased)",
            "CHANGELOG.md: the first section is '## 0.1.0 (unreleased)', expected '## 0.1.0 (YEAR-MONTH-DAY)'",
        ),
        (
            "CHANGELOG.md",
            r"^## 0.1.0",
            "## Unreleased\n\n## 0.1.0",
            "CHANGELOG.md: the first section is '## Unreleased', expected '## 0.1.0 (YEAR-MONTH-DAY)'",
        ),
        (
            "csrc/include/mblob.h",
            '"0.1.0"',
            '"0.1.1"',
            "csrc/include/mblob.h: MBLOB_VERSION is not 0.1.0, the version in mblob/__init__.py",
        ),
        (
            "pyproject.toml",
            "mblob.__version__",
            "mblob.other",
            "pyproject.toml: the version is not that of mblob/__init__.py",
        ),
        (
            "pyproject.toml",
            r'^  "Private :: Do Not Upload",.*\n',
            "",
            'pyproject.toml: the classifier "Private :: Do Not Upload" and example.org in [project.urls] go together:'
            " PyPI refuses files without an address",
        ),
        (
            "packager/compile/__init__.py",
            '"0.1.0"',
            '"0.1.1"',
            "packager/compile/__init__.py: __version__ is not 0.1.0, the version in mblob/__init__.py",
        ),
        (
            "docs/mblob-pack.1",
            "mblob 0.1.0",
            "mblob 0.0.9",
            "docs/mblob-pack.1: of another version; python -m docs.site.manual_page makes it",
        ),
    ],
)
def test_a_file_of_another_version_is_named(
    release: dict[str, Any], tree: Path, name: str, old: str, new: str, message: str
) -> None:
    text, count = re.subn(old, new, (tree / name).read_text(), count=1, flags=re.MULTILINE)
    assert count == 1
    (tree / name).write_text(text)
    assert list(release["disagreements"](tree)) == [message]


def test_links_and_pictures_of_the_page_on_pypi_are_absolute(
    release: dict[str, Any], root: Path
) -> None:
    base, text = release["home_page"](root), release["description"](root)
    assert base.startswith("https://")
    assert f'src="{base}/raw/v{mblob.__version__}/docs/report.png"' in text
    assert f"]({base}/blob/v{mblob.__version__}/docs/tutorial.md)" in text
    prose = re.sub(r"^```.*?^```$|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)
    links = re.findall(r'\]\(([^)]*)\)|(?:src|srcset)="([^"]*)"', prose)
    assert len(links) > 10
    assert [
        link for pair in links for link in pair if link and not link.startswith("https://")
    ] == []
    readme = (root / "README.md").read_text()
    blocks = re.findall(r"^```.*?^```$", readme, flags=re.MULTILINE | re.DOTALL)
    assert blocks == re.findall(r"^```.*?^```$", text, flags=re.MULTILINE | re.DOTALL)


def test_what_is_not_committed_and_files_of_other_releases_are_refused(
    root: Path, tree: Path
) -> None:
    for name in ("release.py", "wheel_parts.py", "wheels.py"):
        shutil.copy(root / name, tree)
    for words in (["init", "-q"], ["add", "mblob"]):
        subprocess.run(["git", "-C", str(tree), *words], check=True)
    (tree / "dist").mkdir()
    (tree / "dist" / "mblob-0.0.9.tar.gz").touch()
    done = subprocess.run([sys.executable, "release.py"], cwd=tree, capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == ""
    assert "release.py: commit first:\nA  mblob/__init__.py\n" in done.stderr
    assert "dist has other files: mblob-0.0.9.tar.gz" in done.stderr


def test_a_wheel_that_is_too_large_ends_the_release(
    release: dict[str, Any], tmp_path: Path
) -> None:
    archive, wheel = tmp_path / "mblob-0.1.0.tar.gz", tmp_path / "mblob-0.1.0-cp311-x-y.whl"
    packager = tmp_path / "mblob_packager-0.1.0-py3-none-y.whl"
    for path, size in ((archive, 2_000_000), (wheel, 1_500_000), (packager, 1_250_001)):
        path.touch()
        os.truncate(path, size)
    assert [*release["sizes"]([archive, wheel])][1] == f"{wheel.name}: 1500000 bytes"
    with pytest.raises(
        SystemExit, match=r"mblob_packager.*: 1250001 bytes, expected at most 1250000$"
    ):
        list(release["sizes"]([packager]))


def test_each_wheel_for_this_machine_is_tried_with_its_own_python(release: dict[str, Any]) -> None:
    here = sysconfig.get_platform().replace("-", "_")
    libc = "musllinux_1_2" if "musl" in str(sysconfig.get_config_var("SOABI")) else "manylinux_2_28"
    pythons = {"cp39": "python3.9", "cp313": "/opt/python"}
    for platform, tag, expected in (
        (here.replace("linux", libc), "cp39", "python3.9"),
        (here.replace("linux", libc), "cp313", "/opt/python"),
        (here.replace("linux", libc), "cp312", None),
        (f"{libc}_other", "cp39", None),
        (here.replace("linux", "otherlinux_2_28"), "cp39", None),
    ):
        wheel = Path(f"mblob-0.1.0-{tag}-{tag}-{platform}.whl")
        assert release["python_of"](wheel, pythons) == expected, wheel


def test_the_manual_page_is_that_of_the_command_line(root: Path) -> None:
    assert (root / "docs" / "mblob-pack.1").read_text() == manual_page.page()


def test_the_manual_page_says_what_each_verb_takes() -> None:
    text = manual_page.page().replace("\\-", "-")
    for words in (
        ".SH mblob-pack swap",
        "--weights",
        "\\fB7\\fR\ndigest mismatch",
        "doctor --target",
    ):
        assert words in text
