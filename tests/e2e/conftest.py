"""The C runtime as tests use it: its test programs, and an installation."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.built_once import built_once
from tests.e2e.programs import make_amalgamation, make_c_tests


@pytest.fixture(scope="session")
def built(installed: Path) -> Path:
    """The folder with the programs that tests of libraries run (plain/), and the libraries of the C
    tests (lib/)."""
    archive = installed / "lib" / "libmblob.a"
    return built_once(
        "c-tools", lambda folder: make_c_tests("tools", f"BUILD={folder}", f"ARCHIVE={archive}")
    )


@pytest.fixture(scope="session")
def programs(installed: Path, built: Path) -> Path:
    """The folder with all test programs in C, without sanitizers (plain/), and their libraries
    (lib/)."""
    archive = installed / "lib" / "libmblob.a"

    def make(folder: Path) -> None:
        shutil.copytree(built, folder, symlinks=True, dirs_exist_ok=True)
        (folder / "complete").unlink()
        make_c_tests("programs", f"BUILD={folder}", f"ARCHIVE={archive}", "CXX=")

    return built_once("c-programs", make)


@pytest.fixture(scope="session")
def amalgamation() -> Path:
    """The folder with mblob.c, mblob.h and mblob.o: all of libmblob."""
    return built_once("amalgamation", make_amalgamation)


@pytest.fixture(params=["plain", pytest.param("address", marks=pytest.mark.slow)])
def variant(request: pytest.FixtureRequest) -> Path:
    """The folder of the C test programs: without sanitizers, and with them (slow, as all of libmblob
    is compiled for it). Their libraries lie in `variant.parent / "lib"`."""
    built: Path = request.getfixturevalue("programs" if request.param == "plain" else "sanitized")
    return built / str(request.param)
