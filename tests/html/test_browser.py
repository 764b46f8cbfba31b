"""The page in a browser: it opens without an error, asks for nothing, and can be used by pointer
and by keyboard."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from mblob.cli import inspect_text
from tests.html.browser import Page
from tests.html.conftest import MANY, host, write_weights

Write = Callable[[Path], Path]


def texts(page: Page, selector: str) -> list[str]:
    found: list[str] = page.value(
        f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.textContent)"
    )
    return found


def focus_area(page: Page, start: str) -> None:
    """Give the focus to the area whose description begins so."""
    page.value(f"document.querySelector('#bytes g.cell[aria-label^={json.dumps(start)}]').focus()")


def test_the_page_shows_all_parts_of_a_model(browser: Page, write: Write, model: Path) -> None:
    browser.open(write(model))
    assert browser.problems == []
    assert browser.value("document.title") == "model.so: mblob"
    titles = [t.partition(" (")[0] for t in texts(browser, "h2")]
    assert titles == [
        "Import tree", "Functions", "Models", "Where the bytes are", "Entries", "Tensors", "Undefined symbols",
        "Headers, byte by byte",
    ]  # fmt: skip
    with mblob.open(model) as library:
        assert texts(browser, "#entries tbody td:nth-child(2)") == [
            e.type_key for e in library.entries
        ]
        assert texts(browser, "#undefined tbody td:first-child") == [
            u.name for u in library.undefined_symbols
        ]
        assert texts(browser, "#undefined tbody td:last-child") == [
            (u.provider or "") + (" (weak)" if u.weak else "") for u in library.undefined_symbols
        ]
    assert set(texts(browser, "#tensors tbody td:first-child")) == {
        "dense.weight",
        "dense.bias",
        "a.0.w",
        "a.1.w",
    }
    assert [t.split("  ")[0] for t in texts(browser, "#tree summary")] == [
        "[0] GraphExecutorFactory",
        "[1] library",
    ]


@pytest.mark.slow
def test_the_map_opens_down_to_a_tensor_by_keyboard_and_goes_back(
    browser: Page, write: Write, model: Path
) -> None:
    browser.open(write(model))
    crumbs = "#bytes .crumb"
    assert texts(browser, crumbs) == ["file"]
    focus_area(browser, "blob ")
    browser.press("Enter")
    assert texts(browser, crumbs) == ["file", "blob __tvm_dev_mblob"]
    focus_area(browser, "[2] safetensors")
    browser.press("Enter")
    assert texts(browser, crumbs)[-1] == "[2] safetensors"
    browser.press("ArrowRight", "Home")
    assert texts(browser, "#bytes .told")[0].startswith(
        "a.0.w float32[5000]: 19.5 KiB (20,000 bytes) at 0x"
    )
    assert texts(browser, "#entries .card h3")[0] == "[2] safetensors"
    browser.press("Escape", "Escape")
    assert texts(browser, crumbs) == ["file"]
    assert browser.problems == []


def test_the_areas_of_the_map_are_as_large_as_the_bytes(
    browser: Page, write: Write, model: Path
) -> None:
    browser.open(write(model))
    cells = browser.value(
        "[...document.querySelectorAll('#bytes .map > svg > g.cell')].map((c) => [c.trail[0].size,"
        " c.firstChild.getAttribute('width') * c.firstChild.getAttribute('height')])"
    )
    size = model.stat().st_size
    total = 1160 * 520
    assert abs(sum(pixels for _, pixels in cells) - total) < total / 100
    for part, pixels in cells:
        assert pixels == pytest.approx(total * part / size, rel=0.01, abs=1)


@pytest.mark.slow
def test_ten_thousand_entries_are_found_by_sorting_and_filtering(
    browser: Page, write: Write, many: Path
) -> None:
    page = write(many)
    assert page.stat().st_size < 2_000_000
    browser.open(page)
    assert browser.problems == []
    assert browser.value("document.querySelectorAll('*').length") < 6000
    rows = "#entries tbody tr"
    assert len(texts(browser, rows)) == 100
    status = "#entries [role=status]"
    assert texts(browser, status) == [f"1 to 100 of {MANY + 1:,}"]
    browser.value(
        "[...document.querySelectorAll('#entries button')].find((b) => b.textContent === 'next').click()"
    )
    assert texts(browser, status) == [f"101 to 200 of {MANY + 1:,}"]
    browser.value(
        "[...document.querySelectorAll('#entries th button')].find((b) => b.textContent === 'bytes').click()"
    )
    assert texts(browser, "#entries tbody td:nth-child(3)")[:2] == ["900", "900"]
    browser.value("document.querySelector('#entries input').focus()")
    for letter in "kind_36":
        browser.press(letter)
    with mblob.open(many) as library:
        expected = [e for e in library.entries if e.type_key == "kind_36"]
    assert texts(browser, status) == [f"1 to 100 of {len(expected)} (filtered from {MANY + 1:,})"]
    sizes = [int(t.replace(",", "")) for t in texts(browser, "#entries tbody td:nth-child(3)")]
    assert sizes == sorted((e.size for e in expected), reverse=True)[:100]


@pytest.mark.slow
def test_the_tree_of_ten_thousand_imports_opens_by_steps(
    browser: Page, write: Write, many: Path
) -> None:
    browser.open(write(many))
    leaves = "#tree .leaf"
    assert texts(browser, leaves) == []
    browser.value("document.querySelector('#tree summary').focus()")
    browser.press("Enter")
    browser.until("document.querySelector('#tree .leaf')")
    assert len(texts(browser, leaves)) == 100
    browser.value("document.querySelector('#tree details > button').click()")
    assert len(texts(browser, leaves)) == 200


def test_bytes_of_a_header_and_its_field_light_up_together(
    browser: Page, write: Write, model: Path
) -> None:
    browser.open(write(model))
    browser.hover("#headers .hex [data-field='8']")
    assert texts(browser, "#headers .field.on") == ["e_machine0x3e: x86_64"]
    assert texts(browser, "#headers .hex .on") == ["3e 00"]
    browser.hover("#headers .field[data-field='7']")
    assert texts(browser, "#headers .hex .on") == ["03 00"]
    browser.value("document.querySelector('#headers .fields').focus()")
    browser.press("Home", "ArrowDown")
    assert texts(browser, "#headers .field.on") == ["e_ident[EI_CLASS]0x2: ELFCLASS64"]


@pytest.mark.slow
def test_the_colours_follow_the_reader_and_its_button(
    browser: Page, write: Write, model: Path
) -> None:
    page = write(model)
    ground = "getComputedStyle(document.body).backgroundColor"
    seen = []
    for scheme in ("light", "dark"):
        browser.open(page, prefers_color_scheme=scheme)
        before = browser.value(ground)
        browser.value("document.querySelector('nav button').click()")
        seen.append((before, browser.value(ground)))
    (light, darkened), (dark, lightened) = seen
    assert (light, dark) == (lightened, darkened) == ("rgb(255, 255, 255)", "rgb(20, 23, 28)")


@pytest.mark.slow
def test_it_prints_on_white_without_controls(browser: Page, write: Write, model: Path) -> None:
    browser.open(write(model), media="print", prefers_color_scheme="dark")
    assert browser.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.value("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert (
        browser.value("getComputedStyle(document.querySelector('#tree button')).display") != "none"
    )
    pdf = browser.pdf()
    assert pdf[:5] == b"%PDF-"
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 8


@pytest.mark.slow
def test_a_screenshot_has_the_colours_of_the_map(
    browser: Page, write: Write, model: Path, tmp_path: Path
) -> None:
    browser.open(write(model))
    raw = browser.screenshot(tmp_path / "model.png")
    assert raw[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", raw[16:24])
    assert width >= 1200
    assert height > 1500
    fills = browser.value(
        "[...document.querySelectorAll('#bytes svg rect')].map((r) => getComputedStyle(r).fill)"
    )
    assert {"rgb(143, 208, 165)", "rgb(143, 184, 240)"} <= set(fills)  # tensors, machine code


def test_what_a_file_says_is_text_and_never_markup(
    browser: Page, write: Write, folder: Path
) -> None:
    evil = "<img src=x onerror=alert(1)>"
    script = "</script><script>document.title='hacked'</script>"
    weights = {script: 100, "<!--<script>": 50, "\u202egnp.exe": 20, "&lt;": 7}
    root = host()
    root.import_module(mblob.blob_module(evil, b"1234"))
    root.import_module(
        mblob.safetensors_module(write_weights(folder / "evil.safetensors", weights))
    )
    path = folder / "<b>evil&amp;.so"
    root.export_library(path)
    browser.open(write(path))
    assert browser.problems == []
    assert browser.value("document.title") == "<b>evil&amp;.so: mblob"
    assert texts(browser, "h1") == ["<b>evil&amp;.so"]
    assert browser.value("document.querySelectorAll('img, b').length") == 0
    assert browser.value("document.querySelectorAll('script').length") == 2
    assert evil in texts(browser, "#entries tbody td:nth-child(2)")
    shown = {t.replace("\u202e", "\\u{202e}") for t in weights}
    assert shown == set(texts(browser, "#tensors tbody td:first-child"))


@pytest.mark.slow
def test_the_page_counts_as_the_command_does(
    browser: Page, write: Write, folder: Path, model: Path
) -> None:
    browser.open(write(model))
    with mblob.open(model) as library:
        lines = list(inspect_text.lines(library))
    for title, word in (("Functions", "functions"), ("Undefined symbols", "undefined")):
        (said,) = (t for t in texts(browser, "h2") if t.startswith(title))
        (told,) = (line.split()[1] for line in lines if line.startswith(f"  {word} "))
        assert re.findall(r"\d+", said)[0] == told, said
    assert texts(browser, "#functions tbody td:nth-child(2)") == ["packed, plain"]


@pytest.mark.slow
def test_what_is_no_tensor_has_its_name_on_the_map_or_a_telling_part_of_it(
    browser: Page, write: Write, folder: Path, model: Path
) -> None:
    cells = """[...document.querySelectorAll('#bytes .map g.cell')].map((cell) => [
        cell.getAttribute('aria-label'), (cell.querySelector(':scope > text') || {}).textContent || ''])"""
    for width in (500, 900, 1280):
        browser.open(write(model), width=width, height=800)
        for said, label in browser.value(cells):
            if not label or " float32" in said or "tensors" in said:
                continue
            start, _, end = label.partition("…")
            whole = said.startswith((f"{label}: ", f"{label} ", f"rest of .{label[4:]}"))
            kept = len(start or end)
            assert whole or label == "rest" or ("…" in label and kept >= 8), (label, said)


@pytest.mark.slow
def test_the_text_of_a_payload_is_shown_in_part_and_as_text(
    browser: Page, write: Write, folder: Path
) -> None:
    evil = '{"a": "</script><b>\u202e", "tab":\t1}\n second line\n'
    root = host()
    root.import_module(mblob.blob_module("config", evil.encode()))
    root.import_module(mblob.blob_module("long", "é".encode() * 5000))
    root.import_module(mblob.blob_module("binary", b"abc\0def"))
    root.import_module(mblob.blob_module("latin", b"caf\xe9"))
    root.export_library(folder / "texts.so")
    browser.open(write(folder / "texts.so"))
    shown = {}
    for i, key in enumerate(texts(browser, "#entries tbody td:nth-child(2)")):
        browser.value(f"document.querySelectorAll('#entries tbody button')[{i}].click()")
        shown[key] = browser.value(
            "(document.querySelector('.card pre') || {}).textContent || null"
        )
        if key == "long":
            assert "5,904 bytes more" in texts(browser, ".card")[0]
    assert shown == {
        "library": None,
        "binary": None,
        "latin": None,
        "long": "é" * 2048,
        "config": '{"a": "</script><b>\\u{202e}", "tab":  1}\n second line\n',
    }
    assert browser.value("document.querySelectorAll('b').length") == 0
    assert browser.problems == []


def test_the_map_of_a_model_shows_layers_at_first_sight(
    browser: Page, write: Write, folder: Path
) -> None:
    """Levels that have one part only are one level; names inside of an area leave out what that
    says already."""
    names = ("attn.qkv.weight", "attn.out.weight", "norm.bias")
    parts = {f"model.layers.{i}.{name}": 4000 for i in range(8) for name in names}
    weights = write_weights(folder / "layers.safetensors", parts)
    root = host()
    root.import_module(mblob.safetensors_module(weights))
    root.export_library(folder / "layers.so", digest="none")
    browser.open(write(folder / "layers.so"), width=1920, height=1080)
    shown = set(texts(browser, "#bytes .map text"))
    assert {"model.layers", *(f"model.layers.{i}" for i in range(8)), "norm.bias"} <= shown
    assert "model" not in shown
    focus_area(browser, "model.layers.3.norm.bias ")
    browser.press("Enter")
    assert texts(browser, "#bytes .crumb")[-2:] == ["model.layers", "model.layers.3"]
    browser.press("End")
    assert texts(browser, "#bytes .told")[0].startswith(
        "model.layers.3.norm.bias float32[4000]: 15.6 KiB"
    )
    assert browser.problems == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [600, 1280, 1920])
def test_names_of_any_length_and_script_stay_inside_their_places(
    browser: Page, write: Write, folder: Path, width: int
) -> None:
    names = [
        "W" * 300,
        "\u6f22" * 80,
        "\U0001f600" * 60,
        "\u0301" * 40,
        "a" + "\u0301" * 5,
        "\u202egnp.exe",
    ]
    params = {name: memoryview(bytes(4000)).cast("f") for name in names}
    graph = '{"nodes": [], "arg_nodes": [], "heads": [], "node_row_ptr": [0], "attrs": {}}'
    root = mblob.graph_executor_factory(graph, params)
    library = host()
    library.import_module(mblob.blob_module("k" * 3000, b"z" * 400))
    record = mblob.save_param_dict({"w": memoryview(bytes(4000)).cast("f")})[
        8 + 8 + 8 + 8 + 1 + 8 :
    ]
    empty = struct.pack("<QQQ", 1, 0, 1) + record + struct.pack("<QQ", 0, 0)  # a name of TVM's
    library.import_module(mblob.blob_module("const_loader", empty))
    root.import_module(library)
    root.export_library(folder / "names.so")
    browser.open(write(folder / "names.so"), width=width, height=800)
    assert browser.problems == []
    assert browser.value(
        "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    )
    over = """[...document.querySelectorAll('#bytes .map g.cell')].filter((cell) => [...cell.children].some((child) =>
        child.tagName === 'text' &&
        child.getBoundingClientRect().right > cell.firstChild.getBoundingClientRect().right + 1
    )).map((cell) => cell.getAttribute('aria-label'))"""
    assert browser.value(over) == []
    tensors = texts(browser, "#tensors tbody td:first-child")
    assert '""' in tensors and "\\u{301}" * 40 in tensors
    assert "a\u0301\u0301\u0301\\u{301}\\u{301}" in tensors


@pytest.mark.slow
def test_large_payloads_cost_nothing(browser: Page, write: Write, folder: Path) -> None:
    """5 GiB of weights, sparse: the page has their headers alone."""
    each = 5 << 28  # bytes of one of four tensors
    weights = write_weights(
        folder / "huge.safetensors", {f"layer.{i}": each // 4 for i in range(4)}
    )
    root = host()
    root.import_module(mblob.safetensors_module(weights))
    path = folder / "huge.so"
    root.export_library(path, digest="none")
    try:
        page = write(path)
        assert page.stat().st_size < 200_000
        browser.open(page)
        assert browser.problems == []
        assert texts(browser, "#tensors tbody td:nth-child(3)") == [f"{each:,}"] * 4
        assert browser.value("document.querySelector('#bytes g.cell').trail[0].size") > 5 << 30
    finally:
        path.unlink()
        weights.unlink()


@pytest.mark.slow
def test_every_golden_library_opens(browser: Page, write: Write, golden: Path) -> None:
    libraries = [*sorted(golden.glob("*.so")), *sorted((golden / "ffi").glob("*.so"))]
    assert len(libraries) > 10
    for library in libraries:
        browser.open(write(library))
        assert browser.problems == [], library
        with mblob.open(library) as opened:
            assert texts(browser, "#entries tbody td:nth-child(2)") == [
                e.type_key for e in opened.entries
            ]
