"""libmblob as one C file: `make amalgamation`."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import mblob
from tests.built_once import built_once
from tests.c.test_profiles import HOST as PROFILE_HOST
from tests.c.test_profiles import model  # noqa: F401 (a fixture)
from tests.c.test_rooms import NEEDS, SRC
from tests.e2e.conftest import amalgamation, built  # noqa: F401 (fixtures)
from tests.e2e.programs import ROOT, make_amalgamation, run

LIBRARIES = ("-pthread", "-ldl", "-lm")

KERNEL = (
    "void vadd(const float *a, const float *b, float *c, int n) { while (n--) c[n] = a[n] + b[n]; }"
)
HOST = r"""
#include "mblob.h"
#include <stdio.h>
static void say(void *context, const char *name) { puts(context ? "" : name); }
int main(int argc, char **argv) {
  float a[3] = {1, 2, 3}, b[3] = {4, 5, 6}, c[3];
  mblob_module *m = NULL;
  DLTensor weight;
  const void *data = NULL;
  size_t size = 0;
  int status = argc != 2 || mblob_open(argv[1], NULL, &m) || mblob_module_names(m, say, NULL) ||
               mblob_call(m, "vadd", "float32[3],float32[3],float32[3],int", a, b, c, 3) ||
               mblob_module_payload_by_key(m, "demo", &data, &size) ||
               mblob_module_tensor(m, "weight", &weight);
  if (!status) printf("%g %.*s ", (double)(c[0] + c[1] + c[2]), (int)size, (const char *)data);
  if (!status) printf("%d\n", (int)weight.shape[0]);
  if (status) puts(mblob_last_error());
  mblob_module_release(m);
  return status;
}
"""


@pytest.fixture
def script() -> ModuleType:
    found = importlib.util.spec_from_file_location("script", ROOT / "csrc" / "amalgamation.py")
    assert found and found.loader
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_it_has_the_layers_in_their_order(script: ModuleType) -> None:
    assert list(script.LAYERS) == list(NEEDS)


def test_it_has_each_file_once_and_none_of_others(amalgamation: Path) -> None:  # noqa: F811
    text = (amalgamation / "mblob.c").read_text()
    for path in SRC.rglob("*.[ch]"):
        mark = f"/* ==== csrc/src/{path.relative_to(SRC)} ==== */"
        assert text.count(mark) == (path.name != "profile_core.c"), path
    assert '#include "' not in text
    assert "#include <mblob" not in text + (amalgamation / "mblob.h").read_text()
    assert "#include <tvm" not in text


def test_a_name_of_two_files_is_an_error(script: ModuleType, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.c").write_text("static int twice(void) { return 2; }\n")
    script.CSRC = script.SRC = tmp_path
    script.LAYERS = {".": ""}
    with pytest.raises(script.Clash, match=r"b.c: a.c has twice, too: rename it"):
        script.whole()


@pytest.mark.parametrize(
    "line",
    ["#define TWICE 2", "struct twice {", "static const char twice[] = {1};", "static int twice;",
     "static __attribute__((noinline)) struct x *twice(int a,"],
)  # fmt: skip
def test_names_are_seen(script: ModuleType, line: str) -> None:
    assert [name.lower() for name, _ in script.names_of(line)] in (["twice"], ["struct twice"])


@pytest.mark.parametrize("dialect", ["classic", "ffi"])
def test_a_program_of_two_files_reads_and_calls(
    amalgamation: Path,  # noqa: F811
    tmp_path: Path,
    dialect: str,
) -> None:
    host = mblob.csource_module(KERNEL, functions=["vadd"])
    host.import_module(mblob.blob_module("demo", b"payload"))
    host.import_module(mblob.safetensors_module({"weight": np.zeros(3, "f")}))
    host.export_library(tmp_path / "all.so", dialect=dialect)
    (tmp_path / "host.c").write_text(HOST)
    words = ("cc", "-std=c11", "-Wall", "-Werror", f"-I{amalgamation}", tmp_path / "host.c")
    run(*words, amalgamation / "mblob.o", "-o", tmp_path / "host", *LIBRARIES)
    done = run(tmp_path / "host", tmp_path / "all.so", env={"MBLOB_PLUGIN_PATH": "/nowhere"})
    assert done.stdout.split("\n") == ["vadd", "21 payload 3", ""]


def test_a_program_without_executors_names_the_macro_that_a_model_needs(
    built: Path,  # noqa: F811
    model: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    core = "-DMBLOB_PROFILE_CORE"
    folder = built_once("amalgamation-core", lambda folder: make_amalgamation(folder, core))
    (tmp_path / "host.c").write_text(PROFILE_HOST)
    words = ("cc", f"-I{folder}", tmp_path / "host.c", folder / "mblob.o", "-o", tmp_path / "host")
    run(*words, *LIBRARIES)
    lines = run(tmp_path / "host", built / "lib" / "plain.so", model).stdout.splitlines()
    number, system, create, opened = lines
    assert (number, system) == ("21", "runtime.SystemLib")
    for line in (create, opened):
        assert "; compile mblob.c with -DMBLOB_WITH_GRAPH" in line


def test_the_table_names_all_that_a_choice_may_leave_out() -> None:
    text = (SRC / "entry" / "profile_full.c").read_text()
    names = re.findall(r'\{"([\w.]+)", mb_(?:vm|graph)', text)
    assert len(names) == 7
    for name in names:
        assert len(re.findall(rf'[",]{re.escape(name)}[",\\]', text)) == 2, name
    for key in re.findall(r"&mb_(\w+)_class", text):
        assert re.search(KEYS.get(key, f"MB_KEY_{key.upper()}") + r"\b", text), key


KEYS = {"vm_executable": "MB_KEY_RELAY_EXECUTABLE"}


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize(
    "choice", ["GRAPH", "AOT", "RELAY", "RELAX", "CONTRIB", "FFI", "AOT RELAX FFI"]
)
def test_a_choice_of_executors_compiles_without_a_warning_and_links(
    require: Callable[[str], str], tmp_path: Path, choice: str, compiler: str
) -> None:
    macros = (f"-DMBLOB_WITH_{name}" for name in choice.split())
    make_amalgamation(tmp_path, "-Os", *macros, compiler=require(compiler))
    output = ("-o", tmp_path / "all.so")
    run("cc", "-shared", "-Wl,-z,defs", tmp_path / "mblob.o", *output, *LIBRARIES)
