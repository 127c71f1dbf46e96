"""The table of all groups, as MindIE reads it: judged with ``--for mindie``."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranktable.schema.check import check
from ranktable.schema.finding import RankTableError
from tests.conftest import CORPUS
from tests.effort import law

if TYPE_CHECKING:
    from pathlib import Path

    from ranktable.schema.report import Report
    from tests.conftest import Run


def server(node: int, ranks: list[int], *, first_chip: int = 0) -> dict[str, Any]:
    chips = range(first_chip, first_chip + len(ranks))
    devices = [
        {
            "device_id": f"{chip}",
            "device_ip": f"10.4.{node}.{chip + 1}",
            "device_logical_id": f"{at}",
            "rank_id": f"{rank}",
        }
        for at, (chip, rank) in enumerate(zip(chips, ranks, strict=True))
    ]
    one = {"server_id": f"10.2.0.{node}", "server_ip": f"10.3.0.{node}"}
    return {**one, "device": devices} if ranks else one


def group(name: int, *servers: dict[str, Any]) -> dict[str, Any]:
    count = f"{len(servers)}"
    return {"group_id": f"{name}", "server_count": count, "server_list": [*servers]}


def table(*groups: dict[str, Any]) -> dict[str, Any]:
    top = {"version": "1.0", "status": "completed"}
    return {**top, "server_group_list": [*groups]}


def judged(data: object, reader: str | None = "mindie") -> Report:
    return check(json.dumps(data, indent=1).encode(), reader=reader)


SOUND = table(
    group(0, {"server_ip": "10.3.0.1"}),
    group(1, server(2, [])),
    group(2, server(3, [0, 1]), server(4, [2, 3])),
    group(3, server(5, [1, 0])),
)
ONE_NODE = table(group(2, server(3, [0, 1]), server(3, [0, 1], first_chip=2)))


@pytest.mark.parametrize("data", [SOUND, ONE_NODE, table(group(0), group(1))])
def test_sound_table_of_groups_is_sound_for_mindie_alone(data: object) -> None:
    assert judged(data).totals == {}
    assert judged(data).format == "server-groups"
    assert judged(data, "hccl").totals == {"RT111": 1}
    assert judged(data, None).totals == {"RT111": 1}


def test_tables_of_the_corpus_are_judged() -> None:
    folder = CORPUS / "hccl"
    sound = check(folder / "valid" / "clusterd_global_a3.json", reader="mindie")
    (wrong,) = check(
        folder / "broken" / "clusterd_group_count_mismatch.json", reader="mindie"
    ).diagnostics

    assert sound.totals == {}
    assert wrong.code == "RT292"
    assert wrong.location.pointer == "/server_group_list/2/server_count"


DEVICE = ("server_group_list", 2, "server_list", 1, "device", 1)
WRONG: list[tuple[tuple[str | int, ...], object, str]] = [
    ((*DEVICE, "rank_id"), "2", "RT202"),
    ((*DEVICE, "rank_id"), "5", "RT201"),
    ((*DEVICE, "device_id"), "0", "RT207"),
    ((*DEVICE, "device_ip"), "10.4.0.300", "RT211"),
    ((*DEVICE, "device_ip"), "10.4.3.1", "RT214"),
    (("server_group_list", 2, "server_list", 0, "server_ip"), "here", "RT211"),
    (("server_group_list", 3, "group_id"), "2", "RT294"),
    (("server_group_list", 3, "server_count"), "2", "RT292"),
]


def changed(path: tuple[str | int, ...], value: object) -> dict[str, Any]:
    data: Any = deepcopy(SOUND)
    place = data
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return data  # type: ignore[no-any-return]


@pytest.mark.parametrize(("path", "value", "code"), WRONG)
def test_wrong_table_of_groups_is_an_error_at_its_place(
    path: tuple[str | int, ...], value: object, code: str
) -> None:
    report = judged(changed(path, value))
    pointer = "".join(f"/{step}" for step in path)

    assert report.ok is False
    found = [one for one in report.diagnostics if one.code == code]
    assert [one.location.pointer for one in found] == [pointer]
    assert found[0].location.line


def test_table_of_groups_says_that_it_is_no_table_of_a_job() -> None:
    with pytest.raises(RankTableError, match="RT111"):
        judged(SOUND).sound_table()


@law(40)
@given(st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=3), max_size=4))
def test_ranks_restart_in_every_group_or_in_every_server(
    sizes: list[list[int]],
) -> None:
    whole, each = [], []
    for at, servers in enumerate(sizes):
        starts = [sum(servers[:i]) for i in range(len(servers))]
        nodes = [10 * at + i for i in range(len(servers))]
        counted = [
            server(node, [*range(first, first + size)])
            for node, first, size in zip(nodes, starts, servers, strict=True)
        ]
        restarted = [
            server(node, [*range(size)])
            for node, size in zip(nodes, servers, strict=True)
        ]
        whole.append(group(at + 2, *counted))
        each.append(group(at + 2, *restarted))

    assert judged(table(group(0), *whole)).totals == {}
    assert judged(table(group(0), *each)).totals == {}


def test_command_judges_it_and_says_so(run: Run, tmp_path: Path) -> None:
    (tmp_path / "g.json").write_text(json.dumps(SOUND, indent=1))
    (tmp_path / "w.json").write_text(json.dumps(changed((*DEVICE, "rank_id"), "2")))
    sound = run("ranktable", "validate", "g.json", "--for", "mindie")
    wrong = run("ranktable", "validate", "w.json", "--for", "mindie")

    assert (sound.status, "error" in sound.out) == (0, False)
    assert (wrong.status, "RT202" in wrong.out) == (1, True)


@pytest.mark.parametrize("value", [str(10**9), str(1 << 30)])
def test_chip_of_a_super_pod_may_have_ten_digits(value: str) -> None:
    assert judged(changed((*DEVICE, "super_device_id"), value)).totals == {}
