"""Opened libraries, executors and virtual machines in pickles: what arrives in another process, and
what is refused there."""

from __future__ import annotations

import copy
import errno
import io
import os
import pickle
import platform
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.loader import pickled
from tests.loader.executors import vm_programs
from tests.loader.executors.test_aot_executor import model as aot_model  # noqa: F401 (a fixture)
from tests.loader.executors.test_graph_executor import library as graph_library  # noqa: F401

pytestmark = [
    pytest.mark.own_process,
    pytest.mark.filterwarnings("ignore::mblob.PortabilityWarning"),  # the graph runs here
]

X = np.arange(6, dtype="float32").reshape(2, 3)
CPU = mblob.cpu(0)
Worker = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def worker(tmp_path: Path) -> Worker:
    """`worker(value, code)`: another process unpickles `value` as `it`, and runs the code."""

    def run(value: object, code: str, protocol: int = 4) -> subprocess.CompletedProcess[str]:
        path = tmp_path / "value.pickle"
        path.write_bytes(value if isinstance(value, bytes) else pickle.dumps(value, protocol))
        program = (
            "import pickle, sys\nimport numpy as np\nfrom pathlib import Path\n"
            f"data = Path({str(path)!r}).read_bytes()\nit = pickle.loads(data)\n{code}"
        )
        return subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False
        )

    return run


@pytest.fixture
def library(graph_library: Path, tmp_path: Path) -> Path:  # noqa: F811
    """A copy that a test may change: graph, parameters and kernels."""
    return Path(shutil.copy(graph_library, tmp_path / "model.so"))


def printed(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """What a process that failed printed last: its error."""
    assert done.returncode == 1
    return done.stderr.strip().rpartition("\n")[2]


# -- what arrives ----------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [2, 5])
@pytest.mark.parametrize("with_bytes", [False, True])
def test_a_module_arrives_with_its_functions_tensors_and_imports(
    library: Path, worker: Worker, with_bytes: bool, protocol: int
) -> None:
    lib = mblob.load_module(library)
    given = lib.with_bytes() if with_bytes else lib
    data = pickle.dumps(given, protocol)
    assert (library.stat().st_size < len(data)) == with_bytes
    code = "print(it.type_key, sorted(it.functions), [m.type_key for m in it.imported_modules])"
    expected = (
        f"{lib.type_key} {sorted(lib.functions)} {[m.type_key for m in lib.imported_modules]}"
    )
    if with_bytes:
        library.unlink()
    assert printed(worker(data, code)) == expected


def test_a_pickle_names_nothing_to_run_but_the_functions_that_open(library: Path) -> None:
    named = set()

    class Reader(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            named.add(f"{module}.{name}")
            return super().find_class(module, name)

    gm = mblob.graph_executor.GraphModule(mblob.load_module(library)["default"](CPU))
    Reader(io.BytesIO(pickle.dumps(gm))).load()
    assert named == {
        "mblob.loader.graph_executor.GraphModule",
        "mblob.loader.pickled.made_module",
        "mblob.loader.pickled.file_module",
        "mblob.devices.Device",
    }


def test_an_import_and_a_function_arrive(library: Path, worker: Worker) -> None:
    lib = mblob.load_module(library)
    code = "print(it.type_key, len(it.imported_modules))"
    assert printed(worker(lib.imported_modules[0], code)) == "library 0"
    assert printed(worker(lib["scale"], "print(it.name)")) == "scale"
    with pytest.raises(TypeError, match="a function without a module cannot be pickled"):
        pickle.dumps(mblob.get_global_func("mblob.python_prefix"))


OUTPUTS = (
    "it.run(x=np.arange(6, dtype='f').reshape(2, 3)); print(it.get_output(0).numpy().tolist())"
)


@pytest.mark.parametrize("with_bytes", [False, True])
def test_a_graph_executor_arrives_without_its_inputs(
    library: Path, worker: Worker, with_bytes: bool
) -> None:
    lib = mblob.load_module(library)
    gm = mblob.graph_executor.GraphModule((lib.with_bytes() if with_bytes else lib)["default"](CPU))
    gm.run(x=X)
    expected = str(gm.get_output(0).numpy().tolist())
    if with_bytes:
        library.unlink()
        assert printed(worker(gm, OUTPUTS)) == expected
    assert printed(worker(gm, OUTPUTS)) == expected
    again = pickle.loads(pickle.dumps(gm))
    assert not again.get_input("x").numpy().any()
    assert gm.get_input("x").numpy().any()


def test_executors_of_create_and_for_debugging_arrive(library: Path, worker: Worker) -> None:
    lib = mblob.load_module(library)
    params = "import mblob; it.load_params(mblob.save_param_dict({'w': np.ones((2, 3), 'f')}));"
    for made in (
        mblob.graph_executor.create(lib["get_graph_json"](), lib, CPU),
        mblob.graph_executor.create_debug(lib["get_graph_json"](), lib, CPU),
    ):
        expected = str(X.tolist())
        assert printed(worker(made, params + OUTPUTS)) == expected
    debug = mblob.graph_executor.GraphModuleDebug(lib["debug_create"]("default", CPU))
    assert type(pickle.loads(pickle.dumps(debug))) is mblob.graph_executor.GraphModuleDebug


def test_an_executor_with_parameters_that_its_pickle_would_lack_is_refused(library: Path) -> None:
    lib = mblob.load_module(library)
    gm = mblob.graph_executor.create(lib["get_graph_json"](), lib, CPU)
    gm.load_params(mblob.save_param_dict({"w": np.ones((2, 3), "f")}))
    text = "parameters of load_params or share_params cannot be pickled; pack them"
    for use in (gm, gm.module, gm.module["run"], mblob.graph_executor.GraphModule(gm.module)):
        with pytest.raises(TypeError, match=text):
            pickle.dumps(use)
    other = mblob.graph_executor.create(lib["get_graph_json"](), lib, CPU)
    other.share_params(gm, mblob.save_param_dict({"w": np.ones((2, 3), "f")}))
    with pytest.raises(TypeError, match=text):
        pickle.dumps(other)
    loaded = lib["default"](CPU)
    loaded["load_params"](mblob.save_param_dict({"w": np.ones((2, 3), "f")}))
    with pytest.raises(TypeError, match=text):
        pickle.dumps(mblob.graph_executor.GraphModule(loaded))


def test_an_aot_executor_arrives(aot_model: Any, worker: Worker) -> None:  # noqa: F811
    executor = mblob.aot_executor.AotModule(aot_model()["m"](CPU))
    executor.set_input("x", np.ones(4, "f"))
    executor.run()
    code = "it.set_input('x', np.ones(4, 'f')); it.run(); print(it.get_output(0).numpy().tolist())"
    assert printed(worker(executor, code)) == str(executor.get_output(0).numpy().tolist())


@pytest.fixture
def relay_library(
    build: Callable[..., Path],
    packed_blob: Callable[..., bytes],
    kernel_source: str,
    tmp_path: Path,
) -> Path:
    payload = vm_programs.arithmetic().payload()
    blob = packed_blob([("VMExecutable", payload), ("library", None)], [[1], []])
    return build(tmp_path / "vm.so", kernel_source + vm_programs.PRIMITIVES, blob=blob)


def test_a_relay_machine_arrives_with_its_devices_and_memory(
    relay_library: Path, worker: Worker
) -> None:
    program = mblob.vm.Executable(mblob.load_module(relay_library))
    machine = mblob.vm.VirtualMachine(program, CPU, "naive")
    x = np.ones(4, "f")
    machine.set_input("main", x, x)
    code = "print(it.run(np.ones(4, 'f'), np.ones(4, 'f')).numpy().tolist())"
    assert printed(worker(machine, code)) == str(machine.run().numpy().tolist())
    assert printed(worker(program, "print(it.globals)")) == str(program.globals)
    assert pickle.loads(pickle.dumps(machine))._made_of[1:] == (CPU, "naive")
    with pytest.raises(ValueError, match="input 'x' of function 'main' has not been set"):
        pickle.loads(pickle.dumps(machine)).run()
    program.load_late_bound_consts_from_map({})
    with pytest.raises(TypeError, match="load_late_bound_consts_from_map cannot be pickled"):
        pickle.dumps(machine)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the library is compiled for x86-64")
@pytest.mark.parametrize("with_bytes", [False, True])
def test_a_relax_machine_arrives(root: Path, worker: Worker, with_bytes: bool) -> None:
    lib = mblob.load_module(root / "examples/relax/digits_relax.so")
    machine = mblob.relax.VirtualMachine(lib.with_bytes() if with_bytes else lib, CPU)
    image = np.load(root / "examples/digits/test_images.npy")[:1, None]
    code = f"print(it['main'](np.array({image.tolist()}, 'uint8')).numpy().tolist())"
    assert printed(worker(machine, code)) == str(machine["main"](image).numpy().tolist())


def test_a_copy_is_a_module_of_the_same_library(kernels: Path) -> None:
    lib = mblob.load_module(kernels)
    assert copy.copy(lib)["give_int"]() == copy.deepcopy(lib)["give_int"]() == -7


def test_bytes_travel_on_from_a_worker(kernels: Path, worker: Worker, tmp_path: Path) -> None:
    lib = mblob.load_module(shutil.copy(kernels, tmp_path / "k.so")).with_bytes()
    onward = f"Path({str(tmp_path / 'onward')!r}).write_bytes(pickle.dumps(it, 4))"
    (tmp_path / "k.so").unlink()
    printed(worker(lib, onward))
    (tmp_path / "again").mkdir()
    code = "print(it['give_int'](), it.with_bytes() is it)"
    assert printed(worker((tmp_path / "onward").read_bytes(), code)) == "-7 True"


def test_the_bytes_can_stay_outside_of_the_pickle(kernels: Path) -> None:
    buffers: list[pickle.PickleBuffer] = []
    lib = mblob.load_module(kernels).with_bytes()
    data = pickle.dumps(lib, 5, buffer_callback=buffers.append)
    assert len(data) < 1000
    assert [len(b.raw()) for b in buffers] == [kernels.stat().st_size]
    assert pickle.loads(data, buffers=buffers)["give_int"]() == -7


# -- once in each process --------------------------------------------------------------------------


@pytest.mark.parametrize("with_bytes", [False, True])
def test_a_worker_opens_a_library_once(library: Path, with_bytes: bool) -> None:
    lib = mblob.load_module(library)
    data = pickle.dumps(lib.with_bytes() if with_bytes else lib)
    found: list[mblob.Module] = []

    def take() -> None:
        found.append(pickle.loads(data))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(map(id, found))) == 1
    kept = id(found[0])
    found.clear()
    assert id(pickle.loads(data)) == kept, "between two tasks nothing uses it"


def test_a_module_with_another_import_is_not_what_is_unpickled_next(library: Path) -> None:
    data = pickle.dumps(mblob.load_module(library))
    first = pickle.loads(data)
    first.import_module(mblob.Module("mine", functions={"f": print}))
    assert len(pickle.loads(data).imported_modules) == len(first.imported_modules) - 1
    with pytest.raises(TypeError, match="got an import by import_module"):
        pickle.dumps(first)


def test_only_the_last_libraries_stay_open(kernels: Path, tmp_path: Path, mapped: Any) -> None:
    paths = [Path(shutil.copy(kernels, tmp_path / f"k{i}.so")) for i in range(pickled.KEPT + 1)]
    for path in paths:
        pickle.loads(pickle.dumps(mblob.load_module(path)))
    assert not mapped(paths[0])
    assert mapped(paths[1])


def test_a_file_is_hashed_once_until_it_changes(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.utime(library, (1, 1))
    monkeypatch.setattr(pickled, "_TICK", 0)
    hashed = []
    sha256 = pickled._sha256
    monkeypatch.setattr(pickled, "_sha256", lambda parts: hashed.append(1) or sha256(parts))
    lib = mblob.load_module(library)
    for _ in range(3):
        pickle.loads(pickle.dumps(lib))
    assert len(hashed) == 1
    shutil.copy(library, library.with_suffix(".new"))
    library.with_suffix(".new").rename(library)
    pickle.dumps(mblob.load_module(library))
    assert len(hashed) == 2


def test_a_file_that_got_another_mode_or_name_is_the_one_that_was_loaded(library: Path) -> None:
    lib = mblob.load_module(library)
    data, other = pickle.dumps(lib), library.with_suffix(".other")
    for change in (
        lambda: library.chmod(0o500),
        lambda: os.link(library, other),
        lambda: other.replace(library.with_suffix(".moved")),
        lambda: (library.rename(other), other.rename(library)),
    ):
        change()
        assert pickle.dumps(lib) == data
    assert pickle.loads(pickle.dumps(lib.with_bytes())).type_key == lib.type_key


# -- what is refused -------------------------------------------------------------------------------


def test_a_write_whose_time_was_set_back_is_seen(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.utime(library, (1, 1))
    monkeypatch.setattr(pickled, "_TICK", 0)
    lib = mblob.load_module(library)
    pickle.dumps(lib)
    with library.open("ab") as file:
        file.write(b"x")
    os.truncate(library, library.stat().st_size - 1)
    os.utime(library, (1, 1))
    pickle.dumps(lib)  # the same bytes
    with library.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read()
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last[0] ^ 1]))
    os.utime(library, (1, 1))
    for use in (pickle.dumps, lambda m: m.with_bytes()):
        with pytest.raises(mblob.MblobError, match="changed or replaced after it was loaded"):
            use(lib)


def test_a_file_that_is_gone_is_an_error_on_the_worker(library: Path, worker: Worker) -> None:
    data = pickle.dumps(mblob.load_module(library))
    library.unlink()
    line = last_line(worker(data, ""))
    assert line.startswith("FileNotFoundError: [Errno 2] the library of a pickle is not there; ")
    assert line.endswith(f"pickle library.with_bytes(): {str(library)!r}")


@pytest.mark.parametrize("change", ["replaced", "one byte"])
def test_another_file_is_an_error_on_the_worker(
    library: Path, kernels: Path, worker: Worker, change: str
) -> None:
    data = pickle.dumps(mblob.load_module(library))
    if change == "replaced":
        shutil.copy(kernels, library.with_suffix(".new"))
        library.with_suffix(".new").rename(library)
    else:
        content = bytearray(library.read_bytes())
        content[-1] ^= 1
        library.unlink()
        library.write_bytes(content)
    line = last_line(worker(data, ""))
    assert line.startswith(f"mblob.errors.DigestError: {library}: the file has the SHA-256 ")
    assert line.endswith("the library was replaced or changed; pickle it again")


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_any_more_is_an_error_that_names_the_path(
    library: Path, make: Callable[[Path], None]
) -> None:
    data = pickle.dumps(mblob.load_module(library))
    library.unlink()
    make(library)
    with pytest.raises(mblob.DigestError, match=f"{library}: .* replaced by something that is no"):
        pickle.loads(data)


def test_a_library_that_is_replaced_while_a_worker_has_it_is_an_error(
    library: Path, kernels: Path
) -> None:
    data = pickle.dumps(mblob.load_module(library))
    working = pickle.loads(data)
    gm = mblob.graph_executor.GraphModule(working["default"](CPU))
    shutil.copy(kernels, library.with_suffix(".new"))
    library.with_suffix(".new").rename(library)
    with pytest.raises(mblob.DigestError, match=rf"{library}: .* was replaced or changed"):
        pickle.loads(data)
    with pytest.raises(mblob.MblobError, match="changed or replaced after it was loaded"):
        pickle.dumps(working)
    with pytest.raises(mblob.MblobError, match="changed or replaced after it was loaded"):
        working.with_bytes()
    gm.run(x=X)  # what is open goes on
    assert pickle.loads(pickle.dumps(mblob.load_module(library)))["give_int"]() == -7


def test_bytes_that_are_damaged_on_their_way_are_an_error(kernels: Path, worker: Worker) -> None:
    data = bytearray(pickle.dumps(mblob.load_module(kernels).with_bytes(), 4))
    data[len(data) // 2] ^= 1
    line = last_line(worker(bytes(data), ""))
    assert f"DigestError: {kernels}: the file in the pickle has the SHA-256" in line


def test_bytes_for_which_there_is_no_memory_leave_no_file_open(
    kernels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = pickle.dumps(mblob.load_module(kernels).with_bytes())
    pickled._roots.clear()

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    open_files = Path("/proc/self/fd")
    before = len(list(open_files.iterdir()))
    monkeypatch.setattr(pickled.os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        pickle.loads(data)
    assert len(list(open_files.iterdir())) == before


@pytest.mark.parametrize("with_bytes", [False, True])
def test_a_worker_of_another_architecture_says_so(
    kernels: Path, worker: Worker, tmp_path: Path, with_bytes: bool
) -> None:
    """As on such a worker: the pickle fits the file, and the file is for another machine."""
    content = bytearray(kernels.read_bytes())
    content[18:20] = (183 if platform.machine() == "x86_64" else 62).to_bytes(2, "little")
    path = tmp_path / "foreign.so"
    path.write_bytes(content)
    digest = pickled._sha256([content])
    pickle_of = {
        False: (pickled.file_module, (str(path), digest, {}, 0)),
        True: (pickled.bytes_module, (str(path), digest, bytes(content), {}, 0)),
    }[with_bytes]

    class Foreign:
        def __reduce__(self) -> Any:
            return pickle_of

    line = last_line(worker(pickle.dumps(Foreign()), ""))
    assert line.startswith(f"mblob.errors.IncompatibleError: {path}")
    assert platform.machine() in line


def test_what_is_of_no_file_cannot_be_pickled(kernels: Path, library: Path) -> None:
    text = "a Module 'library' that is not of a file cannot be pickled; write the library to a file"
    memory = mblob.load_module(kernels.read_bytes())
    for use in (pickle.dumps, copy.copy, lambda m: m.with_bytes()):
        with pytest.raises(TypeError, match=text):
            use(memory)
    with pytest.raises(TypeError, match="'c' is not of an opened library; export it"):
        mblob.csource_module("int f(void) { return 1; }").with_bytes()
    key = "opened with loaders={'x': ...} cannot be pickled: a pickle has no code"
    with pytest.raises(TypeError, match=key):
        pickle.dumps(mblob.load_module(library, loaders={"x": lambda p, c: p}))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the library is compiled for x86-64")
def test_a_function_of_a_machine_says_what_to_pickle(root: Path) -> None:
    lib = mblob.load_module(root / "examples/relax/digits_relax.so")
    machine = mblob.relax.VirtualMachine(lib, CPU)
    for value in (machine.module, machine["main"]):
        with pytest.raises(
            TypeError, match=r"functions cannot be pickled; pickle .* VirtualMachine"
        ):
            pickle.dumps(value)


def test_modules_that_are_not_opened_are_pickled_as_ever(kernels: Path) -> None:
    made = mblob.csource_module("int f(void) { return 1; }")
    assert pickle.loads(pickle.dumps(made)).get_source() == made.get_source()
    assert mblob.load_module(kernels)["give_int"]() == -7


def test_how_a_library_was_opened_is_kept(kernels: Path, worker: Worker) -> None:
    lib = mblob.load_module(kernels, verify="full", missing="stub")
    assert pickle.loads(pickle.dumps(lib))._node.origin.options == {
        "verify": "full",
        "missing": "stub",
        "keep": False,
        "unload": False,
        "assume": None,
    }
    assert printed(worker(lib, "print(it['give_int']())")) == "-7"
