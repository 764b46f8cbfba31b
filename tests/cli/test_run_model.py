"""`mblob-pack run model.so NAME=x.npy`: models of every kind, what it tells, and what each mistake
says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mblob

SOURCE = """
void twice(const float x[2], float y[2]) { y[0] = 2 * x[0]; y[1] = 2 * x[1]; }
void add(const float x[2], const float b[2], float y[2]) { y[0] = x[0] + b[0]; y[1] = x[1] + b[1]; }
"""
GRAPH = {
    "nodes": [
        {"op": "null", "name": "x", "inputs": []},
        {"op": "null", "name": "b", "inputs": []},
        {
            "op": "tvm_op", "name": "double", "inputs": [[0, 0, 0]],
            "attrs": {"func_name": "twice", "num_inputs": "1", "num_outputs": "1", "flatten_data": "0"},
        },
        {
            "op": "tvm_op", "name": "sum", "inputs": [[2, 0, 0], [1, 0, 0]],
            "attrs": {"func_name": "add", "num_inputs": "2", "num_outputs": "1", "flatten_data": "0"},
        },
    ],
    "arg_nodes": [0, 1],
    "heads": [[3, 0, 0]],
    "node_row_ptr": [0, 1, 2, 3, 4],
    "attrs": {
        "dltype": ["list_str", ["float32"] * 4],
        "storage_id": ["list_int", [0, 1, 2, 3]],
        "shape": ["list_shape", [[2]] * 4],
    },
}  # fmt: skip
PROTOTYPES = (
    "void twice(const float x[2], float y[2])",
    "void add(const float x[2], const float b[2], float y[2])",
)


@pytest.fixture
def model(pack, tmp_path: Path) -> Path:
    """model.so: y = 2 x + b, packed from flags; x.npy."""
    (tmp_path / "k.c").write_text(SOURCE)
    (tmp_path / "graph.json").write_text(json.dumps(GRAPH))
    (tmp_path / "b.params").write_bytes(mblob.save_param_dict({"b": np.array([10, 20], "f4")}))
    np.save(tmp_path / "x.npy", np.array([1, 2], "f4"))
    functions = [word for prototype in PROTOTYPES for word in ("--function", prototype)]
    done = pack("build", "--kernel", "k.c", *functions, "--graph", "graph.json", "--params", "b.params",
                "--name", "small", "-o", "model.so")  # fmt: skip
    assert done.returncode == 0, done.stderr
    return tmp_path / "model.so"


def test_a_graph_runs_and_tells_what_it_did(pack, model: Path, tmp_path: Path) -> None:
    done = pack(
        "run", model, "x=x.npy", "--name", "small", "-o", "out.npz", "--repeat", "3", "--profile"
    )
    assert (done.returncode, done.stderr) == (0, "")
    first, around, double, total, output = done.stdout.splitlines()
    assert first.startswith("ran GraphExecutorFactory 3 times: mean ")
    assert re.fullmatch(r"around it: load .*s, inputs in .*s, outputs out .*s", around)
    assert double.split()[:2] == ["2", "double"]
    assert double.endswith("twice__packed")
    assert total.split()[:2] == ["3", "sum"]
    assert output == "out0 (sum:0) = float32[2] in out.npz"
    with np.load(tmp_path / "out.npz") as out:
        np.testing.assert_array_equal(out["out0"], [12, 24])


SLOW = """\
#include <time.h>
void slow(const float x[1], float y[1]) { nanosleep(&(struct timespec){.tv_nsec = 30000000}, 0); y[0] = x[0] + 1; }
"""


def test_a_profile_tells_which_nodes_ran_at_the_same_time(pack, tmp_path: Path) -> None:
    graph = mblob.GraphBuilder()
    x = graph.input("x", (1,))
    for name in ("left", "right"):
        graph.output(graph.call("slow", [x], (1,), name=name))
    factory = mblob.graph_executor_factory(graph)
    kernel = "void slow(const float x[1], float y[1])"
    factory.import_module(mblob.csource_module(SLOW, functions=[kernel]))
    factory.export_library(tmp_path / "slow.so")
    command = ("run", "slow.so", "x=float32[1]", "--profile", "--parallel")
    left, right = json.loads(pack(*command, "2", "--json").stdout)["nodes"]
    assert max(left["start"], right["start"]) < min(left["end"], right["end"])
    assert sorted((left["thread"], right["thread"])) == [0, 1]
    assert left["device"] == "cpu:0"
    text = pack(*command, "2", "--html", "p.html").stdout
    assert ", thread 1, cpu:0" in text
    assert re.search(r"the last run: .* ms, in .* ms: (1\.[5-9]|2\.0) at once on average", text)
    data = json.loads(re.search(r'id="data">(.*?)</script>', (tmp_path / "p.html").read_text())[1])  # type: ignore[index]
    assert {row[1]: row[8:] for row in data["rows"]} in (
        {"left": [0, "cpu:0"], "right": [1, "cpu:0"]},
        {"left": [1, "cpu:0"], "right": [0, "cpu:0"]},
    )
    assert all(row[7] - row[6] == pytest.approx(row[4]) for row in data["rows"])
    assert data["said"] in text
    assert "thread" not in pack(*command, "1").stdout


def test_without_a_file_the_outputs_are_printed(pack, model: Path) -> None:
    done = pack("run", model, "x=x.npy", "--name", "small", "--parallel", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "out0 (sum:0) = float32[2] [12. 24.]"


def test_an_input_of_a_type_and_a_shape_is_zeros_and_is_said_to_be(pack, model: Path) -> None:
    done = pack("run", model, "x=float32[2]", "--name", "small")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "out0 (sum:0) = float32[2] [10. 20.]"
    assert done.stderr == (
        "mblob-pack: note: input 'x' is float32[2] filled with zeros; x=x.npy gives it values\n"
    )


def test_json_has_times_nodes_and_outputs(pack, model: Path) -> None:
    done = pack("run", model, "x=x.npy", "--name", "small", "--json", "--profile")
    report = json.loads(done.stdout)
    assert (report["schema"], report["model"], report["runs"]) == (
        "mblob/run/1",
        "GraphExecutorFactory",
        1,
    )
    assert set(report["seconds"]) == {"mean", "median", "min", "max"}
    assert set(report["around"]) == {"load", "inputs", "outputs"}
    rows = [(n["node"], n["name"], n["function"], n["count"]) for n in report["nodes"]]
    assert rows == [(2, "double", "twice__packed", 1), (3, "sum", "add__packed", 1)]
    assert report["outputs"] == [
        {"name": "out0", "node": "sum:0", "dtype": "float32", "shape": [2]}
    ]


@pytest.mark.parametrize("name", ["mlp_llvm", "mlp_c", "aot_mlp", "vm_mlp"])
def test_models_of_tvm_agree_with_what_it_computed(
    pack, golden: Path, tmp_path: Path, name: str
) -> None:
    expected = golden / f"{'mlp_c' if name == 'mlp_c' else 'mlp_llvm'}.npz"
    done = pack("run", golden / f"{name}.so", f"data={expected}:data", "-o", "out.npz")
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "out.npz") as out, np.load(expected) as wanted:
        np.testing.assert_allclose(out["out0"], wanted["out"], rtol=1e-5)


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--name", "small"], "the model takes x float32[2]; not given: x float32[2]"),
        (["x=x.npy"], "has no function 'default'"),
        (["y=x.npy", "x=x.npy", "--name", "small"], "no input 'y'; the model takes x float32[2]"),
        (["y=x.npy", "--name", "small"], "no input 'y'; the model takes x float32[2]"),
        (["x=x.npy", "x=x.npy", "--name", "small"], "argument 1: input 'x' is given twice"),
        (["x=x.npy", "x.npy", "--name", "small"], "argument 1: a model takes inputs by name"),
        (
            ["x=wide.npy", "--name", "small"],
            "expected float32, found float64; the model takes x float32[2]",
        ),
        (["x=long.npy", "--name", "small"], "the model takes x float32[2]"),
        (["x=5", "--name", "small"], "the model takes x float32[2]"),
        (["x=floating[2]", "--name", "small"], "expected a number type of numpy and a shape"),
        (["x=none.npy", "--name", "small"], "none.npy"),
        (["x=x.npy", "--repeat", "0"], "--repeat"),
        (["twice", "x.npy", "float32[2]", "--profile"], "--profile"),
    ],
)
def test_mistakes_are_one_line(
    pack, error_line, model: Path, tmp_path: Path, words: list[str], text: str
) -> None:
    np.save(tmp_path / "wide.npy", np.zeros(2))
    np.save(tmp_path / "long.npy", np.zeros(3, "f4"))
    done = pack("run", model, *words)
    assert done.returncode == (5 if "none.npy" in text else 2)
    assert text in error_line(done)
    assert done.stdout == ""


def test_missing_inputs_are_shown_as_they_are_given(pack, tmp_path: Path) -> None:
    import mblob
    from tests.loader.executors import relax_programs
    from tests.loader.executors.relax_programs import ret

    params = ["x", *(f"fc.{i}" for i in range(5))]
    functions = [relax_programs.Function("main", [ret(0)], params)]
    root = mblob.blob_module("relax.VMExecutable", relax_programs.Program(functions).payload())
    root.import_module(mblob.csource_module(""))
    root.export_library(tmp_path / "m.so", dialect="ffi", index=False)
    np.save(tmp_path / "x.npy", np.zeros(2, "f4"))
    done = pack("run", "m.so", "x=x.npy")
    assert done.returncode == 2
    hint = (
        "hint: name the file of each: fc.0=fc.0.npy fc.1=fc.1.npy fc.2=fc.2.npy fc.3=fc.3.npy ...;"
    )
    assert f"{hint} parameters of the model: mblob-pack add m.so --params" in done.stderr
    assert "the model takes x, fc.0, fc.1" in done.stderr
    done = pack("run", "m.so", "main", "x.npy")
    assert "m.so holds a model: to run it, pass its inputs by name" in done.stderr


def test_inputs_of_a_relax_program_are_told_with_type_and_shape(pack, golden: Path) -> None:
    library = golden / "relax" / "mlp_static.so"
    if not library.exists():
        pytest.skip("no golden libraries of Relax")
    for words in ([], ["--name", "forward"]):  # the only function is the default
        done = pack("run", library, *words)
        assert done.returncode == 2
        assert "the model takes x float32[2, 32], fc1.weight, fc1.bias" in done.stderr
        beside = library.with_suffix(".npz")
        assert f"mblob-pack add {library} --params {beside} -o OUT.so packs them" in done.stderr
    done = pack("run", library, "--name", "froward")
    assert done.returncode == 2
    assert "no function 'froward'; there are: forward\nhint: --name forward" in done.stderr
    done = pack("run", library.with_name("dtypes.so"))
    assert "no function 'main'; there are: half, i8" in done.stderr
    assert "hint: --name half" in done.stderr


def test_a_library_without_a_model_says_so(pack, error_line, deploy: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(2, "f4"))
    done = pack("run", deploy, "data=x.npy")
    assert done.returncode == 2
    assert "no model with inputs; name a function to call" in error_line(done)


def test_an_unknown_input_is_told_with_the_one_that_was_meant(pack, golden: Path) -> None:
    values = f"{golden / 'mlp_llvm.npz'}:data"
    for name in ("mlp_llvm", "aot_mlp", "vm_mlp"):
        done = pack("run", golden / f"{name}.so", f"dato={values}")
        assert done.returncode == 2
        assert "no input 'dato'; the model takes data" in done.stderr
        assert "hint: did you mean 'data'?" in done.stderr
        assert "given" not in done.stderr


def test_parameters_of_a_graph_can_be_given_too(pack, model: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "b.npy", np.array([1, 1], "f4"))
    done = pack("run", model, "x=x.npy", "b=b.npy", "--name", "small", "--profile")
    assert done.stdout.splitlines()[-1] == "out0 (sum:0) = float32[2] [3. 5.]"


def test_a_machine_tells_its_kernels_and_the_rest_together(pack, golden: Path) -> None:
    words = (
        "run",
        golden / "vm_mlp.so",
        f"data={golden / 'mlp_llvm.npz'}:data",
        "--profile",
        "--repeat",
        "2",
    )
    done = pack(*words)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("ran VMExecutable 2 times: mean ")
    kernels = [line for line in lines if "InvokePacked" in line]
    assert [line.split()[-1] for line in kernels] == [
        "vm_mod_fused_nn_contrib_dense_pack_add_nn_relu",
        "vm_mod_fused_nn_contrib_dense_pack_add_nn_relu_1",
        "vm_mod_fused_nn_contrib_dense_pack_add",
        "vm_mod_fused_nn_softmax",
    ]
    assert any(line.startswith("  34 instructions that call no kernel: ") for line in lines)
    rows = json.loads(pack(*words, "--json").stdout)["nodes"]
    assert [row["node"] for row in rows] == list(range(38))
    assert {row["count"] for row in rows} == {2}
    assert rows[0]["name"] == "main[0] LoadConst"
    assert rows[0]["function"] is None


def test_a_model_compiled_ahead_says_what_it_cannot_tell(pack, golden: Path) -> None:
    done = pack("run", golden / "aot_mlp.so", f"data={golden / 'mlp_llvm.npz'}:data", "--profile")
    assert done.returncode == 0, done.stderr
    assert re.search(r"0  tvmgen_default___tvm_main__ .* 100.0 %\n", done.stdout)
    assert "kernels that its code calls itself cannot be told apart" in done.stdout


def test_a_machine_names_functions_and_arrays_that_do_not_fit(
    pack, error_line, golden: Path, tmp_path: Path
) -> None:
    np.save(tmp_path / "long.npy", np.zeros((2, 64), "f4"))
    done = pack("run", golden / "vm_mlp.so", "data=long.npy")
    assert done.returncode == 2
    assert (
        "(ReshapeTensor of input 'data' (float32[2,64])): shape [2,64] cannot become [1,64]"
        in error_line(done)
    )
    np.save(tmp_path / "wide.npy", np.zeros((1, 64)))
    done = pack("run", golden / "vm_mlp.so", "data=wide.npy")
    assert done.returncode == 2
    assert "dense_pack_add_nn_relu' of input 'data' (float64[1,64])): " in error_line(done)
    assert "p0.dtype is expected to be float32" in error_line(done)
    done = pack("run", golden / "vm_mlp.so", "data=long.npy", "--name", "other")
    assert done.returncode == 2
    assert "no function 'other'; there are: main" in done.stderr


def test_only_graphs_run_in_parallel(pack, error_line, golden: Path) -> None:
    done = pack(
        "run", golden / "vm_mlp.so", f"data={golden / 'mlp_llvm.npz'}:data", "--parallel", "2"
    )
    assert done.returncode == 2
    assert "--parallel is for graph executors" in error_line(done)


def test_names_before_a_functions_arguments_are_for_the_reader(pack, model: Path) -> None:
    done = pack("run", model, "twice", "x=x.npy", "y=float32[2]")
    assert (done.returncode, done.stdout) == (0, "out0 = float32[2] [2. 4.]\n")


def test_a_graph_that_is_no_json_names_the_file(pack, error_line, tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text("void f(void) {}\n")
    (tmp_path / "bad.json").write_text("{")
    done = pack("build", "--kernel", "k.c", "--graph", "bad.json", "-o", "o.so")
    assert done.returncode == 2
    assert "bad.json: " in error_line(done)
    done = pack("build", "--kernel", "k.c", "--params", "k.c", "-o", "o.so")
    assert done.returncode == 2
    assert "--params needs --graph" in error_line(done)
    (tmp_path / "graph.json").write_text(json.dumps(GRAPH))
    done = pack(
        "build", "--kernel", "k.c", "--graph", "graph.json", "--params", "k.c", "-o", "o.so"
    )
    assert done.returncode == 1
    assert "k.c: " in error_line(done)
    assert not (tmp_path / "o.so").exists()


def test_loading_is_timed_without_python_s_imports(model: Path, tmp_path: Path) -> None:
    script = """
import sys, time
from mblob.cli.main import main
seen, clock = [], time.perf_counter
time.perf_counter = lambda: seen.append(set(sys.modules)) or clock()
assert main(["run", "model.so", "x=x.npy", "--name", "small", "--profile"]) == 0
imported = [sorted(after - before) for before, after in zip(seen, seen[1:])]
assert len(imported) >= 4 and not any(imported), imported
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", ["e4m3_float8", "e5m2_float8", "bfloat16"])
@pytest.mark.parametrize("installed", [True, False])
def test_types_that_numpy_files_have_not_are_bits(
    pack, tmp_path: Path, dtype: str, installed: bool
) -> None:
    import mblob

    size = 2 if dtype == "bfloat16" else 1
    graph = json.loads(json.dumps(GRAPH))
    graph |= {"nodes": [graph["nodes"][i] for i in (0, 2)], "arg_nodes": [0], "heads": [[1, 0, 0]]}
    graph |= {
        "node_row_ptr": [0, 1, 2],
        "attrs": {key: [kind, of[:2]] for key, (kind, of) in GRAPH["attrs"].items()},
    }
    graph["attrs"]["dltype"] = ["list_str", [dtype] * 2]
    factory = mblob.graph_executor_factory(graph)
    factory.import_module(
        mblob.csource_module(
            "#include <tvm/runtime/c_runtime_api.h>\n#include <string.h>\n"
            "int twice(TVMValue *a, int *c, int n, TVMValue *r, int *rc, void *x) {\n"
            "  (void)c; (void)n; (void)r; (void)rc; (void)x;\n"
            f"  memcpy(((DLTensor *)a[1].v_handle)->data, ((DLTensor *)a[0].v_handle)->data, {2 * size});\n"
            "  return 0;\n}\n"
        )
    )
    mblob.export_library(factory, tmp_path / "small.so")
    bits = np.array([7, 8], f"u{size}")
    np.save(tmp_path / "bits.npy", bits)
    np.save(tmp_path / "raw.npy", bits.view(f"V{size}"))  # as numpy writes types of ml_dtypes
    hidden = "" if installed else "import sys; sys.modules['ml_dtypes'] = None\n"
    for name in ("bits.npy", "raw.npy"):
        words = ["run", "small.so", f"x={name}", "-o", "out.npz"]
        code = f"{hidden}from mblob.cli.main import main\nraise SystemExit(main({words!r}))"
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["out0"], bits)


def test_profile_writes_a_page_with_a_bar_for_each_operator(pack, model: Path) -> None:
    done = pack("run", model, "x=x.npy", "--name", "small", "--profile", "--html", "p.html")
    assert done.returncode == 0, done.stderr
    page = (model.parent / "p.html").read_text("utf-8")
    data = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])  # type: ignore[index]
    assert {row[1] for row in data["rows"]} == {"double", "sum"}
    assert [row[5] for row in data["rows"]] == ["float32[2]"] * 2
    assert [row[4] for row in data["rows"]] == sorted((r[4] for r in data["rows"]), reverse=True)
    assert len(data["graph"]["boxes"]) == 3  # b is written on the operator that takes it


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("page", "code", "text"),
    [
        ("nowhere/p.html", 5, "nowhere/p.html: No such file or directory"),
        ("folder", 5, "folder: Is a directory"),
        ("out.npz", 2, "-o and --html are both out.npz"),
        ("model.so", 2, "that is the library itself"),
        ("", 2, "--html: expected the name of a file"),
    ],
)
def test_no_output_is_written_if_the_page_cannot_be(
    page: str, code: int, text: str, pack, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    words = ("x=x.npy", "--name", "small", "-o", "out.npz", "--profile", "--html", page)
    done = pack("run", model, *words)
    assert (done.returncode, done.stdout, text in done.stderr) == (code, "", True), done.stderr
    assert not (tmp_path / "out.npz").exists()


def test_a_page_without_a_profile_is_refused(pack, model: Path) -> None:
    done = pack("run", model, "x=x.npy", "--name", "small", "--html", "p.html")
    assert done.returncode == 2
    assert "--html shows where the time went" in done.stderr
    assert "hint: add --profile" in done.stderr


def test_functions_of_a_program_that_nobody_provides_are_told_before_a_call(
    pack, tmp_path: Path
) -> None:
    import mblob
    from tests.loader.executors import relax_programs
    from tests.loader.executors.relax_programs import call, r, ret

    functions = [
        relax_programs.Function("main", [call(1, [r(0)], 1), ret(1)], ["x"]),
        relax_programs.Function("my.late"),
        relax_programs.Function("same", [ret(0)], ["x"]),
    ]
    root = mblob.blob_module("relax.VMExecutable", relax_programs.Program(functions).payload())
    root.import_module(mblob.csource_module(""))
    root.export_library(tmp_path / "late.so", dialect="ffi", index=False)
    np.save(tmp_path / "x.npy", np.array([1, 2], "f4"))
    told = "mblob-pack: warning: the program names functions that nobody provides: my.late; a call"
    done = pack("run", "late.so", "x=x.npy", "--name", "same", "-o", "out.npz")
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    assert done.stderr.startswith(told)
    done = pack("run", "late.so", "x=x.npy")
    assert done.returncode == 1
    first, second = done.stderr.splitlines()
    assert first.startswith(told)
    assert "Cannot find ffi::Function my.late" in second
    found = json.loads(pack("verify", "late.so", "--json").stdout)
    assert [w["code"] for w in found["warnings"]] == ["missing_functions"]
