"""Which tier a test belongs to: quick (`make test`), slow (`make test-all`) or nightly.

A test is quick unless it is marked `slow` or `nightly`. Three rules stand here and not at the
tests:

* Where a parameter is another compiler, linker or machine than the usual one, the test is slow.
* Where an installed TVM makes or runs something (the fixture `package_of`), the test is slow: TVM
  starts for seconds.
* Of a test that is marked `sample(n)` n variants are quick, the same in each run; the others are
  slow. They are chosen one after the other: the next is the one with the most values of parameters
  that none before it had.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from typing import Any

import pytest

OTHER_TOOLS = {"clang", "clang++", "gold", "lld", "mold"}
OTHER_MACHINES = ("--target=", "aarch64-", "arm-", "i686-", "powerpc64-", "riscv64-", "s390x-")


def names_another_tool(value: Any) -> bool:
    """Whether a parameter is another compiler or linker, or has a word that chooses one or another
    machine."""
    if isinstance(value, (list, tuple)):
        return any(map(names_another_tool, value))
    if not isinstance(value, str):
        return False
    linkers = {
        word.removeprefix("-fuse-ld=") for word in value.split() if word.startswith("-fuse-ld=")
    }
    return (
        value in OTHER_TOOLS
        or not OTHER_TOOLS.isdisjoint(linkers)
        or value.startswith(OTHER_MACHINES)
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "package_of" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)
        chosen = getattr(item, "callspec", None)
        if chosen and names_another_tool([*chosen.params.values()]):
            item.add_marker(pytest.mark.slow)
    sampled: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        # Without parameters, or with none in this environment: then it is skipped.
        if not hasattr(item, "callspec"):
            continue
        if item.get_closest_marker("sample") and not item.get_closest_marker("slow"):
            sampled[item.nodeid.partition("[")[0]].append(item)
    for variants in sampled.values():
        mark = variants[0].get_closest_marker("sample")
        left = {
            item.nodeid: {(n, id(v)) for n, v in item.callspec.params.items()} for item in variants
        }  # type: ignore[attr-defined]
        seen: set[tuple[str, int]] = set()
        for _ in range(min(mark.args[0], len(left)) if mark else 0):
            # The hash spreads those that have as many, whatever order they are written in.
            best = max(left, key=lambda name: (len(left[name] - seen), zlib.crc32(name.encode())))
            seen |= left.pop(best)
        for item in variants:
            if item.nodeid in left:
                item.add_marker(pytest.mark.slow)
