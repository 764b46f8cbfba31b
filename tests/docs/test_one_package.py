"""An installation is one package, `mblob`: the names `packager` and `loader` stay the user's."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mblob
from mblob import typed
from tests.docs.conftest import read_blocks

BARE = re.compile(r"^(packager|loader)([.:]|$)")
FOLDERS = ("mblob", "packager", "loader", "tests", "examples", "benchmarks")


def files(root: Path, *suffixes: str) -> list[Path]:
    found = [p for folder in FOLDERS for p in (root / folder).rglob("*") if p.suffix in suffixes]
    assert len(found) > 50
    return [*found, root / "setup.py"] if ".py" in suffixes else found


@pytest.mark.slow
def test_no_import_names_a_half_without_its_package(root: Path) -> None:
    guilty = []
    for path in files(root, ".py", ".pyi"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            guilty += [f"{path}:{node.lineno}: {name}" for name in names if BARE.match(name)]  # type: ignore[attr-defined]
    assert guilty == []


@pytest.mark.slow
def test_no_text_names_a_module_of_a_half_without_its_package(root: Path) -> None:
    """Lazy tables, `import_module`, `resources.files`, code in strings; in C the names of types and
    modules."""
    guilty = []
    for path in files(root, ".py"):
        if path.name == Path(__file__).name:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
                code = re.search(r"^\s*(from|import) (packager|loader)\b", text, re.MULTILINE)
                if (BARE.match(text) and ("." in text or ":" in text)) or code:
                    guilty.append(f"{path}:{node.lineno}: {text[:60]!r}")
    for path in files(root, ".c", ".h"):
        found = re.findall(r'"(?:packager|loader)\.[^"]*"', path.read_text(errors="replace"))
        guilty += [f"{path}: {text}" for text in found]
    assert guilty == []


EVERYTHING = """
import sys
import array
import mblob
from mblob.cli.main import main

source = "void twice(float *x, long n) { for (long i = 0; i < n; ++i) x[i] *= 2; }"
root = mblob.csource_module(source, functions=["void twice(float *x, long n)"])
root.import_module(mblob.blob_module("raw", b"abc"))
root.export_library("a.so")
for verb in ("inspect a.so", "inspect a.so --json", "inspect a.so --html a.html", "verify a.so", "extract a.so -o out/",
             "swap a.so --entry 1=a.html -o b.so", "diff a.so b.so", "convert a.so --dialect ffi -o c.so", "doctor"):
    assert main(verb.split()) in (0, 1), verb
lib = mblob.load_module("a.so")
x = array.array("f", [1, 2])
lib["twice"](x, 2)
assert list(x) == [2, 4]
for name in mblob.__all__:
    getattr(mblob, name)
print(sorted(m for m in sys.modules if m.partition(".")[0] in ("packager", "loader")), file=sys.stderr)
"""


@pytest.mark.slow
def test_a_process_that_uses_everything_has_neither_name(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", EVERYTHING], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "c.so").exists() and (tmp_path / "a.html").exists()
    assert done.stderr.splitlines()[-1] == "[]"


OWN = "raise SystemExit('the module of the user')\n"


@pytest.mark.slow
def test_modules_of_the_users_with_these_names_change_nothing(tmp_path: Path) -> None:
    for name in ("packager", "loader"):
        (tmp_path / f"{name}.py").write_text(OWN)
    (tmp_path / "script.py").write_text(EVERYTHING)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "[]"


PROGRAM = """
from pathlib import Path

import mblob
from mblob.errors import MblobError


def pack(path: Path) -> None:
    root: mblob.Module = mblob.csource_module("int one(void) { return 1; }", functions=["int one(void)"])
    root.export_library(path)


def call(path: Path) -> int:
    try:
        library = mblob.load_module(path)
    except MblobError as error:
        raise SystemExit(str(error)) from None
    result = library["one"]()
    assert isinstance(result, int)
    return result


if __name__ == "__main__":
    pack(Path("one.so"))
    print(call(Path("one.so")))
"""

# Arguments in all the forms that are documented, and what comes back.
RIGHT = """
import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np

import mblob
import mblob.compat.tvm as tvm
from mblob.compat import tvm_ffi
from mblob.compat.tvm.contrib import graph_executor
from mblob.compat.tvm.runtime.vm import VirtualMachine

ones = np.ones(3, "float32")
on_tvm = [tvm.nd.array(ones, tvm.cpu()), tvm_ffi.Shape((1, 2)), graph_executor.GraphModule, VirtualMachine]
root = mblob.csource_module("", fmt="c", functions=["int one(void)"], packed="name", options=["-O2"])
root.export_library("a.so", dialect="ffi", embed="grow", digest="sha256", index=True, cc="gcc", reuse=False,
                    carry=["a.c"], target=None, options="-O3")
root.export_library(Path("a.so"), None, None, ["x.o"])
mblob.export_library(root, "a.so", system_lib=True, prefix="x_", addons=[Path("a.o")], workspace_dir="w")


def fcompile(name: str, files: list[str], **kwargs: object) -> int:
    return 3


result: int = mblob.export_library(root, "a.so", fcompile, cc="gcc", mine=3)
result = root.export_library("a.so", fcompile=fcompile, dialect="classic", mine=3)

lib = mblob.load_module("a.so", verify="full", missing="stub", loaders={"k": lambda payload, ctx: root})
for source in ("x", b"x", Path("x"), io.BytesIO(b""), Path("x").open("rb"), memoryview(b""), 3, ones, bytearray()):
    mblob.load_module(source)
lib["one"].bind(1, 2)()
lib.vadd(ones, 2)
text: str = str(lib.functions["vadd"]) + lib.functions["vadd"].name
tensor: mblob.Tensor = lib.tensors["w"]
view: memoryview = lib.payloads["k"]
names: list[str] = [*lib, *lib.functions, *lib.tensors, *lib.payloads]
lib.time_evaluator("f", mblob.cpu(), number=3)(1).mean

model = mblob.graph_executor.GraphModule(lib["default"](mblob.cpu(0)))
model.set_input("x", ones)
model.set_input(0, ones, y=ones)
model.set_input(**{"x": ones})
model.run(**{"x": ones})
model.run(parallel=2, x=ones)
tensor = mblob.graph_runtime.create("{}", lib, [mblob.cpu(0), mblob.opencl()]).get_output("y", ones)
tensor = mblob.aot_executor.AotModule(lib.default(mblob.cpu())).get_output(0)
model["run"].bind()
mblob.vm.VirtualMachine(lib, mblob.cpu(), "naive").run(**{"x": ones})

shape = (3, np.int64(2))
mblob.empty(shape, np.float32), mblob.empty(3, "float32", mblob.device("opencl:1")), mblob.empty([2], ones.dtype)
mblob.array(ones).view(np.int32).numpy()
params: Mapping[str, mblob.Tensor] = mblob.load_param_dict(mblob.save_param_dict({"a": ones}))


@mblob.register_func("f.g")
def plus_one(a: int) -> int:
    return a + 1


@mblob.register_func
def plus_two(a: int) -> int:
    return a + 2


@mblob.register_loader("key")
def load(payload: memoryview, ctx: object) -> mblob.Module:
    return mblob.Module("key", functions={"f": plus_one}, payload=payload)


@mblob.register_codegen("key")
def generate(region: mblob.byoc.Region) -> mblob.Module:
    return root


result = plus_one(1) + plus_two(2)
mblob.register_func("f.h", lambda x: x, override=True)
mblob.get_global_func("f.g").bind(3)
with mblob.open("a.so", verify="off") as look:
    look.functions, look.to_json(), look.verify("header"), look.entries[0].view()
mblob.verify("a.so", level="header", against=()).check()
mblob.diff("a", Path("b"), lines=3).same
mblob.convert("a.so", "b.so", dialect="ffi", digest="none", cc=["ccache", "gcc"])
mblob.extract("a.so", "out/", tensors=True, format="npy")
mblob.swap("a.so", {0: b"x", "k": Path("p")}, "b.so", weights={"w": ones})
mblob.swap("a.so", weights="w.npz")
mblob.device_module("opencl", "kernel", ["f"], compile=True, arch="sm_90")
mblob.device_module("cuda", Path("x.cu"), compile=["ccache", "nvcc"], fmt="ptx")
mblob.json_module("dnnl_json", "s", {"nodes": []}, ["c"])
mblob.graph_executor_factory({"nodes": []}, {"w": ones}, name="m")
mblob.blob_module("k", [b"a", b"b"], data=False), mblob.blob_module("k", Path("x"))
mblob.safetensors_module({"w": ones})
mblob.save_tensors("w.safetensors", {"w": ones})
mblob.partition_graph("{}", None, root, {"k": lambda op: op.op == "x"})

graph = mblob.GraphBuilder()
x = graph.input("x", (3, np.int64(2)), np.float32)
x, z = graph.call_many("split", [x, graph.param("w", ones)], [(3, "float32"), ((3, 1), np.int8)], attrs={"a": 1})
graph.output(graph.reshape(graph.call("f", (x, z), 6, device=mblob.cpu()), (2, 3)))
mblob.graph_executor.create(graph.graph_json(), lib)
mblob.graph_executor_factory(graph)
mblob.partition_graph(graph, None, root, {})
"""

# Each line is an error.
WRONG = """
root.export_library("a.so", dialect=3)
root.export_library("a.so", dialect="fi")
root.export_library("a.so", digets="none")
root.export_library("a.so", digest="md5")
root.export_library("a.so", fcompile, embed="no")
mblob.export_library(root, "a.so", dialect="fi")
mblob.export_library(root, "a.so", digets="none")
mblob.load_module("a.so", verify="ful")
mblob.load_module("a.so", missing="stubb")
mblob.load_module("a.so", verfy="full")
mblob.load_module(3.5)
mblob.csource_module("x", fmt="java")
mblob.device_module("openc", "x")
mblob.open("a.so", verify="x")
mblob.open("a.so").functoins
mblob.verify("a.so", level="x")
mblob.convert("a", "b", dialect="c")
mblob.convert("a", "b", dialect="ffi", digets="x")
mblob.extract("a", "b", format="npz")
mblob.vm.VirtualMachine(root, mblob.cpu(), "pool")
lib["f"].bnid()
lib.functions["f"].nothing
lib.tensors["f"].nothing
lib.payloads["f"].nothing
mblob.empty((1,), 3)
mblob.cpu("x")
mblob.biuld
model.set_input(3.5, ones)
graph.call("f", ["x"], 3)
graph.inptu("x", 3)
model.get_ouptut(0)
model["run"].nothing
"""


def python_programs(root: Path) -> dict[str, str]:
    """The Python programs of README, docs and examples: files, blocks and what shells are given."""
    found = {}
    for path in [*(root / "examples").rglob("*.py")]:
        found["_".join(path.relative_to(root).with_suffix("").parts)] = path.read_text()
    pages = [root / "README.md", *(root / "docs").rglob("*.md"), *(root / "examples").rglob("*.md")]
    for page in pages:
        blocks = read_blocks(page)
        walk = "\n".join(block.text for block in blocks if block.info == "walk")  # one program
        texts = [walk] if walk else []
        for block in blocks:
            if block.language == "python" and block.info != "walk":
                texts.append(block.text)
            elif block.language == "sh":
                texts += re.findall(r"^python\S* - <<'?EOF'?\n(.*?)^EOF$", block.text, re.M | re.S)
        name = "_".join(page.relative_to(root).with_suffix("").parts)
        found |= {f"{name}_{i}": text for i, text in enumerate(texts)}
    assert len(found) > 10
    return found


def check_program(folder: Path, root: Path, python: Path) -> None:
    """Run a user's programs under mypy --strict, and one of them, with a Python that has mblob.

    Modules `packager` and `loader` of the user lie beside them.
    """
    pytest.importorskip("mypy", reason="mypy is not installed (make lint installs it)")
    programs = {**python_programs(root), "right": RIGHT, "program": PROGRAM}
    for name, text in {**programs, "packager": OWN, "loader": OWN}.items():
        (folder / f"{name}.py").write_text(text)
    mypy = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(python)]
    mypy += ["--cache-dir", str(folder / "cache")]
    files = [f"{name}.py" for name in programs]
    for command in ([*mypy, *files], [str(python), "program.py"]):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "1\n"
    (folder / "wrong.py").write_text(RIGHT + WRONG)
    done = subprocess.run([*mypy, "wrong.py"], cwd=folder, capture_output=True, text=True)
    found = {int(line) for line in re.findall(r"^wrong\.py:(\d+): error:", done.stdout, re.M)}
    first = len(RIGHT.splitlines()) + 2
    assert found == set(range(first, first + len(WRONG.split("\n")) - 2)), done.stdout


@pytest.mark.slow
def test_types_reach_a_users_program_beside_an_editable_install(root: Path, tmp_path: Path) -> None:
    check_program(tmp_path, root, Path(sys.executable))


def test_type_checkers_know_the_options_that_export_library_has() -> None:
    told = set(typed.ExportOptions.__annotations__) | set(typed.BuildOptions.__annotations__)
    parameters = inspect.signature(mblob.export_library).parameters.values()
    assert told == {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
