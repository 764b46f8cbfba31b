"""Makes the files of a release, checks them, installs them in empty environments and runs them.

python3 release.py [--python PYTHON]... [--target TARGET]... [-o dist]

Nothing is uploaded. wheels.py says what PYTHON and TARGET are; docs/releasing.md has the steps.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent
# Beside ziglang and others of wheels.py: what makes the source archive, and what PyPI renders pages with.
TOOLS = ("build", "twine", "readme_renderer[md]")
PLACEHOLDER = "example.org"  # a host that nobody can have
PRIVATE = "Private :: Do Not Upload"  # a classifier with which PyPI refuses files
# Bytes that a wheel may have: of mblob, which a machine downloads that runs libraries, and of mblob-packager.
LARGEST = {"mblob": 1_500_000, "mblob_packager": 1_250_000}
_HEADING = re.compile(r"^## (.*)$", re.MULTILINE)
_CODE = re.compile(r"(^```.*?^```$|`[^`\n]*`)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r'(\]\(|\b(?:href|src|srcset)=")([^)"\s]+)')
RENDER = """
import re, sys
from readme_renderer import markdown
page = markdown.render(sys.stdin.read()) or sys.exit("README.md: readme_renderer cannot render it")
print(*re.findall(r'(?:href|src|srcset)="([^"]*)"', page), sep="\\n")
"""
# In an environment of its own, in an empty folder: a library of tests/golden_0_1_0 is its argument.
TRIAL = """
import array, sys
from pathlib import Path
import mblob
assert Path(mblob.__file__).is_relative_to(sys.prefix), mblob.__file__
x = array.array("f", [1, 2, 3])
mblob.load_module(sys.argv[1])["scale"](x, 2.0)
assert list(x) == [2, 4, 6], x
assert (Path(sys.prefix) / "share/man/man1/mblob-pack.1").is_file()
print("mblob", mblob.__version__)
"""
KERNEL = "void scale(float x[3], float by) { for (int i = 0; i < 3; ++i) x[i] *= by; }\n"


def version(root: Path = ROOT) -> str:
    """The version of the Python package."""
    text = (root / "mblob" / "__init__.py").read_text(encoding="utf-8")
    return str(_only(re.findall(r'^__version__ = "(.*)"$', text, re.MULTILINE)))


def _only(found: Sequence[str]) -> str:
    return found[0] if len(found) == 1 else ""


def home_page(root: Path = ROOT) -> str:
    """The address of the project, from pyproject.toml."""
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    return _only(re.findall(r'^Source = "(.*)"$', text, re.MULTILINE))


def description(root: Path = ROOT) -> str:
    """README.md for readers elsewhere: its links lead to the files of this version at the home page."""
    base, tag = home_page(root), f"v{version(root)}"

    def absolute(link: re.Match[str]) -> str:
        before, target = link.groups()
        if "://" in target or target.startswith("#"):
            return link[0]
        return f"{before}{base}/{'blob' if before == '](' else 'raw'}/{tag}/{target}"

    parts = _CODE.split((root / "README.md").read_text(encoding="utf-8"))
    parts[::2] = [_LINK.sub(absolute, text) for text in parts[::2]]
    return "".join(parts)


def disagreements(root: Path = ROOT) -> Iterator[str]:
    """The places in the tree that are not of one version, or says that nothing was released yet."""
    mine = version(root)
    header = (root / "csrc" / "include" / "mblob.h").read_text(encoding="utf-8")
    if f'#define MBLOB_VERSION "{mine}"' not in header:
        yield f"csrc/include/mblob.h: MBLOB_VERSION is not {mine}, the version in mblob/__init__.py"
    packager = (root / "packager" / "compile" / "__init__.py").read_text(encoding="utf-8")
    if f'__version__ = "{mine}"' not in packager:
        yield f"packager/compile/__init__.py: __version__ is not {mine}, the version in mblob/__init__.py"
    project = (root / "pyproject.toml").read_text(encoding="utf-8")
    if 'version = { attr = "mblob.__version__" }' not in project:
        yield "pyproject.toml: the version is not that of mblob/__init__.py"
    if (PRIVATE in project) != (PLACEHOLDER in home_page(root)):
        yield (
            f'pyproject.toml: the classifier "{PRIVATE}" and {PLACEHOLDER} in [project.urls] go together: PyPI refuses'
            " files without an address"
        )
    headings = _HEADING.findall((root / "CHANGELOG.md").read_text(encoding="utf-8"))
    first = headings[0] if headings else ""
    if not re.fullmatch(rf"{re.escape(mine)} \(\d{{4}}-\d\d-\d\d\)", first):
        yield f"CHANGELOG.md: the first section is '## {first}', expected '## {mine} (YEAR-MONTH-DAY)'"
    page = (root / "docs" / "mblob-pack.1").read_text(encoding="utf-8").partition("\n")[0]
    if f'"mblob {mine}"' not in page:
        yield "docs/mblob-pack.1: of another version; python -m docs.site.manual_page makes it"


def uncommitted(root: Path = ROOT) -> str:
    """The files that differ from the last commit; "" without git."""
    command = ["git", "-C", str(root), "status", "--porcelain"]
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.rstrip()
    except FileNotFoundError:
        return ""


def python_of(wheel: Path, pythons: Mapping[str, str]) -> str | None:
    """The Python that a wheel is for, by the wheel's name; None if there is none on this machine.

    Args:
        pythons: commands by what wheels call them, such as cp311.
    """
    _, tag, _, platform = wheel.stem.rsplit("-", 3)
    libc = "musllinux" if "musl" in str(sysconfig.get_config_var("SOABI")) else "manylinux"
    machine = sysconfig.get_platform().rpartition("-")[2]
    return pythons.get(tag) if libc in platform and platform.endswith(machine) else None


def sizes(files: Iterable[Path]) -> Iterator[str]:
    """A line for each file. A wheel that is too large ends this program."""
    for file in files:
        size = file.stat().st_size
        most = LARGEST[file.name.partition("-")[0]]
        if file.suffix == ".whl" and size > most:
            sys.exit(f"release.py: {file.name}: {size} bytes, expected at most {most}")
        yield f"{file.name}: {size} bytes"


def install_and_try(file: Path, python: str, run: Callable[..., str]) -> None:
    """Install a file in an empty environment, run a library with it, then pack one. What its extra requires of mblob
    is beside it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(python, "-m", "venv", folder / "env")
        mine = folder / "env" / "bin" / "python"
        pip = (mine, "-m", "pip", "-q", "--disable-pip-version-check", "install")
        place = folder / "empty"
        place.mkdir()
        (place / "scale.c").write_text(KERNEL)
        golden = ROOT / "tests" / "golden_0_1_0" / "kernels.so"
        pack = (mine.with_name("mblob-pack"), "build", "scale.c", "-o", "mine.so")
        run(*pip, file)
        said = run(mine, "-c", TRIAL, golden, cwd=place)
        extra = f"mblob[pack] @ {file.resolve().as_uri()}"
        run(*pip, "--find-links", file.resolve().parent, extra)
        run(*pack, cwd=place)
        run(mine, "-c", TRIAL, place / "mine.so", cwd=place)
        print(f"{file.name}: installed, ran and packed a library ({said.strip()})")


def check_description(tools: Path, metadata: str) -> None:
    """Render the description of a wheel as PyPI does; a link that is not absolute ends this program."""
    command = [str(tools), "-c", RENDER]
    text = metadata.partition("\n\n")[2]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"release.py: {done.stderr.strip()}")
    links = done.stdout.split()
    pictures = [link for link in links if link.endswith(".png")]
    guilty = [link for link in links if not link.startswith(("https://", "#", "mailto:"))]
    if guilty or not pictures:
        sys.exit(
            f"release.py: README.md on PyPI: {', '.join(guilty) or 'no picture'}: not absolute"
        )
    print(f"README.md as PyPI renders it: {len(links)} links, {len(pictures)} pictures, absolute")


def main(argv: Sequence[str] | None = None) -> None:
    """Make, check and try a release."""
    import zipfile

    import wheels

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", action="append", help="as of wheels.py")
    parser.add_argument("--target", action="append", default=[], help="as of wheels.py")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "dist", help="(default: dist)")
    arguments = parser.parse_args(argv)
    arguments.python = arguments.python or [sys.executable]
    output, mine = arguments.output, version()
    problems = list(disagreements())
    names = (f"mblob-{mine}", f"mblob_packager-{mine}")
    if changed := uncommitted():
        problems.append(f"commit first:\n{changed}")
    if others := [p.name for p in output.glob("*") if not p.name.startswith(names)]:
        problems.append(f"{output} has other files: {', '.join(others)}")
    if problems:
        sys.exit("\n".join(f"release.py: {problem}" for problem in problems))
    tools = wheels.environment(wheels.WORK / "release", sys.executable, TOOLS)
    wheels.run(tools, "-m", "build", "--sdist", "--outdir", output, ROOT)
    words = [f"--python={python}" for python in arguments.python]
    words += [f"--target={target}" for target in arguments.target]
    wheels.main([*words, "--output", str(output)])
    archive = output / f"mblob-{mine}.tar.gz"
    made = sorted(output.glob(f"mblob-{mine}-*.whl"))
    files = (archive, *made, *sorted(output.glob(f"mblob_packager-{mine}-*.whl")))
    print(*sizes(files), sep="\n")
    print(wheels.run(tools, "-m", "twine", "check", "--strict", *files).strip())
    with zipfile.ZipFile(made[0]) as wheel:
        check_description(tools, wheel.read(f"mblob-{mine}.dist-info/METADATA").decode())
    names_of = "import sys; print('cp%d%d' % sys.version_info[:2])"
    pythons = {wheels.run(p, "-c", names_of).strip(): p for p in arguments.python}
    install_and_try(archive, arguments.python[0], wheels.run)
    for file in made:
        if python := python_of(file, pythons):
            install_and_try(file, python, wheels.run)
        else:
            print(f"{file.name}: not installed: it is for another machine or C library")
    if PLACEHOLDER in home_page():
        print(
            f"not for PyPI: {home_page()} in pyproject.toml is a placeholder, and links lead nowhere: write the address"
            f' of the project, and remove "{PRIVATE}"'
        )


if __name__ == "__main__":
    main()
