"""dnnl_json modules: the protocol, models that TVM compiled, calls from threads and after a
fork."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import mblob
from tests.loader.dnnl import dnnl_graphs as ref
from tests.loader.dnnl.dnnl_graphs import CONVOLUTION, Graph, floats, python
from tests.loader.dnnl.dnnl_graphs import small_convolution as conv

pytestmark = [pytest.mark.own_process, pytest.mark.usefixtures("onednn")]
ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT.parent / "shared" / "golden"


def chain(symbol: str, length: int) -> Graph:
    """Convolutions one after another with a sum across each, so that values stay where oneDNN put
    them."""
    g = Graph(symbol)
    x = floats(1, 16, 8, 8)
    value, entry = x.astype("float64"), g.input(x)
    for _ in range(length):
        w, b = floats(16, 16, 3, 3) * np.float32(0.1), floats(16)
        first = g.kernel(
            "dnnl.conv2d_bias_relu", [entry, g.const(w), g.const(b)], x.shape, **CONVOLUTION
        )
        inner = np.maximum(ref.convolve(value, w, [1, 1], [1] * 4, [1, 1]) + b.reshape(-1, 1, 1), 0)
        entry = g.kernel(
            "dnnl.conv2d_bias_sum_relu",
            [first, g.const(w), g.const(b), entry],
            x.shape,
            **CONVOLUTION,
        )
        value = np.maximum(
            ref.convolve(inner, w, [1, 1], [1] * 4, [1, 1]) + b.reshape(-1, 1, 1) + value, 0
        )
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
    """Another __init_ replaces the constants; one that fails leaves them; calls that run keep
    theirs."""
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


@pytest.mark.slow
def test_a_network_of_our_own(tmp_path: Path) -> None:
    """Its layers on oneDNN, as our partitioner gives them to it, against the same layers in plain
    C."""
    sys.path.insert(0, str(ROOT / "examples" / "convnet"))
    try:
        import convnet
    finally:
        sys.path.pop(0)
    image = np.random.default_rng(3).random(convnet.IMAGE, dtype="float32")
    answers = []
    for dnnl in (False, True):
        convnet.model(dnnl).export_library(tmp_path / f"{dnnl}.so")
        model = mblob.graph_executor.GraphModule(
            mblob.load_module(tmp_path / f"{dnnl}.so")["default"](mblob.cpu(0))
        )
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
from tests.loader.dnnl import dnnl_graphs as ref
from tests.loader.dnnl.dnnl_graphs import CONVOLUTION, Graph, floats, python
from tests.loader.dnnl.dnnl_graphs import small_convolution as conv

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


@pytest.mark.sample(2)
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
