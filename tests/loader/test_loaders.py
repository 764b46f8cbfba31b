"""Loaders written in Python: when they run, what they are told, who finds what they return."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mblob
from mblob.compilers import include_flags
from mblob.errors import ArgumentTypeError, StateError
from mblob.loader import _call
from mblob.native.runtime import address_of, ffi, lib
from tests.packager.plugins import plugin

ENTRIES = [("library", None), ("test_key", b"payload")]
IMPORTS = [[1], []]


def constant(value: object) -> Callable[[memoryview, Any], mblob.Module]:
    """A loader of a module with one function, `value`."""
    return lambda payload, ctx: mblob.Module(
        ctx.type_key, functions={"value": lambda: value}, payload=payload
    )


@pytest.fixture
def library(tree_library: Callable[..., Path], tmp_path: Path) -> Path:
    return tree_library(tmp_path / "lib.so", ENTRIES, IMPORTS)


def test_a_loader_runs_once_on_the_first_use_of_a_function(library: Path) -> None:
    calls = []

    def loader(payload: memoryview, ctx: Any) -> mblob.Module:
        calls.append(
            (
                bytes(payload),
                payload.readonly,
                ctx.type_key,
                ctx.index,
                ctx.path,
                ctx.dialect,
                ctx.imports,
            )
        )
        return mblob.Module(ctx.type_key, functions={"value": lambda: 3, "other": lambda: 4})

    lib = mblob.load_module(library, loaders={"test_key": loader})
    entry = lib.imported_modules[0]
    assert (entry.type_key, bytes(entry.payload), entry.get_source(), entry.imported_modules) == (
        "test_key",
        b"payload",
        "",
        [],
    )
    assert calls == []
    assert (lib["value"](), lib["value"](), entry.get_function("other")()) == (3, 3, 4)
    assert calls == [(b"payload", True, "test_key", 1, str(library), "classic", [])]


def test_a_kernel_finds_the_functions_of_a_python_loader(library: Path) -> None:
    def loader(payload: memoryview, ctx: Any) -> mblob.Module:
        return mblob.Module(
            ctx.type_key,
            functions={"join": lambda text, n: f"{text} {n} {bytes(payload).decode()}"},
        )

    lib = mblob.load_module(library, loaders={"test_key": loader})
    assert lib["call_by_name"]("join", "a", 2) == "a 2 payload"


def test_a_function_alone_keeps_what_its_kernel_looks_up(library: Path) -> None:
    call = mblob.load_module(library, loaders={"test_key": constant(5)})["call_by_name"]
    assert call("value") == 5


def test_a_kernel_that_finds_no_function_gets_an_error(library: Path) -> None:
    lib = mblob.load_module(library, loaders={"test_key": constant(5)})
    with pytest.raises(mblob.KernelError, match="nothing_of_the_kind"):
        lib["call_by_name"]("nothing_of_the_kind")


def test_a_kernel_finds_registered_functions_last(library: Path) -> None:
    mblob.register_func("test.loaders.global", lambda: "global", override=True)
    lib = mblob.load_module(library, loaders={"test_key": constant(5)})
    assert lib["call_by_name"]("test.loaders.global") == "global"


def test_a_tree_that_is_gone_does_not_get_in_the_way_of_another_of_the_same_library(
    library: Path,
) -> None:
    first = mblob.load_module(library, loaders={"test_key": constant(1)})
    call = first["call_by_name"]
    second = mblob.load_module(library, loaders={"test_key": constant(2)})
    del first
    assert call("value") in (1, 2)
    with pytest.raises(mblob.KernelError, match="absent"):
        call("absent")
    del call
    assert second["call_by_name"]("value") == 2
    with pytest.raises(mblob.KernelError, match="absent"):
        second["call_by_name"]("absent")


def test_a_library_that_c_code_opened_uses_registered_python_loaders(
    tree_library: Callable[..., Path], tmp_path: Path, mapped: Callable[[Path], bool]
) -> None:
    path = tree_library(
        tmp_path / "c.so", [("library", None), ("test_from_c", b"payload")], IMPORTS
    )
    mblob.register_loader("test_from_c", constant("from python"))
    module, found = ffi.new("mblob_module **"), ffi.new("mblob_function **")
    assert lib.mblob_open(bytes(path), ffi.NULL, module) == 0
    assert lib.mblob_module_function(module[0], b"call_by_name", 0, found) == 0
    lib.mblob_module_release(module[0])
    call = _call.PackedFunction(address_of(found[0]), "call_by_name", None)
    assert call("value") == "from python"
    del call
    assert not mapped(path)


def test_loaders_of_the_open_come_before_registered_ones(library: Path) -> None:
    mblob.register_loader("test_key")(constant("registered"))
    assert mblob.load_module(library)["value"]() == "registered"
    assert mblob.load_module(library, loaders={"test_key": constant("given")})["value"]() == "given"


@pytest.mark.parametrize(
    "name", ["runtime.module.loadbinary_test_named", "ffi.Module.load_from_bytes.test_named"]
)
def test_loaders_are_registered_under_the_names_of_tvm(
    tree_library: Callable[..., Path], tmp_path: Path, name: str
) -> None:
    mblob.register_func(name, constant(name), override=True)
    path = tree_library(tmp_path / "lib.so", [("library", None), ("test_named", b"")], IMPORTS)
    assert mblob.load_module(path)["value"]() == name


def test_the_imports_of_the_file_hang_below_what_a_loader_returns(
    tree_library: Callable[..., Path], tmp_path: Path
) -> None:
    path = tree_library(
        tmp_path / "lib.so",
        [("test_outer", b"o"), ("test_inner", b"i"), ("library", None)],
        [[1, 2], [], []],
    )
    made = {}

    def outer(payload: memoryview, ctx: Any) -> mblob.Module:
        made["outer"] = mblob.Module(
            "anything", functions={"twice": lambda: 2 * ctx.imports[0]["value"]()}
        )
        made["imports"] = ctx.imports
        return made["outer"]

    lib = mblob.load_module(path, loaders={"test_outer": outer, "test_inner": constant(21)})
    assert (lib.type_key, [m.type_key for m in lib.imported_modules]) == (
        "test_outer",
        ["test_inner", "library"],
    )
    assert lib["twice"]() == 42
    assert lib["give_int"]() == -7
    assert made["imports"] == lib.imported_modules
    assert made["outer"].imported_modules == lib.imported_modules
    assert not lib.implements_function("give_int")


def test_a_shared_module_is_the_same_object_and_loaded_once(
    tree_library: Callable[..., Path], tmp_path: Path
) -> None:
    path = tree_library(
        tmp_path / "lib.so",
        [("library", None), ("test_l", b""), ("test_r", b""), ("test_key", b"")],
        [[1, 2], [3], [3], []],
    )
    lib = mblob.load_module(path, missing="stub")
    left, right = lib.imported_modules
    assert left.imported_modules[0] is right.imported_modules[0]


def test_a_loader_may_return_a_module_of_the_file(
    tree_library: Callable[..., Path], tmp_path: Path
) -> None:
    path = tree_library(tmp_path / "lib.so", [("test_pass", b""), ("library", None)], [[1], []])
    lib = mblob.load_module(path, loaders={"test_pass": lambda payload, ctx: ctx.imports[0]})
    assert lib.get_function("give_int")() == -7


def test_a_loader_may_return_another_library(library: Path, kernels: Path) -> None:
    lib = mblob.load_module(library, loaders={"test_key": lambda p, c: mblob.load_module(kernels)})
    assert lib.imported_modules[0].get_function("give_float")() == 1.5


def test_an_exception_of_a_loader_is_the_cause_of_the_error(library: Path) -> None:
    error = ZeroDivisionError("inside")

    def loader(payload: memoryview, ctx: Any) -> mblob.Module:
        raise error

    lib = mblob.load_module(library, loaders={"test_key": loader})
    with pytest.raises(
        mblob.MblobError, match=r"loader of module 1 \('test_key'\) of .*lib\.so failed.*inside"
    ) as caught:
        lib["value"]
    assert caught.value.__cause__ is error
    with pytest.raises(mblob.MblobError, match="inside") as caught:
        lib["call_by_name"]("value")
    assert caught.value.__cause__ is error


def test_a_loader_must_return_a_module(library: Path) -> None:
    lib = mblob.load_module(library, loaders={"test_key": lambda payload, ctx: 3})
    with pytest.raises(TypeError, match="expected it to return a Module, found int"):
        lib["value"]


def test_a_loader_that_asks_for_its_own_module_gets_an_error(library: Path) -> None:
    def loader(payload: memoryview, ctx: Any) -> mblob.Module:
        lib["value"]
        raise AssertionError("not reached")

    lib = mblob.load_module(library, loaders={"test_key": loader})
    with pytest.raises(StateError, match="asked for a function of the module it opens"):
        lib["value"]


def test_asking_a_library_for_what_it_has_not_runs_no_loader_of_its_imports(library: Path) -> None:
    calls = []

    def loader(payload: memoryview, ctx: Any) -> mblob.Module:
        calls.append(1)
        return mblob.Module(ctx.type_key, functions={})

    lib = mblob.load_module(library, loaders={"test_key": loader})
    assert not lib.implements_function("nothing")
    assert calls == []


@pytest.mark.parametrize("key", ["", 3])
def test_a_loader_is_registered_for_a_key_and_must_be_callable(key: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^register_loader: key: expected"):
        mblob.register_loader(key)
    with pytest.raises(TypeError, match="expected a callable"):
        mblob.register_loader("test_bad", 3)


# -- nobody loads it -------------------------------------------------------------------------------


@pytest.fixture
def unknown(tree_library: Callable[..., Path], tmp_path: Path) -> Path:
    return tree_library(tmp_path / "lib.so", [("library", None), ("test_nobody", b"xyz")], IMPORTS)


def test_a_missing_loader_is_found_when_the_library_is_opened(unknown: Path) -> None:
    mblob.register_loader("test_somebody")(constant(1))
    with pytest.raises(mblob.LoaderMissingError, match="test_nobody") as caught:
        mblob.load_module(unknown)
    assert (caught.value.type_key, caught.value.entry) == ("test_nobody", 1)
    assert "test_somebody" in caught.value.available
    assert caught.value.hint
    assert "\n" not in str(caught.value)


def test_a_stub_opens_and_calling_into_it_fails(unknown: Path) -> None:
    lib = mblob.load_module(unknown, missing="stub")
    assert lib["give_int"]() == -7
    stub = lib.imported_modules[0]
    assert bytes(stub.payload) == b"xyz"
    with pytest.raises(mblob.LoaderMissingError) as caught:
        stub.get_function("value")
    assert caught.value.type_key == "test_nobody"
    with pytest.raises(mblob.LoaderMissingError):
        lib["value"]
    assert not lib.implements_function("value", query_imports=True)


def test_a_loader_registered_later_serves_a_stub(
    tree_library: Callable[..., Path], tmp_path: Path
) -> None:
    path = tree_library(tmp_path / "lib.so", [("library", None), ("test_later", b"")], IMPORTS)
    lib = mblob.load_module(path, missing="stub")
    mblob.register_loader("test_later")(constant("late"))
    assert lib["value"]() == "late"


def test_data_opens_without_a_loader(tree_library: Callable[..., Path], tmp_path: Path) -> None:
    path = tree_library(tmp_path / "lib.so", [("library", None), ("plain_data", b"123")], IMPORTS)
    lib = mblob.load_module(path)
    assert bytes(lib.imported_modules[0].payload) == b"123"
    with pytest.raises(AttributeError, match="no function"):
        lib["value"]


def distribution(folder: Path, type_key: str, functions: str) -> Path:
    """A folder of installed packages with one that offers a loader, whose modules have these
    functions."""
    sys.modules.pop("offers", None)  # of another test
    site = folder / "site"
    info = site / "offers-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: offers\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[mblob.loaders]\n{type_key} = offers:load\n")
    (site / "offers.py").write_text(
        f"import mblob\ndef load(payload, ctx):\n    return mblob.Module(ctx.type_key, functions={functions})\n"
    )
    return site


def test_an_installed_distribution_offers_a_loader(
    tree_library: Callable[..., Path], tmp_path: Path, monkeypatch: Any
) -> None:
    site = distribution(tmp_path, "test_offered", "{'value': lambda: 'offered'}")
    monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
    path = tree_library(tmp_path / "lib.so", [("library", None), ("test_offered", b"")], IMPORTS)
    assert mblob.load_module(path)["value"]() == "offered"


@pytest.mark.parametrize(
    ("source", "error", "text"),
    [
        ("raise OSError('no licence')", StateError, "failed to load: no licence"),
        ("load = 3", ArgumentTypeError, "expected a function, found 3"),
    ],
)
def test_an_offered_loader_that_is_none_is_named(
    source: str,
    error: type[Exception],
    text: str,
    tree_library: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = distribution(tmp_path, "test_broken", "{}")
    (site / "offers.py").write_text(source)
    monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
    path = tree_library(tmp_path / "lib.so", [("library", None), ("test_broken", b"")], IMPORTS)
    with pytest.raises(error, match=text) as caught:
        mblob.load_module(path)
    assert "'test_broken' (entry point 'offers:load')" in str(caught.value)


OFFERS = """
import mblob, sys
def go(name):
    return mblob.load_module(name).imported_modules[0]
held = mblob.load_module("carries.so")
for name in ("carries.so", "plain.so", "carries.so", "plain.so"):
    print(go(name).get_function("size")(), end=" ")
    print(mblob.load_module(name)["ask"](), end=" ")
print(held.imported_modules[0]["size"]())
import os
os.environ["MBLOB_PLUGIN_PATH"] = sys.argv[1]
print(go("plain.so")["size"](), go("carries.so")["size"]())
mblob.register_loader("toy_key", lambda payload, ctx: mblob.Module("toy_key", functions={"size": lambda: 300}))
print(go("plain.so")["size"](), go("carries.so")["size"]())
"""
ASKS = """
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/c_runtime_api.h>
extern void *__tvm_module_ctx;
void *__tvm_module_ctx = NULL;
int ask(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code, void *resource) {
  TVMFunctionHandle size;
  if (TVMBackendGetFuncFromEnv(__tvm_module_ctx, "size", &size)) return -1;
  return TVMFuncCall(size, args, codes, 0, ret, ret_code);
}
"""


@pytest.mark.slow
def test_installed_distributions_come_last(
    tmp_path: Path, cc: Callable[..., Path], root: Path, monkeypatch: Any
) -> None:
    """Behind what a library carries and what is on the path, whatever was opened before; kernels
    find the same."""
    site = distribution(tmp_path, "toy_key", "{'size': lambda: 100 + len(payload)}")
    plug_in = plugin(after_size=" + 200")
    flags = (*include_flags(), "-DMBLOB_HOST", "-fvisibility=hidden")
    on_path = cc(plug_in, tmp_path / "path.so", *flags)
    for name, carry in (("carries.so", [mblob.csource_module(plugin())]), ("plain.so", [])):
        host = mblob.csource_module(ASKS)
        host.import_module(mblob.blob_module("toy_key", b"abc", data=False))
        host.export_library(tmp_path / name, carry=carry)
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.delenv("MBLOB_PLUGIN_PATH", raising=False)
    line = [sys.executable, "-c", OFFERS, str(on_path)]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["3 3 103 103 3 3 103 103 3", "203 3", "300 300"]


def test_each_opening_uses_its_own_loader(library: Path) -> None:
    """Also one that takes over what an earlier opening left behind."""
    held = mblob.load_module(library, loaders={"test_key": constant(0)})
    for value in (1, 2, 3):
        lib = mblob.load_module(library, loaders={"test_key": constant(value)})
        assert lib["call_by_name"]("value") in (0, value)  # the kernel finds it in either opening
        assert lib["value"]() == value
        del lib
    assert held["value"]() == 0


# -- trees by hand ---------------------------------------------------------------------------------


def test_an_imported_library_serves_the_kernels_of_the_importer(
    library: Path, kernels: Path
) -> None:
    lib = mblob.load_module(library, loaders={"test_key": constant(1)})
    lib.import_module(mblob.load_module(kernels))
    assert lib["call_by_name"]("give_float") == 1.5
    assert [m.type_key for m in lib.imported_modules] == ["test_key", "library"]


def test_importing_a_module_that_imports_this_one_is_refused(kernels: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.so"
    other.write_bytes(kernels.read_bytes())
    a, b = mblob.load_module(kernels), mblob.load_module(other)
    a.import_module(b)
    with pytest.raises(ValueError, match="cycle"):
        b.import_module(a)


def test_importing_above_a_module_of_a_file_is_checked_for_cycles(library: Path) -> None:
    lib = mblob.load_module(library, loaders={"test_key": constant(1)})
    with pytest.raises(ValueError, match="cycle"):
        lib.imported_modules[0].import_module(lib)


@pytest.mark.sample(1)
@pytest.mark.parametrize("missing", ["data", "stub"])
def test_a_miss_in_a_tree_of_many_modules_takes_linear_time(
    tree_library: Callable[..., Path],
    tmp_path: Path,
    missing: str,
    count_calls: Callable[[Callable[[], object]], int],
) -> None:
    key = "plain_data" if missing == "data" else "test_nobody"

    def misses(count: int) -> int:
        rows = [list(range(1, count + 1)), *([] for _ in range(count))]
        path = tree_library(
            tmp_path / f"{count}.so", [("library", None), *[(key, b"")] * count], rows
        )
        lib = mblob.load_module(path, missing="stub")
        len(lib.imported_modules)  # the modules of the tree are made once

        def miss() -> None:
            assert not lib.implements_function("absent", query_imports=True)
            with pytest.raises((AttributeError, mblob.LoaderMissingError)):
                lib["absent"]
            with pytest.raises(AttributeError, match="no function 'absent'"):
                lib.get_function("absent")

        miss()  # what is imported once is imported
        return count_calls(miss)

    fixed, once, twice = misses(0), misses(500), misses(1000)
    assert twice - fixed < 2.2 * (once - fixed)
