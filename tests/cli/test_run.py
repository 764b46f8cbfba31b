"""`mblob-pack run`: arguments from files and text, outputs to a file, and what each mistake
says."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import mblob
from mblob.compilers import include_flags


@pytest.fixture
def inputs(tmp_path: Path) -> tuple[np.ndarray, np.ndarray]:
    """a.npy; both.npz with a and b; float64 as wide.npy."""
    a, b = np.arange(8, dtype="float32"), np.full(8, 0.5, "float32")
    np.save(tmp_path / "a.npy", a)
    np.savez(tmp_path / "both.npz", a=a, b=b)
    np.save(tmp_path / "wide.npy", a.astype("float64"))
    np.savez(tmp_path / "single.npz", b=b)
    return a, b


def test_outputs_are_written_as_out0_out1(pack, deploy: Path, inputs, tmp_path: Path) -> None:
    done = pack("run", deploy, "vadd", "a.npy", "both.npz:b", "float32[8]", 8, "-o", "out.npz")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    with np.load(tmp_path / "out.npz") as out:
        assert out.files == ["out0"]
        np.testing.assert_array_equal(out["out0"], inputs[0] + inputs[1])


@pytest.mark.parametrize("at", range(5))
def test_options_stand_anywhere_among_the_words(
    pack, deploy: Path, inputs, tmp_path: Path, at: int
) -> None:
    words = [deploy, "vadd", "a.npy", "both.npz:b", "float32[8]", "8"]
    done = pack("run", *words[:at], "-o", "out.npz", *words[at:])
    assert (done.returncode, done.stderr) == (0, "")
    assert list(np.load(tmp_path / "out.npz")) == ["out0"]


def test_without_a_file_the_outputs_are_printed(pack, deploy: Path, inputs) -> None:
    done = pack("run", deploy, "vadd", "a.npy", "single.npz", "float32[8]", 8)
    assert done.returncode == 0
    assert done.stdout == "out0 = float32[8] [0.5 1.5 2.5 3.5 4.5 5.5 6.5 7.5]\n"


def test_the_array_of_a_file_that_the_function_writes_is_printed_and_saved(
    pack, deploy: Path, inputs, tmp_path: Path
) -> None:
    np.save(tmp_path / "c.npy", np.zeros(8, "float32"))
    words = ("run", deploy, "vadd", "a.npy", "single.npz", "c.npy", 8)
    assert pack(*words).stdout == "c = float32[8] [0.5 1.5 2.5 3.5 4.5 5.5 6.5 7.5]\n"
    assert pack(*words, "--device", "cpu").stdout == pack(*words).stdout
    assert pack(*words, "-o", "out.npz").stdout == ""
    with np.load(tmp_path / "out.npz") as out:
        assert out.files == ["c"]
        np.testing.assert_array_equal(out["c"], inputs[0] + inputs[1])


def test_zeros_for_a_parameter_that_is_const_are_no_output(
    pack, deploy: Path, inputs, tmp_path: Path
) -> None:
    done = pack("run", deploy, "vadd", "float32[8]", "single.npz", "float32[8]", 8, "-o", "out.npz")
    assert done.returncode == 0
    assert "note: argument 0 (const float *" in done.stderr
    with np.load(tmp_path / "out.npz") as out:
        assert out.files == ["out0"]
        np.testing.assert_array_equal(out["out0"], inputs[1])


def test_many_values_are_wrapped_and_abbreviated(pack, deploy: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "long.npy", np.arange(768, dtype="float32"))
    done = pack("run", deploy, "vadd", "long.npy", "long.npy", "float32[768]", 768)
    shown = "out0 = float32[768] [   0.    2.    4. ... 1530. 1532. 1534.]\n"
    assert done.stdout == shown
    np.save(tmp_path / "some.npy", np.arange(40, dtype="float32"))
    done = pack("run", deploy, "vadd", "some.npy", "some.npy", "float32[40]", 40)
    first, *rest = done.stdout.splitlines()
    assert first == "out0 = float32[40]"
    assert rest[0].startswith("  [ 0.  2.  4.")
    assert rest[-1].endswith(" 78.]")
    assert len(rest) > 1
    assert all(len(line) < 80 for line in rest)


def test_json_reports_result_and_outputs(pack, deploy: Path, inputs) -> None:
    done = pack(
        "run", deploy, "vadd", "a.npy", "both.npz:b", "float32[8]", 8, "-o", "out.npz", "--json"
    )
    report = json.loads(done.stdout)
    assert report["schema"] == "mblob/run/1"
    assert (report["function"], report["result"], report["output_file"]) == (
        "vadd",
        None,
        "out.npz",
    )
    assert report["outputs"] == [{"name": "out0", "dtype": "float32", "shape": [8]}]


def test_a_returned_value_is_printed(pack, tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(
        "#include <stdint.h>\nint64_t add(int64_t a, int64_t b) { return a + b; }\n"
    )
    assert (
        pack(
            "build",
            "--kernel",
            "k.c",
            "--function",
            "int64_t add(int64_t a, int64_t b)",
            "-o",
            "k.so",
        ).returncode
        == 0
    )
    assert pack("run", "k.so", "add", "0x10", "-3").stdout == "13\n"
    assert pack("run", "k.so", "add", "--", "-0x10", "-3").stdout == "-19\n"


def test_a_library_that_tvm_exported_runs(pack, golden: Path, tmp_path: Path) -> None:
    a, b = np.arange(1024, dtype="float32"), np.ones(1024, "float32")
    np.savez(tmp_path / "x.npz", a=a, b=b)
    done = pack(
        "run",
        golden / "host_llvm.so",
        "vadd",
        "x.npz:a",
        "x.npz:b",
        "float32[1024]",
        "-o",
        "out.npz",
    )
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "out.npz") as out:
        np.testing.assert_array_equal(out["out0"], a + b)


def test_a_uint64_takes_its_whole_range(pack, error_line, tmp_path: Path) -> None:
    prototype = "uint64_t half(uint64_t x)"
    (tmp_path / "k.c").write_text(f"#include <stdint.h>\n{prototype} {{ return x / 2; }}\n")
    assert pack("build", "--kernel", "k.c", "--function", prototype, "-o", "k.so").returncode == 0
    assert pack("run", "k.so", "half", 2**63 - 1).stdout == f"{2**62 - 1}\n"
    done = pack("run", "k.so", "half", "--", -1)
    assert (done.returncode, error_line(done)) == (
        2,
        "half: argument 0 (x): expected an int from 0 to 2**64 - 1, found -1",
    )


@pytest.mark.parametrize(
    "words", [["vadd", "a.npy"], ["vadd", "float32[8]"], ["vadd", "both.npz:a", "-o", "o.npz"]]
)
def test_without_numpy_an_array_is_one_line_and_exit_code_6(
    pack, error_line, deploy: Path, inputs, tmp_path: Path, words: list[str]
) -> None:
    (tmp_path / "hidden" / "numpy").mkdir(parents=True)
    (tmp_path / "hidden" / "numpy" / "__init__.py").write_text("raise ImportError('not here')\n")
    done = pack("run", deploy, *words, env={"PYTHONPATH": str(tmp_path / "hidden")})
    assert (done.returncode, done.stdout) == (6, "")
    assert error_line(done).endswith("needs numpy: pip install 'mblob[numpy]'")


def test_an_output_that_cannot_be_written_is_named_as_the_user_did(
    pack, error_line, deploy: Path, inputs, tmp_path: Path
) -> None:
    (tmp_path / "folder.npz").mkdir()
    for output, reason in (
        ("no/out.npz", "No such file or directory"),
        ("folder.npz", "Is a directory"),
    ):
        done = pack("run", deploy, "vadd", "a.npy", "a.npy", "float32[8]", 8, "-o", output)
        assert (done.returncode, error_line(done)) == (5, f"{output}: {reason}")
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".")) == []


MISTAKES = {
    "a missing function": (["nope"], 2, "nope"),
    "too few arguments": (["vadd", "a.npy"], 2, "argument"),
    "a wrong dtype": (["vadd", "wide.npy", "a.npy", "float32[8]", "8"], 2, "float32"),
    "no number": (["vadd", "x", "a.npy", "float32[8]", "8"], 2, "'x'"),
    "a float for an integer": (["vadd", "a.npy", "a.npy", "float32[8]", "8.5"], 2, "found float"),
    "an int that is too large": (["vadd", "a.npy", "a.npy", "float32[8]", "9" * 20], 2, "argument 3"),
    "outputs to no archive": (["vadd", "a.npy", "a.npy", "float32[8]", "8", "-o", "out.npy"], 2, "out.npy"),
    "outputs to stdout": (["vadd", "a.npy", "a.npy", "float32[8]", "8", "-o", "-"], 2, ".npz"),
    "an unknown dtype": (["vadd", "a.npy", "a.npy", "float33[8]", "8"], 2, "float33"),
    "a huge output": (["vadd", "a.npy", "a.npy", "float32[99999999999999999999]", "8"], 2, "float32["),
    "an output without memory": (["vadd", "a.npy", "a.npy", "float32[200000000000000]", "8"], 2, "memory"),
    "a missing file": (["vadd", "nope.npy", "a.npy", "float32[8]", "8"], 5, "nope.npy"),
    "a key that is not there": (["vadd", "both.npz:c", "a.npy", "float32[8]", "8"], 2, "a, b"),
    "a key that is needed": (["vadd", "both.npz", "a.npy", "float32[8]", "8"], 2, "a, b"),
    "a key of a single array": (["vadd", "a.npy:x", "a.npy", "float32[8]", "8"], 2, "'x'"),
    "a file that is no array": (["vadd", "text.npy", "a.npy", "float32[8]", "8"], 2, "text.npy"),
    "an input of a graph": (["data=a.npy"], 2, "no model with inputs"),
    "an output folder that is missing": (
        ["vadd", "a.npy", "a.npy", "float32[8]", "8", "-o", "no/out.npz"], 5, "no",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES)
def test_each_mistake_is_one_line_that_names_it(
    pack, error_line, deploy: Path, inputs, tmp_path: Path, case: str
) -> None:
    (tmp_path / "text.npy").write_text("hello")
    before = sorted(p.name for p in tmp_path.iterdir())
    arguments, code, culprit = MISTAKES[case]
    done = pack("run", deploy, *arguments)
    assert culprit in error_line(done)
    assert done.returncode == code
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_an_error_of_a_kernel_is_exit_code_1_with_its_own_text(
    pack, error_line, tmp_path: Path
) -> None:
    source = """
    #include <tvm/runtime/c_backend_api.h>
    int fail(void *args, int *codes, int count, void *value, int *code, void *resource) {
      (void)args, (void)codes, (void)count, (void)value, (void)code, (void)resource;
      TVMAPISetLastError("the kernel says no");
      return -1;
    }
    """
    (tmp_path / "k.c").write_text(source)
    done = pack("build", "--kernel", "k.c", "-o", "k.so")
    assert done.returncode == 0, done.stderr
    done = pack("run", "k.so", "fail")
    assert (done.returncode, error_line(done)) == (1, "the kernel says no")


def test_an_old_output_file_stays_when_the_call_fails(
    pack, deploy: Path, inputs, tmp_path: Path
) -> None:
    (tmp_path / "out.npz").write_bytes(b"the old one")
    assert (
        pack(
            "run", deploy, "vadd", "wide.npy", "a.npy", "float32[8]", 8, "-o", "out.npz"
        ).returncode
        == 2
    )
    assert (tmp_path / "out.npz").read_bytes() == b"the old one"


def test_a_module_without_a_loader_is_exit_code_6(pack, error_line, tmp_path: Path) -> None:
    host = mblob.csource_module("int unused;")
    host.import_module(mblob.json_module("tensorrt", "net", '{"nodes": []}', []))
    host.export_library(tmp_path / "net.so")
    done = pack("run", tmp_path / "net.so", "net", "float32[1024]")
    assert done.returncode == 6
    assert "tensorrt" in error_line(done)
    assert "hint: " in done.stderr


def test_arrays_go_to_the_device_and_outputs_come_back(
    pack, root: Path, cc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error_line
) -> None:
    is_toy = ["-DMBLOB_HOST", '-DTOY_KEY="toy_key"']
    flags = (*include_flags(), *is_toy, "-fvisibility=hidden")
    toy = cc((root / "tests/c/kernels/plugin_toy.c").read_text(), tmp_path / "toy.so", *flags)
    monkeypatch.setenv("MBLOB_PLUGIN_PATH", str(toy))
    host = mblob.csource_module("int unused;")
    host.import_module(mblob.blob_module("toy_key", b"12345"))
    host.export_library(tmp_path / "lib.so")
    np.save(tmp_path / "a.npy", np.array([3], "float32"))
    command = (
        "run",
        tmp_path / "lib.so",
        "sum",
        tmp_path / "a.npy",
        tmp_path / "a.npy",
        "float32[1]",
    )
    for kind in ("ext_dev", "toy"):  # the plug-in's own name for it
        done = pack(*command, "--device", f"{kind}:1", "-o", tmp_path / "out.npz")
        # the function gives the thread's device
        assert (done.returncode, done.stdout) == (0, "1\n")
        assert np.load(tmp_path / "out.npz")["out0"].tolist() == [6]
    source = mblob.csource_module(root / "tests/c/kernels/plugin_toy.c", options=is_toy)
    host.export_library(tmp_path / "carries.so", carry=[source])
    monkeypatch.delenv("MBLOB_PLUGIN_PATH")
    done = pack("run", tmp_path / "carries.so", *command[2:], "--device", "toy:1")
    assert (done.returncode, done.stdout) == (0, "1\nout0 = float32[1] [6.]\n"), done.stderr
    monkeypatch.setenv("MBLOB_PLUGIN_PATH", str(toy))
    for devices, code, text in (
        (["ext_dev:4"], 6, "toy: no device 4"),
        (["moon"], 2, "device 'moon' is not known"),
        (["cpu", "ext_dev"], 2, "one --device"),
    ):
        done = pack(*command, *(word for device in devices for word in ("--device", device)))
        assert done.returncode == code
        assert text in error_line(done)


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A function that copies one bfloat16 and tells the type of both arguments."""
    path = tmp_path_factory.mktemp("copies") / "copies.so"
    mblob.csource_module(
        "#include <string.h>\n#include <tvm/runtime/c_runtime_api.h>\n"
        "int copy(TVMValue *a, int *c, int n, TVMValue *r, int *k, void *u) {\n"
        "  DLTensor *x = a[0].v_handle, *y = a[1].v_handle; (void)c; (void)n; (void)u;\n"
        "  memcpy(y->data, x->data, 2); r->v_int64 = x->dtype.code * 100 + y->dtype.code;\n"
        "  *k = kTVMArgInt; return 0; }\n"
    ).export_library(path)
    return path


@pytest.mark.parametrize("given", ["x.npy:bfloat16", "x.npz:x:bfloat16", "one.npz:bfloat16"])
def test_a_file_of_bfloat16_is_one_where_the_word_says_so(
    pack, copies: Path, given: str, tmp_path: Path
) -> None:
    x = np.array([1.5], ml_dtypes.bfloat16)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "x.npz", x=x, y=np.zeros(3))
    np.savez(tmp_path / "one.npz", x=x)
    done = pack("run", copies, "copy", given, "bfloat16[1]")
    assert (done.returncode, done.stdout) == (0, "404\nout0 = bfloat16[1] [1.5]\n"), done.stderr
    done = pack("run", copies, "copy", "x.npy", "uint16[1]")
    assert done.stdout == "101\nout0 = uint16[1] [16320]\n"


def test_a_type_that_does_not_fit_the_file_is_a_usage_error(
    pack, copies: Path, error_line, inputs
) -> None:
    for given, text in {
        "a.npy:bfloat16": "argument 0 (a.npy): elements of float32 have 4 bytes, of bfloat16 2",
        "a.npy:float8_e9m9": "argument 0: ml_dtypes has no float8_e9m9",
        "a.npy:bfloat17": "argument 0 (a.npy): a single array has no keys, found 'bfloat17'",
    }.items():
        done = pack("run", copies, "copy", given, "bfloat16[1]")
        assert done.returncode == 2
        assert text in error_line(done)


def test_a_text_is_an_argument_where_the_function_takes_one(
    pack, error_line, tmp_path: Path
) -> None:
    code = """int length(const char *s, int n) { int i = 0; while (s[i]) i++; return i + n; }
    int first(const char s[3]) { return s[0]; }"""
    mblob.csource_module(code).export_library(tmp_path / "k.so")
    for word, result in (
        ("a b", "3"),
        ("5", "1"),
        ("x.npy", "5"),
        ("float32[3]", "10"),
        ("a=b", "3"),
    ):
        assert pack("run", "k.so", "length", word, "0").stdout.strip() == result
    assert "argument 1: expected x.npy" in error_line(pack("run", "k.so", "length", "a", "b"))
    assert "argument 0: expected x.npy" in error_line(pack("run", "k.so", "first", "abc"))
