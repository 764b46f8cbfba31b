"""The frame around the verbs: help, usage errors, exit codes, a reader that leaves."""

from __future__ import annotations

import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from mblob.cli import report
from mblob.cli.command_line import VERBS, split_cflags
from mblob.cli.main import main


def test_version_is_that_of_the_distribution(pack) -> None:
    from importlib.metadata import version

    assert pack("--version").stdout == f"mblob-pack {version('mblob')}\n"


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_each_verb_has_an_example(pack, verb: str) -> None:
    done = pack(verb, "--help")
    assert done.returncode == 0
    examples = [
        line for line in done.stdout.splitlines() if line.startswith(f"example: mblob-pack {verb}")
    ]
    assert examples
    assert "; mblob-pack" not in "".join(examples)  # each in a line, which can be copied and run
    assert done.stdout.endswith("\n".join(examples) + "\n")


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "frobnicate",
        "inspect",
        "inspect a.so --nope",
        "inspect a.so --tree --json",
        "run",
        "build -o",
    ],
)
def test_a_wrong_command_line_is_one_line_and_exit_code_2(pack, error_line, arguments: str) -> None:
    done = pack(*shlex.split(arguments))
    assert done.returncode == 2
    assert error_line(done)
    assert done.stdout == ""
    assert "--help" in done.stderr


def test_compiler_flags_after_two_dashes_are_for_build_only(pack, error_line) -> None:
    done = pack("inspect", "a.so", "--", "-O3")
    assert done.returncode == 2
    assert "-O3" in error_line(done)


def test_the_first_two_dashes_end_the_options_of_build() -> None:
    words, flags = split_cflags(["build", "-o", "x", "--", "-O3", "--", "-x"])
    assert (words, flags) == (["build", "-o", "x"], ["-O3", "--", "-x"])
    assert split_cflags(["build", "--"]) == (["build"], [])
    assert split_cflags(["build"]) == (["build"], [])
    assert split_cflags(["run", "x.so", "f", "--", "-1e5"]) == (
        ["run", "x.so", "f", "--", "-1e5"],
        [],
    )


def test_a_terminal_without_unicode_still_gets_the_tree(pack, deploy: Path) -> None:
    done = pack("inspect", deploy, "--tree", env={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")
    assert "\n`-- [1] about" in done.stdout


def test_a_missing_file_is_exit_code_5(pack, error_line) -> None:
    done = pack("inspect", "nope.so")
    assert (done.returncode, error_line(done)) == (5, "nope.so: No such file or directory")


def test_an_interrupt_is_exit_code_130(monkeypatch, capsys) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("mblob.cli.inspect.run", interrupted)
    assert main(["inspect", "x.so"]) == 130
    assert capsys.readouterr().err == "mblob-pack: interrupted\n"


INTERRUPTED_AT = {
    "while modules are imported": """
        class Finder:
            def find_spec(name, path=None, target=None):
                if name == "mblob.cli.command_line":
                    os.kill(os.getpid(), signal.SIGINT)
        sys.meta_path.insert(0, Finder)
    """,
    "while a verb runs, and while that is cleaned up": """
        import mblob.cli.inspect
        def interrupted(_):
            try:
                os.kill(os.getpid(), signal.SIGINT)
            finally:
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                    os.kill(os.getpid(), number)
        mblob.cli.inspect.run = interrupted
    """,
    "while a verb runs, and at the end": """
        import atexit, mblob.cli.inspect
        def interrupted(_):
            os.kill(os.getpid(), signal.SIGINT)
        mblob.cli.inspect.run = interrupted
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            atexit.register(os.kill, os.getpid(), number)
    """,
}


@pytest.mark.parametrize("moment", INTERRUPTED_AT)
def test_an_interrupt_is_one_line_at_any_moment(moment: str) -> None:
    script = (
        f"import os, signal, sys\nfrom mblob.cli.main import main\n{textwrap.dedent(INTERRUPTED_AT[moment])}\n"
        "sys.argv = ['mblob-pack', 'inspect', 'x.so']\nsys.exit(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "mblob-pack: interrupted\n")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (MemoryError(), "out of memory"),
        (RuntimeError("can't start new thread"), "can't start new thread"),
    ],
)
def test_a_machine_that_has_no_more_to_give_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, line: str
) -> None:
    def fail(_: object) -> int:
        raise error

    monkeypatch.setattr("mblob.cli.inspect.run", fail)
    assert main(["inspect", "x.so"]) == report.INCOMPATIBLE
    assert capsys.readouterr().err == f"mblob-pack: error: {line}\n"


def test_the_entry_imports_nothing_that_takes_time() -> None:
    code = "import sys; before = set(sys.modules); import mblob.cli.main; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["__future__", "gc", "mblob", "mblob.cli", "mblob.cli.main"]


def test_a_reader_that_leaves_early_is_no_error(deploy: Path) -> None:
    command = f"{shlex.quote(sys.executable)} -m mblob.cli.main inspect {shlex.quote(str(deploy))}"
    done = subprocess.run(
        ["sh", "-c", f"({command}; echo $? >&2) | true"], capture_output=True, text=True
    )
    assert done.stderr == "0\n"


@pytest.mark.parametrize("words", [["--help"], ["inspect", "--help"], ["--version"]])
def test_help_that_cannot_be_written_is_exit_code_5(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "mblob.cli.main", *words], stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == 5
    assert done.stderr.count(b"\n") == 1


def test_a_file_that_cannot_be_read_is_named(pack, error_line) -> None:
    done = pack("inspect", "/proc/self/mem")
    assert done.returncode == 5
    assert "/proc/self/mem: " in error_line(done)


def test_a_full_disk_under_stdout_is_exit_code_5(deploy: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "mblob.cli.main", "inspect", str(deploy)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 5
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("verb", ["inspect", pytest.param("doctor", marks=pytest.mark.slow)])
def test_a_closed_stdout_is_exit_code_5(deploy: Path, verb: str) -> None:
    words = [verb] if verb == "doctor" else [verb, str(deploy)]
    command = shlex.join([sys.executable, "-m", "mblob.cli.main", *words])
    done = subprocess.run(["sh", "-c", f"exec {command} >&-"], stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (
        5,
        "mblob-pack: error: standard output: Bad file descriptor\n",
    )
    silent = subprocess.run(
        ["sh", "-c", f"exec {command} <&- >&- 2>&-"], stderr=subprocess.PIPE, text=True
    )
    assert (silent.returncode, silent.stderr) == (5, "")


def test_no_name_in_a_file_can_forge_a_second_line() -> None:
    assert report.one_line("a\nmblob-pack: error: b\x1b[31m\r") == "a mblob-pack: error: b\\x1b[31m"


def test_what_a_terminal_would_obey_is_written_as_an_escape() -> None:
    said = "k.c:1: error\r\n\tat \x1b[2J\x07\x9b1m\u202e naïve 漢字 \ud800\rover"
    assert report.for_terminal(said) == (
        "k.c:1: error\n\tat \\x1b[2J\\x07\\x9b1m\\u202e naïve 漢字 \\ud800\\rover"
    )


def test_much_output_of_a_tool_keeps_its_beginning_and_its_end() -> None:
    few = "\n".join(f"line {i}" for i in range(report.FIRST_LINES + report.LAST_LINES + 1))
    assert report.shorten(few) == few
    many = "\n".join(f"line {i}" for i in range(5000))
    lines = report.shorten(many).splitlines()
    assert (lines[0], lines[-1]) == ("line 0", "line 4999")
    assert (
        lines[report.FIRST_LINES]
        == f"... {5000 - report.FIRST_LINES - report.LAST_LINES} lines left out ..."
    )
    assert len(lines) == report.FIRST_LINES + report.LAST_LINES + 1
    wide = report.shorten("a" * 1500 + "b" * 10**6 + "c" * 1500)
    assert wide.startswith("a" * 1000 + " ... 1001000 characters left out ... ")
    assert wide.endswith("c" * 1000)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (69480, "67.9 KiB"),
        (5 << 30, "5.0 GiB"),
        (1 << 50, "1024.0 TiB"),
    ],
)
def test_sizes_are_printed_in_binary_units(size: int, text: str) -> None:
    assert report.human_size(size) == text
