"""Graphs that TVM's executors cannot run are refused, mended or told when they are packed, and told of
finished libraries."""

from __future__ import annotations

import copy
import ctypes
import json
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob import graph_executor
from mblob.bytes.wire import encode_string, encode_strings, encode_u64
from mblob.format.graph_json import GraphError, check_graph, check_names, dense_ids
from mblob.inspect.tvm_executor import crash
from mblob.repack import loaded_copy
from tests.packager.conftest import PackedLibrary, Tensor, floats

KERNEL = "void twice(const float *x, float *y) { for (int i = 0; i < 4; ++i) y[i] = 2 * x[i]; }\n"
PROTOTYPE = "void twice(const float x[4], float y[4])"
CALL = {"func_name": "twice", "num_inputs": "1", "num_outputs": "1", "flatten_data": "0"}


def graph(storage: list[int] | None = None, function: str = "twice", **keys: Any) -> dict[str, Any]:
    """x -> function -> a -> twice -> b."""
    return {
        "nodes": [
            {"op": "null", "name": "x", "inputs": []},
            {"op": "tvm_op", "name": "a", "attrs": {**CALL, "func_name": function}, "inputs": [[0, 0, 0]]},
            {"op": "tvm_op", "name": "b", "attrs": dict(CALL), "inputs": [[1, 0, 0]]},
        ],
        "arg_nodes": [0], "heads": [[2, 0, 0]], "node_row_ptr": [0, 1, 2, 3],
        "attrs": {
            "dltype": ["list_str", ["float32"] * 3], "storage_id": ["list_int", storage or [0, 1, 2]],
            "shape": ["list_shape", [[4]] * 3],
        },
        **keys,
    }  # fmt: skip


def model(text: Any = None, packed: Any = None, **options: Any) -> mblob.Module:
    factory = mblob.graph_executor_factory(graph() if text is None else text)
    factory.import_module(
        mblob.csource_module(KERNEL, functions=[PROTOTYPE], packed=packed, **options)
    )
    return factory


def raw(text: Any) -> mblob.Module:
    """The factory as any bytes."""
    strings = encode_u64(0) + encode_strings([]) + encode_string("default")
    return mblob.blob_module("GraphExecutorFactory", encode_string(json.dumps(text)) + strings)


def run(library: Path) -> list[float]:
    made = graph_executor.GraphModule(mblob.load_module(library)["default"](mblob.cpu(0)))
    made.run(x=np.ones(4, "float32"))
    return list(made.get_output(0).numpy())


def pack_verb(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mblob.cli.main", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def codes(library: Path) -> set[str]:
    with mblob.open(library) as lib:
        return {d["code"] for d in lib.diagnostics} & {"plain_operators", "tvm_graph"}


# -- plain functions -------------------------------------------------------------------------------


def called(library: Path) -> str:
    """What the graph of a library calls."""
    stored = json.loads(mblob.load_module(library)["get_graph_json"]())
    (name,) = {n["attrs"]["func_name"] for n in stored["nodes"] if n["op"] == "tvm_op"}
    return str(name)


def fcompile(path: str, files: list[str], options: Sequence[str] = ()) -> None:
    subprocess.run(["cc", "-shared", "-fPIC", "-o", path, *files, *options], check=True)


@pytest.mark.parametrize("link", [None, fcompile], ids=["own", "fcompile"])
def test_the_graph_of_a_library_calls_packed_functions_and_dlsym_finds_the_c_function(
    tmp_path: Path, link: Callable[..., None] | None
) -> None:
    path = tmp_path / "m.so"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model().export_library(path, link)
    assert codes(path) == set()
    # as TVM's executor does it: the symbol that the graph names, called as a packed function
    data, out = floats(1, 2, 3, 4), floats(0, 0, 0, 0)
    library = PackedLibrary(path)
    assert called(path) == "twice__packed"
    assert library.call(called(path), Tensor(data), Tensor(out))[0] == 0
    assert list(out) == [2, 4, 6, 8]
    # as a C host does it
    plain = ctypes.CDLL(str(path)).twice
    plain(data, out)
    assert list(out) == [2, 4, 6, 8]
    loaded = mblob.load_module(path)
    y = np.zeros(4, "float32")
    loaded["twice"](np.ones(4, "float32"), y)
    assert list(y) == [2.0] * 4
    assert run(path) == [4.0] * 4


def test_a_text_with_other_names_is_kept_as_it_was_written(tmp_path: Path) -> None:
    text = json.dumps(graph(), indent=3)
    model(text, packed="name").export_library(tmp_path / "m.so")
    stored = mblob.load_module(tmp_path / "m.so")["get_graph_json"]()
    assert stored.rstrip(" ") == text
    assert called(tmp_path / "m.so") == "twice"


def test_only_operators_get_other_names(tmp_path: Path) -> None:
    """Neither the text, nor metadata with the same key."""
    odd = graph(metadata={"func_name": "twice", "text": '"func_name": "twice"'})
    model(json.dumps(odd)).export_library(tmp_path / "m.so")
    assert called(tmp_path / "m.so") == "twice__packed"
    stored = json.loads(mblob.load_module(tmp_path / "m.so")["get_graph_json"]())
    assert stored["metadata"] == odd["metadata"]
    text = json.dumps(graph(), indent=3)
    model(text).export_library(tmp_path / "n.so")
    stored = mblob.load_module(tmp_path / "n.so")["get_graph_json"]()
    assert stored.rstrip(" ") == text.replace(
        '"func_name": "twice"', '"func_name": "twice__packed"'
    )


def test_a_module_is_the_same_after_it_was_packed(tmp_path: Path) -> None:
    module = model()
    before = module.get_source()
    module.export_library(tmp_path / "m.so")
    assert module.get_source() == before
    module.export_library(tmp_path / "system.a", system_lib=True, prefix="m_")
    module.export_library(tmp_path / "again.so")
    assert (tmp_path / "again.so").read_bytes() == (tmp_path / "m.so").read_bytes()


def test_bytes_of_a_graph_stay_and_its_plain_operators_are_told(tmp_path: Path) -> None:
    module = raw(graph())
    module.import_module(mblob.csource_module(KERNEL, functions=[PROTOTYPE]))
    with pytest.warns(mblob.PortabilityWarning) as found:
        module.export_library(tmp_path / "m.so")
    assert [str(w.message) for w in found] == [
        "GraphExecutorFactory: TVM's executor crashes on this library: it calls 'twice' as a packed function, but"
        " 'twice' is a plain C function. mblob can run the library. For TVM, add"
        ' packed="name".'
    ]
    assert [w.filename for w in found] == [__file__]
    assert codes(tmp_path / "m.so") == {"plain_operators"}
    assert run(tmp_path / "m.so") == [4.0] * 4


def test_code_without_the_name_of_a_module_is_warned_too(tmp_path: Path) -> None:
    module = raw(graph())
    module.import_module(mblob.csource_module(KERNEL, functions=[PROTOTYPE]))
    code = compile("module.export_library(path)", "given.py", "exec")
    with pytest.warns(mblob.PortabilityWarning, match="'twice' is a plain") as found:
        exec(code, {"module": module, "path": tmp_path / "m.so"})
    assert [w.filename for w in found] == ["given.py"]


def test_of_many_plain_operators_four_are_named() -> None:
    names = [f"f{i}" for i in range(6)]
    said = crash(names, names[:5])
    assert said is not None
    assert (
        "it calls 'f0', 'f1', 'f2', 'f3', ... as packed functions, but they are plain C functions. mblob"
        in said
    )
    assert crash(names, ["g"]) is None


def test_a_copy_that_tvm_never_sees_is_not_told_of_and_other_threads_still_warn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = raw(graph())
    module.import_module(mblob.csource_module(KERNEL, functions=[PROTOTYPE]))
    export = mblob.export_library

    def meanwhile(*arguments: Any) -> None:
        export(*arguments)
        warnings.warn("of another thread", mblob.PortabilityWarning, stacklevel=1)

    monkeypatch.setattr(mblob, "export_library", meanwhile)
    with pytest.warns(mblob.PortabilityWarning) as found:
        copy = loaded_copy(module)
    assert [str(w.message) for w in found] == ["of another thread"]
    assert copy.type_key == "GraphExecutorFactory"


@pytest.mark.parametrize("suffix", [".tar", ".so"])
def test_a_callers_link_and_a_tar_tell_it_too(tmp_path: Path, suffix: str) -> None:
    module = raw(graph())
    module.import_module(mblob.csource_module(KERNEL, functions=[PROTOTYPE]))
    with pytest.warns(mblob.PortabilityWarning, match="'twice' is a plain"):
        module.export_library(tmp_path / f"m{suffix}", fcompile if suffix == ".so" else None)


def test_what_tvm_can_call_is_not_told(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(packed="name").export_library(tmp_path / "packed.so")
        model().export_library(tmp_path / "m.tar")
        model().export_library(tmp_path / "system.a", system_lib=True, prefix="m_")
        unused = mblob.csource_module(KERNEL, functions=[PROTOTYPE])
        unused.import_module(mblob.blob_module("raw", b"x"))
        unused.export_library(tmp_path / "kernel.so")
        unused = mblob.csource_module(KERNEL, functions=[PROTOTYPE])
        unused.export_library(tmp_path / "ffi.so", dialect="ffi")
    assert codes(tmp_path / "packed.so") == codes(tmp_path / "kernel.so") == set()
    assert run(tmp_path / "packed.so") == [4.0] * 4


def test_other_executors_call_by_name_too(tmp_path: Path) -> None:
    payload = encode_u64(0) + encode_strings([]) + encode_string("default")
    for name, told in (("default___tvm_main__", 1), ("other", 0)):
        factory = mblob.blob_module("AotExecutorFactory", payload)
        source = KERNEL.replace("twice", name)
        factory.import_module(
            mblob.csource_module(source, functions=[PROTOTYPE.replace("twice", name)])
        )
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            factory.export_library(tmp_path / "m.so")
        assert len(found) == told
        assert len(codes(tmp_path / "m.so")) == told


@pytest.mark.slow
def test_build_says_it_in_one_line_unless_quiet(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(KERNEL)
    (tmp_path / "g.json").write_text(json.dumps(graph([0, 1, 5])))
    words = [
        "build",
        "--kernel",
        tmp_path / "k.c",
        "--function",
        PROTOTYPE,
        "--graph",
        tmp_path / "g.json",
    ]
    done = pack_verb(*words, "-o", tmp_path / "m.so")
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 2 and lines[1].startswith("wrote ")
    assert "storage_id, which skipped 2, was numbered anew" in lines[0]
    assert pack_verb(*words, "-o", tmp_path / "q.so", "--quiet").stderr == ""
    (tmp_path / "m.toml").write_text(
        f'output = "t.so"\nkernels = ["k.c"]\ngraph = "g.json"\nfunctions = ["{PROTOTYPE}"]\npacked = ["name"]\n'
    )
    assert "packed" not in pack_verb("build", tmp_path / "m.toml").stderr


def test_the_demo_is_packed_for_tvm_too(tmp_path: Path, root: Path) -> None:
    words = ["--quiet", "-o", tmp_path / "digits.so"]
    done = pack_verb("build", root / "examples/digits/digits.toml", *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert codes(tmp_path / "digits.so") == set()


# -- graphs ----------------------------------------------------------------------------------------


def test_storage_ids_that_skip_numbers_are_numbered_anew(tmp_path: Path) -> None:
    assert dense_ids([7, 0, 7, 3, 2]) == [3, 0, 3, 2, 1]
    with pytest.warns(
        mblob.PortabilityWarning, match="storage_id, which skipped 1, was numbered anew"
    ):
        module = model(json.dumps(graph([0, 2, 9])), packed="name")
    module.export_library(tmp_path / "m.so")
    stored = json.loads(mblob.load_module(tmp_path / "m.so")["get_graph_json"]())
    assert stored["attrs"]["storage_id"] == ["list_int", [0, 1, 2]]
    assert codes(tmp_path / "m.so") == set()
    assert run(tmp_path / "m.so") == [4.0] * 4


def test_a_sound_graph_stays_as_it_was_written(tmp_path: Path) -> None:
    text = json.dumps(graph(metadata={"any": [1.5]}), indent=3)
    assert model(text).get_source() == text


def test_escapes_and_the_place_of_metadata_are_mended() -> None:
    odd = graph(function="größe")
    odd = {"metadata": {}, **odd}
    with pytest.warns(
        mblob.PortabilityWarning, match=r"escape \\u .*and the key 'metadata' became the last"
    ):
        source = mblob.graph_executor_factory(json.dumps(odd)).get_source()
    assert "größe" in source
    assert list(json.loads(source))[-1] == "metadata"
    assert "größe" in mblob.graph_executor_factory(graph(function="größe")).get_source()


def put(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(found: dict[str, Any]) -> None:
        *folders, last = [int(w) if w.isdigit() else w for w in path.split("/")]
        at: Any = found
        for word in folders:
            at = at[word]
        if value is None:
            del at[last]
        else:
            at[last] = value

    return change


WRONG = [
    ("heads", None, "no 'heads'"), ("version", 1, "unknown key 'version'"),
    ("nodes/1/op", "call", "node 1 'a': op: expected 'null' or 'tvm_op', found 'call'"),
    ("nodes/1/attrs/func_name", None, "node 1 'a': attrs: no 'func_name'"),
    ("nodes/1/attrs/func_name", "", "node 1 'a': func_name is empty"),
    ("nodes/1/attrs/num_inputs", 1, "num_inputs: expected a text, found 1"),
    ("nodes/1/attrs/num_outputs", "one", "num_outputs: expected a number in quotes, found 'one'"),
    ("nodes/1/attrs/num_inputs", "2", "num_inputs is 2, inputs has 1"),
    ("nodes/1/attrs/num_outputs", "2", r"node_row_ptr: expected \[0, 1, 3, 4\], found \[0, 1, 2, 3\]"),
    ("nodes/0/attrs", {"dtype": "x"}, "node 0 'x': attrs: no 'func_name'"),
    ("nodes/1/inputs/0", [1, 0, 0], r"of a node before it, found \[1, 0, 0\]"),
    ("nodes/1/inputs/0", [0, 1], r"found \[0, 1\]"), ("nodes/1/inputs/0", [0, -1], r"found \[0, -1\]"),
    ("nodes/1/color", "red", "unknown key 'color'"), ("nodes/1/name", "x", "node 1 'x': node 0 has the same name"),
    ("arg_nodes", [1], "arg_nodes: expected an input node, found 1"),
    ("arg_nodes", [], "arg_nodes lacks node 0 'x'"), ("arg_nodes", [0, 0], "listed twice"),
    ("heads/0", [3, 0, 0], "heads: expected"), ("node_row_ptr", [0, 1, 2], "node_row_ptr"),
    ("node_row_ptr/0", 0.0, "node_row_ptr: expected"), ("node_row_ptr/0", False, "node_row_ptr: expected"),
    ("nodes/1/inputs/0/1", -0.0, "found"), ("heads/0/1", 0.0, "heads"), ("arg_nodes/0", 0.0, "arg_nodes"),
    ("attrs/storage_id/1/0", 0.0, "storage_id"),
    ("attrs/storage_id", None, "no 'storage_id'"), ("attrs/storage_id/0", "list_str", "expected type 'list_int'"),
    ("attrs/storage_id/1", [0, 1], "storage_id: 2 items, the nodes have 3 values"),
    ("attrs/storage_id/1/2", -1, "node 2 'b', output 0: storage_id: expected a number from 0 on, found -1"),
    ("attrs/storage_id/1/2", 2**31, "found 2147483648"), ("attrs/shape/1/0/0", -4, "shape: expected numbers from 0"),
    ("attrs/shape/1/0", [2**40, 2**40], "more than 2\\^62 bytes"), ("attrs/dltype/1/0", "flaot32", "no element type"),
    ("attrs/dltype/1/0", "int4x3", "12 bits; expected whole bytes, 1 or 4 bits"),
    ("attrs/dltype/1/0", 1, "expected texts"),
    ("attrs/device_index", ["list_int", [1, 1]], "device_index: 2 items"),
    ("attrs/device_index", ["list_int", [1, 0, 1]], "expected a device type, found 0"),
    ("attrs/colors", ["list_str", ["red"]], "attrs: colors: unknown, and neither"),
    ("attrs/storage_scope", ["list_str", ["global"]], "storage_scope: 1 items"),
    ("nodes/1/attrs/func_name", "__nop", "__nop from storage 0 to 1, which nothing fills"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "message"), WRONG)
def test_a_graph_that_tvm_stops_at_or_reads_wrongly_is_refused_by_name(
    path: str, value: Any, message: str
) -> None:
    wrong = copy.deepcopy(graph())
    put(path, value)(wrong)
    for given in (wrong, json.dumps(wrong)):
        with pytest.raises(mblob.MblobError, match=f"graph_executor_factory: .*{message}"):
            mblob.graph_executor_factory(given)


def inputs_only(names: list[str]) -> dict[str, Any]:
    """A graph that hands its inputs on."""
    count = len(names)
    nodes = [{"op": "null", "name": name, "inputs": []} for name in names]
    values = {
        "dltype": ["list_str", ["float32"] * count],
        "storage_id": ["list_int", list(range(count))],
        "shape": ["list_shape", [[4]] * count],
    }
    places = list(range(count))
    return {
        "nodes": nodes,
        "arg_nodes": places,
        "heads": [],
        "node_row_ptr": [*places, count],
        "attrs": values,
    }


class Name(str):
    """A text whose comparisons are calls that `count_calls` counts."""

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_a_name_that_is_there_twice_is_found_in_linear_time(
    count_calls: Callable[[Callable[[], object]], int],
) -> None:
    def calls(count: int) -> int:
        names = [Name(f"n{i}") for i in range(count)]
        found = inputs_only([*names, Name("n3")])

        def refused() -> None:
            with pytest.raises(GraphError, match=f"^node {count} 'n3': node 3 has the same name$"):
                check_names(found)

        refused()  # what is made once is made
        return count_calls(refused)

    assert calls(400) < 2.2 * calls(200)


def test_of_a_long_name_only_what_is_shown_is_read(
    peak_memory: Callable[[Callable[[], object]], int],
) -> None:
    found = inputs_only(["n" * 1_000_000])
    assert peak_memory(lambda: check_graph(found)) < 100_000


def test_one_storage_is_on_one_device() -> None:
    wrong = graph([0, 1, 1])
    wrong["attrs"]["device_index"] = ["list_int", [1, 1, 2]]
    with pytest.raises(
        mblob.MblobError, match="'b', output 0: storage 1 is on device type 1, and here on 2"
    ):
        mblob.graph_executor_factory(wrong)


def test_a_key_that_stands_twice_is_refused() -> None:
    text = json.dumps(graph()).replace('"arg_nodes": [0]', '"arg_nodes": [0], "arg_nodes": [0]')
    with pytest.raises(mblob.MblobError, match="the key 'arg_nodes' stands twice"):
        mblob.graph_executor_factory(text)


def test_finished_libraries_and_given_bytes_are_told_of(tmp_path: Path) -> None:
    module = raw(graph([0, 2, 3]))
    module.import_module(mblob.csource_module(KERNEL, functions=[PROTOTYPE], packed="name"))
    with pytest.warns(mblob.PortabilityWarning, match="cannot run its graph: storage_id skips 1"):
        module.export_library(tmp_path / "m.so")
    assert codes(tmp_path / "m.so") == {"tvm_graph"}
    remarks = mblob.verify(tmp_path / "m.so").warnings
    assert [code for code, _ in remarks] == ["tvm_graph"]
    assert "storage_id skips 1" in remarks[0][1]
    assert "skips 1 [tvm_graph]" in pack_verb("inspect", tmp_path / "m.so").stdout
    assert run(tmp_path / "m.so") == [4.0] * 4  # mblob's executor numbers them itself
    with pytest.warns(mblob.PortabilityWarning, match="skips 0") as found:
        mblob.swap(tmp_path / "m.so", {0: bytes(raw(graph([1, 2, 3])).payload)}, tmp_path / "n.so")
    assert [w.filename for w in found] == [__file__]


def test_libraries_of_tvm_are_told_nothing_of(golden: Path) -> None:
    for library in golden.glob("**/*.so"):
        assert codes(library) == set(), library
