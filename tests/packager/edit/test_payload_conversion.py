"""Payloads of one dialect in the grammar of the other."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.bytes.wire import encode_string
from mblob.format.grammar import FFI_GRAMMARS, GRAMMARS, decode_payload
from mblob.format.type_keys import CONST_LOADER, RELAX_EXECUTABLES
from mblob.packager.errors import BuildError
from mblob.packager.modules import payload_conversion
from mblob.packager.modules.payload_conversion import convert_payload

SPIRV = b"\x03\x02\x23\x07" + bytes(16)
TAGS = ["blockIdx.x", "threadIdx.x", "tir.use_dyn_shared_memory"]
KERNELS = [("b", ["handle", "float32"], TAGS[:2]), ("a", ["handle", "bool", "e4m3_float8"], TAGS)]
MODULES: dict[str, Any] = {
    "cuda": lambda: mblob.device_module("cuda", "//PTX", functions=KERNELS),
    "hip": lambda: mblob.device_module("hip", b"\x7fELF and more", functions=KERNELS),
    "opencl": lambda: mblob.device_module("opencl", "// text", functions=KERNELS),
    "metal": lambda: mblob.device_module("metal", {"a": "one", "b": "two"}, functions=KERNELS),
    "metallib": lambda: mblob.device_module("metal", b"MTLB code", functions=KERNELS),
    "webgpu": lambda: mblob.device_module("webgpu", {"a": "one", "b": "two"}, functions=KERNELS),
    "vulkan": lambda: mblob.device_module(
        "vulkan", {"a": (1, SPIRV), "b": SPIRV}, functions=KERNELS
    ),
    "dnnl_json": lambda: mblob.json_module("dnnl_json", "s", {"nodes": []}, ["x"]),
    "const_loader": lambda: mblob.const_loader_module(
        {"b": np.ones((2, 3), "bool"), "f": np.arange(3, dtype="float32")},
        {"s": ["f", "b"], "t": []},
    ),
}


def joined(pieces: list[Any]) -> bytes:
    return b"".join(bytes(p) for p in pieces)


@pytest.mark.parametrize("name", MODULES)
def test_there_and_back_nothing_is_lost(name: str) -> None:
    module = MODULES[name]()
    classic = bytes(module.payload)
    ffi = joined(convert_payload(module.type_key, module.payload, "classic", "ffi"))
    fields = decode_payload(module.type_key, memoryview(ffi), FFI_GRAMMARS)
    assert fields
    assert joined(convert_payload(module.type_key, memoryview(ffi), "ffi", "classic")) == classic
    if "functions" in fields:
        kernels = fields["functions"]
        assert [(k.name, k.launch_param_tags[2:]) for k in kernels.values()] == [
            ("a", ("tirx.use_dyn_shared_memory",)),
            ("b", ()),
        ]
        assert [str(t) for t in kernels["a"].arg_types] == ["handle", "bool", "float8_e4m3fn"]
        assert b"\x03\x40\1\0\x06\x08\1\0\x0a\x08\1\0" in ffi
        assert kernels["a"].arg_extra_tags == (() if name == "webgpu" else (0, 0, 0))


def test_float8_e3m4_has_its_number_in_the_ffi_dialect_and_none_in_the_other() -> None:
    module = mblob.device_module(
        "cuda", "//PTX", functions=[("k", ["float8_e3m4", "e5m2_float8"], TAGS[:1])]
    )
    ffi = joined(convert_payload("cuda", module.payload, "classic", "ffi"))
    assert b"\x07\x08\1\0\x0c\x08\1\0" in ffi
    (kernel,) = decode_payload("cuda", memoryview(ffi), FFI_GRAMMARS)["functions"].values()
    assert [str(t) for t in kernel.arg_types] == ["float8_e3m4", "float8_e5m2"]
    with pytest.raises(
        BuildError,
        match="kernel 'k': the classic dialect has no type float8_e3m4; use dialect='ffi'",
    ):
        convert_payload("cuda", memoryview(ffi), "ffi", "classic")


def test_shaders_of_vulkan_keep_flag_and_words() -> None:
    module = MODULES["vulkan"]()
    ffi = joined(convert_payload("vulkan", module.payload, "classic", "ffi"))
    shaders = decode_payload("vulkan", memoryview(ffi), FFI_GRAMMARS)["sources"]
    assert {k: bytes(v) for k, v in shaders.items()} == {
        "a": struct.pack("<IQ", 1, 5) + SPIRV,
        "b": struct.pack("<IQ", 0, 5) + SPIRV,
    }


@pytest.mark.parametrize("name", ["metal", "webgpu"])
def test_payloads_that_tvm_wrote_come_back_byte_for_byte(golden: Path, name: str) -> None:
    with mblob.open(golden / f"ffi/{name}.so") as lib:
        (e,) = (e for e in lib.entries if e.type_key == name)
        classic = joined(convert_payload(name, e.view(), "ffi", "classic"))
        assert decode_payload(name, memoryview(classic))["functions"].keys() == {"vadd_kernel"}
        assert joined(convert_payload(name, memoryview(classic), "classic", "ffi")) == bytes(
            e.view()
        )


@pytest.mark.parametrize("name", ["opencl_llvm", "dnnl_llvm_factory", "dag"])
def test_classic_payloads_of_tvm_come_back_byte_for_byte(golden: Path, name: str) -> None:
    known = ("opencl", "cuda", "const_loader", "dnnl_json")
    with mblob.open(golden / f"{name}.so") as lib:
        entries = [e for e in lib.entries if e.type_key in known]
        assert entries
        for e in entries:
            ffi = joined(convert_payload(e.type_key, e.view(), "classic", "ffi"))
            decode_payload(e.type_key, memoryview(ffi), FFI_GRAMMARS)
            assert joined(convert_payload(e.type_key, memoryview(ffi), "ffi", "classic")) == bytes(
                e.view()
            )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: mblob.graph_executor_factory({"nodes": []}),
            "'GraphExecutorFactory' is not a kind of the ffi",
        ),
        (
            lambda: mblob.device_module("opencl", SPIRV, functions=KERNELS),
            "opencl: SPIR-V, for which the ffi dialect",
        ),
        (lambda: mblob.blob_module("my", b""), r"module 1 \('my'\) has an empty payload"),
    ],
)
def test_what_the_ffi_dialect_cannot_say_is_an_error(
    tmp_path: Path, make: Any, message: str
) -> None:
    host = mblob.csource_module("")
    host.import_module(make())
    with pytest.raises(BuildError, match=message):
        host.export_library(tmp_path / "x.so", dialect="ffi")
    assert not list(tmp_path.glob("*.so"))


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (
            {"arg_extra_tags": [1, 0]},
            "'k': argument 0 is a tensor map, which the classic dialect cannot say",
        ),
        (
            {"launch_param_tags": ["clusterCtaIdx.x"]},
            "the classic dialect has no launch tag 'clusterCtaIdx.x'",
        ),
        (
            {"launch_param_tags": ["tirx.use_cooperative_launch"]},
            "has no launch tag 'tirx.use_cooperative_launch'",
        ),
    ],
)
def test_what_the_classic_dialect_cannot_say_is_an_error(
    tmp_path: Path, kernel: Any, message: str
) -> None:
    given = {
        "name": "k",
        "arg_types": ["handle", "int32"],
        "launch_param_tags": ["blockIdx.x"],
        **kernel,
    }
    host = mblob.csource_module("")
    host.import_module(mblob.device_module("cuda", "//PTX", functions=[given]))
    with pytest.raises(BuildError, match=message):
        host.export_library(tmp_path / "x.so")
    host.export_library(tmp_path / "x.so", dialect="ffi")
    with mblob.open(tmp_path / "x.so", verify="full") as lib:
        (found,) = lib.entries[1].kernels
    assert list(found.launch_param_tags) == given["launch_param_tags"]
    assert list(found.arg_extra_tags) == given.get("arg_extra_tags", [0, 0])


def test_blobs_pass_as_they_are_whatever_their_kind(tmp_path: Path) -> None:
    host = mblob.csource_module("")
    given = dict.fromkeys(("GraphExecutorFactory", "my.kind"), b"anything")
    given["cuda"] = encode_string("ptx") + bytes(16)
    for key, payload in given.items():
        host.import_module(mblob.blob_module(key, payload))
    host.export_library(tmp_path / "x.so", dialect="ffi")
    with mblob.open(tmp_path / "x.so") as lib:
        assert {e.type_key: bytes(e.view()) for e in lib.entries[1:]} == given


@pytest.mark.parametrize("extra", [[1], [1, 2], [0, 0, 0]])
def test_extra_tags_are_checked(extra: list[int]) -> None:
    with pytest.raises(BuildError, match="arg_extra_tags has"):
        mblob.device_module(
            "cuda",
            "//PTX",
            [{"name": "k", "arg_types": ["handle", "int32"], "arg_extra_tags": extra}],
        )


def test_every_key_of_both_dialects_can_be_written_in_the_other() -> None:
    both = {key for key in GRAMMARS if payload_conversion.key_in(key, "ffi") in FFI_GRAMMARS}
    by_hand = {*RELAX_EXECUTABLES, CONST_LOADER, *payload_conversion._SAME}
    assert both - by_hand <= set(payload_conversion._TO_FFI)
    assert {k for k in FFI_GRAMMARS if k in GRAMMARS} - by_hand <= set(
        payload_conversion._TO_CLASSIC
    )
