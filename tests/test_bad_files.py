"""Files that are no tables: each ends in a code, never in a traceback or a wait."""

from __future__ import annotations

import json
import os
import socket
import tracemalloc
from itertools import count
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from ranktable.runtime.table import is_rank_table_valid, read_rank_table
from ranktable.schema.check import check
from ranktable.schema.files import UnreadableError, read_file
from ranktable.schema.finding import RankTableError

if TYPE_CHECKING:
    from pathlib import Path

    from ranktable.schema.finding import Diagnostic
    from ranktable.schema.report import Report
    from tests.conftest import Run

GOOD = (
    b'{"version":"1.0","node_list":[{"device_list":[\n'
    b'  {"device_id":"0","rank":"0"},\n  {"device_id":"1","rank":"1"}]}]}\n'
)


def errors(report: Report) -> list[Diagnostic]:
    return [d for d in report.diagnostics if d.severity == "error"]


def with_value(value: bytes) -> bytes:
    return GOOD.replace(b'"device_id":"1"', b'"device_id":' + value)


TEXTS = {
    "duplicate key": (with_value(b'"1","device_id":"2"'), "RT105", (3, 20)),
    "trailing comma": (GOOD.replace(b'"1"}]', b'"1"},]'), "RT101", (3, 31)),
    "comment": (b"// chips\n" + GOOD, "RT101", (1, 1)),
    "hash comment": (GOOD.replace(b"[\n", b"[ # chips\n"), "RT101", (1, 48)),
    "byte order mark": (b"\xef\xbb\xbf" + GOOD, "RT007", (1, 1)),
    "UTF-16": (GOOD.decode().encode("utf-16"), "RT006", (None, None)),
    "UTF-16 without mark": (GOOD.decode().encode("utf-16-le"), "RT006", (None, None)),
    "UTF-32": (GOOD.decode().encode("utf-32"), "RT006", (None, None)),
    "invalid UTF-8": (with_value(b'"\xe9"'), "RT005", (3, 17)),
    "NaN": (with_value(b"NaN"), "RT106", (3, 16)),
    "Infinity": (with_value(b"-Infinity"), "RT106", (3, 16)),
    "10^400": (with_value(b"1" + b"0" * 400), "RT106", (3, 16)),
    "10^5000": (with_value(b"1" + b"0" * 5000), "RT106", (3, 16)),
    "1e400": (with_value(b"1e400"), "RT106", (3, 16)),
    "lone surrogate": (with_value(b'"\\ud800"'), "RT108", (3, 16)),
    "nesting 100,000": (b"[" * 100_000, "RT107", (1, 65)),
    "nesting in a value": (
        with_value(b'"1","a":' + b"[" * 100 + b"]" * 100),
        "RT107",
        (3, 20),
    ),
    "empty": (b"", "RT102", (None, None)),
    "blank": (b" \n\t\n", "RT102", (None, None)),
    "truncated": (GOOD[:70], "RT103", (2, 23)),
    "truncated in a string": (GOOD[:60], "RT103", (2, 13)),
    "two documents": (GOOD + GOOD, "RT101", (4, 1)),
    "HTML": (b"<!DOCTYPE html><html></html>", "RT101", (1, 1)),
    "single quotes": (GOOD.replace(b'"', b"'"), "RT104", (1, 2)),
    "Python words": (with_value(b"None"), "RT104", (3, 16)),
    "leading zero": (with_value(b"01"), "RT101", (3, 17)),
    "missing comma": (GOOD.replace(b"},\n", b"}\n"), "RT101", (3, 3)),
    "control character": (with_value(b'"1\n"'), "RT101", (3, 18)),
    "list": (b"[]", "RT110", (1, 1)),
    "number": (b"5", "RT110", (1, 1)),
    "zero byte": (with_value(b'"\x00"'), "RT101", (3, 17)),
}
NUMBERS = {
    b'"01"': '"01", with a leading zero',
    b'" 1"': '" 1", with blanks around',
    b'"1 "': '"1 ", with blanks around',
    b'"+1"': '"+1", with a sign',
    b'"1.0"': '"1.0", with a fraction',
    b'"0x1"': '"0x1", not a decimal number',
    b'"1_0"': '"1_0", not a decimal number',
    b'"1x"': '"1x", not a decimal number',
    b'"one"': '"one", not a decimal number',
    b'""': '"", an empty string',
    '"１"'.encode(): '"１", in digits that are not ASCII',  # noqa: RUF001
    b'"9999999999"': '"9999999999", a number beyond 999999999',
    b"9999999999": "a number beyond 999999999",
    b"1.0": "1.0, not a plain integer",
    b"5.9": "5.9, which is not an integer",
}
NO_NUMBERS = {b"true": "true", b"null": "null", b"[1]": "a list", b"{}": "an object"}


@pytest.mark.parametrize("name", TEXTS)
def test_text_ends_in_its_code_at_its_place(name: str) -> None:
    data, code, place = TEXTS[name]
    report = check(data)
    found = {
        d.code: (d.location.line, d.location.column) for d in report.diagnostics[::-1]
    }

    assert found[code] == place
    assert report.ok == (code == "RT007")


@pytest.mark.parametrize("value", NUMBERS, ids=repr)
def test_odd_number_is_named(value: bytes) -> None:
    report = check(with_value(value))

    assert [(d.code, d.message, d.location.column) for d in errors(report)] == [
        ("RT114", f"device_id is {NUMBERS[value]}", 16)
    ]


@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
def test_value_of_another_type_is_named(value: bytes) -> None:
    report = check(with_value(value))

    assert [(d.code, d.message) for d in errors(report)] == [
        ("RT113", f"device_id is {NO_NUMBERS[value]}, not a number")
    ]


@pytest.fixture
def paths(tmp_path: Path) -> dict[str, tuple[Path, str]]:
    """Make one of each thing a path can name that is no readable file."""
    made = {
        "missing": (tmp_path / "missing", "RT001"),
        "directory": (tmp_path / "directory", "RT003"),
        "socket": (tmp_path / "socket", "RT003"),
        "dangling link": (tmp_path / "dangling", "RT001"),
        "link loop": (tmp_path / "loop", "RT002"),
        "file as folder": (tmp_path / "file" / "x", "RT001"),
        "device": (tmp_path / "zero", "RT003"),
        "too long a name": (tmp_path / ("x" * 300), "RT002"),
    }
    made["directory"][0].mkdir()
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "zero").symlink_to("/dev/zero")
    here = os.getcwd()
    os.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
    os.chdir(here)
    return made


def test_path_that_is_no_file_ends_in_its_code(
    paths: dict[str, tuple[Path, str]],
) -> None:
    expected = {name: code for name, (_, code) in paths.items()}

    assert {
        name: check(path).diagnostics[0].code for name, (path, _) in paths.items()
    } == expected


def test_path_that_is_no_file_is_no_valid_table(
    paths: dict[str, tuple[Path, str]],
) -> None:
    for path, code in paths.values():
        assert not is_rank_table_valid(path)
        with pytest.raises(RankTableError) as raised:
            read_rank_table(path)
        assert [d.code for d in raised.value.diagnostics] == [code]


def test_silent_pipe_is_given_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnreadableError) as raised:
        read_file(str(tmp_path / "pipe"), pipe_wait_s=0.05)

    assert raised.value.code == "RT003"
    assert str(raised.value) == "nothing was written to this named pipe for 0.05 s"


def test_pipe_whose_writer_stops_is_given_up(tmp_path: Path) -> None:
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    writer = os.open(pipe, os.O_RDWR)
    os.write(writer, b"{")
    with pytest.raises(UnreadableError, match=r"for 0\.05 s"):
        read_file(pipe, pipe_wait_s=0.05)
    os.close(writer)


def test_table_is_read_from_a_named_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_bytes, args=(GOOD,))
    writer.start()

    assert read_rank_table(pipe) == [0, 1]
    writer.join()


def test_chip_used_twice_is_found_where_nodes_are_uneven(tmp_path: Path) -> None:
    nodes = [[0, 1], [0], [1, 0, 1]]  # 0, 1 three times, if nobody looks at the nodes
    ranks = count()
    table = {
        "version": "1.0",
        "node_list": [
            {
                "device_list": [
                    {"device_id": f"{c}", "rank": f"{next(ranks)}"} for c in n
                ]
            }
            for n in nodes
        ],
    }
    (tmp_path / "t.json").write_text(json.dumps(table))

    with pytest.raises(RankTableError, match="RT207"):
        read_rank_table(tmp_path / "t.json")


def test_command_cannot_judge_what_is_no_file(
    paths: dict[str, tuple[Path, str]], run: Run
) -> None:
    done = run("ranktable", "validate", *(str(path) for path, _ in paths.values()))

    assert done.status == 2
    assert [line.split("[")[1][:5] for line in done.out.splitlines()[:-1]] == [
        code for _, code in paths.values()
    ]


def test_file_that_cannot_be_read_is_named() -> None:
    # A regular file by its mode; reading its first page is an I/O error, even for root.
    report = check("/proc/self/mem")

    assert [d.code for d in report.diagnostics] == ["RT002"]
    assert "input/output error" in report.diagnostics[0].message


def test_file_over_the_limit_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    path.write_bytes(GOOD + b" " * 2000)

    assert check(path, max_size_bytes=1000).diagnostics[0].code == "RT004"
    assert check(path, max_size_bytes=3000).ok


def test_name_with_a_null_byte_is_missing() -> None:
    assert check("a\0b").diagnostics[0].code == "RT001"


def test_symbolic_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data" / "table.json").write_bytes(GOOD)
    (tmp_path / "table.json").symlink_to("..data/table.json")

    assert read_rank_table(tmp_path / "table.json") == [0, 1]


def test_a_hundred_thousand_defects_are_counted_and_few_are_shown() -> None:
    devices = b",".join(b'{"device_id":"0x1","rank":"0"}' for _ in range(100_000))
    data = b'{"version":"1.0","node_list":[{"device_list":[' + devices + b"]}]}"

    report = check(data, limit=20)

    assert report.totals == {
        "RT114": 100_000,
        "RT118": 1,
        "RT202": 99_999,
    }
    assert len(report.diagnostics) == 41


def test_long_unterminated_string_costs_no_more_than_its_size() -> None:
    data = b'{"version":"1.0","note":"' + b"[x]" * 200_000
    tracemalloc.start()
    report = check(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert [d.code for d in report.diagnostics] == ["RT103"]
    assert report.diagnostics[0].message.endswith("1 bracket not closed")
    assert peak < 12 * len(data)


@pytest.mark.parametrize("key", ["rank", "local_rank"])
def test_hole_before_a_node_larger_than_a_piece_is_found(key: str) -> None:
    devices = b",".join(
        b'{"device_id":"%d","rank":"%d","local_rank":"%d"}' % (n, n, n)
        for n in range(1000)
    )
    data = b'{"version":"1.0","node_list":[ ,{"device_list":[' + devices + b"]}]}"
    data = data.replace(b'"local_rank"', b'"%s"' % key.encode())

    assert not check(data).ok


@pytest.mark.parametrize("depth", [50, 200, 900, 970, 980, 985, 990, 995, 2000])
def test_any_depth_is_judged(depth: int) -> None:
    data = with_value(b'"1","a":' + b"[" * depth + b"]" * depth)
    codes = check(data).totals

    assert ("RT107" in codes) == (depth > 64)


def test_zero_bytes_are_named() -> None:
    report = check(b"\0" * 100)

    assert [d.message for d in report.diagnostics] == [
        "the file holds zero bytes, as it may after a crash"
    ]


def test_both_addresses_of_a_device_are_judged() -> None:
    data = GOOD.replace(
        b'"rank":"1"',
        b'"rank":"1","device_ip":"x","device_ip_emulator":"10.0.0.1"',
    )

    assert [d.message for d in errors(check(data))] == [
        'device_ip "x" is not an IP address'
    ]


COUNTED = {
    "RT105": b'{"device_id":"%d","rank":"%d","rank":"%d"}',
    "RT106": b'{"device_id":NaN,"device_id":NaN,"rank":"%d"}',
    "RT112": b'{"rank":"%d"}',
    "RT113": b'{"device_id":null,"rank":"%d"}',
    "RT114": b'{"device_id":"0%d","rank":"%d"}',
    "RT117": b'{"device_id":"%d","rank":"%d","x":1}',
    "RT202": b'{"device_id":"%d","rank":"0"}',
    "RT203": b'{"device_id":"%d","rank":"-1"}',
    "RT206": b'{"device_id":"%d","rank":"%d","local_rank":"99"}',
    "RT207": b'{"device_id":"0","rank":"%d"}',
    "RT208": b'{"device_id":"-%d1","rank":"%d"}',
    "RT211": b'{"device_id":"%d","rank":"%d","device_ip":"x"}',
}


@pytest.mark.parametrize("code", COUNTED)
def test_totals_do_not_depend_on_how_many_are_shown(code: str) -> None:
    device = COUNTED[code]
    nodes = b",".join(
        b'{"device_list":['
        + b",".join(
            device.replace(b"%d", b"%d" % (rank % 4), 1).replace(b"%d", b"%d" % rank)
            for rank in range(4 * node, 4 * node + 4)
        )
        + b"]}"
        for node in range(10)
    )
    data = b'{"version":"1.0","node_list":[' + nodes + b"]}"
    few, every = check(data, limit=3), check(data)

    assert few.totals == every.totals
    assert few.totals[code] > 3
    assert sum(d.code == code for d in few.diagnostics) == 3


def test_count_of_servers_in_text_is_compared_too() -> None:
    data = (
        b'{"status":"completed","version":"1.0","server_count":"3","server_list":['
        b'{"server_id":"a","device":[{"device_id":"0","rank_id":"0"}]}]}'
    )

    assert [(d.code, d.message) for d in errors(check(data))] == [
        ("RT210", "server_count is 3, but server_list has 1 entry")
    ]


def test_count_of_servers_of_a_wrong_type_is_compared_too() -> None:
    data = (
        b'{"status":"completed","version":"1.0","server_count":3,"server_list":['
        b'{"server_id":"a","device":[{"device_id":"0","rank_id":"0"}]}]}'
    )

    assert [(d.code, d.message) for d in errors(check(data))] == [
        ("RT113", "server_count is 3, not a string of digits"),
        ("RT210", "server_count is 3, but server_list has 1 entry"),
    ]


@pytest.mark.parametrize("value", ["[]", '["1.0"]', "{}", "null", "1", "true"])
@pytest.mark.parametrize("key", ["version", "status", "server_count", "layout"])
def test_any_value_of_a_top_key_is_read_or_diagnosed(key: str, value: str) -> None:
    members = {
        "version": '"1.0"',
        "status": '"completed"',
        "server_count": '"1"',
        "layout": '"tp=1 order=tp-cp-ep-dp-pp"',
        key: value,
    }
    head = ",".join(f'"{name}":{text}' for name, text in members.items())
    data = (
        f'{{{head},"server_list":[{{"server_id":"a","device":['
        '{"device_id":"0","device_ip":"","rank_id":"0"}]}]}'
    ).encode()

    found = {d.location.pointer for d in errors(check(data))}

    assert found == {f"/{key}"}


def test_missing_node_is_one_finding_between_its_neighbours() -> None:
    ranks = [*range(24), *range(32, 64)]
    devices = [{"device_id": str(rank % 8), "rank": str(rank)} for rank in ranks]
    nodes = [{"device_list": devices[at : at + 8]} for at in range(0, len(ranks), 8)]
    report = check(json.dumps({"version": "1.0", "node_list": nodes}).encode())

    (gap,) = (each for each in report.diagnostics if each.code == "RT201")
    assert report.totals["RT201"] == 1
    assert gap.message == (
        "the ranks 24-31 are missing: 56 devices need the ranks 0 to 55"
    )
    assert gap.location.pointer == "/node_list/3/device_list/0/rank"
    assert "ranktable fit" in str(gap.hint)


def test_devices_that_are_not_read_are_no_set_of_chips() -> None:
    server = {"server_id": "n1", "devices": [{"device_id": "0", "rank_id": "0"}]}
    table = {"version": "1.0", "status": "completed", "server_count": "1"}

    report = check(json.dumps({**table, "server_list": [server]}).encode(), chip="910")

    assert report.totals.keys() == {"RT112"}


@pytest.mark.parametrize(("chip", "code"), [("12", "RT208"), ("3", "RT501")])
def test_table_is_judged_by_the_links_that_it_names(
    chip: str, code: str, tmp_path: Path
) -> None:
    chips = ["0", "1", "2", chip]
    devices = [{"device_id": one, "rank": str(rank)} for rank, one in enumerate(chips)]
    table = {"version": "1.0", "topology": "sophgo-8"}
    data = json.dumps({**table, "node_list": [{"device_list": devices}]}).encode()
    named = {**table, "topology": "sophgo8", "node_list": [{"device_list": devices}]}

    found = {each.code: each.severity for each in check(data).diagnostics}
    (tmp_path / "t.json").write_bytes(data)
    assert found[code] == ("error" if code == "RT208" else "warning")
    assert is_rank_table_valid(tmp_path / "t.json") == (code != "RT208")
    assert "RT512" in check(json.dumps(named).encode()).totals


@pytest.mark.parametrize(("chip", "codes"), [("7", set()), ("8", {"RT208"})])
def test_chips_of_a_spare_are_those_of_the_links(chip: str, codes: set[str]) -> None:
    table = {
        "version": "1.0",
        "topology": "sophgo-8",
        "node_list": [{"device_list": [{"device_id": "0", "rank": "0"}]}],
        "spare_list": [{"device_list": [{"device_id": chip}]}],
    }
    found = check(json.dumps(table).encode()).diagnostics

    assert {each.code for each in found if each.severity == "error"} == codes
    assert all("entry 0 of spare_list" in e.message for e in found if e.code in codes)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("version: '1.0'\nnode_list: []\n", 1, "this is YAML"),
        ('{"version":"1.0",\n<<<<<<< HEAD\n"node_list":[]}\n', 2, "a conflict"),
        ('{"version":"1.0"\n=======\n"node_list":[]}\n', 2, "a conflict"),
        ("{\u201cversion\u201d:1}", 1, "a quotation mark of a word processor"),
        ('{version:"1.0"}', 1, "a key in double quotes is expected here"),
        (",\n", 1, "a value is expected here"),
        (",]", 1, "a value is expected here"),
    ],
)
def test_text_of_another_kind_is_named(text: str, line: int, said: str) -> None:
    (found,) = check(text.encode()).diagnostics

    assert (found.code, found.location.line) == ("RT101", line)
    assert said in found.message
    assert found.hint or "expected" in said
    assert found.edit is None


def test_two_tables_pasted_together_are_one_finding_that_names_merge() -> None:
    one = b'"node_list":[{"device_list":[{"device_id":"0","rank":"0"}]}]'
    two = one.replace(b'"rank":"0"', b'"rank":"1"')
    (found,) = check(b'{"version":"1.0",' + one + b"," + two + b"}").diagnostics

    assert found.code == "RT105"
    assert "ranktable merge" in (found.hint or "")


def test_name_that_people_have_for_a_generation_is_known() -> None:
    table = b'{"version":"1.0","status":"completed","server_list":[{"server_id":"a",'
    table += b'"device":[{"device_id":"16","device_ip":"10.0.0.1","rank_id":"0"}]}]}'

    assert set(check(table, chip="910B").totals) == {"RT208"}


@pytest.mark.parametrize("key", ["rank", "world_rank"])
def test_reader_refuses_a_table_without_its_key_of_the_rank(key: str) -> None:
    readers = {"rank": "sccl", "world_rank": "torch_tpu"}
    device = b'{"device_id":"0","%s":"0"}' % key.encode()
    table = b'{"version":"1.0","node_list":[{"device_list":[%s]}]}' % device

    assert {name: check(table, reader=name).ok for name in readers.values()} == {
        name: one == key for one, name in readers.items()
    }


def test_version_of_another_format_is_told_the_version_of_this_one() -> None:
    table = b'{"version":"1.1","status":"completed","server_list":[{"server_id":"a",'
    table += b'"device":[{"device_id":"0","rank_id":"0"}]}]}'
    (found,) = check(table).diagnostics

    assert found.message == 'version is "1.1"; hccl-1.0 has "1.0"'


def test_missing_key_has_an_example_as_help() -> None:
    table = b'{"version":"1.0","node_list":[{"device_list":[{"rank":"0"}]}]}'
    (found,) = errors(check(table))

    assert found.hint == 'add it, such as "device_id":"0"'


def test_key_that_is_misspelt_by_its_letters_is_named() -> None:
    table = b'{"version":"1.0","node_list":[{"device_list":[{"Device_ID":"0",'
    table += b'"rank":"0","world_rank":"0"}]}]}'
    (found,) = check(table).diagnostics

    assert (found.code, found.hint) == ("RT112", 'rename it to "device_id"')


@pytest.mark.parametrize("key", ["Device_ID", "devise_id", "device-id"])
def test_misspelt_key_is_named_once_at_its_place(key: str) -> None:
    data = (
        f'{{"version":"1.0","node_list":[{{"device_list":[\n'
        f'  {{"{key}":"0","rank":"0","world_rank":"0"}}]}}]}}\n'
    ).encode()

    assert [(d.code, d.message, d.hint) for d in check(data).diagnostics] == [
        (
            "RT112",
            f'device 0 of node 0 has no device_id, but a key "{key}"',
            'rename it to "device_id"',
        )
    ]
