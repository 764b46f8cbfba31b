"""Timing, with results in the shape of TVM's."""

from __future__ import annotations

import time
from dataclasses import dataclass

from mblob.errors import ArgumentValueError

TYPE_CHECKING = False  # importing `typing` takes longer than everything else here
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True)
class BenchmarkResult:
    """Seconds of one run.

    Attributes:
        results: one mean per measurement.
    """

    results: Sequence[float]

    @property
    def mean(self) -> float:
        """Mean of the measurements."""
        return sum(self.results) / len(self.results)

    @property
    def median(self) -> float:
        """Median of the measurements."""
        ordered, half = sorted(self.results), len(self.results) // 2
        return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2

    @property
    def min(self) -> float:
        """The shortest."""
        return min(self.results)

    @property
    def max(self) -> float:
        """The longest."""
        return max(self.results)

    @property
    def std(self) -> float:
        """Standard deviation over all measurements."""
        mean = self.mean
        return float((sum((r - mean) ** 2 for r in self.results) / len(self.results)) ** 0.5)

    def __str__(self) -> str:
        names = ("mean", "median", "max", "min", "std")
        head = "".join(f"{name + ' (ms)':^14}" for name in names)
        row = "".join(f"{getattr(self, name) * 1e3:^14.4f}" for name in names)
        return f"Execution time summary:\n{head}\n{row}"


def measure(
    once: Callable[[], object],
    repeat: int,
    number: int,
    least: float = 0.0,
    warm_up: bool = True,
    finish: Callable[[], object] | None = None,
    cooldown: float = 0.0,
    cooldown_every: int = 1,
    begin: Callable[[], object] | None = None,
) -> BenchmarkResult:
    """Call `once` `number` times for each of `repeat` measurements; more often until one takes
    `least` seconds.

    Args:
        finish: called at the end of each measurement, as part of it: waits for what `once` only
            began.
        begin: called before each measurement, which it is no part of.
        cooldown: seconds to rest after every `cooldown_every` measurements.
        warm_up: one call before all of these, which is not measured: the first one has costs of its
            own.

    Raises:
        ValueError: fewer than one measurement or call; a rest that cannot be.
    """
    if repeat < 1 or number < 1:
        raise ArgumentValueError(
            f"expected repeat and number of at least 1, found {repeat} and {number}"
        )
    if cooldown < 0 or cooldown_every < 1:
        raise ArgumentValueError(
            f"expected cooldown_interval_ms of at least 0 and repeats_to_cooldown of at least 1, "
            f"found {cooldown * 1e3:g} and {cooldown_every}"
        )
    if warm_up:
        once()
        if finish:
            finish()
    results = []
    for i in range(repeat):
        while True:
            if begin:
                begin()
            start = time.perf_counter()
            for _ in range(number):
                once()
            if finish:
                finish()
            taken = time.perf_counter() - start
            if taken >= least:
                break
            number *= 2
        results.append(taken / number)
        if cooldown and i % cooldown_every == 0:
            time.sleep(cooldown)
    return BenchmarkResult(tuple(results))
