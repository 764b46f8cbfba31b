"""What a person gets who types a line and presses Tab: bash and zsh on a terminal, fish by its own way to ask."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import mblob

DEADLINE = 60  # seconds after which a shell that says nothing is given up
SAY, EVERY = "\x18\x18", "\x18*"  # write the line down; insert all that is offered

# One line for each: `{script}` is loaded, SAY appends the line to `{out}` and EVERY inserts all that Tab would list.
BASH = (
    "PS1=; source '{script}'; say() {{ printf '%s\\n' \"$READLINE_LINE\" >> '{out}'; READLINE_LINE=; }};"
    " bind -x '\"\\C-x\\C-x\": say'; bind '\"\\C-x*\": insert-completions'; echo ready >> '{out}'\n"
)
ZSH = (
    "PROMPT=; autoload -U compinit; compinit -u -D; LISTMAX=10000; source '{script}';"
    " say () {{ print -r -- $BUFFER >> '{out}'; BUFFER=; }}; zle -N say; bindkey '^X^X' say;"
    " every () {{ _main_complete; compstate[insert]=all; compstate[list]=; }}; zle -C every complete-word every;"
    " bindkey '^X*' every; print ready >> '{out}'\n"
)
SHELLS = {"bash": (["--norc", "--noprofile", "-i"], BASH), "zsh": (["-f", "-i"], ZSH)}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a library under two names, one with a blank, and other files."""
    folder = tmp_path / "place"
    (folder / "sub").mkdir(parents=True)
    for name in ("x.npy", "k.c", "notes.txt", "sub/y.npy", "it's here.so"):
        (folder / name).touch()
    tensors = b'{"layer.0":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"n:1":{"dtype":"U8","shape":[1],'
    tensors += b'"data_offsets":[3,4]}}'
    (tmp_path / "w.safetensors").write_bytes(len(tensors).to_bytes(8, "little") + tensors + b"abcd")
    source = "void vadd(const float *a, float *b) { b[0] = a[0]; }"
    root = mblob.csource_module(source, functions=["void vadd(const float *a, float *b)"])
    root.import_module(mblob.blob_module("my_key", b"1234"))
    root.import_module(mblob.safetensors_module(tmp_path / "w.safetensors"))
    root.export_library(folder / "d.so")
    shutil.copy(folder / "d.so", folder / "a b.so")
    return folder


def environment(home: Path) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    return {"HOME": str(home), "PATH": path, "TERM": "dumb", "INPUTRC": "/dev/null"}


@pytest.fixture
def typed(
    require: Callable[[str], str], terminals: None, pack, place: Path, tmp_path: Path
) -> Callable[..., list[str]]:
    """`typed(shell, lines, keys)`: what is on the command line when these keys were pressed behind each line."""

    def run(name: str, lines: Sequence[str], keys: str = "\t") -> list[str]:
        shell, out, script = require(name), tmp_path / "said", tmp_path / f"completion.{name}"
        out.write_text("")
        script.write_text(pack("completion", name).stdout)
        arguments, setup = SHELLS[name]
        process, terminal = pty.fork()
        if process == 0:
            os.chdir(place)
            os.execve(shell, [name, *arguments], environment(place))
        heard = b""
        try:
            for count, text in enumerate([setup.format(script=script, out=out), *(f"{x}{keys}{SAY}" for x in lines)]):
                os.write(terminal, text.encode())
                end = time.monotonic() + DEADLINE
                while len(out.read_text().splitlines()) <= count:
                    assert time.monotonic() < end, heard[-1000:]
                    if select.select([terminal], [], [], 0.02)[0]:
                        heard += os.read(terminal, 1 << 16)
        finally:
            os.close(terminal)
            os.waitpid(process, 0)
        return out.read_text().splitlines()[1:]

    return run


COMPLETED = {
    "inspect a\\ b.so --entry my": "inspect a\\ b.so --entry my_key ",
    "extract a\\ b.so --tensor lay": "extract a\\ b.so --tensor layer.0 ",
    "extract 'a b.so' --tensor lay": "extract 'a b.so' --tensor layer.0 ",
    'extract "a b.so" --tensor lay': 'extract "a b.so" --tensor layer.0 ',
    "extract ~/d.so --tensor lay": "extract ~/d.so --tensor layer.0 ",
    "extract d.so --tensor n:": "extract d.so --tensor n:1 ",
    "extract d.so --tensor=n:": "extract d.so --tensor=n:1 ",
    "run -o out.npz a\\ b.so v": "run -o out.npz a\\ b.so vadd ",
    "inspect a\\ ": "inspect a\\ b.so ",
    "inspect 'a b": "inspect 'a b.so' ",
    "inspect it\\'": "inspect it\\'s\\ here.so ",
    "verify --level=h": "verify --level=header ",
    "build --embed=g": "build --embed=grow ",
    "build --kernel=k": "build --kernel=k.c ",
    "build --blob key=x": "build --blob key=x.npy ",
    "build -o x.so -- no": "build -o x.so -- notes.txt ",
    "verify d.so --against d": "verify d.so --against d.so ",
    "verify d.so --against=d": "verify d.so --against=d.so ",
    "swap d.so --weights lay": "swap d.so --weights layer.0=",
    "swap d.so --weights=lay": "swap d.so --weights=layer.0=",
    "swap d.so --weights x": "swap d.so --weights x.npy ",
    "swap d.so --weights w=x": "swap d.so --weights w=x.npy ",
    "swap d.so --weights=w=x": "swap d.so --weights=w=x.npy ",
    "swap d.so --weights w=sub/y": "swap d.so --weights w=sub/y.npy ",
    "swap d.so --entry my": "swap d.so --entry my_key=",
    "swap d.so --entry my_key=x": "swap d.so --entry my_key=x.npy ",
    "swap d.so --entry=my_key=x": "swap d.so --entry=my_key=x.npy ",
    "swap d.so --entry 1=a": "swap d.so --entry 1=a\\ b.so ",
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("shell", SHELLS)
def test_tab_completes_a_typed_line(typed, shell: str) -> None:
    found = typed(shell, [f"mblob-pack {line}" for line in COMPLETED])
    assert found == [f"mblob-pack {line}" for line in COMPLETED.values()]


LISTED = {
    "verify --level=": {"full", "header"},
    "verify d.so --against ": {"a b.so", "d.so", "it's here.so", "sub"},
    "swap d.so --entry ": {"1=", "2=", "my_key=", "safetensors="},
    "swap d.so --weights ": {"layer.0=", "n:1=", "sub", "x.npy"},
}


@pytest.mark.parametrize("shell", SHELLS)
def test_values_are_listed_and_nothing_else_is(typed, shell: str) -> None:
    found = typed(shell, [f"mblob-pack {line}" for line in LISTED], EVERY)
    for (line, expected), whole in zip(LISTED.items(), found):
        text = whole.removeprefix(f"mblob-pack {line}").replace("\\ ", "\0").replace("\\'", "'")
        words = {w.removeprefix(line.split()[-1]).rstrip("/").replace("\0", " ") for w in text.split()}
        if shell == "zsh":  # it adds a = when one of several names is chosen
            assert {w.rstrip("=") for w in words} == {w.rstrip("=") for w in expected}, line
        else:
            assert words == expected, line


def test_fish_offers_names_and_files_of_pairs(require, pack, place: Path, tmp_path: Path) -> None:
    shell, script = require("fish"), tmp_path / "completion.fish"
    script.write_text(pack("completion", "fish").stdout)

    def offered(line: str) -> list[str]:
        done = subprocess.run(
            [shell, "--no-config", "-c", f"source {script}; complete -C $argv[1]", f"mblob-pack {line}"],
            cwd=place, capture_output=True, text=True, env=environment(place),
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        return [row.partition("\t")[0] for row in done.stdout.splitlines()]

    assert offered("extract a\\ b.so --tensor ") == ["layer.0", "n:1"]
    assert offered("extract ~/d.so --tensor ") == ["layer.0", "n:1"]
    assert offered("verify d.so --against ")[:2] == ["a b.so", "d.so"]
    assert sorted(offered("verify --level=")) == ["--level=full", "--level=header"]
    assert offered("swap d.so --entry ") == ["1=", "2=", "my_key=", "safetensors="]
    assert offered("swap d.so --entry my_key=x") == ["my_key=x.npy"]
    assert offered("swap d.so --weights ")[:3] == ["layer.0=", "n:1=", "x.npy"]
    assert offered("swap d.so --weights=lay") == ["--weights=layer.0="]
    assert offered("swap d.so --weights w=sub/") == ["w=sub/y.npy"]
    assert offered("swap d.so --weights sub/") == ["sub/y.npy"]
