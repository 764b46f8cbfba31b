"""Programs that TVM 0.25 to 0.27 compiled for the Relax machine, and hand-made ones of 0.16 to 0.23:
each case that TVM's own machine was recorded with."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.native import runtime

pytestmark = pytest.mark.own_process
GOLDEN = Path(__file__).parents[4] / "shared" / "golden" / "relax"
LATER = {"decoder_kv_effect", "llm_paged_kv", "tensor_cache_model"}  # caches of language models
LIBRARIES = [
    p.relative_to(GOLDEN).with_suffix("").as_posix()
    for p in sorted([*GOLDEN.glob("*.so"), *GOLDEN.glob("v2*/*.so")])
    if p.stem not in LATER
] or ["mlp_static"]
CLASSIC = ["016", "019", "020", "021", "022", "023"]


@pytest.fixture
def relax(golden: Path) -> Path:
    folder = golden / "relax"
    if not folder.exists():
        pytest.skip("no golden libraries of Relax")
    return folder


class Player:
    """Plays the cases of one library."""

    def __init__(self, library: Path, arrays: Mapping[str, Any]) -> None:
        self.module = mblob.load_module(library)
        self.vm = mblob.relax.VirtualMachine(self.module, mblob.cpu(0))
        self.arrays = arrays
        self.results: list[Any] = []

    def value(self, v: Mapping[str, Any]) -> Any:
        kind = v["t"]
        if kind == "tensor":
            return self.array(v).copy()
        if kind in ("int", "float", "bool", "str"):
            return v["v"]
        if kind == "shape":
            return mblob.Shape(v["v"])
        if kind == "tuple":
            return tuple(self.value(item) for item in v["v"])
        if kind == "function":
            return self.vm[v["name"]]
        if kind == "result":
            found = self.results[v["case"]]
            for i in v.get("path", []):
                found = found[i]
            return found
        assert kind == "none"
        return None

    def array(self, v: Mapping[str, Any]) -> Any:
        if "key" in v:
            return self.arrays[v["key"]]
        return np.array(v["v"], v["dtype"]).reshape(v["shape"])

    def call(self, case: Mapping[str, Any], args: list[Any]) -> Any:
        name, via = case["function"], case.get("via", "call")
        if via == "stateful":
            self.vm.set_input(name, *args)
            self.vm.invoke_stateful(name)
            return self.vm.get_outputs(name)
        if via == "save":
            self.vm.save_function(name, "saved", *args)
            return self.vm["saved"]()
        if via == "invoke_closure":
            return self.vm.invoke_closure(*args)
        return self.vm[name](*args)

    def check(self, expected: Mapping[str, Any], found: Any, case: Mapping[str, Any]) -> None:
        kind = expected["t"]
        if kind == "tensor":
            array = self.array(expected)
            assert isinstance(found, (mblob.Tensor, np.ndarray))
            if isinstance(found, mblob.Tensor):
                assert found.dtype == expected["dtype"]
                found = found.numpy()
            assert found.shape == array.shape
            np.testing.assert_allclose(
                found, array, rtol=case.get("rtol", 1e-6), atol=case.get("atol", 1e-6)
            )
        elif kind == "tuple":
            assert type(found) is tuple
            assert len(found) == len(expected["v"])
            for e, f in zip(expected["v"], found):
                self.check(e, f, case)
        elif kind == "shape":
            assert type(found) is mblob.Shape
            assert found == tuple(expected["v"])
        elif kind == "closure":
            assert callable(found)
        elif kind == "none":
            assert found is None
        else:
            assert type(found).__name__ == ("TypeName" if kind == "dtype" else kind)
            assert found == expected["v"]

    def play(self, case: Mapping[str, Any]) -> None:
        args = [self.value(v) for v in case["args"]]
        if "error" in case:
            self.results.append(None)
            self.fails(case, args)
            return
        found = self.call(case, args)
        self.results.append(found)
        self.check(case["result"], found, case)
        for i, expected in case.get("mutates", {}).items():
            self.check(expected, args[int(i)], case)
        then = case.get("then")
        if then:
            rest = [self.value(v) for v in then["invoke_closure"]]
            self.check(then["result"], self.vm.invoke_closure(found, *rest), case)
            self.check(then["result"], found(*rest), case)

    def fails(self, case: Mapping[str, Any], args: list[Any]) -> None:
        kind, text = case["error"]["kind"], case["error"]["text"]
        with pytest.raises((mblob.KernelError, mblob.NotFoundError)) as error:
            self.call(case, args)
        if kind == "AttributeError":
            assert isinstance(error.value, AttributeError)
            return
        assert isinstance(error.value, mblob.KernelError)
        assert error.value.kind == kind
        wanted = text.rpartition(" : ")[2].partition(" is false: ")
        said = (wanted[2] or wanted[0]).rstrip(".")
        if "Expected `" in said:  # the text lists TVM's types, too
            said = "Expected `" + said.partition("Expected `")[2]
        assert said in str(error.value)


@pytest.mark.parametrize("name", LIBRARIES)
def test_every_case_gives_what_tvm_gives(relax: Path, name: str) -> None:
    recorded = json.loads((relax / f"{name}.json").read_text())
    with np.load(relax / f"{name}.npz") as arrays:
        player = Player(relax / f"{name}.so", dict(arrays))
    for case in recorded["cases"]:
        player.play(case)
    assert len(player.results) == len(recorded["cases"]) > 0


@pytest.mark.parametrize("kind", ["numpy", "view", "misaligned", "bytes"])
def test_what_is_written_in_place_reaches_any_kind_of_array(relax: Path, kind: str) -> None:
    vm = mblob.relax.VirtualMachine(mblob.load_module(relax / "inplace.so"), mblob.cpu(0))
    room = np.zeros(64, "int32")
    start = -room.ctypes.data % 64 // 4 + (kind == "misaligned")
    numbers = room[start : start + 6].reshape(2, 3)
    given = memoryview(numbers) if kind == "view" else numbers
    if kind == "bytes":
        given = memoryview(bytearray(24)).cast("i", (2, 3))
        numbers = np.asarray(given)
    vm["rw"](given, np.ones((2, 3), "int32"))
    assert numbers.tolist() == [[1, 1, 1], [1, 1, 1]]


@pytest.mark.parametrize("release", CLASSIC)
def test_programs_of_each_release_run(relax: Path, release: str) -> None:
    recorded = json.loads((relax / "classic" / "classic.json").read_text())
    name = f"relax_{release}"
    player = Player(relax / "classic" / f"{name}.so", {})
    cases = [c for c in recorded["cases"] if name in c.get("only", [name])]
    for case in cases:
        player.play(case)
    assert len(player.results) == len(cases) > 0


@pytest.mark.parametrize(
    "name", [*LIBRARIES, *sorted(LATER), *(f"classic/relax_{r}" for r in CLASSIC)]
)
def test_the_listing_is_tvms(relax: Path, name: str) -> None:
    module = mblob.load_module(relax / f"{name}.so", missing="stub")  # without a warning
    assert module["as_text"]() == (relax / f"{name}.txt").read_text()


def compiled(relax: Path) -> tuple[Any, list[Any], Any]:
    """A compiled function that allocates tensors, arguments, and what it gives."""
    recorded = json.loads((relax / "compiled_control.json").read_text())
    case = recorded["cases"][0]
    with np.load(relax / "compiled_control.npz") as arrays:
        player = Player(relax / "compiled_control.so", dict(arrays))
    args = [player.value(v) for v in case["args"]]
    return player.vm[case["function"]], args, player.array(case["result"])


@pytest.mark.parametrize("name", ["vm.builtin.alloc_tensor", "vm.builtin.null_value"])
def test_compiled_code_calls_what_is_registered_now(relax: Path, name: str) -> None:
    function, args, expected = compiled(relax)
    original = mblob.get_global_func(name)

    def refuse(*_: Any) -> None:
        raise ValueError("not now")

    for _ in range(2):
        np.testing.assert_allclose(function(*args).numpy(), expected, rtol=1e-6)
        mblob.register_func(name, refuse, override=True)
        try:
            with pytest.raises(ValueError, match="not now"):
                function(*args)
        finally:  # the builtin itself: register_func would make a function of Python of it
            handle = runtime.ffi.cast("mblob_function *", original.address)
            assert runtime.lib.mblob_register_global(name.encode(), handle, 1) == 0
    np.testing.assert_allclose(function(*args).numpy(), expected, rtol=1e-6)


def test_results_of_compiled_functions_may_end_on_any_thread(relax: Path) -> None:
    function, args, expected = compiled(relax)
    results = [function(*args) for _ in range(50)]

    def drop() -> None:
        while results:
            results.pop()

    thread = threading.Thread(target=drop)
    thread.start()
    last = [function(*args) for _ in range(50)]
    thread.join()
    del function
    assert results == []
    for found in last:
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:.*nobody provides")
@pytest.mark.parametrize("name", ["llama_legacy", "llama_paged"])
def test_both_modes_of_a_model_lack_the_same_functions(golden: Path, name: str) -> None:
    lacking = []
    for mode in ("bytecode", "compiled"):
        path = golden / "lm" / f"{name}.{mode}.so"
        if not path.exists():
            pytest.skip("no golden language models")
        vm = mblob.relax.VirtualMachine(mblob.load_module(path), mblob.cpu(0))
        lacking.append(sorted(vm.missing))
        with mblob.open(path) as lib:
            told = " ".join(d["message"] for d in lib.diagnostics)
        assert [missing for missing in vm.missing if missing not in told] == []
    assert lacking[0] == lacking[1]


def test_what_is_expected_and_what_nobody_has_is_told_without_running(relax: Path) -> None:
    with mblob.open(relax / "mlp_dynamic.so") as lib:
        (forward, *_) = lib.entries[0].content.facts["executable"]["functions"]
        assert forward["expects"] == {"x": 'R.Tensor((batch, 16), dtype="float32")'}
        assert "missing_functions" not in {d["code"] for d in lib.diagnostics}
    with mblob.open(relax / "llm_paged_kv.so") as lib:
        (text,) = [d["message"] for d in lib.diagnostics if d["code"] == "missing_functions"]
        assert "vm.builtin.paged_attention_kv_cache_create" in text
        assert "matmul" not in text
    assert mblob.verify(relax / "llm_paged_kv.so").warnings == (("missing_functions", text),)
    assert mblob.verify(relax / "llm_paged_kv.so", "header").warnings == ()
    assert mblob.verify(relax / "mlp_dynamic.so").warnings == ()
    with pytest.warns(
        UserWarning, match=r"nobody provides: .*paged_attention_kv_cache_create; a"
    ) as told:
        module = mblob.load_module(relax / "llm_paged_kv.so")
    assert [w.filename for w in told] == [__file__]
    mblob.load_module(relax / "llm_paged_kv.so", missing="stub")
    vm = mblob.relax.VirtualMachine(module, mblob.cpu(0))
    assert "vm.builtin.paged_attention_kv_cache_create" in vm.missing
