"""Constants that leave a program, as TVM's move_late_bound_consts does it, and come back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.loader.executors import vm_programs
from tests.loader.executors.vm_programs import Late

CPU = mblob.cpu(0)
X, Y, W = np.ones(4, "float32"), np.array([1, 2, 3, 4], "float32"), np.arange(4, dtype="float32")
EXPECTED = (X + W) * Y


def executable(module: Any) -> mblob.vm.Executable:
    return mblob.vm.Executable(module)


@pytest.mark.parametrize("release", [r for r in vm_programs.RELEASES if int(r.split(".")[1]) >= 9])
def test_moved_constants_are_in_the_file_and_not_in_the_code(
    load: Any, tmp_path: Path, release: str
) -> None:
    exe = executable(load(vm_programs.arithmetic(), release))
    whole, lib = exe.save()
    machine = mblob.vm.VirtualMachine(exe, CPU)
    path = tmp_path / "consts"
    exe.move_late_bound_consts(path, W.nbytes)
    kept = mblob.load_param_dict(path.read_bytes())
    assert {name: value.numpy().tolist() for name, value in kept.items()} == {"const_0": W.tolist()}
    code = exe.save()[0]
    assert W.tobytes() in whole
    assert W.tobytes() not in code
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith("consts")] == ["consts"]
    # the program itself has lost nothing
    np.testing.assert_array_equal(machine.run(X, Y).numpy(), EXPECTED)
    other = mblob.vm.Executable.load_exec(code, lib)
    with pytest.raises(ValueError, match="constant 'const_0' is kept in a file of its own"):
        mblob.vm.VirtualMachine(other, CPU).run(X, Y)
    other.load_late_bound_consts(path)
    np.testing.assert_array_equal(mblob.vm.VirtualMachine(other, CPU).run(X, Y).numpy(), EXPECTED)


def test_constants_as_arrays_of_all_sizes_and_again(load: Any) -> None:
    exe = executable(load(vm_programs.arithmetic()))
    lib = exe.lib
    assert exe.get_late_bound_consts(2**40) == {}
    assert exe.save()[0] == vm_programs.arithmetic().code()
    some = exe.get_late_bound_consts(16)
    names = ["const_0", "const_1", "const_2"]
    assert set(some) == {"const_0"}
    found = mblob.vm.Executable.load_exec(exe.save()[0], lib)
    with pytest.raises(ValueError, match="constant 'const_0' is kept in a file of its own"):
        found.get_late_bound_consts(0)
    found.load_late_bound_consts_from_map(some)
    everything = found.get_late_bound_consts(0)  # those that were bound late keep their names
    assert sorted(everything) == names[: len(everything)]
    assert len(everything) > 1
    last = mblob.vm.Executable.load_exec(found.save()[0], lib)
    last.load_late_bound_consts_from_map(everything)
    np.testing.assert_array_equal(mblob.vm.VirtualMachine(last, CPU).run(X, Y).numpy(), EXPECTED)


def test_names_that_meet_are_refused(load: Any) -> None:
    program = vm_programs.arithmetic()
    program.constants = [*program.constants[:1], Late("const_0"), *program.constants[2:]]
    exe = executable(load(program))
    exe.load_late_bound_consts_from_map({"const_0": np.int64(0)})
    before = exe.save()[0]
    with pytest.raises(mblob.FormatError, match="two constants would be called 'const_0'"):
        exe.get_late_bound_consts(0)
    assert exe.save()[0] == before


def test_what_fails_changes_nothing(load: Any, tmp_path: Path) -> None:
    exe = executable(load(vm_programs.arithmetic()))
    before = exe.save()[0]
    with pytest.raises(OSError, match="no/such/folder"):
        exe.move_late_bound_consts(tmp_path / "no/such/folder", 0)
    with pytest.raises(ValueError, match="byte_limit -1, expected at least 0"):
        exe.get_late_bound_consts(-1)
    with pytest.raises(OSError, match=r"folder: Is a directory"):
        (tmp_path / "folder").mkdir()
        exe.move_late_bound_consts(tmp_path / "folder", 0)
    assert exe.save()[0] == before
    assert [p.name for p in tmp_path.iterdir() if "mblob-" in p.name] == []


MOVE = """
import resource, signal, sys, mblob
exe = mblob.vm.Executable(mblob.load_module(sys.argv[1]))
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
if int(sys.argv[3]):
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)  # the write of more ends the process
exe.move_late_bound_consts(sys.argv[2], 1024)
"""


REFUSE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#define REFUSE(open)                                                                      \\
  int open(const char *path, int flags, ...) {                                            \\
    va_list args;                                                                         \\
    va_start(args, flags);                                                                \\
    const unsigned mode = va_arg(args, unsigned);                                         \\
    va_end(args);                                                                         \\
    if ((flags & O_TMPFILE) == O_TMPFILE) return errno = EOPNOTSUPP, -1;                  \\
    return ((int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #open))(path, flags, mode); \\
  }
REFUSE(open)
REFUSE(open64)
"""


def move(library: Path, place: Path, limit: int = 0, **environment: str) -> int:
    command = [sys.executable, "-c", MOVE, str(library), str(place), str(limit)]
    return subprocess.run(command, env={**os.environ, **environment}, check=False).returncode


def test_a_process_that_is_killed_while_it_writes_leaves_no_file(
    golden: Path, tmp_path: Path
) -> None:
    place = tmp_path / "weights"
    assert move(golden / "vm_mlp.so", place, 4096) == -signal.SIGXFSZ
    assert list(tmp_path.iterdir()) == []
    place.write_bytes(b"before")
    assert move(golden / "vm_mlp.so", place, 4096) == -signal.SIGXFSZ
    assert list(tmp_path.iterdir()) == [place]
    assert place.read_bytes() == b"before"
    (tmp_path / ".weights.mblob-new").write_bytes(b"of one that was killed while it named the file")
    (tmp_path / "weights.new").write_bytes(b"of the user")
    assert move(golden / "vm_mlp.so", place) == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["weights", "weights.new"]
    assert "const_3" in mblob.load_param_dict(place.read_bytes())


def test_a_file_system_without_nameless_files_gets_the_same_file(
    golden: Path, tmp_path: Path, cc: Callable[..., Path]
) -> None:
    preload = cc(REFUSE, tmp_path / "refuse.so", "-ldl")
    for name in ("plain", "refused"):
        (tmp_path / name).mkdir()
    assert move(golden / "vm_mlp.so", tmp_path / "plain" / "w") == 0
    for _ in range(2):
        assert move(golden / "vm_mlp.so", tmp_path / "refused" / "w", LD_PRELOAD=str(preload)) == 0
    assert [p.name for p in (tmp_path / "refused").iterdir()] == ["w"]
    assert (tmp_path / "refused" / "w").read_bytes() == (tmp_path / "plain" / "w").read_bytes()
    assert (tmp_path / "refused" / "w").stat().st_mode == (tmp_path / "plain" / "w").stat().st_mode


def test_many_writers_of_one_place_leave_one_whole_file(load: Any, tmp_path: Path) -> None:
    place, errors = tmp_path / "consts", []

    def write(exe: mblob.vm.Executable) -> None:
        try:
            for _ in range(100):
                exe.move_late_bound_consts(place, W.nbytes)
                assert "const_0" in mblob.load_param_dict(place.read_bytes())
        except BaseException as error:
            errors.append(error)

    threads = [
        threading.Thread(target=write, args=(executable(load(vm_programs.arithmetic())),))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith("consts")] == ["consts"]


@pytest.mark.parametrize("release", ["0.7.0", "0.8.0"])
def test_bytecode_that_has_no_names_for_constants(load: Any, release: str) -> None:
    exe = executable(load(vm_programs.arithmetic(), release))
    with pytest.raises(
        mblob.IncompatibleError, match=r"bytecode of 0\.\d .*has no constants that are bound late"
    ):
        exe.get_late_bound_consts(0)


def test_a_model_of_tvm_without_its_weights(golden: Path, tmp_path: Path) -> None:
    exe = executable(mblob.load_module(golden / "vm_mlp.so"))
    size = len(exe.save()[0])
    exe.move_late_bound_consts(tmp_path / "weights", 1024)
    code, lib = exe.save()
    assert len(code) < size - 60_000
    other = mblob.vm.Executable.load_exec(code, lib)
    other.load_late_bound_consts(tmp_path / "weights")
    with np.load(golden / "mlp_llvm.npz") as known:
        found = mblob.vm.VirtualMachine(other, CPU).run(known["data"]).numpy()
        np.testing.assert_allclose(found, known["out"], rtol=1e-5)
