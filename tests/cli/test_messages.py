"""Errors of the command line: in its own words, with what was meant, once; those of Python in its."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.cli.command_line import make_parser
from mblob.cli.report import in_options
from tests.cli.conftest import PROTOTYPE, VADD, Pack

ROOT = Path(__file__).parents[2]
FUNCTIONS = (
    "csource_module|static_library|blob_module|safetensors_module|export_library|load_module|get_function"
    "|swap: |extract: "
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, pack_in: Pack) -> Path:
    """Files to be wrong about. No mistake writes one."""
    folder = tmp_path_factory.mktemp("mistakes")
    (folder / "vadd.c").write_text(VADD)
    np.save(folder / "x.npy", np.ones(4, "f"))
    np.save(folder / "y.npy", np.ones(2, "f"))
    for name in ("empty", "k.f90", "k.S"):
        (folder / name).touch()
    mblob.save_tensors(folder / "w.safetensors", {"fc.weight": np.ones(4, "f")})
    (folder / "bad.c").write_text("int f( { return 1; }\n")
    (folder / "m.toml").write_text('kernel = ["vadd.c"]\noutput = "m.so"\n')
    (folder / "dialect.toml").write_text('dialect = "fif"\noutput = "m.so"\n')
    words = ("--kernel", "vadd.c", "--function", PROTOTYPE, "--weights", "w.safetensors")
    assert pack_in(folder, "build", *words, "-o", "v.so").returncode == 0
    return folder


BUILD = ("build", "--kernel", "vadd.c", "-o", "o.so")
MISTAKES: list[tuple[tuple[str, ...], str]] = [
    (("biuld",), "unknown verb 'biuld'; expected one of build, .*; did you mean 'build'?"),
    ((*BUILD, "--wieghts", "x.npy"), "build: no option '--wieghts'; did you mean '--weights'?"),
    (("run", "--devise", "cpu"), "run: no option '--devise'; did you mean '--device'?"),
    ((*BUILD, "--weight", "x.npy"), "build: no option '--weight'; did you mean '--weights'?"),
    (("inspect", "v.so", "--htm", "p.html"), "inspect: no option '--htm'; did you mean '--html'?"),
    (("swap", "v.so", "k=x.npy"), r"'k=x.npy' .*\nhint: a tensor: --weights k=x.npy, a payload: --blob k="),
    (("swap", "v.so", "x.npz"), r"'x.npz' is one word .*\nhint: --weights x.npz"),
    (("swap", "v.so", "fc.npy"), r"'fc.npy' is one word .*\nhint: --weights fc=fc.npy"),
    (("swap", "v.so", "l.json"), r"'l.json' is one word .*\nhint: --blob KEY=l.json"),
    (("add", "v.so", "vadd.c", "-o", "o.so", "-O3"), r"add: no option '-O3'\nhint: .* add \.\.\. -- -O3"),
    (("add", "v.so", "vadd.c", "--", "-Iinc", "-o", "o.so"),
     r"required: -o/--output\nhint: words behind -- are options of the compiler; write -o in front of --"),
    ((*BUILD, "--weights", "w=x.npy"), r"w=x.npy: no file of .*\nhint: --weights x.npy, or --blob w=x"),
    (("add", "v.so", "--weights", "w=x.npy", "-o", "o.so"), "w=x.npy: no file of this name; add packs tensors by"),
    ((*BUILD, "-o", "p.so"), r"-o/--output: given twice \(o.so and p.so\), expected once"),
    (("swap", "v.so", "-o", "o.so", "--blob", "k=x.npy", "--output=p.so"), "-o/--output: given twice .o.so and p.so"),
    ((*BUILD, "--dialect", "ffi", "--dialect=classic"), "--dialect: given twice .ffi and classic"),
    (("add", "v.so", "--params", "w", "--params", "x", "-o", "o.so"), "--params: given twice .w and x"),
    (("run", "v.so", "--name", "vadd", "x=x.npy"), r"no model .*\nhint: mblob-pack run v.so vadd ARG\.\.\., without"),
    (("run", "v.so", "vadd", "-o", "o.npz", "x.npy", "-z"), "run: no option '-z'"),
    (("build", "K.Cpp", "-o", "o.so"), r"K.Cpp: no compiler .* suffix .Cpp\nhint: rename it to K.cpp"),
    (("swap", "v.so"), "error: the following arguments are required: -o/--output"),
    (("--versoin",), "error: no option '--versoin'; did you mean '--version'?"),
    ((), "error: expected a verb: build, standalone, import, inspect, verify, extract, add, swap, diff, "),
    (("inspect", "v.so", "--functons"), "inspect: no option '--functons'; did you mean '--functions'?"),
    ((*BUILD, "--dialect", "clasic"),
     "--dialect: found 'clasic', expected one of classic, ffi; did you mean 'classic'?"),
    ((*BUILD, "-O3"), r"build: no option '-O3'\nhint: .* behind --: mblob-pack build \.\.\. -- -O3"),
    ((*BUILD, "-march=native"), "build: no option '-march'\nhint: .* -- -march=native"),
    ((*BUILD, "--weights", "vadd.c"), "vadd.c: not a safetensors file; expected .safetensors, .npz, .npy"),
    (("swap", "v.so", "--weights", "x.npy", "-o", "o.so"),
     "say which tensor it is: --weights NAME=x.npy; there are fc.weight"),
    (("swap", "v.so", "--weights", "vadd.c", "-o", "o.so"), "vadd.c: not a safetensors file; expected"),
    (("swap", "v.so", "--weights", "fc.wieght=x.npy", "-o", "o.so"),
     "no tensor 'fc.wieght' .*; did you mean 'fc.weight'?"),
    (("swap", "v.so", "--entry", "safetensor=x.npy", "-o", "o.so"),
     "no entry 'safetensor' .*; did you mean 'safetensors'?"),
    (("extract", "v.so", "--entry", "saftensors", "-o", "out"),
     "no entry 'saftensors' .*; did you mean 'safetensors'?"),
    (("inspect", "v.so", "--entry", "saftensors"), "no entry 'saftensors' .*; did you mean 'safetensors'?"),
    (("run", "v.so", "x.npy"),
     "'x.npy' is a file, expected a function of v.so .*; it has: vadd; mblob-pack run v.so vadd x.npy"),
    (("run", "v.so", "vad", "x.npy"), "no function 'vad'; it has: vadd; did you mean 'vadd'?"),
    (("run", "v.so", "vadd", "x.npy", "--device", "opncl"), "device 'opncl' is not known; .*; did you mean 'opencl'?"),
    (("build", "dialect.toml"), "dialect.toml: dialect: expected one of classic, ffi, .*; did you mean 'ffi'?"),
    (("build", "k.S", "-o", "o.so"), "k.S: assembler, expected C, .* or Fortran; assemble it, and pack the object"),
    (("build", "no.json", "-o", "o.so"), "error: no.json: build: no such file"),
    (("build", "m.toml", "dialect.toml", "-o", "o.so"), "error: m.toml and dialect.toml: two manifests, expected one"),
    (("swap", "v.so", "-o", "o.so"), "error: nothing to change\nhint: --weights NAME=x.npy, or --blob KEY=FILE"),
    (("completion", "bsh"), "error: shell: found 'bsh', expected one of .*; did you mean 'bash'?"),
    (("build", "--kernel", "vadd.c", "--function", "void vad(int n)", "-o", "o.so"),
     "no kernel or object defines 'vad': .*; did you mean 'vadd'?"),
    (("build", "m.toml"), "unknown key 'kernel'; .*; did you mean 'kernels'?"),
    (("build", "--kernel", "no.c", "-o", "o.so"), "error: no.c: no such file"),
    (("build", "--object", "no.o", "-o", "o.so"), "error: no.o: no such file"),
    ((*BUILD, "--blob", "k=no"), "error: no: no such file"),
    ((*BUILD, "--blob", "library=x.npy"), "error: type key 'library' is the format's own"),
    ((*BUILD, "--weights", "no.npy"), "error: no.npy: no such file"),
    ((*BUILD, "--cc", "nocc"), "error: --cc: no C compiler 'nocc' found"),
    ((*BUILD, "--target", "foo-linux"), "no C compiler found for foo-linux: .*, or pass --cc"),
    ((*BUILD, "--packed", "foo"), "--packed names 'foo', and --function has no prototype of it"),
    ((*BUILD, "--prefix", "a_"), "add --system-lib"),
    ((*BUILD, "--name", "m"), "error: --name names the model of --graph; found 'm' and no graph"),
    ((*BUILD, "--params", "x.npy"), "error: --params needs --graph or one Relax program, found 0; .* by --weights"),
    ((*BUILD, "--object", "vadd.c"), r"vadd.c: expected an ELF object file or an archive, .* a source with --kernel"),
    ((*BUILD, "--weights", "empty"), "error: empty: the file is empty; expected .safetensors, .npz, .npy"),
    (("build", "--kernel", "x.npy", "-o", "o.so"), "x.npy: expected the suffix of a source, .*, found '.npy'"),
    (("build", "v.so", "-o", "o.so"), "error: v.so: a finished library, which cannot .*mblob-pack add v.so"),
    (("build", "no.toml"), "error: no.toml: manifest: no such file"),
    (("build", "--kernel", "vadd.c", "-o"), "error: -o/--output: expected a value behind it"),
    (("build", "--kernel", "vadd.c", "-o", "no/o.so"), "no/o.so: the output's folder '.*no' does not exist; create it"),
    (("inspect", "v.so", "--machine", "sparc64"), r"error: v.so: for \w+, .*, not sparc64"),
    (("swap", "v.so", "--weights", "fc.weight=y.npy", "-o", "o.so"),
     r"'fc.weight': expected float32 of shape \(4,\), which .* compiled for, found float32 of shape \(2,\)"),
    (("run", "v.so", "vadd", "x.npy", "--repeat", "x"), "error: --repeat: expected an integer from 1 on, found 'x'"),
    (("run", "v.so", "vadd", "x.npy", "--parallel", "x"), "error: --parallel: expected an integer, found 'x'"),
    (("run", "v.so", "vadd", "x.npy", "x.npy", "float64[4]", "4"), "expected an array of float32, found float64\n"),
    (("inspect", "v.so", "--Functions"), "inspect: no option '--Functions'; did you mean '--functions'?"),
    (("verify", "v.so", "--level", "FULL"), "--level: found 'FULL', expected one of .*; did you mean 'full'?"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "text"), MISTAKES, ids=[" ".join(w) for w, _ in MISTAKES])
def test_a_mistake_is_told_in_the_words_of_the_command_line(
    words: tuple[str, ...], text: str, folder: Path, pack_in: Pack
) -> None:
    before = sorted(folder.iterdir())
    done = pack_in(folder, *words)
    assert sorted(folder.iterdir()) == before
    assert done.returncode in (2, 4, 5, 1) and not done.stdout
    pattern = text.replace("?", r"\?") if text.endswith("?") else text
    assert re.search(pattern, done.stderr), done.stderr
    assert not re.search(
        rf"\b({FUNCTIONS})|(?<![-\w])[a-z_]+=(?![\w.]*\.npy)",
        done.stderr.replace("-march=native", "").replace("static_library, ", ""),  # a key
    )


def test_what_a_compiler_says_is_printed_once(folder: Path, pack_in: Pack) -> None:
    done = pack_in(folder, "build", "--kernel", "bad.c", "-o", "o.so")
    first = done.stderr.splitlines()[0]
    assert (done.returncode, first) == (4, "mblob-pack: error: bad.c: does not compile")
    said = [line for line in done.stderr.splitlines() if "error:" in line and "bad.c:1" in line]
    assert len(said) == len(set(said)) >= 1


def test_a_function_without_a_prototype_says_to_pack_it_with_one(
    kernel: Path, pack: Pack, tmp_path: Path
) -> None:
    built = pack("build", "--kernel", kernel, "--no-functions", "-o", "plain.so")
    assert built.returncode == 0 and "pack it with its prototype" in built.stderr
    done = pack("run", "plain.so", "vadd", "1")
    assert (
        "--function vadd or, if nothing tells its types, its prototype" in done.stderr
        and "symbol(" not in done.stderr
    )
    with pytest.raises(
        mblob.NotFoundError,
        match=r"functions=\['vadd'\] or, if nothing tells its types, its prototype",
    ):
        mblob.load_module(tmp_path / "plain.so")["vadd"]


def test_a_model_says_to_name_its_inputs(pack: Pack, tmp_path: Path) -> None:
    graph: dict[str, Any] = {
        "nodes": [{"op": "null", "name": "x", "inputs": []}],
        "arg_nodes": [0],
        "heads": [[0, 0, 0]],
        "node_row_ptr": [0, 1],
        "attrs": {
            "dltype": ["list_str", ["float32"]],
            "shape": ["list_shape", [[4]]],
            "storage_id": ["list_int", [0]],
        },
    }
    factory = mblob.graph_executor_factory(graph)
    factory.import_module(mblob.csource_module("int nothing;"))
    factory.export_library(tmp_path / "model.so")
    done = pack("run", "model.so", "x.npy")
    assert done.returncode == 2
    assert (
        "model.so holds a model; pass its inputs by name: mblob-pack run model.so NAME=x.npy"
        in done.stderr
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("pass cc= or target=", "pass --cc or --target"),
        ("use embed='grow' or embed='object'", "use --embed grow or --embed object"),
        ("leave index=False out", "leave --no-index out"),
        ("or with reuse=False", "or with --no-reuse"),
        ("leave out alignment=, or", "leave out --align, or"),
        ("compile it with options='-Dstatic='", "compile it with -- -Dstatic="),
        ("options= of the compiler", "-- CFLAGS of the compiler"),
        ("pack it with static_library", "pack it with --object"),
        ("register_loader('k', layout=...), or", "--layout k=FORM, or"),
        ("weights={'NAME': 'x.npy'}", "--weights NAME=x.npy"),
        ("functions=['void f(int)']", "--function 'void f(int)'"),
        ("clang --target=x86 -fuse-ld=bfd", "clang --target=x86 -fuse-ld=bfd"),
        ("swap: weights: no such file", "weights: no such file"),
    ],
)
def test_arguments_of_python_become_options(given: str, expected: str) -> None:
    assert in_options(given) == expected


def _is_shown(node: ast.AST) -> bool:
    """True for what raises an error or warns."""
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(node, ast.Raise) or (isinstance(called, ast.Name) and called.id == "warn")


def test_errors_of_the_python_face_name_no_option_of_the_command_line() -> None:
    """`mblob.cli.report.in_options` puts them in for the command line."""
    verbs = make_parser().verbs.values()
    options = {word for verb in verbs for word in verb._option_string_actions if word[:2] == "--"}
    named = re.compile(rf"({'|'.join(sorted(options))})(?![-\w])|mblob-pack(?!ager)")
    found = []
    for path in (
        p for room in ("mblob", "packager", "loader") for p in (ROOT / room).rglob("*.py")
    ):
        if "cli" in path.relative_to(ROOT).parts:
            continue
        raised = [n for n in ast.walk(ast.parse(path.read_text())) if _is_shown(n)]
        texts = [n.value for r in raised for n in ast.walk(r) if isinstance(n, ast.Constant)]
        found += [text for text in texts if isinstance(text, str) and named.search(text)]
    assert found == []
