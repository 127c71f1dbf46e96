"""Lines of ``ranktable probe``: strictly read, with the place of every mistake."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ranktable.cluster.generate import MAX_CHIP
from ranktable.cluster.merge import MergeOptions, merge_probes
from ranktable.cluster.probes.probe_line import (
    MAX_CHIPS,
    MAX_HOST_LENGTH,
    SCHEMA_FILE,
    NodeProbe,
    ProbedChip,
)
from ranktable.cluster.probes.read_probes import is_probe_text
from ranktable.schema.schema_validation import validator_of
from tests.file_cases import read_cases

if TYPE_CHECKING:
    from ranktable.cluster.merge import Merged
    from ranktable.schema.model import Node

GOOD = '{"probe":1,"host":"n1","chips":[{"device_id":0}]}\n'


def merged(data: bytes | str, limit: int | None = None) -> Merged:
    content = data.encode() if isinstance(data, str) else data
    return merge_probes(["p"], [content], [None], MergeOptions(limit=limit))


def found(data: bytes | str) -> list[str]:
    """Return place, code and message of every error."""
    return [
        f"{d.location.line}:{d.location.column} {d.code} {d.message}"
        for report in merged(data).reports
        for d in report.diagnostics
        if d.severity.value == "error"
    ]


def line(**members: object) -> str:
    head = {"probe": 1, "host": "n2", "chips": [{"device_id": 0}]}
    return json.dumps({**head, **members}, separators=(",", ":"))


BROKEN = read_cases("probes") | {
    f'{{"probe":1,"x":{"[" * 100_000}\n': (
        "3:79 RT107 the document is nested more than 64 levels deep"
    ),
    line(x=json.loads("[" * 200 + "]" * 200)) + "\n": (
        "3:50 RT107 the document is nested more than 64 levels deep"
    ),
    line(host="n" * 256) + "\n": "3:19 RT141 host is longer than 255 characters",
    line(chips=[{"device_id": i} for i in range(1025)]) + "\n": (
        "3:32 RT141 chips has 1025 items, not 1 to 1024"
    ),
}


@pytest.mark.parametrize("text", BROKEN, ids=lambda text: text[:99])
def test_broken_line_is_placed_among_good_ones(text: str) -> None:
    assert found(f"{GOOD}\n{text}{GOOD.replace('n1', 'n3')}") == [BROKEN[text]]


def test_every_broken_line_is_named_in_one_run() -> None:
    text = "".join(BROKEN)
    errors = found(text)

    assert len({error.partition(":")[0] for error in errors}) == len(BROKEN)
    assert merged(text).table is None


def test_of_many_broken_lines_some_are_kept_and_all_counted() -> None:
    (report,) = merged("x\n" * 5_000, limit=20).reports

    assert len(report.diagnostics) == 20
    assert report.totals == {"RT140": 5_000}


def test_line_ends_and_blank_lines_do_not_matter() -> None:
    text = f"\n{GOOD.rstrip()}\r\n\r\n  {line()}  \n\n"

    assert [n.host for n in table_of(text)] == ["n1", "n2"]


def test_byte_order_mark_is_a_warning() -> None:
    done = merged(b"\xef\xbb\xbf" + GOOD.encode())

    assert done.table is not None
    assert done.reports[0].totals["RT007"] == 1


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "RT102"),
        (b"\n\n", "RT102"),
        (GOOD.encode("utf-16"), "RT006"),
        (GOOD.encode() + b'{"probe":1,"host":"caf\xe9"}\n', "RT005"),
    ],
)
def test_bytes_that_are_no_lines_are_named(data: bytes, code: str) -> None:
    done = merged(data)

    assert [list(report.totals) for report in done.reports] == [[code]]
    assert done.table is None


def test_unknown_keys_are_warnings_and_the_line_counts() -> None:
    done = merged(line(rack="r1", chips=[{"device_id": 0, "power": "9 W"}]))

    assert done.table is not None
    messages = [d.message for r in done.reports for d in r.diagnostics]
    assert sorted(messages) == [
        'no reader knows the key "power"',
        'no reader knows the key "rack"',
    ]


def test_node_without_chips_says_what_it_looked_for() -> None:
    text = line(chips=[], unseen=[{"what": "nvidia", "why": "no nvidia-smi"}])
    (report,) = merged(text).reports

    assert report.diagnostics[0].hint == "it looked for nvidia: no nvidia-smi"


def test_lines_are_known_without_being_told() -> None:
    sorted_keys = json.dumps(json.loads(GOOD), sort_keys=True).encode()

    assert is_probe_text(GOOD.encode())
    assert is_probe_text(b"Loading module\n" + GOOD.encode())
    assert is_probe_text(b'  { "probe" : 1}')
    assert is_probe_text(sorted_keys)
    assert not is_probe_text(b'{"version":"1.0","node_list":[]}')
    assert not is_probe_text(b'{\n "probe"')
    assert not is_probe_text(b"\xff\xfe")
    assert not is_probe_text(b"[" * 100_000)


def test_names_beyond_ascii_survive() -> None:
    probe = NodeProbe(host="knoten-ü", chips=(ProbedChip(device_id=3),))

    assert probe.to_line().isascii()
    assert [node.host for node in table_of(probe.to_line())] == ["knoten-ü"]


def table_of(text: str) -> tuple[Node, ...]:
    table = merged(text).table
    assert table is not None
    return table.nodes


def test_the_schema_has_the_limits_of_the_fast_way() -> None:
    members = validator_of(SCHEMA_FILE).schema["properties"]  # type: ignore[index]
    chips = members["chips"]

    assert set(members) == set(NodeProbe.__struct_fields__)
    assert set(chips["items"]["properties"]) == set(ProbedChip.__struct_fields__)
    assert chips["maxItems"] == MAX_CHIPS
    assert chips["items"]["properties"]["device_id"]["maximum"] == MAX_CHIP
    assert members["host"]["maxLength"] == MAX_HOST_LENGTH
