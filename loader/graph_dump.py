"""Files that a graph executor for debugging writes: the graph, the outputs of all nodes and their
times.

Names of folders and files, and keys of tensors, are TVM's.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mblob.devices import Device
from mblob.errors import ArgumentValueError
from mblob.format.ndarray import save_param_dict
from mblob.temporary import write_whole

if TYPE_CHECKING:
    from mblob.loader.graph_executor import NodeTime

GRAPH_FILE = "_tvmdbg_graph_dump.json"
TENSORS_FILE = "output_tensors.params"
TRACE_FILE = "_tvmdbg_execution_trace.json"
COLUMNS = (
    *("Node Name", "Ops", "Time(us)", "Time(%)", "Shape", "Inputs", "Outputs", "Measurements(us)"),
)


class GraphDump:
    """The nodes of a graph, as TVM's debugger shows them, and a folder for what they compute.

    Args:
        graph: the graph, as text or parsed.
        device: where the model runs; it is part of the folder's name.
        root: the folder that gets a folder for the device; None: nothing is written.

    Attributes:
        path: the folder of the device, None if nothing is written.
    """

    def __init__(
        self, graph: str | Mapping[str, Any], device: Device, root: str | os.PathLike[str] | None
    ) -> None:
        try:
            found = json.loads(graph if isinstance(graph, str) else json.dumps(graph))
            self._nodes: list[dict[str, Any]] = found["nodes"]
            self._describe(found["attrs"])
        except (KeyError, TypeError, IndexError, ValueError) as exc:
            raise ArgumentValueError(
                f"graph_json: not the graph of an executor: {type(exc).__name__} {exc}"
            ) from None
        self._times: Sequence[Sequence[float]] = ()
        self.path: Path | None = None
        if root is not None:
            name = f"_tvmdbg_device_{device.name.upper()}_{device.device_id}"
            self.path = Path(root, name)
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(self.path / GRAPH_FILE, json.dumps(found, indent=4).encode())

    def _describe(self, attrs: Mapping[str, Any]) -> None:
        """Give each node its inputs by name, its function as `op`, its shape and its type."""
        names = [node["name"] for node in self._nodes]
        shapes, types = attrs["shape"][1], attrs["dltype"][1]
        entry = 0
        for node in self._nodes:
            node["inputs"] = [names[source[0]] for source in node.get("inputs", ())]
            if node["op"] == "null":
                node["op"], node["attrs"] = "param", {}
            else:
                node["attrs"] = dict(node["attrs"])
                node["op"] = node["attrs"]["func_name"]
            outputs = self.get_graph_node_output_num(node)
            node["attrs"]["T"] = f"type: {types[entry] if outputs else 'none'}"
            node["shape"] = shapes[entry] if outputs else []
            entry += outputs

    def get_graph_nodes(self) -> list[dict[str, Any]]:
        """The nodes: `name`, `op` ("param", or the name of a function), `inputs`, `shape`, `attrs`."""
        return self._nodes

    def get_graph_node_output_num(self, node: Mapping[str, Any]) -> int:
        """The number of outputs of a node."""
        return int(node["attrs"].get("num_outputs", 1))

    def get_output_tensors(self, output: Callable[[int, int], Any]) -> dict[str, Any]:
        """The outputs of all nodes by TVM's keys; `output(node, i)` gives one."""
        return {
            f"{node['name']}____topo-index:{n}____output-num:{i}": output(n, i)
            for n, node in enumerate(self._nodes)
            for i in range(self.get_graph_node_output_num(node))
        }

    def write(
        self,
        output: Callable[[int, int], Any],
        times: Sequence[Sequence[float]],
        ran: Sequence[NodeTime] = (),
    ) -> None:
        """Write the outputs of all nodes, as a parameter dictionary, and their times, as a trace that
        Chrome shows (chrome://tracing).

        Args:
            output: gives an output of a node: `output(node, i)`.
            times: seconds of each node, one of each measurement.
            ran: when and where the nodes ran in a run of the whole model.
        """
        self._times = times
        if self.path is not None:
            data = save_param_dict(self.get_output_tensors(output))
            write_whole(self.path / TENSORS_FILE, data)
            write_whole(self.path / TRACE_FILE, json.dumps(self._trace(ran)).encode())

    def _trace(self, ran: Sequence[NodeTime]) -> dict[str, Any]:
        """Begin and end of each node in microseconds. In process 1, nodes are alone, one after the
        other, as in TVM. If the whole model ran on several threads, process 2 shows that run."""
        events: list[dict[str, Any]] = []
        now = 0.0
        for node, seconds in zip(self._nodes, self._times):
            for phase in "BE":
                events.append({"ts": now, "ph": phase, "tid": 1, "pid": 1, "name": node["name"]})
                now += 1e6 * _mean(seconds) if phase == "B" else 0
        for node_time in ran if any(row.thread for row in ran) else ():
            for phase, when in (("B", node_time.start), ("E", node_time.end)):
                event = {"ts": 1e6 * when, "ph": phase, "tid": node_time.thread + 1, "pid": 2}
                events.append({**event, "name": node_time.name})
        return {"displayTimeUnit": "ns", "traceEvents": events}

    def get_debug_result(self, sort_by_time: bool = True) -> str:
        """A table of the nodes with a function: times of the last run, shapes, inputs and outputs.

        Args:
            sort_by_time: the slowest node comes first; else their order is that of the graph.
        """
        total = sum(map(_mean, self._times)) or 1.0
        rows = []
        for node, seconds in zip(self._nodes, self._times):
            if node["op"] != "param":
                time, outputs = _mean(seconds), self.get_graph_node_output_num(node)
                share, measured = 100 * time / total, [_microseconds(s) for s in seconds]
                row: list[Any] = [node["name"], node["op"], _microseconds(time), round(share, 3)]
                row += [tuple(node["shape"]), len(node["inputs"]), outputs, measured]
                rows.append((time, list(map(str, row))))
        if sort_by_time:
            rows.sort(key=lambda row: -row[0])
        whole = ["Total_time", "-", str(_microseconds(sum(time for time, _ in rows)))]
        lines = [row for _, row in rows] + [whole + ["-"] * (len(COLUMNS) - len(whole))]
        return _table([list(COLUMNS), ["-" * len(name) for name in COLUMNS], *lines])

    def display_debug_result(self, sort_by_time: bool = True) -> None:
        """Print `get_debug_result`."""
        print(self.get_debug_result(sort_by_time))

    def remove(self) -> None:
        """Remove the folder of the device, and the folder around it if nothing else is in it."""
        if self.path is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            with suppress(OSError):
                self.path.parent.rmdir()


def _mean(seconds: Sequence[float]) -> float:
    return sum(seconds) / len(seconds) if seconds else 0.0


def _microseconds(seconds: float) -> float:
    return round(1e6 * seconds, 3)


def _table(rows: Iterable[Sequence[str]]) -> str:
    """Columns as wide as their longest text, and two spaces behind each."""
    found = list(rows)
    widths = [max(map(len, column)) + 2 for column in zip(*found)]
    return "\n".join("".join(map(str.ljust, row, widths)) for row in found)
