"""Sources that the tests of packing and loading share."""

from __future__ import annotations

import numpy as np

import mblob

VADD = "void vadd(const float *a, const float *b, float *c, int64_t n)"
KERNELS = """
#include <stdint.h>
void vadd(const float *a, const float *b, float *c, int64_t n) {
  for (int64_t i = 0; i < n; ++i) c[i] = a[i] + b[i];
}
double mean(const double *x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  return sum / (double)n;
}
"""
PACKED = """
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/c_backend_api.h>
TVM_DLL int scale(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *resource) {
  if (n != 1 || codes[0] != kTVMDLTensorHandle) { TVMAPISetLastError("scale: one tensor, please"); return -1; }
  DLTensor *t = (DLTensor *)args[0].v_handle;
  for (int64_t i = 0; i < t->shape[0]; ++i) ((float *)t->data)[i] *= 2;
  ret->v_int64 = t->shape[0];
  *ret_code = kTVMArgInt;
  return 0;
}
"""


def kernels() -> mblob.Module:
    return mblob.csource_module(
        KERNELS, functions=[VADD, "double mean(const double *x, int64_t n)"]
    )


def arrays(n: int = 1000) -> tuple:
    a = np.arange(n, dtype="float32")
    return a, a[::-1].copy(), np.zeros(n, "float32")
