"""Tests that spoil their process: `@pytest.mark.own_process` gives each of them, or a whole file,
one of its own.

A test is marked that starts plug-ins, forks, ends threads late, or changes what a process has once
(signal handlers, limits, the C environment). For a marked function a process is forked, in which
its fixtures and its body run. For a marked file (`pytestmark = pytest.mark.own_process`) all its
tests run in one such process, which keeps the fixtures of the file. The process that collects the
tests never loads what they load, so every such process begins clean.

A test that ends its process by a signal fails with the name of the signal; the others go on.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest
from _pytest.runner import runtestprotocol  # what pytest-xdist and pytest-forked call, too

MARK = "own_process"
EACH_FILE = bool(os.environ.get("MBLOB_TEST_EACH_FILE"))  # to see which files would need the mark


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"{MARK}: in a forked process: the test, or all tests of the file, spoil theirs"
    )


class Child:
    """A forked process that runs tests on request: JSON lines, an index of `session.items` in,
    reports out.

    Args:
        owner: the file whose tests it runs, or a single test.
    """

    def __init__(self, session: pytest.Session, owner: pytest.Item | str) -> None:
        self.owner = owner
        requests, self._ask = os.pipe()
        self._answers, answers = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            # xdist's thread only waits for the network
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if not self.pid:
            os.close(self._ask)
            os.close(self._answers)
            _serve(session, requests, answers)
        os.close(requests)
        os.close(answers)
        self._lines = os.fdopen(self._answers, "r", encoding="utf-8")

    def run(self, item: pytest.Item, last: bool) -> list[pytest.TestReport]:
        """The reports of one test. `last`: the fixtures of the file may go."""
        os.write(self._ask, json.dumps([item.session.items.index(item), last]).encode() + b"\n")
        line = self._lines.readline()
        if line:
            hook = item.config.hook
            reports = [
                hook.pytest_report_from_serializable(config=item.config, data=d)
                for d in json.loads(line)
            ]
            for report in reports:
                if isinstance(report.longrepr, list):  # of a skip: a tuple before JSON
                    report.longrepr = tuple(report.longrepr)
            return reports
        status = self.end()
        how = signal.Signals(-status).name if status < 0 else f"exit code {status}"
        text = f"the process of this test ended with {how}"
        return [
            pytest.TestReport(
                item.nodeid, item.location, dict.fromkeys(item.keywords, 1), "failed", text, "call"
            )
        ]

    def end(self) -> int:
        """Let it end; its exit code, negative for a signal."""
        if not self.pid:
            return 0
        os.close(self._ask)
        self._lines.close()
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)


# of the test that runs now; None in the process that collects
_reports: list[pytest.TestReport] | None = None


def is_own() -> bool:
    """Whether this is a process of a marked test or file."""
    return _reports is not None


def _serve(session: pytest.Session, requests: int, answers: int) -> NoReturn:
    global _reports
    code = 1
    try:
        session._setupstate.stack.clear()  # what is set up belongs to the process that forked
        for line in os.fdopen(requests, "r", encoding="utf-8"):
            index, last = json.loads(line)
            item = session.items[index]
            # Up to where fixtures are kept: those of the file, until its last test.
            following: Any = None if last else item.getparent(pytest.Module)
            _reports = []
            hook = item.ihook
            # with filters of warnings around it
            hook.pytest_runtest_protocol(item=item, nextitem=following)
            data = [
                hook.pytest_report_to_serializable(config=item.config, report=r) for r in _reports
            ]
            _write(answers, json.dumps(data, default=str).encode() + b"\n")
        code = 0
    finally:
        os._exit(code)


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def owner_of(item: pytest.Item | None) -> pytest.Item | str | None:
    """Who has the process of a test: its file, or itself alone; None for the common process."""
    if item is None or (item.get_closest_marker(MARK) is None and not EACH_FILE):
        return None
    return item if any(m.name == MARK for m in item.own_markers) else item.nodeid.partition("::")[0]


_child: Child | None = None


def _end() -> None:
    global _child
    if _child is not None:
        _child.end()
        _child = None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    global _child
    if _reports is not None:
        _reports.extend(runtestprotocol(item, log=False, nextitem=nextitem))
        return True
    owner = owner_of(item)
    if _child is not None and (_child.owner != owner or not _child.pid):
        _end()
    if owner is None:
        return None
    if _child is None:
        _child = Child(item.session, owner)
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in _child.run(item, last=owner_of(nextitem) != owner):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    item.session._setupstate.teardown_exact(nextitem)
    return True


@pytest.hookimpl(hookwrapper=True)
def pytest_sessionfinish() -> Iterator[None]:
    _end()
    yield
