"""Completion of the command line: what the program answers, and that bash, zsh and fish ask it."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from mblob.cli.command_line import make_parser
from mblob.cli.completion import SHELLS

FILES = (
    "a.npy",
    "b.npz",
    "k.c",
    "m.toml",
    "w.safetensors",
    "notes.txt",
    "net.onnx",
    "it's here.so",
    "sub/y.npy",
)
WORDBREAKS = " \t\n\"'><=;|&(:"  # bash's own
VERBS: dict[str, argparse.ArgumentParser] = next(
    dict(a.choices) for a in make_parser()._actions if isinstance(a, argparse._SubParsersAction)
)

Offered = Callable[[str], "list[str]"]


@pytest.fixture
def command() -> Path:
    """The installed program, as shells start it."""
    found = Path(sys.executable).with_name("mblob-pack")
    assert found.exists()
    return found


@pytest.fixture
def place(tmp_path: Path, deploy: Path) -> Path:
    """A folder with a file of each kind, a folder, libraries, one of them with tensors."""
    folder = tmp_path / "place"
    (folder / "sub").mkdir(parents=True)
    for name in FILES:
        (folder / name).touch()
    tensors = b'{"layer.0":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"n:1":{"dtype":"U8","shape":[1],'
    tensors += b'"data_offsets":[3,4]}}'
    (tmp_path / "w.safetensors").write_bytes(len(tensors).to_bytes(8, "little") + tensors + b"abcd")
    mblob.safetensors_module(tmp_path / "w.safetensors").export_library(folder / "w.so")
    shutil.copy(deploy, folder / "a b.so")
    shutil.copy(deploy, folder)
    return folder


def ask(command: Path, folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    """Ask the program what Tab offers behind a line, as the script for bash does."""
    environment = {
        **os.environ,
        "HOME": str(folder),
        "COMP_LINE": f"mblob-pack {line}",
        "COMP_WORDBREAKS": WORDBREAKS,
        "_MBLOB_COMPLETE": "bash",
    }
    return subprocess.run([command], cwd=folder, env=environment, capture_output=True, text=True)


@pytest.fixture
def offered(command: Path, place: Path) -> Offered:
    def answer(line: str) -> list[str]:
        done = ask(command, place, line)
        assert (done.returncode, done.stderr) == (0, "")
        return sorted(done.stdout.splitlines())

    return answer


def test_every_verb_is_offered(offered: Offered) -> None:
    assert set(offered("")) == set(VERBS)
    assert offered("ins") == ["inspect"]


@pytest.mark.parametrize("verb", ["build", pytest.param("run", marks=pytest.mark.slow)])
def test_every_option_of_a_verb_is_offered(offered: Offered, verb: str) -> None:
    options = {name for action in VERBS[verb]._actions for name in action.option_strings}
    assert set(offered(f"{verb} -")) == options


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("build --digest s", ["sha256"]),
        ("build --embed=g", ["grow"]),
        ("completion ", sorted(SHELLS)),
        ("import ", ["net.onnx", "sub/"]),
        ("import net.onnx --engine ", ["dnnl"]),
        ("inspect ", ["a\\ b.so", "deploy.so", "it\\'s\\ here.so", "sub/", "w.so"]),
        ("inspect --tree d", ["deploy.so"]),
        ("inspect 'a b", ["a b.so"]),
        ("inspect deploy.so --html ", ["sub/"]),
        ("build ", ["a.npy", "b.npz", "k.c", "m.toml", "sub/", "w.safetensors"]),
        ("add deploy.so labels=no", ["notes.txt"]),
        ("build --kernel ", ["k.c", "sub/"]),
        ("build --kernel=k", ["k.c"]),
        ("build --weights ", ["a.npy", "b.npz", "sub/", "w.safetensors"]),
        ("build --blob key=no", ["notes.txt"]),
        ("build --prefix ", []),
        ("run -o ", ["b.npz", "sub/"]),
        ("run deploy.so ", ["vadd"]),
        ("run -o out.npz a\\ b.so v", ["vadd"]),
        ("run deploy.so vadd ", ["a.npy", "b.npz", "sub/"]),
        ("extract deploy.so --entry ", ["1", "about"]),
        ("extract w.so --tensor lay", ["layer.0"]),
        ("extract ~/w.so --tensor lay", ["layer.0"]),
        ("extract no.so --entry ", []),
        ("extract notes.txt --entry ", []),
        ("extract --entry ", []),
        ("swap w.so --weights ", ["a.npy", "layer.0=", "n:1=", "sub/", "w.safetensors"]),
        ("swap w.so --weights layer.0=sub/", ["sub/y.npy"]),
        ("swap deploy.so --blob ", ["1=", "about="]),
        ("swap deploy.so --entry about=no", ["notes.txt"]),
        (
            "verify deploy.so --against ",
            ["a\\ b.so", "deploy.so", "it\\'s\\ here.so", "sub/", "w.so"],
        ),
        ("doctor ", []),
        ("build -- -", []),
        ('inspect "a b', ["a b.so"]),
        ("inspect ./it\\'s", ["./it\\'s\\ here.so"]),
        ("inspect '", ["a b.so", "deploy.so", "it'\\''s here.so", "sub/", "w.so"]),
        ("inspect ~/d", ["~/deploy.so"]),
        ("inspect nowhere/", []),
    ],
)
def test_files_are_offered_by_kind_and_names_of_the_library(
    offered: Offered, line: str, words: list[str]
) -> None:
    assert offered(line) == words


def test_no_shell_is_given_a_name_that_it_would_expand(offered: Offered, place: Path) -> None:
    root = mblob.csource_module("int f(int x) { return x; }", functions=["int f(int x)"])
    for key in (
        "$(touch pwned)",
        "`touch pwned`",
        "a;touch pwned",
        "-rf",
        "a b",
        "*",
        "fine.key",
        "\x1b[2J",
    ):
        root.import_module(mblob.blob_module(key, b"1"))
    root.export_library(place / "evil.so")
    assert offered("extract evil.so --entry ") == [*map(str, range(1, 9)), "fine.key"]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_that_has_the_script_completes_from_the_program(
    require: Callable[[str], str], pack, command: Path, place: Path, tmp_path: Path, shell: str
) -> None:
    script = tmp_path / f"completion.{shell}"
    script.write_text(pack("completion", shell).stdout)
    # Each prints what is offered for `mblob-pack extract deploy.so --entry a`; zsh has no way but a
    # terminal.
    text = {
        "bash": f"source {script}; COMP_LINE='mblob-pack extract deploy.so --entry a'; COMP_POINT=${{#COMP_LINE}};"
        " _mblob_pack mblob-pack; echo ${COMPREPLY[@]}",
        "fish": f"source {script}; complete -C 'mblob-pack extract deploy.so --entry a'",
        "zsh": "zmodload zsh/zpty; zpty -b z zsh -f -i; zpty -w z 'PROMPT=; autoload -U compinit; compinit -u -D;"
        f' source {script}; say () {{ print -r -- $BUFFER > {tmp_path}/said }}; zle -N say; bindkey "^X^X" say;'
        f" print > {tmp_path}/ready'; until [[ -s {tmp_path}/ready ]]; do sleep 0.02; done;"
        " zpty -w -n z 'mblob-pack extract deploy.so --entry a'$'\\t'$'\\x18\\x18';"
        f" until [[ -s {tmp_path}/said ]]; do sleep 0.02; done; zpty -d z; cat {tmp_path}/said",
    }[shell]
    plain = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    done = subprocess.run(
        [require(shell), *plain, "-c", text],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=60,
        env={"HOME": str(place), "PATH": f"{command.parent}:/usr/bin:/bin", "TERM": "dumb"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    line = "mblob-pack extract deploy.so --entry " if shell == "zsh" else ""
    assert done.stdout.strip() == f"{line}about"


def test_an_unknown_shell_is_a_usage_error(pack, error_line) -> None:
    done = pack("completion", "csh")
    assert done.returncode == 2
    assert error_line(done)
