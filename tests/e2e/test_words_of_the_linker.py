"""Refusals of the dynamic linker are told with the file that the user named, and with what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from tests.e2e.programs import run

RUN = ["void run(float x[1])"]
TWICE = "void run(float *x) { x[0] *= 2; }"
LOAD = """
import sys, mblob
source = open(sys.argv[1], "rb").read() if len(sys.argv) > 2 else sys.argv[1]
try:
    lib = mblob.load_module(source)
except mblob.IncompatibleError as error:
    sys.exit(str(error))
x = memoryview(bytearray(b"\\0\\0\\x80\\x3f")).cast("f")
lib.run(x)
print(x[0])
"""


def packed(path: Path, source: str, *options: object, **more: object) -> Path:
    module = mblob.csource_module(source, functions=RUN)
    module.export_library(path, options=["-O2", *map(str, options)], **more)
    return path


def shared(path: Path, source: str, *options: object) -> Path:
    path.with_suffix(".c").write_text(source)
    run("cc", "-shared", "-fPIC", "-O1", path.with_suffix(".c"), "-o", path, *options)
    return path


def loaded(path: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LOAD, path, *words],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=60,
        check=False,
    )


def said(path: Path, *words: str) -> str:
    """The error of loading it, without the name of the file in front."""
    done = loaded(path, *words)
    assert done.returncode == 1, (done.returncode, done.stdout, done.stderr)
    assert "/proc/self" not in done.stderr
    return done.stderr.strip().removeprefix(f"{path}: ")


@pytest.mark.parametrize(("flag", "runtime"), [("address", "asan"), ("thread", "tsan")])
def test_a_kernel_with_a_sanitizer_is_refused_unless_its_runtime_is_there(
    tmp_path: Path, flag: str, runtime: str
) -> None:
    """ASan's runtime would end the process."""
    path = packed(tmp_path / "k.so", TWICE, f"-fsanitize={flag}")
    name = f"lib{runtime}.so"
    assert said(path) == (
        "it was compiled with a sanitizer, whose runtime must start with the process: "
        f"LD_PRELOAD=$(gcc -print-file-name={name})"
    )
    preload = run("gcc", f"-print-file-name={name}").stdout.strip()
    done = loaded(path, LD_PRELOAD=preload, ASAN_OPTIONS="detect_leaks=0")
    assert (done.returncode, done.stdout) == (0, "2.0\n"), done.stderr


def test_asan_may_come_late_if_the_user_says_so(tmp_path: Path) -> None:
    path = packed(tmp_path / "k.so", TWICE, "-fsanitize=address")
    done = loaded(path, ASAN_OPTIONS="verify_asan_link_order=0:detect_leaks=0")
    assert (done.returncode, done.stdout) == (0, "2.0\n"), done.stderr


def test_too_much_static_tls_is_told_with_a_remedy(tmp_path: Path) -> None:
    source = (
        'static __thread char big[200000] __attribute__((tls_model("initial-exec")));\n'
        "void run(float *x) { big[(int)x[0]] = 2; x[0] *= big[1]; }"
    )
    with pytest.warns(mblob.PortabilityWarning, match="needs 200[0-9]{3} bytes of static TLS"):
        path = packed(tmp_path / "k.so", source)
    assert said(path) == (
        "the dynamic linker refused it: cannot allocate memory in static TLS block; compile it without "
        "-ftls-model=initial-exec, or set GLIBC_TUNABLES=glibc.rtld.optional_static_tls=1000000"
    )
    more = "glibc.rtld.optional_static_tls=1000000"
    assert loaded(path, GLIBC_TUNABLES=more).stdout == "2.0\n"


def test_a_file_system_without_execution_is_named(
    tmp_path: Path, require: Callable[[str], str]
) -> None:
    path = packed(tmp_path / "k.so", TWICE)
    place = tmp_path / "noexec"
    place.mkdir()
    script = 'mount -t tmpfs -o noexec none "$1" && cp "$2" "$1" && shift 2 && exec "$@"'
    unshare = [require("unshare"), "-rm", "sh", "-c", script, "sh", place, path]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount in a namespace here")
    done = subprocess.run(
        [*unshare, sys.executable, "-c", LOAD, place / "k.so"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.endswith("; its file system is mounted noexec: move the file\n")
    done = subprocess.run(
        [*unshare, sys.executable, "-c", LOAD, place / "k.so", "memory"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "2.0\n"), done.stderr


def test_a_needed_library_that_is_gone_is_told_with_a_remedy(tmp_path: Path) -> None:
    helper = shared(tmp_path / "libgone.so", "float half(float x) { return x / 2; }")
    source = "float half(float);\nvoid run(float *x) { x[0] = 4 * half(x[0]); }"
    path = packed(tmp_path / "k.so", source, f"-L{tmp_path}", "-lgone")
    helper.rename(tmp_path / "elsewhere.so")
    for words in ((), ("memory",)):
        assert said(path, *words).endswith(
            "libgone.so: cannot open shared object file: No such file or directory; "
            "install it, or name its folder in LD_LIBRARY_PATH"
        )
    (tmp_path / "lib").mkdir()
    (tmp_path / "elsewhere.so").rename(tmp_path / "lib" / "libgone.so")
    assert loaded(path, LD_LIBRARY_PATH=str(tmp_path / "lib")).stdout == "2.0\n"


def test_a_version_that_is_missing_is_told_with_the_path_of_the_library(tmp_path: Path) -> None:
    (tmp_path / "v").write_text("V1 { global: half; };\nV2 { global: two; } V1;\n")
    (tmp_path / "v1").write_text("V1 { global: half; };\n")
    both = "float half(float x) { return x / 2; }\nfloat two(void) { return 2; }"
    options = ("-Wl,-soname,libold.so", f"-Wl,--version-script={tmp_path}/v")
    shared(tmp_path / "libold.so", both, *options)
    source = "float two(void);\nvoid run(float *x) { x[0] *= two(); }"
    rpath = f"-Wl,-rpath,{tmp_path}"
    path = packed(tmp_path / "k.so", source, f"-L{tmp_path}", "-lold", rpath)
    assert loaded(path).stdout == "2.0\n"
    shared(tmp_path / "libold.so", both, options[0], f"-Wl,--version-script={tmp_path}/v1")
    assert said(path) == (
        f"the dynamic linker refused it: {tmp_path}/libold.so: version `V2' not found (required by {path}); "
        "it was built with a later release of that library: build it with this one"
    )
    assert "(required by the library)" in said(path, "memory")


def test_what_lies_beside_a_library_has_its_own_path(tmp_path: Path) -> None:
    """$ORIGIN: the linker is given a name in the folder's descriptor."""
    helper = "float nobody(void);\nfloat half(float x) { return x / nobody(); }"
    shared(tmp_path / "libhalf.so", helper)
    source = "float half(float);\nvoid run(float *x) { x[0] = half(x[0]); }"
    options = ("-lhalf", "-Wl,-rpath,$ORIGIN", "-Wl,--unresolved-symbols=ignore-all")
    path = packed(tmp_path / "k.so", source, f"-L{tmp_path}", *options)
    assert said(path) == (
        f"the dynamic linker refused it: {tmp_path}/libhalf.so: undefined symbol: nobody; "
        "link the library with what defines it"
    )


MANY = """
import os, resource, shutil, sys
import mblob
path, folder = sys.argv[1:]
def load(n):
    return mblob.load_module(shutil.copyfile(path, f"{folder}/{n}.so"))
def count():
    return len(os.listdir("/proc/self/fd"))
libs, before = [load(0)], count()
libs += [load(n) for n in range(1, 11)]
each = (count() - before) / 10
resource.setrlimit(resource.RLIMIT_NOFILE, (count() + 20, 4096))
try:
    while True:
        libs.append(load(len(libs)))
except (OSError, mblob.MblobError) as error:
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    print(each, error)
libs.clear()
print(count() - before)
"""


def test_descriptors_of_open_libraries_are_as_many_as_the_documentation_says(
    tmp_path: Path,
) -> None:
    """And what is told when there are no more."""
    shared(tmp_path / "libhalf.so", "float half(float x) { return x / 2; }")
    halves = "float half(float);\nvoid run(float *x) { x[0] = half(x[0]); }"
    origin = (f"-L{tmp_path}", "-lhalf", "-Wl,-rpath,$ORIGIN")
    undefined = (
        "const char *TVMGetLastError(void);\nvoid run(float *x) { x[0] += !TVMGetLastError(); }"
    )
    for name, path, each in (
        ("plain", packed(tmp_path / "p.so", TWICE), 1),
        ("origin", packed(tmp_path / "o.so", halves, *origin), 2),
        ("undefined", shared(tmp_path / "u.so", f"int __tvm_main__;\n{undefined}"), 2),
    ):
        (folder := tmp_path / name).mkdir()
        shutil.copy(tmp_path / "libhalf.so", folder)
        done = run(sys.executable, "-c", MANY, path, folder)
        told, left = done.stdout.splitlines()
        assert told.startswith(f"{each}.0 ") and "Too many open files" in told
        if told.endswith("has a file"):
            assert told.endswith("; raise ulimit -n: each open library has a file")
        else:
            assert "[Errno 24]" in told
        assert int(left) < 0
