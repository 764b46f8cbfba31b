"""Structs and their like by value on other machines: packed functions give what C itself gives, in qemu."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mblob
from mblob.binary.elf import ElfFile
from mblob.format.exported_functions import read_table
from tests.e2e.programs import run
from tests.e2e.test_other_machines import CONVERTED, Machine

pytestmark = pytest.mark.slow  # each machine has a compiler and an emulator

# types, and what is in their values
TYPES = {
    "struct { int a; }": ["a"],
    "struct { char c; }": ["c"],
    "struct { float x; }": ["x"],
    "struct { double x, y; }": ["x", "y"],
    "struct { float x, y, z; }": ["x", "y", "z"],
    "struct { float v[4]; }": ["v[0]", "v[3]"],
    "struct { double v[4]; }": ["v[0]", "v[3]"],
    "struct { double v[5]; }": ["v[0]", "v[4]"],
    "struct { double d; int i; }": ["d", "i"],
    "struct { float f; int i; }": ["f", "i"],
    "struct { int i; double d; }": ["i", "d"],
    "struct { float f; long long l; }": ["f", "l"],
    "struct { long long v[5]; char n[3]; }": ["v[0]", "v[4]", "n[2]"],
    "struct { struct { double x; } p[2]; short s; }": ["p[1].x", "s"],
    "struct { struct { float a; } p; struct { float b[2]; } q; }": ["p.a", "q.b[1]"],
    "struct { struct { char c; } p; float f; }": ["p.c", "f"],
    "union { double d; long long i; }": ["d"],
    "union { float f; float v[2]; }": ["v[0]", "v[1]"],
    "struct { union { float f; int i; } u; float g; }": ["u.i", "g"],
    "struct { float _Complex z; }": ["z"],
    "struct { double _Complex z; int i; }": ["z", "i"],
    "struct { char *p; short s; }": ["p", "s"],
    "struct { char c[3]; }": ["c[0]", "c[2]"],
    "struct { short s; char c; }": ["s", "c"],
    "struct { unsigned char c; double d; float f; }": ["c", "d", "f"],
    "struct { long double l; }": ["l"],
    "struct { int i; long double l; }": ["i", "l"],
    "struct { unsigned long u; unsigned short s[5]; }": ["u", "s[4]"],
    "float _Complex": [""],
    "double _Complex": [""],
}
OF_64_BITS = {"__int128": [""], "struct { __int128 i; int k; }": ["i", "k"]}
# Refused: with `packed`, which debug information does not tell of them, they would be passed in another way.
LONG_DOUBLES = {"struct { long double l; }", "struct { int i; long double l; }"}
WIDER_THAN_REGISTERS = {
    "arm": LONG_DOUBLES | {
        "struct { double d; int i; }", "struct { int i; double d; }", "struct { float f; long long l; }",
        "struct { long long v[5]; char n[3]; }", "struct { struct { double x; } p[2]; short s; }",
        "union { double d; long long i; }", "struct { double _Complex z; int i; }",
        "struct { unsigned char c; double d; float f; }",
    },
    "i386": set(),
    "s390x": set(),
}  # fmt: skip


def source(types: dict[str, list[str]]) -> str:
    lines = []
    for i, (text, members) in enumerate(types.items()):
        places = [f".{m}" if m else "" for m in members]
        added = " ".join(
            f"v{p} += (int)(d + k + f){f' + w{p}' if p != '.p' else ''};" for p in places
        )
        same = " && ".join(f"a->{m} == b->{m}" if m else "*a == *b" for m in members)
        set_ = " ".join(
            f"v{p} = {'(char *)' if p == '.p' else ''}(start + {k});" for k, p in enumerate(places)
        )
        lines += [
            f"typedef {text} T{i};",
            f"T{i} next{i}(double d, T{i} v, int k, T{i} w, float f)",
            f"#ifdef HOST\n;\n#else\n{{ {added} return v; }}\n#endif",
            f"static inline int same{i}(const T{i} *a, const T{i} *b) {{ return {same}; }}",
            f"static inline T{i} made{i}(int start) {{ T{i} v; {set_} return v; }}",
        ]
    return "\n".join(lines) + "\n"


HOST = r"""
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef struct { void *data; struct { int32_t type, id; } device; int32_t ndim; struct {
  uint8_t code, bits; uint16_t lanes; } dtype; int64_t *shape, *strides; uint64_t offset; } tensor;
typedef union { int64_t i; double f; void *p; } value;
typedef struct { int32_t type; uint32_t zero; value v; } any;
typedef struct { const char *data; size_t size; } bytes;
typedef struct { uint64_t references; int32_t type; uint32_t zero; union { void (*deleter)(void *, int); int64_t i; };
} object;
static void *library;
static int ffi;
static char room[256] __attribute__((aligned(16)));
static const void *packed(int number, void *v, void *w, size_t size, int is_complex) {
  char name[40];
  int64_t shape = is_complex ? 1 : (int64_t)size;
  tensor t[2] = {{v, {1, 0}, 1, {1, 8, 1}, &shape, 0, 0}, {w, {1, 0}, 1, {1, 8, 1}, &shape, 0, 0}};
  for (int i = 0; is_complex && i < 2; i++) t[i].dtype.code = 5, t[i].dtype.bits = (uint8_t)(8 * size);
  value a[5] = {{.f = 0.5}, {.p = t}, {.i = 3}, {.p = t + 1}, {.f = 1.5}}, r = {0};
  int codes[5] = {2, 7, 0, 7, 2}, code = 0, status;
  any b[5], result;
  memset(b, 0, sizeof b);
  memset(&result, 0, sizeof result);
  snprintf(name, sizeof name, ffi ? "__tvm_ffi_next%d" : "next%d__packed", number);
  void *f = dlsym(library, name);
  if (!f) return 0;
  static const int types[] = {3, 7, 1, 7, 3};
  for (int i = 0; i < 5; i++) b[i].type = types[i], b[i].v = a[i];
  status = ffi ? ((int (*)(void *, any *, int32_t, any *))f)(0, b, 5, &result)
               : ((int (*)(value *, int *, int, value *, int *, void *))f)(a, codes, 5, &r, &code, 0);
  if (status) return 0;
  if (ffi && result.type == 12) { /* small bytes lie in the value */
    memcpy(room, &result.v, size);
    return result.zero == size ? room : 0;
  }
  /* an object without a runtime, or a block that its caller frees */
  if (ffi ? result.type != 66 : code != 0x1000c) return 0;
  void *owned = ffi ? result.v.p : r.p;
  const bytes *found = ffi ? (bytes *)((char *)owned + sizeof(object)) : owned;
  const int is_right = found->size == size && memcpy(room, found->data, size);
  if (ffi)
    ((object *)owned)->deleter(owned, 3);
  else
    free(owned);
  return is_right ? room : 0;
}
#define TRY(n, is_complex) do { \
    char place[sizeof(T##n) + 1]; /* an argument that is less aligned than the type */ \
    T##n v = made##n(5), w = made##n(40); \
    memcpy(place + 1, &v, sizeof v); \
    T##n (*plain)(double, T##n, int, T##n, float) = dlsym(library, "next" #n); \
    T##n right = plain(0.5, v, 3, w, 1.5f); \
    const T##n *found = packed(n, (is_complex) ? (void *)&v : place + 1, &w, sizeof v, is_complex); \
    printf("%s", found && same##n(found, &right) && !same##n(found, &v) ? "" : "wrong " #n "\n"); \
  } while (0)
int main(int argc, char **argv) {
  library = dlopen(argv[1], RTLD_NOW);
  if (argc != 3 || !library) return printf("%s\n", dlerror()), 1;
  ffi = *argv[2] == 'f';
"""


@pytest.mark.parametrize("dialect", ["classic", "ffi"])
@pytest.mark.parametrize("machine", [None, *CONVERTED], ids=lambda m: m.name if m else "here")
def test_values_are_passed_as_c_passes_them(
    machine: Machine | None, dialect: Any, require: Callable[[str], str], tmp_path: Path
) -> None:
    compiler = require(f"{machine.triplet}-gcc" if machine else "gcc")
    runs = [require(f"qemu-{machine.name}"), "-L", f"/usr/{machine.triplet}"] if machine else []
    is_small = machine is not None and machine.name in ("arm", "i386")
    types = {**TYPES, **({} if is_small else OF_64_BITS)}
    path = tmp_path / "k.so"
    target = {"target": machine.triplet} if machine else {}
    mblob.csource_module(source(types)).export_library(path, dialect=dialect, **target)
    found = {row.name for row in read_table(ElfFile(path.read_bytes(), "")) if row.abi == "packed"}
    refused = {text for i, text in enumerate(types) if f"next{i}" not in found}
    wide = LONG_DOUBLES | {"struct { __int128 i; int k; }"}
    assert refused == WIDER_THAN_REGISTERS.get(machine.name if machine else "", wide)
    tries = "".join(
        f"  TRY({i}, {int('Complex' in text and '{' not in text)});\n"
        for i, text in enumerate(types)
        if text not in refused
    )
    host = f"#define HOST\n{source(types)}{HOST}{tries}  return 0;\n}}\n"
    (tmp_path / "host.c").write_text(host)
    run(compiler, "-O1", "-w", tmp_path / "host.c", "-o", tmp_path / "host", "-ldl")
    assert run(*runs, tmp_path / "host", path, dialect, timeout=100).stdout == ""
