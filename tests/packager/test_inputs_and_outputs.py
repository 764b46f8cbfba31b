"""Files that may be packed, and places for the output: kinds of files, names of outputs, outputs
that are inputs, depth."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.cli.arrays import read_array
from mblob.compilers import include_flags
from mblob.packager.compile import toolchain
from mblob.packager.device import modules as device_modules
from mblob.packager.errors import BuildError
from mblob.packager.link.build import BuildPlan, build
from mblob.packager.link.manifest import load
from mblob.packager.path_arguments import output_path
from mblob.source_suffixes import FORMAT_OF, SOURCES
from tests.packager.conftest import VADD_C

# -- outputs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["source", "object", "addon", "payload", "weights", "shader"])
@pytest.mark.parametrize("link", ["the name", "a symbolic link", "a hard link"])
def test_an_output_that_is_an_input_is_refused(tmp_path: Path, kind: str, link: str) -> None:
    path = tmp_path / "in.so"
    if kind == "object":
        subprocess.run(["gcc", "-c", "-x", "c", "-", "-o", path], input=b"int f;", check=True)
    elif kind == "weights":
        with path.open("wb") as file:
            np.savez(file, w=np.zeros(1))
    else:
        path.write_text("int f;\n")
    root = mblob.csource_module("int g;\n")
    kwargs: dict[str, Any] = {}
    if kind == "source":
        root.import_module(mblob.csource_module(path, fmt="c"))
    elif kind == "object":
        root.import_module(mblob.static_library(path))
    elif kind == "payload":
        root.import_module(mblob.blob_module("k", path))
    elif kind == "weights":
        root.import_module(mblob.safetensors_module(path))
    elif kind == "shader":
        functions = [("f", ["handle"], [])]
        root.import_module(mblob.device_module("metal", {"f": path}, functions))
    else:
        kwargs["addons"] = [path]
    output = path
    if link != "the name":
        output = tmp_path / "out.so"
        (os.symlink if link == "a symbolic link" else os.link)(path, output)
    before = path.read_bytes()
    with pytest.raises(BuildError, match=r"the output is also .*in\.so.*name another output"):
        root.export_library(output, **kwargs)
    assert path.read_bytes() == before


def test_an_output_that_is_a_link_to_itself_is_refused(tmp_path: Path, vadd: mblob.Module) -> None:
    loop = tmp_path / "loop.so"
    loop.symlink_to("other.so")
    (tmp_path / "other.so").symlink_to("loop.so")
    with pytest.raises(OSError, match=r"Too many levels of symbolic links.*loop\.so") as caught:
        vadd.export_library(loop)
    assert caught.value.errno == errno.ELOOP
    assert [str(p.readlink()) for p in (loop, tmp_path / "other.so")] == ["other.so", "loop.so"]
    assert not list(tmp_path.glob(".loop*"))


def test_an_output_that_is_the_manifest_is_refused(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text("int f;\n")
    (tmp_path / "m.toml").write_text('output = "m.toml"\nkernels = ["k.c"]\n')
    with pytest.raises(BuildError, match="the output is also the manifest"):
        build(load(tmp_path / "m.toml"))
    assert (tmp_path / "m.toml").read_text().startswith("output")


@pytest.mark.parametrize(
    "name", [f"x{suffix}" for suffix in (*SOURCES, ".o", ".a", ".cubin", ".tar.gz", ".tgz", ".zip")]
)
def test_a_file_that_we_do_not_write_is_refused_by_its_name(
    tmp_path: Path, vadd: mblob.Module, name: str
) -> None:
    with pytest.raises(
        BuildError, match=r"expected a name that ends in \.so \(a shared library\) or \.tar"
    ):
        vadd.export_library(tmp_path / name)
    assert not (tmp_path / name).exists()


def test_every_format_of_device_code_is_refused_as_a_name(tmp_path: Path) -> None:
    others = {"webgpu", "vulkan", "cuda"}  # which no file is called by
    for suffix in {f for formats in device_modules._FORMATS.values() for f in formats} - others:
        with pytest.raises(BuildError, match=r"expected a name that ends in \.so"):
            output_path(tmp_path / f"x.{suffix}", by_caller=False, system_lib=False)


@pytest.mark.parametrize("name", ["x.so", "x", "x.so.1.2"])
def test_a_library_may_have_any_name_of_one(tmp_path: Path, vadd: mblob.Module, name: str) -> None:
    vadd.export_library(tmp_path / name)
    assert (tmp_path / name).read_bytes()[:4] == b"\x7fELF"


@pytest.mark.parametrize("name", ["x.dll", "x.dylib", "x.exe"])
def test_a_name_of_another_kind_of_library_is_refused(
    tmp_path: Path, vadd: mblob.Module, name: str
) -> None:
    with pytest.raises(BuildError, match=rf"{name}: the compiler makes ELF files; .* x\.so"):
        vadd.export_library(tmp_path / name)
    assert not (tmp_path / name).exists()


def test_the_mode_of_an_output_is_kept(tmp_path: Path, vadd: mblob.Module) -> None:
    path = tmp_path / "x.so"
    for mode in (0o600, 0o444, 0o775):
        path.touch()
        path.chmod(mode)
        vadd.export_library(path)
        assert path.stat().st_mode & 0o7777 == mode


def test_an_fcompile_that_writes_nothing(tmp_path: Path, tree: mblob.Module) -> None:
    (tmp_path / "x.so").write_bytes(b"old")

    def lazy(file_name: str, files: list[str], **kwargs: Any) -> str:
        return "done"

    with pytest.raises(
        mblob.ToolchainError, match=r"fcompile lazy returned, but did not write .*x\.so"
    ):
        tree.export_library(tmp_path / "x.so", lazy)
    assert (tmp_path / "x.so").read_bytes() == b"old"


@pytest.mark.parametrize("suffix", FORMAT_OF)
def test_an_fcompile_gets_the_folder_of_our_headers_for_any_source(
    tmp_path: Path, suffix: str
) -> None:
    addon = tmp_path / f"more{suffix}"
    addon.touch()
    given: list[str] = []

    def link(file_name: str, files: list[str], options: Any = (), **kwargs: Any) -> None:
        assert str(addon) in files
        given.extend(options)
        Path(file_name).touch()

    command = ["gcc", "-c", "-x", "c", "-", "-o", tmp_path / "k.o"]
    subprocess.run(command, input=b"int f;", check=True)
    mblob.static_library(tmp_path / "k.o").export_library(tmp_path / "x.so", link, addons=[addon])
    assert {*include_flags()} <= {*given}


# -- arguments -------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["-c", "-S", "-E", "-fsyntax-only", "--version"])
def test_an_option_that_stops_before_the_link(
    tmp_path: Path, vadd: mblob.Module, option: str
) -> None:
    with pytest.raises(
        BuildError, match=f"options: {option} makes the compiler stop before it links"
    ):
        vadd.export_library(tmp_path / "x.so", options=["-O3", option])
    with pytest.raises(BuildError, match=f"options: {option}"):
        mblob.csource_module("int f;", options=option)


def test_arguments_of_the_wrong_type(tmp_path: Path, vadd: mblob.Module) -> None:
    with pytest.raises(TypeError, match=r"addons: expected a list of paths, found 'a\.o'"):
        vadd.export_library(tmp_path / "x.so", addons="a.o")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"fcompile: expected a function .*found 'clang'; .*cc="):
        vadd.export_library(tmp_path / "x.so", fcompile="clang")
    with pytest.raises(
        BuildError, match="an iterable of buffers, found ndarray: cannot include dtype"
    ):
        mblob.blob_module("raw", np.zeros(4, "M8[s]"))
    with pytest.raises(
        TypeError,
        match=r"blob_module: payload\[1\]: expected contiguous bytes-like data, found int",
    ):
        mblob.blob_module("k", [b"x", 1])


def test_a_list_of_buffers_is_packed_as_often_as_one_likes(tmp_path: Path) -> None:
    root = mblob.csource_module("int g;\n")
    root.import_module(mblob.blob_module("k", [b"ab", bytearray(b"cd")]))
    for _ in range(2):
        root.export_library(tmp_path / "x.so")
        with mblob.open(tmp_path / "x.so") as lib:
            assert bytes(lib.entries[1].view()) == b"abcd"


@pytest.mark.parametrize("key", ["a\0b", "\0"])
def test_a_key_with_a_nul(key: str) -> None:
    with pytest.raises(BuildError, match="has a NUL in it"):
        mblob.blob_module(key, b"")


# -- kinds of files --------------------------------------------------------------------------------


def test_what_is_no_regular_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as s:
        s.bind("socket")
        refused = {
            tmp_path / "pipe": "a pipe",
            Path("/dev/null"): "a device",
            Path("socket"): "a socket",
        }
        for path, what in refused.items():
            for make in (
                lambda p: mblob.blob_module("k", p),
                mblob.csource_module,
                mblob.static_library,
            ):
                for given in (path, str(path)):
                    with pytest.raises(OSError, match=f"{what}, expected a regular file"):
                        make(given)


@pytest.mark.parametrize("kind", ["a device", "a socket", "a pipe"])
def test_files_of_verbs_are_regular_files_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """What never ends, or never begins, was read: a manifest, a graph, parameters, what to
    convert, an array on the command line."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vadd.c").write_text("int vadd(int a) { return a; }")
    (tmp_path / "graph.json").write_text("{}")
    named = tmp_path / "x.npy"
    if kind == "a pipe":
        os.mkfifo(named)
    elif kind == "a device":
        named.symlink_to("/dev/null")
    with socket.socket(socket.AF_UNIX) as s:
        if kind == "a socket":
            s.bind("x.npy")
        kernels = [Path("vadd.c")]
        out = Path("x.so")
        for read in (
            lambda: load(named),
            lambda: build(BuildPlan(out, kernels=kernels, graph=named)),
            lambda: build(BuildPlan(out, kernels=kernels, graph=Path("graph.json"), params=named)),
            lambda: mblob.convert(named, out, dialect="ffi"),
            lambda: mblob.convert("vadd.c", out, dialect="ffi", objects=[named]),
            lambda: read_array(0, str(named), None),
        ):
            with pytest.raises(OSError, match=f"{kind}, expected a regular file"):
                read()
    assert not out.exists()


def test_a_folder_is_no_source(tmp_path: Path) -> None:
    for given in (tmp_path, str(tmp_path)):
        with pytest.raises(IsADirectoryError, match="a folder, expected a file"):
            mblob.csource_module(given)


def test_a_file_without_a_size_is_read_to_its_end(tmp_path: Path) -> None:
    root = mblob.csource_module("int g;\n")
    module = mblob.blob_module("k", "/proc/version")
    root.import_module(module)
    root.export_library(tmp_path / "x.so")
    with mblob.open(tmp_path / "x.so", verify="full") as lib:
        assert (
            bytes(lib.entries[1].view())
            == Path("/proc/version").read_bytes()
            == bytes(module.payload)
        )


def test_an_empty_file_is_an_empty_payload(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    root = mblob.csource_module("int g;\n")
    root.import_module(mblob.blob_module("k", tmp_path / "empty"))
    root.export_library(tmp_path / "x.so")
    with mblob.open(tmp_path / "x.so", verify="full") as lib:
        assert lib.entries[1].size == 0


def test_objects_and_sources_are_not_taken_for_each_other(
    tmp_path: Path, vadd: mblob.Module
) -> None:
    vadd.export_library(tmp_path / "d.so")
    (tmp_path / "d.c").write_bytes((tmp_path / "d.so").read_bytes())
    (tmp_path / "a.c").write_bytes(b"!<arch>\n")
    (tmp_path / "vadd.c").write_text(VADD_C)
    for name, what in (("d.so", "an ELF file"), ("d.c", "an ELF file"), ("a.c", "an archive")):
        with pytest.raises(BuildError, match=f"{what}, expected a source"):
            build(BuildPlan(tmp_path / "x.so", kernels=[tmp_path / name]))
    with pytest.raises(BuildError, match=r"vadd\.c: expected an ELF object file or an archive"):
        build(BuildPlan(tmp_path / "x.so", objects=[tmp_path / "vadd.c"]))


def test_the_suffix_of_a_source_is_one_that_we_know(tmp_path: Path) -> None:
    for name in ("k.foo", "k.s", "k.S"):
        (tmp_path / name).write_text("int f;\n")
    with pytest.raises(BuildError, match=r"expected the suffix of a source, one of .c, .cc"):
        mblob.csource_module(tmp_path / "k.foo")
    for name in ("k.s", "k.S"):
        with pytest.raises(BuildError, match="assembler, expected C, C"):
            mblob.csource_module(tmp_path / name)
    mblob.csource_module(tmp_path / "k.foo", fmt="c").export_library(tmp_path / "x.so")


# -- depth -----------------------------------------------------------------------------------------


def chain(count: int, built: str) -> list[mblob.Module]:
    """A host module and `count` payloads, each importing the next."""
    modules = [mblob.csource_module("int f;\n")]
    modules += [mblob.blob_module("k", b"x") for _ in range(count)]
    pairs = list(zip(modules, modules[1:]))
    for a, b in pairs if built == "from the top" else reversed(pairs):
        a.import_module(b)
    return modules


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::mblob.HiddenNameWarning")
@pytest.mark.parametrize("built", ["from the top", "from the bottom"])
def test_a_long_chain_takes_linear_time(
    tmp_path: Path, built: str, count_calls: Callable[[Callable[[], object]], int]
) -> None:
    def export(count: int) -> Callable[[], object]:
        return lambda: chain(count, built)[0].export_library(tmp_path / "x.so")

    export(0)()  # what is imported and asked of the compiler once
    fixed, once, twice = (count_calls(export(count)) for count in (0, 1000, 2000))
    assert twice - fixed < 2.2 * (once - fixed)


LENGTHS = [
    ("from the top", 5_000),
    *(
        pytest.param(built, 50_000, marks=mark)
        for built, mark in (
            ("from the top", pytest.mark.slow),
            ("from the bottom", pytest.mark.nightly),
        )
    ),
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::mblob.HiddenNameWarning")
@pytest.mark.parametrize(("built", "count"), LENGTHS)
def test_a_chain_of_any_length_is_packed(
    tmp_path: Path, built: str, count: int, peak_memory: Callable[[Callable[[], object]], int]
) -> None:
    modules = chain(count, built)
    assert peak_memory(lambda: modules[0].export_library(tmp_path / "x.so")) < count * 4096
    with mblob.open(tmp_path / "x.so") as lib:
        assert len(lib.entries) == count + 1
    with pytest.raises(ValueError, match="a cycle"):
        modules[-1].import_module(modules[0])


def test_a_library_deep_in_a_tree_is_named_by_its_last_steps(tmp_path: Path) -> None:
    modules = [mblob.csource_module("int f;\n"), *(mblob.blob_module("k", b"x") for _ in range(20))]
    modules.append(mblob.Module("library"))
    for a, b in zip(modules, modules[1:]):
        a.import_module(b)
    with pytest.raises(BuildError, match=r"^root\.\.\.(\.imported_modules\[0\]){8} is a 'library'"):
        modules[0].export_library(tmp_path / "x.so")


# -- tools -----------------------------------------------------------------------------------------


@pytest.fixture
def failing_cc(tmp_path: Path) -> Callable[[str], str]:
    """`failing_cc(text)`: a compiler whose links fail with a text."""

    def make(text: str) -> str:
        (tmp_path / "cc").write_text(
            f'#!/bin/sh\ncase "$*" in *-shared*) echo {text!r}; exit 1;; esac\nexec gcc "$@"\n'
        )
        (tmp_path / "cc").chmod(0o755)
        return str(tmp_path / "cc")

    return make


def test_a_disk_that_is_full_for_the_linker(
    tmp_path: Path, vadd: mblob.Module, failing_cc: Callable[[str], str]
) -> None:
    cc = failing_cc("ld: final link failed: No space left on device")
    with pytest.raises(OSError, match="No space left on device") as error:
        vadd.export_library(tmp_path / "x.so", cc=cc)
    assert not isinstance(error.value, mblob.MblobError)


def test_a_linker_that_crashes_on_a_full_disk(
    tmp_path: Path,
    vadd: mblob.Module,
    failing_cc: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cc = failing_cc("collect2: fatal error: ld terminated with signal 7 [Bus error]")
    with pytest.raises(mblob.ToolchainError, match="Bus error"):
        vadd.export_library(tmp_path / "x.so", cc=cc)
    import shutil

    full = shutil.disk_usage(tmp_path)._replace(free=0)
    monkeypatch.setattr("mblob.packager.compile.processes.shutil.disk_usage", lambda path: full)
    with pytest.raises(OSError, match="No space left on device"):
        vadd.export_library(tmp_path / "x.so", cc=cc)


@pytest.mark.sample(1)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_any_signal_that_raises_ends_compilers_and_leaves_nothing(
    tmp_path: Path, root: Path, processes_with: Callable[[str], list[str]], number: signal.Signals
) -> None:
    (tmp_path / "cc").write_text(
        f'#!/bin/sh\ncase "$*" in *-shared*) echo > {tmp_path}/started; sleep 300;; esac\nexec gcc "$@"\n'
    )
    (tmp_path / "cc").chmod(0o755)
    script = textwrap.dedent(
        f"""
        import signal, mblob
        def leave(number, frame):
            raise SystemExit(128 + number)
        signal.signal({int(number)}, leave)
        mblob.csource_module("int f;").export_library({str(tmp_path / "x.so")!r}, cc={str(tmp_path / "cc")!r})
        """
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": str(root)}
    )
    deadline = time.monotonic() + 30
    while not (tmp_path / "started").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(number)
    assert process.wait(30) == 128 + number
    assert sorted(p.name for p in tmp_path.iterdir()) == ["TMPDIR", "cc", "started"]
    assert processes_with(str(tmp_path / "cc")) == []


VECTORS = """// tvm target: c -keys=cpu
#include "tvm/runtime/c_runtime_api.h"
#include "tvm/runtime/c_backend_api.h"
#ifdef __cplusplus
extern "C"
#endif
TVM_DLL int32_t f(float *a) { *(float4*)a = float4(1, 2, 3, 4); return 0; }
"""


@pytest.mark.parametrize("cc", ["gcc", "clang", "g++", "clang++"])
def test_every_compiler_takes_tvms_vectors_and_plain_c(
    tmp_path: Path, require: Callable[[str], str], cc: str
) -> None:
    require(cc)
    require({"gcc": "g++", "clang": "clang++"}.get(cc, cc))  # TVM's vector code is C++
    root = mblob.csource_module(VECTORS)
    root.import_module(mblob.csource_module("int class(int new) { return new; }\n"))
    root.export_library(tmp_path / "x.so", cc=cc)
    with mblob.open(tmp_path / "x.so") as lib:
        assert lib.plain_functions == ["class", "f"]


@pytest.mark.parametrize("given", [{}, {"cc": "clang"}])
def test_a_target_that_clang_has_no_library_for(
    require: Callable[[str], str], given: dict[str, str]
) -> None:
    require("clang")
    with pytest.raises(
        mblob.ToolchainError,
        match=r"no C compiler.* for sparc-linux-gnu.*install gcc-sparc-linux-gnu",
    ):
        toolchain.find(target="sparc-linux-gnu", **given)


def test_cuda_source_without_its_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "k.cu").write_text("int f;\n")
    monkeypatch.setenv("NVCC", "no-such-nvcc")
    with pytest.raises(
        mblob.ToolchainError, match="no CUDA compiler found: no-such-nvcc is not installed"
    ):
        mblob.csource_module(tmp_path / "k.cu").export_library(tmp_path / "x.so")
