"""Fixtures for all tests, and the rule that CI skips nothing.

`require("valgrind")` gives the tool's path. Where it is missing the test is skipped, by name; so is
a test that runs one of `OPTIONAL`, a linker by `-fuse-ld=` or a C++ compiler without asking. With
CI set a skip is a failure, except one whose reason starts with "no GPU", "no golden" (TVM's own
libraries, which are not part of this repository) or "no Python 3." (versions beside this one).
"""

from __future__ import annotations

import gc
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.built_once import built_once
from tests.compiled_once import made_once, use_in_packager
from tests.e2e.programs import make_c_tests

pytest_plugins = ("tests.own_process", "tests.tidy", "tests.tiers")

ROOT = Path(__file__).resolve().parents[1]
MAY_SKIP = ("no GPU", "no golden", "no ray", "no Python 3.")
# Programs that only tests run: mblob needs a shell, make and a C compiler with its assembler,
# linker and ar.
OPTIONAL = ("bash", "c++", "g++", "nm", "objcopy", "objdump", "patchelf", "readelf", "strip", "tar")

# `make test` hands its own words on: a make that a test runs is one of its own.
for _variable in ("MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS"):
    os.environ.pop(_variable, None)

# A process that imports numpy would start threads that wait by running: they cost more than the
# import.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Programs that tests interrupt inherit what SIGINT does; a shell's background job ignores it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """A long text is not part of a test's name: each program that a test starts gets the name as an
    argument of the system, which has at most 128 KiB."""
    return argname if isinstance(val, (str, bytes)) and len(val) > 1000 else None


def pytest_configure() -> None:
    use_in_packager()


def pytest_collection_finish() -> None:
    """The tests themselves are no garbage: `gc.collect()` in a test need not look at them."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    outcome: Any = yield
    report = outcome.get_result()
    error = call.excinfo.value if call.excinfo else None
    if error is not None and (tool := _missing_tool(error)):
        report.outcome = "skipped"
        report.longrepr = (
            str(item.path),
            item.location[1] or 0,
            f"Skipped: {tool} is not installed",
        )
    _refuse_skip(report)


def _missing_tool(error: BaseException) -> str | None:
    """The optional program for whose lack a test failed; None if that is not why."""
    needed = (
        [error.filename]
        if isinstance(error, FileNotFoundError) and error.filename in OPTIONAL
        else []
    )
    # ToolchainError, CalledProcessError
    command = getattr(error, "command", None) or getattr(error, "cmd", None) or ()
    words = command.split() if isinstance(command, str) else [str(word) for word in command]
    needed += [f"ld.{word.split('=', 1)[1]}" for word in words if word.startswith("-fuse-ld=")]
    if "no C++ compiler found" in str(error):
        needed.append("c++")
    if "half (16-bit float) in C needs gcc 12" in str(error):
        return "gcc 12 or later"
    return next((tool for tool in needed if shutil.which(tool) is None), None)


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    outcome: Any = yield
    _refuse_skip(outcome.get_result())


def _refuse_skip(report: Any) -> None:
    """With CI set, turn a skip that is not allowed into a failure."""
    if not os.environ.get("CI") or report.outcome != "skipped" or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = reason.removeprefix("Skipped: ")
    if not reason.startswith(MAY_SKIP):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI, where nothing may be missing: {reason}"


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """OpenCL programs are kept for tests alone, and for this run of them, by all its workers."""
    folder = tmp_path_factory.getbasetemp()
    with pytest.MonkeyPatch.context() as patch:
        of_run = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
        patch.setenv("MBLOB_CACHE_DIR", str(of_run / "cache"))
        patch.delenv("MBLOB_CACHE", raising=False)
        yield


@pytest.fixture(scope="session")
def package_of() -> Callable[[str], Path]:
    """`package_of(package)`: its folder, or a skip. TVM and tvm_ffi are not imported here (see
    `alone`)."""

    def find(package: str) -> Path:
        found = importlib.util.find_spec(package)
        if found is None or found.origin is None:
            pytest.skip(f"{package} is not installed (pip install apache-tvm==0.27.0.post1)")
        return Path(found.origin).parent

    return find


STARTED = re.compile(r"/(libmblob-\w+\.so|toy\w*\.so|lib(OpenCL|dnnl|cuda)\.so\S*)$")


def _started() -> set[str]:
    """The plug-ins that this process has mapped, and what they open."""
    mapped = {
        line.split(None, 5)[-1]
        for line in Path("/proc/self/maps").read_text(errors="replace").splitlines()
    }
    return {path for path in mapped if STARTED.search(path)}


@pytest.fixture(scope="module", autouse=True)
def no_plug_ins(request: pytest.FixtureRequest) -> Iterator[None]:
    """Plug-ins and what they open stay in a process for ever: tests that start one have a process
    of their own."""
    from tests import own_process  # which pytest has to import itself, first

    if own_process.is_own():
        yield
        return
    before = _started()
    yield
    started = sorted(_started() - before)
    assert not started, f"mark the tests of this file with own_process: they have started {started}"


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """No runtime of TVM is in this process: it would serve libraries whose tests say that nobody
    does."""
    yield
    assert not {"tvm", "tvm_ffi"} & sys.modules.keys(), "tests import TVM in a process of its own"


@pytest.fixture(scope="session")
def require() -> Callable[[str], str]:
    """`require(tool)`: path of a program, or the test is skipped."""

    def find(tool: str) -> str:
        path = shutil.which(tool)
        if path is None:
            pytest.skip(f"{tool} is not installed")
        return path

    return find


@pytest.fixture(scope="session")
def terminals() -> None:
    """Tests that open a pseudo-terminal ask for this."""
    try:
        for end in os.openpty():
            os.close(end)
    except OSError as error:
        pytest.skip(f"no pseudo-terminals here: {error.strerror}")


@pytest.fixture(scope="session")
def processes_with() -> Callable[[str], list[str]]:
    """`processes_with(text)`: command lines of running processes that have `text` in them."""

    def find(text: str) -> list[str]:
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:  # it has ended
                continue
            if any(text in word for word in words):
                found.append(" ".join(words))
        return found

    return find


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's folder."""
    return ROOT


def _install(folder: Path) -> None:
    other = any(os.environ.get(v) for v in ("CC", "AR", "CFLAGS", "CPPFLAGS", "LDFLAGS"))
    build = folder / "build" if other else ROOT / "csrc" / "build"  # as `make demo` has it
    for prefix, compat in (("prefix", 0), ("compat", 1)):
        words = [f"PREFIX={folder / prefix}", f"COMPAT={compat}", f"BUILD={build}"]
        done = subprocess.run(
            ["make", "-s", "-j2", "-C", str(ROOT / "csrc"), "install", *words],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def installed() -> Path:
    """A prefix with the C runtime, installed from this tree: include/, lib/, lib/pkgconfig/. Do not
    change it."""
    return built_once("c-install", _install) / "prefix"


@pytest.fixture(scope="session")
def compat(installed: Path) -> Path:
    """A prefix where TVM's names are installed, too."""
    return installed.parent / "compat"


@pytest.fixture(scope="session")
def sanitized() -> Path:
    """The folder with the C test programs under AddressSanitizer and UBSan (address/), and their
    libraries (lib/)."""
    return built_once(
        "c-address", lambda folder: make_c_tests("address-programs", f"BUILD={folder}", "CXX=")
    )


@pytest.fixture(scope="session")
def standalone_runtimes() -> Path:
    """A folder for MBLOB_CACHE_DIR: the runtimes that standalone libraries get are compiled once, for
    all runs until their sources change."""
    sources = (ROOT / "csrc", ROOT / "packager" / "standalone")
    return built_once("standalone-runtimes", lambda folder: None, sources=sources)


@pytest.fixture(scope="session")
def golden() -> Path:
    """Libraries that TVM 0.14 exported: $MBLOB_GOLDEN, or shared/golden beside the project."""
    path = Path(os.environ.get("MBLOB_GOLDEN") or ROOT.parent / "shared" / "golden")
    if not path.is_dir():
        pytest.skip("no golden libraries: MBLOB_GOLDEN names their folder")
    return path


@pytest.fixture(scope="session")
def onednn() -> str:
    """What the plug-in says of oneDNN; without oneDNN the test is skipped."""
    import mblob
    from mblob.loader.plugins import plugins

    try:
        return next(p for p in plugins() if p.name == "dnnl").describe()
    except mblob.LoaderMissingError as e:
        pytest.skip(f"oneDNN is not installed: {e}")


@pytest.fixture(scope="session")
def cc() -> Callable[..., Path]:
    """`cc(source, output, *flags)`: compile C text to a shared library, `output`; its path.

    The test is skipped where the linker is too old for a flag of it.
    """
    compiler = os.environ.get("CC") or "cc"

    def compile_text(source: str, output: Path, *flags: str) -> Path:
        text = output.with_suffix(".c")
        text.write_text(source)
        command = [compiler, "-shared", "-fPIC", "-O1", str(text), "-o", str(output), *flags]

        def really() -> tuple[int, str]:
            done = subprocess.run(command, capture_output=True, text=True)
            return done.returncode, done.stderr

        status, said = made_once(command, output.parent, really)
        assert status == 0, f"{command}\n{said}"
        if ignored := re.search(r"-z (\S+) ignored", said):
            pytest.skip(f"a linker that takes -z {ignored[1]} is not installed")
        return output

    return compile_text


@pytest.fixture(scope="session")
def count_calls() -> Callable[[Callable[[], object]], int]:
    """`count_calls(f)`: how many functions, of Python and of C, this thread enters while f() runs.

    What takes linear time makes twice the calls for twice the input, on every machine.
    """

    def count(run: Callable[[], object]) -> int:
        calls = 0

        def event(_frame: object, kind: str, _argument: object) -> None:
            nonlocal calls
            calls += kind in ("call", "c_call")

        gc.collect()
        gc.disable()  # it would call finalizers of what other tests left
        sys.setprofile(event)
        try:
            run()
        finally:
            sys.setprofile(None)
            gc.enable()
        return calls

    return count


@pytest.fixture(scope="session")
def peak_memory() -> Callable[[Callable[[], object]], int]:
    """`peak_memory(f)`: bytes that Python objects take more, at most, while f() runs."""

    def measure(run: Callable[[], object]) -> int:
        tracemalloc.start()
        try:
            run()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    return measure
