"""Builds the cffi modules (out-of-line, API mode): `mblob.native._native` over the C runtime, and
`mblob.native._programs` with its readers of programs.

`setup.py` runs this file. What cffi is told of the runtime comes from `csrc/include/mblob.h` itself:
one source that cannot drift. Of structs of the readers the compiler checks each field that is named
here.
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

# What libmblob exports for this package alone: csrc/src/elf/elf.h, csrc/src/format/blob.h.
INTERNAL = """
int mblob_elf_check(const void *data, uint64_t size);
void *mblob_module_dlhandle(mblob_module *module);
int mblob_layout_measure(const char *layout, const void *bytes, size_t size, size_t *out, int *rest);
int mblob_payload_measure(const char *type_key, const void *bytes, size_t size, size_t *out, int *known);
"""

# Loaders and modules written in Python: see loader/callbacks.py.
CALLBACKS = """
extern "Python" {
int mblob_py_open(void *, const mblob_module_info *, void **);
int mblob_py_function(void *, const char *, mblob_function **);
int mblob_py_fallback_function(void *, const char *, mblob_function **);
void mblob_py_close(void *);
int mblob_py_measure(void *, const void *, size_t, size_t *);
int mblob_py_save(void *, int (*)(void *, const void *, size_t), void *);
int mblob_py_made_save(void *, int (*)(void *, const void *, size_t), void *);
int mblob_py_made_function(void *, const char *, mblob_function **);
void mblob_py_made_close(void *);
}
"""


# csrc/src/exec/relax/executable.h and machine.h, csrc/src/exec/relay/executable.h and what they need.
PROGRAMS = """
typedef enum { kDLCPU, ... } DLDeviceType;
typedef struct { DLDeviceType device_type; int32_t device_id; } DLDevice;
typedef struct { uint8_t code, bits; uint16_t lanes; } DLDataType;
typedef struct { int32_t ndim; DLDataType dtype; int64_t *shape; ...; } DLTensor;
typedef union { int64_t v_int64; double v_float64; DLDataType v_type; ...; } TVMValue;
typedef struct { int status; const char *message, *code, *type_key; int64_t offset, entry; ...; } mblob_error_info;
const mblob_error_info *mblob_last_error_info(void);
#define MB_UNKNOWN ...

struct mb_slice { const uint8_t *data; uint64_t size; };
struct mb_stored_array { char *name; DLTensor view; ...; };
enum mb_dialect { MB_CLASSIC, MB_FFI_OF_0_21, MB_FFI, ... };

enum relax_kind { RELAX_PACKED, RELAX_CODE, RELAX_COMPILED, ... };
enum relax_opcode { RELAX_CALL, RELAX_RET, RELAX_GOTO, RELAX_IF, ... };
enum relax_operand { RELAX_REGISTER, RELAX_IMMEDIATE, RELAX_CONSTANT, RELAX_FUNCTION, ... };
enum relax_constant_kind {
  RELAX_TENSOR, RELAX_DTYPE, RELAX_SHAPE, RELAX_STRING, RELAX_INT, RELAX_FLOAT, ...
};
static const int64_t RELAX_VOID, RELAX_CONTEXT;
static char *const RELAX_VERSION;
size_t relax_numbers(const struct relax_executable *, size_t start, size_t end, int64_t *out);
struct relax_function {
  enum relax_kind kind; char *name; size_t start, end; int64_t num_args, register_file;
  char **params; size_t param_count; ...;
};
struct relax_constant {
  enum relax_constant_kind kind; struct mb_stored_array array; uint64_t end; int64_t *extents;
  size_t extent_count; struct mb_slice text; TVMValue value; ...;
};
struct relax_scope { int64_t constant; struct mb_slice name; ...; };
struct relax_executable {
  enum mb_dialect dialect; bool has_scopes; struct relax_scope *scopes; size_t scope_count;
  struct relax_function *functions; size_t function_count; struct relax_constant *constants;
  size_t constant_count, code_count, word_count; ...;
};
int relax_executable_read(struct relax_executable *, const void *, uint64_t, int64_t);
void relax_executable_free(struct relax_executable *);
struct mb_tensor { char *name; DLTensor view; };
struct mb_map { ...; };
void mb_map_free(struct mb_map *);
int relax_parameters_check(const struct relax_executable *, const struct relax_function *,
                           const struct mb_tensor *const *, size_t, int64_t, struct mb_map *);

struct vm_names { char **names; size_t count; };
enum vm_opcode { VM_OPCODE_COUNT, ... };
struct vm_opcode_info { char name[16], fields[8]; ...; };
extern const struct vm_opcode_info vm_opcodes[];
struct vm_instruction { enum vm_opcode opcode; size_t fields; };
struct vm_function {
  char *name; char **params; size_t param_count, register_count, code_count;
  struct vm_instruction *code; int64_t *fields; ...;
};
struct vm_executable {
  char *version; uint64_t *constant_places; DLDevice *devices; struct mb_slice *scopes;
  size_t device_count; struct vm_names globals; struct mb_stored_array *constants;
  size_t constant_count; struct vm_names primitives; struct vm_function *functions;
  size_t function_count; ...;
};
int vm_executable_read(struct vm_executable *, const void *, uint64_t, int64_t);
void vm_executable_free(struct vm_executable *);
"""

# The numbers of many instructions at once, for Python: opcode, target, other, count of operands, and
# kind and value of each operand. Of `end - start` instructions with N operands, 4 * (end - start) + 2 * N.
FOR_PYTHON = """
#include "exec/relax/machine.h"
#include "exec/relay/executable.h"
#include "format/format.h"

static size_t relax_numbers(const struct relax_executable *exec, size_t start, size_t end,
                            int64_t *out) {
  size_t n = 0;
  for (size_t k = start; k < end; k++) {
    const struct relax_instruction *in = &exec->code[k];
    if (out) {
      out[n] = in->opcode;
      out[n + 1] = in->target;
      out[n + 2] = in->other;
      out[n + 3] = in->count;
      for (uint32_t i = 0; i < in->count; i++) {
        out[n + 4 + 2 * i] = relax_operand_kind(in->operands[i]);
        out[n + 5 + 2 * i] = relax_operand_value(in->operands[i]);
      }
    }
    n += 4 + 2 * (size_t)in->count;
  }
  return n;
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


def make_programs() -> FFI:
    """The builder of the readers. `setup.py` links the objects of libmblob that they need."""
    ffi = FFI()
    ffi.cdef(PROGRAMS)
    ffi.set_source(
        "mblob.native._programs",
        FOR_PYTHON,
        include_dirs=[str(INCLUDE), str(INCLUDE / "mblob" / "compat"), str(ROOT / "csrc" / "src")],
        define_macros=[("MBLOB_HOST", None)],
    )
    return ffi


ffibuilder = make
programs = make_programs
