"""What is measured by ``check --links``, and what is wrong with the results."""

from __future__ import annotations

from typing import Any

import pytest

from ranktable.preflight.here import Checked
from ranktable.preflight.link_verdict import (
    SLOW_ON_CHIPS,
    LinkNode,
    Measured,
    Step,
    bus_bandwidth,
    judge_links,
    nodes_of,
    not_measured,
    pair_rounds,
    slow_places,
    steps_of,
)
from ranktable.preflight.records import ProcessRecord
from ranktable.preflight.stored_findings import diagnostics_of
from ranktable.report.check_renderers import render_full
from ranktable.report.terminal import Style

SIZE = 1_000_000_000


def nodes(count: int, ranks: int = 2) -> tuple[LinkNode, ...]:
    return tuple(
        LinkNode(n, f"n{n}", tuple(range(n * ranks, n * ranks + ranks)))
        for n in range(count)
    )


def answers(
    cluster: tuple[LinkNode, ...], time_s: Any = lambda _step: 1.0
) -> dict[int, list[Any]]:
    """Return what ranks say whose all_reduces take some time."""
    said: dict[int, list[Any]] = {
        rank: ["", {}] for node in cluster for rank in node.ranks
    }
    for step in steps_of(cluster):
        for rank in step.ranks:
            result = {"times": [time_s(step)] * 3, "wrong": ""}
            said[rank][1][str(step.stage)] = result
    return said


def judged(
    cluster: tuple[LinkNode, ...], said: dict[int, list[Any]]
) -> dict[str, list[str]]:
    found, _ = judge_links(cluster, said, SIZE, "1 GB, nccl", SLOW_ON_CHIPS)
    by_code: dict[str, list[str]] = {}
    for each in found:
        by_code.setdefault(each.rule.code, []).append(each.message)
    return by_code


@pytest.mark.parametrize("count", range(2, 12))
def test_two_rounds_of_pairs_have_each_node_with_its_neighbours(count: int) -> None:
    first, second = pair_rounds(count)

    for some in (first, second):
        used = [node for pair in some for node in pair]
        assert len(used) == len(set(used))
    pairs = {frozenset(pair) for pair in (*first, *second)}
    assert len(pairs) == len(first) + len(second)
    ring = {frozenset((n, (n + 1) % count)) for n in range(count)}
    assert pairs == (ring if count % 2 == 0 else ring - {frozenset((count - 1, 0))})


def test_one_node_has_no_pairs() -> None:
    assert pair_rounds(1) == [[], []]


@pytest.mark.parametrize(
    ("num_ranks", "expected"), [(2, 1.0), (4, 1.5), (8, 1.75), (16, 1.875)]
)
def test_bus_bandwidth_is_that_of_nccl_tests(num_ranks: int, expected: float) -> None:
    assert bus_bandwidth(10**9, num_ranks, 1.0) == expected


@pytest.mark.parametrize(
    ("values", "slow"),
    [
        ([], []),
        ([1.0], []),
        ([100.0, 99.0], []),
        ([100.0, 40.0], [1]),
        ([100.0, 98.0, 85.0, 99.0], []),
        ([100.0, 98.0, 70.0, 99.0], [2]),
        ([40.0, 100.0, 40.0, 100.0], [0, 2]),  # both pairs of a node, among four
        ([60.0, 100.0, 70.0, 140.0], []),  # the others are as far from each other
        ([459.0, 200.0, 150.0, 2.0], [3]),  # slow by far, however uneven the others are
        ([100.0] * 20_000 + [60.0], [20_000]),
    ],
)
def test_slow_is_far_below_the_others(values: list[float], slow: list[int]) -> None:
    assert slow_places(values, SLOW_ON_CHIPS) == slow


def record(rank: int, **changed: Any) -> ProcessRecord:
    return ProcessRecord(
        **{"rank": rank, "world_size": 4, "host": "h", "pid": rank, **changed}
    )


def test_nodes_have_the_numbers_of_the_launcher() -> None:
    found = nodes_of([record(n, node=1 - n % 2) for n in range(4)])

    assert found == (LinkNode(1, "h", (0, 2)), LinkNode(0, "h", (1, 3)))


def test_nodes_have_the_hosts_of_the_table() -> None:
    placed = [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    found = nodes_of([record(n, node=n // 2, placed=placed[n]) for n in range(4)])

    assert found == (LinkNode(0, "a", (0, 1)), LinkNode(1, "b", (2, 3)))


def test_local_ranks_in_blocks_are_nodes() -> None:
    found = nodes_of(
        [record(n, local_rank=n % 2, local_world_size=2) for n in range(4)]
    )

    assert [node.ranks for node in found] == [(0, 1), (2, 3)]


def test_processes_with_the_name_of_one_host_are_a_node() -> None:
    found = nodes_of(
        [
            record(n, host="ab"[n % 2], local_rank=n // 2, local_world_size=2)
            for n in range(4)
        ]
    )

    assert found == (LinkNode(0, "a", (0, 2)), LinkNode(1, "b", (1, 3)))


def test_slowest_node_and_pair_are_named_with_median_and_spread() -> None:
    cluster = nodes(3)
    found = judged(
        cluster, answers(cluster, lambda step: 1.0 + 0.1 * step.nodes[0].number)
    )

    assert found == {
        "RT785": [
            (
                "the slowest node is node 2 (n2): 0.833 GB/s; median 0.909 GB/s, "
                "fastest 1 GB/s (3 nodes, all_reduce of 1 GB, nccl)"
            ),
            (
                "the slowest pair is node 1 (n1) and node 2 (n2): 1.36 GB/s; median "
                "1.43 GB/s, fastest 1.5 GB/s (2 pairs, all_reduce of 1 GB, nccl)"
            ),
        ]
    }


def test_time_is_that_of_the_slowest_rank_in_each_repetition() -> None:
    cluster = nodes(1)
    said = answers(cluster)
    said[0][1]["0"]["times"] = [1.0, 4.0, 1.0]
    said[1][1]["0"]["times"] = [2.0, 1.0, 5.0]
    _, (measured,) = judge_links(cluster, said, SIZE, "", SLOW_ON_CHIPS)

    assert measured == Measured(Step(0, cluster), 4.0, 0.25)


def test_node_that_is_slow_inside_is_named_and_its_pairs_are_not() -> None:
    cluster = nodes(6)
    slow = cluster[2]
    found = judged(
        cluster, answers(cluster, lambda step: 5.0 if slow in step.nodes else 1.0)
    )

    (message,) = found["RT782"]
    assert message == (
        "node 2 (n2): 0.2 GB/s; the median is 1 GB/s (slow is below 80% of the "
        "others, by more than 3 median distances)"
    )
    assert "RT783" not in found


@pytest.mark.parametrize("count", [4, 5, 6, 9])
def test_node_that_is_slow_in_both_pairs_is_told_from_a_slow_pair(count: int) -> None:
    cluster = nodes(count)
    of_node = answers(
        cluster,
        lambda step: 5.0 if step.stage and cluster[1] in step.nodes else 1.0,
    )
    of_pair = answers(
        cluster, lambda step: 5.0 if step.nodes == (cluster[1], cluster[2]) else 1.0
    )

    found = judged(cluster, of_node)
    assert found["RT782"][0].startswith(
        "node 1 (n1): 0.3 GB/s and 0.3 GB/s in its two pairs; the median is"
    )
    assert "RT783" not in found
    found = judged(cluster, of_pair)
    assert found["RT783"][0].startswith("node 1 (n1) and node 2 (n2): 0.3 GB/s;")
    assert "RT782" not in found


def test_wrong_sums_of_a_node_are_named_once_with_their_ranks() -> None:
    cluster = nodes(4, 4)
    said = answers(cluster)
    for stage in ("0", "1", "2"):
        said[5][1][stage]["wrong"] = "2 of 9 elements, the first is [5]: 1.0, not 2.0"
    found = judged(cluster, said)

    assert found["RT780"] == [
        (
            "wrong sums in node 1 (n1) on rank 5; on rank 5 2 of 9 elements, the "
            "first is [5]: 1.0, not 2.0"
        )
    ]


def test_wrong_sums_between_two_nodes_are_named_by_the_pair() -> None:
    cluster = nodes(4)
    said = answers(cluster)
    for rank in (2, 3, 4, 5):
        said[rank][1]["2"]["wrong"] = "it"
    found = judged(cluster, said)

    assert found["RT780"] == [
        "wrong sums in node 1 (n1) and node 2 (n2) on all ranks; on rank 2 it"
    ]


def test_rank_that_does_not_answer_is_named_and_not_those_that_waited_for_it() -> None:
    cluster = nodes(4)
    said = answers(cluster)
    del said[2]
    said[3][1] = {"0": {"why": "closed by peer"}}
    for rank in (0, 1):  # they hang with node 1, and node 3 with them
        del said[rank][1]["1"], said[rank][1]["2"]
    for rank in (6, 7):
        del said[rank][1]["2"]
    found = judged(cluster, said)

    assert found["RT781"] == ["1 rank ended, stopped or hang: 2 of node 1 (n1)"]


def test_pair_that_does_not_finish_is_named_with_the_first_reason() -> None:
    cluster = nodes(4)
    said = answers(cluster)
    for rank in (2, 3, 4, 5):
        said[rank][1]["2"] = {"why": "Timed out waiting 1000ms"}
    found = judged(cluster, said)

    assert found["RT781"] == [
        (
            "node 1 (n1) and node 2 (n2) did not finish on the ranks 2-5: Timed out "
            "waiting 1000ms"
        )
    ]
    assert "3 pairs" in found["RT785"][1]


def test_reason_of_a_rank_comes_before_those_of_ranks_that_waited_for_it() -> None:
    cluster = nodes(2)
    said: dict[int, list[Any]] = {
        rank: ["RT404 after 30 s 1 of 4 ranks did not connect", {}] for rank in range(4)
    }
    said[3] = ["RT403 rank 3 has device 9", {}]
    found = judged(cluster, said)

    assert found == {"RT784": ["rank 3: RT403 rank 3 has device 9 (3 more)"]}


@pytest.mark.parametrize(
    ("count", "ranks", "skipped"),
    [
        (
            1,
            4,
            {
                "RT782": "there is one node",
                "RT783": "there is one node, so no pairs",
            },
        ),
        (2, 2, {"RT783": "there is one pair of nodes"}),
        (2, 1, {
            "RT782": "fewer than two nodes have two ranks",
            "RT783": "there is one pair of nodes",
        }),
        (3, 1, {"RT782": "fewer than two nodes have two ranks"}),
        (3, 2, {}),
    ],
)  # fmt: skip
def test_what_could_not_be_compared_is_told(
    count: int, ranks: int, skipped: dict[str, str]
) -> None:
    cluster = nodes(count, ranks)
    said = answers(cluster)
    _, measured = judge_links(cluster, said, SIZE, "", SLOW_ON_CHIPS)

    assert {each.code: each.why for each in not_measured(cluster, measured)} == skipped


def test_thousand_nodes_with_every_fault_take_forty_lines() -> None:
    cluster = nodes(1000, 8)
    said = answers(cluster, lambda step: 9.0 if step.nodes[0].number % 9 == 0 else 1.0)
    for rank in range(3, 8000, 90):
        del said[rank]
    for rank in range(24, 8000, 120):
        if rank in said:
            said[rank][1]["0"]["wrong"] = "it"
    for rank in range(41, 8000, 160):
        if rank in said:
            said[rank][1]["1"] = {"why": "Timed out"}
    found, measured = judge_links(cluster, said, SIZE, "1 GB, nccl", SLOW_ON_CHIPS)
    checked = Checked(
        subject="job",
        diagnostics=diagnostics_of(found),
        not_checked=tuple(not_measured(cluster, measured)),
    )

    assert {each.rule.code for each in found} >= {"RT780", "RT781", "RT782", "RT785"}
    lines = "".join(render_full(checked, Style())).splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) < 500
