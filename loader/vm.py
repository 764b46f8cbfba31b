"""Programs of TVM's Relay virtual machine, in the shape of `tvm.runtime.vm`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from mblob import texts
from mblob.devices import Device
from mblob.errors import ArgumentTypeError, ArgumentValueError, argument_class, listed
from mblob.format.type_keys import RELAY_EXECUTABLE
from mblob.loader.benchmark import Benchmarked, BenchmarkRun, check_nothing_given, how_to_run
from mblob.loader.global_functions import get_global_func
from mblob.loader.payloads import load_param_dict
from mblob.loader.tensor import CPU, Tensor, as_tensor, devices_of, empty
from mblob.loader.vm_common import ALLOCATORS, check_nesting, placements, scalar
from mblob.module import Module, checked_module
from mblob.typed import Allocator

ADT_KEY = "runtime.ADT"
_SHOWN = 6  # functions in a repr
NUMBERS = {bool: "bool", int: "int32", float: "float32"}  # what numbers of Python become, as in TVM


class ADT(Sequence):  # type: ignore[type-arg]  # fields are tensors and further ADTs, fetched when asked for
    """A tuple (tag 0) or a constructor with fields: arrays and further ADTs.

    Attributes:
        tag: number of the constructor.
        module: the runtime's own object.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.tag = int(module["get_tag"]())
        self._size = int(module["get_size"]())

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise argument_class(IndexError)(f"ADT: {texts.say(texts.NO_FIELD, index, len(self))}")
        return _result(self.module["get_field"](index % len(self)))

    def __repr__(self) -> str:
        return f"<mblob.vm.ADT tag {self.tag}, {len(self)} fields>"


class Executable:
    """A program: `Executable(mblob.load_module("model.so"))`. `load_exec` makes one from bytecode
    that `save` returned.

    Attributes:
        mod, module: the program's module.
        lib: the module of its kernels.
    """

    def __init__(self, mod: Module) -> None:
        if checked_module("Executable", "mod", mod).type_key != RELAY_EXECUTABLE:
            raise ArgumentTypeError(
                f"Executable: expected a module of the key {RELAY_EXECUTABLE!r}, found {mod.type_key!r}"
                f"{how_to_run(mod)}"
            )
        self.mod = self.module = mod
        self._given = ""  # the method that gave it constants

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickle has the library, and no constants that were read separately."""
        check_nothing_given("Executable", self._given)
        return type(self), (self.mod,)

    def __repr__(self) -> str:
        return f"<mblob.vm.Executable: {self._signatures()}>"

    def _signatures(self) -> str:
        """The functions of the program with their parameters."""
        names = self.globals
        return listed(
            (f"{n}({', '.join(self.get_function_params(n))})" for n in names[:_SHOWN]), _SHOWN
        ) + (", ..." if len(names) > _SHOWN else "")

    @staticmethod
    def load_exec(bytecode: bytes, lib: Module | None = None) -> Executable:
        """The program in `bytecode`, over the kernels of `lib`.

        Raises:
            FormatError: the bytes are not code of a program, or are wrong.
        """
        return Executable(get_global_func("runtime.Load_Executable")(bytes(bytecode), lib))

    def save(self) -> tuple[bytes, Module]:
        """The code, and the module of the kernels."""
        return self.mod["save"](), self.lib

    @property
    def lib(self) -> Any:
        """The module of the kernels."""
        return self.mod["get_lib"]()

    @property
    def bytecode(self) -> str:
        """The program as text."""
        return str(self.mod["get_bytecode"]())

    @property
    def stats(self) -> str:
        """Numbers of functions, constants and kernels, as text."""
        return str(self.mod["get_stats"]())

    @property
    def constants(self) -> str:
        """The constants, as text."""
        return str(self.mod["get_constants"]())

    @property
    def virtual_devices(self) -> str:
        """The devices that the program is for, as text."""
        return str(self.mod["get_virtual_devices"]())

    @property
    def primitives(self) -> str:
        """The kernels, as text."""
        return str(self.mod["get_primitives"]())

    @property
    def globals(self) -> list[str]:
        """Names of the functions."""
        return str(self.mod["get_function_names"]()).splitlines()

    @property
    def primitive_ops(self) -> list[str]:
        """Names of the kernels that the program calls."""
        return str(self.mod["get_primitive_names"]()).splitlines()

    def get_function_params(self, func_name: str) -> list[str]:
        """Names of the parameters of `func_name`.

        Raises:
            ValueError: no such function.
        """
        name = self.mod["get_function_param_name"]
        return [name(func_name, i) for i in range(self.mod["get_function_arity"](func_name))]

    def load_late_bound_consts(self, path: str | os.PathLike[str]) -> None:
        """Read constants that were saved separately. The program needs them before it runs.

        Args:
            path: the file that `move_late_bound_consts` wrote.

        Raises:
            FormatError: the file is no parameter dictionary, or a constant is missing.
        """
        self.mod["load_late_bound_consts"](os.fspath(path))
        self._given = "load_late_bound_consts"

    def load_late_bound_consts_from_map(self, constants: Mapping[str, Any]) -> None:
        """Set constants that were saved apart from the program.

        Args:
            constants: arrays by name, which are copied.

        Raises:
            FormatError: a constant is missing. Then none is set.
        """
        pairs = [
            word
            for name, value in constants.items()
            for word in (name, as_tensor(value, lists=True))
        ]
        self.mod["load_late_bound_consts_from_map"](*pairs)
        self._given = "load_late_bound_consts_from_map"

    def move_late_bound_consts(self, path: str | os.PathLike[str], byte_limit: int) -> None:
        """Write constants of at least `byte_limit` bytes to the file `path`, for
        `load_late_bound_consts`.

        `save` then returns the code without them. The open program keeps them, and its machines
        continue to work.

        Raises:
            IncompatibleError: the bytecode is of TVM 0.8 or before, which always contains its
                constants.
            OSError: the file cannot be written. Then nothing has changed.
        """
        self.mod["move_late_bound_consts"](os.fspath(path), byte_limit)

    def get_late_bound_consts(self, byte_limit: int) -> dict[str, Tensor]:
        """As `move_late_bound_consts`, but return the constants of at least `byte_limit` bytes by
        name, for `load_late_bound_consts_from_map`.
        """
        return load_param_dict(self.mod["get_late_bound_consts"](byte_limit))


@dataclass(frozen=True)
class InstructionTime:
    """The time of an instruction of a program.

    Attributes:
        function: name of the function with the instruction.
        instruction: position in the function.
        opcode: "InvokePacked", "AllocTensor", ...
        kernel: the kernel that InvokePacked calls; None for other opcodes.
        count: number of executions in all calls together.
        seconds: mean per call of the profiled function, all executions together.
    """

    function: str
    instruction: int
    opcode: str
    kernel: str | None
    count: int
    seconds: float


class VirtualMachine(Benchmarked):
    """Runs a program. One thread at a time may use a machine. Machines of one program are
    independent.

    Args:
        exe: the program, or its module.
        device: where it runs: `mblob.cpu(0)`, or a list of devices.
        memory_cfg: "pooled" (the default: memory is kept for the next call), "naive", or one of
            them per device.

    Attributes:
        module: the machine's own module; its functions have TVM's names.
    """

    NAIVE_ALLOCATOR = ALLOCATORS["naive"]
    POOLED_ALLOCATOR = ALLOCATORS["pooled"]

    def __init__(
        self,
        exe: Executable | Module,
        device: Device | Sequence[Device],
        memory_cfg: Allocator | Mapping[Device, Allocator] | None = None,
    ) -> None:
        self._exec = exe if isinstance(exe, Executable) else Executable(exe)
        self.module = self._exec.mod["vm_load_executable"]()
        self._outputs: dict[str, tuple[Any, ...]] = {}
        devices = devices_of("VirtualMachine", device)
        self._made_of = (
            self._exec,
            device if isinstance(device, Device) else list(devices),
            memory_cfg,
        )
        if not any(d.device_type == CPU.device_type for d in devices):
            devices.append(CPU)  # TVM adds it too: it computes shapes
        self.module["init"](*placements(devices, memory_cfg))

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickle has the library, the devices and no inputs: the machine is created again."""
        return type(self), self._made_of

    def __repr__(self) -> str:
        return f"<mblob.vm.VirtualMachine: {self._exec._signatures()}>"

    def set_input(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Set all inputs of the function `func_name`, for all calls from now on: by position, by
        name, or some of each.

        Inputs are arrays, numbers, and lists or tuples of them. Names that are not parameters are
        ignored.

        Raises:
            TypeError: an input is missing, or there are too many.
        """
        self.module["set_input"](func_name, *self._arguments(func_name, args, kwargs))

    def _arguments(
        self, func_name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> list[Any]:
        """Arguments in the order of the parameters, as the runtime takes them."""
        names: Sequence[str | int] = range(len(args))
        if kwargs:
            params = self._exec.get_function_params(func_name)
            rest = iter(args)
            missing = [p for p in params if p not in kwargs]
            if len(missing) != len(args):
                unknown = [name for name in kwargs if name not in params]
                of = f"; it has no parameter {', '.join(map(repr, unknown))}" if unknown else ""
                which = f"{len(missing)} more argument{'s' * (len(missing) != 1)}"
                which += f" ({', '.join(missing)})" if missing else ""
                raise ArgumentTypeError(
                    f"{func_name}({', '.join(params)}): expected {which}, found {len(args)}{of}"
                )
            args, names = tuple(kwargs[p] if p in kwargs else next(rest) for p in params), params
        return [_argument(value, name, func_name) for value, name in zip(args, names)]

    def set_one_input(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Set one input of the function `func_name`: `set_one_input("main", "x", array)`, by index,
        or `set_one_input("main", x=array)`.
        """
        pairs = [*kwargs.items()] if kwargs else [args]
        if len(pairs) != 1 or len(pairs[0]) != 2 or (args and kwargs):
            raise ArgumentTypeError("set_one_input: expected one name or index and one array")
        tag, value = pairs[0]
        self.module["set_one_input"](func_name, tag, _argument(value, tag, func_name))

    def set_outputs(self, func_name: str, *outputs: Any) -> None:
        """Copy the results of the next call of `func_name` into the arrays `outputs`, which are
        aligned to 64 bytes (`mblob.empty`)."""
        self.module["set_outputs"](func_name, *outputs)
        self._outputs[func_name] = outputs  # their memory is used then

    def invoke(self, func_name: str, *args: Any, **kwargs: Any) -> Any:
        """Call the function `func_name`; gives an array, or an ADT of them.

        Inputs given here are used in this call only. Without any, the inputs of `set_input` are
        used.

        Raises:
            ValueError: no inputs are given, and one was not set.
            KernelError: a kernel failed; the text names instruction and kernel. The machine can be
                used again.
        """
        return _result(self._call("invoke", func_name, args, kwargs))

    def invoke_with_outputs(
        self, func_name: str, input_args: Mapping[str, Any], output_args: Sequence[Any]
    ) -> None:
        """Call the function `func_name`, and copy its results into arrays.

        Args:
            input_args: its inputs by name.
            output_args: the arrays, which are aligned to 64 bytes (`mblob.empty`).
        """
        self.set_outputs(func_name, *output_args)
        self.invoke(func_name, **input_args)

    def _call(
        self, name: str, func_name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        given = self._arguments(func_name, args, kwargs)
        try:
            return self.module[name](func_name, *given)
        finally:
            self._outputs.pop(func_name, None)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function "main"."""
        return self.invoke("main", *args, **kwargs)

    def invoke_stateful(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Call the function `func_name`, as `invoke` does; `get_outputs` has what it returned."""
        self._call("invoke_stateful", func_name, args, kwargs)

    def _timed_run(self, asked: BenchmarkRun) -> Callable[[], object]:
        name = asked.func_name or "main"
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
            for value in self.get_outputs():
                _copied(value)

        set_inputs()
        return once if asked.end_to_end else partial(self.invoke_stateful, name)

    def profile(
        self, *args: Any, func_name: str = "main", repeat: int = 1, **kwargs: Any
    ) -> list[InstructionTime]:
        """Time of each instruction in `repeat` calls of the function `func_name`. An instruction
        `InvokePacked` calls a kernel.

        A call of another function of the program is an instruction, too. Its time is that of the
        call only; the instructions inside have their own rows. Inputs stay set, as for `benchmark`.
        """
        if args or kwargs:
            self.set_input(func_name, *args, **kwargs)
        rows = json.loads(self.module["profile"](func_name, repeat))
        self._outputs.pop(func_name, None)
        return [InstructionTime(**row) for row in rows]

    def get_outputs(self) -> list[Any]:
        """The result of the last call: one array, or the fields of its tuple."""
        return [
            _result(self.module["get_output"](i)) for i in range(self.module["get_num_outputs"]())
        ]

    def get_input_index(self, input_name: str, func_name: str = "main") -> int:
        """Position of the input `input_name`, -1 if the function `func_name` has none of that name."""
        return int(self.module["get_input_index"](input_name, func_name))

    def set_limits(self, instructions: int = 0, memory: int = 0) -> None:
        """Limit a call: `instructions` that it may execute, `memory` in bytes of storage that may
        be in use; 0: no limit.
        """
        self.module["set_limits"](instructions, memory)


def _result(value: Any) -> Any:
    return ADT(value) if isinstance(value, Module) and value.type_key == ADT_KEY else value


def _copied(value: Any) -> Any:
    """A copy of a result, tuples field by field."""
    if isinstance(value, ADT):
        return [_copied(field) for field in value]
    return empty(value.shape, value.dtype).copyfrom(value)


def _argument(value: Any, key: str | int, func_name: str, nesting: int = 1) -> Any:
    """An input as the runtime takes it; `key` and `func_name` are for errors.

    Raises:
        OverflowError: a number is outside of the type that numbers become.
        TypeError: it is no array, number, or list or tuple of such.
    """
    if isinstance(value, ADT):
        return value.module
    if isinstance(value, (list, tuple)):
        check_nesting(nesting, key, func_name)
        return get_global_func("runtime.Tuple")(
            *(_argument(item, key, func_name, nesting + 1) for item in value)
        )
    dtype = NUMBERS.get(type(value))
    if dtype is not None:
        return scalar(value, dtype, key, func_name)
    if not isinstance(value, Tensor) and getattr(value, "shape", None) == ():
        import numpy as np

        return np.asarray(value)
    return as_tensor(value, what=f"{func_name}: input {key!r}: ")
