"""Makes once what tests compile or link again in a run: the same words and the same files give the
same bytes, and most tests pack a library that some test has packed before.

This needs no ccache, and keeps links, too. It keeps what successful, silent runs of a compiler have
made, in a folder that ends with the run, for all its workers. A result that may depend on more than
words, named files and the environment is made each time: by a script or ccache in place of a compiler, of
sources that include files by a relative name, with libraries in folders of others. So is everything
in a test with `same_bytes` in its name.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import threading
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = "MBLOB_TESTS_COMPILED"  # the variable of the folder, which tests/tidy.py makes
# Words by which a result depends on files that are not named, or that have more than one result.
OTHER_FILES = re.compile(
    r"@|-([BLM]|isystem|iquote|idirafter|include|imacros|save-temps|specs|f?plugin|-?coverage|fprofile|ftest|gsplit)"
    r"|-Wl,.*-(Map|L|rpath|version-script|dependency-file|plugin)"
)
OTHER_TEXT = re.compile(
    rb"#\s*(include|include_next|embed)\s*[^<\s]|\.incbin|__DATE__|__TIME__|__FILE__"
)
UNIMPORTANT = ("PYTEST_", "TMPDIR", "CCACHE_", "PWD", "OLDPWD", FOLDER)
Answer = tuple[int, str]  # exit status, and everything printed


@cache
def _is_program(path: str, changed: int) -> bool:
    with Path(path).open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _key(command: Sequence[str], folder: Path) -> str | None:
    """A digest of all that a command depends on; None if that is not known."""
    if any("\0" in word or not word.isprintable() for word in command):
        return None  # no file has such a name
    compiler = shutil.which(command[0])
    if compiler is None or Path(compiler).name == "ccache" or command.count("-o") != 1:
        return None
    changed = Path(compiler).stat().st_mtime_ns
    if not _is_program(compiler, changed) or any(map(OTHER_FILES.match, command)):
        return None
    # debug information has the folder, unless a word takes it out
    if any(w.startswith("-g") for w in command) and not any("-prefix-map=" in w for w in command):
        return None
    found = hashlib.sha256(f"{compiler}\0{changed}\0".encode())
    for name, value in sorted(os.environ.items()):
        if not name.startswith(UNIMPORTANT):
            found.update(f"{name}={value}\0".encode(errors="replace"))
    output = command.index("-o") + 1
    for word in (*command[1:output], *command[output + 1 :]):
        if word.startswith("-I") and not Path(word[2:]).is_relative_to(ROOT / "csrc"):
            return None
        found.update(word.replace(str(folder), ".").encode(errors="replace") + b"\0")
        for path in (folder / piece for piece in word.split(",") if piece):
            try:
                content = path.read_bytes()
            except OSError:  # the word names no file
                continue
            if content[:4] != b"\x7fELF" and OTHER_TEXT.search(content):
                return None
            found.update(hashlib.sha256(content).digest())
    return found.hexdigest()


def made_once(command: Sequence[str], folder: Path, really: Callable[[], Answer]) -> Answer:
    """What `really()` answers, which runs a command in a folder; the command's output is there then."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "same_bytes")
    kept_in = os.environ.get(FOLDER)
    key = _key(command, folder) if kept_in and "same_bytes" not in test else None
    if key is None or kept_in is None:
        return really()
    output, kept = folder / command[command.index("-o") + 1], Path(kept_in) / key
    if kept.exists():
        shutil.copy(kept, output)
        return 0, ""
    status, text = really()
    if status == 0 and not text and output.is_file():
        made = kept.with_name(f"{key}.{os.getpid()}.{threading.get_ident()}")
        shutil.copy(output, made)
        made.replace(kept)
    return status, text


def use_in_packager() -> None:
    """Let the packager of this process make nothing twice."""
    from mblob.packager.compile.processes import Processes

    really = Processes.run

    def run(self: Any, command: Sequence[str], cwd: Path | None = None, *started: Any) -> Answer:
        if cwd is None or self._stopped:
            return really(self, command, cwd, *started)
        return made_once(command, cwd, lambda: really(self, command, cwd, *started))

    Processes.run = run  # type: ignore[method-assign]
