"""The C runtime from outside: the C reader against the Python one, sanitizers, valgrind, damage,
installation."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from mblob.bytes.payload_source import BytesPayload
from mblob.bytes.sink import BytesSink
from mblob.compilers import include_flags
from mblob.errors import DigestError, FormatError
from mblob.format import classic
from mblob.format.blob_plan import BlobPlan, OutEntry
from mblob.format.type_keys import RELAX_EXECUTABLES
from tests.e2e.programs import ROOT, make_c_tests, run, size_bound
from tests.loader.executors import vm_programs

VECTORS = sorted((ROOT / "tests" / "vectors").glob("*/*.bin"))


# -- the two readers -------------------------------------------------------------------------------


def facts_of_c(built: Path, *arguments: object) -> list[dict]:
    return [
        json.loads(line)
        for line in run(built / "plain" / "blob_dump", *arguments).stdout.splitlines()
    ]


def facts_of_python(data: bytes, level: str, expected: bool) -> dict:
    try:
        blob = classic.read(memoryview(data), level=level, index_expected=expected)
    except DigestError as error:
        return {"code": "digest", "offset": None, "entry": error.entry}
    except FormatError as error:
        return {"code": error.code, "offset": error.offset, "entry": error.entry}
    entries = [{"type_key": e.type_key, "offset": e.offset, "size": e.size} for e in blob.entries]
    return {"entries": entries, "imports": [list(e.imports) for e in blob.entries]}


@pytest.mark.parametrize("path", VECTORS, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_the_c_reader_reads_each_vector_as_described(built: Path, path: Path) -> None:
    facts = json.loads(path.with_suffix(".json").read_text())
    expected = ["--index-expected"] if facts.pop("index_expected", False) else []
    found = facts_of_c(built, "--level", "full", *expected, path)[0]
    for key, value in facts.items():
        if value is not None:
            assert found.get(key) == value, found


@pytest.mark.parametrize("level", ["off", "header", "full"])
def test_both_readers_agree_on_damaged_blobs(built: Path, tmp_path: Path, level: str) -> None:
    rng = random.Random(level)
    files = []
    for i in range(1500):
        data = bytearray(rng.choice(VECTORS).read_bytes())
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(data)) if data else 0
            kind = rng.randrange(4)
            if kind == 0 and data:
                data[at] ^= 1 << rng.randrange(8)
            elif kind == 1 and data:
                data[at] = rng.randrange(256)
            elif kind == 2:
                del data[at:]
            else:
                value = rng.choice([0, 1, 8, 255, 2**31, 2**32, 2**61, 2**63, 2**64 - 1])
                data[at : at + 8] = value.to_bytes(8, "little")[: len(data) - at]
        if len(data) >= 8 and rng.random() < 0.5:
            data[:8] = (len(data) - 8).to_bytes(8, "little")
        file = tmp_path / f"{i}.bin"
        file.write_bytes(data)
        files.append(file)
    answers = facts_of_c(built, "--level", level, *files)
    assert len(answers) == len(files)
    for file, found in zip(files, answers):
        expected = facts_of_python(file.read_bytes(), level, False)
        assert found.get("code") == expected.get("code"), (file, found, expected)
        assert found.get("entries") == expected.get("entries")
        assert found.get("imports") == expected.get("imports")


def blob_of(size: int) -> bytearray:
    sink = BytesSink()
    BlobPlan(
        [OutEntry("library", None, (1,)), OutEntry("my_key", BytesPayload(bytes(size)))]
    ).write(sink)
    return sink.data


@pytest.mark.parametrize("part", ["payload", "structure"])
@pytest.mark.parametrize(("size", "checked"), [(256 << 10, True), ((256 << 10) + 1, False)])
def test_the_level_header_checks_every_byte_while_payloads_are_small(
    built: Path, tmp_path: Path, size: int, checked: bool, part: str
) -> None:
    data = blob_of(size)
    data[data.index(b"my_key") + (6 + size // 2 if part == "payload" else 0)] ^= 1
    (tmp_path / "b.bin").write_bytes(data)
    assert facts_of_c(built, "--level", "full", tmp_path / "b.bin")[0].get("code") == "digest"
    found = facts_of_c(built, "--level", "header", tmp_path / "b.bin")[0]
    assert found.get("code") == ("digest" if checked else None)


@pytest.mark.slow
@pytest.mark.parametrize(("count", "found"), [(100, True), (50_000, False)])
def test_a_miss_above_many_modules_costs_little(
    installed: Path, tmp_path: Path, cc: Callable[..., Path], count: int, found: bool
) -> None:
    """What the error says is looked for in some modules, not in all that are below."""
    sink = BytesSink()
    entries = [OutEntry("library", None, tuple(range(1, count + 1)))]
    BlobPlan([*entries, *[OutEntry("plain_data", BytesPayload(b""), data=True)] * count]).write(
        sink
    )
    (tmp_path / "blob.bin").write_bytes(sink.data)
    source = f"""__asm__(".section .tvm_mblob,\\"a\\"\\n.balign 64\\n.globl __tvm_dev_mblob\\n"
        ".type __tvm_dev_mblob, %object\\n__tvm_dev_mblob:\\n.incbin \\"{tmp_path}/blob.bin\\"\\n"
        ".size __tvm_dev_mblob, . - __tvm_dev_mblob\\n.text");"""
    library = ctypes.CDLL(str(installed / "lib" / "libmblob.so"))
    library.mblob_last_error.restype = ctypes.c_char_p
    library.mblob_open.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p]
    module, last, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    many, with_it = (
        cc(source, tmp_path / "many.so"),
        cc("void *__tvm_module_ctx; void it(void) {}", tmp_path / "it.so", "-w"),
    )
    assert library.mblob_open(str(many).encode(), None, ctypes.byref(module)) == 0
    assert library.mblob_open(str(with_it).encode(), None, ctypes.byref(last)) == 0
    assert library.mblob_module_import(module, last) == 0
    assert library.mblob_module_function(module, b"it", 0, ctypes.byref(function)) == 11
    assert (b"one of its imports has it" in library.mblob_last_error()) == found
    library.mblob_module_release(last)
    library.mblob_module_release(module)


HEADER = (
    b'{"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},'
    b'"none":{"dtype":"I8","shape":[0],"data_offsets":[24,24]}}'
).ljust(120)
WEIGHTS = struct.pack("<Q", len(HEADER)) + HEADER + struct.pack("<6f", *range(6))


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("keyed", OutEntry("my_key", BytesPayload(b"hello"))),
        (
            "weights",
            OutEntry("safetensors", BytesPayload(WEIGHTS), data=True, alignment=64, align_at=128),
        ),
    ],
)
def test_the_blob_of_the_c_tests_is_what_the_writer_writes(name: str, entry: OutEntry) -> None:
    sink = BytesSink()
    entries = [OutEntry("library", None, (1,)), entry]
    BlobPlan(entries, target="x86_64-linux-gnu", producer="mblob 0.1.0").write(sink)
    assert bytes(sink.data) == (ROOT / "tests" / "c" / "format" / f"{name}.bin").read_bytes()


def test_the_programs_of_the_c_tests_are_what_the_assembler_writes() -> None:
    assert vm_programs.seeds() == (ROOT / "tests" / "c" / "exec" / "vm_programs.bin").read_bytes()


# -- the runtime -----------------------------------------------------------------------------------


TESTS = sorted(p.stem for p in (ROOT / "tests" / "c").glob("*/test_*.c"))


@pytest.mark.parametrize("program", TESTS)
def test_a_program_passes(variant: Path, program: str) -> None:
    run(variant / program, variant.parent / "lib")


@pytest.mark.slow
def test_the_face_for_cxx_passes_under_address_and_undefined_behaviour_sanitizers(
    tmp_path: Path, require: Callable[[str], str]
) -> None:
    program = tmp_path / "address" / "test_face"
    make_c_tests("libraries", program, f"BUILD={tmp_path}", f"CXX={require('c++')}")
    run(program, tmp_path / "lib")


def test_the_host_abi_holds_when_all_symbols_are_bound_at_once(variant: Path) -> None:
    program = variant / "test_host_abi"
    run(program, variant.parent / "lib", env={**os.environ, "LD_BIND_NOW": "1"})


def test_damaged_blobs_end_in_errors(variant: Path) -> None:
    vectors = sorted((ROOT / "tests" / "vectors" / "good").glob("*.bin"))
    run(variant / "fuzz_reader", 300, *vectors)


def test_damaged_programs_of_relax_end_in_errors(variant: Path) -> None:
    programs = ROOT / "tests" / "c" / "exec" / "relax_programs.bin"
    run(variant / "fuzz_relax", 3000, programs)


@pytest.mark.slow
def test_a_minute_of_damaged_programs_ends_in_errors_under_sanitizers(
    sanitized: Path, golden: Path, tmp_path: Path
) -> None:
    """Programs that TVM made, and the sample."""
    programs = [ROOT / "tests" / "c" / "exec" / "relax_programs.bin"]
    libraries = [*(golden / "relax").rglob("*.so"), ROOT / "examples/relax/digits_relax.so"]
    for number, library in enumerate(libraries):
        with mblob.open(library) as lib:
            for entry in lib.entries:
                if entry.type_key in RELAX_EXECUTABLES and lib.dialect == "ffi":
                    programs.append(tmp_path / f"{number}.bin")
                    programs[-1].write_bytes(entry.view())
    assert len(programs) > 20
    run(sanitized / "address" / "fuzz_relax", "60s", *programs)


@pytest.mark.slow
def test_every_program_with_threads_passes_under_thread_sanitizer(tmp_path: Path) -> None:
    make_c_tests("thread", f"BUILD={tmp_path}")


# Not in forks, which MBLOB_TEST_EMULATED leaves out, too: what threads of its parent had is lost in a child.
@pytest.mark.nightly
@pytest.mark.parametrize(
    "program", [*(test for test in TESTS if test != "test_forks"), "test_face"]
)
def test_valgrind_finds_nothing(
    programs: Path, require: Callable[[str], str], tmp_path: Path, program: str
) -> None:
    valgrind = require("valgrind")
    path = programs / "plain" / program
    if program == "test_face":
        path = tmp_path / "plain" / program
        make_c_tests(path, f"BUILD={tmp_path}", f"CXX={require('c++')}")
    run(
        valgrind,
        "--quiet",
        "--error-exitcode=9",
        "--leak-check=full",
        "--errors-for-leak-kinds=definite",
        "--fair-sched=yes",
        f"--suppressions={ROOT}/tests/c/valgrind.supp",
        path,
        programs / "lib",
        timeout=300,
        env={**os.environ, "MBLOB_TEST_FAILING_STEP": "7", "MBLOB_TEST_EMULATED": "1"},
    )


def test_packed_functions_work_without_a_runtime(built: Path) -> None:
    run(built / "dlopen_host", built / "lib" / "plain.so")


THROWS = """#include <stdexcept>
extern "C" void *__tvm_module_ctx = nullptr;
extern "C" int throws(void *, int *, int, void *, int *, void *) { throw std::runtime_error("on purpose"); }
"""
CALLS = """#include <mblob.h>
#include <cstdio>
int main(int, char **argv) {
  mblob_module *module = nullptr;
  if (mblob_open(argv[1], nullptr, &module)) return 1;
  int status = MBLOB_OK;
  try {
    status = mblob_call(module, "throws", "int", 7);
  } catch (...) {
    return 2;
  }
  std::printf("%d %s\\n", status == MBLOB_E_KERNEL, mblob_last_error());
  mblob_module_release(module);
}
"""


@pytest.mark.parametrize("linked", ["shared", "static"])
def test_an_exception_of_a_kernel_is_the_status_of_a_call_by_text(
    installed: Path, tmp_path: Path, require: Callable[[str], str], linked: str
) -> None:
    """Also in a host in C++: nothing passes through the runtime."""
    (tmp_path / "throws.cc").write_text(THROWS)
    (tmp_path / "calls.cc").write_text(CALLS)
    library = ["-L", installed / "lib", "-lmblob", f"-Wl,-rpath,{installed}/lib"]
    if linked == "static":
        library = [installed / "lib" / "libmblob.a", "-pthread", "-ldl"]
    run(require("c++"), "-shared", "-fPIC", tmp_path / "throws.cc", "-o", tmp_path / "throws.so")
    run(
        require("c++"),
        tmp_path / "calls.cc",
        "-o",
        tmp_path / "calls",
        "-I",
        installed / "include",
        *library,
    )
    said = run(tmp_path / "calls", tmp_path / "throws.so").stdout
    assert said == "1 throws: the code threw std::runtime_error: on purpose\n"


def test_what_tvm_compiled_runs_from_c(built: Path, golden: Path) -> None:
    run(built / "plain" / "golden_host", golden)


def test_executors_of_tvm_libraries_give_tvms_numbers_from_c(
    variant: Path, golden: Path, tmp_path: Path
) -> None:
    np = pytest.importorskip("numpy")
    program = variant / "golden_executors"
    with np.load(golden / "mlp_llvm.npz") as known:
        (tmp_path / "data").write_bytes(known["data"].tobytes())
        (tmp_path / "out").write_bytes(known["out"].tobytes())
    run(program, golden, tmp_path / "data", tmp_path / "out")


def test_every_lie_in_the_graph_of_a_model_of_tvm_is_refused_or_runs(
    variant: Path, golden: Path, tmp_path: Path
) -> None:
    """Over the kernels that TVM compiled."""
    program = variant / "test_graph_lies"
    graph = mblob.load_module(golden / "mlp_llvm.so")["get_graph_json"]()
    (tmp_path / "graph.json").write_text(graph)
    run(program, golden / "mlp_llvm.so", tmp_path / "graph.json")


@pytest.mark.sample(1)
@pytest.mark.parametrize("threads", ["1", "2", "7"])
def test_parallel_loops_run_with_any_number_of_threads(
    built: Path, golden: Path, threads: str
) -> None:
    run(built / "plain" / "golden_host", golden, env={**os.environ, "TVM_NUM_THREADS": threads})


def test_trees_of_tvm_libraries_read_as_described(built: Path, golden: Path) -> None:
    for description in sorted(golden.glob("*.json")):
        facts = json.loads(description.read_text())
        if isinstance(facts, dict) and "tree" in facts:
            found = run(built / "plain" / "golden_host", golden, facts["file"]).stdout
            assert json.loads(found) == facts["tree"]


VECTORS_OF_LANES = r"""
#include <tvm/runtime/c_backend_api.h>
extern "C" TVM_DLL void lanes(const float *x, float *out) {
  float4 a = *(float4*)(x + 1);
  float4 b = (float4)(0.0f, 0.0f, 0.0f, 0.0f);
  float4 sum = ((a) > (b) ? (a) : (b)) + (float4)(0.5f, 0.5f, 0.5f, 0.5f) * ((a) < (b) ? (a) : (b));
  *(float4*)(out + 1) = sum;
  *(float4*)(out + 5) = a;
  int32_t4 index = int32_t4((3)+(-1*0), (3)+(-1*1), (3)+(-1*2), (3)+(-1*3));
  *(float4*)(out + 9) = float4(x[index.s0], x[index.s1], x[index.s2], x[index.s3]);
  float3 three = float3(1, 2, 3) * 2.0f;
  *(float3*)(out + 13) = three;
}
"""


@pytest.mark.parametrize("level", ["-O0", "-O2", "-O3"])
def test_vector_classes_compute_lane_by_lane(
    tmp_path: Path, require: Callable[[str], str], level: str
) -> None:
    source, library = tmp_path / "lanes.cc", tmp_path / "lanes.so"
    source.write_text(VECTORS_OF_LANES)
    run(
        require("c++"),
        "-std=c++17",
        level,
        "-fPIC",
        "-shared",
        *include_flags(),
        source,
        "-o",
        library,
    )
    x = (ctypes.c_float * 6)(9, -2, 3, -4, 5, 7)
    out = (ctypes.c_float * 16)()
    ctypes.CDLL(str(library)).lanes(x, out)
    assert list(out)[1:] == [-1, 3, -2, 5, -2, 3, -4, 5, -4, 3, -2, 9, 2, 4, 6]


def test_vectorized_c_of_tvm_compiles_and_gives_numpys_answer(
    tmp_path: Path, golden: Path, installed: Path, require: Callable[[str], str]
) -> None:
    np = pytest.importorskip("numpy")
    library, program = tmp_path / "conv.so", tmp_path / "conv"
    include = installed / "include"
    run(
        require("c++"), "-x", "c++", "-std=c++17", "-fPIC", "-shared", "-O2", "-I", include / "mblob" / "compat",
        golden / "conv2d_vectorized.c", "-o", library,
    )  # fmt: skip
    source = tmp_path / "conv.c"
    source.write_text(CONV_HOST)
    run(
        require("cc"),
        "-I",
        include,
        source,
        "-o",
        program,
        installed / "lib" / "libmblob.a",
        "-pthread",
        "-ldl",
    )
    rng = np.random.default_rng(0)
    data = rng.standard_normal((1, 32, 56, 56), dtype="float32")
    weight = rng.standard_normal((32, 32, 3, 3), dtype="float32")
    bias = rng.standard_normal(32, dtype="float32")
    (tmp_path / "in.bin").write_bytes(data.tobytes() + weight.tobytes() + bias.tobytes())
    run(program, library, tmp_path / "in.bin", tmp_path / "out.bin")
    found = np.frombuffer((tmp_path / "out.bin").read_bytes(), "float32").reshape(32, 56, 56)
    padded = np.pad(data[0].astype("float64"), ((0, 0), (1, 1), (1, 1)))
    expected = np.zeros((32, 56, 56)) + bias[:, None, None]
    for i in range(3):
        for j in range(3):
            expected += np.tensordot(
                weight[:, :, i, j].astype("float64"), padded[:, i : i + 56, j : j + 56], 1
            )
    np.testing.assert_allclose(found, np.maximum(expected, 0), atol=1e-3)


CONV_HOST = r"""
#include <mblob.h>
#include <stdio.h>
static float in[32*56*56 + 32*32*9 + 32], out[32*56*56];
int main(int argc, char **argv) {
  mblob_module *m;
  FILE *f = fopen(argv[2], "rb");
  if (argc != 4 || !f || fread(in, sizeof(in), 1, f) != 1) return 1;
  if (mblob_open(argv[1], NULL, &m)) return puts(mblob_last_error()), 2;
  float *w = in + 32*56*56, *b = w + 32*32*9;
  if (mblob_call(m, "__tvm_main__", "float32[1,32,56,56],float32[32,32,3,3],float32[32],float32[1,32,56,56]",
                 in, w, b, out)) return puts(mblob_last_error()), 3;
  mblob_module_release(m);
  fclose(f);
  f = fopen(argv[3], "wb");
  return fwrite(out, sizeof(out), 1, f) != 1 || fclose(f);
}
"""


def test_the_runtime_is_small(
    installed: Path, tmp_path: Path, require: Callable[[str], str]
) -> None:
    if platform.machine() != "x86_64":
        pytest.skip("the size is told for x86-64")
    whole, stripped = (installed / "lib" / "libmblob.so").resolve(), tmp_path / "libmblob.so"
    run(require("strip"), "-o", stripped, whole)
    # bytes; without plug-ins. A quarter is the Relax machine, and what its programs call by name;
    # 12,000 are the table of functions that let a library be unmapped, and the code that judges;
    # 3,000 are layouts of payloads of loaders, 5,000 operators of a graph at the same time and their
    # loops, 4,000 calls whose text is read once, with tuples, shapes and results,
    # 5,000 parameters of Relax programs, and whether a program takes them. What is left of the last
    # page, at most 4,096, is room.
    assert stripped.stat().st_size < size_bound(whole, 444_576, require("readelf"))


@pytest.mark.parametrize("program", ["test_pool", "test_forks"])
def test_children_of_a_process_with_threads_have_loops_and_libraries(
    built: Path, program: str
) -> None:
    """Without sanitizers, which do not survive it."""
    run(built / "plain" / program, built / "lib", timeout=150)
