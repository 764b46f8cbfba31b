"""`benchmark` of executors: one list of parameters for all of them, TVM's."""

from __future__ import annotations

from dataclasses import dataclass

from mblob.benchmark import BenchmarkResult, measure
from mblob.errors import ArgumentValueError

TYPE_CHECKING = False  # importing `typing` takes longer than everything else here
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from mblob.devices import Device


@dataclass(frozen=True)
class Asked:
    """What `benchmark` shall time: its parameters of these names."""

    func_name: str | None
    args: Sequence[Any]
    inputs: Mapping[str, Any]
    end_to_end: bool
    parallel: int | None


class Timed:
    """An executor that can be timed; it says what a run is."""

    def _timed_run(self, asked: Asked) -> Callable[[], object]:
        """Take the inputs, and give what one run calls; with `end_to_end` it copies them in and all
        outputs out."""
        raise NotImplementedError

    def _wait(self) -> None:
        """Wait for what runs only began."""

    def benchmark(
        self,
        device: Device | None = None,
        *args: Any,
        func_name: str | None = None,
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: int | None = None,
        limit_zero_time_iterations: int = 100,
        end_to_end: bool = False,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        parallel: int | None = None,
        **inputs: Any,
    ) -> BenchmarkResult:
        """Time runs.

        Args:
            device: taken for TVM's sake; the model runs where it was made.
            args: inputs of a function of a virtual machine; of other executors `func_name` may
                stand there.
            func_name: "run", or a function of a virtual machine ("main").
            repeat, number: as many measurements, of as many runs each.
            min_repeat_ms: more runs per measurement until one takes this long.
            limit_zero_time_iterations: taken for TVM's sake; no run takes no time by the clock used
                here.
            end_to_end: with the copies of inputs in and of all outputs out.
            cooldown_interval_ms: a rest after every `repeats_to_cooldown` measurements.
            parallel: as of `GraphModule.run`, the only one that has it.
            inputs: by name; they stay set. Without any, those that are set are used.

        Raises:
            ValueError: fewer than one measurement or run, no such function or input, or one that
                does not fit.
        """
        del device, limit_zero_time_iterations
        once = self._timed_run(Asked(func_name, args, inputs, end_to_end, parallel))
        return measure(
            once, repeat, number, (min_repeat_ms or 0) / 1e3, finish=self._wait,
            cooldown=cooldown_interval_ms / 1e3, cooldown_every=repeats_to_cooldown,
        )  # fmt: skip


class TimedModel(Timed):
    """One with inputs and outputs of its own and one function, `run`."""

    def set_input(self, key: Any = None, value: Any = None, **params: Any) -> None:
        raise NotImplementedError

    def get_num_outputs(self) -> int:
        raise NotImplementedError

    def get_output(self, index: Any, out: Any = None) -> Any:
        raise NotImplementedError

    def _run_once(self, parallel: int | None) -> Callable[[], object]:
        """What runs the model, with what `set_input` set."""
        raise NotImplementedError

    def _timed_run(self, asked: Asked) -> Callable[[], object]:
        from mblob.loader.tensor import empty

        given = [*asked.args, *([asked.func_name] if asked.func_name is not None else [])]
        if given not in ([], ["run"]):
            raise ArgumentValueError(
                f"benchmark: expected func_name 'run', found {', '.join(map(repr, given))}"
            )
        run = self._run_once(asked.parallel)
        self.set_input(**asked.inputs)
        if not asked.end_to_end:
            return run
        outputs = [self.get_output(i) for i in range(self.get_num_outputs())]
        copies = [empty(t.shape, t.dtype) for t in outputs]
        del outputs  # views would keep what the model might let go

        def once() -> None:
            self.set_input(**asked.inputs)
            run()
            for i, tensor in enumerate(copies):
                self.get_output(i, tensor)

        return once
