"""device_module from source: types that the code tells, and compilers. Compilers that are not on
this machine are played by scripts, so that command lines and errors are tested everywhere; nvcc and
clang run where they are."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mblob
from mblob.format.grammar import FunctionInfo, decode_payload
from mblob.packager.device.compilers import LANGUAGES
from mblob.packager.device.kernels import names_in_hsaco
from mblob.packager.errors import BuildError

CU = """\
// __global__ void commented(int a) {}
extern "C" __global__ void vadd(const float *a, const float *__restrict__ b, float *c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
extern "C" __global__ void __launch_bounds__(128) mixed(signed char a, unsigned short b, long long c,
                                                        double d, float *e, bool f, unsigned g) {
  *e = a + b + c + d + f + g;
}
"""
CL = """\
__kernel void scale(__global float *restrict x, const float f, uint n) { x[get_global_id(0)] *= f; }
__attribute__((reqd_work_group_size(8, 1, 1))) kernel void none(void) {}
"""
PTX = """\
//
.version 8.0
.target sm_50
.visible .entry k(
  .param .u64 k_param_0,
  .param .f32 k_param_1,
  .param .u32 k_param_2
)
{
  ld.param.u64 %rd1, [k_param_0];
  cvta.to.global.u64 %rd2, %rd1;
  ret;
}
.visible .entry doubtful(.param .u64 doubtful_param_0, .param .align 4 .b8 doubtful_param_1[12]) { ret; }
.visible .entry none() { ret; }
"""


def kernels(module: mblob.Module) -> dict[str, list[str]]:
    return {name: [str(t) for t in info.arg_types] for name, info in functions(module).items()}


def functions(module: mblob.Module) -> dict[str, FunctionInfo]:
    found: dict[str, FunctionInfo] = decode_payload(module.type_key, module.payload)["functions"]
    return found


# -- types that the code tells ---------------------------------------------------------------------


def test_opencl_source_tells_its_kernels() -> None:
    module = mblob.device_module("opencl", CL, launch=["blockIdx.x", "threadIdx.x"])
    assert kernels(module) == {"none": [], "scale": ["handle", "float32", "uint32"]}
    assert functions(module)["none"].launch_param_tags == ("blockIdx.x", "threadIdx.x")


def test_hip_source_tells_its_kernels_and_given_ones_count() -> None:
    module = mblob.device_module(
        "hip", CU, functions=["mixed", ("vadd", ["handle"] * 3 + ["int64"], ["threadIdx.x"])]
    )
    assert kernels(module) == {
        "mixed": ["int8", "uint16", "int64", "float64", "handle", "bool", "uint32"],
        "vadd": ["handle", "handle", "handle", "int64"],
    }
    assert functions(module)["vadd"].launch_param_tags == ("threadIdx.x",)


def test_ptx_tells_what_is_certain() -> None:
    module = mblob.device_module(
        "cuda", PTX, functions=["k", "none", ("doubtful", ["int64", "int32x3"])]
    )
    assert kernels(module) == {
        "doubtful": ["int64", "int32x3"],
        "k": ["handle", "float32", "uint32"],
        "none": [],
    }


@pytest.mark.parametrize(
    ("kind", "source", "given", "message"),
    [
        (
            "cuda",
            PTX,
            ["doubtful"],
            r"doubtful: argument 0: PTX does not tell whether .* a number or an address; a",
        ),
        (
            "cuda",
            PTX[PTX.index(".visible .entry d") :].split("\n")[0],
            None,
            r"doubtful: argument 0: .*: give arg",
        ),
        ("cuda", PTX, ["absent"], r"no kernel 'absent' in the code, which has: k, doubtful, none"),
        ("cuda", PTX, [("k", ["handle"])], r"k: arg_types has 1 types, the kernel takes 3"),
        (
            "cuda",
            PTX,
            [("k", ["handle", "float64", "int32"])],
            r"k: argument 1: float64 has 8 bytes, .* takes 4",
        ),
        (
            "cuda",
            PTX.replace("entry k(", "entry _Z1kPf("),
            ["k"],
            r'_Z1kPf is its C\+\+ name: k needs extern "C", or',
        ),
        ("cuda", b"\x7fELF", None, r"give functions=, with arg_types"),
        ("cuda", b"\x50\xed\x55\xba", ["k"], r"k: the types of its arguments cannot be seen"),
        (
            "opencl",
            "kernel void f(local int *x, __global int *y) {}",
            None,
            r"argument 0: `local int \*x` is memory",
        ),
        (
            "opencl",
            "kernel void f(image2d_t x) {}",
            ["f"],
            r"argument 0: `image2d_t x` is of a type that is not",
        ),
        (
            "opencl",
            CL,
            ["absent"],
            r"absent: the types of its arguments cannot be seen in the code",
        ),
    ],
)
def test_types_that_are_not_certain_are_asked_for(
    kind: str, source: Any, given: Any, message: str
) -> None:
    with pytest.raises(BuildError, match=message):
        mblob.device_module(kind, source, functions=given)


def test_all_kernels_means_those_that_are_certain() -> None:
    with pytest.warns(
        UserWarning, match=r"a kernel is left out: doubtful: argument 0: .*: give arg_types"
    ) as found:
        module = mblob.device_module("cuda", PTX)
    assert [w.filename for w in found] == [__file__]
    assert list(kernels(module)) == ["k", "none"]


def test_a_launch_tag_twice_is_refused() -> None:
    for arguments in (
        {"launch": ["blockIdx.x", "blockIdx.x"]},
        {"functions": [("scale", None, ["threadIdx.y"] * 2)]},
    ):
        with pytest.raises(BuildError, match=r"launch tag '\w+\.[xy]' is there twice"):
            mblob.device_module("opencl", CL, **arguments)  # type: ignore[arg-type]


# -- compilers, played -----------------------------------------------------------------------------

Tool = Callable[..., Path]


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tool:
    """Make a program of that name, first on PATH: it notes its arguments and writes `made` to the
    word behind -o."""
    folder = tmp_path / "bin"
    folder.mkdir()
    # Nothing but what the scripts need: the machine's own compilers are not found.
    for name in ("sh", "cp", "cat"):
        (folder / name).symlink_to(shutil.which(name) or name)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setitem(
        LANGUAGES, "cuda", LANGUAGES["cuda"].__class__(**{**vars(LANGUAGES["cuda"]), "places": {}})
    )
    for variable in ("NVCC", "HIPCC", "CLANG"):
        monkeypatch.delenv(variable, raising=False)

    def make(name: str, made: bytes = b"", fails: str = "") -> Path:
        (folder / f"{name}.made").write_bytes(made)
        log = folder / f"{name}.log"
        script = f"""#!{folder}/sh
echo "$@" >> {log}
for source; do :; done
{f"echo '{fails}' >&2; exit 1" if fails else ""}
while [ $# -gt 1 ]; do [ "$1" = -o ] && cp {folder}/{name}.made "$2"; shift; done
"""
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
        return log

    return make


def test_nvcc_makes_ptx(tool: Tool, tmp_path: Path) -> None:
    log = tool("nvcc", PTX.replace("doubtful_param_0,", "x,").encode())
    (tmp_path / "k.cu").write_text('extern "C" __global__ void doubtful(long a, int3 b) {}')
    module = mblob.device_module(
        "cuda",
        tmp_path / "k.cu",
        ["k"],
        compile=True,
        arch=90,
        options="-lineinfo",
        launch=["threadIdx.x"],
    )
    assert kernels(module) == {"k": ["handle", "float32", "uint32"]}
    assert decode_payload("cuda", module.payload)["fmt"] == b"ptx"
    assert module.get_source("ptx").startswith("//")
    words = log.read_text().split()
    assert words[:3] == ["-ptx", "-arch=sm_90", "-lineinfo"]
    assert words[-1] == str(tmp_path / "k.cu")


def cubin(*names: str, helpers: tuple[str, ...] = ()) -> bytes:
    """As much of a cubin as its kernels are seen by: a symbol table; other functions lack the mark
    of a kernel."""
    strings = b"\0" + b"".join(n.encode() + b"\0" for n in (*names, *helpers))
    symbols = bytearray(24)
    for name in (*names, *helpers):
        at = strings.index(b"\0" + name.encode() + b"\0") + 1
        symbols += struct.pack("<IBBHQQ", at, 0x12, 0x10 if name in names else 0, 1, 0, 128)
    head = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 2, 190, 1, 0, 0, 64, 0, 64, 0, 0, 64, 3, 0
    )
    rows = [(0,) * 10, (0, 3, 0, 0, 256, len(strings), 0, 0, 1, 0)]
    rows.append((0, 2, 0, 0, 256 + len(strings), len(symbols), 1, 1, 8, 24))
    return head + b"".join(struct.pack("<IIQQQQIIQQ", *row) for row in rows) + strings + symbols


def sized_cubin(name: str, *sizes: int) -> bytes:
    """With one kernel, whose attributes tell these sizes; from 4 KiB on in the other form."""
    large = sum(sizes) > 4096
    info = struct.pack("<BBHI", 4, 0x37, 4, 130) + struct.pack("<BBH", 3, 0x1B, 255)
    for i, size in reversed([*enumerate(sizes)]):
        word = size | 5 << 24 if large else size << 18 | 0x1F000
        info += struct.pack("<BBHIHHI", 4, 0x45 if large else 0x17, 12, 0, i, 8 * i, word)
    names = f"\0.nv.info.{name}\0".encode()
    code = bytearray(cubin(name))
    at, count = len(code), 5
    rows = [code[64 + 64 * i : 128 + 64 * i] for i in range(3)]
    moved = at + len(names) + len(info)
    rows.append(
        bytearray(
            struct.pack("<IIQQQQIIQQ", 1, 0x70000000, 0, 0, at + len(names), len(info), 0, 0, 4, 0)
        )
    )
    rows.append(bytearray(struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, at, len(names), 0, 0, 1, 0)))
    struct.pack_into("<Q", code, 40, moved)  # e_shoff
    struct.pack_into("<HH", code, 60, count, 4)  # e_shnum, e_shstrndx
    return bytes(code) + names + info + b"".join(map(bytes, rows))


@pytest.mark.parametrize("compiled", [False, True])
def test_given_types_are_held_against_a_cubin(tool: Tool, compiled: bool) -> None:
    code = sized_cubin("k", 8, 4, 1)
    tool("nvcc", code)
    source: Any = 'extern "C" __global__ void k(int *x, float y, char z) {}' if compiled else code
    arguments: dict[str, Any] = {"compile": "nvcc", "arch": "sm_90"} if compiled else {}
    for right in (["handle", "float32", "int8"], ["int64", "int32", "bool"]):
        made = mblob.device_module("cuda", source, [("k", right)], fmt="cubin", **arguments)
        assert kernels(made) == {"k": right}
    for wrong, told in (
        (["handle", "float64", "int8"], "k: argument 1: float64 has 8 bytes, the kernel takes 4"),
        (["handle"], "k: arg_types has 1 types, the kernel takes 3"),
    ):
        with pytest.raises(BuildError, match=told):
            mblob.device_module("cuda", source, [("k", wrong)], fmt="cubin", **arguments)
    with pytest.raises(BuildError, match="no kernel 'other' in the code, which has: k"):
        mblob.device_module("cuda", source, [("other", [])], fmt="cubin", **arguments)
    if compiled:
        assert kernels(mblob.device_module("cuda", source, fmt="cubin", **arguments)) == {
            "k": ["handle", "float32", "int8"]
        }
    else:
        with pytest.raises(
            BuildError,
            match=r"k: argument 0: a cubin tells its size alone, 8 bytes; .*: give arg_types",
        ):
            mblob.device_module("cuda", source)


def test_parameters_of_large_kernels(tool: Tool) -> None:
    code = sized_cubin("k", 5000, 8)
    with pytest.raises(
        BuildError, match="k: argument 0: handle has 8 bytes, the kernel takes 5000"
    ):
        mblob.device_module("cuda", code, [("k", ["handle", "handle"])])
    with pytest.raises(mblob.FormatError, match=r"device_module: the cubin: .* needs"):
        mblob.device_module("cuda", code[:-1], [("k", ["handle", "handle"])])


MANGLED = 'extern "C" __global__ void good(int *x) {}\n__global__ void tmpl(int *x) {}'
NOT_THERE = r"""no kernel 'tmpl' in the code, which has: good, _Z4tmplPi; .* tmpl needs extern "C", or its mangled"""


def check_mangled(fmt: str, arch: Any) -> None:
    arguments: dict[str, Any] = {"fmt": fmt, "compile": "nvcc", "arch": arch}
    for given in ("tmpl", ("tmpl", ["handle"])):
        with pytest.raises(
            BuildError, match=NOT_THERE.replace("good, _Z4tmplPi", r"[\w, ]*_Z4tmplPi[\w, ]*")
        ):
            mblob.device_module("cuda", MANGLED, [given], **arguments)
    module = mblob.device_module("cuda", MANGLED, ["good", ("_Z4tmplPi", ["handle"])], **arguments)
    assert kernels(module) == {"good": ["handle"], "_Z4tmplPi": ["handle"]}


def test_kernels_are_those_of_the_cubin(tool: Tool) -> None:
    tool("nvcc", cubin("good", "_Z4tmplPi", helpers=("device_function",)))
    check_mangled("cubin", "sm_90")
    arguments: dict[str, Any] = {"fmt": "cubin", "compile": "nvcc", "arch": "sm_90"}
    with pytest.warns(
        UserWarning, match=r'left out: _Z4tmplPi: .* give arg_types .*or declare tmpl extern "C"'
    ):
        assert list(kernels(mblob.device_module("cuda", MANGLED, **arguments))) == ["good"]
    tool("nvcc", cubin("_Z4tmplPi"))
    with pytest.raises(
        BuildError, match=r'_Z4tmplPi: the types .* cannot be seen .*or declare tmpl extern "C"'
    ):
        mblob.device_module("cuda", MANGLED, **arguments)
    tool("nvcc", cubin("good")[:200])
    with pytest.raises(mblob.FormatError, match=r"the cubin that was compiled: .* needs"):
        mblob.device_module("cuda", MANGLED, **arguments)


def test_a_cubin_has_the_types_of_its_source(tool: Tool) -> None:
    tool("nvcc", cubin("vadd", "mixed"))
    module = mblob.device_module("cuda", CU, fmt="cubin", compile="nvcc", arch="sm_90a")
    assert kernels(module)["vadd"] == ["handle", "handle", "handle", "int32"]
    assert decode_payload("cuda", module.payload)["fmt"] == b"cubin"


def test_a_fatbin_has_an_image_for_each_architecture_and_ptx_of_the_newest(tool: Tool) -> None:
    log = tool("nvcc", PTX.encode())
    arch = ["sm_80", "compute_90"]
    module = mblob.device_module(
        "cuda",
        CU,
        ["k"],
        fmt="fatbin",
        compile=True,
        arch=arch,
        options="-gencode arch=compute_70 -lineinfo",
    )
    assert kernels(module) == {"k": ["handle", "float32", "uint32"]}
    fatbin, ptx = log.read_text().splitlines()
    assert ptx.startswith("-ptx -arch=sm_90 -lineinfo -x cu")
    codes = [w for w in fatbin.split() if w.startswith("-gencode")]
    assert [c.rsplit("code=")[-1] for c in codes if "=" in c] == ["sm_80", "sm_90", "compute_90"]


def test_hipcc_and_clang_are_called_as_they_want_it(tool: Tool) -> None:
    hip, clang = tool("hipcc", b"__CLANG_OFFLOAD_BUNDLE__"), tool("clang", PTX.encode())
    mblob.device_module("hip", CU, compile=True, arch="gfx90a:xnack-")
    assert "--genco" in hip.read_text()
    assert "--offload-arch=gfx90a:xnack-" in hip.read_text()
    mblob.device_module("cuda", CU, ["k"], compile=True, arch="sm_70")
    assert "--cuda-device-only" in clang.read_text()
    assert "--cuda-gpu-arch=sm_70" in clang.read_text()


def test_opencl_goes_through_llvm_spirv_where_there_is_one(tool: Tool) -> None:
    spirv = struct.pack("<5I", 0x07230203, 0x10000, 0, 9, 0)
    clang = tool("clang", spirv)
    module = mblob.device_module("opencl", CL, compile=True)
    assert "--target=spirv64-unknown-unknown" in clang.read_text()
    shaders = decode_payload("opencl", module.payload)["shaders"]
    assert {name: bytes(words) for name, words in shaders.items()} == {
        "none": spirv,
        "scale": spirv,
    }
    translator = tool("llvm-spirv", spirv)
    mblob.device_module("opencl", CL, compile=True, options=["-cl-std=CL2.0"])
    assert translator.read_text().split()[0] == "device.bc"
    assert clang.read_text().count("-cl-std=CL1.2") == 1


def test_the_translator_of_clangs_release_is_found_by_its_number(tool: Tool) -> None:
    spirv = struct.pack("<5I", 0x07230203, 0x10000, 0, 9, 0)
    script = tool("clang", spirv).with_name("clang")
    lines = script.read_text().splitlines()
    script.write_text("\n".join([lines[0], '[ "$1" = -dumpversion ] && echo 14.0.6', *lines[1:]]))
    older, newer = tool("llvm-spirv-13", spirv), tool("llvm-spirv-15", spirv)
    mblob.device_module("opencl", CL, compile=True)
    assert newer.exists() and not older.exists()
    own = tool("llvm-spirv-14", spirv)
    mblob.device_module("opencl", CL, compile=True)
    assert len(own.read_text().splitlines()) == len(newer.read_text().splitlines()) == 1


def test_clang_and_the_translator_make_spirv(require: Callable[[str], str], tmp_path: Path) -> None:
    """The real ones, of Debian: clang, llvm-spirv-14 and spirv-tools."""
    said = subprocess.run(
        [require("clang"), "-dumpversion"], capture_output=True, text=True, check=True
    )
    require(f"llvm-spirv-{said.stdout.partition('.')[0]}")
    module = mblob.device_module(
        "opencl", CL, compile="clang", launch=["blockIdx.x", "threadIdx.x"]
    )
    (shader,) = set(map(bytes, decode_payload("opencl", module.payload)["shaders"].values()))
    (tmp_path / "x.spv").write_bytes(shader)
    subprocess.run([require("spirv-val"), tmp_path / "x.spv"], check=True)
    assert all(name.encode() + b"\0" in shader for name in kernels(module))


def test_clang_makes_a_code_object_whose_kernels_are_seen(require: Callable[[str], str]) -> None:
    """The real one, for an AMD GPU, without ROCm's headers and libraries."""
    require("clang")
    require("ld.lld")
    source = """
    #define __global__ __attribute__((global))
    extern "C" __global__ void one(float *x, int n) { if (n) x[0] = 1; }
    #ifdef TWO
    extern "C" __global__ void two(float *x) { x[0] = 2; }
    #endif
    """
    options = ["-nogpulib", "-nogpuinc"]
    made = mblob.device_module("hip", source, compile="clang", arch="gfx90a", options=options)
    assert kernels(made) == {"one": ["handle", "int32"]}
    made = mblob.device_module(
        "hip", source, compile="clang", arch="gfx906", options=[*options, "-DTWO"]
    )
    assert list(kernels(made)) == ["one", "two"]
    with pytest.raises(BuildError, match="no kernel 'two' in the code, which has: one"):
        mblob.device_module("hip", source, ["two"], compile="clang", arch="gfx90a", options=options)


def test_names_in_a_bundle_are_those_of_its_first_code_object(
    require: Callable[[str], str], tmp_path: Path
) -> None:
    require("ld.lld")
    (tmp_path / "x.hip").write_text(
        'extern "C" __attribute__((global)) void one(float *x) { x[0] = 1; }\n'
    )
    subprocess.run(
        [require("clang"), "-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "--offload-arch=gfx90a",
         "-nogpulib", "-nogpuinc", tmp_path / "x.hip", "-o", tmp_path / "x.hsaco"],
        check=True, env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    code = (tmp_path / "x.hsaco").read_bytes()
    heads = [
        (0, 0, b"host-x86_64-unknown-linux"),
        (4096, len(code), b"hipv4-amdgcn-amd-amdhsa--gfx90a"),
    ]
    bundle = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", 2)
    bundle += b"".join(
        struct.pack("<3Q", at, size, len(target)) + target for at, size, target in heads
    )
    bundle = bundle.ljust(4096, b"\0") + code
    assert names_in_hsaco(bundle, "x") == ("one",)
    for lie in (
        bundle[:-1],
        bundle[:40],
        bundle[:24] + b"\xff" * 400,
        bundle.replace(b"\0\x10\0", b"\0\xff\xff", 1),
    ):
        assert names_in_hsaco(lie, "x") is None
    assert names_in_hsaco(b"", "x") is None


def test_what_the_compiler_says_is_told(tool: Tool) -> None:
    tool("nvcc", fails='k.cu(3): error: identifier "x" is undefined')
    message = r'device_module text \(cu\): does not compile: .*identifier "x"'
    with pytest.raises(mblob.ToolchainError, match=message) as caught:
        mblob.device_module("cuda", CU, compile=True)
    assert "is undefined" in caught.value.output
    assert Path(caught.value.command[0]).name == "nvcc"


@pytest.mark.usefixtures("tool")
def test_a_compiler_that_is_missing_is_told() -> None:
    with pytest.raises(
        mblob.ToolchainError,
        match=r"tried \$NVCC, nvcc, nvrtc, clang; install NVIDIA's CUDA toolkit",
    ):
        mblob.device_module("cuda", CU, compile=True)
    with pytest.raises(mblob.ToolchainError, match="nvcc is not installed"):
        mblob.device_module("cuda", CU, compile="nvcc")
    with pytest.raises(mblob.ToolchainError, match="hipcc"):
        mblob.device_module("hip", CU, compile=True, arch="gfx90a")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "metal", "compile": True}, "compile= is for cuda, hip, opencl"),
        (
            {"compile": True, "fmt": "hsaco"},
            "fmt 'hsaco' cannot be compiled to; for cuda: ptx, cubin, fatbin",
        ),
        (
            {"compile": True, "fmt": "cubin"},
            "a cubin is for one architecture: pass arch=, e.g. arch='sm_90'",
        ),
        ({"compile": True, "arch": "gfx90a"}, "arch 'gfx90a': expected one like 'sm_90'"),
        (
            {"compile": True, "arch": ["sm_80", "sm_90"]},
            "ptx is for one architecture, arch= names 2",
        ),
        (
            {"compile": "gcc"},
            "'gcc' is no compiler of cuda code that is known here; known are nvcc, nvrtc, clang",
        ),
        ({"arch": "sm_90"}, "pass compile=True, too"),
        ({"kind": "opencl", "compile": True, "arch": "x"}, "opencl code has no architectures"),
        ({"kind": "hip", "compile": True}, "a hsaco is for one architecture"),
        ({"compile": True, "source": {"k": CU}}, "compile= takes one source"),
    ],
)
def test_impossible_compilations_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(BuildError, match=message):
        mblob.device_module(**{"kind": "cuda", "source": CU, **arguments})


# -- compilers of this machine ---------------------------------------------------------------------

needs_nvcc = pytest.mark.skipif(
    not shutil.which("nvcc") and not Path("/usr/local/cuda/bin/nvcc").exists(),
    reason="no GPU toolkit: nvcc is not installed",
)
ALL = {
    "mixed": ["int8", "uint16", "int64", "float64", "handle", "bool", "uint32"],
    "vadd": ["handle", "handle", "handle", "int32"],
}


@pytest.mark.slow
@needs_nvcc
@pytest.mark.parametrize(
    ("fmt", "arch", "start"),
    [
        ("ptx", None, b"//"),
        ("cubin", "sm_90", b"\x7fELF"),
        ("fatbin", ["sm_80", "sm_90"], b"\x50\xed\x55\xba"),
    ],
)
def test_nvcc_compiles_here(tmp_path: Path, fmt: str, arch: Any, start: bytes) -> None:
    (tmp_path / "k.cu").write_text(CU)
    module = mblob.device_module("cuda", tmp_path / "k.cu", fmt=fmt, compile=True, arch=arch)
    assert kernels(module) == ALL
    assert bytes(decode_payload("cuda", module.payload)["data"]).lstrip().startswith(start)


@pytest.mark.sample(1)
@needs_nvcc
@pytest.mark.parametrize(
    ("fmt", "arch"), [("ptx", "sm_90"), ("cubin", "sm_90"), ("fatbin", ["sm_80", "sm_90"])]
)
def test_kernels_are_those_of_the_code(fmt: str, arch: Any) -> None:
    check_mangled(fmt, arch)


@needs_nvcc
def test_an_error_of_nvcc_is_told_with_its_place() -> None:
    with pytest.raises(mblob.ToolchainError, match=r'does not compile: .*"nothing" is undefined'):
        mblob.device_module("cuda", CU + "__device__ int f() { return nothing; }", compile=True)
