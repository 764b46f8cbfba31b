"""Timing, with results in the shape of TVM's."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mblob.arguments import amount, whole


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
    who: str,
    once: Callable[[], object],
    repeat: Any,
    number: Any,
    min_repeat_ms: Any = 0,
    warm_up: bool = True,
    finish: Callable[[], object] | None = None,
    cooldown_interval_ms: Any = 0,
    repeats_to_cooldown: Any = 1,
    begin: Callable[[], object] | None = None,
) -> BenchmarkResult:
    """Call `once` `number` times for each of `repeat` measurements; more often until one takes
    `min_repeat_ms`.

    Args:
        who: whose arguments the numbers are, which are checked here.
        finish: called at the end of each measurement, as part of it: waits for what `once` only
            began.
        begin: called before each measurement, which it is no part of.
        cooldown_interval_ms: to rest after every `repeats_to_cooldown` measurements.
        warm_up: one call before all of these, which is not measured: the first one has costs of its
            own.

    Raises:
        TypeError: what should be a number is none.
        ValueError: fewer than one measurement or call; a rest that cannot be.
    """
    repeat, number = whole(who, "repeat", repeat, 1), whole(who, "number", number, 1)
    least = amount(who, "min_repeat_ms", min_repeat_ms) / 1e3
    cooldown = amount(who, "cooldown_interval_ms", cooldown_interval_ms) / 1e3
    cooldown_every = whole(who, "repeats_to_cooldown", repeats_to_cooldown, 1)
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
