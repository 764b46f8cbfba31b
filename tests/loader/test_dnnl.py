"""dnnl_json modules: the protocol, models that TVM compiled, errors that name what is wrong, calls from threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.loader import dnnl_graphs as ref
from tests.loader.dnnl_graphs import Graph, floats

pytestmark = pytest.mark.usefixtures("onednn")
ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT.parent / "shared" / "golden"


def conv(symbol: str, **changes: Any) -> Graph:
    """A small convolution with a bias and a relu; `changes` are attributes, None removes one."""
    g = Graph(symbol)
    x, w, b = floats(1, 4, 6, 6), floats(8, 4, 3, 3), floats(8)
    y = np.maximum(ref.convolve(x, w, [1, 1], [1] * 4, [1, 1]) + b.reshape(-1, 1, 1), 0)
    attrs: dict[str, Any] = {
        "strides": [1, 1],
        "padding": [1, 1, 1, 1],
        "dilation": [1, 1],
        "groups": 1,
        "data_layout": "NCHW",
        "kernel_layout": "OIHW",
        "out_layout": "",
        **changes,
    }
    entry = g.kernel(
        "dnnl.conv2d_bias_relu",
        [g.input(x), g.const(w), g.const(b)],
        y.shape,
        **{k: v for k, v in attrs.items() if v is not None},
    )
    return g.result(entry, y.astype("float32"))


def chain(symbol: str, length: int) -> Graph:
    """Convolutions one after another with a sum across each, so that values stay where oneDNN put them."""
    g = Graph(symbol)
    x = floats(1, 16, 8, 8)
    value, entry = x.astype("float64"), g.input(x)
    for _ in range(length):
        w, b = floats(16, 16, 3, 3) * np.float32(0.1), floats(16)
        attrs = {
            "strides": [1, 1],
            "padding": [1, 1, 1, 1],
            "dilation": [1, 1],
            "groups": 1,
            "data_layout": "NCHW",
            "kernel_layout": "OIHW",
            "out_layout": "",
        }
        first = g.kernel("dnnl.conv2d_bias_relu", [entry, g.const(w), g.const(b)], x.shape, **attrs)
        inner = np.maximum(ref.convolve(value, w, [1, 1], [1] * 4, [1, 1]) + b.reshape(-1, 1, 1), 0)
        entry = g.kernel("dnnl.conv2d_bias_sum_relu", [first, g.const(w), g.const(b), entry], x.shape, **attrs)
        value = np.maximum(ref.convolve(inner, w, [1, 1], [1] * 4, [1, 1]) + b.reshape(-1, 1, 1) + value, 0)
    g.atol = 1e-5
    return g.result(entry, value.astype("float32"))


@pytest.mark.parametrize("name", ["dnnl_llvm_factory.so", "dnnl_c_lib.so"])
def test_models_of_tvm(name: str) -> None:
    if not GOLDEN.is_dir():
        pytest.skip("no golden libraries beside this project")
    data = np.load(GOLDEN / "dnnl_llvm.npz")
    lib = mblob.load_module(GOLDEN / name)
    if name == "dnnl_c_lib.so":
        text = json.dumps(json.loads((GOLDEN / "dnnl_c_lib.json").read_text())["graph"])
        model = mblob.graph_executor.create(text, lib, mblob.cpu(0))
    else:
        model = mblob.graph_executor.GraphModule(lib["default"](mblob.cpu(0)))
    for key in ("d1", "w1", "b1"):
        model.set_input(key, data[key])
    model.run()
    np.testing.assert_allclose(model.get_output(0).numpy(), data["out"], rtol=1e-5, atol=1e-5)


# ---- the protocol ----


def test_protocol(tmp_path: Path) -> None:
    g = conv("net")
    lib = ref.export([mblob.json_module("dnnl_json", "net", g.text(), list(g.constants))], tmp_path)
    module = lib.imported_modules[0]
    assert module["get_symbol"]() == "net"
    assert json.loads(module["get_const_vars"]()) == list(g.constants)
    assert not module.implements_function("other")
    with pytest.raises(mblob.MblobError, match="The module has not been initialized"):
        g.run(lib)
    arrays = list(g.constants.values())
    with pytest.raises(ValueError, match="expected 2 constants, found 1"):
        module["__init_net"](arrays[0])
    with pytest.raises(ValueError, match=r"argument 1: expected float32\[8\], found float32\[2\]"):
        module["__init_net"](arrays[0], floats(2))
    assert module["__init_net"](*arrays) == 0
    g.check(lib)
    assert module["__init_net"](*arrays) == 0
    g.check(lib)


def test_new_constants(tmp_path: Path) -> None:
    """Another __init_ replaces the constants; one that fails leaves them; calls that run keep theirs."""
    g = chain("net", 2)
    lib = ref.export([mblob.json_module("dnnl_json", "net", g.text(), list(g.constants))], tmp_path)
    initialize = lib.imported_modules[0]["__init_net"]
    first = list(g.constants.values())
    second = [a * np.float32(0.5) for a in first]
    initialize(*first)
    old = g.run(lib)[0]
    initialize(*second)
    new = g.run(lib)[0]
    assert not np.array_equal(old, new)
    with pytest.raises(ValueError, match="expected 8 constants, found 1"):
        initialize(first[0])
    assert np.array_equal(g.run(lib)[0], new)
    wrong, done = [], threading.Event()

    def work() -> None:
        while not done.is_set():
            found = g.run(lib)[0]
            if not (np.array_equal(found, old) or np.array_equal(found, new)):
                wrong.append(found)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for i in range(30):
        initialize(*(second if i % 2 else first))
    done.set()
    for t in threads:
        t.join()
    assert not wrong
    assert np.array_equal(g.run(lib)[0], new)


def test_constants_may_go_after_init(tmp_path: Path) -> None:
    g = conv("net")
    lib = ref.export([mblob.json_module("dnnl_json", "net", g.text(), list(g.constants))], tmp_path)
    copies = [a.copy() for a in g.constants.values()]
    lib.imported_modules[0]["__init_net"](*copies)
    for c in copies:
        c.fill(np.nan)
    g.check(lib)


def test_chain(tmp_path: Path) -> None:
    g = chain("chain", 4)
    ref_lib = ref.export([g.module()], tmp_path)
    g.check(ref_lib)
    g.check(ref_lib)


def test_outputs_that_no_node_writes(tmp_path: Path) -> None:
    g = Graph("odd")
    x, c = floats(2, 3), floats(4)
    given, kept = g.input(x), g.const(c)
    relu = g.kernel("nn.relu", [given], x.shape)
    for entry, value in ((relu, np.maximum(x, 0)), (given, x), (kept, c), (relu, np.maximum(x, 0))):
        g.result(entry, value)
    g.check(ref.export([g.module()], tmp_path))


def test_calls_from_threads(tmp_path: Path) -> None:
    g = chain("chain", 2)
    lib = ref.export([g.module()], tmp_path)
    wanted, wrong = g.run(lib)[0], []

    def work() -> None:
        for _ in range(20):
            if not np.array_equal(g.run(lib)[0], wanted):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_network_of_our_own(tmp_path: Path) -> None:
    """Its layers on oneDNN, as our partitioner gives them to it, against the same layers in plain C."""
    sys.path.insert(0, str(ROOT / "examples" / "convnet"))
    try:
        import convnet
    finally:
        sys.path.pop(0)
    image = np.random.default_rng(3).random(convnet.IMAGE, dtype="float32")
    answers = []
    for dnnl in (False, True):
        convnet.model(dnnl).export_library(tmp_path / f"{dnnl}.so")
        model = mblob.graph_executor.GraphModule(mblob.load_module(tmp_path / f"{dnnl}.so")["default"](mblob.cpu(0)))
        model.set_input("image", image)
        model.run()
        answers.append(model.get_output(0).numpy().copy())
    np.testing.assert_allclose(answers[1], answers[0], rtol=1e-5, atol=1e-5)
    assert 0.01 < answers[0].max() < 0.99, "an answer that tells something"


THREADS = """
import os, sys
import numpy as np
import mblob
from pathlib import Path
from tests.loader import dnnl_graphs as ref
from tests.loader.dnnl_graphs import Graph, floats

given, rows = int(sys.argv[1]), int(sys.argv[3])
if given:
    mblob.get_global_func("runtime.config_threadpool")(-1, given)
g = Graph("net", atol=1e-4)
x, w = floats(rows, 256), floats(256, 256)
g.result(g.kernel("nn.dense", [g.input(x), g.const(w)], (rows, 256), units=256), x @ w.T)
lib = ref.export([g.module()], Path(sys.argv[2]))
before = len(os.listdir("/proc/self/task"))
g.check(lib)
print(len(os.listdir("/proc/self/task")) - before + 1)
"""


@pytest.mark.parametrize(
    ("environment", "given", "rows", "threads"),
    [
        ({"TVM_NUM_THREADS": "1"}, 0, 64, 1),
        ({"TVM_NUM_THREADS": "3"}, 0, 64, 3),
        ({"OMP_NUM_THREADS": "2"}, 0, 64, 2),
        ({}, 3, 64, 3),
        ({"TVM_NUM_THREADS": "3"}, 0, 1, 1),  # too little to be divided
    ],
)
def test_threads_are_as_many_as_the_pool_has(
    environment: dict[str, str], given: int, rows: int, threads: int, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", THREADS, str(given), str(tmp_path), str(rows)],
        env={**os.environ, **environment},
        text=True,
        capture_output=True,
        check=False,
        cwd=ROOT,
    )
    assert not done.returncode, done.stderr
    assert int(done.stdout) == threads


# ---- errors ----


def edited(change: Callable[[dict[str, Any]], Any], **attrs: Any) -> Callable[[str], mblob.Module]:
    def make(symbol: str) -> mblob.Module:
        g = conv(symbol, **attrs)
        graph = json.loads(g.text())
        change(graph)
        return g.module(json.dumps(graph))

    return make


def kernel(**values: Any) -> Callable[[str], mblob.Module]:
    return edited(lambda graph: graph["nodes"][3].update(values))


LIES: dict[str, tuple[Callable[[str], mblob.Module], str]] = {
    "no_operator": (kernel(name="nn.fancy"), "node 3 `nn.fancy`: this operator is not one"),
    "missing": (
        edited(lambda g: None, strides=None),
        "node 3 `dnnl.conv2d_bias_relu`: the attribute strides is missing",
    ),
    "no_number": (edited(lambda g: None, groups="many"), "the attribute groups is `many`, expected a whole number"),
    "too_few": (edited(lambda g: None, strides=[1]), "the attribute strides has 1 values, expected 2"),
    "no_stride": (edited(lambda g: None, strides=[0, 1]), "the attribute strides is 0, expected 1 to 2147483647"),
    "nested": (edited(lambda g: g["nodes"][3]["attrs"].update(groups={"a": 1})), "the attribute groups is no text"),
    "groups": (edited(lambda g: None, groups=3), "4 channels and 8 results cannot be divided into 3 groups"),
    "layout": (edited(lambda g: None, data_layout="NCXY"), "data_layout is `NCXY`: a letter that names no axis"),
    "layout_rank": (edited(lambda g: None, data_layout="NCHW8c"), r"does not fit the shape of float32\[1, 4, 6, 6\]"),
    "layout_block": (edited(lambda g: None, data_layout="NCHW8"), "a block is a number"),
    "padding": (edited(lambda g: None, padding=[3] * 4), "the result has 6 at spatial axis 0, and .* make it 10"),
    "weights": (
        edited(lambda g: g["nodes"][1]["attrs"].update(shape=[[[8, 5, 3, 3]]])),
        r"expected float32\[8, 5, 3, 3\]",
    ),
    "cycle": (kernel(inputs=[[3, 0, 0], [1, 0, 0], [2, 0, 0]]), "input 0 of node 3 names node 3, expected one below 3"),
    "far": (kernel(inputs=[[0, 0, 0], [1, 7, 0], [2, 0, 0]]), "input 1 of node 3 names output 7 of node 1"),
    "few_inputs": (kernel(inputs=[[0, 0, 0]]), "it has 1 inputs, expected at least 2"),
    "head": (edited(lambda g: g.update(heads=[[9, 0, 0]])), "head 0 names node 9"),
    "no_heads": (edited(lambda g: g.update(heads=[])), "no heads"),
    "rows": (edited(lambda g: g.update(node_row_ptr=[0, 2, 3, 4, 5])), "node_row_ptr says 2, and its shapes make it 1"),
    "args": (edited(lambda g: g.update(arg_nodes=[0, 1, 3])), "arg_nodes names node 3, which is no input"),
    "args_twice": (edited(lambda g: g.update(arg_nodes=[0, 1, 1])), "arg_nodes names node 1 twice"),
    "const_name": (
        edited(lambda g: g["nodes"][1].update(name="x")),
        "no const node of arg_nodes is called `const_name_const_0`",
    ),
    "dtype": (
        edited(lambda g: g["nodes"][3]["attrs"].update(dtype=[["float64"]])),
        "a dtype that oneDNN does not have",
    ),
    "huge": (edited(lambda g: g["nodes"][0]["attrs"].update(shape=[[[1 << 40, 1 << 40]]])), "a shape of 2\\^63 bytes"),
    "negative": (edited(lambda g: g["nodes"][0]["attrs"].update(shape=[[[-1, 4]]])), "a dimension below 1"),
    "rank": (edited(lambda g: g["nodes"][0]["attrs"].update(shape=[[[1] * 13]])), "more than 12 dimensions"),
    "op": (kernel(op="data"), "none of input, const, kernel"),
    "json": (lambda s: conv(s).module('{"nodes": [}'), "the graph's JSON, at byte"),
    "mixed": (
        edited(lambda g: g["nodes"][3]["attrs"].update(dtype=[["int32"]])),
        r"does not do this \(.*\), from float32\[1, 4, 6, 6\]",
    ),
}


@pytest.fixture(scope="module")
def lies(tmp_path_factory: pytest.TempPathFactory, onednn: str) -> mblob.Module:
    return ref.export(
        [make(name) for name, (make, _) in LIES.items()] + [conv("good").module()], tmp_path_factory.mktemp("lies")
    )


@pytest.mark.parametrize("name", LIES)
def test_lies(name: str, lies: mblob.Module) -> None:
    index = list(LIES).index(name)
    module = next(m for i, m in enumerate(reversed(lies.imported_modules[: len(LIES) + 1])) if i == index)
    with pytest.raises((mblob.MblobError, ValueError), match=LIES[name][1]) as caught:
        module[name](floats(1, 4, 6, 6), floats(1, 8, 6, 6))
    assert "\n" not in str(caught.value)


ARGUMENTS: dict[str, tuple[tuple[Any, ...], str]] = {
    "count": ((floats(1, 4, 6, 6),), r"expected 2 arguments \(1 inputs, then 1 outputs\), found 1"),
    "shape": (
        (floats(1, 4, 6, 5), floats(1, 8, 6, 6)),
        r"argument 0: expected float32\[1, 4, 6, 6\], found float32\[1, 4, 6, 5\]",
    ),
    "dtype": ((floats(1, 4, 6, 6).astype("float64"), floats(1, 8, 6, 6)), r"found float64\[1, 4, 6, 6\]"),
    "number": ((3, floats(1, 8, 6, 6)), "argument 0: expected a tensor, found type code 0"),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_wrong_arguments(name: str, lies: mblob.Module) -> None:
    arguments, text = ARGUMENTS[name]
    good = lies["good"]
    with pytest.raises(ValueError, match=text):
        good(*arguments)


# ---- the library ----


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        text=True,
        capture_output=True,
        check=False,
        cwd=ROOT,
    )


DESCRIBE = "from loader.plugins import plugins\nprint(next(p for p in plugins() if p.name == 'dnnl').describe())"


def test_a_library_that_is_named_and_absent() -> None:
    done = python(DESCRIBE, MBLOB_DNNL_LIBRARY="/nowhere/libdnnl.so.3")
    assert done.returncode
    assert "MBLOB_DNNL_LIBRARY=/nowhere/libdnnl.so.3 cannot be opened" in done.stderr


def test_python_tells_its_prefix() -> None:
    """`lib` of it is where wheels put libdnnl, and where the plug-in looks when the linker knows none."""
    assert mblob.get_global_func("mblob.python_prefix")() == sys.prefix


def fake(folder: Path, source: str) -> str:
    (folder / "fake.c").write_text(source)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "fake.so", folder / "fake.c"], check=True)
    return str(folder / "fake.so")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("int unused;", "is not oneDNN: it has no dnnl_version"),
        (
            "static int v[8] = {2, 5, 1}; int *dnnl_version(void) { return v; }",
            "is oneDNN 2.5.1, and dnnl_json runs on 2.6, 2.7 and 3",
        ),
        ("static int v[8] = {4, 0, 0}; int *dnnl_version(void) { return v; }", "is oneDNN 4.0.0"),
        ("static int v[8] = {3, 9, 9}; int *dnnl_version(void) { return v; }", "has no dnnl_engine_create"),
    ],
)
def test_libraries_that_do_not_fit(source: str, text: str, tmp_path: Path) -> None:
    done = python(DESCRIBE, MBLOB_DNNL_LIBRARY=fake(tmp_path, source))
    assert done.returncode
    assert text in done.stderr


def test_the_other_version(onednn: str) -> None:
    """All operators again on the other major version, where both are installed."""
    if "OTHER_ONEDNN" in os.environ:
        return
    wanted = "libdnnl.so.2" if "oneDNN 3" in onednn else "libdnnl.so.3"
    for path in (wanted, f"{sys.prefix}/lib/{wanted}"):
        found = python(DESCRIBE, MBLOB_DNNL_LIBRARY=path)
        if not found.returncode:
            break
    else:
        pytest.skip(f"{wanted} is not installed")
    files = [f"tests/loader/test_dnnl{part}.py" for part in ("_operators", "_shapes", "_types", "_eras", "_random", "")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *files],
        cwd=ROOT,
        check=False,
        text=True,
        capture_output=True,
        env={**os.environ, "MBLOB_DNNL_LIBRARY": path, "OTHER_ONEDNN": "1"},
    )
    assert not done.returncode, done.stdout[-4000:]


@pytest.mark.parametrize("folder", ["/usr/include", f"{sys.prefix}/include"])
def test_numbers_are_those_of_the_headers(folder: str) -> None:
    if not Path(folder, "oneapi/dnnl/dnnl.h").is_file():
        pytest.skip(f"no headers of oneDNN in {folder}")
    subprocess.run(
        ["cc", "-std=gnu11", "-fsyntax-only", "-Wall", "-Werror", f"-I{folder}", ROOT / "tests/c/dnnl_headers.c"],
        check=True,
    )


def test_a_fork_is_told_and_a_child_may_begin_anew(onednn: str) -> None:
    if not GOLDEN.is_dir():
        pytest.skip("no golden libraries beside this project")
    code = f"""
import os, signal
import mblob, numpy as np
def make():
    module = mblob.load_module({str(GOLDEN / "dnnl_llvm_factory.so")!r})
    model = mblob.graph_executor.GraphModule(module["default"](mblob.cpu(0)))
    stored = np.load({str(GOLDEN / "dnnl_llvm.npz")!r})
    model.set_input(d1=stored["d1"], w1=stored["w1"], b1=stored["b1"])
    return model, stored["out"]
model, expected = make()
model.run()
if os.fork() == 0:
    signal.alarm(60)
    try:
        model.run()
    except mblob.IncompatibleError as error:
        print(error)
    model, expected = make()
    model.run()
    print(abs(model.get_output(0).numpy() - expected).max() < 1e-4, flush=True)
    os._exit(0)
raise SystemExit(os.waitstatus_to_exitcode(os.wait()[1]) if hasattr(os, "waitstatus_to_exitcode") else 0)
"""
    done = python(code, OMP_NUM_THREADS="2")
    assert done.returncode == 0, done.stderr
    told, same = done.stdout.splitlines()
    assert "the process was forked after oneDNN ran on 2 threads" in told
    assert same == "True"
