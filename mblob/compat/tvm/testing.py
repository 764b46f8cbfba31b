"""`tvm.testing`: what programs that run models use of it."""

from __future__ import annotations

from typing import Any

from mblob.compat.handed_on import COMPILER, hand_on

__getattr__, _ = hand_on(__name__, {}, {"*": COMPILER})


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7) -> None:
    """`numpy.testing.assert_allclose`, with TVM's tolerances.

    Raises:
        AssertionError: the arrays differ.
    """
    from numpy import testing

    testing.assert_allclose(actual, desired, rtol=rtol, atol=atol, verbose=True)
