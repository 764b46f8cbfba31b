"""`tvm.testing`: what programs that run models use of it."""

from __future__ import annotations

from typing import Any

from mblob.compat.lazy_names import COMPILER, offer_lazily

__getattr__, _ = offer_lazily(__name__, {}, {"*": COMPILER})


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7) -> None:
    """`numpy.testing.assert_allclose`, with TVM's tolerances.

    Raises:
        AssertionError: the arrays differ.
    """
    from numpy import testing

    testing.assert_allclose(actual, desired, rtol=rtol, atol=atol, verbose=True)
