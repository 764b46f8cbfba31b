"""`mblob.add(params=)`: parameters for the model of a finished library."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.loader.executors.test_relax_params import ARRAYS, NAMES, check, program, tensor_cache
from tests.packager.graphs import KERNELS_C, PROTOTYPES

pytestmark = pytest.mark.own_process  # starts libmblob-ffi.so


@pytest.fixture
def relax(tmp_path: Path) -> Path:
    """A program without parameters."""
    program().export_library(tmp_path / "relax.so", dialect="ffi")
    return tmp_path / "relax.so"


def machine(path: Path) -> mblob.relax.VirtualMachine:
    return mblob.relax.VirtualMachine(mblob.load_module(path), mblob.cpu(0))


def keys(path: Path) -> list[tuple[str, tuple[int, ...]]]:
    with mblob.open(path, verify="full") as library:
        return [(e.type_key, tuple(e.imports)) for e in library.entries]


# -- Relax programs --------------------------------------------------------------------------------


def files(folder: Path) -> dict[str, tuple[Any, list[str]]]:
    """The same arrays as people have them, and their order in each."""
    np.savez(folder / "p.npz", **ARRAYS)
    np.savez_compressed(folder / "deflated.npz", **ARRAYS)
    (folder / "p.params").write_bytes(mblob.save_param_dict(ARRAYS))
    mblob.save_tensors(folder / "p.safetensors", ARRAYS)
    (folder / "ordered.safetensors").write_bytes(
        mblob.safetensors_module(ARRAYS, order=["a", "b", "w"]).payload
    )
    found: dict[str, tuple[Any, list[str]]] = {
        "dictionary": (ARRAYS, NAMES),
        "npz": (folder / "p.npz", NAMES),
        "compressed npz": (folder / "deflated.npz", NAMES),
        "params": (folder / "p.params", sorted(NAMES)),
        "safetensors": (folder / "p.safetensors", ["w", "b", "a"]),  # as they lie there
        "file of mblob": (folder / "ordered.safetensors", ["a", "b", "w"]),
    }
    for name in ("tensor-cache.json", "ndarray-cache.json"):
        (folder / name).mkdir()
        made = tensor_cache(folder / name)
        (made / "tensor-cache.json").rename(made / name)
        found[f"folder with {name}"] = (made, NAMES)
    return found


KINDS = ["dictionary", "npz", "compressed npz", "params", "safetensors", "file of mblob",
         "folder with tensor-cache.json", "folder with ndarray-cache.json"]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.* the order of its tensors is that of their names")
@pytest.mark.parametrize("kind", KINDS)
def test_a_program_gets_them_in_the_order_of_the_file(
    relax: Path, tmp_path: Path, kind: str
) -> None:
    params, names = files(tmp_path)[kind]
    out = tmp_path / "all.so"
    assert mblob.add(relax, params=params, output=out) == 0
    assert keys(out) == [("relax.VMExecutable", (1, 2)), ("library", ()), ("safetensors", ())]
    check(machine(out), names)  # each at a multiple of 64
    with mblob.open(out) as library:
        facts = library.entries[2].content.facts
    assert facts == {"parameters": names, "copied": 5}  # w has 128 bytes; b and a lie behind it


@pytest.mark.parametrize("name", ["new.safetensors", "new.npz"])
def test_a_file_that_replaces_parameters_leaves_their_order(
    relax: Path, tmp_path: Path, name: str
) -> None:
    mblob.add(relax, params=ARRAYS, output=tmp_path / "all.so")
    new = {n: ARRAYS[n] + 1 for n in ("a", "b")}  # sorted, and not all
    if name == "new.npz":
        np.savez(tmp_path / name, **new)
    else:
        mblob.save_tensors(tmp_path / name, new)
    mblob.swap(tmp_path / "all.so", weights=tmp_path / name)
    found = machine(tmp_path / "all.so").params
    for parameter, tensor in zip(NAMES, found):
        np.testing.assert_array_equal(tensor.numpy(), {**ARRAYS, **new}[parameter])


def test_another_order_wins(relax: Path, tmp_path: Path) -> None:
    order, out = ["a", "w", "b"], tmp_path / "all.so"
    (tmp_path / "names.json").write_text(json.dumps(order))
    for given in (order, tmp_path / "names.json"):
        mblob.add(relax, params=ARRAYS, order=given, output=out)
        check(machine(out), order)


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.filterwarnings("ignore:TVM cannot open:mblob.PortabilityWarning")
def test_other_things_come_along(tmp_path: Path, index: bool) -> None:
    program().export_library(tmp_path / "relax.so", dialect="ffi", index=index)
    out = tmp_path / "all.so"
    (tmp_path / "k.c").write_text("int half(int x) { return x / 2; }")
    mblob.add(
        tmp_path / "relax.so",
        params=ARRAYS,
        weights={"other": np.ones(3)},
        blobs={"labels": b"[1]"},
        kernels=tmp_path / "k.c",
        output=out,
    )
    check(machine(out), NAMES)
    lib = mblob.load_module(out)
    assert (
        lib["half"](8) == 4 and bytes(lib.payloads["labels"]) == b"[1]" and "other" in lib.tensors
    )
    mblob.add(out, blobs={"more": b"2"})
    check(machine(out), NAMES)


def test_a_program_has_one_set(relax: Path, tmp_path: Path) -> None:
    out = tmp_path / "all.so"
    mblob.add(relax, params=ARRAYS, output=out)
    before = out.read_bytes()
    new = {"b": ARRAYS["b"] + 1, "extra": np.zeros(2, "int16")}
    for given in (ARRAYS, new):
        with pytest.raises(
            mblob.BuildError,
            match=r"entry 2 \(safetensors\): .* takes one set; replace=True replaces",
        ):
            mblob.add(out, params=given)
    lib = mblob.load_module(out)
    lib.import_module(mblob.safetensors_module(new, order=True))
    with pytest.raises(mblob.BuildError, match="takes one set"):
        lib.export_library(tmp_path / "by_hand.so")
    assert out.read_bytes() == before
    mblob.add(out, params=new, order=["extra", "b"], replace=True)
    assert [key for key, _ in keys(out)] == ["relax.VMExecutable", "library", "safetensors"]
    extra, b = machine(out).params
    assert (extra.dtype, b.numpy().tolist()) == ("int16", [1, 2, 3])


def test_two_sets_in_one_call(relax: Path) -> None:
    more = mblob.safetensors_module({"x": np.zeros(2)}, order=True)
    with pytest.raises(mblob.BuildError, match="two sets of parameters; a program has one"):
        mblob.add(relax, params=ARRAYS, modules=[more])


def test_weights_become_the_parameters(relax: Path, tmp_path: Path) -> None:
    """Somebody added them as weights first; they stay once."""
    out = tmp_path / "all.so"
    mblob.add(relax, weights=ARRAYS, output=out)
    assert machine(out).params == ()
    with pytest.raises(mblob.BuildError, match=r"has a tensor '.' already; replace=True"):
        mblob.add(out, params=ARRAYS)
    mblob.add(out, params=ARRAYS, replace=True)
    assert keys(out) == [("relax.VMExecutable", (1, 2)), ("library", ()), ("safetensors", ())]
    check(machine(out), NAMES)


def test_names_of_other_weights_are_not_taken(relax: Path, tmp_path: Path) -> None:
    out = tmp_path / "all.so"
    mblob.add(relax, params={"x": np.zeros(3)}, weights={"w": np.zeros(2)}, output=out)
    with pytest.raises(
        mblob.BuildError, match="tensor 'w' already; give the parameters other names"
    ):
        mblob.add(out, params=ARRAYS, replace=True)


def test_objects_of_a_program_get_them(tmp_path: Path) -> None:
    program().export_library(tmp_path / "p.tar", dialect="ffi")
    mblob.add(tmp_path / "p.tar", params=ARRAYS, blobs={"k": b"1"}, output=tmp_path / "all.so")
    check(machine(tmp_path / "all.so"), NAMES)
    mblob.add(tmp_path / "p.tar", params=ARRAYS, output=tmp_path / "q.tar")
    with pytest.raises(mblob.BuildError, match="takes one set; make a library of"):
        mblob.add(tmp_path / "q.tar", params=ARRAYS, output=tmp_path / "b.so")


def test_by_hand_and_by_add_give_the_same_file(relax: Path, tmp_path: Path) -> None:
    mblob.add(relax, params=ARRAYS, output=tmp_path / "b.so")
    lib = mblob.load_module(relax)
    lib.import_module(mblob.safetensors_module(ARRAYS, order=True))
    lib.export_library(tmp_path / "c.so")
    assert (tmp_path / "b.so").read_bytes() == (tmp_path / "c.so").read_bytes()


def test_they_are_never_in_memory(relax: Path, tmp_path: Path) -> None:
    mblob.save_tensors(
        tmp_path / "p.safetensors", {"big": np.ones(80 << 20, "uint8"), "more": np.ones(1)}
    )
    script = "import mblob\nmblob.add('relax.so', params='p.safetensors')\n"
    script += "print(open('/proc/self/status').read().split('VmData:')[1].split()[0])"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 80 << 10  # KiB
    big, _ = machine(relax).params
    assert big.numpy().sum() == 80 << 20


# -- graph models ----------------------------------------------------------------------------------


def graph(path: Path, **params: Any) -> Path:
    """x + w + v, of which some have values."""
    g = mblob.GraphBuilder()
    x, w, v = (g.input(n, 4, "int32") for n in "xwv")
    g.output(g.call("add", [g.call("add", [x, w], (4,), "int32"), v], (4,), "int32"))
    factory = mblob.graph_executor_factory(g.graph_json(), params, "model")
    factory.import_module(mblob.csource_module(KERNELS_C, functions=PROTOTYPES, packed="name"))
    factory.export_library(path)
    return path


def run_graph(path: Path, **inputs: Any) -> list[int]:
    model = mblob.graph_executor.GraphModule(mblob.load_module(path)["model"](mblob.cpu(0)))
    model.run(**{name: np.array(value, "int32") for name, value in inputs.items()})
    result: list[int] = model.get_output(0).numpy().tolist()
    return result


TEN, HUNDRED = np.full(4, 10, "int32"), np.full(4, 100, "int32")


def test_a_graph_model_gets_values_of_inputs(tmp_path: Path) -> None:
    path = graph(tmp_path / "g.so")
    np.savez(tmp_path / "p.npz", w=TEN)
    mblob.add(path, params=tmp_path / "p.npz")
    assert run_graph(path, x=[1, 2, 3, 4], v=[0] * 4) == [11, 12, 13, 14]
    before = path.read_bytes()
    with pytest.raises(
        mblob.BuildError, match="the graph has a parameter 'w' already; replace=True"
    ):
        mblob.add(path, params={"w": HUNDRED})
    assert path.read_bytes() == before
    mblob.add(path, params={"v": HUNDRED}, blobs={"labels": b"1"})
    assert run_graph(path, x=[1, 2, 3, 4]) == [111, 112, 113, 114]
    mblob.add(path, params={"w": HUNDRED}, replace=True)
    assert run_graph(path, x=[1, 2, 3, 4]) == [201, 202, 203, 204]
    assert [key for key, _ in keys(path)] == ["GraphExecutorFactory", "library", "labels"]


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"ww": TEN}, "the graph has no input 'ww'; it has x, w, v; did you mean 'w'"),
        (
            {"w": TEN.astype("float32")},
            r"parameter 'w': expected int32 of shape \[4\], found float32",
        ),
        ({"w": TEN[:3]}, r"expected int32 of shape \[4\], found int32 of shape \[3\]"),
    ],
)
def test_what_the_graph_does_not_take(tmp_path: Path, params: Any, text: str) -> None:
    path = graph(tmp_path / "g.so")
    before = path.read_bytes()
    with pytest.raises(mblob.BuildError, match=text):
        mblob.add(path, params=params)
    assert path.read_bytes() == before


def test_a_model_of_tvm_gets_other_parameters(golden: Path, tmp_path: Path) -> None:
    outcome, out = np.load(golden / "mlp_llvm.npz"), tmp_path / "a.so"
    with mblob.open(golden / "mlp_llvm.so") as library:
        params = {
            t.name: np.frombuffer(t.data, str(t.dtype)).reshape(t.shape)
            for t in library.entries[0].tensors
        }
    with pytest.raises(mblob.BuildError, match=r"has a parameter '.*' already"):
        mblob.add(golden / "mlp_llvm.so", params=params, output=out)
    mblob.add(golden / "mlp_llvm.so", params=params, output=out, replace=True)
    model = mblob.graph_executor.GraphModule(mblob.load_module(out)["default"](mblob.cpu()))
    model.run(data=outcome["data"])
    np.testing.assert_array_equal(model.get_output(0).numpy(), outcome["out"])


# -- errors ----------------------------------------------------------------------------------------


def test_errors_of_what_was_given(golden: Path, relax: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.so"
    out.write_bytes(b"old")
    plain, model = golden / "host_c.so", graph(tmp_path / "g.so")
    (tmp_path / "w.txt").write_text("no weights")
    (tmp_path / "empty").mkdir()
    (tmp_path / "p.tar").symlink_to(tmp_path / "gone")
    cases: list[tuple[Path, dict[str, Any], type[Exception], str]] = [
        (plain, {"params": ARRAYS}, mblob.BuildError, "one Relax program or graph model, found 0; .*weights="),
        (golden / "aot_mlp.so", {"params": ARRAYS}, mblob.BuildError, "found 0; swap replaces tensors of the Aot"),
        (golden / "vm_mlp.so", {"params": ARRAYS}, mblob.BuildError, "found 0; swap replaces tensors of the VMExec"),
        (relax, {"order": NAMES}, mblob.BuildError, "give params=, too"),
        (relax, {"params": ARRAYS, "order": ["b", "x"]}, mblob.BuildError, "missing: w, a; unknown: x"),
        (relax, {"params": ARRAYS, "order": tmp_path / "gone"}, FileNotFoundError, "gone"),
        (relax, {"params": tmp_path / "gone.npz"}, FileNotFoundError, "gone.npz"),
        (relax, {"params": tmp_path / "w.txt"}, mblob.FormatError, "w.txt"),
        (relax, {"params": tmp_path / "empty"}, mblob.FormatError, "expected tensor-cache.json or ndarray-cache.json"),
        (relax, {"params": [1, 2]}, mblob.BuildError, "expected the path of a file or a dictionary of arrays"),
        (relax, {"params": {"w": "text"}}, mblob.BuildError, "tensor 'w': expected an array"),
        (model, {"params": ARRAYS, "order": NAMES}, mblob.BuildError, "a graph model has none"),
        (model, {"params": [1, 2]}, mblob.BuildError, "expected the path of a file or a dictionary of arrays"),
        (model, {"params": tmp_path / "gone.npz"}, FileNotFoundError, "gone.npz"),
        (relax, {"params": out}, mblob.MblobError, "out.so"),
    ]  # fmt: skip
    for path, given, error, message in cases:
        with pytest.raises(error, match=message):
            mblob.add(path, **given, output=out)
        assert out.read_bytes() == b"old", message


def test_the_output_is_no_file_of_parameters(relax: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "p.npz", **ARRAYS)
    before = (tmp_path / "p.npz").read_bytes()
    with pytest.raises(mblob.BuildError, match="output is also"):
        mblob.add(relax, params=tmp_path / "p.npz", output=tmp_path / "p.npz")
    with pytest.raises(mblob.BuildError, match="output is also"):
        mblob.add(
            graph(tmp_path / "g.so"),
            params={"x": np.zeros(4, "int32")},
            weights=tmp_path / "p.npz",
            output=tmp_path / "p.npz",
        )
    assert (tmp_path / "p.npz").read_bytes() == before


@pytest.mark.filterwarnings("ignore::mblob.HiddenNameWarning")
def test_programs_are_named_where_there_are_several(tmp_path: Path) -> None:
    root = mblob.csource_module("")
    for _ in range(2):
        root.import_module(mblob.blob_module("relax.VMExecutable", program().payload))
    root.export_library(tmp_path / "two.so", dialect="ffi")
    with pytest.raises(mblob.BuildError, match=r"found 2; mblob\.add\(modules=\{INDEX: "):
        mblob.add(tmp_path / "two.so", params=ARRAYS)
    sets = {i: [mblob.safetensors_module({f"p{i}": np.ones(2)}, order=True)] for i in (1, 2)}
    mblob.add(tmp_path / "two.so", modules=sets)
    assert [key for key, _ in keys(tmp_path / "two.so")].count("safetensors") == 2


def test_graphs_and_tars_say_how_parameters_and_code_get_in(tmp_path: Path) -> None:
    graph(tmp_path / "g.tar")
    np.savez(tmp_path / "p.npz", w=TEN)
    words = ["build", "g.tar", "--params", "p.npz", "-o", "out.so"]
    done = subprocess.run(
        [sys.executable, "-m", "mblob.cli.main", *words],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (
        "build without --params, and give them to the graph model with add and --params"
        in done.stderr
    )
    code = mblob.csource_module("int f(int a) { return a; }")
    code.import_module(mblob.static_library(tmp_path / "g.tar"))
    with pytest.raises(ValueError, match=r"imported by the module of the \.tar"):
        code.export_library(tmp_path / "out.so")
