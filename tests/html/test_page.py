"""The page as text: what is in it, what must not be, its size, and that every byte of a header is
named and right."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

import mblob
from mblob.format import index
from mblob.inspect.html import areas, data, headers, json_for_html
from mblob.inspect.html.areas import Area, lay_out
from tests.html.conftest import host
from tests.loader.payloads import unread_module

DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


def page_of(path: Path) -> str:
    with mblob.open(path) as library:
        return library.to_html()


def data_of(page: str) -> dict[str, Any]:
    (text,) = DATA.findall(page)
    found: dict[str, Any] = json.loads(text)
    return found


def inspect(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mblob.cli.main", "inspect", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True)


def test_the_policy_allows_the_page_its_own_style_and_script_alone(model: Path) -> None:
    page = page_of(model)
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    allowed = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert allowed["default-src"] == "'none'"
    for name, pattern in (
        ("style", r"<style>(.*?)</style>"),
        ("script", r"<script>(.*?)</script>"),
    ):
        (text,) = re.findall(pattern, page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert allowed[f"{name}-src"] == f"'sha256-{digest}'"
    assert set(re.findall(r"https?://[^\s\"']+", page)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(
        r"\b(innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval|Function)\b", page
    )


def test_the_same_file_gives_the_same_page_without_any_payload(model: Path) -> None:
    page = page_of(model)
    assert page == page_of(model)
    assert "ee" * 16 not in page  # the payload of my_key
    assert DATA.findall(page)[0].isascii()


def test_a_table_says_how_many_rows_the_page_leaves_out(model: Path) -> None:
    tables = data_of(page_of(model))
    assert tables["functions"]["rows"]
    assert [tables[name]["left_out"] for name in ("functions", "undefined", "remarks")] == [0, 0, 0]
    assert data.limited([1, 2, 3], 2) == {"rows": [1, 2], "left_out": 1}


@pytest.mark.parametrize(
    "text", ["</script>", "<!--", "-->", "]]>", "\u2028", "&amp;", "\ud800", "é\x00"]
)
def test_json_in_html_neither_ends_a_script_nor_loses_a_character(text: str) -> None:
    written = json_for_html({text: [text]})
    assert not set("<>&") & set(written)
    assert written.isascii()
    assert json.loads(written) == {text: [text]}


def test_every_byte_of_a_header_is_named_once_and_is_the_byte_of_the_file(
    model: Path, golden: Path
) -> None:
    for path in (model, *golden.glob("*.so"), *(golden / "ffi").glob("*.so")):
        raw = path.read_bytes()
        seen = set()
        for group in data_of(page_of(path))["headers"]:
            seen.add(group["title"])
            assert group["left_out"] == 0
            for title, offset, digits, fields in group["blocks"]:
                block = bytes.fromhex(digits)
                assert raw[offset : offset + len(block)] == block, (path, title)
                ends = [0, *(start + size for start, size, _, _ in fields)]
                assert ends[:-1] == [start for start, _, _, _ in fields]
                assert ends[-1] == len(block)
        with mblob.open(path) as library:
            parts = {"Blob"} if library.blob else set()
            parts |= {"Items", "Import tree"} if len(library.entries) > 1 else set()
        assert {"ELF header", "Program headers", "Section headers"} | parts <= seen, path


def fields_of(page: str, group: str, block: int = 0) -> dict[str, str]:
    groups = {g["title"]: g for g in data_of(page)["headers"]}
    return {name: says for _, _, name, says in groups[group]["blocks"][block][3]}


def test_fields_say_what_an_independent_reader_finds(model: Path) -> None:
    page = page_of(model)
    with model.open("rb") as file:
        elf = ELFFile(file)
        found = fields_of(page, "ELF header")
        for name in ("e_phoff", "e_shoff", "e_phnum", "e_shnum", "e_shstrndx"):
            assert int(found[name].split()[0], 0) == elf.header[name]
        for i, segment in enumerate(elf.iter_segments()):
            says = fields_of(page, "Program headers", i)
            for name in ("p_offset", "p_vaddr", "p_filesz", "p_memsz", "p_align"):
                assert int(says[name].split()[0], 0) == segment[name]
            assert segment["p_type"] == says["p_type"].split(": ")[1]
        for i, section in enumerate(elf.iter_sections()):
            says = fields_of(page, "Section headers", i)
            for name in (
                "sh_addr",
                "sh_offset",
                "sh_size",
                "sh_link",
                "sh_info",
                "sh_entsize",
                "sh_addralign",
            ):
                assert int(says[name].split()[0], 0) == section[name]
    with mblob.open(model) as library:
        blob = library.blob
        assert blob is not None
        assert fields_of(page, "Blob")["N: bytes that follow"].split()[1] == f"({blob.size - 8})"
        footer = fields_of(page, "Footer")
        assert footer["blob_size"] == str(blob.size)
        assert footer["magic"] == repr(index.MAGIC.decode())
        for i, e in enumerate(library.entries):
            record = fields_of(page, "Index records", i)
            assert record["payload size"] == str(e.size)
            assert record["digest"] == (e.digest.hex() or "zeros")
            assert fields_of(page, "Items", i)["key"] == (
                "_lib" if e.offset is None else e.type_key
            )
        child = {k: v for b in (1, 2) for k, v in fields_of(page, "Import tree", b).items()}
        imports = [i for e in library.entries for i in e.imports]
        assert [int(child[f"child[{i}]"]) for i in range(len(imports))] == imports


@pytest.mark.parametrize(
    "compiler", ["arm-linux-gnueabihf-gcc", "s390x-linux-gnu-gcc", "aarch64-linux-gnu-gcc"]
)
def test_headers_of_other_machines_are_read_in_their_own_order(
    require, tmp_path: Path, compiler: str
) -> None:
    path = tmp_path / "other.so"
    source = tmp_path / "k.c"
    source.write_text("int __tvm_main__(void) { return 1; }")
    subprocess.run(
        [require(compiler), "-shared", "-nostdlib", str(source), "-o", str(path)], check=True
    )
    page = page_of(path)
    with path.open("rb") as file:
        elf = ELFFile(file)
        says = fields_of(page, "ELF header")
        assert int(says["e_shoff"].split()[0], 0) == elf.header["e_shoff"]
        for i, segment in enumerate(elf.iter_segments()):
            assert (
                int(fields_of(page, "Program headers", i)["p_vaddr"].split()[0], 0)
                == segment["p_vaddr"]
            )


def flat(rows: list[list[Any]]) -> list[list[Any]]:
    return [r for row in rows for r in (row, *flat(row[5] if len(row) > 5 else []))]


def test_the_areas_of_a_file_are_all_of_its_bytes(model: Path, many: Path, golden: Path) -> None:
    for path in (model, many, *golden.glob("*.so"), *(golden / "ffi").glob("*.so")):
        found = data_of(page_of(path))
        blob = found["blob"]["size"] if found["blob"] else 0
        assert sum(row[2] for row in found["areas"]) + blob == path.stat().st_size, path
        for row in flat(found["areas"]):
            assert sum(child[2] for child in (row[5] if len(row) > 5 else [])) <= row[2]
    names = {row[0] for row in flat(data_of(page_of(model))["areas"])}
    assert {".text", "twice", ".dynsym", "ELF header", "section headers"} <= names


def test_overlapping_claims_are_counted_once() -> None:
    chance = random.Random(7)
    for _ in range(300):
        end = chance.randrange(1, 2000)
        claims = [
            Area(str(i), chance.randrange(2500), chance.choice([0, 1, 50, 3000, 1 << 63]), "data")
            for i in range(chance.randrange(12))
        ]
        first = chance.randrange(end + 1)
        left_out = range(first, chance.randrange(first, end + 1))
        bytes_seen = [0] * end
        for a in lay_out(claims, end, left_out):
            assert a.offset is not None
            for k in range(a.offset, a.offset + a.size):
                bytes_seen[k] += 1
        assert bytes_seen == [0 if k in left_out else 1 for k in range(end)]


@pytest.mark.slow
def test_lists_end_and_say_what_they_leave_out(
    monkeypatch: pytest.MonkeyPatch, model: Path, many: Path
) -> None:
    monkeypatch.setattr(data, "ENTRIES", 50)
    monkeypatch.setattr(data, "ROWS", 1)
    monkeypatch.setattr(headers, "LIMIT", 5)
    monkeypatch.setattr(areas, "SECTION_LIMIT", 3)
    found = data_of(page_of(many))
    assert len(found["entries"]) == 50
    with mblob.open(many) as library:
        assert found["hidden"] == [9951, sum(e.size for e in library.entries[50:])]
    assert found["entries"][0][4] == 10_000
    assert set(found["entries"][0][3]) <= set(range(50))
    assert [found[k]["left_out"] for k in ("kernels", "functions", "undefined", "remarks")] == [
        0,
        0,
        0,
        0,
    ]
    assert data.limited([3, 4, 5], 1) == {"rows": [3], "left_out": 2}
    items = next(g for g in found["headers"] if g["title"] == "Items")
    assert (len(items["blocks"]), items["left_out"]) == (5, 9996)
    assert sum(row[2] for row in found["areas"]) + found["blob"]["size"] == many.stat().st_size
    assert len(found["areas"]) == 4
    monkeypatch.setattr(data, "PARTS", 2)
    found = data_of(page_of(model))
    assert found["parts_left_out"] > 0
    assert {p[0] for row in found["entries"] for p in row[8]} == {"a.0.w", "a.1.w"}


def test_what_is_inside_of_parts_is_bounded_too(
    monkeypatch: pytest.MonkeyPatch, golden: Path
) -> None:
    whole = data_of(page_of(golden / "vm_mlp.so"))
    (inside,) = (part[5] for part in whole["entries"][0][8] if part[0] == "code")
    assert len(inside) == 15
    monkeypatch.setattr(data, "PARTS", 16)  # 2 parts, and less than all constants
    monkeypatch.setattr(areas, "SYMBOL_LIMIT", 4)
    cut = data_of(page_of(golden / "vm_mlp.so"))
    assert [part[:3] for part in cut["entries"][0][8]] == [
        part[:3] for part in whole["entries"][0][8]
    ]
    assert cut["parts_left_out"] == 15
    assert len(flat(cut["areas"])) < len(flat(whole["areas"]))


def test_long_names_are_cut(tmp_path: Path) -> None:
    root = host()
    for i in range(30):
        root.import_module(mblob.blob_module("k" * 3990 + f"{i:03}", b"1"))
    root.export_library(tmp_path / "long.so")
    assert len(page_of(tmp_path / "long.so")) < 200_000


def test_a_payload_that_breaks_its_grammar_is_shown_with_what_is_wrong(tmp_path: Path) -> None:
    root = host()
    root.import_module(unread_module("cuda", b"\xff" * 40))
    root.export_library(tmp_path / "odd.so")
    found = data_of(page_of(tmp_path / "odd.so"))
    row = found["entries"][1]
    assert row[8] == []
    assert "cuda" in row[9]
    assert found["remarks"]["rows"]


def test_hostile_section_headers_cost_one_page(model: Path, tmp_path: Path) -> None:
    """Sections that overlap, lie outside of the file or have names outside of their strings."""
    raw = bytearray(model.read_bytes())
    with model.open("rb") as file:
        elf = ELFFile(file)
        at, count, size = elf.header["e_shoff"], elf.header["e_shnum"], len(raw)
    chance = random.Random(3)
    for _ in range(60):
        broken = bytearray(raw)
        for _ in range(6):
            place = at + 64 * chance.randrange(count) + chance.choice([0, 4, 8, 16, 24, 32, 40])
            broken[place : place + 8] = chance.choice(
                [0, 1, size, 1 << 63, (1 << 64) - 1]
            ).to_bytes(8, "little")
        path = tmp_path / "broken.so"
        path.write_bytes(broken)
        try:
            found = data_of(page_of(path))
        except mblob.FormatError:
            continue
        assert sum(row[2] for row in found["areas"]) + found["blob"]["size"] == size


# -- the command line ------------------------------------------------------------------------------


def test_inspect_writes_the_page_to_a_file_or_to_stdout(model: Path, tmp_path: Path) -> None:
    done = inspect(model, "--html", "report.html", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    page = (tmp_path / "report.html").read_text()
    assert page == page_of(model)
    assert inspect(model, "--html", "-", cwd=tmp_path).stdout == page
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_inspect_refuses_to_replace_the_library_with_its_page(model: Path, tmp_path: Path) -> None:
    raw = model.read_bytes()
    (tmp_path / "same.html").symlink_to(model)
    for out, message in (
        (model, "the library itself"),
        ("same.html", "the library itself"),
        ("", "expected the name"),
    ):
        done = inspect(model, "--html", out, cwd=tmp_path)
        assert done.returncode == 2
        assert message in done.stderr
    assert model.read_bytes() == raw


def test_inspect_leaves_what_is_there_when_it_fails(model: Path, tmp_path: Path) -> None:
    (tmp_path / "old.html").write_text("old")
    (tmp_path / "no.so").write_bytes(b"\x7fELF no")
    assert inspect("no.so", "--html", "old.html", cwd=tmp_path).returncode in (1, 3)
    assert (tmp_path / "old.html").read_text() == "old"
    done = inspect(model, "--html", tmp_path, cwd=tmp_path)
    assert done.returncode == 5
    assert str(tmp_path) in done.stderr
    assert inspect(model, "--html", "no/where.html", cwd=tmp_path).returncode == 5


def test_a_library_that_is_read_in_part_gives_a_page_and_exit_code_1(tmp_path: Path) -> None:
    root = host()
    root.import_module(mblob.blob_module("nobody_knows", b"1234"))
    with pytest.warns(mblob.UnreadableWarning):
        root.export_library(tmp_path / "part.so", index=False)
    done = inspect("part.so", "--html", "part.html", cwd=tmp_path)
    assert done.returncode == 1
    assert "nobody_knows" in done.stderr
    found = data_of((tmp_path / "part.html").read_text())
    assert found["remarks"]["rows"][0][0] == "error"
