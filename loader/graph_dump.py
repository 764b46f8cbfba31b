"""What a graph executor for debugging writes to files: the graph, and the outputs of all nodes.

Names of folders and files, and keys of tensors, are TVM's.
"""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path

from mblob.bytes.whole_file import write_whole
from mblob.errors import ArgumentValueError

TYPE_CHECKING = False  # importing `typing` takes longer than everything else here
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping
    from typing import Any

    from mblob.devices import Device

GRAPH_FILE = "_tvmdbg_graph_dump.json"
TENSORS_FILE = "output_tensors.params"


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
            node["attrs"]["T"] = f"type: {types[entry]}"
            node["shape"] = shapes[entry]
            entry += self.get_graph_node_output_num(node)

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

    def write(self, output: Callable[[int, int], Any]) -> None:
        """Write the outputs of all nodes, as a parameter dictionary."""
        if self.path is not None:
            from mblob.format.ndarray import save_param_dict

            data = save_param_dict(self.get_output_tensors(output))
            write_whole(self.path / TENSORS_FILE, data)

    def remove(self) -> None:
        """Remove the folder of the device, and the folder around it if nothing else is in it."""
        if self.path is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            with suppress(OSError):
                self.path.parent.rmdir()
