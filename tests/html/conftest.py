"""Libraries to show, and a browser to show them in."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import mblob
from tests.html.browser import Browser, Page

MANY = 10_000


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("html")


def host() -> mblob.Module:
    return mblob.csource_module(
        "int twice(int x) { return 2 * x; }", functions=["int twice(int x)"]
    )


@pytest.fixture(scope="session")
def model(folder: Path) -> Path:
    """A graph of two tensors over a host function, with weights and bytes of its own beside it."""
    graph = json.dumps(
        {
            "nodes": [{"op": "null", "name": "x", "inputs": []}],
            "arg_nodes": [0],
            "heads": [[0, 0, 0]],
            "attrs": {
                "shape": ["list_shape", [[2, 3]]],
                "dltype": ["list_str", ["float32"]],
                "storage_id": ["list_int", [0]],
            },
            "node_row_ptr": [0, 1],
        }
    )
    params = {
        "dense.weight": memoryview(bytes(800)).cast("f"),
        "dense.bias": memoryview(bytes(40)).cast("f"),
    }
    root = mblob.graph_executor_factory(graph, params)
    library = host()
    library.import_module(mblob.blob_module("my_key", b"\xee" * 3000))
    weights = write_weights(folder / "w.safetensors", {"a.0.w": 5000, "a.1.w": 300})
    library.import_module(mblob.safetensors_module(weights))
    root.import_module(library)
    path = folder / "model.so"
    root.export_library(path)
    return path


def write_weights(path: Path, tensors: dict[str, int]) -> Path:
    """A safetensors file of so many float32 zeros in each tensor, sparse."""
    header, at = {}, 0
    for name, count in tensors.items():
        header[name] = {"dtype": "F32", "shape": [count], "data_offsets": [at, at + 4 * count]}
        at += 4 * count
    raw = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(raw)) + raw)
        file.truncate(8 + len(raw) + at)
    return path


@pytest.fixture(scope="session")
def many(folder: Path) -> Path:
    """A library of 10,000 entries of 37 kinds."""
    root = host()
    for i in range(MANY):
        root.import_module(mblob.blob_module(f"kind_{i % 37}", bytes(i % 900 + 1)))
    path = folder / "many.so"
    with pytest.warns(mblob.HiddenNameWarning, match="kind_"):
        root.export_library(path)
    return path


@pytest.fixture(scope="session")
def write(folder: Path) -> Callable[[Path], Path]:
    """`write(library)`: the page of a library, as a file."""

    def make(library: Path) -> Path:
        page = folder / f"{library.name}.html"
        with mblob.open(library) as opened:
            page.write_text(opened.to_html(), "utf-8")
        return page

    return make


@pytest.fixture(scope="session")
def chromium(
    require: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Browser]:
    """The browser of this process: to start one costs more than most of its tests."""
    with Browser(require("chromium"), tmp_path_factory.mktemp("browser") / "profile") as found:
        yield found


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Page]:
    """A page with nothing in it, and nothing of pages before it."""
    with Page(chromium) as page:
        yield page
