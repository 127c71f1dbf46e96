"""Safe repairs: they keep everything else, and they reach an end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ranktable.schema.check import check
from ranktable.schema.fixes import fixed_text, repaired_text
from ranktable.schema.report import Options
from tests.effort import within_cpu

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Run

TABLE = '"node_list":[{"device_list":[{"device_id":"0","rank":"0","world_rank":"0"}]}]'


def fixed(text: str) -> str | None:
    return fixed_text(check(text.encode()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Only the last of repeated parents counts, and only in it is repaired.
        (
            '{"version":"1.0","x":{"a":1},"x":{"a":3,"a":3},' + TABLE + "}",
            '{"version":"1.0","x":{"a":1},"x":{"a":3},' + TABLE + "}",
        ),
        (
            '{"version":"1.0","x":{"a":1,"b":2},"x":{"a":3, "a":3},' + TABLE + "}",
            '{"version":"1.0","x":{"a":1,"b":2},"x":{"a":3},' + TABLE + "}",
        ),
        # The one that stays is repaired too.
        (
            '{"version":"1.0",'
            + TABLE.replace('"rank"', '"device_id":"00","rank"').replace(
                '"0"', '"00"', 1
            )
            + "}",
            '{"version":"1.0",' + TABLE + "}",
        ),
        ("{" + TABLE + "}", '{"version":"1.0",' + TABLE + "}"),
        # Comments of every kind, but not what looks like one in a string.
        (
            '{"version":"1.0", // ours\n"x":"a//b # c", # " x\n/* the\nnodes */'
            + TABLE
            + "}",
            '{"version":"1.0",\n"x":"a//b # c",\n' + TABLE + "}",
        ),
        ('{"version":1.0,' + TABLE + "}", '{"version":"1.0",' + TABLE + "}"),
    ],
)
def test_repair_changes_what_is_wrong_and_nothing_else(
    text: str, expected: str
) -> None:
    result = fixed(text)

    assert result == expected
    json.loads(result)


@pytest.mark.parametrize(
    "text",
    [
        '{"version":"1.0",' + TABLE + "}",
        '{"version":true,' + TABLE + "}",
        '{"version":"1.0",' + TABLE.replace('"rank":"0"', '"rank":"0x0"') + "}",
        '{"version":"1.0",' + TABLE.replace('"0"', "true", 1) + "}",
        "",
        "[",
    ],
)
def test_nothing_is_repaired_where_readers_disagree(text: str) -> None:
    assert fixed(text) is None


def test_places_below_a_repeated_key_are_those_of_the_last(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    node = '{"device_list":[{"device_id":"0","rank":"0","bogus":1}]}'
    path.write_text(
        f'{{"version":"1.0",\n"node_list":[{node}],\n"node_list":[{node}]}}\n'
    )

    found = {d.code: d.location.line for d in check(path).diagnostics}

    assert (found["RT105"], found["RT117"]) == (3, 3)


def test_every_defect_is_repaired_in_one_run(run: Run, tmp_path: Path) -> None:
    devices = ",".join(f'{{"device_id":"0{n}","rank":"{n}"}}' for n in range(40))
    path = tmp_path / "t.json"
    path.write_text(
        f'{{"version":"1.0","node_list":[{{"device_list":[{devices},],}},],}}'
    )

    done = run("ranktable", "validate", "t.json", "--fix")

    assert done.status == 0
    assert check(path).ok
    assert len(json.loads(path.read_text())["node_list"][0]["device_list"]) == 40


@pytest.mark.parametrize("count", [200, 2000])
def test_all_trailing_commas_are_removed(run: Run, tmp_path: Path, count: int) -> None:
    devices = [f'{{"device_id":"{n}","rank":"{n}",}}' for n in range(count)]
    path = tmp_path / "t.json"
    head = '{"version":"1.0","node_list":[{"device_list":[\n'
    path.write_text(head + ",\n".join(devices) + "]}]}")
    expected = path.read_text().replace(",}", "}")

    done = run("ranktable", "validate", "t.json", "--fix")

    assert (done.status, done.err) == (0, "t.json: repaired\n")
    assert path.read_text() == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a":[1,],"b":[1, ,],}', '{"a":[1],"b":[1 ]}'),
        ('{"a":[1,],"b":[1,,,],}', '{"a":[1],"b":[1]}'),
        ('{"a":"1,]","b":[1,],"c":"\\",}",}', '{"a":"1,]","b":[1],"c":"\\",}"}'),
        ('{"a":[1,],"b":tru,"c":[2,]}', '{"a":[1],"b":tru,"c":[2]}'),
        ('{"a":[1,],"b":"x,]', '{"a":[1],"b":"x,]'),
        (
            '{"a":[1,],"b":' + "9" * 5000 + ',"c":[1,]}',
            '{"a":[1],"b":' + "9" * 5000 + ',"c":[1]}',
        ),
        (
            '{"a":[1,],"b":' + "[" * 5000 + '"c":[1,]}',
            '{"a":[1],"b":' + "[" * 5000 + '"c":[1]}',
        ),
    ],
)
def test_only_commas_before_a_bracket_are_removed(text: str, expected: str) -> None:
    assert repaired_text(check(text.encode()), Options()) == expected


def test_what_is_left_is_said(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text('{"version":"1.0",' + TABLE.replace('"0"', '"0x0"', 1) + ",}")

    done = run("ranktable", "validate", "t.json", "--fix")

    assert done.status == 1
    assert done.err == "t.json: repaired in part, 1 error left\n"
    assert "RT114" in done.out


def test_repairs_of_a_large_file_cost_no_more_than_its_size() -> None:
    device = '{"device_id":"0","device_id":"0","rank":"0"}'
    nodes = ",".join(f'{{"device_list":[{device}]}}' for _ in range(4000))

    text = f'{{"version":"1.0","node_list":[{nodes}],"note":"{"x" * 16_000_000}"}}'
    report = check(text.encode())

    # The text after a repair was copied for each of them: 4,000 times 16 MB.
    within_cpu(3, lambda: fixed_text(report))
