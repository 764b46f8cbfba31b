"""Check that the machine has what building mblob needs: `make env` and setup.py look before they build.

python3 prerequisites.py      one line that names what is missing and how to install it; exit code 1
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

# For each family of distributions: how to install, and the package of each of `NEEDS`. {} is what
# `python` says.
PACKAGES = {
    "debian": ("apt-get install", "{}-venv", "{}-dev", "gcc", "libc6-dev"),
    "fedora": ("dnf install", "{}", "{}-devel", "gcc", "glibc-devel"),
    "alpine": ("apk add", "{}", "{}-dev", "gcc", "musl-dev"),
}
NEEDS = ("ensurepip", "Python.h", "compiler", "libc")
SYSTEM_PYTHON = "/usr/bin/python3"


def compiler() -> list[str]:
    """The command that setuptools compiles with."""
    return shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")


def builds(source: str) -> bool:
    """True if the compiler makes a shared library of C text."""
    words = " ".join(os.environ.get(name, "") for name in ("CFLAGS", "CPPFLAGS"))
    flags = [*shlex.split(words), f"-I{sysconfig.get_path('include')}"]
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "needed.c")
        text.write_text(source, encoding="ascii")
        command = [
            *compiler(),
            *flags,
            "-shared",
            "-fPIC",
            str(text),
            "-o",
            str(text.with_suffix(".so")),
        ]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


def missing(environment: bool = False) -> dict[str, str]:
    """The names for people of those `NEEDS` that are not there.

    Args:
        environment: a virtual environment is to be made, too.
    """
    found = {}
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if environment and not (
        importlib.util.find_spec("ensurepip") and importlib.util.find_spec("venv")
    ):
        found["ensurepip"] = "Python's module venv (with ensurepip)"
    headers = header.exists()
    if shutil.which(compiler()[0]) is None:
        found["compiler"] = f"the C compiler {compiler()[0]}"
    elif not builds("#include <pthread.h>\n#include <stdlib.h>\n"):
        found["libc"] = f"the C library's headers, or all that {compiler()[0]} needs to link"
    else:
        headers = builds("#include <Python.h>\n")  # $CFLAGS or $CPATH may name another folder
    if not headers:
        found["Python.h"] = f"Python's headers ({header})"
    return found


def python_package() -> str:
    """The name that distributions give to the Python that runs this: "python3" for their own, else such as
    "python3.12"."""
    base = getattr(sys, "_base_executable", None) or sys.executable
    own = Path(SYSTEM_PYTHON)
    same = own.exists() and own.resolve() == Path(base).resolve()
    return "python3" if same else f"python{sys.version_info[0]}.{sys.version_info[1]}"


def install_command(needs: list[str], os_release: str, python: str) -> str:
    """The command that installs, by the text of /etc/os-release; "" where the distribution is not known."""
    families = re.findall(r"^ID(?:_LIKE)?=(.*)$", os_release, re.MULTILINE)
    words = re.split(r"[\s\"']+", " ".join(families).replace("rhel", "fedora"))
    for family, (install, *names) in PACKAGES.items():
        if family in words:
            wanted = [name.format(python) for need, name in zip(NEEDS, names) if need in needs]
            if "compiler" in needs:  # which brings no headers
                wanted.append(names[-1])
            return f"{install} {' '.join(dict.fromkeys(wanted))}"
    return ""


def sentence(found: dict[str, str]) -> str:
    """The sentence that people read."""
    try:
        os_release = Path("/etc/os-release").read_text(encoding="utf-8")
    except OSError:
        os_release = ""
    command = install_command(list(found), os_release, python_package())
    advice = f"to install: {command}" if command else "README.md names the packages"
    return f"not found: {', '.join(found.values())}; {advice}"


if __name__ == "__main__":
    lost = missing(environment=True)
    if lost:
        sys.exit(f"make env: {sentence(lost)}")
