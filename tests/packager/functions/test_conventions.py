"""A packed function calls as C does. Sources, symbols and debug information of clang tell which
functions are called otherwise."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.packager.compile.call_attributes import attributes

OWN = {"x86_64": "ms_abi", "aarch64": "aarch64_vector_pcs"}
ATTRIBUTE = OWN.get(platform.machine(), "preserve_most")
WORDS = r"own has a calling convention.*remove it there"


def test_a_function_with_a_convention_of_its_own_is_refused(
    tmp_path: Path, require: Callable[[str], str]
) -> None:
    (tmp_path / "k.c").write_text(
        f"__attribute__(({ATTRIBUTE})) void own(float *x) {{ *x = 1; }}\n"
        "void plain(float *x) { *x = 2; }\n"
    )
    command = [require("clang"), "-g", "-O1", "-fPIC", "-c", "k.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    plain = mblob.static_library(tmp_path / "k.o", functions=["void plain(float *x)"])
    plain.export_library(tmp_path / "k.so")
    own = mblob.static_library(tmp_path / "k.o", functions=["void own(float *x)"])
    with pytest.raises(mblob.BuildError, match=WORDS):
        own.export_library(tmp_path / "k.so")


SOURCES = {
    "attribute": "__attribute__((ms_abi)) void own(float *x) { *x = 1; }",
    "behind": "void own(float *x) __attribute__((noinline, __ms_abi__));\n"
    "__attribute__((ms_abi)) void own(float *x) { *x = 1; }",
    "macro": "#define CALL __attribute__((ms_abi))\nCALL void own(float *x) { *x = 1; }",
    "header": '#include "call.h"\nCALL void own(float *x) { *x = 1; }',
    "vectors": "CALL void own(float *x) { float4 v = {1, 2, 3, 4}; *x = v.x; }",
}


@pytest.mark.sample(1)
@pytest.mark.skipif(platform.machine() != "x86_64", reason="ms_abi is for x86-64")
@pytest.mark.parametrize("how", SOURCES)
def test_a_convention_that_a_source_gives_is_refused(
    tmp_path: Path, require: Callable[[str], str], how: str
) -> None:
    (tmp_path / "call.h").write_text("#define CALL __attribute__((ms_abi))\n")
    plain = "\nvoid plain(float *x, void (*unused)(void)) { *x = 2; }\n"
    (tmp_path / "k.c").write_text(SOURCES[how] + plain)
    options = ["-DCALL=__attribute__((ms_abi))"] if how == "vectors" else []
    module = mblob.csource_module(
        tmp_path / "k.c", functions=["void own(float *x)"], options=options
    )
    with pytest.raises(mblob.BuildError, match=r"own .* in .*k\.c \(ms_abi\)"):
        module.export_library(tmp_path / "k.so", cc=require("gcc"))
    functions = ["void plain(float *x, void *unused)"]
    module = mblob.csource_module(tmp_path / "k.c", functions=functions, options=options)
    module.export_library(tmp_path / "k.so", cc=require("gcc"))
    x = np.zeros(1, "float32")
    mblob.load_module(tmp_path / "k.so").plain(x, None)
    assert x[0] == 2


@pytest.mark.parametrize(
    ("compiler", "attribute", "is_own"),
    [
        ("i686-linux-gnu-gcc", "stdcall", True),
        ("i686-linux-gnu-gcc", "regparm(3)", True),
        ("i686-linux-gnu-gcc", "cdecl", False),
        ("arm-linux-gnueabihf-gcc", 'pcs("aapcs")', True),
        ("aarch64-linux-gnu-gcc", "aarch64_vector_pcs", True),
        ("gcc", "sysv_abi", False),
        # which these compilers ignore
        ("x86_64-linux-gnu-gcc", "stdcall", False),
        ("aarch64-linux-gnu-gcc", "ms_abi", False),
    ],
)
def test_each_machine_has_conventions_of_its_own(
    tmp_path: Path, require: Callable[[str], str], compiler: str, attribute: str, is_own: bool
) -> None:
    source = f"__attribute__(({attribute})) void own(float *x) {{ *x = 1; }}"
    module = mblob.csource_module(source, functions=["void own(float *x)"])
    if is_own:
        with pytest.raises(mblob.BuildError, match=WORDS):
            module.export_library(tmp_path / "k.so", cc=require(compiler))
    else:
        module.export_library(tmp_path / "k.so", cc=require(compiler))


def test_a_symbol_of_aarch64_tells(tmp_path: Path, require: Callable[[str], str]) -> None:
    cc = require("aarch64-linux-gnu-gcc")
    source = "__attribute__((aarch64_vector_pcs)) void own(float *x) { *x = 1; }\n"
    (tmp_path / "k.c").write_text(source + "void plain(float *x) { *x = 2; }\n")
    subprocess.run([cc, "-O1", "-fPIC", "-c", "k.c"], cwd=tmp_path, check=True)
    mblob.static_library(tmp_path / "k.o", functions=["void plain(float *x)"]).export_library(
        tmp_path / "k.so", cc=cc
    )
    own = mblob.static_library(tmp_path / "k.o", functions=["void own(float *x)"])
    with pytest.raises(mblob.BuildError, match=r"own .*its symbol says so.*remove it there"):
        own.export_library(tmp_path / "k.so", cc=cc)


@pytest.mark.parametrize(
    "option", ["-mabi=ms", "-mrtd", "-mregparm=3", "-msseregparm", "-fcall-used-rbx"]
)
def test_an_option_that_changes_all_calls_is_refused(tmp_path: Path, option: str) -> None:
    source = "void f(float *x) { *x = 1; }"
    with pytest.raises(mblob.BuildError, match=f"options: {option} changes how functions"):
        mblob.csource_module(source, options=[option])
    module = mblob.csource_module(source)
    with pytest.raises(mblob.BuildError, match=f"options: {option} changes how functions"):
        module.export_library(tmp_path / "k.so", options=[option])
    with pytest.raises(mblob.BuildError, match=f"cc=: {option} changes how functions"):
        module.export_library(tmp_path / "k.so", cc=f"cc {option}")


@pytest.mark.parametrize("attribute", ["ms_abi", "__stdcall__", 'pcs("aapcs")', "mode(DI)"])
def test_an_attribute_in_a_prototype_is_refused_if_calls_depend_on_it(attribute: str) -> None:
    for text in (
        f"__attribute__(({attribute})) void f(int x)",
        f"void f(int x) __attribute__((unused, {attribute}))",
        f"void f(int x __attribute__(({attribute})))",
        f"[[gnu::{attribute}]] void f(int x)",
    ):
        with pytest.raises(mblob.BuildError, match=r"the attribute .* changes how the function is"):
            mblob.csource_module("", functions=[text])


@pytest.mark.parametrize(
    "text",
    [
        '__attribute__((visibility("default"), nonnull(1))) void f(float *x)',
        "__declspec(dllexport) void f(float *x __attribute__((aligned(16))))",
        "[[nodiscard]] void f(float *x) __attribute__((cdecl))",
    ],
)
def test_other_attributes_in_a_prototype_are_left_out(tmp_path: Path, text: str) -> None:
    module = mblob.csource_module("void f(float *x) { *x = 1; }", functions=[text])
    module.export_library(tmp_path / "k.so")
    x = np.zeros(1, "float32")
    mblob.load_module(tmp_path / "k.so").f(x)
    assert x[0] == 1


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("void (__attribute__((ms_abi)) own)(float *x) {}", {"own": "ms_abi"}),
        ("void (__attribute__((ms_abi)) *variable)(int); void f(int) {}", {}),
        ("void f(void (__attribute__((ms_abi)) *g)(int)) { int __attribute__((ms_abi)) h(int); }", {}),
        ("typedef void __attribute__((ms_abi)) type(int); void f(type *x) {}", {}),
        ("struct s { void (__attribute__((ms_abi)) *g)(int); } v; void f(int x) {}", {}),
        ('# 1 "a.c"\nstatic const char *s = "ms_abi {"; void f(int);', {}),
        ("int a[] = {1}; int f(int x) { return '}'; } __attribute__((pcs(\"aapcs\"))) int own(void);", {"own": "pcs"}),
        ('extern "C" { __attribute__((ms_abi)) void own(int); } void f();', {"own": "ms_abi"}),
        ("extern __attribute__((ms_abi)) int own(int x) { return x; }", {"own": "ms_abi"}),
        ("namespace a { namespace b { [[gnu::ms_abi]] int own(int x); } }", {"own": "ms_abi"}),
        ('__attribute__((stdcall)) int own(int) asm("other");', {"own": "stdcall"}),
        ("struct s *__attribute__((ms_abi)) own(struct s *x) {}", {"own": "ms_abi"}),
        ("__attribute__((ms_abi", {}),
        ("}}{ ((ms_abi))", {}),
        ("int __attribute__((ms_abi)) ((m))(int *x);", {"m": "ms_abi"}),
        pytest.param("int " + "(" * 20_000 + "f" + ")" * 20_000 + "(int) __attribute__((ms_abi));", {"f": "ms_abi"},
                     id="deep"),
    ],
)  # fmt: skip
def test_the_declaration_that_has_an_attribute(code: str, found: dict[str, str]) -> None:
    assert attributes(code) == found
