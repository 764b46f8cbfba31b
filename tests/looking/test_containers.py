"""Archives, tars and objects: what a library is before it is linked, with prefixes, and what is
refused by name."""

from __future__ import annotations

import gzip
import io
import subprocess
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import mblob
from mblob.errors import FormatError
from tests.looking.conftest import BLOB, CUDA, KERNEL, blob_source

C = "x86_64-linux-gnu"


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory, clang: Any) -> list[Path]:
    """lib0.o with a kernel and devc.o with a blob. Do not change them."""
    folder = tmp_path_factory.mktemp("objects")
    devc = blob_source(BLOB, attributes="")
    return [clang(KERNEL, folder / "lib0.o", C), clang(devc, folder / "devc.o", C)]


def ar(path: Path, files: Iterable[Path], flags: str = "rcD") -> Path:
    subprocess.run(["ar", flags, path, *files], check=True, capture_output=True)
    return path


def tar(path: Path, files: Iterable[Path], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as out:  # type: ignore[call-overload]
        for file in files:
            out.add(file, file.name)
    return path


def check(path: Path, kind: str, names: list[str], data: bytes | None = None) -> None:
    with mblob.open(path, verify="full") as lib:
        assert lib.kind == kind
        assert [m.name for m in lib.members] == names
        raw = path.read_bytes() if data is None else data
        for m in lib.members:
            assert raw[m.offset :][:4] == b"\x7fELF"
        assert raw[lib.blob_offset :][: len(BLOB)] == BLOB
        assert bytes(lib.entries[1].view()) == CUDA
        assert lib.functions == ["vadd"]
        assert lib.undefined == ["TVMBackendAllocWorkspace", "expf"]


def test_an_archive_is_one_library(objects: list[Path], tmp_path: Path, validate: Any) -> None:
    path = ar(tmp_path / "m.a", objects)
    check(path, "archive", ["lib0.o", "devc.o"])
    with mblob.open(path) as lib:
        validate(lib.to_json())


def test_bsd_archives_have_names_of_any_length(objects: list[Path], tmp_path: Path) -> None:
    out = b"!<arch>\n"
    for name, data in [
        ("__.SYMDEF SORTED", bytes(8)),
        *((o.name * 9, o.read_bytes()) for o in objects),
    ]:
        body = name.encode().ljust(len(name) + 3, b"\0") + data
        out += f"#1/{len(name) + 3}".ljust(16).encode() + b"0".ljust(12) + b"0     0     644     "
        out += str(len(body)).ljust(10).encode() + b"`\n" + body + b"\n" * (len(body) % 2)
    path = tmp_path / "m.a"
    path.write_bytes(out)
    check(path, "archive", ["lib0.o" * 9, "devc.o" * 9])
    path.write_bytes(out.replace(b"#1/19 ", b"#1/99999"[:6]))
    with pytest.raises(FormatError, match="name of 999 bytes, it has 27"):
        mblob.open(path)


@pytest.mark.parametrize("mode", ["w", "w:gz"])
@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_a_tar_is_one_library(
    objects: list[Path], tmp_path: Path, mode: Any, form: int, validate: Any
) -> None:
    path = tmp_path / "m.tar"
    long = "n" * 150 if form != tarfile.USTAR_FORMAT else "n"
    with tarfile.open(path, mode, format=form) as out:
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        out.addfile(folder)
        for file in objects:
            out.add(file, f"folder/{long}{file.name}")
    data = gzip.decompress(path.read_bytes()) if mode == "w:gz" else None
    check(path, "tar", [f"folder/{long}{o.name}" for o in objects], data)
    with mblob.open(path) as lib:
        assert lib.compressed == (mode == "w:gz")
        validate(lib.to_json())


def test_sources_and_other_files_beside_objects_are_only_named(
    objects: list[Path], tmp_path: Path
) -> None:
    (tmp_path / "lib1.c").write_text("int x;")
    (tmp_path / "notes.bin").write_bytes(b"\1\2")
    (tmp_path / "empty").write_bytes(b"")
    others = [tmp_path / name for name in ("lib1.c", "notes.bin", "empty")]
    with mblob.open(tar(tmp_path / "m.tar", [*objects, *others])) as lib:
        assert [m.kind for m in lib.members] == [
            "elf object",
            "elf object",
            "source",
            "other",
            "other",
        ]
        assert lib.blob is not None


def test_a_container_without_machine_code_is_no_library(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("no code")
    with pytest.raises(FormatError, match="one member, which is no machine code") as caught:
        mblob.open(tar(tmp_path / "m.tar", [tmp_path / "a.txt"]))
    assert caught.value.exit_code == 3


def test_archives_in_archives_are_refused_by_name(objects: list[Path], tmp_path: Path) -> None:
    inner = {"in.a": ar(tmp_path / "in.a", objects), "in.tar": tar(tmp_path / "in.tar", objects)}
    inner["in.tgz"] = tar(tmp_path / "in.tgz", objects, "w:gz")
    inner["thin.a"] = ar(tmp_path / "thin.a", objects, "rcDT")
    for name, path in inner.items():
        for outer in (
            tar(tmp_path / "out.tar", [objects[0], path]),
            ar(tmp_path / f"{name}.out.a", [path]),
        ):
            if name == "thin.a" and outer.suffix == ".a":
                continue  # `ar` itself takes thin archives apart
            if outer.suffix == ".a" and path.suffix == ".a":
                continue
            with pytest.raises(FormatError, match=f"{name}\\): an archive in an archive") as caught:
                mblob.open(outer)
            assert caught.value.code == "archive"


def test_a_thin_archive_is_refused(objects: list[Path], tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="thin archive"):
        mblob.open(ar(tmp_path / "t.a", objects, "rcDT"))


@pytest.mark.parametrize("kind", ["a", "tar", "tgz"])
def test_every_cut_of_a_container_is_one_error_or_none(
    objects: list[Path], tmp_path: Path, kind: str
) -> None:
    path = tmp_path / f"m.{kind}"
    whole = (
        ar(path, objects) if kind == "a" else tar(path, objects, "w:gz" if kind == "tgz" else "w")
    ).read_bytes()
    cut = tmp_path / "cut"
    refused = 0
    for size in range(1, len(whole), max(len(whole) // 150, 1)):
        cut.write_bytes(whole[:size])
        try:
            mblob.open(cut).close()
        except FormatError as error:
            refused += 1
            assert error.code
            assert "\n" not in str(error)
    assert refused > 60


def test_a_gzip_that_unpacks_without_end_is_refused(
    tmp_path: Path, peak_memory: Callable[..., int]
) -> None:
    path = tmp_path / "bomb.tar.gz"
    path.write_bytes(gzip.compress(bytes(200 << 20)))

    def look() -> None:
        with pytest.raises(FormatError, match="unpacks to more than"):
            mblob.open(path)

    assert peak_memory(look) < 16 << 20


def test_a_tar_of_headers_that_describe_headers_is_refused(tmp_path: Path) -> None:
    """Each of GNU's long names says that one more follows."""
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 1
    out = io.BytesIO()
    for _ in range(3000):
        out.write(info.tobuf(tarfile.GNU_FORMAT) + b"x".ljust(512, b"\0"))
    (tmp_path / "long.tar").write_bytes(out.getvalue())
    with pytest.raises(FormatError) as caught:
        mblob.open(tmp_path / "long.tar")
    assert caught.value.code in ("archive", "no_blob")


# -- system libraries ------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def system_archive(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """`system_archive(prefix, suffix)`: packed by mblob for static linking."""
    folder = tmp_path_factory.mktemp("system")
    (folder / "k.c").write_text(
        "void scale(float *x, long n) { for (long i = 0; i < n; i++) x[i] *= 2; }\n"
    )

    def make(prefix: str, suffix: str) -> Path:
        path = folder / f"{prefix}{suffix}"
        host = mblob.csource_module(folder / "k.c", functions=["void scale(float *x, long n)"])
        host.import_module(mblob.blob_module("data", prefix.encode()))
        host.export_library(path, system_lib=True, prefix=prefix)
        return path

    return make


@pytest.mark.parametrize("suffix", [".a", ".o"])
def test_a_library_for_static_linking_has_its_prefix(
    system_archive: Any, suffix: str, validate: Any
) -> None:
    with mblob.open(system_archive("one_", suffix), verify="full") as lib:
        assert (lib.prefixes, lib.prefix) == (["one_"], "one_")
        assert lib.blob.symbol == "one___tvm_dev_mblob"
        assert bytes(lib.entries[1].view()) == b"one_"
        assert (lib.packed_functions, lib.plain_functions) == (["scale"], ["scale"])
        assert lib.diagnostics == []
        validate(lib.to_json())


def test_an_archive_of_two_libraries_shows_the_one_that_is_asked_for(
    system_archive: Any, tmp_path: Path
) -> None:
    names = []
    for prefix in ("one_", "two_"):
        subprocess.run(["ar", "x", system_archive(prefix, ".a")], cwd=tmp_path, check=True)
        for member in [p for p in tmp_path.glob("*.o") if not p.name.startswith(("one_", "two_"))]:
            names.append(member.rename(tmp_path / f"{prefix}{member.name}"))
    path = ar(tmp_path / "both.a", names)
    with mblob.open(path) as lib:
        assert (lib.prefixes, lib.prefix) == (["one_", "two_"], "one_")
        assert [d["code"] for d in lib.diagnostics] == ["several_prefixes"]
    with mblob.open(path, prefix="two_") as lib:
        assert bytes(lib.entries[1].view()) == b"two_"
    with pytest.raises(FormatError, match="no library of prefix 'three_'; there is 'one_', 'two_'"):
        mblob.open(path, prefix="three_")


def test_tvms_system_libraries_of_both_dialects_are_known_by_their_names(
    clang: Any, tmp_path: Path
) -> None:
    """Objects as TVM's compiler writes them: everything has the prefix, of an ffi function the name
    behind the mark."""
    classic = (
        KERNEL.replace("vadd", "p_vadd")
        + blob_source(BLOB, "p___tvm_dev_mblob")
        + "void *p___tvm_module_ctx;"
    )
    with mblob.open(clang(classic, tmp_path / "c.o", C)) as lib:
        assert (lib.prefixes, lib.dialect, lib.functions) == (["p_"], "classic", ["vadd"])
        assert lib.era.range == "0.13 - 0.20"
    with mblob.open(clang(classic.replace("p_vadd", "vadd"), tmp_path / "n.o", C)) as lib:
        # TVM looks for the name alone, too
        assert (lib.prefixes, lib.functions) == (["p_"], ["vadd"])
    tree = b"".join(n.to_bytes(8, "little") for n in (2, 0, 0, 0, 4)) + b"_lib"
    blob = len(tree).to_bytes(8, "little") + tree
    ffi = KERNEL.replace("vadd", "__tvm_ffi_p_vadd") + blob_source(blob, "p___tvm_ffi__library_bin")
    with mblob.open(clang(ffi, tmp_path / "f.o", C)) as lib:
        assert (lib.prefixes, lib.dialect, lib.functions) == (["p_"], "ffi", ["vadd"])
        assert lib.blob.symbol == "p___tvm_ffi__library_bin"
    main = "int __tvm_ffi_main(void) { return 0; }\n"
    with mblob.open(
        clang(main + ffi.replace("ffi_p_vadd", "ffi_vadd"), tmp_path / "g.o", C)
    ) as lib:
        assert (lib.functions, lib.entry_function) == (["main", "vadd"], "main")


def test_a_shared_library_with_a_prefix_says_that_tvm_does_not_see_its_blob(
    cc: Any, tmp_path: Path
) -> None:
    path = cc(blob_source(BLOB, "p___tvm_dev_mblob", ""), tmp_path / "p.so", "-Wl,-Bsymbolic")
    with mblob.open(path) as lib:
        assert [d["code"] for d in lib.diagnostics] == ["prefixed_blob"]
        assert bytes(lib.entries[1].view()) == CUDA


def test_members_for_different_machines_and_symbols_defined_twice_are_told(
    clang: Any, tmp_path: Path
) -> None:
    files = [clang(KERNEL, tmp_path / f"{t}.o", f"{t}-linux-gnu") for t in ("x86_64", "aarch64")]
    files.append(clang(blob_source(BLOB, attributes=""), tmp_path / "devc.o", C))
    with mblob.open(ar(tmp_path / "m.a", files)) as lib:
        told = {d["code"]: d["message"] for d in lib.diagnostics}
    assert "aarch64 (64 bits, little), x86_64 (64 bits, little)" in told["mixed_machines"]
    assert "vadd" in told["duplicate_symbols"]


# -- C text ----------------------------------------------------------------------------------------


def test_tvms_c_form_of_a_blob_reads_as_the_library_does(golden: Path, validate: Any) -> None:
    with (
        mblob.open(golden / "dag_devc.c", verify="full") as text,
        mblob.open(golden / "dag.so") as library,
    ):
        assert (text.kind, text.image.format, text.compressed) == ("source", "c", True)
        assert [(e.type_key, e.imports, bytes(e.view())) for e in text.entries] == [
            (e.type_key, e.imports, bytes(e.view())) for e in library.entries
        ]
        validate(text.to_json())


def test_host_functions_as_c_text_are_listed(golden: Path, tmp_path: Path, validate: Any) -> None:
    with mblob.open(golden / "conv2d_vectorized.c") as lib:
        assert lib.is_model_library
        assert lib.functions == ["tvmgen_default_fused_nn_conv2d_nn_bias_add_nn_relu"]
        assert lib.undefined == ["TVMBackendAllocWorkspace", "TVMBackendFreeWorkspace"]
    text = '// tvm target: {"kind":"c"}\nvoid* __tvm_ffi__library_ctx = NULL;\n'
    for body in (";", " {\n  return TVMFFIFunctionCall(x);\n}"):
        text += f"TVM_DLL int32_t __tvm_ffi_add(void* self, void* args, int32_t n, void* result){body}\n"
    (tmp_path / "lib0.c").write_text(text)
    with mblob.open(tar(tmp_path / "m.tar", [tmp_path / "lib0.c"])) as lib:
        assert [(f.name, f.symbol, f.abi) for f in lib.host_functions] == [
            ("add", "__tvm_ffi_add", "ffi")
        ]
        assert (lib.undefined, lib.era.dialect) == (["TVMFFIFunctionCall"], "ffi")
        assert lib.diagnostics == []
        validate(lib.to_json())
    (tmp_path / "other.c").write_text("TVM_DLL int32_t f(void);\n")
    with pytest.raises(FormatError) as caught:
        mblob.open(tmp_path / "other.c")
    assert caught.value.exit_code == 3


def test_a_tar_may_hold_its_blob_as_c_text(
    objects: list[Path], tmp_path: Path, validate: Any
) -> None:
    (tmp_path / "devc.c").write_text(blob_source(BLOB, attributes=""))
    with mblob.open(tar(tmp_path / "m.tar", [tmp_path / "devc.c", objects[0]])) as lib:
        assert [m.kind for m in lib.members] == ["source", "elf object"]
        assert (lib.target["machine"], lib.functions, lib.compressed) == ("x86_64", ["vadd"], True)
        assert bytes(lib.entries[1].view()) == CUDA
        assert lib.diagnostics == []
        validate(lib.to_json())


def c_text(body: str, size: int = 16) -> str:
    return f"const unsigned char __tvm_dev_mblob[{size}] = {{{body}}};"


EMPTY = (8).to_bytes(8, "little") + bytes(8)


@pytest.mark.parametrize(
    "body",
    [
        ",".join(f"0x{b:02x}" for b in EMPTY) + ",",
        ", ".join(f"0x{b:x}" for b in EMPTY),
        ",\n".join(map(str, EMPTY)),
        "\n  " + "".join(f"0X{b:02X},\n" for b in EMPTY),
    ],
)
def test_numbers_in_c_text_have_any_form(tmp_path: Path, body: str) -> None:
    (tmp_path / "devc.c").write_text(c_text(body))
    with mblob.open(tmp_path / "devc.c") as lib:
        assert [e.type_key for e in lib.entries] == ["library"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (c_text("0x00," * 15), "has 15 bytes, it says 16"),
        (c_text("0x00," * 15 + "0x100"), "'0x100' among the bytes"),
        (c_text("0,1,f()," * 5), "'f\\(\\)' among the bytes"),
        (c_text("010," * 16), "'010' among the bytes"),
        (c_text("0x00," * 16)[:-2], "do not end"),
        (c_text("0x0,0x000," * 8), "'0x000' among the bytes"),
        (c_text("", 0), "0 bytes, expected at least 16"),
    ],
)
def test_c_text_that_is_no_blob_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "devc.c").write_text(text)
    with pytest.raises(FormatError, match=words):
        mblob.open(tmp_path / "devc.c")


@pytest.mark.parametrize("dialect", ["classic", "ffi"])
def test_a_tar_lists_what_a_user_can_call(tmp_path: Path, dialect: Any) -> None:
    """Not the hidden functions that mblob and compilers put beside it."""
    code = "void twice(float *x) { x[0] *= 2; } " + HIDDEN
    path = tmp_path / "m.tar"
    for given in ({"packed": "twice"}, {}) if dialect == "classic" else ({},):
        mblob.csource_module(code, functions=["twice"], **given).export_library(
            path, dialect=dialect
        )
        with mblob.open(path) as library:
            assert list(library.functions) == ["twice"]


HIDDEN = '__attribute__((visibility("hidden"))) void helper(float *x) { x[0] = 1; }'
