"""The C runtime as tests use it: its test programs, and an installation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.programs import ROOT, make_c_tests, run


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the C test programs (plain/) and their libraries (lib/)."""
    build = tmp_path_factory.mktemp("c_tests")
    make_c_tests("programs", f"BUILD={build}")
    return build


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prefix with the runtime installed."""
    base = tmp_path_factory.mktemp("c_install")
    run("make", "-s", "-j2", "-C", ROOT / "csrc", "install", f"BUILD={base}/build", f"PREFIX={base}/prefix")
    return base / "prefix"
