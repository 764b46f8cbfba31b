"""Everything that can go wrong in a build: one clear error, the old output as it was, nothing left
behind."""

from __future__ import annotations

import array
import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import mblob
from mblob.bytes import native_copy
from mblob.packager.errors import BuildError
from tests.packager.conftest import VADD, VADD_C

OLD = b"the old output"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """An output that exists already."""
    path = tmp_path / "x.so"
    path.write_bytes(OLD)
    return path


def fails(
    error: type[Exception], message: str, root: mblob.Module, old: Path, **kwargs: Any
) -> Any:
    """Export, expect an error of one line, and check that the old file is what it was."""
    with pytest.raises(error, match=message) as caught:
        root.export_library(old, **kwargs)
    assert "\n" not in str(caught.value)
    assert old.read_bytes() == OLD
    return caught.value


def test_a_kernel_that_does_not_compile(old: Path) -> None:
    error = fails(
        mblob.ToolchainError,
        "lib0.c .*does not compile: .*error:",
        mblob.csource_module("int f( {\n"),
        old,
    )
    assert "-c" in error.command
    assert "error: expected" in error.output


def test_one_of_several_kernels_that_does_not_compile_is_named(old: Path, tmp_path: Path) -> None:
    root = mblob.csource_module("int f;\n")
    (tmp_path / "broken.c").write_text("#error no good\n")
    root.import_module(mblob.csource_module(tmp_path / "broken.c"))
    fails(mblob.ToolchainError, r"broken\.c: does not compile: .*no good", root, old)


@pytest.mark.parametrize(
    "error", [ConnectionResetError(104, "Connection reset by peer"), OSError(28, "no room there")]
)
def test_an_iterable_that_raises(old: Path, error: OSError) -> None:
    """Its error is its own: nothing was wrong with the output."""

    def pieces() -> Iterator[bytes]:
        yield bytes(100_000)
        raise error

    root = mblob.csource_module(VADD_C)
    root.import_module(mblob.blob_module("raw", pieces()))
    assert fails(type(error), error.strerror, root, old) is error
    assert not [p.name for p in old.parent.iterdir() if p.name.startswith(".")]


def test_a_missing_compiler(old: Path, vadd: mblob.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    fails(mblob.ToolchainError, "cc=: no C compiler 'no-such-cc' found", vadd, old, cc="no-such-cc")
    monkeypatch.setenv("CC", "other-cc -m64")
    fails(mblob.ToolchainError, r"\$CC: no C compiler 'other-cc' found", vadd, old)
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", "/nowhere")
    fails(mblob.ToolchainError, "no C compiler found: tried .*cc, gcc, clang", vadd, old)


def test_a_compiler_that_is_no_compiler(old: Path, vadd: mblob.Module) -> None:
    fails(mblob.ToolchainError, "is no working C compiler", vadd, old, cc="false")


@pytest.fixture
def only_gcc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, require: Callable[[str], str]
) -> None:
    """A PATH with nothing but a C compiler for this machine."""
    (tmp_path / "bin").mkdir()
    for tool in ("gcc", "as", "ld"):
        (tmp_path / "bin" / tool).symlink_to(require(tool))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


@pytest.mark.usefixtures("only_gcc")
def test_a_missing_cxx_compiler(old: Path) -> None:
    root = mblob.csource_module("int f;\n", fmt="cc")
    fails(mblob.ToolchainError, r"no C\+\+ compiler found beside gcc: tried", root, old)
    fails(
        mblob.ToolchainError,
        "no CUDA compiler found: nvcc",
        mblob.csource_module("int f;\n", fmt="cu"),
        old,
    )


def test_a_link_that_fails(old: Path, vadd: mblob.Module) -> None:
    error = fails(
        mblob.ToolchainError, "the link failed: .*nosuchlib", vadd, old, options=["-lnosuchlib"]
    )
    assert "-lnosuchlib" in error.command


@pytest.fixture
def foreign(tmp_path: Path, require: Callable[[str], str]) -> Path:
    """An object for another machine."""
    require("aarch64-linux-gnu-gcc")
    (tmp_path / "f.c").write_text("int f(void) { return 1; }\n")
    subprocess.run(
        ["aarch64-linux-gnu-gcc", "-c", "f.c", "-o", "foreign.o"], cwd=tmp_path, check=True
    )
    return tmp_path / "foreign.o"


def test_an_object_for_another_machine(old: Path, foreign: Path, vadd: mblob.Module) -> None:
    message = r"foreign\.o is for aarch64 .*links for x86_64 .*pass cc="
    fails(mblob.IncompatibleError, message, mblob.static_library(foreign), old)
    fails(mblob.IncompatibleError, message, vadd, old, addons=[foreign])
    vadd.import_module(mblob.static_library(foreign))
    fails(mblob.IncompatibleError, message, vadd, old)
    in_bytes = mblob.static_library(foreign.read_bytes())
    fails(mblob.IncompatibleError, message.replace(r"foreign\.o", "bytes"), in_bytes, old)
    tar = foreign.with_suffix(".tar")
    subprocess.run(["tar", "-cf", tar, "-C", tar.parent, foreign.name], check=True)
    message = message.replace(r"foreign\.o", r"foreign\.tar\(foreign\.o\)")
    fails(mblob.IncompatibleError, message, mblob.static_library(tar), old)
    model = tar.with_name("model.so")
    mblob.csource_module("int g(void) { return 1; }").export_library(model)
    with pytest.raises(mblob.IncompatibleError, match=message):
        mblob.add(model, objects=[tar])


def test_an_archive_of_two_machines(old: Path, foreign: Path, tmp_path: Path) -> None:
    (tmp_path / "g.c").write_text("int g(void) { return 1; }\n")
    subprocess.run(["gcc", "-c", "g.c", "-o", "g.o"], cwd=tmp_path, check=True)
    subprocess.run(["ar", "rc", "mixed.a", "foreign.o", "g.o"], cwd=tmp_path, check=True)
    root = mblob.static_library(tmp_path / "mixed.a")
    fails(mblob.IncompatibleError, r"mixed\.a\(g\.o\) is for x86_64", root, old)


@pytest.mark.usefixtures("only_gcc")
def test_a_target_that_the_compiler_has_not(old: Path, vadd: mblob.Module) -> None:
    target = "sparc-linux-gnu"
    fails(
        mblob.IncompatibleError,
        "gcc compiles for .*asks for sparc",
        vadd,
        old,
        cc="gcc",
        target=target,
    )
    fails(mblob.ToolchainError, "no C compiler found for sparc-linux-gnu", vadd, old, target=target)


def test_a_function_defined_twice(old: Path, tmp_path: Path, vadd: mblob.Module) -> None:
    (tmp_path / "two.c").write_text(VADD_C)
    vadd.import_module(mblob.csource_module(tmp_path / "two.c"))
    fails(
        mblob.ToolchainError,
        r"vadd is defined twice: in .*lib\d\.c.*two\.c|two\.c.*lib\d\.c",
        vadd,
        old,
    )


def test_a_function_defined_in_a_source_and_in_an_archive(
    old: Path, tmp_path: Path, vadd: mblob.Module
) -> None:
    (tmp_path / "two.c").write_text(VADD_C)
    subprocess.run(["gcc", "-fPIC", "-c", "two.c"], cwd=tmp_path, check=True)
    subprocess.run(["ar", "rc", "two.a", "two.o"], cwd=tmp_path, check=True)
    vadd.import_module(mblob.static_library(tmp_path / "two.a"))
    fails(mblob.ToolchainError, "vadd is defined twice", vadd, old)


def test_weak_and_inline_definitions_may_repeat(
    tmp_path: Path, require: Callable[[str], str]
) -> None:
    require("g++")
    text = "inline int twice(int x) { return 2 * x; }\n__attribute__((weak)) int w;\n"
    root = mblob.csource_module(text + 'extern "C" int f(int x) { return twice(x); }\n', fmt="cc")
    root.import_module(
        mblob.csource_module(text + 'extern "C" int g(int x) { return twice(x); }\n', fmt="cc")
    )
    root.export_library(tmp_path / "x.so", options="-O0")


def test_a_kernel_that_defines_the_blob_itself(old: Path, tree: mblob.Module) -> None:
    tree.import_module(mblob.csource_module("const char __tvm_dev_mblob[8] = {0};\n"))
    fails(BuildError, "defines __tvm_dev_mblob, the packed modules of another library", tree, old)


def test_append_is_refused_when_an_object_refers_to_the_blob(old: Path, tree: mblob.Module) -> None:
    tree.import_module(
        mblob.csource_module(
            "extern char __tvm_dev_mblob[];\nchar *f(void) { return __tvm_dev_mblob; }\n"
        )
    )
    fails(
        BuildError, "embed='append': an object refers to __tvm_dev_mblob", tree, old, embed="append"
    )


def test_a_script_that_hides_the_blob(old: Path, tmp_path: Path, tree: mblob.Module) -> None:
    (tmp_path / "v.map").write_text("{ global: vadd*; local: *; };\n")
    options = [f"-Wl,--version-script={tmp_path / 'v.map'}"]
    fails(
        mblob.ToolchainError, "the link did not export __tvm_dev_mblob", tree, old, options=options
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not an object", "expected an ELF object file or an archive"),
        (b"", "an empty file"),
        (b"!<thin>\n", "a thin archive holds no objects"),
        (b"BC\xc0\xde....", "LLVM bitcode"),
    ],
)
def test_a_file_that_is_no_object(old: Path, tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "f.o").write_bytes(content)
    fails(BuildError, message, mblob.static_library(tmp_path / "f.o"), old)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"!<arch>\nxx" + b"x" * 70, "no header of an archive member"),
        (b"\x7fELF", "needs 16 bytes"),
    ],
)
def test_a_damaged_object(old: Path, tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "f.o").write_bytes(content)
    fails(mblob.FormatError, message, mblob.static_library(tmp_path / "f.o"), old)


def test_an_object_cut_anywhere_is_an_error_and_never_a_crash(tmp_path: Path) -> None:
    from mblob.packager.objects import object_files

    (tmp_path / "g.c").write_text("int g(void) { return 1; }\n")
    subprocess.run(["gcc", "-c", "g.c", "-o", "g.o"], cwd=tmp_path, check=True)
    subprocess.run(["ar", "rc", "g.a", "g.o"], cwd=tmp_path, check=True)
    for name in ("g.o", "g.a"):
        whole = (tmp_path / name).read_bytes()
        for size in range(0, len(whole) - 8, 7):
            (tmp_path / "cut").write_bytes(whole[:size])
            try:
                object_files.read(tmp_path / "cut", "cut")
            except (mblob.FormatError, BuildError):
                continue
            assert name == "g.a", "an archive may end behind a member"


def test_a_shared_library_is_not_packed(old: Path, tmp_path: Path, vadd: mblob.Module) -> None:
    vadd.export_library(tmp_path / "in.so")
    with pytest.raises(
        BuildError, match=r"in\.so: a finished library, which cannot be linked again"
    ):
        mblob.static_library(tmp_path / "in.so")


def test_an_opened_library_is_neither_linked_nor_serialized(old: Path, vadd: mblob.Module) -> None:
    factory = mblob.graph_executor_factory('{"nodes": []}', {})
    factory.import_module(vadd)
    vadd.import_module(mblob.Module("library"))
    fails(
        BuildError,
        r"root\.imported_modules\[0\]\.imported_modules\[0\] is a 'library'",
        factory,
        old,
    )


def test_missing_files_are_found_before_anything_is_built() -> None:
    for make in (mblob.csource_module, mblob.static_library, mblob.safetensors_module):
        with pytest.raises(FileNotFoundError, match=r"nope\.c"):
            make("nope.c")
    with pytest.raises(FileNotFoundError, match="nope"):
        mblob.csource_module(Path("nope"))


@pytest.mark.parametrize("kind", ["payload", "object", "source", "addon"])
def test_a_file_that_goes_away_before_the_export(old: Path, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "goes.c"
    path.write_text("int f;\n")
    root = mblob.csource_module("int g;\n")
    kwargs = {}
    if kind == "payload":
        root.import_module(mblob.blob_module("k", path))
    elif kind == "object":
        root.import_module(mblob.static_library(path))
    elif kind == "source":
        root.import_module(mblob.csource_module(path))
    else:
        kwargs["addons"] = [path]
    path.unlink()
    fails((OSError, mblob.ToolchainError), r"goes\.c", root, old, **kwargs)  # type: ignore[arg-type]


def test_a_payload_that_changes_while_it_is_read(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "payload"
    path.write_bytes(bytes(1 << 20))
    root = mblob.csource_module("int g;\n")
    root.import_module(mblob.blob_module("k", path))
    monkeypatch.setattr(native_copy, "copy", None)  # the compiled loop cannot be watched
    write = os.write

    def meanwhile(fd: int, data: Any) -> int:
        with path.open("ab") as file:
            file.write(b"more")
        return write(fd, data)

    monkeypatch.setattr("mblob.packager.path_arguments.os.write", meanwhile)
    fails(mblob.MblobError, "payload: changed while it was read", root, old)


def test_a_payload_iterable_that_fails(old: Path) -> None:
    def pieces() -> Any:
        yield b"x" * 100000
        raise RuntimeError("the download broke")

    root = mblob.csource_module("int g;\n")
    root.import_module(mblob.blob_module("k", pieces()))
    fails(RuntimeError, "the download broke", root, old)


def test_a_file_system_that_takes_no_more_is_reported_for_the_output(old: Path) -> None:
    root = mblob.csource_module("int g;\n")
    root.import_module(mblob.blob_module("k", bytes(4 << 20)))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        fails(OSError, r"cannot be written: File too large.*x\.so", root, old)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_an_output_that_cannot_be_written(tmp_path: Path, vadd: mblob.Module) -> None:
    with pytest.raises(
        OSError,
        match=r"the output's folder '.*nowhere' does not exist; create it first.*nowhere/x\.so",
    ):
        vadd.export_library(tmp_path / "nowhere" / "x.so")
    with pytest.raises(IsADirectoryError, match="not a regular file"):
        vadd.export_library(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"cannot be written: Not a directory"):
        vadd.export_library(tmp_path / "file" / "x.so")


def test_an_output_folder_where_nothing_can_be_made(vadd: mblob.Module) -> None:
    with pytest.raises(OSError, match=r"the output cannot be written.*/proc/x\.so"):
        vadd.export_library("/proc/x.so")


def test_a_mapped_output_stays_valid(tmp_path: Path) -> None:
    import ctypes

    mblob.csource_module("int f(void) { return 1; }\n").export_library(tmp_path / "x.so")
    first = ctypes.CDLL(str(tmp_path / "x.so"))
    mblob.csource_module("int f(void) { return 2; }\n").export_library(tmp_path / "x.so")
    assert first.f() == 1


def test_a_link_is_written_through(tmp_path: Path, vadd: mblob.Module) -> None:
    (tmp_path / "link.so").symlink_to("real.so")
    vadd.export_library(tmp_path / "link.so")
    assert (tmp_path / "link.so").is_symlink()
    assert (tmp_path / "real.so").is_file()


def test_an_fcompile_that_fails(old: Path, tree: mblob.Module) -> None:
    def compiler(file_name: str, files: list[str], **kwargs: Any) -> None:
        Path(file_name).write_bytes(b"half")
        raise RuntimeError("Compilation error: no")

    fails(RuntimeError, "Compilation error", tree, old, fcompile=compiler)


def test_an_fpack_imports_that_returns_nothing(old: Path, tree: mblob.Module) -> None:
    fails(BuildError, "fpack_imports returned None", tree, old, fpack_imports=lambda *_: None)


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        ({"embed": "magic"}, BuildError, "embed: expected one of auto, grow"),
        ({"digest": "md5"}, BuildError, "digest: expected one of none, crc32, sha256"),
        ({"dialect": "coff"}, BuildError, "dialect: expected one of classic"),
        (
            {"dialect": "modern"},
            mblob.MblobError,
            "dialect: expected one of classic, ffi, found 'modern'",
        ),
        ({"colour": 1}, TypeError, "unknown argument 'colour'"),
        ({"embed": "grow", "fcompile": print}, BuildError, "embed='grow' needs our own link"),
    ],
)
def test_wrong_arguments(
    old: Path, tree: mblob.Module, kwargs: Any, error: Any, message: str
) -> None:
    fails(error, message, tree, old, **kwargs)


@pytest.mark.parametrize("embed", ["grow", "append"])
def test_objects_have_no_link_to_write_the_blob_into(
    tmp_path: Path, tree: mblob.Module, embed: Any
) -> None:
    message = f"embed='{embed}' needs a linked library; for a .tar of objects use 'object' or 'c'"
    (tmp_path / "x.tar").write_bytes(OLD)
    fails(BuildError, message, tree, tmp_path / "x.tar", embed=embed)


def test_what_is_no_module(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="expected a Module, found str"):
        mblob.export_library("x", tmp_path / "x.so")


@pytest.mark.sample(1)
@pytest.mark.parametrize("where", ["compile", "link", "payload"])
def test_an_interrupt_ends_compilers_and_leaves_nothing(
    tmp_path: Path, root: Path, processes_with: Callable[[str], list[str]], where: str
) -> None:
    """Ctrl-C as a terminal sends it to the process; its compilers are in groups of their own."""
    mark = "-dumpmachine|empty" if where == "payload" else "-shared" if where == "link" else "-c"
    (tmp_path / "slow-cc").write_text(
        "#!/bin/sh\n"
        f'case "$*" in *-dumpmachine*) exec gcc "$@";; *{mark}*) echo started > {tmp_path}/started; sleep 300;; esac\n'
        'exec gcc "$@"\n'
    )
    (tmp_path / "slow-cc").chmod(0o755)
    script = textwrap.dedent(
        f"""
        import time, mblob
        def pieces():
            open({str(tmp_path / "started")!r}, "w").close()
            yield b"x" * 1000000
            time.sleep(300)
        root = mblob.csource_module("int f;")
        root.import_module(mblob.csource_module("int g;"))
        root.import_module(mblob.blob_module("k", pieces() if {where == "payload"} else b"x"))
        root.export_library({str(tmp_path / "x.so")!r}, cc={str(tmp_path / "slow-cc")!r})
        """
    )
    (tmp_path / "x.so").write_bytes(OLD)
    environment = {**os.environ, "PYTHONPATH": str(root)}
    process = subprocess.Popen(
        [sys.executable, "-c", script], env=environment, stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 30
    while not (tmp_path / "started").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert b"KeyboardInterrupt" in errors
    assert (tmp_path / "x.so").read_bytes() == OLD
    assert sorted(p.name for p in tmp_path.iterdir()) == ["TMPDIR", "slow-cc", "started", "x.so"]
    assert processes_with(str(tmp_path / "slow-cc")) == []


def test_prototypes_of_two_modules_must_agree(old: Path, vadd: mblob.Module) -> None:
    vadd.import_module(
        mblob.csource_module("int other;", functions=[VADD.replace("float *c", "double *c")])
    )
    fails(BuildError, "vadd is declared by two modules, and differently", vadd, old)


# -- arguments of a wrong type ---------------------------------------------------------------------

OF_WRONG_TYPE: dict[str, Callable[[Path], Any]] = {
    "GraphBuilder.param": lambda t: mblob.GraphBuilder().param("p", [1]),
    "GraphBuilder.param, name": lambda t: mblob.GraphBuilder().param(3, b""),  # type: ignore[arg-type]
    "GraphBuilder.input, shape": lambda t: mblob.GraphBuilder().input("x", ("a",)),  # type: ignore[arg-type]
    "GraphBuilder.call, inputs": lambda t: mblob.GraphBuilder().call("f", [3], (1,)),  # type: ignore[list-item]
    "graph_executor_factory": lambda t: mblob.graph_executor_factory(3),  # type: ignore[arg-type]
    "blob_module, pieces": lambda t: mblob.blob_module("k", ["a"]),
    "swap, library": lambda t: mblob.swap(3, {}),  # type: ignore[arg-type]
    "swap, changes": lambda t: mblob.swap(t, 3, "o.so"),  # type: ignore[arg-type]
    "swap, payload": lambda t: mblob.swap(t, {"safetensors": 3}, "o.so"),
    "swap, array": lambda t: mblob.swap(t, None, "o.so", weights={"w": [1]}),
    "strip_index": lambda t: mblob.strip_index(3, "o.so"),  # type: ignore[arg-type]
    "convert": lambda t: mblob.convert(3, "o.so", dialect="ffi"),  # type: ignore[arg-type]
    "extract": lambda t: mblob.extract(t, 3),  # type: ignore[arg-type]
    "export_library": lambda t: mblob.csource_module("").export_library(3),  # type: ignore[call-overload]
    **{
        f"export_library, {name}": lambda t, name=name: mblob.csource_module("").export_library("o.so", **{name: 3})
        for name in ("addons", "carry", "cc", "fcompile", "options", "prefix", "target", "workspace_dir")
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("packed") / "t.so"
    root = mblob.csource_module("")
    root.import_module(mblob.safetensors_module({"w": array.array("f", [1])}))
    root.export_library(path)
    return path


@pytest.mark.parametrize("argument", OF_WRONG_TYPE)
def test_an_argument_of_a_wrong_type_is_an_error_of_packing(packed: Path, argument: str) -> None:
    with pytest.raises(mblob.BuildError) as caught:
        OF_WRONG_TYPE[argument](packed)
    assert isinstance(caught.value, TypeError)
