"""TVM 0.14's tests/cpp, restated: each case that its runtime alone passes, and what holds here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.built_once import C_SOURCES, built_once
from tests.e2e.programs import ROOT, run

SOURCES = ROOT / "tests" / "peers"
pytestmark = pytest.mark.slow  # the program compiles for ten seconds

INTERNAL = "the test is of a header in TVM's sources, which TVM does not install"
# suite -> case -> why it is not restated; "": it holds
CASES: dict[str, dict[str, str]] = {
    "ADT": dict.fromkeys(["Constructor"], ""),
    "InplaceArrayBase": dict.fromkeys(["BadExceptionSafety", "ExceptionSafety"], ""),
    "String": dict.fromkeys(
        ["MoveFromStd", "CopyFromStd", "Assignment", "empty", "Comparisons", "null_byte_handling",
         "compare_same_memory_region_different_size", "compare", "c_str", "hash", "Cast", "Concat"],
        "",
    ),
    "Optional": {"Composition": "", "PackedCall": ""},
    "Variant": dict.fromkeys(
        ["Construct", "InvalidTypeThrowsError", "ReferenceIdentifyPreservedThroughAssignment",
         "ExtractValueFromAssignment", "AssignmentFromVariant"],
        "",
    ),
    "NDArrayTest": dict.fromkeys(
        ["IsContiguous_ContiguousStride", "IsContiguous_NullStride", "IsContiguous_AnyStrideForSingular",
         "IsContiguous_UncontiguousStride"],
        "",
    ),
    "ObjectHierachy": dict.fromkeys(["Basic"], ""),
    "PackedFunc": dict.fromkeys(
        ["Basic", "NDArray", "str", "func", "Type", "AsTVMRetValue", "ObjectConversion"],
        "",
    ),
    "TypedPackedFunc": dict.fromkeys(["HighOrder", "Deduce"], ""),
    "TvmLogDebugSettings": dict.fromkeys(
        ["Disabled", "DlogOnly", "VLogEnabledDefault", "VLogEnabledComplex", "IllFormed", "SpecPrefix"],
        "",
    ),
    "ThreadingBackend": dict.fromkeys(
        ["TVMBackendParallelLaunch", "TVMBackendParallelLaunchMultipleThreads", "TVMBackendAffinityConfigure"],
        "",
    ),
    "RandomEngine": dict.fromkeys(["Randomness", "Reproducibility", "Serialization"], ""),
    "DefaultTimer": dict.fromkeys(["Basic"], ""),
    "ParallelFor": dict.fromkeys(
        ["Basic", "NestedWithNormalForLoop", "NestedWithParallelFor", "Exception"],
        "",
    ),
    "ParallelForDynamic": dict.fromkeys(["Basic", "ExceptionOnMain", "ExceptionOnArbitrary"], ""),
    "HexDumpTests": dict.fromkeys(["Empty", "Aligned", "Unaligned"], INTERNAL),
    "HashTests": {"HashStability": INTERNAL},
    "StartsWithTests": {"Basic": INTERNAL},
    "RingBuffer": dict.fromkeys(["ReadWrite", "ReadWithCallback"], INTERNAL),
}  # fmt: skip
# of our own, beside TVM's
OWN = ("Own.References",)


def rows() -> list[tuple[str, str]]:
    """Each case and why it is not restated."""
    return [
        (f"{suite}.{case}", why) for suite, found in CASES.items() for case, why in found.items()
    ]


HOLD = [name for name, why in rows() if not why]


@pytest.fixture(scope="session")
def program(require: Callable[[str], str], compat: Path) -> Path:
    """A program of all cases, as a host is built."""
    compiler = require("c++")

    def build(folder: Path) -> None:
        run(
            compiler, "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror",
            *sorted(SOURCES.glob("tvm_cpp_*.cpp")), "-o", folder / "tvm_cpp", f"-I{compat}/include",
            f"-L{compat}/lib", f"-Wl,-rpath,{compat}/lib", "-ltvm_runtime", "-pthread",
        )  # fmt: skip

    folder = built_once("tvm-cpp", build, compiler, compat, sources=(*C_SOURCES, SOURCES))
    return folder / "tvm_cpp"


def test_every_case_of_the_program_is_listed(program: Path) -> None:
    assert sorted(run(program).stdout.split()) == sorted([*HOLD, *OWN])


@pytest.mark.parametrize("name", [*HOLD, *OWN])
def test_case(program: Path, name: str) -> None:
    run(program, name)
