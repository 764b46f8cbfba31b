"""Cases of the peers' own tests, restated: what each suite has, and whether it holds in mblob.

A case is named as the peer names it, FILE.TEST or FILE.TEST[PARAMETERS]. `python -m
tests.peers.table` counts them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """One case.

    Attributes:
        name: the peer's name of it.
        check: raises if the case does not hold; None if a test of the suite checks it by its name,
            and for cases that have a reason.
        differs: why the case does not hold in mblob; "" if it holds.
        unsaid: why it cannot be said in Python here; "" if it can.
    """

    name: str
    check: Callable[..., object] | None = None
    differs: str = ""
    unsaid: str = ""


def holding(cases: list[Case]) -> list[Case]:
    """Those that a test checks."""
    return [case for case in cases if not case.differs and not case.unsaid]


def names(cases: list[Case]) -> list[str]:
    return [case.name for case in cases]
