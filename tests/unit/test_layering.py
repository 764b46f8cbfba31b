"""Who may import whom: mblob is the ground, packager and loader stand on it and never on each other."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

import mblob

ROOT = Path(__file__).resolve().parents[2]
HALVES = ("packager", "loader")


def imports(path: Path, *, deferred: bool) -> Iterator[tuple[int, str]]:
    """(line, top-level package) of each import in a file; `deferred` counts those inside functions too."""
    tree = ast.parse(path.read_text(), str(path))
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level == 0:
                assert node.module is not None
                yield node.lineno, node.module.partition(".")[0]
            else:
                yield node.lineno, path.relative_to(ROOT).parts[0]
        if not deferred and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            pending.extend(ast.iter_child_nodes(node))


def is_standard(name: str) -> bool:
    """Whether a top-level module comes with Python."""
    if name in sys.builtin_module_names:
        return True
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        return False
    place = Path(spec.origin)
    return spec.origin == "frozen" or (
        Path(sysconfig.get_path("stdlib")) in place.parents and "site-packages" not in place.parts
    )


def sources(package: str) -> list[Path]:
    found = sorted((ROOT / package).rglob("*.py"))
    assert found, f"{package} has no Python files"
    return found


@pytest.mark.parametrize(("package", "other"), [HALVES, HALVES[::-1]])
def test_the_two_halves_never_import_each_other(package: str, other: str) -> None:
    guilty = [
        f"{path}:{line}"
        for path in sources(package)
        for line, name in imports(path, deferred=True)
        if name == other
    ]
    assert guilty == []


def test_mblob_imports_nothing_but_the_standard_library() -> None:
    guilty = [
        f"{path}:{line} {name}"
        for path in sources("mblob")
        if path.parent.name != "cli"
        for line, name in imports(path, deferred=True)
        if name != "mblob" and not is_standard(name)
    ]
    assert guilty == []


def test_the_command_line_imports_the_halves_only_when_a_verb_runs() -> None:
    guilty = [
        f"{path}:{line} {name}"
        for path in sorted((ROOT / "mblob" / "cli").glob("*.py"))
        for line, name in imports(path, deferred=False)
        if name != "mblob" and not is_standard(name)
    ]
    assert guilty == []


VERBS = {
    "inspect": ["inspect", "FILE"], "functions": ["inspect", "FILE", "--functions"], "verify": ["verify", "FILE"],
    "verify against": ["verify", "FILE", "--against", "libc.so.6"], "diff": ["diff", "FILE", "FILE"],
    "extract": ["extract", "FILE", "-o", "OUT"], "no library": ["inspect", "/etc/passwd"],
}  # fmt: skip
# Each takes a tenth of what Python itself needs to start, or more; small files are looked into without them.
HEAVY = (
    "dataclasses", "inspect", "ast", "hashlib", "difflib", "tarfile", "tempfile", "shutil", "bz2", "lzma", "secrets",
    "random", "base64", "subprocess", "ctypes",
)  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_looking_at_a_small_file_imports_little(verb: str, golden: Path, tmp_path: Path) -> None:
    words = [{"FILE": str(golden / "dag.so"), "OUT": f"{tmp_path}/"}.get(w, w) for w in VERBS[verb]]
    code = (
        "import sys\nfrom mblob.cli.command_line import execute\nexecute(sys.argv[1].split('|'))\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    root = Path(mblob.__file__).parents[1]
    done = subprocess.run(  # -S: what the environment itself imports does not count
        [sys.executable, "-S", "-c", code, "|".join(words)], capture_output=True, text=True, cwd=root
    )
    assert done.returncode == 0, done.stderr
    loaded = set(done.stderr.splitlines()[-1].split())
    assert "mblob.inspect.library" in loaded or verb == "no library"
    assert sorted(loaded & set(HEAVY)) == []


PARSER = "import mblob.cli.command_line; mblob.cli.command_line.make_parser()"  # with all verbs


@pytest.mark.parametrize("statement", ["import mblob", "import mblob.cli.main", PARSER, "import mblob; mblob.open"])
def test_looking_at_files_imports_no_compiler_driver_and_no_numpy(statement: str) -> None:
    code = f"import sys; {statement}; print(*(m for m in sys.modules if m.partition('.')[0] in sys.argv[1:]))"
    heavy = ["numpy", "packager", "loader", "elftools", "lief", "pycparser", "cffi"]
    done = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
