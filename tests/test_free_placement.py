"""Tables that place ranks freely: accepted where they say so, refused by torchrun."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import ranktable
from ranktable.cluster.argument import ArgumentError
from ranktable.runtime.agents import agents_of
from ranktable.schema.rules.examples import device, nodes
from ranktable.simulate.simulation import make_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

GAPS = (
    (device(0, 0), device(1, 2)),
    (device(0, 1), device(1, 3)),
)


def marked(placement: str, *node_list: tuple[str, ...]) -> bytes:
    return nodes(*(node_list or GAPS), head=f'"version":"1.0","placement":{placement},')


FREE = marked('"free"')


def codes(data: bytes) -> dict[str, int]:
    totals = ranktable.check(data).totals
    return {code: count for code, count in totals.items() if code != "RT505"}


def test_gaps_are_an_error_until_the_table_says_that_ranks_are_free() -> None:
    report = ranktable.check(nodes(*GAPS))
    first, _ = (d for d in report.diagnostics if d.code == "RT503")

    assert first.hint == (
        "list the devices of each node by consecutive rank; or write "
        '"placement": "free", if RANK comes from the table'
    )
    assert codes(FREE) == {"RT510": 1}


def test_free_ranks_increase_within_a_node_all_the_same() -> None:
    report = ranktable.check(
        marked('"free"', (device(0, 2), device(1, 0)), (device(0, 1), device(1, 3)))
    )
    (error,) = (d for d in report.diagnostics if d.code == "RT503")

    assert "rank 0 follows rank 2 in node 0" in error.message
    assert error.hint == "list the devices of each node by increasing rank"


def test_free_nodes_come_in_the_order_of_their_lowest_ranks() -> None:
    assert codes(marked('"free"', *GAPS[::-1])) == {"RT504": 1, "RT510": 1}


def test_placement_is_free_or_not_there() -> None:
    assert codes(marked('"strict"')) == {"RT113": 1, "RT503": 2}
    assert codes(marked("true")) == {"RT113": 1, "RT503": 2}


def test_every_rank_of_a_free_table_has_its_chip(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(FREE)
    table = ranktable.load(path)

    assert ranktable.read_rank_table(path) == [0, 0, 1, 1]
    assert ranktable.is_rank_table_valid(path)
    assert [table.node_rank_of(rank) for rank in range(4)] == [0, 1, 0, 1]
    assert ranktable.loads(ranktable.dumps(table)) == table


def test_torchrun_is_refused_and_a_rank_file_is_written(
    run: Callable[..., Outcome],
) -> None:
    table = ranktable.loads(FREE)
    with pytest.raises(ArgumentError, match="torchrun numbers ranks host by host"):
        agents_of(table)
    with pytest.raises(ArgumentError, match="torchrun, which starts the ranks"):
        make_run(table)

    to_rankfile = ("convert", "-", "--to", "openmpi-rankfile")
    named = FREE.replace(b'{"device_list"', b'{"host":"n1","device_list"', 1)
    named = named.replace(b' {"device_list"', b' {"host":"n2","device_list"', 1)
    assert run("ranktable", *to_rankfile, given=named).out == (
        "rank 0=n1 slot=0\nrank 1=n2 slot=0\nrank 2=n1 slot=1\nrank 3=n2 slot=1\n"
    )
    assert (
        "n1: chips 0,1 -> ranks 0,2" in run("ranktable", "show", "-", given=named).out
    )
