"""Names of machines, and which files are for them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import mblob
from mblob.binary.elf_records import MACHINES
from mblob.binary.machine_names import fits, known_names, machine_of
from mblob.cli.main import main

USED = {
    "arm64": ("aarch64", 64, "little"), "AMD64": ("x86_64", 64, "little"), "x64": ("x86_64", 64, "little"),
    "x86-64": ("x86_64", 64, "little"), "x86_64": ("x86_64", 64, "little"), "ppc64le": ("ppc64", 64, "little"),
    "riscv64": ("riscv", 64, "little"), "armhf": ("arm", 32, "little"), "i386": ("i386", 32, "little"),
    "i686": ("i386", 32, "little"), "s390x": ("s390x", 64, "big"), "mipsel": ("mips", 32, "little"),
}  # fmt: skip


@pytest.mark.parametrize("name", USED)
def test_names_that_people_use(name: str) -> None:
    wanted = machine_of(name)
    assert wanted is not None
    assert fits(wanted, *USED[name])
    assert name.lower().replace("-", "_") in known_names().replace("-", "_")
    for other in USED.values():
        assert fits(wanted, *other) == (other == USED[name])


def test_bits_and_byte_order_are_part_of_some_names() -> None:
    little, plain, wide = machine_of("ppc64le"), machine_of("ppc64"), machine_of("riscv64")
    assert little and plain and wide
    assert not fits(little, "ppc64", 64, "big") and fits(plain, "ppc64", 64, "big")
    # as PE files call it
    assert not fits(wide, "riscv", 32, "little") and fits(wide, "riscv64", 64, "little")
    assert machine_of("") is None and machine_of("pentium") is None


def test_each_name_of_a_file_for_a_processor_is_known() -> None:
    assert {m for m in MACHINES.values() if machine_of(m) is None} == {"cuda", "amdgpu", "bpf"}


def test_what_is_not_for_the_machine_is_refused(
    cc, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = cc("int __tvm_module_ctx; int f(void) { return 0; }", tmp_path / "here.so")
    with mblob.open(path) as lib:
        own = lib.target["machine"]
    other = "s390x" if own != "s390x" else "amd64"
    assert main(["inspect", str(path), "--machine", own]) == 0
    capsys.readouterr()
    assert main(["inspect", str(path), "--machine", other]) == 2
    assert f"for {own}, " in (said := capsys.readouterr().err) and f"not {other}" in said
    assert main(["inspect", str(path), "--machine", "pentium"]) == 2
    assert (
        "no machine is called 'pentium'; known are x86_64 (x86-64, amd64" in capsys.readouterr().err
    )


def test_members_of_archives(cc, tmp_path: Path) -> None:
    compiler = "aarch64-linux-gnu-gcc"
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    (tmp_path / "k.c").write_text("int __tvm_module_ctx; int f(void) { return 0; }")
    subprocess.run([compiler, "-c", tmp_path / "k.c", "-o", tmp_path / "k.o"], check=True)
    subprocess.run(["ar", "rcs", tmp_path / "k.a", tmp_path / "k.o"], check=True)
    with mblob.open(tmp_path / "k.a", machine="arm64") as lib:
        assert lib.functions == ["f"]
    with pytest.raises(
        mblob.FormatError, match=r"k\.a\(k\.o\): for aarch64, 64 bits, little endian, not amd64"
    ):
        mblob.open(tmp_path / "k.a", machine="amd64")


def test_python_opens_what_is_no_model_library_and_says_so(cc, tmp_path: Path) -> None:
    path = cc("int f(void) { return 0; }", tmp_path / "plain.so")
    with mblob.open(path) as lib:
        assert (lib.is_model_library, lib.dialect, lib.functions) == (False, None, ["f"])
        assert [d["code"] for d in lib.diagnostics if d["code"] == "no_model"] == ["no_model"]
        for refuses in (lib.require_model, lib.verify, lambda: mblob.verify(path)):
            with pytest.raises(
                mblob.FormatError, match=r"plain\.so: not a model library"
            ) as caught:
                refuses()
            assert (caught.value.code, caught.value.exit_code) == ("no_blob", 3)
    assert [main([verb, str(path)]) for verb in ("inspect", "verify")] == [3, 3]
    model = cc("int __tvm_module_ctx; int f(void) { return 0; }", tmp_path / "model.so")
    with mblob.open(model) as lib:
        lib.require_model()
        assert lib.is_model_library and lib.diagnostics == []
