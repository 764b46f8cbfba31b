"""Tables of plug-ins (mblob/plugin.h), read from a file: their texts come first, and need no code
to run."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence

from mblob.binary.image import Image
from mblob.errors import FormatError
from mblob.named_tuple import NamedTuple

SYMBOL_PREFIX = "__mblob_plugin_"  # MBLOB_PLUGIN_SYMBOL
ABI = 1  # MBLOB_PLUGIN_ABI
# u32 abi_version, u32 struct_size, then texts of fixed size; behind them pointers, which are of no
# use in a file.
_TEXTS = (("name", 32), ("version", 32), ("type_keys", 192), ("devices", 64), ("needs", 192))
LAYOUTS_SIZE = 256  # behind the pointers; older plug-ins have none
HEAD_SIZE = 8 + sum(size for _, size in _TEXTS)  # bytes


def table_size(bits: int) -> int:
    """Bytes that every table has on a machine of 32 or 64 bits: two functions, two arrays, two
    counts behind the head. What later versions of the interface added stands behind."""
    return HEAD_SIZE + 4 * (bits // 8) + 8


class Plugin(NamedTuple):
    """A plug-in, as its table describes it.

    Attributes:
        symbol: of its table.
        abi: version of the interface it was built for.
        name, version: its own.
        type_keys: of the modules that it opens.
        devices: numbers of DLDeviceType whose memory it knows.
        needs: what it looks for at run time, for people.
        layouts: of payloads, by type key (docs/format.md, section 3.4).
    """

    symbol: str
    abi: int
    name: str
    version: str
    type_keys: tuple[str, ...]
    devices: tuple[int, ...]
    needs: str
    layouts: Mapping[str, str] = {}

    def to_json(self) -> dict[str, object]:
        """As `mblob-pack inspect --json` shows it."""
        return {
            "name": self.name,
            "version": self.version,
            "type_keys": list(self.type_keys),
            "devices": list(self.devices),
            "needs": self.needs,
        }


def decode(data: bytes, symbol: str, byte_order: str, bits: int) -> Plugin:
    """The table of a plug-in.

    Args:
        data: from its first byte on.
        symbol: its symbol, for errors.
        byte_order: "<" or ">".
        bits: 32 or 64.

    Raises:
        FormatError: "plugin_table": too short, or a text that does not end or is none.
    """

    def fail(what: str) -> FormatError:
        return FormatError(f"{symbol}: {what}", code="plugin_table")

    if len(data) < 8:
        raise fail(f"{len(data)} bytes, a table of a plug-in has {table_size(bits)}")
    abi, said = struct.unpack_from(f"{byte_order}2I", data)
    if abi != ABI:  # of another version nothing else is known
        name = symbol.removeprefix(SYMBOL_PREFIX)
        return Plugin(symbol, abi, name, version="", type_keys=(), devices=(), needs="")
    if min(said, len(data)) < table_size(bits):
        raise fail(f"{min(said, len(data))} bytes, a table of a plug-in has {table_size(bits)}")
    texts = _texts(data, _TEXTS, 8, fail)
    at = table_size(bits) + bits // 8  # behind the pointer to a convention
    layouts = ""
    if min(said, len(data)) >= at + LAYOUTS_SIZE:
        layouts = _texts(data, (("layouts", LAYOUTS_SIZE),), at, fail)["layouts"]
    return Plugin(
        symbol=symbol,
        abi=abi,
        name=texts["name"] or symbol.removeprefix(SYMBOL_PREFIX),
        version=texts["version"],
        type_keys=tuple(_items(texts["type_keys"])),
        devices=_devices(texts["devices"], fail),
        needs=texts["needs"],
        layouts={
            key: form
            for key, _, form in (item.partition("=") for item in layouts.split(" ") if item)
        },
    )


def _texts(
    data: bytes, members: Sequence[tuple[str, int]], at: int, fail: Callable[[str], FormatError]
) -> dict[str, str]:
    found = {}
    for member, size in members:
        text, nul, _ = data[at : at + size].partition(b"\0")
        at += size
        if not nul:
            raise fail(f"{member}: no end within its {size} bytes")
        try:
            found[member] = text.decode()
        except UnicodeDecodeError:
            raise fail(f"{member}: {text!r} is not UTF-8") from None
    return found


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _devices(text: str, fail: Callable[[str], FormatError]) -> tuple[int, ...]:
    items = _items(text)
    if bad := next((item for item in items if not (item.isascii() and item.isdigit())), None):
        raise fail(f"devices: {bad!r} is no number of a DLDeviceType")
    return tuple(int(item) for item in items)


def read(elf: Image) -> tuple[list[Plugin], list[FormatError]]:
    """The plug-ins whose tables a library exports, in the order of their symbols' names, and what
    is wrong with others.

    Raises:
        FormatError: "elf_dynamic", "elf_truncated": the symbols cannot be read.
    """
    symbols = {s.name: s for s in elf.exports if s.name.startswith(SYMBOL_PREFIX)}
    found, problems = [], []
    for name in sorted(symbols):
        try:
            found.append(
                decode(bytes(elf.bytes_of(symbols[name])[1]), name, elf.byte_order, elf.bits)
            )
        except FormatError as problem:
            problems.append(problem)
    return found, problems
