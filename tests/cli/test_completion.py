"""Completion of the command line in real shells: what they offer is what the parsers have."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from mblob.cli.described import program

FILES = ("a.npy", "b.npz", "k.c", "m.toml", "w.safetensors", "notes.txt", "it's here.so")


@pytest.fixture
def command() -> Path:
    """The installed program, as shells start it."""
    found = Path(sys.executable).with_name("mblob-pack")
    assert found.exists()
    return found


@pytest.fixture
def place(tmp_path: Path, deploy: Path) -> Path:
    """A folder with one file of each kind, a folder, and deploy.so."""
    folder = tmp_path / "place"
    (folder / "sub").mkdir(parents=True)
    for name in FILES:
        (folder / name).touch()
    shutil.copy(deploy, folder)
    return folder


@pytest.fixture
def script(pack, tmp_path: Path) -> Callable[[str], Path]:
    """`script(shell)`: its completion script, as a file."""

    def write(shell: str) -> Path:
        done = pack("completion", shell)
        assert (done.returncode, done.stderr) == (0, "")
        path = tmp_path / f"completion.{shell}"
        path.write_text(done.stdout)
        return path

    return write


@pytest.fixture
def bash(require, script, place: Path, command: Path) -> Callable[..., list[str]]:
    """`bash(word, ...)`: what bash offers for the last of these words behind mblob-pack."""
    shell, path = require("bash"), script("bash")

    def offered(*words: str, folder: Path = place) -> list[str]:
        text = f'set -u; source "{path}"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _mblob_pack mblob-pack; '
        text += 'for w in ${COMPREPLY[@]+"${COMPREPLY[@]}"}; do printf "%s\\n" "$w"; done'
        done = subprocess.run(
            [shell, "-c", text, "bash", str(command), *words], cwd=folder, capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    return offered


def test_bash_knows_every_verb_and_every_option(bash) -> None:
    whole, verbs = program()
    assert set(bash("")) == {v.name for v in verbs} | {n for a in whole.options for n in a.names}
    for verb in verbs:
        assert set(bash(verb.name, "-")) == {n for a in verb.options for n in a.names}
    assert bash("ins") == ["inspect"]


def test_bash_offers_the_values_of_each_option_with_choices(bash) -> None:
    _, verbs = program()
    seen = 0
    for verb in verbs:
        for option in verb.options:
            if option.choices:
                seen += 1
                for name in option.names:
                    assert tuple(bash(verb.name, name, "")) == option.choices
    assert seen >= 4
    assert bash("build", "--digest", "s") == ["sha256"]
    assert set(bash("completion", "")) >= {"bash", "zsh", "fish"}


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["inspect", ""], ["deploy.so", "it's here.so", "sub"]),
        (["inspect", "--tree", ""], ["deploy.so", "it's here.so", "sub"]),
        (["inspect", "deploy.so", "--html", ""], ["sub"]),
        (["build", ""], ["m.toml", "sub"]),
        (["build", "--kernel", ""], ["k.c", "sub"]),
        (["build", "--weights", ""], ["sub", "w.safetensors"]),
        (["build", "--blob", "key", "=", "no"], ["notes.txt"]),
        (["build", "--kernel", "k.c", "--", "k"], ["k.c"]),
        (["build", "--prefix", ""], []),
        (["run", "-o", ""], ["b.npz", "sub"]),
        (["run", ""], ["deploy.so", "it's here.so", "sub"]),
        (["run", "deploy.so", ""], ["vadd"]),
        (["run", "-o", "out.npz", "deploy.so", "v"], ["vadd"]),
        (["run", "deploy.so", "vadd", ""], ["a.npy", "b.npz", "sub"]),
        (["extract", "deploy.so", "--entry", ""], ["1", "about"]),
        (["extract", "no.so", "--entry", ""], []),
        (["extract", "notes.txt", "--entry", ""], []),
        (["doctor", ""], []),
        (["nothing", ""], []),
    ],
)
def test_bash_offers_files_by_kind_and_names_of_the_library(bash, words: list[str], offered: list[str]) -> None:
    assert sorted(bash(*words)) == offered


def test_no_shell_is_given_a_name_that_it_would_expand(bash, pack, tmp_path: Path) -> None:
    root = mblob.csource_module("int f(int x) { return x; }", functions=["int f(int x)"])
    for key in ("$(touch pwned)", "`touch pwned`", "a;touch pwned", "-rf", "a b", "fine.key", "\x1b[2J"):
        root.import_module(mblob.blob_module(key, b"1"))
    folder = tmp_path / "hostile"
    folder.mkdir()
    root.export_library(folder / "evil.so")
    for shell_words in (["extract", "evil.so", "--entry", ""], ["extract", "evil.so", "--entry", "$"]):
        bash(*shell_words, folder=folder)
    assert [p.name for p in folder.iterdir()] == ["evil.so"]
    listed = pack("completion", "entries", folder / "evil.so").stdout.split()
    assert listed == [*map(str, range(1, 8)), "fine.key"]


def test_names_in_a_library_are_listed(pack, deploy: Path, tmp_path: Path) -> None:
    assert pack("completion", "functions", deploy).stdout == "vadd\n"
    assert pack("completion", "entries", deploy).stdout == "1\nabout\n"
    weights = b'{"w.0":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}'
    (tmp_path / "w.safetensors").write_bytes(len(weights).to_bytes(8, "little") + weights + b"abc")
    mblob.safetensors_module(tmp_path / "w.safetensors").export_library(tmp_path / "w.so")
    assert pack("completion", "tensors", tmp_path / "w.so").stdout == "w.0\n"


@pytest.mark.parametrize("words", ["bash x.so", "entries", "functions", "csh"])
def test_a_file_too_many_or_too_few_is_a_usage_error(pack, error_line, words: str) -> None:
    done = pack("completion", *words.split())
    assert done.returncode == 2
    assert error_line(done)


def test_a_file_that_is_no_library_is_an_error_on_stderr_alone(pack, place: Path) -> None:
    done = pack("completion", "entries", place / "notes.txt")
    assert (done.returncode, done.stdout) == (3, "")


def test_fish_offers_the_same(require, script, place: Path, command: Path) -> None:
    shell, path = require("fish"), script("fish")

    def offered(line: str) -> list[str]:
        text = f"set -gx PATH {command.parent} $PATH; source {path}; complete -C '{line}'"
        done = subprocess.run(
            [shell, "--no-config", "-c", text], cwd=place, capture_output=True, text=True,
            env={"HOME": str(place), "PATH": "/usr/bin:/bin"},
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        return [row.partition("\t")[0] for row in done.stdout.splitlines()]

    _, verbs = program()
    assert set(offered("mblob-pack ")) == {v.name for v in verbs}
    for verb in verbs:
        # fish may offer the short and the long name of an option, or the long one alone
        found = set(offered(f"mblob-pack {verb.name} -"))
        assert found <= {n for a in verb.options for n in a.names}
        assert {n for a in verb.options for n in a.names if n.startswith("--")} <= found
    assert sorted(offered("mblob-pack build --dialect ")) == ["classic", "ffi"]
    assert sorted(offered("mblob-pack extract deploy.so --entry ")) == ["1", "about"]
    assert offered("mblob-pack run deploy.so ") == ["vadd"]
    assert offered("mblob-pack run deploy.so vadd ")[0] == "a.npy"
    assert offered("mblob-pack inspect ")[0] == "deploy.so"


ZSH = """
zmodload zsh/zpty
zpty -b z zsh -f -i
zpty -w z 'PROMPT=; PATH={bin}:$PATH; autoload -U compinit; compinit -u -D; LISTMAX=10000; source {script}'
zpty -w z 'say () {{ print -r -- $BUFFER >> {out}; BUFFER=; }}; zle -N say; bindkey "^X^X" say; print ready > {out}'
until [[ -s {out} ]]; do sleep 0.05; done
integer lines=1
for line in "$@"; do
  zpty -w -n z "$line"$'\\t'$'\\x18\\x18'
  (( lines++ ))
  while (( $(wc -l < {out}) < lines )); do sleep 0.05; done
done
zpty -d z
"""


def test_zsh_completes_the_same(require, script, place: Path, command: Path, tmp_path: Path) -> None:
    shell, path, out = require("zsh"), script("zsh"), tmp_path / "said"
    expected = {
        "mblob-pack insp": "mblob-pack inspect ",
        "mblob-pack inspect --functio": "mblob-pack inspect --functions ",
        "mblob-pack inspect dep": "mblob-pack inspect deploy.so ",
        "mblob-pack inspect --tree dep": "mblob-pack inspect --tree deploy.so ",
        "mblob-pack build --dialect cl": "mblob-pack build --dialect classic ",
        "mblob-pack build --kernel k": "mblob-pack build --kernel k.c ",
        "mblob-pack build -o x.so -- no": "mblob-pack build -o x.so -- notes.txt ",
        "mblob-pack extract deploy.so --entry a": "mblob-pack extract deploy.so --entry about ",
        "mblob-pack run deploy.so v": "mblob-pack run deploy.so vadd ",
        "mblob-pack run deploy.so vadd a": "mblob-pack run deploy.so vadd a.npy ",
        "mblob-pack completion fi": "mblob-pack completion fish ",
    }
    text = ZSH.format(bin=command.parent, script=path, out=out)
    done = subprocess.run(
        [shell, "-f", "-c", text, "zsh", *expected], cwd=place, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert dict(zip(expected, out.read_text().splitlines()[1:])) == expected
