"""Types of devices: their names, and what their memory is. Numbers are DLPack's, the ones kernels check.

`make generate` makes `csrc/src/base/device_types.h` from the tables here. The runtime,
`loader/_call` and generated C read it.
"""

from __future__ import annotations

from mblob.texts import header_of

# TVM 0.11 and later; spec of the values: DLDeviceType, and TVM's own from 32 on.
NAMES = {
    1: "cpu", 2: "cuda", 3: "cuda_host", 4: "opencl", 7: "vulkan", 8: "metal", 9: "vpi", 10: "rocm",
    11: "rocm_host", 12: "ext_dev", 13: "cuda_managed", 14: "oneapi", 15: "webgpu", 16: "hexagon", 17: "maia",
    32: "aocl", 33: "sdaccel", 34: "opengl", 35: "microdev",
}  # fmt: skip
CODES = {
    **{name: code for code, name in NAMES.items()},
    **dict.fromkeys(("llvm", "c", "stackvm", "hybrid", "test"), 1),
    **dict.fromkeys(("gpu", "nvptx"), 2),
    "cl": 4,
    "hip": 10,
}
# What memory of a type is. A type without a row is memory of a device that only its plug-in uses.
HOST = (1, 3, 11)  # the processor's own, page-locked or not
READ_BY_HOST = (*HOST, 13)  # kernels of the host may read it
ADDRESSES = (*HOST, 2, 10, 13)  # `data` is an address, which counting moves
HANDLES = (4, 7, 8, 15)  # `data` is a handle: two that differ are memory apart


# -- the C header ----------------------------------------------------------------------------------


def macros() -> dict[str, str]:
    """Macros of C by their names: rows of numbers and names, and sets as bits (1 << number)."""
    rows = ", \\\n  ".join(f'{{{code}, "{name}"}}' for code, name in NAMES.items())
    sets = {
        "HOST": HOST,
        "READ_BY_HOST": READ_BY_HOST,
        "OF_ADDRESSES": ADDRESSES,
        "OF_HANDLES": HANDLES,
    }
    return {
        "MB_DEVICE_NAMES": f" \\\n  {rows}",
        "MB_DEVICE_NAME_SIZE": str(max(map(len, NAMES.values())) + 1),
        **{
            f"MB_DEVICES_{name}": f"{sum(1 << code for code in codes):#x}ull"
            for name, codes in sets.items()
        },
    }


def header() -> str:
    """The text of `csrc/src/base/device_types.h`."""
    title = "device_types.h - types of devices: their names, and what their memory is"
    return header_of(title, "mblob/device_types.py", macros())


if __name__ == "__main__":
    print(header(), end="")
