"""The names that mblob's runtime binds: one list, in which the loader looks and which `verify`
reads from the file."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mblob.binary.elf import ElfFile
from mblob.bytes.mapping import map_file
from mblob.errors import FormatError
from mblob.inspect import runtime_names
from mblob.inspect.linkage import resolve

pytestmark = pytest.mark.compiles

# What the loader tells a library's dialect by.
KINDS = {
    runtime_names.ALL: "",
    runtime_names.FFI: "int __tvm_ffi_f(void) { return 0; }\n",
    runtime_names.FFI_OF_0_21: "void *__tvm_ffi_library_ctx;\n",
}


def read(path: Path) -> ElfFile:
    return ElfFile(map_file(path), str(path))


def all_names() -> dict[str, set[str]]:
    plugin = runtime_names.INSTALLED.with_name("libmblob-ffi.so")
    found = {
        **runtime_names.read(read(runtime_names.INSTALLED)),
        **runtime_names.read(read(plugin)),
    }
    return {kind: set(names) for kind, names in found.items()}


def using(cc, path: Path, kind: str, names: set[str], *flags: str) -> Path:
    """A library that leaves names undefined."""
    declared = "".join(f"extern char {name}[];\n" for name in sorted(names))
    pointers = ", ".join(sorted(names))
    return cc(
        f"{KINDS[kind]}{declared}void *used[] = {{{pointers}}};\n", path, "-fno-builtin", *flags
    )


def opens(path: Path) -> str:
    """What mblob's loader says, "" if it opens the library."""
    script = "import sys, mblob\ntry: mblob.load_module(sys.argv[1])\nexcept mblob.MblobError as e: print(e)\n"
    return subprocess.run(
        [sys.executable, "-c", script, path], capture_output=True, text=True, check=True
    ).stdout


def missing(path: Path, *against: Path) -> set[str]:
    return {r.name for r in resolve(read(path), str(path), against).unresolved}


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", KINDS)
def test_what_verify_resolves_is_what_the_loader_binds(cc, tmp_path: Path, kind: str) -> None:
    names = all_names()
    given = names[runtime_names.ALL] | names[kind]
    library = using(cc, tmp_path / "all.so", kind, given)
    assert runtime_names.kind_of(read(library)) == kind
    assert (opens(library), missing(library, runtime_names.INSTALLED)) == ("", set())
    assert {n for n in given if n.startswith("TVM")} <= missing(library)
    for other in sorted(set.union(*names.values(), {"TVMBackendNever", "TVMFFINever"}) - given):
        # A name of the 0.22 interface alone makes a library one of 0.21 for the loader.
        wanting = using(cc, tmp_path / "other.so", kind, {other})
        read_as = runtime_names.kind_of(read(wanting))
        if read_as == kind:
            assert missing(wanting, runtime_names.INSTALLED) == {other}
            assert other in opens(wanting)
        else:
            assert (kind, read_as) == (runtime_names.ALL, runtime_names.FFI_OF_0_21)
            assert bool(opens(wanting)) == bool(missing(wanting, runtime_names.INSTALLED))


def test_a_plugin_alone_gives_its_own_names(cc, tmp_path: Path) -> None:
    library = using(
        cc, tmp_path / "a.so", runtime_names.FFI, {"TVMFFIFunctionCall", "TVMBackendRunOnce"}
    )
    copies = tmp_path / "copies"
    copies.mkdir()
    for name in ("libmblob.so.0", "libmblob-ffi.so"):
        shutil.copy(runtime_names.INSTALLED.with_name(name), copies)
    (tmp_path / "libmblob.so").symlink_to(copies / "libmblob.so.0")
    assert missing(library, copies / "libmblob-ffi.so") == {"TVMBackendRunOnce"}
    # what a link leads to has the plug-ins beside it
    assert missing(library, tmp_path / "libmblob.so") == set()
    found = resolve(read(library), str(library), [tmp_path / "libmblob.so"])
    assert {r.name: Path(r.provider or "") for r in found.references} == {
        "TVMFFIFunctionCall": copies / "libmblob-ffi.so",
        "TVMBackendRunOnce": tmp_path / "libmblob.so",
    }
    (copies / "libmblob-ffi.so").write_bytes(b"no library")
    assert missing(library, tmp_path / "libmblob.so") == {"TVMFFIFunctionCall"}


def test_a_library_that_needs_tvm_ffi_gets_its_functions_from_there(cc, tmp_path: Path) -> None:
    names = {"TVMFFIFunctionCall", "TVMBackendParallelLaunch"}
    tvm_ffi = cc("int nothing;", tmp_path / "libtvm_ffi.so", "-Wl,-soname,libtvm_ffi.so")
    flags = ("-Wl,--no-as-needed", str(tvm_ffi), "-Wl,-rpath,$ORIGIN")
    library = using(cc, tmp_path / "a.so", runtime_names.FFI, names, *flags)
    assert missing(library, runtime_names.INSTALLED) == {"TVMFFIFunctionCall"}
    assert "TVMFFIFunctionCall" in opens(library)


def test_stripped_copies_have_the_list_and_damaged_lists_are_errors(cc, tmp_path: Path) -> None:
    library = using(cc, tmp_path / "a.so", runtime_names.ALL, {"__truncdfhf2"})
    copy = tmp_path / "libmblob.so.0"
    subprocess.run(["strip", "-o", copy, runtime_names.INSTALLED], check=True)
    assert missing(library, copy) == set()
    # binutils 2.41 and later
    subprocess.run(["strip", "--strip-section-headers", copy], capture_output=True)
    assert missing(library, copy) == set()
    source = f'const char {runtime_names.SYMBOL}[] = "=all\\0__truncdfhf2\\0=later\\0x";'
    assert missing(library, cc(source, tmp_path / "later.so")) == set()
    name = runtime_names.SYMBOL
    lines = f".globl {name}", f".set {name}, 64", f".size {name}, 1<<60"
    wild = cc("".join(f'__asm__("{line}");\n' for line in lines), tmp_path / "wild.so")
    with pytest.raises(FormatError, match=r"wild\.so.*mblob_runtime_names"):
        missing(library, wild)
