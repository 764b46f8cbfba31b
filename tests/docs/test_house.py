"""The house rules that can be tested: what CI may skip, what make offers, what the sources look
like."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import mblob
from tests import built_once as built_once_module
from tests import compiled_once, measure_coverage

ROOT = Path(__file__).resolve().parents[2]
DOCS = sorted((ROOT / "docs").rglob("*.md"))


def run_tests(root: Path, folder: Path, text: str, *words: str, **environment: str) -> Any:
    """Run a file of tests in a folder that has our conftest.py: the finished process."""
    folder.mkdir(exist_ok=True)
    shutil.copy(root / "tests" / "conftest.py", folder)
    (folder / "test_it.py").write_text(text)
    own = ("PYTEST_XDIST", "PYTEST_CURRENT", "MBLOB_TEST_EACH")
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(own)}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", *words, "test_it.py"],
        cwd=folder, env={**inherited, "PYTHONPATH": str(root), **environment}, capture_output=True, text=True,
    )  # fmt: skip


SKIPPING = """
import os
import subprocess
import pytest

def run_without_path(tool, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    subprocess.run([tool])

def fails_to_link(linker):
    raise subprocess.CalledProcessError(1, ["cc", f"-fuse-ld={linker}"])

def test_tool(require): require("no-such-tool")
def test_gpu(): pytest.skip("no GPU here")
def test_golden(): pytest.skip("no golden libraries")
def test_later(): pytest.skip("later")
def test_optional(monkeypatch): run_without_path("readelf", monkeypatch)
def test_unknown(monkeypatch): run_without_path("no-such-tool", monkeypatch)
def test_linker(): fails_to_link("none")
def test_usual_linker(): fails_to_link("bfd")
"""
ALWAYS = {"gpu": "SKIPPED", "golden": "SKIPPED", "unknown": "FAILED", "usual_linker": "FAILED"}


@pytest.mark.slow
@pytest.mark.parametrize(("ci", "outcome"), [("", "SKIPPED"), ("true", "FAILED")])
def test_in_ci_only_a_gpu_and_the_golden_libraries_may_be_missing(
    root: Path, tmp_path: Path, ci: str, outcome: str
) -> None:
    done = run_tests(root, tmp_path, SKIPPING, "-vv", "-p", "no:xdist", CI=ci)
    found = dict(re.findall(r"::test_(\w+) (\w+)", done.stdout.partition("= FAILURES =")[0]))
    assert found == {
        **ALWAYS,
        "tool": outcome,
        "later": outcome,
        "optional": outcome,
        "linker": outcome,
    }


def test_make_help_lists_every_target_for_people(root: Path) -> None:
    done = subprocess.run(
        ["make", "-s", "help"], cwd=root, capture_output=True, text=True, check=True
    )
    listed = {line.split()[1] for line in done.stdout.splitlines()}
    tests = {"test", "test-all", "check", "nightly", "coverage"}
    assert (
        listed
        == {
            "help",
            "generate",
            "amalgamation",
            "env",
            "demo",
            "lint",
            "format",
            "quick",
            "bench",
            "docs",
            "install",
            "uninstall",
            "clean",
            "wheels",
            "release",
        }
        | tests
    )


def test_make_env_does_nothing_when_it_is_fresh(root: Path) -> None:
    if not (root / ".venv" / "ready").exists():
        subprocess.run(["make", "env"], cwd=root, check=True, stdout=subprocess.DEVNULL)
    command = ["make", "--no-print-directory", "-n", "env"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ":"


@pytest.fixture
def bare(root: Path, tmp_path: Path, require: Callable[[str], str]) -> Path:
    """A copy of csrc, and a folder of programs for a PATH: what a machine that compiles has,
    without find and sed."""
    for tool in ("make", "sh", "cat", "cc", "ar", "mkdir", "printf"):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / tool).symlink_to(require(tool))
    shutil.copytree(root / "csrc", tmp_path / "csrc", ignore=shutil.ignore_patterns("build"))
    return tmp_path


def make_bare(bare: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(bare / "bin" / "make"), "-C", str(bare / "csrc"), *words]
    of_ccache = {k: v for k, v in os.environ.items() if k.startswith("CCACHE_")}  # tests/tidy.py
    env = {"PATH": str(bare / "bin"), **of_ccache}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def test_make_finds_the_sources_by_itself(bare: Path) -> None:
    done = make_bare(bare, "-n")
    assert (done.returncode, done.stderr) == (0, "")
    sources = sorted((bare / "csrc" / "src").rglob("*.c"))
    assert len(sources) > 50
    assert all(f" -c src/{p.relative_to(bare / 'csrc' / 'src')} " in done.stdout for p in sources)
    assert f"'{mblob.__version__}'" in done.stdout


@pytest.mark.parametrize(
    ("lost", "message"), [("src", "no %.c in src"), ("include", "no MBLOB_VERSION|no %.h in")]
)
def test_make_links_no_library_of_nothing(bare: Path, lost: str, message: str) -> None:
    shutil.rmtree(bare / "csrc" / lost)
    done = make_bare(bare)
    assert done.returncode != 0
    assert re.search(message, done.stderr)
    assert not (bare / "csrc" / "build").exists()


def test_make_check_is_lint_then_both_tiers(root: Path) -> None:
    done = subprocess.run(
        ["make", "-n", "check"], cwd=root, capture_output=True, text=True, check=True
    )
    quick, slow = [line for line in done.stdout.splitlines() if "-m pytest" in line]
    assert done.stdout.index("ruff") < done.stdout.index(quick)
    assert "-m 'slow and not nightly'" in slow and "slow" not in quick
    assert "--dist" in quick and "--durations=10" in quick  # parallel, and the slowest ten are told


# -- how tests run: tests/tidy.py, tests/own_process.py --------------------------------------------

LEAVING = {
    "home": "from pathlib import Path\ndef test_it(): (Path.home() / 'left').mkdir()",
    "tmp": "import tempfile\ndef test_it(): tempfile.mkstemp(prefix='left')",
    "tree": "from pathlib import Path\ndef test_it(): Path(__file__).with_name('left').touch()",
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("place", LEAVING)
def test_a_file_that_a_test_leaves_behind_fails_the_run_and_is_named(
    root: Path, tmp_path: Path, place: str
) -> None:
    done = run_tests(root, tmp_path / "it", LEAVING[place])
    assert re.search(rf"^left behind: {place}: left", done.stdout, re.MULTILINE), done.stdout
    assert "1 passed" in done.stdout and done.returncode == 1


@pytest.mark.slow
def test_a_run_that_leaves_nothing_passes_and_tells_its_seed(root: Path, tmp_path: Path) -> None:
    done = run_tests(
        root, tmp_path / "it", "def test_it(): pass", "-p", "randomly", "-p", "no:xdist"
    )
    assert done.returncode == 0, done.stdout
    assert re.search(r"^order: -p randomly --randomly-seed=\d+$", done.stdout, re.MULTILINE)


def test_a_failure_tells_the_command_that_repeats_it(root: Path, tmp_path: Path) -> None:
    text = "import random\ndef test_a(): assert random.random() < 0\ndef test_b(): pass"
    done = run_tests(root, tmp_path / "it", text, "--randomly-seed=7")
    (command,) = re.findall(r"^repeat: (.*)$", done.stdout, re.MULTILINE)
    words = shlex.split(command)
    assert words[-2:] == ["--randomly-seed=7", "test_it.py::test_a"]
    again = subprocess.run(
        words,
        cwd=tmp_path / "it",
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
    )
    (said,) = set(re.findall(r"assert 0\.\d+ < 0", done.stdout)) & set(
        re.findall(r"assert 0\.\d+ < 0", again.stdout)
    )
    assert said


OWN_PROCESS = """
import os, pytest
HERE = os.getpid()

@pytest.mark.own_process
def test_one():
    os.environ["SPOILT"] = "1"
    assert os.getppid() == HERE

@pytest.mark.own_process
def test_two():
    assert os.getppid() == HERE and "SPOILT" not in os.environ

@pytest.mark.own_process
def test_three():
    os.kill(os.getpid(), 11)

@pytest.mark.own_process
def test_four():
    pytest.skip("no GPU here")

def test_five():
    assert os.getpid() == HERE and "SPOILT" not in os.environ
"""
OWN_FILE = """
import os, pytest
HERE = os.getpid()
pytestmark = pytest.mark.own_process

@pytest.fixture(scope="module")
def kept():
    return [os.getpid()]

def test_one(kept):
    kept.append(1)
    assert os.getppid() == HERE and kept[0] == os.getpid()

def test_two(kept):
    kept.append(1)
    assert os.getppid() == HERE and kept[0] == os.getpid()

def test_three(kept):
    assert len(kept) == 1
"""


OWN_WARNINGS = """
import pytest, warnings
pytestmark = pytest.mark.own_process

def warn():
    warnings.warn("odd")

@pytest.mark.filterwarnings("ignore:odd")
def test_one():
    warn()

@pytest.mark.filterwarnings("error:odd")
def test_two():
    with pytest.raises(UserWarning):
        warn()

@pytest.mark.filterwarnings("ignore:odd")
def test_three():
    warn()

def test_four():
    WARN
"""


@pytest.mark.parametrize(
    ("usual", "four"), [("error", "with pytest.raises(UserWarning): warn()"), ("ignore", "warn()")]
)
def test_a_mark_on_a_test_of_a_marked_file_filters_its_warnings_alone(
    root: Path, tmp_path: Path, usual: str, four: str
) -> None:
    done = run_tests(
        root, tmp_path / "it", OWN_WARNINGS.replace("WARN", four), "-W", usual, "-p", "no:randomly"
    )
    assert "4 passed" in done.stdout, done.stdout


def test_a_marked_test_has_a_process_of_its_own_whose_death_is_told(
    root: Path, tmp_path: Path
) -> None:
    done = run_tests(root, tmp_path / "it", OWN_PROCESS)
    assert "the process of this test ended with SIGSEGV" in done.stdout
    assert "1 failed, 3 passed, 1 skipped" in done.stdout, done.stdout


def test_a_marked_file_has_one_process_that_keeps_its_fixtures(root: Path, tmp_path: Path) -> None:
    done = run_tests(root, tmp_path / "it", OWN_FILE, "-p", "no:randomly")
    assert "assert 3 == 1" in done.stdout  # the list that the first two have lengthened
    assert "1 failed, 2 passed" in done.stdout, done.stdout


def test_the_defects_to_plant_fit_the_sources(root: Path) -> None:
    command = [sys.executable, root / "tests/planted_defects.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_measured_lines_take_the_place_of_the_table_in_the_page(tmp_path: Path) -> None:
    rows = [
        {"file": "mblob/a/x.py", "lines": [1, 2, 3, 4], "ran": [1, 2, 3]},
        {"file": "csrc/src/elf/x.c", "lines": [5], "ran": []},
    ]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    page = tmp_path / "page.md"
    page.write_text((ROOT / "docs" / "reliability.md").read_text())
    for _ in range(2):
        measure_coverage.put_into(page, measure_coverage.compare([tmp_path / "r.jsonl"]))
    _, _, table = page.read_text().partition("| lines that ran | share |\n|---|---|\n")
    assert table.splitlines()[:5] == [
        "| C: all | 0.0 % of 1 |",
        "| C: csrc/src/elf | 0.0 % of 1 |",
        "| Python: all | 75.0 % of 4 |",
        "| Python: mblob/a | 75.0 % of 4 |",
        "",
    ]


SOURCE = "int f(int x) { return x; }"


def test_a_command_with_the_same_inputs_is_run_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, require: Callable[[str], str]
) -> None:
    monkeypatch.setenv(compiled_once.FOLDER, str(tmp_path))
    made = []

    def compiled(text: str, *words: str) -> bytes:
        folder = tmp_path / str(len(made))
        folder.mkdir(exist_ok=True)
        (folder / "x.c").write_text(text)
        (folder / "x.o").unlink(missing_ok=True)
        command = [require("cc"), "-c", "x.c", *words, "-o", "x.o"]

        def really() -> tuple[int, str]:
            made.append(text)
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            return done.returncode, done.stderr

        assert compiled_once.made_once(command, folder, really) == (0, "")
        return (folder / "x.o").read_bytes()

    assert compiled(SOURCE) == compiled(SOURCE)
    assert len(made) == 1
    for text, words in (("int y;", ()), (SOURCE, ("-O2",)), ("const char *x = __FILE__;", ())):
        assert compiled(text, *words) != compiled(SOURCE)
    assert len(made) == 4
    for words in (("-g",), ("-I.",), ("-include", "stddef.h"), ("-MD",)):
        compiled(SOURCE, *words), compiled(SOURCE, *words)
    monkeypatch.setenv("CPATH", str(tmp_path))
    compiled(SOURCE)
    assert len(made) == 4 + 8 + 1


def test_a_program_is_compiled_again_only_when_its_sources_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(built_once_module, "FOLDER", tmp_path / "kept")
    monkeypatch.setattr(built_once_module, "_in_use", [])
    made: list[Path] = []
    for flag in ("-O1", "-O1", "-O2", "-O1"):
        folder = built_once_module.built_once("x", made.append, flag)
        assert (folder / "complete").exists()
    assert len(made) == 2 and made[0] != made[1]
    with pytest.raises(ZeroDivisionError):
        built_once_module.built_once("x", lambda folder: 1 // 0, "-O3")
    built_once_module.built_once("x", made.append, "-O3")
    assert len(made) == 3 and all(folder.exists() for folder in made)  # they are in use
    for used in built_once_module._in_use:
        os.close(used)
    built_once_module.built_once("x", made.append, "-Os")
    assert [folder.exists() for folder in made] == [False, False, False, True]
    os.close(built_once_module._in_use[-1])


def test_ci_calls_make_check(root: Path) -> None:
    script = root / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text().rstrip().endswith("make check")
    subprocess.run(["bash", "-n", str(script)], check=True)


def test_no_source_file_is_too_long_to_read(root: Path) -> None:
    folders = ("mblob", "packager", "loader", "csrc", "examples", "benchmarks", "docs", "tests")
    files = [
        p for f in folders for p in (root / f).rglob("*") if p.suffix in (".py", ".c", ".h", ".cpp")
    ]
    assert files
    long = {
        str(p.relative_to(root)): len(p.read_text().splitlines())
        for p in files
        # The public header is one interface, most of it text for people.
        if p.name not in ("_native.c", "_programs.c", "mblob.h")
        and p.parent.name != "_lib"
        and "build" not in p.relative_to(root).parts
    }
    assert {name: lines for name, lines in long.items() if lines > 600} == {}


def test_each_source_or_the_header_of_its_name_begins_with_what_it_is_for(root: Path) -> None:
    def begins(path: Path, marks: tuple[str, ...]) -> bool:
        return path.is_file() and path.read_text().lstrip().startswith(marks)

    sources = [p for part in ("src", "plugins") for p in (root / "csrc" / part).rglob("*.[ch]")]
    comment = ("/*", "//")
    wrong = [
        p for p in sources if not begins(p, comment) and not begins(p.with_suffix(".h"), comment)
    ]
    for part in ("mblob", "packager", "loader", "docs/site", "benchmarks"):
        texts = ('"""', "#", 'r"""')
        found = [p for p in (root / part).rglob("*.py") if p.stat().st_size > 0]
        wrong += [p for p in found if not begins(p, texts)]
    assert [str(p.relative_to(root)) for p in wrong] == []


def test_nothing_is_left_for_later(root: Path) -> None:
    marks = tuple("".join(pair) for pair in (("TO", "DO"), ("FIX", "ME")))
    guilty = [
        f"{path.relative_to(root)}: {mark}"
        for folder in ("mblob", "packager", "loader", "csrc", "examples", "benchmarks", "docs")
        for path in (root / folder).rglob("*")
        if path.suffix in (".py", ".c", ".h", ".cpp", ".md", ".toml")
        and path.name not in ("_native.c", "_programs.c")
        for mark in marks
        if mark in path.read_text()
    ]
    assert guilty == []


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", *(str(p.relative_to(ROOT)) for p in DOCS)]
)
def test_the_files_that_a_page_names_are_there(root: Path, page: str) -> None:
    """A path in backquotes; in CONTRIBUTING.md also below csrc/src."""
    made = {
        "csrc/build",
        "loader/_lib",
        "mblob/native/_native",
        "mblob/native/_programs",
        "mblob/plugin.h",
        "mblob/ffi_module.h",
        "mblob/inspect/1",
        "mblob/verify/1",
    }
    tops = ("mblob", "packager", "loader", "csrc", "tests", "docs", "benchmarks", "examples")
    rooms = (
        tuple(p.name for p in (root / "csrc" / "src").iterdir())
        if page == "CONTRIBUTING.md"
        else ()
    )
    found = re.findall(r"`([\w./-]+/[\w./-]*\w|[\w./-]+/)`", (root / page).read_text())
    guilty = [
        name
        for name in found
        if name.split("/")[0] in (*tops, *rooms)
        and "NAME" not in name
        and name.rstrip("/") not in made
        and not any((folder / name).exists() for folder in (root, root / "csrc" / "src"))
    ]
    assert guilty == []


def test_no_line_of_a_page_is_too_wide_to_read(root: Path) -> None:
    """But rows of tables, which Markdown cannot break."""
    pages = [root / "README.md", root / "CONTRIBUTING.md", *DOCS]
    wide = [
        f"{page.relative_to(root)}:{number}"
        for page in pages
        for number, line in enumerate(page.read_text().splitlines(), 1)
        if len(line) > 160 and not line.lstrip().startswith("|")
    ]
    assert wide == []


def test_names_that_the_guide_gives_behind_a_file_are_in_it(root: Path) -> None:
    text = (root / "CONTRIBUTING.md").read_text()
    pairs = [
        (path, name)
        for path, listed in re.findall(r"`([\w/.]+\.(?:py|[chj]s?))`\s\(([^()]*`[^()]*)\)", text)
        for name in re.findall(r"`(?:(?:enum|struct) )?(\w+)`", listed)
    ]
    assert len(pairs) > 80
    guilty = [
        f"{path}: {name}"
        for path, name in pairs
        if not re.search(rf"\b{name}\b", (root / path).read_text())
    ]
    assert guilty == []


def test_documents_that_sources_name_are_there(root: Path) -> None:
    """What `help()` of a module cites can be opened: docs/NAME.md, or a file beside the source."""
    folders = [root / name for name in ("mblob", "packager", "loader", "csrc/include", "csrc/src")]
    sources = {
        p
        for f in folders
        for kind in ("*.py", "*.pyi", "*.h", "*.c")
        for p in f.rglob(kind)
        if p.parent.name != "_lib"
    }
    assert len(sources) > 200
    dead = [
        f"{path.relative_to(root)}: {name}"
        for path in sorted(sources)
        for name in re.findall(r"(?<![\w/.-])[\w./-]+\.md\b", path.read_text("utf-8"))
        if not any((place / name).is_file() for place in (root, root / "docs", path.parent))
    ]
    assert dead == []


def test_make_says_one_short_line_a_step_unless_asked(
    bare: Path, require: Callable[[str], str]
) -> None:
    (bare / "bin" / "as").symlink_to(require("as"))
    step = f"build/obj/base/{sorted((bare / 'csrc/src/base').glob('*.c'))[0].stem}.o"
    done = make_bare(bare, step)
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = [line for line in done.stdout.splitlines() if "base/" in line]
    assert re.fullmatch(r" +CC +src/base/\w+\.c", line)
    shutil.rmtree(bare / "csrc" / "build")
    assert "-Wconversion" in make_bare(bare, step, "V=1").stdout
    shutil.rmtree(bare / "csrc" / "build")
    assert "CC" not in make_bare(bare, "-s", step).stdout


def test_the_commands_for_generated_headers_make_them_all(root: Path) -> None:
    """Those of `make generate`. That the files are up to date is tested beside each."""
    text = (root / "Makefile").read_text()
    commands = re.findall(r"\$\(call made,(mblob[\w.]+),(csrc/src/[\w/]+\.h)\)", text)
    made = [p for p in (root / "csrc" / "src").rglob("*.h") if ". Made by mblob/" in p.read_text()]
    assert sorted(path for _, path in commands) == sorted(str(p.relative_to(root)) for p in made)
    for module, path in commands:
        assert import_module(module).header() == (root / path).read_text()
