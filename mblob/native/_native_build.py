"""Builds `mblob.native._native`, the cffi module (out-of-line, API mode) over the C runtime.

`setup.py` runs this file. What cffi is told comes from `csrc/include/mblob.h` itself: one source
that cannot drift.
"""

from __future__ import annotations

import re
from pathlib import Path

from cffi import FFI

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "csrc" / "include"

# Types of dlpack.h and tvm/runtime/c_runtime_api.h that mblob.h uses; "..." leaves layouts to the
# compiler.
TVM_TYPES = """
typedef struct { ...; } DLDevice;
typedef struct { ...; } DLDataType;
typedef struct { ...; } DLTensor;
typedef struct { ...; } mblob_plugin;
typedef union { int64_t v_int64; double v_float64; void *v_handle; const char *v_str; ...; } TVMValue;
typedef void *TVMRetValueHandle;
typedef int (*TVMPackedCFunc)(TVMValue *, int *, int, TVMRetValueHandle, void *);
typedef void (*TVMPackedCFuncFinalizer)(void *);
static char *const MBLOB_VERSION;
"""

# What libmblob exports for this package alone: csrc/src/elf/elf.h.
INTERNAL = """
int mblob_elf_check(const void *data, uint64_t size);
"""

# Loaders and modules written in Python: see loader/callbacks.py.
CALLBACKS = """
extern "Python" {
int mblob_py_open(void *, const mblob_module_info *, void **);
int mblob_py_function(void *, const char *, mblob_function **);
int mblob_py_fallback_function(void *, const char *, mblob_function **);
void mblob_py_close(void *);
int mblob_py_made_function(void *, const char *, mblob_function **);
void mblob_py_made_close(void *);
}
"""


def declarations(header: str) -> str:
    """The declarations of a C header as `FFI.cdef` takes them: no comments, no preprocessor, no
    MBLOB_API. Of `#if` only `#ifdef __cplusplus` around `extern "C"` is understood.
    """
    text = re.sub(r"/\*.*?\*/", " ", header, flags=re.DOTALL).replace("\\\n", "")
    text = re.sub(r"^#ifdef __cplusplus$.*?^#endif$", "", text, flags=re.DOTALL | re.MULTILINE)
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return re.sub(r"\bMBLOB_API\s+", "", "\n".join(lines)) + "\n"


def make() -> FFI:
    """The builder that `cffi_modules` in setup.py names."""
    ffi = FFI()
    ffi.cdef(TVM_TYPES)
    ffi.cdef(declarations((INCLUDE / "mblob.h").read_text(encoding="utf-8")))
    ffi.cdef(INTERNAL)
    ffi.cdef(CALLBACKS)
    ffi.set_source(
        "mblob.native._native",
        f"#include <mblob.h>\n{INTERNAL}",
        include_dirs=[str(INCLUDE)],
        define_macros=[("MBLOB_HOST", None)],
    )
    return ffi


ffibuilder = make
