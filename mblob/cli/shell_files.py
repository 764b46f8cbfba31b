"""The files that an installation gives to man and to shells: `python -m mblob.cli.shell_files SHARE` writes them."""

from __future__ import annotations

import sys
from pathlib import Path

from mblob.cli import completion_bash, completion_scripts, manual

# Below PREFIX/share, where man and the shells look.
FILES = {
    "man/man1/mblob-pack.1": manual.page,
    "bash-completion/completions/mblob-pack": completion_bash.bash,
    "zsh/site-functions/_mblob-pack": completion_scripts.zsh,
    "fish/vendor_completions.d/mblob-pack.fish": completion_scripts.fish,
}


def write(share: Path) -> list[Path]:
    """Write every file below the folder `share`, which is made if needed; their paths below it.

    Raises:
        OSError: one cannot be written.
    """
    for name, text in FILES.items():
        path = share / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text(), "utf-8")
    return [Path(name) for name in FILES]


if __name__ == "__main__":
    write(Path(sys.argv[1]))
