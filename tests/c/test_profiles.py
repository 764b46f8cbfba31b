"""Programs with libmblob.a and with libmblob-core.a, which has everything but the executors."""

from __future__ import annotations

import json
import platform
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from mblob.format import type_keys
from tests.c.test_rooms import EXECUTORS, SRC, of_archive, room_of, sources
from tests.e2e.conftest import built  # noqa: F401 (a fixture)
from tests.e2e.programs import run, size_bound

HOST = r"""
#include <mblob.h>
#include <stdio.h>
int main(int argc, char **argv) {
  float a[3] = {1, 2, 3}, b[3] = {4, 5, 6}, c[3];
  mblob_module *kernels, *model;
  mblob_function *create = NULL;
  if (argc != 3 || mblob_open(argv[1], NULL, &kernels)) return puts(mblob_last_error()), 1;
  if (mblob_call(kernels, "vadd", "float32[3],float32[3],float32[3]", a, b, c)) return puts(mblob_last_error()), 2;
  printf("%g\n", (double)(c[0] + c[1] + c[2]));
  puts(mblob_get_global("runtime.SystemLib", &create) ? mblob_last_error() : "runtime.SystemLib");
  mblob_function_release(create);
  puts(mblob_get_global("tvm.graph_executor.create", &create) ? mblob_last_error() : "tvm.graph_executor.create");
  mblob_function_release(create);
  puts(mblob_open(argv[2], NULL, &model) ? mblob_last_error() : mblob_module_type_key(model));
  mblob_module_release(model);
  mblob_module_release(kernels);
  return 0;
}
"""
CLASS = re.compile(r"struct mb_class (\w+) = (?:FACTORY\(|\{\s*\.type_key = )MB_KEY_(\w+)")
INSTEAD = "libmblob-core.a has no executors: link libmblob.a in its place"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with a graph of one input."""
    graph = {
        "nodes": [{"op": "null", "name": "x", "inputs": []}],
        "arg_nodes": [0],
        "heads": [[0, 0, 0]],
        "node_row_ptr": [0, 1],
        "attrs": {
            "shape": ["list_shape", [[1]]],
            "dltype": ["list_str", ["float32"]],
            "storage_id": ["list_int", [0]],
        },
    }
    path = tmp_path_factory.mktemp("model") / "model.so"
    mblob.graph_executor_factory(json.dumps(graph), {}, "m").export_library(path)
    return path


@pytest.fixture(scope="module")
def programs(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One C program with each of the archives."""
    folder = tmp_path_factory.mktemp("profiles")
    (folder / "host.c").write_text(HOST)
    for name in ("libmblob", "libmblob-core"):
        words = (
            "-std=c11",
            "-Wall",
            "-Werror",
            f"-I{installed / 'include'}",
            folder / "host.c",
            "-o",
            folder / name,
        )
        run("cc", *words, installed / "lib" / f"{name}.a", "-pthread", "-ldl")
    return {name: folder / name for name in ("libmblob", "libmblob-core")}


def said(program: Path, built: Path, model: Path) -> list[str]:  # noqa: F811 (the fixture)
    return run(program, built / "lib" / "plain.so", model).stdout.splitlines()


def test_a_program_with_the_full_archive_runs_kernels_and_opens_graphs(
    programs: dict[str, Path],
    built: Path,  # noqa: F811
    model: Path,
) -> None:
    assert said(programs["libmblob"], built, model) == [
        "21",
        "runtime.SystemLib",
        "tvm.graph_executor.create",
        "GraphExecutorFactory",
    ]


def test_a_program_without_executors_runs_kernels_and_says_what_a_graph_needs(
    programs: dict[str, Path],
    built: Path,  # noqa: F811
    model: Path,
) -> None:
    number, system, create, opened = said(programs["libmblob-core"], built, model)
    assert (number, system) == ("21", "runtime.SystemLib")
    assert create == f"no global function 'tvm.graph_executor.create' is registered; {INSTEAD}"
    assert "no loader for type key 'GraphExecutorFactory' (entry 0); loaders: none" in opened
    assert INSTEAD in opened


def names_in(program: Path) -> set[str]:
    return {line.split()[-1] for line in run("nm", program).stdout.splitlines()}


def test_a_program_without_executors_has_none_of_their_code(
    installed: Path, programs: dict[str, Path]
) -> None:
    members = [p for p in sources(SRC, ".c") if p.name != "profile_core.c"]
    symbols = of_archive(installed / "lib" / "libmblob.a", members)
    of_executors = {
        name for p, (defined, _) in symbols.items() if room_of(p) in EXECUTORS for name in defined
    }
    assert {"mb_graph_create", "mb_vm_adt", "mblob_executor_run"} <= of_executors
    assert of_executors & names_in(programs["libmblob-core"]) == set()
    assert {"mb_graph_create", "mb_vm_adt"} <= names_in(programs["libmblob"])


def test_the_relax_machine_is_small(installed: Path, require: Callable[[str], str]) -> None:
    """With what its programs call by name."""
    if platform.machine() != "x86_64":
        pytest.skip("the size is told for x86-64")
    members = [p for p in sources(SRC, ".c") if p.name != "profile_core.c"]
    lines = run(require("size"), installed / "lib" / "libmblob.a").stdout.splitlines()[1:]
    assert len(lines) == len(members)
    sizes = {
        source: sum(map(int, line.split()[:2])) for source, line in zip(members, lines)
    }  # of code and data
    machine = [n for p, n in sizes.items() if p.parent.name in ("relax", "contrib")]
    assert len(machine) > 15
    whole = (installed / "lib" / "libmblob.so").resolve()
    assert 0 < sum(machine) < size_bound(whole, 100_000, require("readelf"))


def test_the_core_archive_is_whole_without_executors(installed: Path) -> None:
    members = [
        p for p in sources(SRC, ".c") if room_of(p) not in EXECUTORS and p.name != "profile_full.c"
    ]
    symbols = of_archive(installed / "lib" / "libmblob-core.a", members)
    needed = set().union(*(needed for _, needed in symbols.values()))
    defined = set().union(*(defined for defined, _ in symbols.values()))
    assert {
        name for name in needed - defined if name.startswith(("mb_", "mblob_", "TVM", "vm_"))
    } == set()


def test_the_core_table_names_all_that_only_the_full_one_has() -> None:
    full, core = ((SRC / "entry" / f"profile_{name}.c").read_text() for name in ("full", "core"))
    (hints,) = re.findall(r"elsewhere\[\] =\s*(.*?)\\0", core, re.DOTALL)
    hints = re.sub(r"MB_KEY_(\w+)", lambda m: f'"{getattr(type_keys, m[1])}"', hints + '"')
    told = set("".join(re.findall(r'"([^"]*)"', hints)).split(","))
    keys = set()
    for source in sources(SRC / "exec", ".c"):
        for name, key in CLASS.findall(source.read_text()):
            keys |= {getattr(type_keys, key)} if f"&{name}" in full else set()
    functions = set(re.findall(r'\{"([\w.]+)", mb', full)) - set(
        re.findall(r'\{"([\w.]+)", mb', core)
    )
    assert len(keys) == full.count("_class")
    assert told == keys | functions


def test_make_help_tells_of_both_archives() -> None:
    assert "libmblob-core.a" in run("make", "-s", "-C", SRC.parent, "help").stdout


def test_a_program_that_asks_an_executor_of_the_core_archive_does_not_link(
    installed: Path, tmp_path: Path
) -> None:
    (tmp_path / "x.c").write_text(
        "#include <mblob.h>\nint main(void) { return mblob_executor_run(0); }\n"
    )
    command = [
        "cc",
        f"-I{installed}/include",
        str(tmp_path / "x.c"),
        "-o",
        str(tmp_path / "x"),
        "-pthread",
        "-ldl",
    ]
    command.insert(-2, str(installed / "lib" / "libmblob-core.a"))
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    assert "mblob_executor_run" in done.stderr
