"""Links, rings and files of links."""

from __future__ import annotations

import json
from itertools import permutations
from typing import TYPE_CHECKING

import pytest
from jsonschema import Draft202012Validator

from ranktable import RankTableError, check
from ranktable.schema.rules.placement import suggest
from ranktable.schema.schema_validation import schema_text
from ranktable.schema.topology import SOPHGO_8, linked
from ranktable.schema.topology_file import find_topology
from tests.effort import within_cpu

if TYPE_CHECKING:
    from pathlib import Path

MATRIX = [[-1] * 8 for _ in range(8)]
for port, (a, b) in enumerate(sorted(SOPHGO_8.links)):
    MATRIX[a][b] = MATRIX[b][a] = port


@pytest.mark.parametrize(
    ("size", "rings", "ordered"), [(2, 10, 20), (3, 0, 0), (4, 3, 24), (5, 0, 0),
                                   (6, 2, 24), (7, 0, 0), (8, 1, 16)]
)  # fmt: skip
def test_published_box_has_the_rings_that_were_enumerated(
    size: int, rings: int, ordered: int
) -> None:
    # Source: SOPHGO's manual, and an enumeration of its picture.
    assert len(SOPHGO_8.rings_of_size(size, limit=100)) == rings
    legal = [p for p in permutations(range(8), size) if not SOPHGO_8.broken_links(p)]
    assert len(legal) == ordered


@pytest.mark.parametrize(
    "order", [(7, 6, 2, 3), (1, 0, 2, 3), (1, 0, 4, 5), (0, 2, 6, 7, 3, 1, 5, 4)]
)
def test_orders_of_the_manual_are_rings(order: tuple[int, ...]) -> None:
    assert SOPHGO_8.broken_links(order) == []
    assert len(SOPHGO_8.rings(order)) == 1


def test_search_for_rings_is_bounded() -> None:
    dense = linked("dense", 64, [(a, b) for a in range(64) for b in range(a)])
    sparse = linked("sparse", 64, [(a, a + 1) for a in range(63)])

    assert len(dense.rings(range(64))) == 4
    assert sparse.rings(range(64)) == []


FILES = {
    "matrix.json": json.dumps(MATRIX),
    "matrix.txt": "\n".join(" ".join(map(str, row)) for row in MATRIX),
    "links.json": json.dumps({"links": sorted(SOPHGO_8.links)}),
    "links.txt": "# the box\n" + "".join(f"{b}, {a}\n" for a, b in SOPHGO_8.links),
}


@pytest.mark.parametrize("name", FILES)
def test_links_are_read_from_a_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(FILES[name])
    found = find_topology(str(path))

    assert (found.links, found.num_chips) == (SOPHGO_8.links, 8)


BAD = {
    "[]": "neither a matrix nor a list of links",
    "{}": "neither a matrix nor a list of links",
    "": "neither a matrix nor a list of links",
    '{"links": "x", "matrix": [[-1,1],[1,-1]]}': '"links" is not a list of rows',
    '{"matrix": "x"}': '"matrix" is not a list of rows',
    '{"matrix": []}': '"matrix" is not a list of rows',
    "[1,2]": "row 0 is not a list of integers",
    '[["a"]]': "row 0 is not a list of integers",
    "0 x": "row 0 is not a list of integers",
    "[[0,0]]": "a link joins two different chips",
    "[[0,1],[1,-2]]": "a link joins two different chips",
    "[[0,1,2],[1,0]]": "row 0 has 3 entries",
    "[[0,1,0],[1,0,1],[0,1,0]]": "looks like a matrix of 0 and 1",
    "[[-1,1,1],[-1,-1,1],[1,1,-1]]": "linked in one direction only",
    "[[0,1]": "the file ends in the middle",
    "[[0,1024]]": "a link joins two different chips",
    "[[1024,0]]": "a link joins two different chips",
}


@pytest.mark.parametrize("text", BAD)
def test_file_that_holds_no_links_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "links"
    path.write_text(text)

    with pytest.raises(RankTableError, match=BAD[text]):
        find_topology(str(path))


PLACES = {
    '{"links":\n[[0,1],[1,2.5]]}': (2, 11, "/links/1/1"),
    '{"matrix": [[-1,true],[1,-1]]}': (1, 17, "/matrix/0/1"),
    '{"links": "x", "matrix": [[-1,1],[1,-1]]}': (1, 11, "/links"),
    "0 1\n# a comment\n 1, x2": (3, 5, "/1/1"),
    "[[0,1],\n [2,2]]": (2, 2, "/1"),
    "0 1\n2 2": (2, 1, "/1"),
    "[[0,1,2],[1,0]]": (1, 2, "/0"),
    "[[-1,1,1],[-1,-1,1],[1,1,-1]]": (1, 12, "/1/0"),
    '{"links": [[0,1]], "links": [[0,1]]}': (1, 20, "/links"),
    "[[0,1]": (1, 6, None),
}


@pytest.mark.parametrize("text", PLACES)
def test_what_is_wrong_with_a_file_of_links_has_a_place(
    text: str, tmp_path: Path
) -> None:
    path = tmp_path / "links"
    path.write_text(text)
    with pytest.raises(RankTableError) as caught:
        find_topology(str(path))
    (found,) = caught.value.diagnostics
    place = found.location

    assert (place.line, place.column, place.pointer) == PLACES[text]


@pytest.mark.parametrize("name", ["matrix.json", "links.json"])
def test_the_schema_of_a_topology_takes_what_is_read(name: str) -> None:
    schema = json.loads(schema_text("topology.schema.json"))
    validator = Draft202012Validator(schema)
    validator.check_schema(schema)

    assert validator.is_valid(json.loads(FILES[name]))
    assert not validator.is_valid({"links": [[0, "1"]]})
    assert not validator.is_valid({"link": [[0, 1]]})


def test_name_that_is_neither_built_in_nor_a_file_is_refused() -> None:
    with pytest.raises(RankTableError, match="one of: sophgo-8"):
        find_topology("sophgo-9")


def test_chip_that_the_topology_lacks_is_named() -> None:
    data = (
        b'{"version":"1.0","node_list":[{"device_list":[{"device_id":"8","rank":"0",'
        b'"world_rank":"0"}]}]}'
    )
    report = check(data, topology="sophgo-8")

    assert [d.message for d in report.diagnostics] == [
        "chip 8 of device 0 of node 0 does not exist: the host has 8 chips"
    ]


@pytest.mark.parametrize(
    "links",
    [
        [(a, b) for a in range(5) for b in range(5, 16)],
        [(a, b) for a in range(3) for b in range(3, 16)],
        [(a, a + 1) for a in range(24) if a % 5 != 4] + [(a, a + 5) for a in range(20)],
        [(a, (a + k) % 30) for a in range(30) for k in (1, 9)],
    ],
    ids=["K(5,11)", "K(3,13)", "grid 5x5", "circulant"],
)
def test_suggestions_are_found_or_given_up_within_their_budget(
    links: list[tuple[int, int]],
) -> None:
    box = linked("box", max(map(max, links)) + 1, links)
    order = list(range(box.num_chips))[::-1]
    order[0], order[1] = order[1], order[0]

    within_cpu(25, lambda: suggest(order, box))  # minutes without the budget
    assert suggest(order, box)


def test_matrix_of_more_chips_than_the_limit_is_refused(tmp_path: Path) -> None:
    size = 1025
    ring = [
        " ".join("0" if abs(a - b) in (1, size - 1) else "-1" for b in range(size))
        for a in range(size)
    ]
    path = tmp_path / "links.txt"
    path.write_text("\n".join(ring))

    with pytest.raises(RankTableError, match="there are more than 1024 chips"):
        find_topology(str(path))


def test_nodes_alike_are_told_once_beside_a_wrong_rank() -> None:
    nodes = [
        {"device_list": [device(chip, 8 * node + chip) for chip in range(8)]}
        for node in range(3)
    ]
    nodes[2]["device_list"][7]["rank"] = "x"
    data = json.dumps({"version": "1.0", "node_list": nodes})

    codes = [found.code for found in check(data.encode()).diagnostics]
    assert codes.count("RT502") == 1
    assert codes.count("RT114") == 1


def device(chip: int, rank: int) -> dict[str, str]:
    return {"device_id": str(chip), "rank": str(rank)}
