"""Libraries that leave the runtime's functions undefined (TVM target="c", float16 code of LLVM)
from Python."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.compilers import include_flags
from tests.e2e.programs import ROOT, exported, run

KERNELS = ROOT / "tests" / "c" / "kernels"
FDS = Path("/proc/self/fd")

# Opens argv[1] beside another runtime that is loaded globally, argv[2], if there is one.
HOST = """
import ctypes, sys
import numpy as np
if len(sys.argv) > 2:
    other = ctypes.CDLL(sys.argv[2], mode=ctypes.RTLD_GLOBAL)
    other.own_call.restype = ctypes.c_void_p
    own = ctypes.cast(other.TVMFuncCall, ctypes.c_void_p).value
import mblob
mblob.register_func("host.answer", lambda *args: 42)
module = mblob.load_module(sys.argv[1])
assert module["constructor_ran"]() == 1
assert module["weak_ones"]() == 1
assert module["asks"]() == 42
a = np.arange(1000, dtype="f")
out = np.empty_like(a)
module["two_stages"](a, out)
assert (out == (a + 1) * 2).all()
halves = np.array([1.5], "e")
module["half_to_float"](halves.view("u2"), out[:1])
assert out[0] == 1.5
here = module["address_of_call"]()
process = ctypes.CDLL(None)
if len(sys.argv) > 2:
    assert here != own and other.own_call() == own
    assert ctypes.cast(process.TVMFuncCall, ctypes.c_void_p).value == own
else:
    assert not hasattr(process, "TVMFuncCall") and not hasattr(process, "__gnu_f2h_ieee")
print("fine")
"""


def compile_library(
    output: Path, *flags: str, source: Path = KERNELS / "c_target.c", cc: str = ""
) -> Path:
    compiler = cc or os.environ.get("CC") or "cc"
    run(
        compiler, "-std=gnu11", "-O2", "-fPIC", "-shared", "-DMBLOB_HOST", "-nodefaultlibs",
        *include_flags(), source, "-o", output, *flags, "-lc",
    )  # fmt: skip
    return output


def undefined(library: Path) -> set[str]:
    return {
        line.split()[-1]
        for line in run("nm", "-D", "--undefined-only", library).stdout.splitlines()
    }


@pytest.fixture(scope="session")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_library(tmp_path_factory.mktemp("undefined") / "kernels.so")


@pytest.fixture
def module(kernels: Path) -> mblob.Module:
    return mblob.load_module(kernels)


def host(*arguments: object, **environment: str) -> None:
    done = run(sys.executable, "-c", HOST, *arguments, env={**os.environ, **environment}, cwd=ROOT)
    assert done.stdout == "fine\n"


LINKS = {
    "lazy": ["-Wl,-z,lazy"],
    "now": ["-Wl,-z,now"],
    "now, relro": ["-Wl,-z,now,-z,relro"],
    "norelro": ["-Wl,-z,norelro"],
    "no plt": ["-fno-plt"],
    "one segment": ["-Wl,-z,noseparate-code"],
    "sysv hash": ["-Wl,--hash-style=sysv"],
    "both hashes": ["-Wl,--hash-style=both"],
    "symbolic": ["-Wl,-Bsymbolic"],
    "relr": ["-Wl,-z,pack-relative-relocs"],
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("flags", LINKS.values(), ids=LINKS)
def test_however_it_is_linked_it_opens(tmp_path: Path, flags: list[str]) -> None:
    library = compile_library(tmp_path / "k.so", *flags)
    assert {"TVMBackendAllocWorkspace", "__gnu_f2h_ieee"} <= undefined(library)
    host(library)
    host(library, LD_BIND_NOW="1")


@pytest.mark.parametrize("linker", ["bfd", "gold", "lld", "mold"])
@pytest.mark.parametrize("now", ["-Wl,-z,lazy", "-Wl,-z,now"])
def test_whichever_linker_made_it_it_opens(
    tmp_path: Path, require: Callable[[str], str], linker: str, now: str
) -> None:
    require("mold" if linker == "mold" else f"ld.{linker}")
    host(compile_library(tmp_path / "k.so", f"-fuse-ld={linker}", now))


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_whichever_compiler_made_it_it_opens(
    tmp_path: Path, require: Callable[[str], str], compiler: str
) -> None:
    host(compile_library(tmp_path / "k.so", cc=require(compiler)))


@pytest.mark.parametrize("environment", [{}, {"LD_BIND_NOW": "1"}], ids=["lazy", "LD_BIND_NOW"])
def test_another_runtime_in_the_process_neither_serves_nor_sees(
    tmp_path: Path, kernels: Path, environment: dict[str, str]
) -> None:
    fake = tmp_path / "fake_runtime.so"
    run("cc", "-O2", "-fPIC", "-shared", KERNELS / "fake_runtime.c", "-o", fake)
    host(kernels, fake, **environment)


def test_every_function_of_tvm_that_the_runtime_has_is_bound(tmp_path: Path) -> None:
    runtime = next((ROOT / "loader" / "_lib").glob("libmblob.so.0"))
    names = {name for name in exported(runtime) if not name.startswith("mblob_")}
    assert "TVMBackendParallelLaunch" in names
    source = tmp_path / "all.c"
    array = ", ".join(f"(void *){name}" for name in sorted(names))
    text = "".join(f"extern int {name}(void);\n" for name in sorted(names))
    source.write_text(
        f"{text}void *const all[] = {{{array}}};\nint f(void);\nint f(void) {{ return 0; }}\n"
    )
    run(
        "cc",
        "-w",
        "-fno-builtin",
        "-fPIC",
        "-shared",
        "-nodefaultlibs",
        source,
        "-o",
        tmp_path / "all.so",
        "-lc",
    )
    mblob.load_module(tmp_path / "all.so")


def test_what_nobody_has_is_one_clear_error(tmp_path: Path) -> None:
    source = tmp_path / "k.c"
    source.write_text(
        "extern void *TVMBackendAllocWorkspace(int, int, unsigned long, int, int);\n"
        "extern int TVMNobodyHasThis(void);\n"
        "int f(void); int f(void) { return TVMNobodyHasThis() + (TVMBackendAllocWorkspace(1, 0, 8, 0, 8) != 0); }\n"
    )
    library = compile_library(tmp_path / "k.so", source=source)
    with pytest.raises(mblob.IncompatibleError) as caught:
        mblob.load_module(library)
    text = str(caught.value)
    assert "\n" not in text
    assert str(library) in text
    assert "undefined symbol: TVMNobodyHasThis" in text
    assert "TVM's runtime" in text


def test_from_bytes_and_from_a_descriptor_it_opens_too(kernels: Path) -> None:
    a, out = np.zeros(3, "f"), np.empty(3, "f")
    mblob.load_module(kernels.read_bytes())["two_stages"](a, out)
    assert (out == 2).all()
    with kernels.open("rb") as file:
        mblob.load_module(file)["two_stages"](out, a)
    assert (a == 6).all()


def test_objects_that_leave_them_undefined_open_as_well(tmp_path: Path) -> None:
    target = tmp_path / "k.o"
    run(
        "cc",
        "-O1",
        "-fPIC",
        "-DMBLOB_HOST",
        *include_flags(),
        "-c",
        KERNELS / "c_target.c",
        "-o",
        target,
    )
    assert mblob.load_module(target)["constructor_ran"]() == 1


def test_a_large_blob_is_not_copied(tmp_path: Path, packed_blob_of: Callable[[int], bytes]) -> None:
    size = 48 << 20
    (tmp_path / "blob.bin").write_bytes(packed_blob_of(size))
    blob = tmp_path / "blob.c"
    blob.write_text(
        f'#include "{KERNELS}/c_target.c"\n'
        '__asm__(".section .tvm_mblob,\\"a\\"\\n.balign 64\\n.globl __tvm_dev_mblob\\n"\n'
        '".type __tvm_dev_mblob, %object\\n__tvm_dev_mblob:\\n"\n'
        f'".incbin \\"{tmp_path}/blob.bin\\"\\n.size __tvm_dev_mblob, . - __tvm_dev_mblob\\n.text");\n'
    )
    library = compile_library(tmp_path / "large.so", source=blob)
    gc.collect()  # a number that is freed meanwhile would be used again
    before = set(FDS.iterdir())
    module = mblob.load_module(library)
    copies = []
    for link in set(FDS.iterdir()) - before:
        if link.exists() and str(link.readlink()).startswith("/memfd:large.so"):
            copies.append(link.stat().st_blocks * 512)
    assert len(copies) == 1
    assert copies[0] < 1 << 20
    assert module["constructor_ran"]() == 1
    data = module.imported_modules[0].payload
    assert len(data) == size
    assert data[:4].tobytes() == b"\1\2\3\4"
    assert data[size // 2] == 7
    assert data[-1] == 9


@pytest.fixture
def packed_blob_of() -> Callable[[int], bytes]:
    from mblob.bytes.payload_source import BytesPayload
    from mblob.bytes.sink import BytesSink
    from mblob.format.blob_plan import BlobPlan, OutEntry

    def make(size: int) -> bytes:
        payload = bytearray(size)
        payload[:4], payload[size // 2], payload[-1] = b"\1\2\3\4", 7, 9
        sink = BytesSink()
        entries = [
            OutEntry("library", None, (1,)),
            OutEntry("my_key", BytesPayload(bytes(payload)), data=True),
        ]
        BlobPlan(entries).write(sink)
        return bytes(sink.data)

    return make


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["plain", "two\nlines\n", "ä€🎉 100 % s %n", "x" * 300_000],
    ids=["plain", "lines", "utf8", "long"],
)
def test_the_text_of_a_kernel_arrives_intact(module: mblob.Module, text: str) -> None:
    with pytest.raises(mblob.KernelError) as caught:
        module["fails_with"](text)
    assert str(caught.value) == text


def test_a_search_path_with_origin_still_finds_its_neighbours(tmp_path: Path) -> None:
    run("cc", "-fPIC", "-shared", KERNELS / "neighbour.c", "-o", tmp_path / "libneighbour.so")
    both = tmp_path / "both.c"
    both.write_text(
        "".join(f'#include "{KERNELS}/{name}.c"\n' for name in ("c_target", "needs_neighbour"))
    )
    for tags in ("--enable-new-dtags", "--disable-new-dtags"):
        library = compile_library(
            tmp_path / f"k{tags}.so",
            f"-L{tmp_path}",
            "-lneighbour",
            f"-Wl,{tags},-rpath,$ORIGIN",
            source=both,
        )
        listed = run("readelf", "-d", library).stdout
        assert re.search(r"(RUN|R)PATH.*\$ORIGIN", listed)
        assert mblob.load_module(library)["asks_neighbour"]() == 11
    done = subprocess.run(
        [sys.executable, "-c", HOST, str(library)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout == "fine\n", done.stderr


# -- what a library needs --------------------------------------------------------------------------

ADDS = """
#include <stddef.h>
#include <stdint.h>
void *TVMBackendAllocWorkspace(int, int, uint64_t, int, int);
int TVMBackendFreeWorkspace(int, int, void *);
double add_one(double x) {
  double *place = TVMBackendAllocWorkspace(1, 0, 64, 2, 64);
  if (!place) return -1;
  *place = x;
  x = *place + 1;
  return TVMBackendFreeWorkspace(1, 0, place) ? -1 : x;
}
"""
ASKS = "double add_one(double); double add_two(double x) { return add_one(add_one(x)); }\n"
KERNEL = """
double NAME(double);
void *__tvm_module_ctx;
int kernel(double *args, int *codes, int count, double *ret, int *code, void *self) {
  (void)codes; (void)count; (void)self;
  *ret = NAME(args[0]);
  *code = 2;
  return 0;
}
"""


@pytest.fixture
def link(tmp_path: Path, require: Callable[[str], str]) -> Callable[..., Path]:
    """`link(name, source, *libraries)`: a library in the folder, which finds the others there."""

    def make(name: str, source: str, *flags: str) -> Path:
        output = tmp_path / name
        ld = [f"-L{tmp_path}", "-Wl,-rpath,$ORIGIN", "-Wl,--no-as-needed"]
        run(require("cc"), "-xc", "-fPIC", "-shared", "-", "-o", output, *ld, *flags, input=source)
        return output

    return make


def test_what_a_library_needs_is_bound_too(link: Callable[..., Path]) -> None:
    needed = link("libadds.so", ADDS, "-Wl,-soname,libadds.so")
    between = link("libasks.so", ASKS, "-Wl,-soname,libasks.so", "-ladds")
    kernel = link("kernel.so", KERNEL.replace("NAME", "add_two"), "-lasks")
    for _ in range(2):
        module = mblob.load_module(kernel)
        assert module["kernel"](1.5) == 3.5
        del module
        maps = Path("/proc/self/maps").read_text()
        assert not any(str(path) in maps for path in (needed, between, kernel))


def test_marks_of_linkers_may_lie_behind_all_segments(
    link: Callable[..., Path], require: Callable[[str], str]
) -> None:
    """Libraries that gold linked export `_end`; then bfd exports it from what needs them."""
    require("ld.gold")
    link("libmarks.so", "int marks(void) { return 3; }", "-fuse-ld=gold", "-Wl,-soname,libmarks.so")
    host = mblob.csource_module(
        "int doubled(int x) { return 2 * x; }", functions=["int doubled(int x)"]
    )
    host.import_module(mblob.blob_module("some.data", b"bytes"))
    path = link("unused.so", "int unused;").with_name("marked.so")
    needs = [f"-L{path.parent}", "-Wl,--no-as-needed", "-lmarks", "-Wl,-rpath,$ORIGIN"]
    host.export_library(path, options=needs)
    assert "_end" in run("nm", "-D", path).stdout
    assert mblob.load_module(path)["doubled"](4) == 8


def errors_of(path: Path) -> list[str]:
    """What opening a library twice says, in a process in which nothing else gives it a runtime."""
    program = (
        "import mblob\n"
        "for _ in range(2):\n"
        f"    try: mblob.load_module({str(path)!r})\n"
        "    except mblob.IncompatibleError as error: print(error)\n"
    )
    return run(sys.executable, "-c", program, cwd=ROOT).stdout.splitlines()


def test_what_cannot_be_bound_says_what_to_do(link: Callable[..., Path]) -> None:
    link("libadds.so", ADDS)
    kernel = link("kernel.so", KERNEL.replace("NAME", "add_one"), "-ladds")
    said = errors_of(kernel)
    expected = r"libadds.so: undefined symbol: TVMBackend.*if that has a SONAME: link"
    assert len(said) == 2 and all(re.search(expected, text) for text in said), said


def test_libraries_that_need_each_other_are_an_error(link: Callable[..., Path]) -> None:
    more = "double OTHER(double); double also_NAME(double x) { return OTHER(x); }"
    one, two = (
        (ADDS.replace("add_one", name) + more).replace("NAME", name).replace("OTHER", other)
        for name, other in (("one", "two"), ("two", "one"))
    )
    link("libtwo.so", two, "-Wl,-soname,libtwo.so")
    kernel = link("libone.so", one, "-Wl,-soname,libone.so", "-ltwo")
    link("libtwo.so", two, "-Wl,-soname,libtwo.so", "-lone")
    assert "undefined symbol: TVMBackend" in errors_of(kernel)[0]


@pytest.mark.parametrize("binds", [True, False])
def test_a_library_of_tvm_that_is_not_there_is_not_needed(
    link: Callable[..., Path], tmp_path: Path, binds: bool
) -> None:
    link("libtvm_runtime.so", "int nothing;", "-Wl,-soname,libtvm_runtime.so")
    source = KERNEL.replace("NAME", "add_one") + (
        ADDS if binds else "double add_one(double x) { return x + 1; }"
    )
    kernel = link("kernel.so", source, "-ltvm_runtime")
    (tmp_path / "libtvm_runtime.so").unlink()
    assert mblob.load_module(kernel)["kernel"](1.5) == 2.5
    link("libother.so", "int nothing;", "-Wl,-soname,libother.so")
    broken = link("broken.so", source, "-lother")
    (tmp_path / "libother.so").unlink()
    with pytest.raises(
        mblob.IncompatibleError, match=r"libother.so: cannot open shared object file"
    ):
        mblob.load_module(broken)
