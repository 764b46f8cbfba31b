"""Write the vectors that the Python and the C reader are both tested with (`make
generate`).

good/NAME.bin is the bytes of a blob (st_size of them), good/NAME.json what a reader must find.
bad/NAME.json has the code (and mostly the offset) of the error. All are read at level "full";
"index_expected" stands for the ELF note. The bytes are put together with struct, not with the
codec, but for blobs with an index.
"""

from __future__ import annotations

import json
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from mblob.bytes.digest import ALGORITHMS  # noqa: E402
from mblob.bytes.payload_source import BytesPayload  # noqa: E402
from mblob.bytes.sink import BytesSink  # noqa: E402
from mblob.format.blob_plan import BlobPlan, OutEntry  # noqa: E402


def u64(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def s(text: str | bytes) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return u64(len(raw)) + raw


def vs(*texts: str) -> bytes:
    return u64(len(texts)) + b"".join(map(s, texts))


def tree(rows: list[list[int]]) -> bytes:
    row_ptr = [0]
    for row in rows:
        row_ptr.append(row_ptr[-1] + len(row))
    child = [c for row in rows for c in row]
    return s("_import_tree") + u64(len(row_ptr), *row_ptr) + u64(len(child), *child)


def blob(*items: bytes, count: int | None = None, tail: bytes = b"") -> bytes:
    body = u64(len(items) if count is None else count) + b"".join(items) + tail
    return u64(len(body)) + body


def ndarray(shape: tuple[int, ...], data: bytes, bits: int = 32) -> bytes:
    head = (
        u64(0xDD5E40F096B4A13F, 0)
        + struct.pack("<iii", 1, 0, len(shape))
        + struct.pack("<BBH", 2, bits, 1)
    )
    return head + struct.pack(f"<{len(shape)}q", *shape) + u64(len(data)) + data


ONE = ndarray((2,), struct.pack("<2f", 1, 2))
FMAP = u64(1) + s("k") + s("") + u64(2) + bytes.fromhex("03400100") + bytes.fromhex("00200100")
FMAP += vs("blockIdx.x", "threadIdx.x")
SHADERS = u64(1) + s("k") + struct.pack("<I", 0) + u64(2) + struct.pack("<2I", 0x07230203, 7)
CUDA = s("ptx") + FMAP + s("//PTX")
JSON_PAYLOAD = s("sub") + s("{}") + vs("sub_const_0")
CONSTANTS = vs("c0") + u64(1) + ONE + vs("sub") + u64(1) + vs("c0")
GRAPH = s("{}") + u64(1) + vs("p0") + ONE + s("default")

PAYLOADS = {
    "cuda": CUDA,
    "hip": CUDA,
    "opencl": s("cl") + FMAP + s("// Function: k\n"),
    "opencl-spirv": FMAP + SHADERS,
    "metal": s("metal") + FMAP + s("kernel"),
    "metal-0.13": s("0.1.0") + u64(1) + s("k") + s("kernel") + FMAP + s("metal"),
    "vulkan": s("vulkan") + FMAP + SHADERS,
    "vulkan-generic": s("spv") + FMAP + s("source"),
    "webgpu": FMAP + u64(1) + s("k") + s("@compute"),
    "hexagon": s("so") + FMAP + s("path"),
    "dnnl_json": JSON_PAYLOAD,
    "tensorrt": JSON_PAYLOAD,
    "const_loader": CONSTANTS,
    "metadata": CONSTANTS,
    "metadata_module": b"",
    "GraphExecutorFactory": GRAPH,
    "GraphRuntimeFactory": GRAPH,
    "AotExecutorFactory": u64(1) + vs("p0") + ONE + s("default"),
    "VMExecutable": s(b"\x1d\x15code"),
    "relax.Executable": s(b"\x1d\x15code"),
    "coreml": s("sub") + s(b"\0dir"),
    "torch": s("sub") + s(b"\0zip"),
    "VitisAIRuntime": s("r") + s("/p") + s("sub") + vs("c"),
    "mrvl_sim": s("sub") + s("{}") + s(b"bin"),
    "mrvl_hw": s("sub") + s("{}") + s(b"bin") + struct.pack("<3i", 1, 1, 1),
    "ethos-n": u64(1) + s("n") + s("stream") + (u64(1) + bytes(8)) * 2,
    "examplejson": s("{}"),
    "c": s("int x;") + s("c") + vs("f") + vs(),
    "static_library": s(b"\x7fELF") + vs("f"),
}
written: set[Path] = set()


def put(folder: str, name: str, data: bytes, facts: dict[str, Any]) -> None:
    base = HERE / folder / name
    base.parent.mkdir(exist_ok=True)
    for path, content in (
        (base.with_suffix(".bin"), data),
        (base.with_suffix(".json"), json.dumps(facts).encode() + b"\n"),
    ):
        path.write_bytes(content)
        written.add(path)


def good(
    name: str,
    data: bytes,
    entries: list[tuple[str, int | None, int]],
    imports: list[list[int]],
    **more: Any,
) -> None:
    listed = [{"type_key": k, "offset": o, "size": n} for k, o, n in entries]
    put("good", name, data, {"entries": listed, "imports": imports, **more})


def bad(name: str, data: bytes, code: str, offset: int | None = None, **more: Any) -> None:
    put("bad", name, data, {"code": code, "offset": offset, **more})


def after(data: bytes, marker: bytes) -> int:
    """Offset behind the first place of `marker`."""
    return data.index(marker) + len(marker)


def one_module(key: str, payload: bytes) -> tuple[bytes, int]:
    real = key.split("-")[0] if key.startswith(("opencl-", "metal-", "vulkan-")) else key
    data = blob(s("_lib"), s(real) + payload, tree([[1], []]))
    return data, after(data, s("_lib") + s(real))


def make_good() -> None:
    for key, payload in PAYLOADS.items():
        data, at = one_module(key, payload)
        real = key.split("-")[0] if key.startswith(("opencl-", "metal-", "vulkan-")) else key
        good(f"payload-{key}", data, [("library", None, 0), (real, at, len(payload))], [[1], []])
    good("nothing-packed", blob(), [("library", None, 0)], [[]])
    old = blob(s("cuda") + CUDA, s("dnnl_json") + JSON_PAYLOAD)
    first, second = after(old, s("cuda")), after(old, s("dnnl_json"))
    good("old-form-without-tree", old,
         [("library", None, 0), ("cuda", first, len(CUDA)), ("dnnl_json", second, len(JSON_PAYLOAD))],
         [[1, 2], [], []])  # fmt: skip
    data, at = one_module("cuda", CUDA)
    longer = u64(len(data) - 8 + 7) + data[8:] + b"trailer"
    good(
        "bytes-after-the-stream", longer, [("library", None, 0), ("cuda", at, len(CUDA))], [[1], []]
    )
    good(
        "symbol-longer-than-blob",
        data + bytes(9),
        [("library", None, 0), ("cuda", at, len(CUDA))],
        [[1], []],
    )
    lone = blob(s("metadata_module"), tree([[]]))
    good("tree-without-library", lone, [("metadata_module", len(lone) - len(tree([[]])), 0)], [[]])
    # of TVM 0.7, which has a module for each of several host modules
    item, lib = s("metadata_module"), s("_lib")
    several = blob(item, lib, s("cuda") + CUDA, lib, tree([[1, 3], [2], [], [2]]))
    good(
        "several-libraries",
        several,
        [
            ("metadata_module", 16 + len(item), 0),
            ("library", None, 0),
            ("cuda", after(several, s("cuda")), len(CUDA)),
            ("library", None, 0),
        ],
        [[1, 3], [2], [], [2]],
    )
    four = [item] * 4
    keys = [("metadata_module", 16 + len(item) * (i + 1), 0) for i in range(4)]
    for name, rows in (
        ("diamond", [[1, 2], [3], [3], []]),
        ("child-before-parent", [[2], [3], [1], []]),
        ("same-child-twice", [[1, 1], [2, 2], [3, 3], []]),
        ("unreachable-module", [[1], [], [3], []]),
    ):
        good(name, blob(*four, tree(rows)), keys, rows)
    n = 40
    rows = [[i + 1, i + 1] for i in range(n - 1)] + [[]]
    good(
        "forty-modules-each-importing-the-next-twice",
        blob(*[item] * n, tree(rows)),
        [("metadata_module", 16 + len(item) * (i + 1), 0) for i in range(n)],
        rows,
    )
    for digest in ALGORITHMS:
        data, entries = indexed(digest)
        good(f"index-{digest}", data, entries, [[1, 2, 3], [], [], []], index_expected=True)
    sink = BytesSink()
    plan = BlobPlan(
        [OutEntry("library", None)], target="x86_64-linux-gnu", producer="vectors", has_tree=False
    )
    plan.write(sink)
    good(
        "index-of-a-library-alone",
        bytes(sink.data),
        [("library", None, 0)],
        [[]],
        index_expected=True,
    )


def indexed(digest: str = "crc32") -> tuple[bytes, list[tuple[str, int | None, int]]]:
    """Library over an unknown key, an empty payload and aligned bulk data."""
    sink = BytesSink()
    entries = [
        OutEntry("library", None, (1, 2, 3)),
        OutEntry("my_key", BytesPayload(b"PAYLOAD-OF-MY-KEY"), data=True),
        OutEntry("my_empty", BytesPayload(b""), data=True),
        OutEntry("my_bulk", BytesPayload(b"B" * 100), data=True, alignment=64, align_at=8),
    ]
    BlobPlan(entries, digest=digest, target="x86_64-linux-gnu", producer="vectors").write(sink)
    data = bytes(sink.data)
    my_key, my_empty, my_bulk = (
        after(data, s("my_key")),
        after(data, s("my_empty")),
        data.index(b"B" * 100),
    )
    assert (my_bulk + 8) % 64 == 0
    return data, [
        ("library", None, 0),
        ("my_key", my_key, 17),
        ("my_empty", my_empty, 0),
        ("my_bulk", my_bulk, 100),
    ]


def make_bad() -> None:
    data, _ = one_module("cuda", CUDA)
    bad("empty", b"", "truncated")
    bad("seven-bytes", b"\0" * 7, "truncated")
    bad("size-one-too-long", u64(len(data) - 7) + data[8:], "size", 0)
    bad("size-2-to-63", u64(1 << 63) + data[8:], "size", 0)
    bad("size-2-to-64-less-1", u64((1 << 64) - 1) + data[8:], "size", 0)
    bad("count-2-to-63", data[:8] + u64(1 << 63) + data[16:], "truncated", 8)
    bad(
        "count-one-too-many",
        blob(s("_lib"), s("cuda") + CUDA, tree([[1], []]), count=4),
        "truncated",
    )
    bad("key-of-2-to-62-bytes", blob(u64(1 << 62) + b"cuda"), "truncated", 16)
    bad("key-empty", blob(s(""), tree([[]])), "key", 16)
    bad("key-of-2-mib", blob(s("k" * (2 << 20))), "key", 16)
    bad("key-not-utf8", blob(s(b"\xff\xfe"), tree([[]])), "key", 16)
    bad("key-with-nul", blob(s(b"ot\0er"), tree([[]])), "key", 16)
    bad(
        "unknown-key", blob(s("_lib"), s("my_key") + b"payload", tree([[1], []])), "unknown_key", 42
    )
    bad("tree-of-nothing", blob(tree([])), "tree_empty")
    bad("item-after-tree", blob(s("_lib"), tree([[]]), s("_lib")), "tree_last")
    bad("two-trees", blob(s("_lib"), tree([[]]), tree([[]])), "tree_last")
    m = s("metadata_module")

    def csr(row_ptr: list[int], child: list[int]) -> bytes:
        return s("_import_tree") + u64(len(row_ptr), *row_ptr) + u64(len(child), *child)

    for name, row_ptr, child, code in (
        ("row-pointers-missing", [], [], "tree_rows"),
        ("row-pointers-one", [0], [], "tree_rows"),
        ("row-pointers-one-short", [0, 1], [1], "tree_rows"),
        ("row-pointers-one-more", [0, 1, 1, 1], [1], "tree_rows"),
        ("row-pointers-start-at-one", [1, 1, 1], [1], "tree_rows"),
        ("row-pointers-decrease", [0, 2, 1], [1], "tree_rows"),
        ("row-pointers-past-end", [0, 1, 2], [1], "tree_rows"),
        ("row-pointers-short-of-end", [0, 1, 1], [1, 1], "tree_rows"),
        ("row-pointers-huge", [0, (1 << 64) - 1, 1], [1], "tree_rows"),
        ("child-out-of-range", [0, 1, 1], [2], "tree_child"),
        ("child-huge", [0, 1, 1], [(1 << 64) - 1], "tree_child"),
        ("child-is-itself", [0, 1, 1], [0], "tree_cycle"),
        ("children-in-a-circle", [0, 1, 2], [1, 0], "tree_cycle"),
    ):
        bad(name, blob(m, m, csr(row_ptr, child)), code)
    bad("row-pointers-2-to-61", blob(m, s("_import_tree") + u64(1 << 61) + bytes(8)), "truncated")
    for key, payload in PAYLOADS.items():
        if payload:
            whole, start = one_module(key, payload)
            cut = whole[: start + len(payload) - 1]
            bad(f"cut-{key}", u64(len(cut) - 8) + cut[8:], "truncated")
    for name, array in (
        ("wrong-magic", b"\0" * 8 + ONE[8:]),
        ("on-a-gpu", ONE[:16] + struct.pack("<i", 2) + ONE[20:]),
        ("negative-ndim", ONE[:24] + struct.pack("<i", -1) + ONE[28:]),
        ("ndim-2-to-30", ONE[:24] + struct.pack("<i", 1 << 30) + ONE[28:]),
        ("negative-extent", ONE[:32] + struct.pack("<q", -2) + ONE[40:]),
        ("byte-count-too-small", ONE[:40] + u64(4) + ONE[48:]),
        ("product-overflows", ndarray((1 << 32, 1 << 32), b"")),
        ("product-overflows-beside-a-zero", ndarray((0, 1 << 32, 1 << 32), b"")),
        ("element-of-no-width", ONE[:29] + b"\3" + ONE[30:]),
        ("element-of-no-type", ONE[:28] + b"\x60" + ONE[29:]),
    ):
        bad(
            f"array-{name}",
            one_module("AotExecutorFactory", u64(1) + vs("p0") + array + s("d"))[0],
            "payload",
        )
    bad(
        "names-and-arrays-differ",
        one_module("AotExecutorFactory", u64(2) + vs("p0") + ONE + s("d"))[0],
        "payload",
    )
    bad(
        "constants-and-names-differ",
        one_module("const_loader", vs("c0") + u64(0) + vs() + u64(0))[0],
        "payload",
    )
    bad("kernels-2-to-60", one_module("cuda", s("ptx") + u64(1 << 60))[0], "truncated")
    make_bad_index()


def refoot(data: bytes, edit: Any = None, **fields: Any) -> bytes:
    """Change index bytes (edit(bytearray of the index)) or footer fields, and make all checksums
    right again."""
    size = len(data)
    names = (
        "index_offset",
        "index_size",
        "blob_size",
        "version",
        "flags",
        "crc",
        "structure",
        "zero",
    )
    values = dict(zip(names, struct.unpack_from("<QQQIIIII", data, size - 64)))
    start = values["index_offset"]
    index = bytearray(data[start : size - 64])
    if edit:
        edit(index)
    values["crc"] = zlib.crc32(bytes(index))
    values.update(fields)
    foot = struct.pack("<QQQIIIII", *(values[n] for n in names))
    foot += struct.pack("<I", zlib.crc32(foot)) + data[size - 16 :]
    return data[:start] + bytes(index) + foot


def patched(data: bytes, at: int, value: bytes) -> bytes:
    """Change bytes of the stream, and make the checksum of the structure right again."""
    start = struct.unpack_from("<Q", data, len(data) - 64)[0]
    count = struct.unpack_from("<Q", data, start + 24)[0]
    changed = bytearray(data)
    changed[at : at + len(value)] = value
    crc, pos = 0, 0
    places = [struct.unpack_from("<QQ", data, start + 64 + 80 * i) for i in range(count)]
    for offset, size in sorted(p for p in places if p[1]):
        crc = zlib.crc32(changed[pos:offset], crc)
        pos = offset + size
    crc = zlib.crc32(changed[pos:start], crc)
    return refoot(bytes(changed), structure=crc)


def make_bad_index() -> None:
    data, entries = indexed()
    end = len(data)

    def poke(at: int, value: bytes) -> Any:
        def edit(index: bytearray) -> None:
            index[at : at + len(value)] = value

        return edit

    def two_libraries(index: bytearray) -> None:
        index[one : one + 80] = index[64:144]

    def flipped(at: int) -> bytes:
        return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]

    note = {"index_expected": True}
    bad("index-magic-lost", flipped(end - 1), "index_footer", **note)
    bad("index-footer-flipped", flipped(end - 60), "index_footer")
    bad("index-cut-off", u64(end - 72) + data[8 : end - 64], "index_footer", **note)
    bad("index-flipped", flipped(struct.unpack_from("<Q", data, end - 64)[0] + 20), "index_damaged")
    bad("index-version-2", refoot(data, version=2), "index_version")
    bad("index-of-another-size", refoot(data, blob_size=end - 8), "index_footer")
    bad("index-offset-past-end", refoot(data, index_offset=(1 << 64) - 8), "index_footer")
    (texts,) = struct.unpack_from("<Q", data, struct.unpack_from("<Q", data, end - 64)[0] + 40)
    for name, at, value, code in (
        ("digest-unknown", 8, struct.pack("<I", 9), "index_damaged"),
        ("digest-size-wrong", 12, struct.pack("<I", 32), "index_damaged"),
        ("stream-past-index", 16, u64(1 << 40), "index_damaged"),
        ("no-entries", 24, u64(0), "index_damaged"),
        ("entries-2-to-60", 24, u64(1 << 60), "index_damaged"),
        ("children-2-to-61", 32, u64(1 << 61), "index_damaged"),
        ("strings-2-to-64-less-1", 40, u64((1 << 64) - 1), "index_damaged"),
        ("target-outside", 48, struct.pack("<II", 0xFFFFFFFF, 16), "index_damaged"),
        ("target-ends-outside", 48, struct.pack("<II", texts - 2, 3), "index_damaged"),
        ("payload-past-index", 64 + 80, u64((1 << 64) - 4), "index_damaged"),
        ("payload-size-wraps", 64 + 80 + 8, u64((1 << 64) - 1), "index_damaged"),
        ("key-outside", 64 + 80 + 16, struct.pack("<II", 0xFFFFFFF0, 0x20), "index_damaged"),
        ("key-empty", 64 + 80 + 20, struct.pack("<I", 0), "index_damaged"),
        ("alignment-three", 64 + 80 + 28, struct.pack("<I", 3), "index_damaged"),
        ("library-with-payload", 64, u64(16), "index_damaged"),
        ("item-outside", 64 + 80 + 64, u64(1 << 50), "index_damaged"),
        ("item-elsewhere", 64 + 80 + 64, u64(17), "index_damaged"),
        ("tree-start", 64 + 4 * 80, u64(1), "tree_rows"),
        ("tree-child", 64 + 4 * 80 + 5 * 8, u64(4), "tree_child"),
        ("tree-circle", 64 + 4 * 80 + 5 * 8, u64(0), "tree_cycle"),
        ("tree-other-order", 64 + 4 * 80 + 5 * 8, u64(2, 1), "index_damaged"),
    ):
        bad(f"index-{name}", refoot(data, poke(at, value)), code)
    my_key, bulk = entries[1][1] or 0, entries[3][1] or 0
    sha = indexed("sha256")[0]
    stream_size = struct.unpack_from("<Q", data, struct.unpack_from("<Q", data, end - 64)[0] + 16)[
        0
    ]
    one = 64 + 80  # the record of my_key in the index
    for name, changed, code in (
        ("footer-flags", refoot(data, flags=1), "index_footer"),
        ("footer-reserved", refoot(data, zero=1), "index_footer"),
        (
            "footer-offset-odd",
            refoot(data[:-64] + data[-64:], index_offset=end - 64 - 4),
            "index_footer",
        ),
        ("flags-unknown", refoot(data, poke(4, struct.pack("<I", 1 << 31))), "index_damaged"),
        (
            "record-flags-unknown",
            refoot(data, poke(one + 24, struct.pack("<I", 2 | 1 << 30))),
            "index_damaged",
        ),
        ("record-reserved", refoot(data, poke(one + 72, u64(1))), "index_damaged"),
        ("digest-tail", refoot(data, poke(one + 32 + 4, b"\1")), "index_damaged"),
        ("digest-of-the-library", refoot(data, poke(64 + 32, b"\1")), "index_damaged"),
        ("no-tree-flag-with-a-tree", refoot(data, poke(4, struct.pack("<I", 1))), "index_damaged"),
        (
            "bulk-flag-inside-the-stream",
            refoot(data, poke(one + 24, struct.pack("<I", 6))),
            "index_damaged",
        ),
        (
            "bulk-flag-missing",
            refoot(data, poke(64 + 3 * 80 + 24, struct.pack("<I", 2))),
            "index_damaged",
        ),
        ("name-not-utf8", refoot(data, poke(-len("vectors") - 3, b"\xff\xfe")), "index_damaged"),
        (
            "name-with-nul",
            refoot(data, poke(64 + 4 * 80 + 8 * 8 + len("library") + 2, b"\0")),
            "index_damaged",
        ),
        ("two-libraries", refoot(data, two_libraries), "index_damaged"),
        ("stream-has-another-key", patched(data, my_key - 3, b"K"), "index_damaged"),
        ("stream-has-another-count", patched(data, 8, u64(4)), "index_damaged"),
        (
            "stream-has-another-tree",
            patched(data, data.index(s("_import_tree")) + 20 + 8, u64(1)),
            "tree_rows",
        ),
        (
            "bytes-after-the-last-item",
            refoot(data, poke(16, u64(stream_size + 8))),
            "index_damaged",
        ),
    ):
        bad(f"index-{name}", changed, code)
    none = indexed("none")[0]
    bad("index-payloads-overlap", refoot(none, poke(64 + 160, u64(my_key + 3, 9))), "index_damaged")
    bad("payload-flipped", flipped(my_key + 3), "digest", entry=1)
    bad("bulk-flipped", flipped(bulk + 99), "digest", entry=3)
    bad("structure-flipped", flipped(my_key - 2), "digest")
    at = my_key + 3
    bad("payload-flipped-sha256", sha[:at] + b"!" + sha[at + 1 :], "digest", entry=1)


def main() -> None:
    make_good()
    make_bad()
    for folder in ("good", "bad"):
        for path in (HERE / folder).iterdir():
            if path not in written:
                path.unlink()


if __name__ == "__main__":
    main()
