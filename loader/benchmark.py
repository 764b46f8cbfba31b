"""Timing, with results in the shape of TVM's."""

from __future__ import annotations

import time
from dataclasses import dataclass

TYPE_CHECKING = False  # importing `typing` takes longer than everything else here
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Protocol
else:
    Protocol = object


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


class Model(Protocol):
    """What executors that keep inputs and outputs have in common."""

    def set_input(self, key: Any = None, value: Any = None, **params: Any) -> None: ...
    def get_num_outputs(self) -> int: ...
    def get_output(self, index: Any, out: Any = None) -> Any: ...


def benchmark_model(
    model: Model, run: Callable[[], None], func_name: str, repeat: int, number: int,
    min_repeat_ms: int | None, end_to_end: bool, inputs: Mapping[str, Any], finish: Callable[[], None] | None = None,
) -> BenchmarkResult:  # fmt: skip
    """Time `run` of a model with `inputs`; with `end_to_end` their copies in and those of all outputs out, too.

    Raises:
        ValueError: `func_name` is not "run"; fewer than one measurement or call; an input that the model has not.
    """
    from loader.tensor import empty

    if func_name != "run":
        raise ValueError(f"benchmark: expected func_name 'run', found {func_name!r}")
    model.set_input(**inputs)
    outputs = [model.get_output(i) for i in range(model.get_num_outputs())] if end_to_end else []
    copies = [empty(t.shape, t.dtype) for t in outputs]
    del outputs  # views would keep what the model might let go

    def once() -> None:
        if end_to_end:
            model.set_input(**inputs)
        run()
        for i, tensor in enumerate(copies):
            model.get_output(i, tensor)

    return measure(once, repeat, number, (min_repeat_ms or 0) / 1e3, finish=finish)


def measure(
    once: Callable[[], None],
    repeat: int,
    number: int,
    least: float = 0.0,
    warm_up: bool = True,
    finish: Callable[[], None] | None = None,
) -> BenchmarkResult:
    """Call `once` `number` times for each of `repeat` measurements; more often until one takes `least` seconds.

    Args:
        finish: called at the end of each measurement, as part of it: waits for what `once` only began.
        warm_up: one call before all of these, which is not measured: the first one has costs of its own.

    Raises:
        ValueError: fewer than one measurement or call.
    """
    if repeat < 1 or number < 1:
        raise ValueError(f"expected repeat and number of at least 1, found {repeat} and {number}")
    if warm_up:
        once()
        if finish:
            finish()
    results = []
    for _ in range(repeat):
        while True:
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
    return BenchmarkResult(tuple(results))
