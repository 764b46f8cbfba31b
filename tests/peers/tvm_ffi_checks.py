"""The checks that the cases of tvm_ffi use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import mblob.compat.tvm_ffi as tvm_ffi

echo = tvm_ffi.convert(lambda x: x)


def same(value: Any, kind: Any = None) -> Callable[[], None]:
    """A function gives the value back, of the same type."""

    def check() -> None:
        found = echo(value)
        assert found == value and isinstance(found, kind or type(value))

    return check


def all_of(*checks: Callable[[], None]) -> Callable[[], None]:
    def check() -> None:
        for one in checks:
            one()

    return check


def value_of(method: str, value: Any) -> Any:
    return type("Protocol", (), {method: lambda _: value})()


def bad(call: Callable[[], object], *classes: type[Exception]) -> Callable[[], None]:
    def check() -> None:
        with pytest.raises(classes):
            call()

    return check
