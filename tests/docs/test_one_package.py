"""What is installed is one package, `mblob`: the names `packager` and `loader` stay the user's."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

BARE = re.compile(r"^(packager|loader)([.:]|$)")
FOLDERS = ("mblob", "packager", "loader", "tests", "examples", "benchmarks")


def files(root: Path, *suffixes: str) -> list[Path]:
    found = [p for folder in FOLDERS for p in (root / folder).rglob("*") if p.suffix in suffixes]
    assert len(found) > 50
    return [*found, root / "setup.py"] if ".py" in suffixes else found


def test_no_import_names_a_half_without_its_package(root: Path) -> None:
    guilty = []
    for path in files(root, ".py", ".pyi"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            guilty += [f"{path}:{node.lineno}: {name}" for name in names if BARE.match(name)]  # type: ignore[attr-defined]
    assert guilty == []


def test_no_text_names_a_module_of_a_half_without_its_package(root: Path) -> None:
    """Lazy tables, `import_module`, `resources.files`, code in strings; in C the names of types and
    modules."""
    guilty = []
    for path in files(root, ".py"):
        if path.name == Path(__file__).name:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
                code = re.search(r"^\s*(from|import) (packager|loader)\b", text, re.MULTILINE)
                if (BARE.match(text) and ("." in text or ":" in text)) or code:
                    guilty.append(f"{path}:{node.lineno}: {text[:60]!r}")
    for path in files(root, ".c", ".h"):
        found = re.findall(r'"(?:packager|loader)\.[^"]*"', path.read_text(errors="replace"))
        guilty += [f"{path}: {text}" for text in found]
    assert guilty == []


EVERYTHING = """
import sys
import array
import mblob
from mblob.cli.main import main

source = "void twice(float *x, long n) { for (long i = 0; i < n; ++i) x[i] *= 2; }"
root = mblob.csource_module(source, functions=["void twice(float *x, long n)"])
root.import_module(mblob.blob_module("raw", b"abc"))
root.export_library("a.so")
for verb in ("inspect a.so", "inspect a.so --json", "inspect a.so --html a.html", "verify a.so", "extract a.so -o out/",
             "swap a.so --entry 1=a.html -o b.so", "diff a.so b.so", "convert a.so --dialect ffi -o c.so", "doctor"):
    assert main(verb.split()) in (0, 1), verb
lib = mblob.load_module("a.so")
x = array.array("f", [1, 2])
lib["twice"](x, 2)
assert list(x) == [2, 4]
for name in mblob.__all__:
    getattr(mblob, name)
print(sorted(m for m in sys.modules if m.partition(".")[0] in ("packager", "loader")), file=sys.stderr)
"""


def test_a_process_that_uses_everything_has_neither_name(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", EVERYTHING], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "c.so").exists() and (tmp_path / "a.html").exists()
    assert done.stderr.splitlines()[-1] == "[]"


def test_modules_of_the_users_with_these_names_change_nothing(tmp_path: Path) -> None:
    for name in ("packager", "loader"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the user's own')\n")
    (tmp_path / "script.py").write_text(EVERYTHING)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "[]"


PROGRAM = """
from pathlib import Path

import mblob
from mblob.errors import MblobError


def pack(path: Path) -> None:
    root: mblob.Module = mblob.csource_module("int one(void) { return 1; }", functions=["int one(void)"])
    root.export_library(path)


def call(path: Path) -> int:
    try:
        library = mblob.load_module(path)
    except MblobError as error:
        raise SystemExit(str(error)) from None
    result = library["one"]()
    assert isinstance(result, int)
    return result


if __name__ == "__main__":
    pack(Path("one.so"))
    print(call(Path("one.so")))
"""


def check_program(folder: Path, paths: list[Path]) -> None:
    """Run a user's program under mypy --strict, then itself, with these folders in front of all
    others."""
    pytest.importorskip("mypy", reason="mypy is not installed (make lint installs it)")
    (folder / "program.py").write_text(PROGRAM)
    joined = os.pathsep.join(map(str, paths))
    environment = {**os.environ, "PYTHONPATH": joined, "MYPYPATH": joined}
    mypy = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--cache-dir",
        str(folder / "cache"),
        "program.py",
    ]
    for command in (mypy, [sys.executable, "program.py"]):
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "1\n"


@pytest.mark.slow
def test_types_reach_a_users_program_beside_an_editable_install(tmp_path: Path) -> None:
    check_program(tmp_path, [])
