"""The table as values, and what writing guarantees."""

from __future__ import annotations

import json
import os
import resource
import signal
import stat
from typing import TYPE_CHECKING

import pytest

import ranktable
from ranktable import Device, Node, RankTable, RankTableError

if TYPE_CHECKING:
    from pathlib import Path

TABLE = RankTable(
    nodes=(
        Node(
            devices=(Device(rank=0, device_id=3), Device(rank=1, device_id=1)),
            host="n1",
        ),
        Node(devices=(Device(rank=2, device_id=5),), host="n2"),
    )
)


def test_table_answers_for_every_rank() -> None:
    assert TABLE.world_size == 3
    assert TABLE.chip_map == [3, 1, 5]
    assert TABLE.device_of(1) == Device(rank=1, device_id=1)
    assert TABLE.node_of(2).host == "n2"
    assert [TABLE.node_rank_of(rank) for rank in range(3)] == [0, 0, 1]
    assert [TABLE.local_rank_of(rank) for rank in range(3)] == [0, 1, 0]
    assert [TABLE.local_chip_map(node) for node in range(2)] == [[3, 1], [5]]


@pytest.mark.parametrize("rank", [-1, 3])
def test_rank_that_is_not_there_is_an_index_error(rank: int) -> None:
    for find in (TABLE.device_of, TABLE.node_of, TABLE.node_rank_of):
        with pytest.raises(IndexError, match="is not among the 3 ranks"):
            find(rank)
    with pytest.raises(IndexError, match="is not among 2 nodes"):
        TABLE.local_chip_map(2)


def test_values_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        TABLE.nodes[0].devices[0].rank = 5  # type: ignore[misc]


def test_unsound_table_is_not_written(tmp_path: Path) -> None:
    twice = RankTable(
        nodes=(
            Node(devices=(Device(rank=0, device_id=0), Device(rank=0, device_id=1))),
        )
    )
    with pytest.raises(RankTableError) as raised:
        ranktable.dump(twice, tmp_path / "table.json")

    assert [d.code for d in raised.value.diagnostics] == ["RT202"]
    assert list(tmp_path.iterdir()) == []


def test_unknown_format_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"there are: sccl-1\.0, hccl-1\.2"):
        ranktable.dumps(TABLE, format="hccl")
    with pytest.raises(ValueError, match="there is no format"):
        ranktable.check(b"{}", format="hccl")


def test_file_is_replaced_with_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    path.write_bytes(b"old")
    path.chmod(0o600)
    old = path.stat()
    ranktable.dump(TABLE, path)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.stat().st_ino != old.st_ino
    assert ranktable.load(path).digest() == TABLE.digest()
    assert [item.name for item in tmp_path.iterdir()] == ["table.json"]


def test_new_file_has_the_permissions_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        ranktable.dump(TABLE, tmp_path / "table.json")
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "table.json").stat().st_mode) == 0o640


def test_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    # A limit below the size of the table: the write fails after the file was made.
    path = tmp_path / "table.json"
    path.write_bytes(b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            ranktable.dump(TABLE, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)

    assert path.read_bytes() == b"old"
    assert [item.name for item in tmp_path.iterdir()] == ["table.json"]


def test_error_shows_its_diagnostics_and_says_what_it_leaves_out() -> None:
    devices = ",".join('{"device_id":"0x1","rank":"0"}' for _ in range(30))
    with pytest.raises(RankTableError) as raised:
        ranktable.loads(
            f'{{"version":"1.0","node_list":[{{"device_list":[{devices}]}}]}}'
        )
    lines = str(raised.value).splitlines()

    assert lines[0] == '<string>:1:60: RT114 device_id is "0x1", not a decimal number'
    assert lines[-1] == "... and 39 more"


@pytest.mark.parametrize("has_addresses", [False, True])
def test_digest_of_a_large_file_is_that_of_its_nodes(has_addresses: bool) -> None:
    nodes = []
    for at in range(200):
        places = [f"10.0.{at}.{chip}" if has_addresses else None for chip in (0, 1)]
        chips = [
            Device(rank=2 * at + chip, device_id=(at + chip) % 2, address=place)
            for chip, place in enumerate(places)
        ]
        nodes.append(Node(host=f"n{at}", devices=tuple(chips)))
    table = RankTable(nodes=nodes)

    # A file of many equal nodes is hashed without making them.
    assert ranktable.loads(ranktable.dumps(table)).digest() == table.digest()


def test_digest_differs_when_a_rank_or_a_chip_does() -> None:
    other = ranktable.loads(
        ranktable.dumps(TABLE).replace(b'"device_id":"5"', b'"device_id":"4"')
    )

    assert other.digest() != TABLE.digest()


def test_unknown_keys_survive() -> None:
    data = (
        b'{"x":1,"version":"1.0","node_list":[{"rack":"r1","device_list":'
        b'[{"rank":0,"device_id":"0","note":{"a":[1.5,null]}}]}]}'
    )

    assert json.loads(ranktable.dumps(ranktable.loads(data))) == json.loads(data)


def test_values_that_look_like_keys_survive() -> None:
    data = (
        b'{"version":"1.0","note":": hello","q":"a\\"b\\": c",'
        b'"node_list":[{"host":": n",'
        b'"device_list":[{"device_id":"0","rank":"0","n":["\\": ",": "]}]}]}'
    )

    assert json.loads(ranktable.dumps(ranktable.loads(data))) == json.loads(data)


def test_unknown_key_that_cannot_be_read_back_is_not_written() -> None:
    huge = RankTable(nodes=TABLE.nodes, extra={"load": 2**70})

    with pytest.raises(RankTableError, match="RT106"):
        ranktable.dumps(huge)


def test_text_that_is_not_unicode_is_not_written() -> None:
    odd = RankTable(nodes=TABLE.nodes, extra={"note": "\ud800"})

    with pytest.raises(RankTableError, match="RT108"):
        ranktable.dumps(odd)
