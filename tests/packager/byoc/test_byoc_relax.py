"""Regions of Relax modules: what apache-tvm compiles, on the plug-in of oneDNN and on a user's backend."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mblob
from mblob.packager.byoc.open_sizes import is_closed
from mblob.packager.byoc.operators import Open, Operator, Tensor
from mblob.packager.byoc.relax_operators import Reader
from mblob.packager.errors import BuildError
from tests.built_once import built_once
from tests.e2e.programs import run
from tests.loader.dnnl.dnnl_graphs import python

pytestmark = pytest.mark.own_process  # oneDNN
HALVES: dict[str, tuple[Any, float]] = {
    "float16": (np.float16, 2.0**-11), "bfloat16": (ml_dtypes.bfloat16, 2.0**-8),
}  # fmt: skip
SCRIPT = Path(__file__).with_name("relax_modules.py")
# All but `integers`, whose results may differ by a step.
CASES = (
    "layers", "shapes", "twice", "tiles", "gates", "attention", "left", "needed_between", "between", "sliced", "words",
    "open_words",
    "unknown", "open",
)  # fmt: skip


@pytest.fixture(scope="module")
def built(package_of: Callable[[str], Path]) -> Path:
    release = next(package_of("tvm").parent.glob("apache_tvm-*.dist-info")).name
    rooms = sorted(Path(mblob.byoc.__file__).parent.glob("*.py"))
    return built_once(
        "byoc-relax", lambda folder: run(sys.executable, SCRIPT, folder), SCRIPT.read_text(), release,
        *(room.read_text() for room in rooms),
    )  # fmt: skip


def results(library: Path, x: object) -> list[np.ndarray]:
    machine = mblob.relax.VirtualMachine(mblob.load_module(library), mblob.cpu())
    found = machine["main"](x)
    return [t.numpy() for t in (found if isinstance(found, (list, tuple)) else [found])]


@pytest.mark.parametrize("case", CASES)
def test_a_module_gives_with_the_engine_what_tvm_gives_without(
    built: Path, onednn: str, case: str
) -> None:
    io = np.load(built / f"{case}.npz")
    found = results(built / f"{case}.so", io["x"])
    assert len(found) == len(io.files) - 1
    for i, array in enumerate(found):
        np.testing.assert_allclose(array, io[f"y{i}"], rtol=1e-4, atol=1e-5)


def test_all_that_an_engine_has_words_for_is_one_region(built: Path) -> None:
    for case in ("layers", "shapes", "twice", "tiles", "attention"):
        (line,) = (built / f"{case}.txt").read_text().splitlines()
        assert line.startswith("tvmgen_dnnl_main_0: ")


def test_norms_sums_and_activations_are_part_of_the_layer_before_them(built: Path) -> None:
    (line,) = (built / "layers.txt").read_text().splitlines()
    told = line.partition(": ")[2].split(", ")
    assert told == [
        "2 dnnl.conv2d_bias_hardswish", "1 dnnl.conv2d_bias_sum_relu", "1 hardswish", "1 linear",
        "1 dnnl.conv2d_transpose_bias_sigmoid", "1 nn.max_pool2d", "1 nn.avg_pool2d",
        "1 nn.global_avg_pool2d", "1 reshape", "1 dnnl.dense_bias_tanh", "1 nn.softmax",
    ]  # fmt: skip


def test_transposed_convolutions_that_make_tiles_run_as_convolutions_of_1x1(built: Path) -> None:
    (line,) = (built / "tiles.txt").read_text().splitlines()
    told = line.partition(": ")[2].split(", ")
    assert "conv2d_transpose" not in line
    assert {"1 dnnl.conv2d_bias_relu", "1 dnnl.conv2d_sigmoid", "2 nn.conv2d"} <= {*told}


def test_functions_that_frontends_write_out_are_part_of_the_layer_before_them(built: Path) -> None:
    told = (built / "gates.txt").read_text().splitlines()
    kernels = told[0].partition(": ")[2].split(", ")
    assert kernels == [
        "3 dnnl.dense_bias_gelu", "1 dnnl.dense_bias_gelu_tanh", "1 dnnl.dense_bias_silu",
        "1 dnnl.dense_bias_elu", "1 dnnl.dense_bias_leaky_relu", "1 dnnl.dense_bias_mish",
        "1 dnnl.dense_bias", "1 linear", "1 nn.prelu",
    ]  # fmt: skip
    assert told[1:] == ["TVM: 1 relax.erf, which is not taken for float32[2, 6, 8]"]


def test_a_block_of_a_transformer_has_its_products_norms_and_sums(built: Path) -> None:
    (line,) = (built / "attention.txt").read_text().splitlines()
    told = {*line.partition(": ")[2].split(", ")}
    assert {"2 nn.layer_norm", "1 dnnl.matmul_linear", "1 nn.matmul", "1 nn.softmax",
            "1 dnnl.dense_bias_sum", "3 dnnl.dense_bias"} <= told  # fmt: skip


def test_what_others_need_inside_of_a_gelu_or_of_integers_is_made(built: Path) -> None:
    *regions, power, matmul, erf = (built / "needed_between.txt").read_text().splitlines()
    assert "gelu" not in "".join(regions) and "dequantize" not in "".join(regions)
    assert any("1 nn.dense" in line for line in regions), regions  # of weights that were folded
    assert {line.split()[2].strip(",") for line in (power, matmul, erf)} == {
        "relax.power", "relax.matmul", "relax.erf",
    }  # fmt: skip


def off_in_halves(folder: Path) -> list[tuple[str, int, float, float]]:
    """(case, output, units that it is off, units that TVM's own kernels are off): of the largest number, in
    units of its rounding."""
    found = []
    for path in sorted(folder.glob("*float16.npz")):
        io, kind = np.load(path), path.stem.rpartition("_")[2]
        machine = mblob.relax.VirtualMachine(
            mblob.load_module(path.with_suffix(".so")), mblob.cpu()
        )
        given = mblob.array(io["x"].astype(HALVES[kind][0]))
        made = machine["main"](given)
        for i, t in enumerate(made if isinstance(made, (list, tuple)) else [made]):
            wanted = io[f"y{i}"].astype("float64")
            unit = HALVES[kind][1] * np.abs(wanted).max()
            ours, theirs = (
                np.abs(a - wanted).max() / unit for a in (t.numpy().astype("float64"), io[f"t{i}"])
            )
            found.append((path.stem, i, float(ours), float(theirs)))
    return found


@pytest.mark.parametrize("isa", ["AVX2", "AVX512_CORE", "ALL"])
def test_halves_are_as_near_as_their_rounding_allows_on_each_processor(
    built: Path, onednn: str, isa: str
) -> None:
    code = f"from tests.packager.byoc.test_byoc_relax import *; print(off_in_halves(Path({str(built)!r})))"
    done = python(code, ONEDNN_MAX_CPU_ISA=isa, DNNL_MAX_CPU_ISA=isa)
    assert not done.returncode, done.stderr[-6000:]
    rows = ast.literal_eval(done.stdout)
    assert len(rows) == 31, rows
    far = [row for row in rows if not row[2] <= 2]
    assert far == []


def test_halves_are_fused_as_float32_is_and_told_by_their_type(built: Path) -> None:
    for kind in HALVES:
        lines = (built / f"layers_{kind}.txt").read_text()
        assert lines.replace(f" of {kind}", "") == (built / "layers.txt").read_text()
    gates = (built / "gates_float16.txt").read_text()
    gates = gates.replace(" of float16", "").replace("float16", "float32")
    assert gates == (built / "gates.txt").read_text()
    casts = (built / "casts_float16.txt").read_text().partition(": ")[2].split(", ")
    assert casts == ["1 nn.conv2d of float16", "1 nn.softmax", "1 cast of float16",
                     "1 add of float16", "1 nn.relu of float16"]  # fmt: skip


def test_slices_and_splits_are_part_of_the_region_of_the_layers_beside_them(built: Path) -> None:
    told = (built / "sliced.txt").read_text()
    assert told == "tvmgen_dnnl_main_0: 2 dnnl.conv2d_relu, 2 strided_slice, 1 nn.conv2d"


def test_stacks_and_spread_operands_do_not_cut_a_region(built: Path) -> None:
    (told,) = (built / "words.txt").read_text().splitlines()
    assert {"6 strided_slice", "1 mean", "2 maximum", "1 max", "1 min", "2 concatenate"} <= {
        *told.partition(": ")[2].split(", ")
    }, told


def test_what_stays_with_tvm_is_told_with_the_reason(built: Path) -> None:
    left = (built / "left.txt").read_text().splitlines()
    assert left[0] == "tvmgen_dnnl_main_0: 1 nn.conv2d, 1 max"
    assert "TVM: 1 relax.cumsum, which is not taken at all" in left
    assert any(line.startswith("TVM: 1 relax.add, which is not taken for ") for line in left), left
    assert "TVM: 1 relax.strided_slice, which is not taken for float32[1, 3, 4, 4]" in left


def test_layers_between_quantized_tensors_are_computed_in_integers(
    built: Path, onednn: str
) -> None:
    lines = (built / "integers.txt").read_text().splitlines()
    told = {kernel for line in lines for kernel in line.partition(": ")[2].split(", ")}
    assert len(lines) == 2 and {"2 dnnl.qnn.conv2d", "2 dnnl.qnn.dense", "1 nn.conv2d"} <= told, (
        told
    )
    io = np.load(built / "integers.npz")
    steps = (0, 0.2, 1.5, 3, 0.5)  # a sum of rounded numbers has as many steps as they have
    for i, (found, step) in enumerate(zip(results(built / "integers.so", io["x"]), steps)):
        apart = np.abs(found - io[f"y{i}"])
        assert apart.max() <= step + 1e-4 * max(1, np.abs(found).max()), (i, apart.max())
        assert i == 3 or (apart > 1e-4).mean() < 0.02


def test_what_is_rounded_to_steps_is_computed_in_no_other_steps(built: Path, onednn: str) -> None:
    (line,) = (built / "steps.txt").read_text().splitlines()
    told = {
        kernel.partition(" ")[2]: int(kernel.partition(" ")[0])
        for kernel in line.partition(": ")[2].split(", ")
    }
    assert told["dnnl.qnn.conv2d"] == 2 and told["nn.max_pool2d"] == 1, told
    kinds = ("quantize", "dequantize", "fake_quantize")
    assert [told.get(kind, 0) for kind in kinds] == [3, 0, 0], told
    io = np.load(built / "steps.npz")
    sizes = (0.0517, 0.0517, 0.0517, 0.0517, 0.51, 0.11, 1)
    for i, (found, size) in enumerate(zip(results(built / "steps.so", io["x"]), sizes)):
        apart = np.abs(found.astype("float64") - io[f"y{i}"])
        assert apart.max() <= 2 * size + 1e-4 and (apart > 1e-4).mean() < 0.01, (i, apart.max())
        if size < 1:
            assert (
                np.abs(found / size - np.rint(found / size)).max() < 1e-4
            )  # each is one of the steps


def test_sizes_that_only_the_call_tells_are_those_of_each_call(built: Path, onednn: str) -> None:
    assert (built / "unknown.txt").read_text() == "tvmgen_dnnl_main_0: 1 dnnl.dense_relu"
    (line,) = (built / "open.txt").read_text().splitlines()
    assert "2 nn.matmul" in line and "1 dnnl.conv2d_bias_hardswish" in line
    ours, tvm = (
        mblob.relax.VirtualMachine(mblob.load_module(built / name), mblob.cpu())["main"]
        for name in ("open.so", "open.tvm.so")
    )
    for n, h, w in ((1, 8, 8), (2, 17, 14), (3, 9, 30), (1, 8, 8)):
        x = np.random.default_rng(n).standard_normal((n, 3, h, w)).astype("float32")
        for found, wanted in zip(ours(x), tvm(x)):
            np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-5)


def test_an_extent_that_engines_have_no_word_for_stays_with_tvm() -> None:
    """TVM's `Cast` has a `value` as its numbers have."""
    cast = type("Cast", (), {"value": object()})()
    assert Reader({}).extent(cast) is None


@pytest.mark.parametrize(
    ("given", "made", "wanted"),
    [
        (("n", "w 2 /"), "w 2 / 1 +", ["size_0 1 +"]),  # in front of it is another region
        (("w 2 /", "w 2 / 4 /"), "w 2 / 4 / n *", None),
        (("n", "w 2 /"), "w 4 /", None),  # TVM has made one step of two
        (("n", "w"), "w 2 / n *", ["w 2 / n *"]),
    ],
)
def test_a_region_has_names_for_computed_sizes_of_its_inputs(
    given: tuple[str, str], made: str, wanted: list[str] | None
) -> None:
    x = Tensor("x", tuple(Open(1 << 50 + i, text) for i, text in enumerate(given)), "float32")
    y = Tensor("y", (Open(1 << 60, made),), "float32")
    region = mblob.byoc.Region("dnnl", "f", [Operator("y", "o", "o", {}, (x,), (y,))], [x], [], [y])
    assert is_closed(region) == (wanted is not None)
    assert [e.text for e in y.shape if isinstance(e, Open)] == (wanted or [made])


def test_an_extent_that_was_computed_of_an_open_one_is_refused() -> None:
    x = Tensor("x", (Open(1 << 50, "n"), 4), "float32")
    made = Tensor("y", (x.shape[0] * 2, 2), "float32")
    operator = Operator("y", "reshape", "reshape", {}, (x,), (made,))
    region = mblob.byoc.Region("dnnl", "f", [operator], [x], [], [made])
    with pytest.raises(
        BuildError, match="y: a size depends on an open size in a way that the graph cannot express"
    ):
        mblob.byoc.dnnl.codegen(region)
    made.shape = (Open(1 << 51, "n 2 *"), 2)
    text = mblob.byoc.dnnl.codegen(region).get_source()
    assert '["n", 4]' in text and '["n 2 *", 2]' in text


def test_a_backend_of_a_users_own_gets_the_operators_that_it_asked_for(built: Path) -> None:
    x = np.load(built / "twice.npz")["x"]
    first, second = results(built / "negator.so", x)
    assert (first <= 0).all() and first.any()
    assert (second <= 0).all()


def test_a_value_inside_of_a_users_pattern_that_others_need_is_a_result_of_the_region(
    built: Path,
) -> None:
    io = np.load(built / "between.npz")
    for found, wanted in zip(results(built / "pair.so", io["x"]), (io["y0"], io["y1"])):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert (built / "pair.txt").read_text().splitlines() == [
        "tvmgen_pair_main_0: 1 add, 1 nn.relu",
        "TVM: 2 relax.nn.softmax, which is not taken by any pattern",
    ]


def test_a_backend_of_a_users_own_gets_no_operator_that_only_mblobs_has(built: Path) -> None:
    assert (built / "named.txt").read_text() == "add clip multiply"


@pytest.mark.parametrize(
    "program, said",
    [
        ("partition(7)", "expected an IRModule of apache-tvm, found int"),
        ("partition(mod, 'nobody')", "no pattern table is registered for 'nobody'"),
        ("partition(mod, 'nobody', prepack=True)", "prepack= is for the engine 'dnnl', found 'nobody'"),
        ("partition(mod, patterns=[('dnnl.r', dpl.is_op('relax.cumsum')(dpl.wildcard()))])",
         "code generators have no word for relax.cumsum"),
    ],
)  # fmt: skip
def test_what_cannot_be_split_is_an_error(
    package_of: Callable[[str], Path], program: str, said: str
) -> None:
    package_of("tvm")
    code = (
        "import relax_modules\nfrom tvm.relax import dpl\nimport mblob\npartition = mblob.byoc.relax.partition\n"
        f"mod = relax_modules.build('left')\n{program}\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=SCRIPT.parent, capture_output=True, text=True
    )
    assert done.returncode == 1 and said in done.stderr.splitlines()[-1], done.stderr


def test_without_tvm_the_error_says_what_to_install() -> None:
    code = "import sys; sys.modules['tvm'] = None\nimport mblob; mblob.byoc.relax.partition(None)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].endswith(
        "mblob.byoc.relax needs apache-tvm: pip install 'mblob[onnx]'"
    )
