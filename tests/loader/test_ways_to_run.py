"""A model that is run the wrong way is answered with the right one; and what its repr shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mblob

pytestmark = pytest.mark.own_process  # the ffi dialect has a plug-in


def test_a_model_is_answered_with_the_class_that_runs_it(golden: Path) -> None:
    graph = mblob.load_module(golden / "mlp_llvm.so")
    run = re.escape("run it with mblob.graph_executor.GraphModule(lib['default'](mblob.cpu(0)))")
    for wrong in (
        lambda: mblob.relax.VirtualMachine(graph, mblob.cpu(0)),
        lambda: mblob.vm.VirtualMachine(graph, mblob.cpu(0)),
        lambda: mblob.graph_executor.GraphModule(graph),
        lambda: graph["main"],
        graph,
    ):
        with pytest.raises(mblob.MblobError, match=run):
            wrong()
    relax = mblob.load_module(golden / "relax/byoc_c.so")
    with pytest.raises(TypeError, match=r"run it with mblob\.relax\.VirtualMachine\(lib, "):
        mblob.graph_executor.GraphModule(relax)


def test_functions_that_were_added_to_a_model_show_in_its_repr(
    golden: Path, tmp_path: Path
) -> None:
    (tmp_path / "k.c").write_text("int two(void) { return 2; }")
    for name in ("mlp_llvm.so", "relax/byoc_c.so"):
        mblob.add(golden / name, kernels=[tmp_path / "k.c"], output=tmp_path / "all.so")
        assert ": two, " in repr(mblob.load_module(tmp_path / "all.so"))
