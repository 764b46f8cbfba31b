"""Runtimes of others behind mblob: oneDNN and OpenCL, beside C that calls them itself."""

from __future__ import annotations

import sys

import numpy as np

import mblob
from benchmarks import onednn, opencl
from benchmarks.executors import wall_seconds
from benchmarks.results import Section, Target, row_of_pairs
from benchmarks.sampling import ROOT, Bench

INTRO = """\
oneDNN layers and launches of OpenCL kernels, by turns with C that does the same; a network in oneDNN beside plain
C. Threads of oneDNN wait without spinning (`OMP_WAIT_POLICY=passive`, where the caller has not set it)."""


def run(bench: Bench) -> Section:
    section = Section("Devices", INTRO)
    bench.say("oneDNN and OpenCL")
    rounds, loops = bench.scale.rounds, bench.scale.loops
    if onednn.available(bench.folder):
        pairs = onednn.dense(bench.folder, 3 * rounds, max(1, loops // 40))
        section.rows.append(
            row_of_pairs("dense layer on oneDNN", "oneDNN in a C loop", "wall", pairs)
        )
    else:
        section.notes.append(
            "A layer on oneDNN was not measured: there is no oneDNN here with headers of its version."
        )
    if opencl.available():
        pairs = opencl.launches(bench.folder, 3 * rounds, max(1, loops // 10))
        section.rows.append(
            row_of_pairs(
                "launch of an OpenCL kernel", "C with the vendor's interface", "wall", pairs
            )
        )
    else:
        section.notes.append("Launches of OpenCL kernels were not measured: there is no device.")
    _both_at_once(bench, section)
    _longer_side(bench, section)
    _network(bench, section)
    return section


def _both_at_once(bench: Bench, section: Section) -> None:
    """A graph over the host and the device, whose nodes are listed in either order."""
    pairs = []
    if opencl.available():
        pairs = list(opencl.both_at_once(bench.folder, 3 * bench.scale.rounds, bench.scale.loops))
        section.rows.append(
            row_of_pairs("a graph over host and device", "its device's node first", "wall", pairs)
        )
    found = section.rows[-1].ratio("wall") if pairs else None
    section.targets.append(
        Target(
            "a graph over host and device, host's node first, over the device's first",
            1.1,
            found,
            "x",
            "the device is PoCL, which takes processors from the host.",
        )
    )


def _longer_side(bench: Bench, section: Section) -> None:
    """A graph with a branch of the host and one of the device: beside the longer of both alone, and
    beside one thread."""
    found = None
    if opencl.available():
        times = list(opencl.longer_side(bench.folder, 3 * bench.scale.rounds))
        pairs = [(both, longer) for both, longer, _ in times]
        section.rows += [
            row_of_pairs("branches of host and device", "the longer one alone", "wall", pairs),
            row_of_pairs(
                "branches of host and device",
                "on one thread",
                "wall",
                [(both, serial) for both, _, serial in times],
            ),
        ]
        found = section.rows[-2].ratio("wall")
    section.targets.append(
        Target(
            "branches of host and device, over the longer one alone",
            1.1,
            found,
            "x",
            "a copy of PoCL waits for processors that other programs have.",
        )
    )


def _network(bench: Bench, section: Section) -> None:
    """The network of examples/convnet: its layers in oneDNN, with the threads that that takes,
    against plain C."""
    sys.path.insert(0, str(ROOT / "examples" / "convnet"))
    import convnet

    models = []
    image = np.random.default_rng(3).random(convnet.IMAGE, dtype="float32")
    try:
        for dnnl in (True, False):
            path = bench.path(f"convnet{int(dnnl)}.so")
            convnet.model(dnnl).export_library(path)
            model = mblob.graph_executor.GraphModule(
                mblob.load_module(path)["default"](mblob.cpu(0))
            )
            model.set_input("image", image)
            model.run()
            models.append(model)
    except mblob.MblobError:
        section.notes.append(
            "The network in oneDNN was not measured: nothing here runs modules of the key dnnl_json."
        )
        return
    np.testing.assert_allclose(
        models[0].get_output(0).numpy(), models[1].get_output(0).numpy(), rtol=1e-3
    )
    ours, plain = (model.run for model in models)
    pairs = ((wall_seconds(ours), wall_seconds(plain)) for _ in range(10 * bench.scale.rounds))
    section.rows.append(
        row_of_pairs("a convolutional network, layers in oneDNN", "plain C kernels", "wall", pairs)
    )
