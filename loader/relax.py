"""Programs of TVM's Relax virtual machine, in the shape of `tvm.relax.VirtualMachine`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from mblob.benchmark import BenchmarkResult, measure
from mblob.devices import Device
from mblob.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    NotFoundError,
    did_you_mean,
    listed,
    one_line,
)
from mblob.format.type_keys import RELAX_EXECUTABLES
from mblob.loader import node_registry, relax_missing_functions
from mblob.loader.benchmark import Benchmarked, BenchmarkRun, how_to_run
from mblob.loader.kept_functions import KeptFunction, with_kept_functions
from mblob.loader.tensor import CPU, Shape, Tensor, as_tensor, devices_of, empty
from mblob.loader.vm import InstructionTime
from mblob.loader.vm_common import ALLOCATORS, check_nesting, placements, scalar
from mblob.module import Module
from mblob.typed import Allocator, LinkedWhenAsked

NUMBERS = {bool: "int32", int: "int32", float: "float32"}  # what numbers become, as in TVM


class VirtualMachine(Benchmarked):
    """Runs a program: `VirtualMachine(mblob.load_module("model.so"), mblob.cpu(0))`.

    `vm["main"](x)` calls a function of the program. Arguments are arrays, DLPack tensors,
    `mblob.Shape`, tuples and lists, str, int, float, bool, None, and functions of the machine;
    results are tensors, `mblob.Shape`, tuples, numbers, str, None, and functions. One thread at a
    time may use it; machines of one program are independent.

    Args:
        rt_mod: the program's module, or an object whose `jit()` gives it, as
            `tvm.runtime.Executable` is.
        device: where it runs: `mblob.cpu(0)`, or a list of devices.
        memory_cfg: "pooled" (the default: memory is kept for the next call), "naive", or one of
            them per device.
        profile: accepted for compatibility with TVM and ignored; the method `profile` always works.

    Warns:
        UserWarning: the program names functions that neither its library nor any registry has, and
            `load_module` has not warned of them. `missing` lists them.

    Attributes:
        module: the machine's own module; its functions have TVM's names.
    """

    NAIVE_ALLOCATOR = ALLOCATORS["naive"]
    POOLED_ALLOCATOR = ALLOCATORS["pooled"]

    def __init__(
        self,
        rt_mod: Module | LinkedWhenAsked,
        device: Device | Sequence[Device],
        memory_cfg: Allocator | Mapping[Device, Allocator] | None = None,
        profile: bool = False,
    ) -> None:
        del profile
        program: Any = rt_mod
        if not isinstance(rt_mod, Module) and callable(getattr(rt_mod, "jit", None)):
            program = rt_mod.jit()
        if not isinstance(program, Module) or program.type_key not in RELAX_EXECUTABLES:
            expected = (
                f"a module with the type key {RELAX_EXECUTABLES[0]!r}, as load_module gives it"
            )
            module = isinstance(program, Module)
            found = f"a module {program.type_key!r}" if module else type(program).__name__
            if module:
                found += how_to_run(program)
            elif isinstance(program, (str, os.PathLike)):
                found += "; open the file with mblob.load_module"
            raise ArgumentTypeError(f"VirtualMachine: rt_mod: expected {expected}, found {found}")
        self._executable = program
        self.module = program["vm_load_executable"]()
        devices = devices_of("VirtualMachine", device)
        self._made_of = (
            program,
            device if isinstance(device, Device) else list(devices),
            memory_cfg,
        )
        if not devices or devices[-1].device_type != CPU.device_type:
            devices.append(CPU)  # TVM adds it too: it computes shapes
        self.module["vm_initialization"](*placements(devices, memory_cfg))
        relax_missing_functions.warn(program, self.missing, 3)

    if not TYPE_CHECKING:  # an attribute that is not there stays an error of type checkers

        def __getattr__(self, name: str) -> Any:
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            if "module" in self.__dict__ and not name.startswith("_"):
                known = self.functions
                if name in known:
                    text += f"; to get the function of the program, write vm[{name!r}]"
                elif known:
                    text += f"; functions of the program are items, vm[{known[0]!r}]; it has: {listed(known)}"
            raise AttributeError(text)

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickle has the library, the devices and no inputs, saved functions, instruments or
        limits: the machine is created again."""
        return type(self), self._made_of

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise a TypeError that says how a function of the program is called."""
        name = "main" if "main" in self.functions else next(iter(self.functions), "main")
        raise ArgumentTypeError(
            f"a VirtualMachine is not called itself; to call a function of the program, write vm[{name!r}](x)"
        )

    def __getitem__(self, name: str) -> Any:
        """A function of the program, or one that `save_function` saved.

        Raises:
            NotFoundError: no such function.
            KernelError: the name is that of a kernel; get it from the program's module.
        """
        try:
            return self.module[name]
        except NotFoundError:
            known = self.functions
            raise NotFoundError(
                one_line(
                    f"the program has no function {name!r}; it has: {listed(known)}{did_you_mean(name, known)}"
                )
            ) from None

    @property
    def _kept(self) -> dict[str, Any]:
        """Functions of Python that the machine has, by what has them."""
        return self.module._node.kept  # type: ignore[no-any-return]

    @property
    def functions(self) -> list[str]:
        """Names of the program's functions."""
        return str(self._executable["get_function_names"]()).splitlines()

    @property
    def missing(self) -> list[str]:
        """Functions that the program calls, and that are neither in its library nor registered.
        Register them with `mblob.register_func`."""
        return relax_missing_functions.of_program(self._executable)

    @property
    def params(self) -> tuple[Tensor, ...]:
        """The parameters that were packed with the program, in its order: tensors that cannot be
        written, each at a multiple of 64. Pass the tuple where the program takes its weights."""
        return tuple(self.module["get_params"]())

    def invoke_closure(self, closure: Any, *args: Any) -> Any:
        """Call `closure`, a function that a function returned, on `args`; `closure(*args)` does the same."""
        return self.module["invoke_closure"](closure, *args)

    def save_function(
        self,
        func_name: str,
        saved_name: str,
        *args: Any,
        include_return: bool = True,
        **kwargs: Any,
    ) -> None:
        """Store a function with all of its arguments under another name: `vm[saved_name]()` calls it.

        Args:
            func_name: the function.
            saved_name: the new name.
            args, kwargs: all arguments of the function, by position and by name.
            include_return: False: the call returns None.
        """
        given = self._arguments(func_name, args, kwargs)
        held: list[KeptFunction] = []
        arguments = with_kept_functions(given, held)
        self.module["save_function"](func_name, saved_name, include_return, *arguments)
        self._kept[f"saved {saved_name}"] = held

    def set_input(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Set all inputs of the function `func_name` for `invoke_stateful`: by position, by name, or
        both. Arrays are copied; numbers become 0-d arrays (int32, float32).

        Parameters that were packed with the program may be left out: `invoke_stateful` passes them.

        Raises:
            TypeError: an input is missing, or there are too many.
        """
        held: list[KeptFunction] = []
        packed = int(self.module["get_param_inputs"](func_name)) if kwargs else 0
        given = self._arguments(func_name, args, kwargs, packed)
        arguments = with_kept_functions(given, held)
        self.module["set_input"](func_name, *arguments)
        self._kept[f"inputs {func_name}"] = held

    def invoke_stateful(self, func_name: str) -> None:
        """Call the function `func_name` on the inputs of `set_input`. `get_outputs` gives the result."""
        self.module["invoke_stateful"](func_name)

    def get_outputs(self, func_name: str) -> Any:
        """The result of the last `invoke_stateful` of the function `func_name`. A tuple is a tuple.

        Raises:
            KernelError: the function was not called.
        """
        return self._output(func_name, ())

    def _output(self, func_name: str, path: tuple[int, ...]) -> Any:
        count = self.module["get_output_arity"](func_name, *path)
        if count < 0:
            return self.module["get_output"](func_name, *path)
        return tuple(self._output(func_name, (*path, i)) for i in range(count))

    def get_function_arity(self, func_name: str) -> int:
        """The number of named parameters of the function `func_name`."""
        return int(self.module["get_function_arity"](func_name))

    def get_function_params(self, func_name: str) -> list[str]:
        """Names of the parameters of the function `func_name`."""
        name = self.module["get_function_param_name"]
        return [name(func_name, i) for i in range(self.get_function_arity(func_name))]

    def time_evaluator(
        self,
        func_name: str,
        dev: Device | None = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        f_preproc: str = "",
    ) -> Callable[..., BenchmarkResult]:
        """A function that times a function of the program: it takes the arguments and returns a
        BenchmarkResult.

        Args:
            func_name: the function.
            dev, f_preproc: accepted for compatibility with TVM and ignored.
            number, repeat: calls per measurement, and number of measurements.
            min_repeat_ms: repeat the calls of a measurement until it takes this long.
            cooldown_interval_ms: pause after every `repeats_to_cooldown` measurements.
        """
        del dev, f_preproc
        function = self.module[func_name]

        def evaluate(*args: Any) -> BenchmarkResult:
            return measure(
                "time_evaluator",
                function.bind(*args),
                repeat,
                number,
                min_repeat_ms,
                cooldown_interval_ms=cooldown_interval_ms,
                repeats_to_cooldown=repeats_to_cooldown,
            )

        return evaluate

    def _timed_run(self, asked: BenchmarkRun) -> Callable[[], object]:
        known = self.functions
        name = asked.func_name or (known[0] if len(known) == 1 else "main")
        if asked.parallel is not None:
            raise ArgumentValueError(
                "benchmark: parallel is for graph executors; a program runs in its order"
            )

        def set_inputs() -> None:
            if asked.args or asked.inputs:
                self.set_input(name, *asked.args, **asked.inputs)

        def once() -> None:
            set_inputs()
            self.invoke_stateful(name)
            _copied(self.get_outputs(name))

        set_inputs()
        return once if asked.end_to_end else partial(self.invoke_stateful, name)

    def set_instrument(self, instrument: Any) -> None:
        """Call a function before and after each call of bytecode.

        Args:
            instrument: called with (function, name, whether before, result, arguments...). If it
                returns `VirtualMachine.SKIP_RUN`, the call is skipped. A str is the name of a
                global function that makes it. None removes it.
        """
        held: list[KeptFunction] = []
        self.module["set_instrument"](with_kept_functions(instrument, held))
        self._kept["instrument"] = held

    SKIP_RUN = 1

    def profile(self, func_name: str, *args: Any, repeat: int = 1) -> list[InstructionTime]:
        """Time of each instruction in `repeat` calls of the bytecode function `func_name` on `args`,
        after one more call.

        A call of another function of the program is an instruction, too. Its time is that of the
        call only; the instructions inside have their own rows. Inputs stay set.
        """
        if args:
            self.set_input(func_name, *args)
        rows = json.loads(self.module["profile"](func_name, repeat))
        return [InstructionTime(**row) for row in rows]

    def set_limits(self, instructions: int = 0, memory: int = 0, calls: int = 0) -> None:
        """Limit a call of the program.

        Args:
            instructions: that it may execute; 0: no limit. Functions of a compiled program have no
                instructions, so this does not limit them.
            memory: bytes of storage that may be in use; 0: no limit.
            calls: that may be nested; 0: 10,000.
        """
        self.module["set_limits"](instructions, memory, calls)

    def _arguments(
        self, func_name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], packed: int = 0
    ) -> list[Any]:
        """Arguments in the order of the parameters, as the machine keeps them. The last `packed` ones may be
        left out."""
        if kwargs:
            params = self.get_function_params(func_name)
            needed = params[: len(params) - packed]
            if len(args) + len(kwargs) <= len(needed) and not kwargs.keys() & params[len(needed) :]:
                params = needed
            unknown = [name for name in kwargs if name not in params]
            missing = [name for name in params if name not in kwargs]
            if unknown or len(missing) != len(args):
                of = f"; it has no parameter {', '.join(map(repr, unknown))}" if unknown else ""
                which = f"{len(missing)} more argument{'s' * (len(missing) != 1)}"
                which += f" ({', '.join(missing)})" if missing else ""
                raise ArgumentTypeError(
                    f"{func_name}({', '.join(params)}): expected {which}, found {len(args)}{of}"
                )
            rest = iter(args)
            args = tuple(kwargs[name] if name in kwargs else next(rest) for name in params)
        return [_argument(value, i, func_name) for i, value in enumerate(args)]


def _argument(value: Any, key: int, func_name: str, nesting: int = 1) -> Any:
    """An input as the machine keeps it: a copy of what its owner may change.

    Raises:
        OverflowError: a number is outside of the type that numbers become.
        TypeError: it is none of what functions take.
        ValueError: it is lists in lists too deep.
    """
    if value is None or isinstance(value, (str, Shape, Tensor)) or callable(value):
        return value
    if isinstance(value, (list, tuple)):
        check_nesting(nesting, key, func_name)
        return [_argument(item, key, func_name, nesting + 1) for item in value]
    dtype = NUMBERS.get(type(value))
    if dtype is not None:
        value = scalar(value, dtype, key, func_name)
    tensor = as_tensor(value, what=f"{func_name}: input {key}: ")
    device = tensor.device if tensor.device.device_type == CPU.device_type else CPU
    return empty(tensor.shape, tensor.dtype, device).copyfrom(tensor)


def _copied(value: Any) -> Any:
    """A copy of a result, tuples field by field."""
    if isinstance(value, tuple) and not isinstance(value, Shape):
        return tuple(_copied(field) for field in value)
    if isinstance(value, Tensor):
        return empty(value.shape, value.dtype).copyfrom(value)
    return value


def _debug_print(where: str, tensor: Tensor) -> None:
    """Print a tensor, for programs with `print_` of TVM's nn frontend, which TVM has in Python, too."""
    shape, dtype = tensor.shape, tensor.dtype
    print(f"{where}: shape = {shape}, dtype = {dtype}, data =\n{tensor.numpy()}")


# Not where the program's owner has registered one.
node_registry.register_global("vm.builtin.debug_print", _debug_print, override=False)
