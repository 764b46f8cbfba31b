"""The sources that `load_module` opens: paths, bytes, descriptors, objects, tars; what it says
about anything else."""

from __future__ import annotations

import gzip
import io
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mblob
from mblob.source_suffixes import FORMAT_OF, LANGUAGE_OF, OF_C


def answer(lib: mblob.Module) -> object:
    return lib["give_int"]()


def test_a_path_is_opened_as_str_and_as_pathlike(kernels: Path) -> None:
    assert answer(mblob.load_module(kernels)) == -7
    assert answer(mblob.load_module(str(kernels))) == -7


def test_a_relative_path_is_relative_to_the_working_directory(
    kernels: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(kernels.parent)
    assert answer(mblob.load_module(kernels.name)) == -7
    assert answer(mblob.load_module(f"../{kernels.parent.name}/{kernels.name}")) == -7


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_are_opened(kernels: Path, kind: Callable[[bytes], Any]) -> None:
    lib = mblob.load_module(kind(kernels.read_bytes()))
    assert answer(lib) == -7
    with pytest.raises(AttributeError, match=r"it has: .*give_int"):
        lib["nothing"]


def test_open_files_and_descriptors_are_opened(kernels: Path) -> None:
    with kernels.open("rb") as file:
        by_file = mblob.load_module(file)
        by_number = mblob.load_module(file.fileno())
    assert answer(by_file) == answer(by_number) == -7
    assert answer(mblob.load_module(io.BytesIO(kernels.read_bytes()))) == -7


def test_the_content_tells_what_a_file_is(kernels: Path, tmp_path: Path) -> None:
    odd = tmp_path / "model.params"
    odd.write_bytes(kernels.read_bytes())
    assert answer(mblob.load_module(odd)) == -7
    assert answer(mblob.load_module(odd, "tar")) == -7


def test_an_object_file_is_linked_and_opened(object_file: Path, tmp_path: Path) -> None:
    assert answer(mblob.load_module(object_file)) == -7
    assert answer(mblob.load_module(object_file.read_bytes())) == -7
    archive = tmp_path / "lib.a"
    subprocess.run(["ar", "rc", str(archive), str(object_file)], check=True)
    assert answer(mblob.load_module(archive)) == -7


def make_tar(path: Path, members: dict[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_a_tar_of_objects_and_sources_is_linked_and_opened(
    object_file: Path, tmp_path: Path, mode: str
) -> None:
    extra = b"int extra(void *a, void *b, int n) { return 0; }"
    members = {"lib0.o": object_file.read_bytes(), "dir/devc.c": extra, "notes.txt": b"no object"}
    lib = mblob.load_module(make_tar(tmp_path / "m.tar", members, mode))
    assert answer(lib) == -7
    assert lib.implements_function("extra")


CXX = b'extern "C" int extra(void *, void *, int) { return [] { return 0; }(); }'


@pytest.mark.parametrize("suffix", [s for s, fmt in FORMAT_OF.items() if LANGUAGE_OF[fmt] in OF_C])
def test_a_tar_may_have_a_source_of_any_suffix(
    object_file: Path, tmp_path: Path, suffix: str
) -> None:
    extra = b"int extra(void *a, void *b, int n) { return 0; }" if suffix == ".c" else CXX
    members = {"lib0.o": object_file.read_bytes(), f"more{suffix}": extra}
    assert mblob.load_module(make_tar(tmp_path / "m.tar", members)).implements_function("extra")


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"../../evil.o": b"x"}, "tar_path"),
        ({"/tmp/evil.o": b"x"}, "tar_path"),
        ({"notes.txt": b"x"}, "tar_empty"),
    ],
)
def test_a_tar_with_tricks_or_without_objects_is_refused(
    tmp_path: Path, members: dict[str, bytes], code: str
) -> None:
    path = make_tar(tmp_path / "m.tar", members)
    with pytest.raises(mblob.FormatError) as caught:
        mblob.load_module(path)
    assert caught.value.code == code
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.tar"]


def test_a_tar_with_links_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.tar"
    with tarfile.open(path, "w") as tar:
        info = tarfile.TarInfo("lib.o")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(info)
    with pytest.raises(mblob.FormatError, match="is a link"):
        mblob.load_module(path)


def test_a_damaged_tar_is_an_error_of_the_format(object_file: Path, tmp_path: Path) -> None:
    path = make_tar(tmp_path / "m.tar", {"a.o": object_file.read_bytes()}, "w:gz")
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(mblob.FormatError) as caught:
        mblob.load_module(path)
    assert caught.value.code == "archive"


def test_what_a_tar_says_of_itself_is_no_reason_to_use_memory_or_disk(tmp_path: Path) -> None:
    """A name of 8 GiB, zeros that gzip packs to nothing, gzip in gzip: one line each."""
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, (8 << 30) - 1
    zeros = tarfile.TarInfo("a.o")
    zeros.size = 20 << 20
    files = {
        "name": info.tobuf(tarfile.GNU_FORMAT) + bytes(1024),
        "zeros": gzip.compress(zeros.tobuf() + bytes(20 << 20)),
        "twice": gzip.compress(gzip.compress(b"x")),
    }
    for name, content in files.items():
        path = tmp_path / f"{name}.tar"
        path.write_bytes(content)
        with pytest.raises(mblob.FormatError) as caught:
            mblob.load_module(path)
        assert caught.value.code == "archive", name
        assert "\n" not in str(caught.value)


def test_objects_that_do_not_link_show_what_the_linker_said(
    object_file: Path, tmp_path: Path
) -> None:
    data = object_file.read_bytes()
    path = make_tar(tmp_path / "m.tar", {"a.o": data, "b.o": data})
    with pytest.raises(
        mblob.ToolchainError, match=r"m\.tar: .* could not link it: .*multiple definition"
    ) as caught:
        mblob.load_module(path)
    assert "\n" not in str(caught.value)
    assert "multiple definition" in caught.value.output
    assert caught.value.command


def foreign(data: bytes) -> bytes:
    """An object file for aarch64 (its e_machine)."""
    return data[:18] + (183).to_bytes(2, "little") + data[20:]


def archive_of(data: bytes, folder: Path) -> bytes:
    (folder / "member.o").write_bytes(data)
    subprocess.run(["ar", "rc", "made.a", "member.o"], cwd=folder, check=True)
    return (folder / "made.a").read_bytes()


@pytest.mark.parametrize("kind", ["object", "archive", "tar"])
def test_objects_for_another_machine_are_refused_before_the_link(
    object_file: Path, tmp_path: Path, kind: str
) -> None:
    data = foreign(object_file.read_bytes())
    path = tmp_path / "m"
    if kind == "tar":
        make_tar(path, {"a.o": data})
    else:
        path.write_bytes(data if kind == "object" else archive_of(data, tmp_path))
    with pytest.raises(mblob.IncompatibleError, match=r"aarch64 .*this machine is \w+") as caught:
        mblob.load_module(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("kind", ["object", "archive", "tar", "text in a tar"])
def test_damaged_objects_are_errors_of_the_format(
    object_file: Path, tmp_path: Path, kind: str
) -> None:
    data = object_file.read_bytes()
    path = tmp_path / "m"
    if kind == "object":
        path.write_bytes(data[:-100])
    elif kind == "archive":
        path.write_bytes(archive_of(data, tmp_path)[:-100])
    else:
        make_tar(path, {"a.o": data[:2000] if kind == "tar" else b"no object at all"})
    with pytest.raises(mblob.FormatError) as caught:
        mblob.load_module(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_interrupt_ends_the_compiler_and_what_it_started(
    object_file: Path, tmp_path: Path
) -> None:
    compiler, child = tmp_path / "slow-cc", tmp_path / "child"
    compiler.write_text(
        f"#!/bin/sh\nsleep 60 &\necho $! > '{child}.new'\nmv '{child}.new' '{child}'\nwait\n"
    )
    compiler.chmod(0o755)
    code = "import mblob, sys; mblob.load_module(sys.argv[1])"
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(object_file)],
        env={**os.environ, "CXX": str(compiler)},
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while not child.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    process.wait(timeout=30)
    status = Path(f"/proc/{child.read_text().strip()}/stat")
    while (
        status.exists()
        and status.read_text().rpartition(")")[2].split()[0] != "Z"
        and time.monotonic() < deadline
    ):
        time.sleep(0.02)
    assert not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z"


def test_linking_without_a_compiler_says_so(object_file: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(mblob.ToolchainError, match="no compiler"):
        mblob.load_module(object_file)


def test_linking_leaves_no_files_behind(
    object_file: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    lib = mblob.load_module(object_file)
    assert list(folder.iterdir()) == []
    assert answer(lib) == -7


# -- what is no library ----------------------------------------------------------------------------


def test_a_missing_file_is_a_file_not_found_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.so"):
        mblob.load_module(tmp_path / "none.so")


def test_an_empty_path_is_no_file() -> None:
    with pytest.raises(FileNotFoundError):
        mblob.load_module("")


def test_a_path_given_as_bytes_is_told_that_bytes_are_contents(
    kernels: Path, tmp_path: Path
) -> None:
    with pytest.raises(
        mblob.FormatError, match=r"content of a library.*pass it as a str"
    ) as caught:
        mblob.load_module(os.fsencode(kernels))
    assert caught.value.code == "not_elf"
    with pytest.raises(mblob.FormatError) as caught:
        mblob.load_module(b"no such file")
    assert "pass it as a str" not in str(caught.value)


def test_a_directory_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        mblob.load_module(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\x7f", b"#!/bin/sh\n", b"PK\x03\x04" + bytes(100)])
def test_a_file_that_is_no_elf_file_is_not_elf(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.so"
    path.write_bytes(content)
    for source in (path, content):
        with pytest.raises(mblob.FormatError) as caught:
            mblob.load_module(source)
        assert caught.value.code == "not_elf"
        assert caught.value.exit_code == 3


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(mblob.FormatError, match="not a regular file"):
        mblob.load_module(tmp_path / "pipe")


@pytest.mark.parametrize(
    ("source", "options", "error"),
    [
        (None, {}, TypeError),
        (3.5, {}, TypeError),
        (True, {}, TypeError),
        (99999, {}, OSError),
        (b"x", {"verify": "all"}, ValueError),
        (b"x", {"missing": "ignore"}, ValueError),
        (b"x", {"loaders": {"k": 3}}, TypeError),
        (b"x", {"fmt": 3}, TypeError),
    ],
    ids=str,
)
def test_a_wrong_argument_names_itself(source: Any, options: Any, error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        mblob.load_module(source, **options)
    assert "\n" not in str(caught.value)


def test_a_library_for_another_machine_names_both(kernels: Path) -> None:
    data = bytearray(kernels.read_bytes())
    data[18] = 183  # EM_AARCH64
    with pytest.raises(mblob.IncompatibleError, match="aarch64"):
        mblob.load_module(data)


def test_a_library_cut_at_any_length_is_an_error_and_never_a_crash(
    tree_library: Callable[..., Path], tmp_path: Path
) -> None:
    path = tree_library(
        tmp_path / "t.so", [("library", None), ("plain_data", b"x" * 100)], [[1], []]
    )
    whole = path.read_bytes()
    last = len(whole)
    steps = [*range(0, 200), *range(200, last, 97)]
    for size in steps:
        try:
            mblob.load_module(whole[:size])
        except (mblob.FormatError, mblob.DigestError, mblob.IncompatibleError):
            continue
        # Only what nothing loads may be missing: symbols for debuggers, section headers.
        with mblob.open(path) as library:
            assert size >= max(
                s.p_offset + s.p_filesz for s in library.elf.segments if s.p_type in (1, 2)
            )


# -- the same file, another file -------------------------------------------------------------------


def variant(build: Callable[..., Path], path: Path, number: int) -> Path:
    text = f"""
    #include <tvm/runtime/c_runtime_api.h>
    void *__tvm_module_ctx;
    int which(TVMValue *a, int *c, int n, TVMValue *ret, int *code, void *s) {{
      (void)a, (void)c, (void)n, (void)s; ret->v_int64 = {number}; *code = 0; return 0;
    }}"""
    return build(path, text)


def test_a_descriptor_number_that_is_used_again_gives_the_new_library(
    build: Callable[..., Path], tmp_path: Path
) -> None:
    a, b = variant(build, tmp_path / "a.so", 1), variant(build, tmp_path / "b.so", 2)
    numbers = []
    for path, expected in ((a, 1), (b, 2), (a, 1)):
        with path.open("rb") as file:
            numbers.append(file.fileno())
            lib = mblob.load_module(file)
        assert lib["which"]() == expected
        del lib
    assert len(set(numbers)) == 1


def test_a_file_replaced_at_its_path_is_a_new_library_and_the_old_one_stays(
    build: Callable[..., Path], tmp_path: Path
) -> None:
    path = variant(build, tmp_path / "m.so", 1)
    old = mblob.load_module(path)
    variant(build, tmp_path / "new.so", 2).replace(path)
    new = mblob.load_module(path)
    assert (old["which"](), new["which"]()) == (1, 2)


def test_a_library_has_its_functions_whatever_became_of_its_file(tmp_path: Path) -> None:
    path, another = tmp_path / "m.so", tmp_path / "another"
    source = "int f(int a) { return a; }"
    mblob.csource_module(source, functions=["int f(int a)"]).export_library(path)
    data = path.read_bytes()
    for change in (lambda: another.replace(path), path.unlink):
        for opened_by_path in (True, False):
            path.write_bytes(data)
            another.write_bytes(b"another")
            with path.open("rb") as file:
                lib = mblob.load_module(path if opened_by_path else file)
            change()
            assert {name: str(f) for name, f in lib.functions.items()} == {"f": "int f(int a)"}
            with pytest.raises(AttributeError, match=r"it has: f; did you mean 'f'"):
                lib["F"]
            path.unlink(missing_ok=True)


def test_the_same_file_twice_is_two_trees_of_one_library(kernels: Path) -> None:
    a, b = mblob.load_module(kernels), mblob.load_module(kernels)
    assert a is not b
    assert answer(a) == answer(b) == -7
    del a
    assert answer(b) == -7


def test_functions_of_two_libraries_with_the_same_names_are_kept_apart(
    build: Callable[..., Path], tmp_path: Path
) -> None:
    libs = [mblob.load_module(variant(build, tmp_path / f"l{i}.so", i)) for i in range(5)]
    assert [lib["which"]() for lib in libs] == list(range(5))
