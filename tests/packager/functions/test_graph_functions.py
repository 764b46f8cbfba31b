"""Functions that a graph calls and that cannot be called so: plain ones, missing ones, hidden ones,
by other names."""

from __future__ import annotations

import json
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mblob
from tests.packager.functions.test_tvm_executor import (
    KERNEL,
    PROTOTYPE,
    codes,
    graph,
    model,
    pack_verb,
    run,
)


def told(module: mblob.Module, path: Path, **options: Any) -> list[str]:
    """What packing warns of."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        module.export_library(path, **options)
    return [str(w.message) for w in found]


def over(source: mblob.Module, function: str = "twice") -> mblob.Module:
    factory = mblob.graph_executor_factory(graph(function=function))
    factory.import_module(source)
    return factory


def test_a_plain_operator_without_a_prototype_runs_nowhere_and_the_warning_says_so(
    tmp_path: Path,
) -> None:
    (said,) = told(over(mblob.csource_module(KERNEL, functions=[])), tmp_path / "m.so")
    assert said == (
        "GraphExecutorFactory: TVM's executor crashes on this library: it calls 'twice' as a packed function, but"
        " 'twice' is a plain C function. mblob cannot run it either: no prototype is given for 'twice'. Declare"
        " it with functions=."
    )
    with mblob.open(tmp_path / "m.so") as library:
        assert [
            d["message"].split(": ", 1)[1]
            for d in library.diagnostics
            if d["code"] == "plain_operators"
        ] == [said.split(": ", 1)[1]]
    with pytest.raises(
        mblob.MblobError, match="'twice' is a plain C function, without a packed function"
    ):
        run(tmp_path / "m.so")


@pytest.mark.sample(1)
@pytest.mark.parametrize("suffix", [".a", ".o", ".tar"])
def test_a_system_library_warns_of_plain_operators_that_nobody_can_call(
    tmp_path: Path, suffix: str
) -> None:
    (said,) = told(
        over(mblob.csource_module(KERNEL, functions=[])),
        tmp_path / f"m{suffix}",
        system_lib=True,
        prefix="m_",
    )
    assert said.startswith(
        "GraphExecutorFactory: TVM's executor cannot run this library: it calls 'twice' as a packed"
    )
    assert "mblob cannot run it either: no prototype is given for 'twice'." in said
    assert told(model(), tmp_path / f"n{suffix}", system_lib=True, prefix="n_") == []


@pytest.mark.parametrize("options", [{}, {"system_lib": True}], ids=["shared", "system"])
def test_an_operator_that_no_module_has_is_told_when_packing(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    source = mblob.csource_module(KERNEL, functions=[PROTOTYPE], packed="name")
    path = tmp_path / ("m.a" if options else "m.so")
    (said,) = told(over(source, "twise"), path, **options)
    assert said == (
        "GraphExecutorFactory: no module has 'twise', which it calls: it fails until a module with the name is added"
        " to its imports; did you mean 'twice'?"
    )
    assert path.exists()


# a packed function
OTHER = "int other(void *a, int *t, int n, void *r, int *c, void *h) { return 0; }"


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "brings", ["a runtime", "a named module", "a library", "another source", "an addon", "a link"]
)
def test_an_operator_that_something_may_have_is_not_told(tmp_path: Path, brings: str) -> None:
    made = over(mblob.csource_module(KERNEL, functions=[PROTOTYPE], packed="name"), "other")
    options: dict[str, Any] = {}
    if brings == "a runtime":
        made.import_module(mblob.blob_module("my_runtime", b"x"))
    elif brings == "a named module":
        made.import_module(mblob.json_module("dnnl_json", "other", "{}", []))
    elif brings == "a library":
        options["options"] = "-lm"
    elif brings == "another source":
        made.import_module(mblob.csource_module(OTHER))
    else:
        (tmp_path / "other.c").write_text(OTHER)
        if brings == "an addon":
            options["addons"] = [tmp_path / "other.c"]
        else:
            subprocess.run(["cc", "-c", "other.c"], cwd=tmp_path, check=True)
            options["options"] = [tmp_path / "other.o"]
    assert told(made, tmp_path / "m.so", **options) == []


@pytest.mark.sample(2)
@pytest.mark.parametrize("options", ["-gz", "-g0", "-gsplit-dwarf", "-flto"])
def test_options_of_the_compiler_hide_no_plain_operator(tmp_path: Path, options: str) -> None:
    (said,) = told(
        over(mblob.csource_module(KERNEL, functions=[])), tmp_path / "m.so", options=options
    )
    assert "'twice' is a plain C function" in said
    with pytest.raises(mblob.MblobError, match="'twice' is a plain C function"):
        run(tmp_path / "m.so")


@pytest.mark.sample(1)
@pytest.mark.parametrize("other", ['alias("twice")', 'weak, alias("twice")', 'ifunc("choose")'])
def test_an_operator_that_is_another_name_of_a_plain_function_is_told_too(
    tmp_path: Path, other: str
) -> None:
    text = f"{KERNEL}static void *choose(void) {{ return twice; }}\n"
    text += f"extern __typeof(twice) again __attribute__(({other}));"
    (said,) = told(
        over(mblob.csource_module(text, functions=[PROTOTYPE]), "again"), tmp_path / "m.so"
    )
    assert "it calls 'again' as a packed function, but 'again' is a plain C function" in said
    assert "no prototype is given for 'again'" in said
    with pytest.raises(mblob.MblobError, match=r"'again' is (a plain C function|called)"):
        run(tmp_path / "m.so")


def test_a_plain_operator_in_an_object_for_link_time_optimization_is_told(
    tmp_path: Path, require: Callable[[str], str]
) -> None:
    (tmp_path / "k.c").write_text(KERNEL)
    subprocess.run([require("gcc"), "-g", "-flto", "-fPIC", "-c", "k.c"], cwd=tmp_path, check=True)
    (said,) = told(
        over(mblob.static_library(tmp_path / "k.o", functions=[])), tmp_path / "m.so", cc="gcc"
    )
    assert "'twice' is a plain C function" in said
    with pytest.raises(mblob.MblobError, match="'twice' is a plain C function"):
        run(tmp_path / "m.so")


HIDING = [
    "-fvisibility=hidden",
    "-O3 -fwhole-program",
    "-Wl,--version-script=v.map",
    "-flto -fvisibility=hidden",
]


@pytest.mark.sample(2)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("options", HIDING)
def test_an_operator_that_the_library_does_not_export_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str, packed: bool
) -> None:
    (tmp_path / "v.map").write_text("{ global: __tvm*; __mblob*; local: *; };")
    options = options.replace("v.map", str(tmp_path / "v.map"))
    source = mblob.csource_module(OTHER if packed else KERNEL)
    (said,) = told(
        over(source, "other" if packed else "twice"), tmp_path / "m.so", options=options
    )[-1:]
    assert said.startswith("GraphExecutorFactory: no module has ")
    with pytest.raises(mblob.MblobError, match="'other'" if packed else "'twice'"):
        run(tmp_path / "m.so")


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", ["a system library", "a tar", "an fcompile"])
def test_a_hidden_operator_is_told_however_it_is_packed(tmp_path: Path, how: str) -> None:
    def link(output: str, files: list[str], options: list[str]) -> None:
        subprocess.run(["cc", "-shared", "-fPIC", "-w", *options, "-o", output, *files], check=True)

    more: dict[str, Any] = {
        "a system library": {"system_lib": True},
        "an fcompile": {"fcompile": link},
    }.get(how, {})
    path = tmp_path / {"a system library": "m.a", "a tar": "m.tar"}.get(how, "m.so")
    (said,) = told(
        over(mblob.csource_module(KERNEL, functions=[])),
        path,
        options="-fvisibility=hidden",
        **more,
    )
    assert said.startswith("GraphExecutorFactory: no module has 'twice', which it calls")
    assert told(model(packed="name"), path, **more) == []


def test_a_hidden_operator_that_is_there_gets_a_hint(tmp_path: Path) -> None:
    (said,) = told(
        over(mblob.csource_module(KERNEL, functions=[])),
        tmp_path / "m.so",
        options="-fvisibility=hidden",
    )
    assert said == (
        "GraphExecutorFactory: no module has 'twice', which it calls: 'twice' is defined, but not exported. Leave out"
        " what hides it (-fvisibility=hidden, -fwhole-program, a version script), or mark it"
        ' __attribute__((visibility("default")))'
    )


@pytest.mark.parametrize("options", ["-fvisibility=hidden", "-fwhole-program"])
def test_of_a_hidden_function_with_a_prototype_nothing_is_said_but_the_error(
    tmp_path: Path, options: str
) -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        with pytest.raises(mblob.MblobError, match=r"twice is listed, but|defines 'twice'"):
            model().export_library(tmp_path / "m.so", options=options)
    assert found == []


def test_an_operator_of_a_library_that_is_linked_by_other_means_is_not_told(tmp_path: Path) -> None:
    (tmp_path / "other.c").write_text(OTHER)
    subprocess.run(
        ["cc", "-shared", "-fPIC", "other.c", "-o", "libother.so"], cwd=tmp_path, check=True
    )
    made = over(mblob.csource_module(KERNEL, functions=[PROTOTYPE], packed="name"), "other")
    assert (
        told(
            made, tmp_path / "m.so", options=["-Wl,--no-as-needed," + str(tmp_path / "libother.so")]
        )
        == []
    )


@pytest.mark.slow
def test_the_command_line_does_what_its_warning_says(tmp_path: Path) -> None:
    (tmp_path / "g.json").write_text(json.dumps(graph()))
    (tmp_path / "k.c").write_text(KERNEL)
    given = [
        "build",
        "--graph",
        tmp_path / "g.json",
        "--kernel",
        tmp_path / "k.c",
        "-o",
        tmp_path / "m.so",
    ]
    without = pack_verb(*given, "--no-functions")
    warning, wrote = without.stderr.splitlines()
    assert warning.endswith("Declare it with --function.") and wrote.startswith("wrote ")
    for packed in ([], ["--packed", "name"], ["--packed", "twice"]):
        done = pack_verb(*given, "--function", PROTOTYPE, *packed)
        assert done.returncode == 0 and done.stderr.startswith("wrote "), done.stderr
        assert codes(tmp_path / "m.so") == set()
        assert run(tmp_path / "m.so") == [4.0] * 4
    wrong = pack_verb(*given, "--function", PROTOTYPE, "--packed", "twise")
    assert wrong.returncode == 2
    assert (
        "--packed names 'twise', and --function has no prototype of it; it has: twice"
        in wrong.stderr
    )


def test_flags_and_a_manifest_name_packed_functions_together(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(KERNEL + KERNEL.replace("twice", "again"))
    prototypes = json.dumps([PROTOTYPE, PROTOTYPE.replace("twice", "again")])
    for said, flag in (("twice", "again"), ("name", "name")):
        text = (
            f'output = "m.so"\nkernels = ["k.c"]\nfunctions = {prototypes}\npacked = ["{said}"]\n'
        )
        (tmp_path / "m.toml").write_text(text)
        assert pack_verb("build", tmp_path / "m.toml", "--packed", flag).returncode == 0
        with mblob.open(tmp_path / "m.so") as library:
            assert [(f.name, f.abi) for f in library.host_functions] == [
                ("again", "packed"),
                ("twice", "packed"),
            ]


def test_a_system_library_is_not_told_of_names_that_it_does_not_need(tmp_path: Path) -> None:
    (said,) = told(
        over(mblob.csource_module(KERNEL, functions=[])),
        tmp_path / "m.a",
        system_lib=True,
        prefix="m_",
    )
    assert said.endswith("no prototype is given for 'twice'. Declare it with functions=.")
