"""The files of `make install`: found by pkg-config, its names, headers that compile without
warnings."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from mblob.compilers import include_flags
from tests.c.test_rooms import OF_PYTHON
from tests.e2e.programs import ADDS, ROOT, exported, run


@pytest.mark.parametrize("language", ["c", "c++"])
@pytest.mark.parametrize("static", [False, True])
def test_an_installed_runtime_is_found_by_pkg_config(
    built: Path,
    installed: Path,
    tmp_path: Path,
    require: Callable[[str], str],
    language: str,
    static: bool,
) -> None:
    pkg_config = require("pkg-config")
    environment = {**os.environ, "PKG_CONFIG_PATH": str(installed / "lib" / "pkgconfig")}
    flags = run(
        pkg_config,
        "--cflags",
        "--libs",
        *(["--static"] if static else []),
        "mblob",
        env=environment,
    )
    words = flags.stdout.split()
    if static:
        words = [str(installed / "lib" / "libmblob.a") if w == "-lmblob" else w for w in words]
    source = tmp_path / "host.c"
    source.write_text(ADDS)
    standard = "-std=c11" if language == "c" else "-std=c++17"
    compiler = require("cc" if language == "c" else "c++")
    program = tmp_path / "host"
    run(
        compiler,
        "-x",
        language,
        standard,
        "-Wall",
        "-Wextra",
        "-Werror",
        source,
        "-x",
        "none",
        "-o",
        program,
        *words,
    )
    environment["LD_LIBRARY_PATH"] = str(installed / "lib")
    assert run(program, built / "lib" / "plain.so", env=environment).stdout == "21\n"


def test_the_library_exports_its_api_and_nothing_else(installed: Path) -> None:
    names = exported(installed / "lib" / "libmblob.so").keys()
    # as TVM's
    helpers = {"__gnu_f2h_ieee", "__gnu_h2f_ieee", "__truncsfhf2", "__truncdfhf2", "__extendhfsf2"}
    # gcc's, the last two where there is x87
    helpers |= {"__extendhfdf2", "__extendhfxf2", "__truncxfhf2"} & names
    assert {n for n in names if not n.startswith(("mblob_", "TVM"))} == helpers
    assert {"mblob_open", "TVMModLoadFromFile", "TVMBackendParallelLaunch"} <= names


@pytest.mark.slow
def test_no_text_of_a_table_lacks_room_for_its_end(require: Callable[[str], str]) -> None:
    """C drops the NUL of a text that fills its array, without a word; gcc tells what C++ thinks of
    it."""
    own = [
        ROOT / "csrc" / name
        for name in ("include", "include/mblob/compat", "src", "plugins/common")
    ]
    sources = [p for name in ("src", "plugins") for p in (ROOT / "csrc" / name).rglob("*.c")]
    words = [
        "-std=gnu11",
        "-DMBLOB_HOST",
        "-D_FILE_OFFSET_BITS=64",
        *(f"-I{p}" for p in own),
        "-fsyntax-only",
    ]
    done = subprocess.run(
        [require("gcc"), *words, "-Wc++-compat", *map(str, sources)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if "too long" in line] == []


# -- the tree of an installation -------------------------------------------------------------------


def test_the_shared_library_has_its_version_in_its_name_and_in_its_symbols(installed: Path) -> None:
    lib = installed / "lib"
    version = mblob.__version__
    assert (lib / "libmblob.so").readlink() == Path("libmblob.so.0")
    assert (lib / "libmblob.so.0").readlink() == Path(f"libmblob.so.{version}")
    assert not (lib / f"libmblob.so.{version}").is_symlink()
    assert set(exported(lib / "libmblob.so").values()) == {"MBLOB_0.1"}
    for plugin in lib.glob("libmblob-*.so"):
        assert set(exported(plugin).values()) == {"MBLOB_PLUGIN_1"}


def test_a_program_that_pkg_config_links_starts_at_once(
    built: Path, installed: Path, tmp_path: Path, require: Callable[[str], str]
) -> None:
    """In a folder where the dynamic linker does not look."""
    own = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    own["PKG_CONFIG_PATH"] = str(installed / "lib" / "pkgconfig")
    words = run(require("pkg-config"), "--cflags", "--libs", "mblob", env=own).stdout.split()
    (tmp_path / "host.c").write_text(ADDS)
    run("cc", tmp_path / "host.c", "-o", tmp_path / "host", *words)
    assert run(tmp_path / "host", built / "lib" / "plain.so", env=own).stdout == "21\n"


def test_the_libraries_are_stripped_and_stand_beside_the_one_c_file(
    installed: Path, tmp_path: Path
) -> None:
    for path in (installed / "lib").glob("libmblob*"):
        shown = run("readelf", "-SW", path).stdout
        assert ".debug_info" not in shown, path
    made = runpy.run_path(str(ROOT / "csrc" / "amalgamation.py"))["whole"]()
    assert (installed / "share" / "mblob" / "mblob.c").read_text() == made


def test_an_installation_says_what_programs_and_pkg_config_need(
    objects: Path, tmp_path: Path
) -> None:
    words = [
        "make",
        "-C",
        ROOT / "csrc",
        "install",
        f"PREFIX={tmp_path / 'usr'}",
        f"BUILD={objects}",
    ]
    printed = run(*words).stdout
    assert f"  export LD_LIBRARY_PATH={tmp_path}/usr/lib\n" in printed
    if shutil.which("pkg-config"):
        assert f"  export PKG_CONFIG_PATH={tmp_path}/usr/lib/pkgconfig\n" in printed
    staged = run(*words, f"DESTDIR={tmp_path / 'stage'}").stdout
    assert "export" not in staged
    assert "rpath" not in (tmp_path / f"stage{tmp_path}/usr/lib/pkgconfig/mblob.pc").read_text()


def test_the_wheels_library_has_the_same_symbols(installed: Path) -> None:
    package = ROOT / "loader" / "_lib"
    for name in ("libmblob.so.0", "libmblob-ffi.so"):
        assert exported(package / name) == exported(installed / "lib" / name)


VERSIONS = r"""
#include <mblob.h>
#include <stdio.h>
#include <string.h>
#if !MBLOB_VERSION_AT_LEAST(0, 1, 0) || MBLOB_VERSION_AT_LEAST(0, 1, 1) || MBLOB_VERSION_AT_LEAST(1, 0, 0)
#error MBLOB_VERSION_AT_LEAST
#endif
int main(void) {
  char text[32];
  snprintf(text, sizeof(text), "%d.%d.%d", MBLOB_VERSION_MAJOR, MBLOB_VERSION_MINOR, MBLOB_VERSION_PATCH);
  return strcmp(text, MBLOB_VERSION) || strcmp(text, mblob_version()) || strcmp(mblob_runtime_names, "=all");
}
"""


def test_header_and_library_say_their_version(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "v.c").write_text(VERSIONS)
    lib = installed / "lib"
    run("cc", "-std=c11", "-Wall", "-Werror", f"-I{installed}/include", tmp_path / "v.c", "-o", tmp_path / "v",
        f"-L{lib}", "-lmblob", f"-Wl,-rpath,{lib}")  # fmt: skip
    run(tmp_path / "v")


def install(target: Path, build: Path, *words: str, goal: str = "install") -> None:
    """`make install`, of what `installed` has built."""
    run("make", "-s", "-C", ROOT / "csrc", goal, f"PREFIX={target}", f"BUILD={build}", *words)


@pytest.fixture
def objects(installed: Path, tmp_path: Path) -> Path:
    """A build folder of this test's own: pkg-config files are written into it."""
    other = installed.parent / "build"
    return Path(
        shutil.copytree(other if other.is_dir() else ROOT / "csrc" / "build", tmp_path / "objects")
    )


@pytest.mark.sample(1)
@pytest.mark.parametrize("libdir", ["lib", "lib/x86_64-linux-gnu", "../elsewhere"])
def test_an_installation_may_be_moved(
    objects: Path, built: Path, tmp_path: Path, require: Callable[[str], str], libdir: str
) -> None:
    """A LIBDIR outside of the prefix has its own path, and the tree stays where it is."""
    pkg_config = require("pkg-config")
    prefix, lib = tmp_path / "first", (tmp_path / "first" / libdir).absolute().resolve()
    install(prefix, objects, f"LIBDIR={lib}")
    if lib.is_relative_to(prefix):
        prefix = prefix.rename(tmp_path / "second")
        lib = prefix / libdir
    (tmp_path / "host.c").write_text(ADDS)
    environment = {**os.environ, "PKG_CONFIG_PATH": str(lib / "pkgconfig")}
    words = run(pkg_config, "--cflags", "--libs", "mblob", env=environment).stdout.split()
    run("cc", tmp_path / "host.c", "-o", tmp_path / "host", *words, f"-Wl,-rpath,{lib}")
    assert run(tmp_path / "host", built / "lib" / "plain.so").stdout == "21\n"


@pytest.mark.slow
@pytest.mark.parametrize("names", ["plain", "a b", "ümläut"])
def test_an_installation_in_folders_of_any_name_serves_programs_and_goes_without_a_trace(
    objects: Path, built: Path, tmp_path: Path, require: Callable[[str], str], names: str
) -> None:
    """With LIBDIR inside of PREFIX and outside of it."""
    pkg_config, csrc = require("pkg-config"), {p.name for p in (ROOT / "csrc").iterdir()}
    (tmp_path / "host.c").write_text(ADDS)
    prefix = tmp_path / names / "prefix"
    prefix.mkdir(parents=True)
    for lib in (prefix / "lib", tmp_path / names / "the libraries"):
        install(prefix, objects, f"LIBDIR={lib}", "COMPAT=1")
        environment = {**os.environ, "PKG_CONFIG_PATH": str(lib / "pkgconfig")}
        command = f"cc host.c -o host $({pkg_config} --cflags --libs mblob)"
        run("sh", "-c", f'eval "{command}"', cwd=tmp_path, env=environment)
        environment["LD_LIBRARY_PATH"] = str(lib)
        assert run(tmp_path / "host", built / "lib" / "plain.so", env=environment).stdout == "21\n"
        install(prefix, objects, f"LIBDIR={lib}", goal="uninstall")
        assert list((tmp_path / names).rglob("*")) == [prefix]
    assert {p.name for p in (ROOT / "csrc").iterdir()} == csrc


def test_a_staged_installation_goes_without_a_trace(objects: Path, tmp_path: Path) -> None:
    stage = tmp_path / "a stage"
    stage.mkdir()
    install(Path("/usr"), objects, f"DESTDIR={stage}")
    assert {p.name for p in (stage / "usr").iterdir()} == {"include", "lib", "share"}
    files = "".join(p.read_text() for p in (stage / "usr" / "lib" / "pkgconfig").iterdir())
    assert "stage" not in files and "prefix=${pcfiledir}/../.." in files
    install(Path("/usr"), objects, f"DESTDIR={stage}", goal="uninstall")
    assert list(stage.iterdir()) == []


def test_uninstall_leaves_what_others_have(objects: Path, tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    others = [
        prefix / "include/dlpack/dlpack.h",
        prefix / "lib/libtvm_runtime.so",
        prefix / "lib/libz.so",
    ]
    install(prefix, objects, "COMPAT=1")
    for path in others:
        path.unlink(missing_ok=True)
        path.write_text("/* of another */\n")
    install(prefix, objects, goal="uninstall")
    assert sorted(p for p in prefix.rglob("*") if not p.is_dir()) == sorted(others)
    assert not (prefix / "include" / "mblob").exists()


def test_a_build_elsewhere_writes_nothing_into_the_tree(tmp_path: Path) -> None:
    tree = tmp_path / "csrc"
    shutil.copytree(ROOT / "csrc", tree, ignore=shutil.ignore_patterns("build"))
    before = {p: p.stat().st_mtime_ns for p in [tree, *tree.rglob("*")]}
    compiler = tmp_path / "compiler"  # which only makes the file
    compiler.write_text(
        '#!/bin/sh\necho "$@" >>"$LOG"\nwhile [ "$1" != -o ]; do shift; done\n: >"$2"\n'
    )
    compiler.chmod(0o755)
    log = tmp_path / "log"
    run("make", "-s", "-C", tree, f"CC={compiler}", "AR=true", f"BUILD={tmp_path / 'out'}",
        "CPPFLAGS=-DOF_THE_USER", "all", env={**os.environ, "LOG": str(log)})  # fmt: skip
    assert {p: p.stat().st_mtime_ns for p in [tree, *tree.rglob("*")]} == before
    compiled = [line for line in log.read_text().splitlines() if " -c " in line]
    assert len(compiled) > 100 and all("-DOF_THE_USER" in line for line in compiled)


@pytest.mark.sample(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    "compiler",
    [
        "i686-linux-gnu-gcc",
        "arm-linux-gnueabihf-gcc",
        "clang",  # whose -Wconversion has -Wsign-conversion
        "clang --target=i686-linux-gnu",
        "clang --target=arm-linux-gnueabihf",
        "gcc -Wsign-conversion",
    ],
)
def test_all_sources_compile_without_a_warning_on_machines_of_64_and_32_bits(
    require: Callable[[str], str], compiler: str
) -> None:
    program, *words = compiler.split()
    if words and words[0].startswith("--target="):
        require(words[0].removeprefix("--target=") + "-gcc")  # its package has the headers
    csrc = ROOT / "csrc"
    sources = [p for name in ("src", "plugins") for p in sorted((csrc / name).rglob("*.c"))]
    assert len(sources) > 150
    folders = [csrc / n for n in ("include", "include/mblob/compat", "src", "plugins/common")]
    words += ["-std=gnu11", "-D_FILE_OFFSET_BITS=64", "-DMBLOB_HOST", "-fPIC", "-Wall", "-Wextra",
              "-Wconversion", "-Werror", "-fsyntax-only", *(f"-I{p}" for p in folders)]  # fmt: skip
    run(require(program), *words, *sources)
    in_ffi = [p for p in sources if p.parent.name in ("common", "ffi")]
    names = csrc / "plugins" / "common" / "static_names.h"
    run(require(program), *words, "-include", names, *in_ffi)


# -- headers ---------------------------------------------------------------------------------------


@pytest.mark.sample(12)
@pytest.mark.parametrize("header", ["mblob.h", "tvm/runtime/c_backend_api.h", "dlpack/dlpack.h"])
@pytest.mark.parametrize("mode", ["-fPIC", "-fPIE", "-DMBLOB_HOST"])
@pytest.mark.parametrize("standard", ["c99", "c11", "gnu17", "c++11", "c++17"])
def test_headers_compile_without_warnings(
    tmp_path: Path, require: Callable[[str], str], header: str, mode: str, standard: str
) -> None:
    compiler = require("c++" if standard.startswith("c++") else "cc")
    language = "c++" if standard.startswith("c++") else "c"
    source = tmp_path / "header.c"
    source.write_text(f"#include <{header}>\nint nothing;\n")
    run(
        compiler, "-x", language, f"-std={standard}", mode, "-Wall", "-Wextra", "-Wconversion", "-Werror",
        *include_flags(), "-c", source, "-o", tmp_path / "header.o",
    )  # fmt: skip


COMPAT = ROOT / "csrc" / "include" / "mblob" / "compat"
PUBLIC = sorted(
    str(p.relative_to(folder))
    for folder, pattern in (
        (ROOT / "csrc/include", "mblob*.h"),
        (ROOT / "csrc/include", "mblob/*.h"),
        (COMPAT, "**/*.h"),
    )
    for p in folder.glob(pattern)
    if p.name != "ffi_module.h"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "compiler",
    [
        "g++ -std=c++17",
        pytest.param("clang++ -std=c++17", marks=pytest.mark.nightly),
        "gcc -std=c11",
    ],
)
def test_every_public_header_compiles_alone_under_strict_warnings(
    require: Callable[[str], str], compiler: str
) -> None:
    """A part of another header says which one, and nothing more is asked of it."""
    program, standard = compiler.split()
    language = "c++" if "++" in program else "c"
    words = ["-x", language, standard, "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow",
             "-Werror", "-fsyntax-only", "-", f"-I{ROOT / 'csrc/include'}", f"-I{COMPAT}"]  # fmt: skip
    passed, parts = [], []
    for header in PUBLIC:
        path = COMPAT / header if (COMPAT / header).is_file() else ROOT / "csrc/include" / header
        text = path.read_text()
        if '#error "include ' in text:
            parts.append(header)
            continue
        if language == "c" and 'extern "C"' not in text:
            continue  # of C++
        run(require(program), *words, input=f"#include <{header}>\nint nothing;\n")
        passed.append(header)
    assert {"mblob.h", "mblob/plugin.h", "mblob/dlpack.h", "tvm/ffi/c_api.h"} <= set(passed)
    assert len(passed) > (30 if language == "c++" else 5) and len(parts) < 6


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_the_classes_for_programs_of_tvm_ffi_compile_under_strict_warnings(
    package_of: Callable[[str], Path], require: Callable[[str], str], compiler: str
) -> None:
    ffi = package_of("tvm_ffi")
    system = [f"-isystem{ffi / name}" for name in ("include", "3rdparty/dlpack/include")]
    run(require(compiler), "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror",
        f"-I{ROOT / 'csrc/include'}", *system, "-x", "c++", "-fsyntax-only", "-",
        input="#include <mblob/ffi_module.h>\n")  # fmt: skip


def test_mblob_needs_no_header_outside_of_its_own(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "h.c").write_text("#include <mblob.h>\n")
    made = run("cc", "-MM", f"-I{installed}/include", tmp_path / "h.c").stdout.replace("\\\n", "")
    headers = {Path(w).relative_to(installed / "include") for w in made.split()[2:]}
    assert {str(h) for h in headers} == {
        "mblob.h",
        *(f"mblob/{n}.h" for n in ("dlpack", "packed", "plugin")),
    }


def test_every_public_function_says_who_owns_what_and_its_errors_and_threads(
    installed: Path,
) -> None:
    """Functions that only read one handle, and return a number, own nothing."""
    text = (installed / "include" / "mblob.h").read_text()
    text += (installed / "include" / "mblob" / "plugin.h").read_text()
    pattern = (
        r"/\*(?P<comment>(?:[^*]|\*(?!/))*)\*/\n"
        r"(?P<result>MBLOB_API [^;{}#(]*?)(?P<name>mblob_\w+)\((?P<parameters>[^;]*)\);"
    )
    said = {}
    for found in re.finditer(pattern, text):
        wanted = {"Errors", "Threads"}
        parameters = found["parameters"]
        if "*" in found["result"] or "**" in parameters or parameters.count("*") > 1:
            wanted.add("Ownership")
        missing = {word for word in wanted if f"{word}:" not in found["comment"]}
        said[found["name"]] = sorted(missing)
    names = {n for n in exported(installed / "lib" / "libmblob.so") if n.startswith("mblob_")}
    assert said.keys() == names - {"mblob_runtime_names"} - OF_PYTHON
    assert {name: missing for name, missing in said.items() if missing} == {}


BOTH = """
int both(const DLManagedTensorVersioned *t, mblob_module *m);
int both(const DLManagedTensorVersioned *t, mblob_module *m) { return t && m; }
#if DLPACK_MAJOR_VERSION != 1 || !defined(DLPACK_DLPACK_H_)
#error
#endif
"""


@pytest.mark.parametrize("standard", ["c11", "c++17"])
@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    "other", ["dlpack/dlpack.h", "tvm/ffi/c_api.h", "tvm/ffi/extra/c_env_api.h"]
)
def test_the_headers_of_tvm_ffi_go_before_and_after(
    package_of: Callable[[str], Path],
    require: Callable[[str], str],
    standard: str,
    order: int,
    other: str,
) -> None:
    ffi = package_of("tvm_ffi")
    folders = [ffi / "include", ffi / "3rdparty/dlpack/include", ROOT / "csrc/include"]
    text = "".join(f"#include <{h}>\n" for h in ["mblob.h", other][::order]) + BOTH
    language = "c++" if standard.startswith("c++") else "c"
    run(require("cc" if language == "c" else "c++"), "-x", language, f"-std={standard}", "-Wall", "-Werror",
        *(f"-I{f}" for f in folders), "-fsyntax-only", "-", input=text)  # fmt: skip


@pytest.mark.parametrize("guard", ["DLPACK_DLPACK_H_", "TVM_RUNTIME_C_RUNTIME_API_H_"])
def test_types_that_another_header_has_defined_are_not_defined_again(guard: str) -> None:
    made = run(
        "cc",
        "-E",
        "-P",
        f"-I{ROOT}/csrc/include",
        "-x",
        "c",
        f"-D{guard}",
        "-",
        input="#include <mblob.h>\n",
    )
    name = "DLTensor" if guard.startswith("DL") else "TVMValue"
    assert f"}} {name};" not in made.stdout
    assert "mblob_open(" in made.stdout


DEPLOY = """
#include <dlpack/dlpack.h>
#include <stdio.h>
#include <tvm/runtime/c_runtime_api.h>
int main(int argc, char **argv) {
  TVMModuleHandle module;
  DLTensor none = {0};
  if (argc != 2 || none.ndim || TVMModLoadFromFile(argv[1], "so", &module)) return puts(TVMGetLastError()), 1;
  return TVMModFree(module);
}
"""


@pytest.mark.parametrize("way", ["pkg-config", "pkg-config and its link name", "COMPAT=1"])
def test_a_program_of_tvms_c_api_builds_unchanged(
    installed: Path,
    compat: Path,
    built: Path,
    tmp_path: Path,
    require: Callable[[str], str],
    way: str,
) -> None:
    (tmp_path / "deploy.c").write_text(DEPLOY)
    words, prefix = [f"-I{compat}/include", f"-L{compat}/lib", "-ltvm_runtime"], compat
    if way != "COMPAT=1":
        prefix = installed
        environment = {**os.environ, "PKG_CONFIG_PATH": str(installed / "lib" / "pkgconfig")}
        done = run(require("pkg-config"), "--cflags", "--libs", "mblob-tvm", env=environment)
        words = done.stdout.split()
        if way != "pkg-config":
            words = ["-ltvm_runtime" if w == "-lmblob" else w for w in words]
    run(
        "cc",
        "-std=c11",
        "-Wall",
        "-Werror",
        tmp_path / "deploy.c",
        "-o",
        tmp_path / "deploy",
        *words,
    )
    run(
        tmp_path / "deploy",
        built / "lib" / "plain.so",
        env={**os.environ, "LD_LIBRARY_PATH": f"{prefix}/lib"},
    )


def undefined_of_tvm(library: Path) -> list[str]:
    lines = run("nm", "-D", "--undefined-only", library).stdout.splitlines()
    return [line.split()[-1] for line in lines if " U " in line and "TVM" in line]


def test_a_kernel_that_uses_nothing_exports_no_slots(
    tmp_path: Path, cc: Callable[..., Path]
) -> None:
    source = "#include <tvm/runtime/c_runtime_api.h>\nint f(void) { return 0; }\n"
    library = cc(source, tmp_path / "f.so", *include_flags())
    names = run("nm", "-D", "--defined-only", library).stdout
    assert "__TVM" not in names
    assert "mblob" not in names


def test_a_kernel_leaves_no_slot_function_undefined(built: Path) -> None:
    library = built / "lib" / "plain.so"
    assert undefined_of_tvm(library) == []
    names = run("nm", "-D", "--defined-only", library).stdout
    for slot in ("FuncCall", "APISetLastError", "BackendGetFuncFromEnv", "BackendAllocWorkspace",
                 "BackendFreeWorkspace", "BackendParallelLaunch", "BackendParallelBarrier"):  # fmt: skip
        assert f"__TVM{slot}" in names


@pytest.mark.parametrize("kind", ["obj/core/library/library.o", "plugin/opencl/cl_memory.o"])
def test_a_changed_header_makes_its_objects_stale_however_the_folder_is_spelled(
    tmp_path: Path, kind: str
) -> None:
    csrc = ROOT / "csrc"

    def make(build: str, *words: str) -> str:
        return run("make", *words, f"BUILD={build}", f"{build}/{kind}", cwd=csrc).stdout

    make(os.path.relpath(tmp_path, csrc))
    for build in (os.path.relpath(tmp_path, csrc), str(tmp_path)):
        assert "-c " not in make(build, "-n")
        assert f"-c {'src' if kind[0] == 'o' else 'plugins'}/" in make(
            build, "-n", "-W", "include/mblob/plugin.h"
        )
