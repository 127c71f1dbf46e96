"""What a user would write instead of ``gen --spec`` and ``merge``: a few lines of json.

``python -m benchmarks.by_hand spec NODES OUTPUT`` makes a table of nodes of eight
chips, ``merge FOLDER OUTPUT`` one of the files of a folder, ``probes FILE OUTPUT`` one
of lines of ``ranktable probe``. Nothing is checked.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.tables import RING

_SEPARATORS = (",", ":")


def make(num_nodes: int) -> dict[str, Any]:
    """Return the table of this many nodes."""
    return _table([(f"n{node:06}", RING) for node in range(num_nodes)])


def merge(folder: Path) -> dict[str, Any]:
    """Return one table of the nodes of every file."""
    nodes: list[dict[str, Any]] = []
    for path in sorted(folder.iterdir()):
        nodes += json.loads(path.read_text(encoding="utf-8"))["node_list"]
    return {"version": "1.0", "node_list": nodes}


def gather(file: Path) -> dict[str, Any]:
    """Return the table of the nodes that printed these lines."""
    nodes = []
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            node = json.loads(line)
            nodes.append((node["host"], [chip["device_id"] for chip in node["chips"]]))
    return _table(sorted(nodes))


def _table(nodes: list[Any]) -> dict[str, Any]:
    rank = 0
    node_list = []
    for host, chips in nodes:
        device_list = []
        for local_rank, chip in enumerate(chips):
            device_list.append(
                {
                    "device_id": str(chip),
                    "local_rank": str(local_rank),
                    "rank": str(rank),
                    "world_rank": str(rank),
                }
            )
            rank += 1
        node_list.append({"host": host, "device_list": device_list})
    return {"version": "1.0", "node_list": node_list}


def main() -> None:
    """Make the table that the arguments ask for."""
    task, source, output = sys.argv[1:]
    if task == "spec":
        table = make(int(source))
    else:
        table = {"merge": merge, "probes": gather}[task](Path(source))
    with Path(output).open("w", encoding="utf-8") as file:
        json.dump(table, file, indent=4, separators=_SEPARATORS)
        file.write("\n")


if __name__ == "__main__":
    main()
