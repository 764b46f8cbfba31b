"""Tables of plug-ins as they lie in files: the header's layout, every damage, libraries that have a
bad one."""

from __future__ import annotations

import re
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from mblob.compilers import include_flags
from mblob.errors import FormatError
from mblob.format import plugin_table

HEAD = "II32s32s192s64s192s"


def table(
    order: str = "<",
    bits: int = 64,
    abi: int = 1,
    size: int | None = None,
    name: bytes = b"n",
    keys: bytes = b"a, b",
    devices: bytes = b"2,4",
) -> bytes:
    whole = plugin_table.table_size(bits)
    head = struct.pack(
        order + HEAD, abi, whole if size is None else size, name, b"1", keys, devices, b"x.so"
    )
    return head.ljust(whole, b"\0")


@pytest.mark.parametrize(("order", "bits"), [("<", 64), (">", 64), ("<", 32), (">", 32)])
def test_every_machine(order: str, bits: int) -> None:
    found = plugin_table.decode(table(order, bits), "__mblob_plugin_s", order, bits)
    assert found == plugin_table.Plugin("__mblob_plugin_s", 1, "n", "1", ("a", "b"), (2, 4), "x.so")


def test_of_another_version_only_the_version_is_read() -> None:
    found = plugin_table.decode(struct.pack("<II", 2, 8), "__mblob_plugin_s", "<", 64)
    assert (found.abi, found.name, found.type_keys) == (2, "s", ())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"1234567", "7 bytes, a table of a plug-in has 560"),
        (table()[:-1], "559 bytes, a table of a plug-in has 560"),
        (table(size=559), "559 bytes, a table of a plug-in has 560"),
        (table(name=b"n" * 32), "name: no end within its 32 bytes"),
        (table(keys=b"\xff"), r"type_keys: b'\\xff' is not UTF-8"),
        (table(devices=b"2,-4"), "devices: '-4' is no number of a DLDeviceType"),
    ],
)
def test_what_is_wrong_is_named(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=f"__mblob_plugin_s: {message}") as caught:
        plugin_table.decode(data, "__mblob_plugin_s", "<", 64)
    assert caught.value.code == "plugin_table"


@pytest.mark.compiles
def test_the_header_says_the_same(root: Path, tmp_path: Path) -> None:
    header = (root / "csrc/include/mblob/plugin.h").read_text()
    assert re.search(r"#define MBLOB_PLUGIN_ABI (\d+)", header)[1] == str(plugin_table.ABI)  # type: ignore[index]
    assert f'#define MBLOB_PLUGIN_SYMBOL "{plugin_table.SYMBOL_PREFIX}"' in header
    code = f"""#include <mblob/plugin.h>
    _Static_assert(offsetof(mblob_plugin, convention) == {plugin_table.table_size(64)}, "size");
    _Static_assert(offsetof(mblob_plugin, start) == {plugin_table.HEAD_SIZE}, "head");
    _Static_assert(offsetof(mblob_plugin, type_keys) == 72 && offsetof(mblob_plugin, devices) == 264, "texts");"""
    (tmp_path / "size.c").write_text(code)
    subprocess.run(
        ["cc", "-std=c11", "-c", *include_flags(), "size.c", "-o", "size.o"],
        cwd=tmp_path,
        check=True,
    )


@pytest.mark.compiles
def test_a_library_with_a_bad_table_opens_and_says_so(
    cc: Callable[..., Path], tmp_path: Path
) -> None:
    code = """
    const unsigned __mblob_plugin_future[2] = {9, 8};
    const char __mblob_plugin_short[] = "x";
    """
    path = cc(code, tmp_path / "bad.so")
    with mblob.open(path) as lib:
        assert [(p.name, p.abi) for p in lib.plugins] == [("future", 9)]
        remarks = {d["code"]: d["message"] for d in lib.diagnostics}
    assert "__mblob_plugin_short: 2 bytes, a table of a plug-in has 560" in remarks["plugin_table"]
    assert (
        "plug-in 'future' is built for version 9 of the plug-in interface" in remarks["plugin_abi"]
    )
