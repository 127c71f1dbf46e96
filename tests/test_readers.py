"""The vendor's readers, emulated, against results that were measured."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranktable.schema.readers.reader import MAX_TEXT_LENGTH, ReaderResult
from ranktable.schema.readers.readers import READERS, readings
from ranktable.schema.readers.sccl import Sccl
from ranktable.schema.readers.torch_tpu import TorchTpu, TorchTpu2024
from ranktable.schema.rules.examples import (
    device,
    nodes,
    one_node,
)

CORPUS = Path(__file__).parent / "corpus"
PROBES = (0, 1, 3)
"""Ranks whose outcomes the tables of EXPECT.md give."""

FOREIGN_SCCL_TABLE = "hccl/broken/sccl_device_twice.json"
"""A table of SCCL among those of the other vendor."""

CELL_LENGTH = 150
"""Length at which EXPECT.md cuts a cell off."""


def _expected() -> list[tuple[str, str, str, str, str]]:
    rows = []
    folder = ""
    for line in (CORPUS / "sccl" / "EXPECT.md").read_text("utf-8").splitlines():
        if line.startswith("## "):
            folder = line[3:].strip("/ ")
        elif ".json |" in line:
            name, _, *cells = line.removeprefix("| ").removesuffix(" |").split(" | ")
            rows.append((f"{folder}/{name}", *cells))
    return rows  # type: ignore[return-value]


EXPECTED = _expected()


def _agrees(outcomes: list[str], cell: str) -> bool:
    """Whether the results agree with a cell: one a rank, or one for all of them."""
    # What a script gets from chip_map[rank] is added to what the reader returns, and
    # Python prints no colon behind an exception without a text.
    found = [outcome.partition("; ")[0] for outcome in outcomes]
    cells = [part.strip().removesuffix(":") for part in cell.split(" / ")]
    if len(cells) == 1:
        return found == cells * len(found)
    if len(cells) < len(found):
        assert len(cell) == CELL_LENGTH
        *whole, cut = cells
        return found[: len(whole)] == whole and found[len(whole)].startswith(cut)
    return found == cells


def test_the_corpus_is_complete() -> None:
    folder = CORPUS / "sccl"

    files = {path.relative_to(folder).as_posix() for path in folder.glob("*/*.json")}

    assert files == {row[0] for row in EXPECTED}
    assert len(files) == 26


@pytest.mark.parametrize(("name", "py", "cpp", "py_2024"), EXPECTED)
def test_outcomes_are_those_that_were_measured(
    name: str, py: str, cpp: str, py_2024: str
) -> None:
    data = (CORPUS / "sccl" / name).read_bytes()
    if name == "broken/trailing_comma.json" and sys.version_info >= (3, 13):
        # Measured with an earlier Python, whose json had no message of its own for it.
        py = py_2024 = "Illegal trailing comma before end of array"
        py = py_2024 = f"JSONDecodeError: {py}: line 1 column 75 (char 74)"

    assert _agrees(TorchTpu().outcomes(data, PROBES), py)
    assert _agrees(Sccl().outcomes(data, PROBES), cpp)
    assert _agrees(TorchTpu2024().outcomes(data, PROBES), py_2024)


@pytest.mark.parametrize(
    "path",
    sorted(set((CORPUS / "hccl").glob("*/*")) - {CORPUS / FOREIGN_SCCL_TABLE}),
    ids=lambda path: path.stem,
)
def test_tables_of_another_vendor_give_no_chip(path: Path) -> None:
    data = path.read_bytes()

    found = {reading.reader: reading.outcomes for reading in readings(data, [0])}

    assert found["torch_tpu"][0][1].startswith(("KeyError: ", "JSONDecodeError: "))
    assert found["sccl"][0][1] in {"-1", "nlohmann parse_error.101"}
    assert found["torch_tpu_2024"][0][1].partition(":")[0] in {
        "AssertionError",
        "JSONDecodeError",
        "KeyError",
    }


@pytest.mark.parametrize(
    ("value", "py", "cpp"),
    [
        ('"5x"', "ValueError: invalid literal for int() with base 10: '5x'", "5"),
        ('"5.0"', "ValueError: invalid literal for int() with base 10: '5.0'", "5"),
        ('"0x5"', "ValueError: invalid literal for int() with base 10: '0x5'", "0"),
        ('" 1_5 "', "[15]", "1"),
        ("true", "[1]", "-1"),
        ("5.9", "[5]", "5"),
        ("-5.9", "[-5]", "-5"),
        ('"+5"', "[5]", "5"),
        ('"05"', "[5]", "5"),
        (
            '"x"',
            "ValueError: invalid literal for int() with base 10: 'x'",
            "std::invalid_argument: stoi",
        ),
        (
            '""',
            "ValueError: invalid literal for int() with base 10: ''",
            "std::invalid_argument: stoi",
        ),
        ('"2147483648"', "[2147483648]", "std::out_of_range: stoi"),
        ("4294967301", "[4294967301]", "5"),
        (
            "18446744073709551616",
            "[18446744073709551616]",
            "undefined: beyond",
        ),
        ('"\\u0665"', "[5]", "std::invalid_argument: stoi"),
        ("NaN", "ValueError: cannot convert float NaN", "nlohmann parse_error.101"),
        (
            "1e999",
            "OverflowError: cannot convert",
            "nlohmann out_of_range.406",
        ),
        ("[]", "TypeError: int() argument must be a string", "-1"),
        ("null", "TypeError: int() argument must be a string", "-1"),
        ('"\\ud800"', "ValueError: invalid literal", "nlohmann parse_error.101"),
    ],
)
def test_spellings_of_a_chip(value: str, py: str, cpp: str) -> None:
    data = one_node(f'{{"device_id":{value},"rank":"0","world_rank":"0"}}')

    assert TorchTpu().outcomes(data, [0])[0].startswith(py)
    assert Sccl().outcomes(data, [0])[0].startswith(cpp)


@pytest.mark.parametrize(
    ("data", "py", "cpp"),
    [
        (b"[]", "TypeError: list indices must be integers", "nlohmann type_error.305"),
        (b"null", "TypeError: 'NoneType' object is not subscriptable", "-1"),
        (b'{"node_list":5}', "TypeError: 'int' object is not iterable", "nlohmann typ"),
        (b'{"node_list":[null]}', "TypeError: 'NoneType' object is not subscr", "-1"),
        (b'{"node_list":{"b":[]}}', "TypeError: string indices must", "nlohmann type"),
        (
            b"\xef\xbb\xbf{}",
            "JSONDecodeError: Unexpected UTF-8 BOM (decode using utf-8-sig): line 1 c",
            "-1",
        ),
        (
            b"\xff",
            "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0: i",
            "nlohmann parse_error.101",
        ),
        (
            b'{"version":\r\n}',
            "JSONDecodeError: Expecting value: line 2 column 1 (char 12)",
            "nlohmann parse_error.101",
        ),
        (b'{"node_list":[]}\0x', "JSONDecodeError: Extra data: line 1 column 17", "-1"),
        (
            b"[" * 100_000,
            "RecursionError: ",
            "not known: nested too deeply to say",
        ),
        (b"1" * 5000, "ValueError: Exceeds the limit", "nlohmann out_of_range.406"),
    ],
)
def test_documents_that_are_no_table(data: bytes, py: str, cpp: str) -> None:
    assert TorchTpu().outcomes(data, [0])[0].startswith(py)
    assert Sccl().outcomes(data, [0])[0].startswith(cpp)


def test_torch_tpu_indexes_the_chips_of_one_node_with_the_global_rank() -> None:
    data = nodes(
        ('{"device_id":"4","world_rank":"0"}', '{"device_id":"5","world_rank":"1"}'),
        ('{"device_id":"2","world_rank":"2"}', '{"device_id":"3","world_rank":"3"}'),
    )

    found = TorchTpu().outcomes(data, [0, 1, 2, 3, 4])

    assert found == [
        "[4, 5]; chip_map[0] is 4",
        "[4, 5]; chip_map[1] is 5",
        "[2, 3]; chip_map[2] raises IndexError: list index out of range",
        "[2, 3]; chip_map[3] raises IndexError: list index out of range",
        "[]; chip_map[4] raises IndexError: list index out of range",
    ]


def test_a_failure_in_document_order_decides_what_torch_tpu_raises() -> None:
    data = nodes(
        ('{"device_id":"x","world_rank":"0"}', '{"device_id":"5","world_rank":"1"}'),
        ('{"device_id":"2","world_rank":"2"}', '{"device_id":"3","rank":"3"}'),
    )

    found = TorchTpu().outcomes(data, [0, 2])

    assert found == [
        "ValueError: invalid literal for int() with base 10: 'x'",
        "KeyError: 'world_rank'",
    ]


def test_sccl_stops_at_the_first_device_of_the_rank() -> None:
    data = one_node(device(4, 0), device(5, 1), device(6, 1), device(7, "x"))

    found = Sccl().outcomes(data, [0, 1, 2])

    assert found == ["4", "5", "std::invalid_argument: stoi"]


@pytest.mark.parametrize(
    ("server_count", "second", "found"),
    [
        ("1", "", "[5, 4]; chip_map[1] is 4"),
        ("1.0", "", "[5, 4]; chip_map[1] is 4"),
        ("true", "", "[5, 4]; chip_map[1] is 4"),
        ("2", "", "AssertionError"),
        ("2", ',{"server_ip":"10.20.0.5","device":[]}', "[5, 4]; chip_map[1] is 4"),
        (
            "2",
            ',{"server_ip":"10.20.0.6","device":[]}',
            "AssertionError: The machine ip is inconsistent with the config ip",
        ),
        ("2", ',{"device":[]}', "KeyError: 'server_ip'"),
    ],
)
def test_the_reader_of_2024_compares_counts_and_addresses(
    server_count: str, second: str, found: str
) -> None:
    data = (
        f'{{"server_count":{server_count},"server_list":[{{"server_ip":"10.20.0.5",'
        f'"device":[{{"device_id":"5"}},{{"device_id":"4"}}]}}{second}]}}'
    ).encode()

    assert TorchTpu2024().outcomes(data, [1]) == [found]


def test_readings_give_every_reader_in_its_order_ours_first() -> None:
    data = one_node('{"device_id":"4","rank":"0"}', '{"device_id":"5","rank":"1"}')

    found = readings(data, [1, 2])

    assert found == [
        ReaderResult(
            reader="ranktable",
            title="ranktable: read_rank_table()[rank]",
            outcomes=((1, "5"), (2, "IndexError: list index out of range")),
        ),
        ReaderResult(
            reader="torch_tpu",
            title="torch_tpu since August 2024: read_rank_table()",
            outcomes=((1, "KeyError: 'world_rank'"), (2, "KeyError: 'world_rank'")),
        ),
        ReaderResult(
            reader="sccl",
            title="SCCL's rank_table.h: get_device_id(rank)",
            outcomes=((1, "5"), (2, "-1")),
        ),
        ReaderResult(
            reader="torch_tpu_2024",
            title="torch_tpu of July 2024: read_rank_table()",
            outcomes=((1, "KeyError: 'server_count'"), (2, "KeyError: 'server_count'")),
        ),
    ]


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (one_node(device(4, 0), device(4, 1)), "RT207"),
        (b"", "RT102"),
        (b"\xef\xbb\xbf" + one_node(device(4, 0)), "4"),
        (one_node('{"device_id":"4","rank":"0","note":""}'), "4"),
    ],
)
def test_our_own_reader_gives_the_chip_or_the_code(data: bytes, found: str) -> None:
    assert readings(data, [0])[0].outcomes == ((0, found),)


def test_many_ranks_take_one_pass() -> None:
    world_size, ranks_per_node = 20_000, 8
    spelt = [
        f'{{"device_id":{rank % ranks_per_node},"rank":{rank},"world_rank":{rank}}}'
        for rank in range(world_size)
    ]
    data = nodes(
        *(
            tuple(spelt[start : start + ranks_per_node])
            for start in range(0, world_size, ranks_per_node)
        )
    )

    began = perf_counter()
    found = readings(data, range(world_size))

    # A pass for every rank would take an hour.
    assert perf_counter() - began < 60
    assert [len(reading.outcomes) for reading in found] == [world_size] * len(READERS)


def test_long_outcomes_are_cut() -> None:
    spelt = (f'{{"device_id":"{"1" * 4000}","world_rank":"{i}"}}' for i in range(9))

    found = TorchTpu().outcomes(one_node(*spelt), [1])[0]

    assert found.startswith("[1111")
    assert len(found) < 3 * MAX_TEXT_LENGTH


def _fragments() -> st.SearchStrategy[bytes]:
    words = st.sampled_from(
        [
            *b'{}[]",:0129.-eE\\ \n',
            *(f'"{key}":'.encode() for key in ("node_list", "device_list", "rank")),
            *(f'"{key}":'.encode() for key in ("world_rank", "device_id", "device")),
            *(f'"{key}":'.encode() for key in ("server_list", "server_count")),
            b'{"node_list":[{"device_list":[{',
            b"}]}]}",
            b"null",
            b"true",
            b"NaN",
            b"\\ud800",
            b"\xef\xbb\xbf",
            b"\xff",
            b"\0",
            b"[" * 2000,
        ]
    )
    as_bytes = words.map(lambda word: bytes([word]) if isinstance(word, int) else word)
    return st.lists(as_bytes, max_size=30).map(b"".join)


@given(st.binary() | _fragments(), st.lists(st.integers(-1, 2**70), max_size=3))
def test_no_bytes_make_a_reader_raise(data: bytes, ranks: list[int]) -> None:
    found = readings(data, ranks)

    assert [reading.reader for reading in found] == [reader.name for reader in READERS]
    for reading in found:
        assert [rank for rank, _ in reading.outcomes] == ranks
        assert all(re.match(r"\S", text) for _, text in reading.outcomes)


_KEYS = [
    *("node_list", "device_list", "rank", "world_rank", "device_id"),
    *("server_list", "server_count", "server_ip", "device"),
]
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from(["0", "1", "5x", " 1_5 ", "0x5", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(_KEYS),
            inner,
            max_size=3,
        )
    ),
    max_leaves=20,
)


@given(_VALUES)
def test_no_document_makes_a_reader_raise(document: object) -> None:
    data = json.dumps(document).encode()

    assert len(readings(data, PROBES)) == len(READERS)
