"""Plug-ins that tests carry in libraries: C text of any name and key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import mblob
from mblob.packager.errors import BuildError

TEMPLATE = r"""
#include <mblob.h>
#include <stdlib.h>
#include <string.h>

%(before)s
static const mblob_host *host;

static int start(const mblob_host *given) {
  host = given;
  return MBLOB_OK;
}
static int open_module(const mblob_host *given, const struct mblob_module_info *info, void **self) {
  uint64_t *size = (uint64_t *)malloc(sizeof(*size));
  if (!size) return given->set_error(MBLOB_E_MEMORY, "no memory");
  *size = info->payload_size;
  *self = size;
  return MBLOB_OK;
}
static int find(void *self, const char *name, void **function) {
  *function = strcmp(name, "size") == 0 ? self : NULL;
  return MBLOB_OK;
}
static int call(void *self, void *function, const TVMValue *args, const int *codes, int count, void *ret) {
  TVMValue value;
  (void)function;
  (void)args;
  (void)codes;
  (void)count;
  value.v_int64 = (int64_t)*(uint64_t *)self%(after_size)s;
  return host->return_value(ret, value, kTVMArgInt);
}

static const mblob_runtime runtimes[] = {{"%(key)s", open_module, find, call, NULL, free}};

MBLOB_PLUGIN(%(symbol)s) = {%(abi)s, sizeof(mblob_plugin), "%(name)s", "1.5", "%(key)s", "", "a test", start, NULL,
                            runtimes, NULL, 1, 0};
"""


def plugin(
    name: str = "toy",
    key: str = "toy_key",
    *,
    symbol: str = "",
    abi: str = "MBLOB_PLUGIN_ABI",
    before: str = "",
    after_size: str = "",
) -> str:
    """A plug-in whose modules have one function, `size`: bytes of the payload.

    Args:
        symbol: end of its symbol; by default its name.
        before: declarations.
        after_size: appended to the expression of the result.
    """
    return TEMPLATE % {
        "name": name, "key": key, "symbol": symbol or name, "abi": abi, "before": before, "after_size": after_size,
    }  # fmt: skip


def exported(path: Path) -> set[str]:
    with mblob.open(path) as lib:
        return {s.name for s in lib.elf.dynsym if s.is_exported}


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def refused(tree: mblob.Module, tmp_path: Path, carry: Any, match: str, **options: Any) -> None:
    with pytest.raises(BuildError, match=match):
        tree.export_library(tmp_path / "x.so", carry=carry, **options)
    assert not (tmp_path / "x.so").exists()
