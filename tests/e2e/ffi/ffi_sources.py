"""Sources of the tests of the ffi dialect."""

from __future__ import annotations

from typing import Any

import mblob

PLAIN = """#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
void vadd(const float *a, const float *b, float *c, int64_t n) { for (int64_t i = 0; i < n; i++) c[i] = a[i] + b[i]; }
double scale(double x, int8_t k) { return x * k; }
bool isodd(int64_t k) { return k & 1; }
static char text[64];
const char *greet(const char *who) { snprintf(text, sizeof text, "hello %s", who); return text; }
const char *echo(const char *who) { return who; }
float total(const float *x, int64_t n, int64_t m) {
  float s = 0;
  for (int64_t i = 0; i < n * m; i++) s += x[i];
  return s;
}
void *ident(void *p) { return p; }
void nothing(void) {}
uint64_t big(void) { return ~0ull; }
"""
PROTOTYPES = [
    "void vadd(const float a[n], const float b[n], float c[n], int64_t n)", "double scale(double x, int8_t k)",
    "bool isodd(int64_t k)", "const char *greet(const char *who)", "const char *echo(const char *who)",
    "float total(const float x[n][m], int64_t n, int64_t m)", "void *ident(void *p)", "void nothing(void)",
    "uint64_t big(void)",
]  # fmt: skip

# In the classic packed convention, with an entry.
PACKED = r"""#include <tvm/runtime/c_backend_api.h>
#define FUNCTION(name) TVM_DLL int name(TVMValue *args, int *codes, int n, TVMValue *ret, int *code, void *resource)
FUNCTION(twice) {
  if (n != 1 || codes[0] != kTVMArgInt) { TVMAPISetLastError("twice: wants one int"); return -1; }
  ret->v_int64 = 2 * args[0].v_int64; *code = kTVMArgInt; return 0;
}
FUNCTION(addone) {
  DLTensor *t = (DLTensor *)args[0].v_handle;
  for (int i = 0; i < t->shape[0]; i++) ((float *)t->data)[i] += 1;
  return 0;
}
FUNCTION(same) { *ret = args[0]; *code = codes[0]; return 0; }
FUNCTION(calls) {
  void *f; TVMValue v[3]; int c[3];
  if (TVMBackendGetFuncFromEnv(__tvm_module_ctx, "my.callback", &f)) return -1;
  v[0].v_int64 = 7; c[0] = kTVMArgInt;
  v[1].v_str = "from classic"; c[1] = kTVMStr;
  v[2] = args[0]; c[2] = codes[0];
  return TVMFuncCall(f, v, c, 3, ret, code);
}
FUNCTION(fails) { return -1; }
TVM_DLL const char __tvm_main__[] = "twice";
"""


def plain_module(**how: Any) -> mblob.Module:
    """A host module of plain C functions."""
    return mblob.csource_module(PLAIN, functions=PROTOTYPES, **how)
