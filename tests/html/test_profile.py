"""The page of a profile: its timeline shows which nodes ran at the same time."""

from __future__ import annotations

from pathlib import Path

from mblob.inspect.html.profile import ProfileRow, profile_page
from tests.html.browser import Page

ROWS = (
    ProfileRow(1, "convolution", "conv", 1, 0.02, 0.0, 0.02, 0, "cpu:0"),
    ProfileRow(2, "dense", "dense", 1, 0.03, 0.01, 0.04, 1, "cpu:0"),
    ProfileRow(3, "to the <device>", "copy", 1, 0.02, 0.02, 0.04, 0, "opencl:0"),
    ProfileRow(4, "brief", "brief", 1, 1e-5, 0.0, 1e-5, 1, "cpu:0"),
)
PLACES = """[...document.querySelectorAll(".timeline g > svg")].map((bar) => {
  const r = bar.querySelector("rect").getBoundingClientRect();
  const colour = bar.querySelector("rect").getAttribute("class");
  return [bar.querySelector("title").textContent, bar.getAttribute("y"), colour,
          Math.round(r.left), Math.round(r.right), bar.querySelectorAll("text").length];
})"""


def write(folder: Path, rows: tuple[ProfileRow, ...]) -> Path:
    path = folder / "p.html"
    path.write_text(profile_page("m.so", [("model", "graph")], rows, 0.07, said="1.8 at once"))
    return path


def test_bars_of_one_time_lie_below_each_other_in_rows_of_threads(
    browser: Page, tmp_path: Path
) -> None:
    browser.open(write(tmp_path, ROWS))
    assert browser.problems == []
    bars = {name: rest for name, *rest in browser.value(PLACES)}
    conv, dense, device, brief = (bars[row.name] for row in ROWS)
    assert conv[0] == device[0] != dense[0] == brief[0]
    assert conv[1] == dense[1] != device[1]
    assert abs(conv[3] - device[2]) <= 1 and abs(dense[3] - device[3]) <= 1
    assert abs((dense[2] - conv[2]) - (conv[3] - dense[2])) <= 2
    assert [bar[4] for bar in (conv, dense, device, brief)] == [1, 1, 1, 0]
    text = browser.value("document.getElementById('timeline').textContent")
    assert all(
        part in text for part in ("1.8 at once", "thread 0", "thread 1", "opencl:0", "30.00 ms")
    )


def test_a_bar_tells_its_times_and_the_timeline_grows(browser: Page, tmp_path: Path) -> None:
    browser.open(write(tmp_path, ROWS), width=700, prefers_color_scheme="dark")
    told = "document.querySelector('#timeline .told').textContent"
    browser.hover(".timeline g > svg:last-of-type")
    assert (
        browser.value(told) == "to the <device>: 20.00 ms to 40.00 ms, 20.00 ms, thread 0, opencl:0"
    )
    width = "document.querySelector('.timeline .wide > svg').getBoundingClientRect().width"
    before = browser.value(width)
    browser.value("document.querySelector('#timeline [aria-label=longer]').click()")
    assert abs(browser.value(width) - 2 * before) <= 1
    browser.value("document.querySelector('#timeline [aria-label=shorter]').click()")
    assert browser.value(width) == before
    assert browser.value("document.documentElement.scrollWidth") <= 700


def test_rows_without_times_have_no_timeline(browser: Page, tmp_path: Path) -> None:
    rows = tuple(row._replace(start=None, end=None, thread=None, device=None) for row in ROWS)
    browser.open(write(tmp_path, rows))
    assert browser.problems == []
    assert browser.value("document.getElementById('timeline')") is None
    heads = browser.value("[...document.querySelectorAll('#rows th')].map((e) => e.textContent)")
    assert heads == ["node", "name", "function", "gives", "calls", "time", "share"]


def test_regions_have_a_table_of_what_their_engine_ran(browser: Page, tmp_path: Path) -> None:
    ran = (3, "dnnl.conv2d_<bias>", "convolution", "jit:avx2", 2, 0.015)
    rows = (
        *ROWS[:1],
        ROWS[1]._replace(primitives=(ran, (None, "an output", "reorder", "jit:uni", 1, 0.01))),
    )
    browser.open(write(tmp_path, rows))
    assert browser.problems == []
    cells = browser.value(
        "[...document.querySelectorAll('#primitives tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))"
    )
    assert cells == [
        ["dense", "3", "dnnl.conv2d_<bias>", "convolution", "jit:avx2", "2", "15.00 ms", "21.4 %"],
        ["dense", "", "an output", "reorder", "jit:uni", "1", "10.00 ms", "14.3 %"],
    ]
    browser.open(write(tmp_path, ROWS))
    assert browser.value("document.getElementById('primitives')") is None
