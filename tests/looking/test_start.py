"""The modules that a look at a library imports: no more than it needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import mblob

# What only programs of virtual machines, models of TVM, checks, pages and comparisons need.
OF_OTHERS = {
    f"mblob.inspect.{name}"
    for name in (
        "relay_summary",
        "relax_program",
        "relax_summary",
        "relax_graph",
        "tvm_executor",
        "verification",
        "html",
        "html.data",
        "difference",
        "host_difference",
    )
}


def test_inspect_of_a_library_without_models_imports_nothing_for_them(tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    host = mblob.csource_module("int f(int a) { return a; }", functions=["int f(int a)"])
    host.import_module(mblob.blob_module("config", b"{}"))
    host.export_library(path)
    script = (
        "import sys; from mblob.cli.main import main; assert main(['inspect', sys.argv[1]]) == 0;"
        " print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True
    )
    imported = set(done.stderr.split())
    assert "mblob.inspect.contents" in imported
    assert imported & OF_OTHERS == set()
