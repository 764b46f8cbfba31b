"""`mblob-pack build`: flags and manifest, what the library then holds, and every way it can
fail."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import mblob

PROTOTYPE = "void vadd(const float *a, const float *b, float *c, int64_t n)"


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def entries(pack, path: object) -> list[dict]:
    done = pack("inspect", path, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["entries"]


def test_kernels_merge_into_the_root_and_each_blob_is_an_import_of_it(
    pack, kernel: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.bin").write_bytes(b"a" * 100)
    (tmp_path / "b.bin").write_bytes(b"b" * 7)
    (tmp_path / "two.c").write_text("int two(void) { return 2; }\n")
    arguments = [
        "--kernel",
        "vadd.c",
        "--kernel",
        "two.c",
        "--blob",
        "first=a.bin",
        "--blob",
        "second=b.bin",
    ]
    done = pack("build", *arguments, "-o", "deploy.so", "-q")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    root, *imported = entries(pack, "deploy.so")
    assert (root["type_key"], root["size"], root["imports"]) == ("library", 0, [1, 2])
    # TVM's order of modules, which ours is: the last import comes first.
    assert [(e["type_key"], e["size"], e["imports"]) for e in imported] == [
        ("second", 7, []),
        ("first", 100, []),
    ]
    assert names(tmp_path) == ["a.bin", "b.bin", "deploy.so", "two.c", "vadd.c"]


@pytest.mark.slow
def test_a_build_of_plain_functions_alone_says_how_they_become_callable(pack, kernel: Path) -> None:
    words = ("build", "--kernel", "vadd.c", "-o", "deploy.so")
    done = pack(*words, "--no-functions")
    assert (done.returncode, done.stdout) == (0, "")
    info, wrote = done.stderr.splitlines()
    assert info == (
        "mblob-pack: info: deploy.so has only plain C functions (vadd); to call one by mblob, pack it with its"
        " prototype: --function PROTOTYPE"
    )
    assert re.fullmatch(r"wrote deploy\.so: [\d.]+ KiB, 1 plain C function", wrote)
    assert pack(*words, "--no-functions", "-q").stderr == ""
    (kernel.parent / "pair.c").write_text(
        "struct pair { int a : 3, b; }; int sum(struct pair p) { return p.a + p.b; }\n"
    )
    info, _ = pack("build", "pair.c", "-o", "pair.so").stderr.splitlines()
    assert (
        "(sum), which mblob cannot call; sum: parameter 0 (p) is struct pair by value: give a"
        in info
    )
    (wrote,) = pack(*words, "--blob", "b=vadd.c", "--function", PROTOTYPE).stderr.splitlines()
    assert re.fullmatch(r"wrote deploy\.so: [\d.]+ KiB, 2 modules, 1 function", wrote)


def test_a_blob_without_a_key_is_told_the_key_of_its_name(pack) -> None:
    said = pack("build", "--blob", "config.json", "-o", "x.so").stderr
    assert "expected KEY=FILE, found 'config.json'" in said
    assert "hint: --blob config=config.json" in said


def test_an_object_is_linked_in(pack, kernel: Path, tmp_path: Path) -> None:
    subprocess.run(["cc", "-c", "-fPIC", "-O1", "vadd.c", "-o", "vadd.o"], cwd=tmp_path, check=True)
    assert pack("build", "--object", "vadd.o", "-o", "deploy.so").returncode == 0
    assert "vadd" in pack("inspect", "deploy.so", "--functions").stdout


def test_a_manifest_gives_the_same_library_as_the_flags(pack, kernel: Path, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"a" * 100)
    (tmp_path / "model.toml").write_text(
        f'output = "from_manifest.so"\nkernels = ["vadd.c"]\nfunctions = ["{PROTOTYPE}"]\nblobs = {{ raw = "a.bin" }}\n'
    )
    assert pack("build", "model.toml").returncode == 0
    flags = ["--kernel", "vadd.c", "--function", PROTOTYPE, "--blob", "raw=a.bin"]
    assert pack("build", *flags, "-o", "from_flags.so").returncode == 0
    assert (tmp_path / "from_manifest.so").read_bytes() == (tmp_path / "from_flags.so").read_bytes()


def test_paths_in_a_manifest_are_relative_to_it_and_the_output_flag_to_here(
    pack, kernel: Path, tmp_path: Path
) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    kernel.rename(inner / "vadd.c")
    (inner / "model.toml").write_text('output = "x.so"\nkernels = ["vadd.c"]\n')
    assert pack("build", "inner/model.toml").returncode == 0
    assert pack("build", "inner/model.toml", "-o", "y.so").returncode == 0
    assert names(inner) == ["model.toml", "vadd.c", "x.so"]
    assert names(tmp_path) == ["inner", "y.so"]


def test_compiler_flags_reach_the_compiler(pack, tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text("int f(void) { return VALUE; }\n")
    assert pack("build", "--kernel", "k.c", "-o", "k.so").returncode == 4
    assert pack("build", "--kernel", "k.c", "-o", "k.so", "--", "-DVALUE=3", "-O3").returncode == 0


def test_a_manifest_needs_no_output_when_the_flag_gives_one(
    pack, error_line, kernel: Path, tmp_path: Path
) -> None:
    (tmp_path / "model.toml").write_text('kernels = ["vadd.c"]\n')
    assert pack("build", "model.toml", "-o", "deploy.so").returncode == 0
    assert names(tmp_path) == ["deploy.so", "model.toml", "vadd.c"]
    done = pack("build", "model.toml")
    assert done.returncode == 2
    assert "-o" in error_line(done)


def test_without_an_index_and_imports_there_is_no_blob(pack, kernel: Path) -> None:
    assert (
        pack(
            "build", "--kernel", "vadd.c", "--function", PROTOTYPE, "--no-index", "-o", "deploy.so"
        ).returncode
        == 0
    )
    assert json.loads(pack("inspect", "deploy.so", "--json").stdout)["blob"] is None


@pytest.mark.sample(1)
@pytest.mark.parametrize("digest", ["none", "crc32", "sha256"])
def test_the_digest_is_chosen(pack, kernel: Path, tmp_path: Path, digest: str) -> None:
    (tmp_path / "a.bin").write_bytes(b"a")
    flags = ["--kernel", "vadd.c", "--blob", "raw=a.bin", "--digest", digest]
    assert pack("build", *flags, "-o", "deploy.so").returncode == 0
    size = {"none": 0, "crc32": 4, "sha256": 32}[digest]
    assert len(entries(pack, "deploy.so")[1]["digest"] or "") == 2 * size


def test_the_same_inputs_give_the_same_bytes(pack, kernel: Path, tmp_path: Path) -> None:
    for seed, output in (("1", "one.so"), ("2", "two.so")):
        words = [
            "--kernel",
            "vadd.c",
            "--function",
            PROTOTYPE,
            "--blob",
            "a=vadd.c",
            "--blob",
            "b=vadd.c",
        ]
        assert pack("build", *words, "-o", output, env={"PYTHONHASHSEED": seed}).returncode == 0
    assert (tmp_path / "one.so").read_bytes() == (tmp_path / "two.so").read_bytes()


FAILURES = {
    "no output": (["--kernel", "vadd.c"], 2, "-o"),
    "stdout": (["--kernel", "vadd.c", "-o", "-"], 2, "stdout"),
    "a dialect that is none": (
        ["--kernel", "vadd.c", "--dialect", "modern", "-o", "deploy.so"],
        2,
        "modern",
    ),
    "a dialect nobody knows": (
        ["--kernel", "vadd.c", "--dialect", "old", "-o", "deploy.so"],
        2,
        "old",
    ),
    "nothing to pack": (["-o", "deploy.so"], 2, ""),
    "a blob without a file": (
        ["--kernel", "vadd.c", "--blob", "key", "-o", "deploy.so"],
        2,
        "KEY=FILE",
    ),
    "a reserved key": (
        ["--kernel", "vadd.c", "--blob", "_lib=vadd.c", "-o", "deploy.so"],
        2,
        "_lib",
    ),
    "a broken prototype": (
        ["--kernel", "vadd.c", "--function", "void vadd(", "-o", "deploy.so"],
        2,
        "vadd(",
    ),
    "a kernel that is missing": (["--kernel", "nope.c", "-o", "deploy.so"], 5, "nope.c"),
    "a payload that is missing": (
        ["--kernel", "vadd.c", "--blob", "key=nope", "-o", "deploy.so"],
        5,
        "nope",
    ),
    "weights that are missing": (
        ["--kernel", "vadd.c", "--weights", "nope", "-o", "deploy.so"],
        5,
        "nope",
    ),
    "weights that are damaged": (
        ["--kernel", "vadd.c", "--weights", "bad.c", "-o", "deploy.so"],
        1,
        "bad.c",
    ),
    "a manifest that is missing": (["nope.toml"], 5, "nope.toml"),
    "a manifest that is no TOML": (["bad.toml", "-o", "deploy.so"], 2, "bad.toml"),
    "a kernel that does not compile": (["--kernel", "bad.c", "-o", "deploy.so"], 4, "bad.c"),
    "a compiler that is missing": (
        ["--kernel", "vadd.c", "--cc", "no-such-cc", "-o", "deploy.so"],
        4,
        "no-such-cc",
    ),
    "a compiler that fails": (
        ["--kernel", "vadd.c", "--cc", "false", "-o", "deploy.so"],
        4,
        "false",
    ),
    "a folder that is missing": (["--kernel", "vadd.c", "-o", "no/such/deploy.so"], 5, "no/such"),
    "the same function twice": (
        ["--kernel", "vadd.c", "--kernel", "again.c", "-o", "deploy.so"],
        None,
        "vadd",
    ),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_failure_is_one_line_and_leaves_the_old_output_and_nothing_else(
    pack, error_line, kernel: Path, tmp_path: Path, case: str
) -> None:
    (tmp_path / "bad.c").write_text("int f(void) { return undeclared; }\n")
    (tmp_path / "bad.toml").write_text("int f(void)")
    (tmp_path / "again.c").write_text("int vadd(void) { return 0; }\n")
    (tmp_path / "deploy.so").write_bytes(b"the old one")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    before = names(tmp_path)
    arguments, code, culprit = FAILURES[case]
    done = pack("build", *arguments, env={"TMPDIR": str(scratch)})
    assert done.returncode == code if code is not None else done.returncode in (2, 4)
    assert culprit in error_line(done)
    assert done.stdout == ""
    assert (tmp_path / "deploy.so").read_bytes() == b"the old one"
    assert names(tmp_path) == before
    assert names(scratch) == []


def test_the_compiler_is_shown_with_what_it_said(pack, tmp_path: Path) -> None:
    (tmp_path / "bad.c").write_text("int f(void) { return undeclared; }\n")
    done = pack("build", "--kernel", "bad.c", "-o", "deploy.so")
    assert "command: " in done.stderr
    assert "'undeclared' undeclared" in done.stderr or "undeclared identifier" in done.stderr


def test_what_a_compiler_prints_cannot_take_over_the_terminal(
    pack, kernel: Path, tmp_path: Path
) -> None:
    compiler = tmp_path / "loud-cc"
    script = r"""#!/bin/sh
case "$*" in *-dump*|*--version*) exec cc "$@";; esac
i=0; while [ $i -lt 3000 ]; do i=$((i+1)); printf 'k.c:%d: error: \033[2J\n' $i >&2; done; exit 1
"""
    compiler.write_text(script)
    compiler.chmod(0o755)
    done = pack("build", "--kernel", "vadd.c", "--cc", compiler, "-o", "deploy.so")
    assert done.returncode == 4
    assert "\x1b" not in done.stderr
    assert r"k.c:1: error: \x1b[2J" in done.stderr
    assert r"k.c:3000: error: \x1b[2J" in done.stderr
    assert "lines left out" in done.stderr
    assert len(done.stderr.splitlines()) < 100


def test_an_object_for_another_machine_is_refused_by_name(
    pack, error_line, require, kernel: Path, tmp_path: Path
) -> None:
    compiler = require("aarch64-linux-gnu-gcc")
    subprocess.run([compiler, "-c", "-fPIC", "vadd.c", "-o", "arm.o"], cwd=tmp_path, check=True)
    done = pack("build", "--object", "arm.o", "-o", "deploy.so")
    assert done.returncode == 6
    line = error_line(done)
    assert "arm.o" in line
    assert "aarch64" in line.lower()


def test_help_says_which_dialects_are_written(pack) -> None:
    text = " ".join(pack("build", "--help").stdout.split())
    assert "classic: for TVM 0.5-0.20 (default); ffi: for TVM 0.22 and later, and tvm_ffi" in text


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_build_leaves_nothing(
    kernel: Path, tmp_path: Path, sent: signal.Signals
) -> None:
    """The compiler here sleeps, so that the signal comes in the middle of the build."""
    compiler = tmp_path / "slow-cc"
    compiler.write_text(
        '#!/bin/sh\ncase "$*" in *-dump*) exec cc "$@";; esac\ntouch started\nexec sleep 60\n'
    )
    compiler.write_text(
        compiler.read_text().replace("touch started", f"touch '{tmp_path}/started'")
    )
    compiler.chmod(0o755)
    (tmp_path / "deploy.so").write_bytes(b"the old one")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [
        sys.executable,
        "-m",
        "mblob.cli.main",
        "build",
        "--kernel",
        "vadd.c",
        "--cc",
        str(compiler),
    ]
    build = subprocess.Popen(
        [*command, "-o", "deploy.so"],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # nohup, if the tests run under it, ignores one
        preexec_fn=lambda: signal.signal(sent, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 60
    while (
        not (tmp_path / "started").exists() and time.monotonic() < deadline and build.poll() is None
    ):
        time.sleep(0.02)
    build.send_signal(sent)
    try:
        _, stderr = build.communicate(timeout=30)
    finally:
        build.kill()
    # Python ends by SIGINT itself when that came within its own exec(), of dataclasses; shells call
    # both 130.
    code = {-signal.SIGINT: 130}.get(build.returncode, build.returncode)
    assert code == {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}[sent], stderr
    assert "Traceback" not in stderr
    assert (tmp_path / "deploy.so").read_bytes() == b"the old one"
    assert names(scratch) == []
    assert names(tmp_path) == ["deploy.so", "scratch", "slow-cc", "started", "vadd.c"]


def test_a_library_that_only_tvm_can_open_is_warned_of_on_one_line(
    pack, kernel: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.bin").write_bytes(b"a" * 100)
    done = pack(
        "build", "--kernel", "vadd.c", "--blob", "raw=a.bin", "--no-index", "-o", "deploy.so"
    )
    assert (done.returncode, done.stdout) == (0, "")
    warning, wrote = done.stderr.splitlines()
    assert warning.startswith(
        "mblob-pack: warning: mblob cannot open a library that has 'raw' and no index, because"
    )
    assert wrote.startswith("wrote deploy.so: ")
    assert pack("inspect", "deploy.so").returncode == 1


def test_json_tells_what_was_written(pack, kernel: Path, tmp_path: Path) -> None:
    done = pack("build", "--kernel", "vadd.c", "-o", "deploy.so", "--json")
    size = (tmp_path / "deploy.so").stat().st_size
    assert json.loads(done.stdout) == {"schema": "mblob/build/1", "file": "deploy.so", "size": size}


@pytest.mark.parametrize("how", ["nothing", "flag", "manifest"])
def test_sharing_blocks_is_declined_by_flag_or_manifest(tmp_path: Path, how: str) -> None:
    from mblob.cli.build import make_plan
    from mblob.cli.command_line import make_parser

    (tmp_path / "m.toml").write_text('output = "o.so"\nkernels = ["vadd.c"]\nreuse = false\n')
    words = {
        "nothing": ["-o", "o.so"],
        "flag": ["-o", "o.so", "--no-reuse"],
        "manifest": [str(tmp_path / "m.toml")],
    }
    args = make_parser(["build"]).parse_args(["build", *words[how]])
    args.cflags = []
    assert make_plan(args).reuse == (how == "nothing")


def test_a_symbol_that_nothing_defines_is_named(pack, tmp_path: Path) -> None:
    (tmp_path / "u.c").write_text("void gone(void); void f(float *a) { gone(); *a = 1; }\n")
    done = pack("build", "--kernel", "u.c", "--function", "void f(float *a)", "-o", "u.so")
    assert done.returncode == 0
    assert "warning: nothing that is linked defines gone: opening the library fails" in done.stderr


@pytest.mark.parametrize("option", [["--kernel", "b.f90"], ["--kernel=b.f90"], ["b.f90"]])
def test_inputs_keep_the_order_of_the_command_line(option: list[str]) -> None:
    from mblob.cli.command_line import make_parser
    from mblob.cli.inputs import sort_words

    words = ["build", "a.f90", *option, "-o", "o.so", "--weights", "z.npz", "c.c", "y.npz"]
    args = make_parser(["build"]).parse_args(words)
    sort_words(args)
    assert (args.kernel, args.weights) == (["a.f90", "b.f90", "c.c"], ["z.npz", "y.npz"])


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["vadd.c", "vadd.c"], "vadd.c: given twice, expected each file of code once"),
        (
            ["k=a.json", "k=b.json"],
            "a.json and b.json: two files for the key 'k'; give each file",
        ),
        (["vadd.c", "bad.npz"], "bad.npz: not a .npz file; expected .safetensors, .npz, .npy"),
        (["w.npy", "w.npy"], "w.npy: given twice, expected each file of weights once"),
        (
            ["w.npy", "f/w.npz"],
            "w.npy and f/w.npz both have a tensor 'w', of which programs would find",
        ),
        (["vadd.c", "--function", "int f(int n"], "is no prototype (it ends too early)"),
        (["vadd.c", "--function", "int f(int n, $)"], "'int f(int n, $)' is no prototype ("),
        (
            ["vadd.c", "--function", "int f(float x int n)"],
            "'int' is not expected there)",
        ),
    ],
)
def test_a_mistake_in_inputs_is_told_with_what_to_do(
    pack, kernel: Path, tmp_path: Path, error_line, words: list[str], text: str
) -> None:
    (tmp_path / "bad.npz").write_text("hello")
    (tmp_path / "f").mkdir()
    np.save(tmp_path / "w.npy", np.ones(1))
    np.savez(tmp_path / "f" / "w.npz", w=np.ones(1))
    assert text in error_line(pack("build", *words, "-o", "o.so"))
    assert not (tmp_path / "o.so").exists()


def test_inputs_are_told_by_their_names_in_any_order(pack, kernel: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "p.npz", p=np.ones(2, "float32"))
    np.save(tmp_path / "q.npy", np.ones(3, "float32"))
    (tmp_path / "labels.json").write_text("[1]")
    (tmp_path / "two.c").write_text("int two(void) { return 2; }\n")
    subprocess.run(["cc", "-c", "-fPIC", "-g", "two.c"], cwd=tmp_path, check=True)
    (tmp_path / "m.toml").write_text('output = "a.so"\n[blobs]\nabout = "labels.json"\n')
    words = [
        "labels=labels.json",
        "vadd.c",
        "p.npz",
        "-o",
        "b.so",
        "q.npy",
        "-q",
        "two.o",
        "m.toml",
    ]
    assert pack("build", *words).stderr == ""
    lib = mblob.load_module(tmp_path / "b.so")
    assert sorted(lib.tensors) == ["p", "q"] and {"about", "labels"} <= set(lib.payloads)
    assert lib["two"]() == 2 and "vadd" in lib
    done = pack("build", "labels.json", "-o", "c.so")
    assert done.returncode == 2
    assert "hint: --graph labels.json, or labels=labels.json" in done.stderr


@pytest.mark.parametrize(
    ("word", "packed"),
    [
        ("W.NPZ", "w"),
        ("d=r/w.npz", "w"),
        ("w=1.npz", "w"),
        ("k=d=r/w.npz", "k"),
        ("k=l=1.json", "k"),
    ],
)
def test_capitals_and_equals_signs_in_names(pack, tmp_path: Path, word: str, packed: str) -> None:
    (tmp_path / "d=r").mkdir()
    for name in ("W.NPZ", "d=r/w.npz", "w=1.npz"):
        with (tmp_path / name).open("wb") as file:
            np.savez(file, w=np.ones(2, "float32"))
    (tmp_path / "l=1.json").write_text("[1]")
    assert pack("build", word, "-o", "a.so", "-q").stderr == ""
    lib = mblob.load_module(tmp_path / "a.so")
    assert packed in (lib.tensors if packed == "w" else lib.payloads)


def test_weights_of_one_stem(pack, tmp_path: Path, error_line) -> None:
    for folder, name in (("encoder", "e"), ("decoder", "d"), ("again", "d")):
        (tmp_path / folder).mkdir()
        np.savez(tmp_path / folder / "model.npz", **{name: np.ones(2, "float32")})
    words = ("build", "encoder/model.npz", "decoder/model.npz", "model=encoder/model.npz")
    assert pack(*words, "-o", "a.so", "-q").stderr == ""
    assert sorted(mblob.load_module(tmp_path / "a.so").tensors) == ["d", "e"]
    for verb, output in (("build", ()), ("add", ("a.so",))):
        done = pack(verb, *output, "decoder/model.npz", "again/model.npz", "-o", "b.so")
        assert done.returncode == 2
        line = error_line(done)
        assert "decoder/model.npz and again/model.npz both have a tensor 'd'" in line


def test_a_word_that_is_no_input_names_the_inputs(pack, tmp_path: Path, error_line) -> None:
    (tmp_path / "notes.txt").touch()
    done = pack("build", "notes.txt", "-o", "c.so")
    assert done.returncode == 2
    assert "notes.txt: expected a source" in error_line(done)
    assert "hint: notes=notes.txt" in done.stderr


def test_functions_that_are_left_out_are_named_beside_others_with_the_reason_where_it_says(
    pack, tmp_path: Path
) -> None:
    source = "int two(void) { return 2; }\n" + "".join(
        f"int v{i}(int n, ...) {{ return n; }}\n" for i in range(8)
    )
    (tmp_path / "k.c").write_text(source)
    done = pack("build", "k.c", "-o", "k.so")
    wrote, info = done.stderr.splitlines()
    assert wrote.endswith("1 function, 8 more plain C functions")
    assert info == (
        "mblob-pack: info: not callable: v0, v1, v2, v3, v4, v5, ...;"
        " mblob-pack inspect k.so --functions says why"
    )
    shown = pack("inspect", "k.so", "--functions").stdout.splitlines()
    assert shown[0] == "two  int two(void)  # from the source"
    assert (
        "plain int v7(int n, ...)  # from the source, not callable: it is variadic: give"
        in shown[-1]
    )
    assert pack("build", "k.c", "--function", "two", "-o", "k.so").stderr.count("\n") == 1
    done = pack("build", "k.c", "--no-functions", "-o", "k.so")
    assert "cannot call" not in done.stderr and "--function PROTOTYPE" in done.stderr
