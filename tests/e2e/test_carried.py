"""Libraries that bring the code for their modules: opened from Python and C, linked into programs,
from every form."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.compilers import include_flags
from tests.e2e.programs import ROOT, run
from tests.packager.plugins import plugin

pytestmark = pytest.mark.own_process

HOST = r"""
#include <mblob.h>
#include <stdio.h>

int main(int argc, char **argv) {
  mblob_module *root = NULL;
  mblob_function *size = NULL;
  TVMValue value;
  int code;
  if (%(open)s || mblob_module_function(root, "size", 1, &size) ||
      mblob_function_call(size, NULL, NULL, 0, &value, &code))
    return fprintf(stderr, "%%s\n", mblob_last_error()), 1;
  printf("%%d %%lld\n", code, (long long)value.v_int64);
  mblob_function_release(size);
  mblob_module_release(root);
  (void)argc;
  (void)argv;
  return 0;
}
"""
WARNINGS = ("-std=c11", "-Wall", "-Wextra", "-Werror", *include_flags(), "-g")
SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def tree(*, data: bool) -> mblob.Module:
    """A library over a module of the plug-in's key, with a payload of 27 bytes."""
    host = mblob.csource_module("int f(void) { return 1; }\n", functions=["int f(void)"])
    payload = (
        mblob.blob_module("toy_key", bytes(27)) if data else mblob.json_module("toy_key", "s", "{}")
    )
    host.import_module(payload)
    return host


def export(path: Path, *, data: bool = True, **options: object) -> Path:
    tree(data=data).export_library(path, carry=[mblob.csource_module(plugin())], **options)
    return path


@pytest.mark.sample(1)
@pytest.mark.parametrize("embed", ["grow", "object", "append", "c"])
@pytest.mark.parametrize("data", [True, False], ids=["data", "no data"])
def test_in_python(tmp_path: Path, embed: str, data: bool) -> None:
    opened = mblob.load_module(export(tmp_path / "x.so", data=data, embed=embed))
    assert opened["size"]() == 27
    assert opened["f"]() == 1
    assert opened.imported_modules[0].get_function("size")() == 27


def test_a_tar_that_is_linked_when_it_is_opened(tmp_path: Path) -> None:
    assert mblob.load_module(export(tmp_path / "x.tar"))["size"]() == 27


def test_stripped(tmp_path: Path) -> None:
    path = export(tmp_path / "x.so", options=["-Wl,--gc-sections", "-ffunction-sections"])
    run("strip", path)
    assert mblob.load_module(path)["size"]() == 27


def test_the_library_alone_from_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    path = export(tmp_path / "empty" / "x.so", data=False)
    code = "import mblob; print(mblob.load_module('x.so')['size']())"
    done = run(sys.executable, "-c", code, cwd=path.parent, env={"PYTHONPATH": str(ROOT)})
    assert done.stdout == "27\n"


@pytest.mark.parametrize(
    "flags", [(), pytest.param(SANITIZE, marks=pytest.mark.slow)], ids=["plain", "sanitized"]
)
def test_in_c(installed: Path, tmp_path: Path, flags: tuple[str, ...]) -> None:
    source = tmp_path / "host.c"
    source.write_text(HOST % {"open": 'mblob_open("x.so", NULL, &root)'})
    run(
        "cc",
        *WARNINGS,
        *flags,
        source,
        installed / "lib" / "libmblob.a",
        "-pthread",
        "-ldl",
        "-o",
        tmp_path / "host",
    )
    (tmp_path / "empty").mkdir()
    export(tmp_path / "empty" / "x.so", data=False)
    assert run(tmp_path / "host", cwd=tmp_path / "empty", env={}).stdout == "0 27\n"


@pytest.mark.sample(2)
@pytest.mark.parametrize("suffix", [".o", ".a"])
@pytest.mark.parametrize("flags", [(), SANITIZE], ids=["plain", "sanitized"])
def test_linked_into_a_program(
    installed: Path, tmp_path: Path, suffix: str, flags: tuple[str, ...]
) -> None:
    """Two of them, of which each has its own plug-in."""
    anchors, inputs = [], []
    for prefix, size in (("one_", ""), ("two_", " + 100")):
        module = mblob.csource_module("int f(void) { return 1; }\n", functions=["int f(void)"])
        module.import_module(mblob.blob_module("toy_key", bytes(27)))
        path = tmp_path / f"{prefix}{suffix}"
        carried = mblob.csource_module(plugin(after_size=size))
        module.export_library(path, carry=[carried], system_lib=True, prefix=prefix)
        inputs.append(path)
        if suffix == ".a":
            anchors.append(f"MBLOB_SYSTEM_LIB({prefix});\n")
    for prefix, expected in (("one_", 27), ("two_", 127)):
        source = tmp_path / f"{prefix}host.c"
        text = HOST % {"open": f'mblob_system_lib("{prefix}", &root)'}
        source.write_text(text.replace("int main", "".join(anchors) + "int main", 1))
        program = tmp_path / f"{prefix}host"
        run("cc", *WARNINGS, *flags, "-Wl,--gc-sections", source, *inputs, installed / "lib" / "libmblob.a",
            "-pthread", "-ldl", "-o", program)  # fmt: skip
        assert run(program, env=dict(os.environ, MBLOB_PLUGIN_PATH="")).stdout == f"0 {expected}\n"


CALLER = """
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/c_backend_api.h>
void *__tvm_module_ctx;
TVM_DLL int run(void *args, int *codes, int n, void *ret, int *ret_code, void *resource) {
  void *function;
  TVMValue value;
  int code;
  if (TVMBackendGetFuncFromEnv(__tvm_module_ctx, "twice", &function)) return -1;
  return TVMFuncCall(function, (TVMValue *)args, codes, n, &value, &code);
}
"""
# Its start would end the process, its module would give other numbers: a host with a runtime of its
# own needs neither.
TRAP = "__attribute__((unused)) static int never(void) { abort(); }\n"


def test_a_tvm_with_the_runtime_itself_opens_the_file(tmp_path: Path) -> None:
    """Read as TVM's library_module.cc reads it: the plug-in is bytes that it does not look at."""
    host = tmp_path / "tvm_host"
    run(
        "cc",
        *WARNINGS,
        "-Wno-pedantic",
        ROOT / "tests" / "c" / "hosts" / "tvm_host.c",
        "-ldl",
        "-o",
        host,
    )
    module = mblob.csource_module(CALLER)
    module.import_module(mblob.json_module("toy_key", "twice", "{}", ["c0", "c1"]))
    carried = plugin(before=TRAP).replace("host = given;", "never();")
    for index in (True, False):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", mblob.UnreadableWarning)
            module.export_library(
                tmp_path / "x.so", carry=[mblob.csource_module(carried)], index=index
            )
        done = run(host, tmp_path / "x.so", "toy_key", env={})
        assert done.stdout == "_lib toy_key _import_tree \n2 4 6 8\n"
        assert "U mblob" not in run("nm", "-D", tmp_path / "x.so").stdout
        refused = subprocess.run(
            [host, tmp_path / "x.so", "other"], capture_output=True, text=True, env={}
        )
        assert refused.returncode == 1 and refused.stderr.endswith("is not registered: toy_key\n")


FAILS = """
import mblob
import numpy as np
lib = mblob.load_module("x.so")
for _ in range(2):
    try:
        mblob.array(np.ones(3, "float32"), mblob.device("ext_dev", 0))
    except mblob.MblobError as error:
        print(type(error).__name__, error)
print(lib["f"]())
del os.environ["TOY_FAILS"]
print(mblob.array(np.ones(3, "float32"), mblob.device("toy", 1)).numpy().tolist())
"""


def test_a_device_that_does_not_start_tells_why_and_is_tried_again(tmp_path: Path) -> None:
    source = mblob.csource_module(ROOT / "tests/c/kernels/plugin_toy.c", options="-DMBLOB_HOST")
    tree(data=True).export_library(tmp_path / "x.so", carry=[source])
    environment = {k: v for k, v in os.environ.items() if k != "MBLOB_PLUGIN_PATH"}
    done = subprocess.run(
        [sys.executable, "-c", "import os\n" + FAILS],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        env={**environment, "TOY_FAILS": "1"},
    )
    first, second, *rest = done.stdout.splitlines()
    assert first == second
    assert first.startswith("IncompatibleError array: plug-in 'toy' (") and first.endswith(
        "x.so): libtoy.so.1 is not installed"
    )
    assert rest == ["1", "[1.0, 1.0, 1.0]"]
    script = FAILS.replace('mblob.device("ext_dev", 0)', 'mblob.device("vulkan", 0)')
    done = subprocess.run(
        [sys.executable, "-c", "import os\n" + script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        env={**environment, "TOY_FAILS": "1"},
    )
    assert (
        "plug-ins are looked for in libraries, on MBLOB_PLUGIN_PATH and beside libmblob"
        in done.stdout
    )


LOOKS_FOR = r"""
#include <mblob.h>
#include <mblob/plugin.h>
static int start(const mblob_host *host) { return STARTS ? 0 : host->set_error(MBLOB_E_NOT_FOUND, "no driver 7"); }
static int open_it(const mblob_host *host, const mblob_module_info *info, void **self) {
  (void)info, (void)self;
  return host->set_error(MBLOB_E_NOT_FOUND, "no model Q");
}
static int find(void *self, const char *name, void **function) { return (void)self, (void)name, *function = NULL, 0; }
static int call(void *self, void *function, const TVMValue *args, const int *codes, int count, void *ret) {
  return (void)self, (void)function, (void)args, (void)codes, (void)count, (void)ret, 0;
}
static void end(void *self) { (void)self; }
static const mblob_runtime runtimes[] = {{"looks_key", open_it, find, call, NULL, end}};
MBLOB_PLUGIN(looks) = {MBLOB_PLUGIN_ABI, sizeof(mblob_plugin), "looks", "1", "looks_key", "", "nothing", start, NULL,
                       runtimes, NULL, 1, 0, NULL};
"""


@pytest.mark.parametrize(
    ("starts", "reason"), [(0, "looks.*no driver 7"), (1, "module 1 .'looks_key'.*no model Q")]
)
def test_what_a_plugin_does_not_find_is_no_missing_function(
    tmp_path: Path, starts: int, reason: str
) -> None:
    """Its status for a thing that is not there is the one of a name that is not there."""
    host = mblob.csource_module("int unused;")
    host.import_module(mblob.blob_module("looks_key", b"p", data=False))
    text = LOOKS_FOR.replace("STARTS", str(starts))
    host.export_library(tmp_path / "x.so", carry=[mblob.csource_module(text)])
    module = mblob.load_module(tmp_path / "x.so").imported_modules[0]
    for _ in range(2):
        with pytest.raises(mblob.MblobError, match=reason):
            _ = module["anything"]


def test_a_read_only_array_is_not_written(tmp_path: Path) -> None:
    """What a plug-in's function writes nobody knows before the call; the last array is looked
    after."""
    writes = " + (count ? (((float *)((DLTensor *)args[count - 1].v_handle)->data)[0] = 5, 0) : 0)"
    text = plugin("writes", "writes_key", after_size=writes)
    root = mblob.blob_module("writes_key", bytes(27), data=False)
    root.export_library(tmp_path / "x.so", carry=[mblob.csource_module(text)])
    size = mblob.load_module(tmp_path / "x.so")["size"]
    given, array = np.zeros(3, "float32"), np.zeros(3, "float32")
    given.flags.writeable = False
    assert size(given, array) == 27
    assert array.tolist() == [5, 0, 0]
    array[:] = 0
    array.flags.writeable = False
    for call in (lambda: size(given, array), size.bind(given, array)):
        with pytest.raises(
            ValueError, match="argument 1: the array is read-only and the function wrote to it"
        ):
            call()
        assert array.tolist() == [0, 0, 0]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ('"argument_type"', (TypeError,)),
        ('"argument_count"', (TypeError, ValueError)),
        ('"argument_index"', (IndexError, ValueError)),
        ('"argument_name"', (KeyError, AttributeError, ValueError)),
        ('"argument_value"', (ValueError,)),
        ('"my_code"', (ValueError,)),
        ("NULL", (ValueError,)),
    ],
)
def test_a_plugin_says_what_is_wrong_with_an_argument(
    tmp_path: Path, code: str, expected: tuple[type[Exception], ...]
) -> None:
    fails = f'; if (count) return host->set_coded_error(MBLOB_E_ARGUMENT, {code}, "no row 3, found float")'
    host = mblob.csource_module("")
    host.import_module(mblob.blob_module("toy_key", b"abc"))
    (tmp_path / "toy.c").write_text(plugin(after_size=fails))
    host.export_library(tmp_path / "t.so", carry=[tmp_path / "toy.c"])
    toy = mblob.load_module(tmp_path / "t.so").imported_modules[0]["size"]
    assert toy() == 3
    with pytest.raises(mblob.MblobError, match=r"size: no row 3, found float$") as caught:
        toy(1)
    plain = (TypeError, IndexError, KeyError, AttributeError, ValueError)
    assert {c for c in plain if isinstance(caught.value, c)} == {*expected}
