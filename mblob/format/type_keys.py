"""The one table of type keys: who wrote each, what its payload looks like in either dialect, who
runs it.

`make generate` makes `csrc/src/base/type_keys.h` from it. No other file of the product
spells a key. Keys are those of TVM's sources (`type_key()`, `kind()`), and `safetensors` is ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from mblob.module import LIBRARY as LIBRARY
from mblob.named_tuple import NamedTuple

FIRST, LAST = 5, 27  # releases of TVM, 0.5 to 0.27


class TypeKey(NamedTuple):
    """A row.

    Attributes:
        key: the type key.
        classic, ffi: fields of the payload in each dialect, `name:letter` (docs/format.md, section
        3; letters are those of `mblob.format.grammar.FIELDS`); NONE where the dialect does not have
        the key. `texts ? fields |
        fields`: the first if the payload's first string is one of the texts.
        first, last: the releases that write it, 0.`first` to 0.`last`; None for a user's own.
        needs: what its loader stands on, for remarks and errors; "" of what mblob runs by itself.
        where: follows `needs` in remarks; "" of what a plug-in of mblob runs.
        no_ffi: why the ffi dialect has no such key, for the error of `convert`.
    """

    key: str
    classic: str
    ffi: str
    first: int = FIRST
    last: int = LAST
    needs: str = ""
    where: str = ", in a TVM built for it"
    no_ffi: str = ""

    @property
    def formats(self) -> tuple[str, ...]:
        """The texts of `texts ? fields | fields`; () without."""
        texts, _, _ = self.classic.rpartition(" ? ")
        return tuple(texts.split(",")) if texts else ()


NONE = "none"
_SOURCE = "fmt:s functions:f data:s"
_METAL = "version:s sources:m functions:f fmt:s"
_SHADERS = "fmt:s functions:f sources:m"
_WGSL = f"wgsl,webgpu ? {_SOURCE} | functions:f sources:m"
_JSON = "symbol:s graph_json:s const_names:v"
_CONSTANTS = "constants:c symbols:y"
_GRAPH = "graph_json:s params:n module_name:s"
_CODE = "code:s"
_PAIR = "symbol:s data:s"
_SIMULATED = "symbol:s nodes_json:s data:s"
_PLUGIN = ""
_ENDED = "graph executors ended with TVM 0.19"

# Device code: lists its kernels.
CUDA, HIP, HSACO, OPENCL, METAL, VULKAN, WEBGPU = (
    "cuda",
    "hip",
    "hsaco",
    "opencl",
    "metal",
    "vulkan",
    "webgpu",
)
OPENGL, HEXAGON = "opengl", "hexagon"
_DEVICES = (
    TypeKey(CUDA, _SOURCE, _SOURCE, needs="the CUDA driver", where=_PLUGIN),
    TypeKey(HIP, _SOURCE, _SOURCE, needs="ROCm"),
    TypeKey(HSACO, _SOURCE, _SOURCE, needs="ROCm"),
    TypeKey(OPENCL, f"cl,clbin,xclbin,awsxclbin,aocx ? {_SOURCE} | functions:f shaders:h", _SOURCE,
            needs="an OpenCL driver", where=_PLUGIN),
    TypeKey(METAL, f"metal,metallib ? {_SOURCE} | {_METAL}", f"metal,metallib ? {_SHADERS} | {_METAL}",
            needs="Metal", where=", in a TVM on Apple's systems"),
    TypeKey(VULKAN, f"vulkan ? fmt:s functions:f shaders:h | {_SOURCE}", _SHADERS, needs="Vulkan"),
    # A compiler without the WebGPU runtime writes the generic source form.
    TypeKey(WEBGPU, _WGSL, _WGSL, first=12, needs="WebGPU", where=", in TVM's runtime for browsers"),
    TypeKey(OPENGL, _SOURCE, NONE, last=6, needs="OpenGL", where=", in TVM 0.5 or 0.6",
            no_ffi="OpenGL ended with TVM 0.6"),
    TypeKey(HEXAGON, _SOURCE, _SOURCE, needs="Hexagon's SDK"),
)  # fmt: skip

# Graphs for libraries of others, with the constants that they take from a const_loader.
DNNL_JSON = "dnnl_json"
_GRAPHS_OF_OTHERS = (
    TypeKey(DNNL_JSON, _JSON, _JSON, needs="oneDNN", where=_PLUGIN),
    TypeKey("tensorrt", _JSON, _JSON, needs="TensorRT"),
    TypeKey("arm_compute_lib", _JSON, _JSON, 7, 23, "Arm Compute Library"),
    TypeKey("bnns_json", _JSON, _JSON, 8, 23, "Apple's BNNS"),
    TypeKey("clml", _JSON, _JSON, 9, needs="Qualcomm's CLML"),
    TypeKey("cublas_json", _JSON, _JSON, 16, needs="cuBLAS"),
    TypeKey("cudnn_json", _JSON, _JSON, 16, needs="cuDNN"),
    TypeKey("hipblas_json", _JSON, _JSON, 18, needs="hipBLAS"),
    TypeKey("nnapi", _JSON, _JSON, 18, needs="Android's NNAPI"),
    TypeKey("msc_tensorrt", _JSON, _JSON, 16, 23, "TensorRT", ", in a TVM built with MSC"),
)

# Constants of external code.
CONST_LOADER, METADATA, METADATA_MODULE = "const_loader", "metadata", "metadata_module"
_LOADED_ELSEWHERE = "constants of external code are a const_loader there"
_CONSTANT_KEYS = (
    TypeKey(CONST_LOADER, _CONSTANTS, _CONSTANTS, 9),
    TypeKey(METADATA, _CONSTANTS, NONE, 7, 8, no_ffi=_LOADED_ELSEWHERE),
    TypeKey(METADATA_MODULE, "", NONE, 9, 19, no_ffi=_LOADED_ELSEWHERE),
)

# Models.
GRAPH_FACTORY, GRAPH_RUNTIME_FACTORY = "GraphExecutorFactory", "GraphRuntimeFactory"
AOT_FACTORY, RELAY_EXECUTABLE = "AotExecutorFactory", "VMExecutable"
RELAX_EXECUTABLE, RELAX_EXECUTABLE_OF_0_16 = "relax.VMExecutable", "relax.Executable"
_MODELS = (
    TypeKey(GRAPH_FACTORY, _GRAPH, NONE, 8, 19, no_ffi=_ENDED),
    TypeKey(GRAPH_RUNTIME_FACTORY, _GRAPH, NONE, 7, 7, no_ffi=_ENDED),
    TypeKey(
        AOT_FACTORY,
        "params:n module_name:s",
        NONE,
        9,
        19,
        no_ffi="ahead-of-time executors ended with TVM 0.19",
    ),
    TypeKey(
        RELAY_EXECUTABLE, _CODE, NONE, 8, 19, no_ffi="Relay's virtual machine ended with TVM 0.19"
    ),
    TypeKey(RELAX_EXECUTABLE_OF_0_16, _CODE, NONE, 16, 19),
    # TVM 0.21 wrote one string in the ffi dialect; later releases say how long the payload is.
    TypeKey(RELAX_EXECUTABLE, _CODE, "code:r", 20, LAST),
)

# All others.
C, STATIC_LIBRARY, EXAMPLE_JSON, SAFETENSORS = "c", "static_library", "examplejson", "safetensors"
_OTHERS = (
    TypeKey("coreml", _PAIR, _PAIR, needs="Core ML", where=", in a TVM on Apple's systems"),
    TypeKey("torch", _PAIR, NONE, 9, 19, "PyTorch"),
    TypeKey(
        "VitisAIRuntime", "runtime:s export_path:s symbol:s const_names:v", NONE, needs="Vitis AI"
    ),
    TypeKey("mrvl_sim", _SIMULATED, NONE, 16, 23, "Marvell's simulator"),
    TypeKey(
        "mrvl_hw", f"{_SIMULATED} inputs:i outputs:i batch:i", NONE, 19, 23, "Marvell's driver"
    ),
    TypeKey("ethos-n", "networks:e", NONE, 7, 18, "Arm's Ethos-N driver"),
    TypeKey(EXAMPLE_JSON, "graph_json:s", NONE, 6, 6, "the example runtime", " of TVM 0.6"),
    TypeKey(
        C, "code:s fmt:s func_names:v const_names:v", "code:s fmt:s func_names:v const_names:v"
    ),
    TypeKey(STATIC_LIBRARY, "data:s func_names:v", "data:s func_names:v"),
)

# The format's own, which are no row: the linked code itself (in the index, for callers: LIBRARY), and the
# last item of a classic stream.
LIB_KEY, TREE_KEY = "_lib", "_import_tree"
RESERVED = (LIB_KEY, TREE_KEY, LIBRARY)  # no payload has one

TABLE = (*_DEVICES, *_GRAPHS_OF_OTHERS, *_CONSTANT_KEYS, *_MODELS, *_OTHERS)
ROWS = {row.key: row for row in TABLE}
TAKEN = sorted((*ROWS, SAFETENSORS, *RESERVED), key=str.lower)  # no key for data of anybody's own
DEVICE_KEYS = tuple(row.key for row in _DEVICES)
GRAPHS = (GRAPH_FACTORY, GRAPH_RUNTIME_FACTORY)
RELAX_EXECUTABLES = (RELAX_EXECUTABLE, RELAX_EXECUTABLE_OF_0_16)
EXECUTABLES = (RELAY_EXECUTABLE, *RELAX_EXECUTABLES)
EXECUTORS = (*GRAPHS, AOT_FACTORY, *EXECUTABLES)


# -- the C header ----------------------------------------------------------------------------------


def letters(fields: str) -> str:
    """A grammar as C has it: the letters of its fields; of two forms `letters texts letters`, the
    first's in front."""
    texts, _, forms = fields.rpartition(" ? ")
    made = ["".join(field.partition(":")[2] for field in form.split()) for form in forms.split("|")]
    return f"{made[0]} {texts} {made[1]}" if texts else made[0]


def _grammars(rows: list[tuple[str, str]]) -> Iterator[str]:
    """C strings, each `keys grammar`, of rows (key, grammar); keys with one grammar share a
    string."""
    for grammar, group in groupby(sorted(rows, key=lambda row: row[1]), key=lambda row: row[1]):
        yield f'"{",".join(key for key, _ in group)} {grammar}\\0"'


def _c_name(name: str) -> str:
    return f"MB_{name}" if name.endswith("_KEY") else f"MB_KEY_{name}"


def header() -> str:
    """The text of `csrc/src/base/type_keys.h`."""
    named = {
        n: v
        for n, v in globals().items()
        if n.isupper() and isinstance(v, str) and v in (*ROWS, SAFETENSORS, *RESERVED)
    }
    both = [(r.key, letters(r.classic)) for r in TABLE if r.ffi != NONE]
    both = [row for row in both if row[1] == letters(ROWS[row[0]].ffi).replace("r", "s")]
    shared = {key for key, _ in both}
    own = {
        "CLASSIC": [(r.key, letters(r.classic)) for r in TABLE if r.key not in shared],
        "FFI": [(r.key, letters(r.ffi)) for r in TABLE if r.key not in shared and r.ffi != NONE],
    }
    lines = [
        "/* type_keys.h - type keys, and what their payloads look like. Made by mblob/format/type_keys.py. */",
        "#ifndef MB_TYPE_KEYS_H",
        "#define MB_TYPE_KEYS_H",
        "",
        f'#define MB_TVM_LAST "0.{LAST}"  /* the latest release of TVM whose libraries are read */',
        "",
        *(f'#define {_c_name(name)} "{key}"' for name, key in named.items()),
        "",
        "/* Strings `keys grammar`: a letter for each field, texts between two forms",
        " * (format/payload_grammar.c). */",
    ]
    for name, rows in {"BOTH_DIALECTS": both, **own}.items():
        lines += [
            f"#define MB_GRAMMARS_OF_{name} \\",
            *(f"  {text} \\" for text in _grammars(rows)),
            '  ""',
            "",
        ]
    needed = sorted(((r.needs, r.key) for r in TABLE if r.needs), key=lambda pair: pair[0])
    groups = groupby(needed, key=lambda pair: pair[0])
    hints = [(needs, ",".join(key for _, key in group)) for needs, group in groups]
    lines += ["/* Keys, and what a loader of them needs, in turn. */", "#define MB_KEY_NEEDS \\"]
    lines += [*(f'  "{keys}\\0" "{needs}\\0" \\' for needs, keys in hints), '  ""', ""]
    return "\n".join([*lines, "#endif", ""])


if __name__ == "__main__":
    print(header(), end="")
