"""Labels of the map: they tell an area from those beside it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from tests.html.browser import Page
from tests.html.conftest import host, write_weights
from tests.html.test_browser import focus_area, texts

Write = Callable[[Path], Path]


def show_weights(
    browser: Page, write: Write, folder: Path, name: str, tensors: dict[str, int]
) -> None:
    """Open the page of a library with these float32 tensors, by numbers of elements."""
    root = host()
    root.import_module(
        mblob.safetensors_module(write_weights(folder / f"{name}.safetensors", tensors))
    )
    root.export_library(folder / f"{name}.so", digest="none")
    browser.open(write(folder / f"{name}.so"), width=1280, height=800)
    assert browser.problems == []


@pytest.mark.slow
def test_equal_tensors_show_the_number_that_differs(
    browser: Page, write: Write, folder: Path
) -> None:
    tensors = {f"layers.{i}.self_attn.q_proj.weight": 10_000 for i in range(320)}
    show_weights(browser, write, folder, "equal", tensors)
    shown = texts(browser, "#bytes .map text")
    assert {t for t in shown if t.isdigit()} == {str(i) for i in range(320)}
    assert "layers: 320 tensors *.self_attn.q_proj.weight" in shown
    assert any(t.startswith("70 tensors layers.250-319") for t in shown)
    colours = browser.value(
        "['group', 'rest', 'tensor'].map((kind) => getComputedStyle(document.querySelector("
        "`#bytes .legend rect.${kind}`)).fill)"
    )
    assert len(set(colours)) == 3
    assert browser.value("document.querySelectorAll('#bytes .map g.cell.group').length") == 1
    focus_area(browser, "70 tensors layers.250-319")
    browser.press("Enter")
    opened = texts(browser, "#bytes .map text")
    assert all(any(str(i) in re.findall(r"\d+", t) for t in opened) for i in range(250, 320))


@pytest.mark.slow
def test_numbers_in_one_name_of_many_are_not_taken_apart(
    browser: Page, write: Write, folder: Path
) -> None:
    show_weights(browser, write, folder, "flat", {f"block_{i}_kernel": 50_000 for i in range(700)})
    shown = texts(browser, "#bytes .map text")
    numbers = {t for t in shown if t.isdigit()}
    assert len(numbers) > 300
    assert numbers <= {str(i) for i in range(700)}
    assert any(re.match(r"2\d\d tensors block_250-499", t) for t in shown)


def test_the_map_of_a_language_model_has_names_before_types(
    browser: Page, write: Write, folder: Path
) -> None:
    tensors = {
        "model.embed_tokens.weight": 320_000,
        "model.norm.weight": 40,
        "lm_head.weight": 320_000,
    }
    for i in range(32):
        for part, count in (
            ("self_attn.q_proj", 16_000),
            ("self_attn.k_proj", 16_000),
            ("self_attn.v_proj", 16_000),
            ("self_attn.o_proj", 16_000),
            ("mlp.gate_proj", 43_000),
            ("mlp.up_proj", 43_000),
            ("mlp.down_proj", 43_000),
            ("input_layernorm", 40),
            ("post_attention_layernorm", 40),
        ):
            tensors[f"model.layers.{i}.{part}.weight"] = count
    show_weights(browser, write, folder, "llm", tensors)
    shown = texts(browser, "#bytes .map text")
    assert {f"model.layers.{i}" for i in range(32)} <= set(shown)
    for name in ("embed_tokens", "lm_head"):
        assert any(t.startswith(name) for t in shown), name
    for start in ("up", "down", "gate", "q", "k", "v", "o"):
        assert (
            sum(t.startswith((f"{start}_proj", f"{start}…", f"{start}_")) for t in shown) == 32
        ), start
    assert not [t for t in shown if re.match(r"b?float?\w*…", t)]


@pytest.mark.filterwarnings("ignore::mblob.HiddenNameWarning")
def test_the_entries_of_a_group_are_counted_with_the_empty_ones(
    browser: Page, write: Write, folder: Path
) -> None:
    root = host()
    for i in range(400):
        root.import_module(mblob.blob_module(f"key_{i % 2}", b"" if i % 20 == 0 else b"x" * 5000))
    root.export_library(folder / "empty.so")
    browser.open(write(folder / "empty.so"), width=1280, height=800)
    told = browser.value(
        "[...document.querySelectorAll('#bytes g.cell')].map((c) => c.getAttribute('aria-label'))"
    )
    assert [t.split(": ")[0] for t in told if t.startswith("key_")] == [
        "key_1 200 entries",
        "key_0 200 entries, 20 of them empty",
    ]
    assert {"key_1: 200 entries", "key_0: 200 entries, 20 of them empty"} <= set(
        texts(browser, "#bytes .map text")
    )
