"""`inspect` and `verify` say the same of a file: what one names as damage the other does not call
sound."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

import mblob

GOLDEN = (
    "aot_mlp", "dag", "dnnl_c_lib", "dnnl_llvm_factory", "mlp_c", "mlp_llvm", "opencl_llvm", "vm_mlp", "ffi/metal",
    "ffi/relax_c", "ffi/webgpu",
)  # fmt: skip
FLIPS = 40


def problem_for_inspect(path: Path) -> str | None:
    """What kept a part of the blob from being read."""
    try:
        with mblob.open(path, partial=True) as lib:
            problems = [lib.problem, *(e.content.problem for e in lib.entries)]
            return next((str(p) for p in problems if p is not None), None)
    except mblob.MblobError as error:
        return str(error)


def problem_for_verify(path: Path) -> str | None:
    try:
        mblob.verify(path)
    except mblob.MblobError as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", GOLDEN)
def test_no_flipped_bit_is_damage_for_inspect_alone(
    golden: Path, tmp_path: Path, name: str
) -> None:
    data = (golden / f"{name}.so").read_bytes()
    assert (
        problem_for_inspect(golden / f"{name}.so") is None
        and problem_for_verify(golden / f"{name}.so") is None
    )
    with mblob.open(golden / f"{name}.so") as lib:
        assert lib.blob is not None
        start, size = lib.blob_offset, lib.blob.size
    choice = random.Random(name)
    copy = tmp_path / "flipped.so"
    for _ in range(FLIPS):
        flipped = bytearray(data)
        at, bit = start + choice.randrange(size), choice.randrange(8)
        flipped[at] ^= 1 << bit
        copy.write_bytes(flipped)
        shown = problem_for_inspect(copy)
        assert shown is None or problem_for_verify(copy) is not None, (at, bit, shown)


def test_a_graph_that_is_none_is_named_by_its_entry(golden: Path, tmp_path: Path, pack) -> None:
    data = bytearray((golden / "mlp_c.so").read_bytes())
    data[0x2077] ^= 1 << 4
    (tmp_path / "g.so").write_bytes(data)
    with pytest.raises(
        mblob.FormatError, match=r"entry 0 .GraphExecutorFactory. .*its graph is no JSON"
    ) as caught:
        mblob.verify(tmp_path / "g.so")
    assert (caught.value.code, caught.value.entry) == ("payload", 0)
    done = pack("verify", tmp_path / "g.so", "--json")
    assert (done.returncode, json.loads(done.stdout)["ok"]) == (1, False)


@pytest.mark.parametrize(
    ("name", "key"), [("ffi/relax_c", "relax.VMExecutable"), ("vm_mlp", "VMExecutable")]
)
@pytest.mark.parametrize("head", [b"junk", b"\x1d\x51\x21\x42\x2f\xde\x25\xd2"])
def test_swap_refuses_an_executable_that_is_none(
    golden: Path, tmp_path: Path, name: str, key: str, head: bytes
) -> None:
    payload = head if name.startswith("ffi") else struct.pack("<Q", len(head)) + head
    with pytest.raises(mblob.FormatError, match=f"the new payload of .*{key}"):
        mblob.swap(golden / f"{name}.so", {key: payload}, tmp_path / "j.so")
    assert not (tmp_path / "j.so").exists()


def test_keys_of_which_nothing_is_known_are_said_to_be_unchecked(
    deploy: Path, golden: Path, pack
) -> None:
    assert [e.walked for e in mblob.verify(deploy).entries] == [False]
    assert "content not checked (unknown key)" in pack("verify", deploy).stdout
    assert "not checked" not in pack("verify", golden / "mlp_c.so").stdout


# -- section headers -------------------------------------------------------------------------------


def damaged_headers(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Copies of a 64-bit little-endian file with one field of its section headers, or of what says
    where they are, wrong."""
    (table,), (count,) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<H", data, 60)
    places = [("e_shentsize", 58, b"\0\0"), ("e_shstrndx", 62, b"\1\0")]
    fields = (
        ("sh_name", 0, 4),
        ("sh_type", 4, 4),
        ("sh_offset", 24, 8),
        ("sh_size", 32, 8),
        ("sh_link", 40, 4),
    )
    for number in range(1, count):
        for name, offset, width in fields:
            at = table + 64 * number + offset
            places += [
                (f"{number}.{name}", at, value.to_bytes(width, "little")) for value in (1, 1 << 31)
            ]
    for name, at, value in places:
        yield name, data[:at] + value + data[at + len(value) :]


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["mlp_c", "ffi/relax_c"])
def test_damaged_section_headers_keep_nobody_from_the_rest(
    golden: Path, tmp_path: Path, name: str
) -> None:
    with mblob.open(golden / f"{name}.so") as lib:
        whole, functions = [e.size for e in lib.entries], lib.functions
    copy = tmp_path / "sections.so"
    remarked = 0
    for field, data in damaged_headers((golden / f"{name}.so").read_bytes()):
        copy.write_bytes(data)
        with mblob.open(copy) as lib:
            report = lib.to_json()
            assert ([e["size"] for e in report["entries"]], report["functions"]) == (
                whole,
                functions,
            ), field
            assert lib.to_html()
        codes = {d["code"] for d in report["diagnostics"]}
        found = mblob.verify(copy)
        assert ("section_headers" in codes) == bool(found.warnings), field
        remarked += bool(found.warnings)
    assert remarked > 30


@pytest.mark.parametrize(("at", "value"), [(58, b"\0\0"), (None, (1 << 31).to_bytes(4, "little"))])
def test_both_verbs_tell_of_damaged_section_headers(
    golden: Path, tmp_path: Path, pack, at: int | None, value: bytes
) -> None:
    data = bytearray((golden / "mlp_c.so").read_bytes())
    start = struct.unpack_from("<Q", data, 40)[0] + 64 if at is None else at
    data[start : start + len(value)] = value
    (tmp_path / "s.so").write_bytes(data)
    for verb in ("inspect", "verify"):
        done = pack(verb, tmp_path / "s.so")
        assert (done.returncode, done.stderr) == (0, ""), verb
        assert (
            "warning: its section headers are damaged" in done.stdout
            and done.stdout.count("[section_headers]") == 1
        )
        assert "GraphExecutorFactory" in done.stdout
    (warning,) = json.loads(pack("verify", tmp_path / "s.so", "--json").stdout)["warnings"]
    assert warning["code"] == "section_headers"
