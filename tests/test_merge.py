"""``ranktable merge``: tables and probes of nodes become one table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import ranktable
from ranktable.cluster.generate import make_table
from ranktable.cluster.merge import host_key
from ranktable.cluster.probes.probe_line import NodeProbe, ProbedChip
from tests.commands import on_terminal

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.commands import Commands
    from tests.conftest import Run

OUT = "merged.json"


def table(
    chips: Sequence[Sequence[int]], hosts: Sequence[str] | None = None, first: int = 0
) -> bytes:
    """Return a table whose ranks begin where they should."""
    made = make_table(chips, hosts=hosts)
    document = json.loads(ranktable.dumps(made))
    for node in document["node_list"]:
        for device in node["device_list"]:
            for key in ("rank", "world_rank"):
                device[key] = str(int(device[key]) + first)
    return json.dumps(document, indent=1).encode()


def put(folder: Path, **files: bytes) -> list[str]:
    for name, data in files.items():
        (folder / f"{name}.json").write_bytes(data)
    return [f"{name}.json" for name in files]


def probes(*hosts: str, chips: int = 2) -> bytes:
    lines = [
        NodeProbe(
            host=host,
            vendor="sophgo",
            model="BM1690",
            chips=tuple(ProbedChip(device_id=i) for i in range(chips)),
        ).to_line()
        for host in hosts
    ]
    return "".join(lines).encode()


# Tables


def test_ranks_need_not_be_in_one_file_each(run: Run, tmp_path: Path) -> None:
    # A file of two nodes whose ranks lie around those of another file.
    ends = json.loads(table([[0], [1]], ["n1", "n3"]))
    ends["node_list"][1]["device_list"][0].update(rank="2", world_rank="2")
    files = put(tmp_path, a=json.dumps(ends).encode(), b=table([[5]], ["n2"], first=1))
    done = run("ranktable", "merge", *files, "--order", "by-rank", "-o", OUT)

    assert done.status == 0, done.err
    assert ranktable.load(tmp_path / OUT).chip_map == [0, 5, 1]


def test_defect_that_only_the_whole_has_is_placed_in_its_file(
    run: Run, tmp_path: Path
) -> None:
    # Ranks dealt out in turn: each file is a part, but the nodes are not in order.
    def every_second(first: int) -> bytes:
        document = json.loads(table([[0, 1]], [f"n{first}"]))
        for place, device in enumerate(document["node_list"][0]["device_list"]):
            device.update(
                rank=str(2 * place + first), world_rank=str(2 * place + first)
            )
        return json.dumps(document, indent=1).encode()

    files = put(tmp_path, a=every_second(0), b=every_second(1))
    done = run("ranktable", "merge", *files, "-o", OUT)

    assert done.status == 1
    assert "a.json: error[RT503] rank 2 follows rank 0 in node 0" in done.out
    assert "b.json: error[RT503] rank 3 follows rank 1 in node 1" in done.out


# Probes


def test_hosts_are_in_the_order_of_their_numbers() -> None:
    hosts = ["r2n1", "r1n10", "r1n9", "login", "10.0.0.10", "10.0.0.9", "n01", "n1"]

    assert sorted(hosts, key=host_key) == [
        *("10.0.0.9", "10.0.0.10", "login", "n01", "n1"),
        *("r1n9", "r1n10", "r2n1"),
    ]


# Size and progress


def test_progress_is_shown_on_a_terminal_and_erased(
    commands: Commands, tmp_path: Path
) -> None:
    put(tmp_path, a=table([[0]]))
    command = [f"{commands.folder}/ranktable", "merge", "a.json", "-o", OUT]
    said = on_terminal(command, tmp_path, stream="stderr").err

    assert "reading file 1 of 1" in said
    assert said.rindex("\x1b[2K") < said.index("wrote merged.json")


def test_no_progress_where_nobody_sees_it(
    run: Run, commands: Commands, tmp_path: Path
) -> None:
    put(tmp_path, a=table([[0]]))
    done = run("ranktable", "merge", "a.json", "-o", OUT)
    command = [f"{commands.folder}/ranktable", "merge", "a.json", "-o", OUT]
    dumb = on_terminal(command, tmp_path, stream="stderr", env={"TERM": "dumb"}).err

    assert "\r" not in done.err
    assert "unchanged merged.json" in dumb
    assert "\x1b" not in dumb
