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


BROKEN = {
    "text": ("srun: error: n2: task 1", "1 RT140 this line is not a JSON object"),
    "list": ("[1]", '1 RT140 this line is not a JSON object: "[1]"'),
    "table": (
        '{"version":"1.0","node_list":[]}',
        "1 RT140 this is not a line of ranktable probe: it has no key probe",
    ),
    "half": (line()[:-3], "1 RT140 the line ends in the middle of an object"),
    "string": (line()[:20], "1 RT140 the line ends in the middle of an object"),
    "two on one line": (line() + line(), "50 RT101 there is more text after the end"),
    "comma": (line()[:-1] + ",}", "49 RT101 there is a comma after the last item"),
    "NaN": (line(model=float("nan")), "58 RT106 the number NaN is not JSON"),
    "key twice": (
        '{"probe":1,"host":"n2","host":"n3","chips":[{"device_id":0}]}',
        '24 RT105 the key "host" occurs twice in one object',
    ),
    "surrogate": (
        line(model="\ud800"),
        "58 RT108 this string has half of a surrogate pair",
    ),
    "depth": (
        f'{{"probe":1,"x":{"[" * 100_000}',
        "79 RT107 the document is nested more than 64 levels deep",
    ),
    "depth that Python still reads": (
        line(x=json.loads("[" * 200 + "]" * 200)),
        "50 RT107 the document is nested more than 64 levels deep",
    ),
    "version": (line(probe=2), "10 RT142 this line has version 2; only 1 is known"),
    "version as text": (line(probe="1"), '10 RT141 probe is "1", not a number'),
    "version true": (line(probe=True), "10 RT141 probe is true, not a number"),
    "no host": (
        '{"probe":1,"chips":[{"device_id":0}]}',
        "1 RT141 the line has no host",
    ),
    "host null": (line(host=None), "19 RT141 host is null, not a string"),
    "host empty": (line(host=""), "19 RT141 host is empty"),
    "host blank": (line(host="a b"), '19 RT141 host "a b" has a blank'),
    "host control": (line(host="a\x07"), "19 RT141 host"),
    "host long": (line(host="n" * 256), "19 RT141 host is longer than 255"),
    "no list": ('{"probe":1,"host":"n2"}', "1 RT141 the line has no chips"),
    "no chips": (line(chips=[]), "32 RT143 no chips were found on n2"),
    "chips null": (line(chips=None), "32 RT141 chips is null, not a list"),
    "chip": (line(chips=[0]), "33 RT141 chips[0] is 0, not an object"),
    "chip empty": (line(chips=[{}]), "33 RT141 chips[0] has no device_id"),
    "id as text": (
        line(chips=[{"device_id": "0"}]),
        '46 RT141 chips[0].device_id is "0", not a number',
    ),
    "id real": (
        line(chips=[{"device_id": 0.0}]),
        "46 RT141 chips[0].device_id is 0.0, not a number",
    ),
    "id negative": (
        line(chips=[{"device_id": -1}]),
        "46 RT141 chips[0].device_id is -1, not 0 to 999999",
    ),
    "id huge": (line(chips=[{"device_id": 10**30}]), "46 RT106 the number of 31"),
    "id twice": (
        line(chips=[{"device_id": 0}, {"device_id": 0}]),
        "62 RT141 chip 0 is listed twice in the line",
    ),
    "address": (
        line(chips=[{"device_id": 0, "address": "10.0.0.555"}]),
        '58 RT141 address "10.0.0.555" is not an IP address',
    ),
    "status": (
        line(chips=[{"device_id": 0, "status": 1}]),
        "57 RT141 chips[0].status is 1, not a string or null",
    ),
    "unseen": (line(unseen=["x"]), '60 RT141 unseen[0] is "x", not an object'),
    "unseen key": (
        line(unseen=[{"what": "x"}]),
        "60 RT141 unseen[0] has no why",
    ),
    "unseen huge": (line(unseen=10**30), "59 RT106 the number of 31"),
    "chips huge": (line(chips=10**30), "32 RT106 the number of 31"),
    "many chips": (
        line(chips=[{"device_id": i} for i in range(1025)]),
        "32 RT141 chips has 1025 items, not 1 to 1024",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_line_is_placed_among_good_ones(name: str) -> None:
    text, expected = BROKEN[name]
    errors = found(GOOD + "\n" + text + "\n" + GOOD.replace("n1", "n3"))

    assert len(errors) == 1
    assert errors[0].startswith(f"3:{expected}")


def test_every_broken_line_is_named_in_one_run() -> None:
    texts = [text for text, _ in BROKEN.values()]
    errors = found("\n".join(texts))

    assert len({error.partition(":")[0] for error in errors}) == len(texts)
    assert merged("\n".join(texts)).table is None


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
