"""What the vendors' tools print, and what they print when something is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranktable.cluster.discovery import (
    ascend,
    nvidia,
    sophgo,
)
from ranktable.cluster.discovery.ascend import MappedChip
from ranktable.cluster.discovery.chip_family import bus_address_of, text_of
from ranktable.cluster.discovery.machine import NotDetectedError
from ranktable.cluster.probes.probe_line import ProbedChip
from tests.node_tree import SAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable

# Where the shape of each sample comes from; the numbers in them are made up.
#   tpu-smi-*.json      tilelang-tpu, testing/python/jit/tpu_demo_ops_matrix.py and its
#                       tests; two chips on one card, and "F" for a sensor that cannot
#                       be read, from the same project's record of a real MT00 card
#   npu-smi-m.txt       npu-smi 25.5.1 on a host of eight 910B3, printed in public tests
#   npu-smi-m-dies.txt  a host of 910C, two dies a board, in releases with Chip Phy-ID;
#                       the columns from vllm-ascend, tests/ut/test_cpu_binding.py
#   hccn.conf           the keys of Huawei's file, as in corpus/hccl/valid/hccn.conf
#   nvidia-smi.csv      nvidia-smi --help-query-gpu; rows as everyone prints them
#   nvidia-smi-lost.csv a card that fell off the bus, as users report it


def sample(name: str) -> str:
    return (SAMPLES / name).read_text()


# SOPHGO


@pytest.mark.parametrize(
    ("name", "statuses"),
    [
        ("tpu-smi-one.json", ["Active"]),
        ("tpu-smi-two.json", ["Active", "Active"]),
        ("tpu-smi-eight.json", ["Active"] * 5 + ["Fault"] + ["Active"] * 2),
    ],
)
def test_tpu_smi_lists_a_status_for_every_chip(name: str, statuses: list[str]) -> None:
    assert sophgo.parse_tpu_smi(sample(name)) == statuses


# Ascend


def test_npu_smi_maps_boards_to_chips_without_the_controllers() -> None:
    assert ascend.parse_mapping(sample("npu-smi-m.txt")) == [
        MappedChip(number, 0, number, None, "Ascend 910B3") for number in range(8)
    ]


def test_npu_smi_gives_the_physical_number_where_it_has_the_column() -> None:
    assert ascend.parse_mapping(sample("npu-smi-m-dies.txt")) == [
        MappedChip(4 + logic // 2, logic % 2, logic, 8 + logic, "Ascend 910C")
        for logic in range(4)
    ]


def test_hccn_conf_gives_the_address_of_every_chip() -> None:
    assert ascend.parse_hccn(sample("hccn.conf")) == {
        number: f"10.40.{number}.21" for number in range(8)
    }


# GPUs


def test_nvidia_smi_rows_are_chips() -> None:
    chips, messages = nvidia.parse_csv(sample("nvidia-smi.csv"))

    assert messages == []
    assert [chip.device_id for chip in chips] == list(range(8))
    assert chips[1] == ProbedChip(
        device_id=1,
        bus_address="0000:0a:00.0",
        uuid="GPU-5a1f0e21-90c4-4d0b-8f7e-2b6c1d3e4f51",
        serial="1654321011",
        model="NVIDIA H100 80GB HBM3",
    )


def test_nvidia_smi_names_the_card_that_is_lost_and_lists_the_others() -> None:
    chips, messages = nvidia.parse_csv(sample("nvidia-smi-lost.csv"))

    assert [chip.device_id for chip in chips] == [0, 2, 3]
    assert [chip.serial for chip in chips] == [None] * 3
    assert messages == [
        "Unable to determine the device handle for GPU1: 0000:02:00.0: Unknown Error"
    ]


def test_nvidia_smi_without_cards_is_no_message() -> None:
    assert nvidia.parse_csv("No devices were found\n") == ([], [])


# What is wrong

BROKEN: list[tuple[Callable[[str], object], str, str]] = [
    (sophgo.parse_tpu_smi, "", "its output is not JSON: the file is empty"),
    (sophgo.parse_tpu_smi, "[]", "tpu-smi prints a list, not an object"),
    (
        sophgo.parse_tpu_smi,
        "{}",
        "tpu-smi: card_num is null, and it lists 0 cards",
    ),
    (
        sophgo.parse_tpu_smi,
        sample("tpu-smi-two.json")[:-30],
        "its output is not JSON: the file ends in the middle",
    ),
    (
        sophgo.parse_tpu_smi,
        sample("tpu-smi-two.json").replace('"card_num":1', '"card_num":2'),
        "tpu-smi: card_num is 2, and it lists 1 card",
    ),
    (
        sophgo.parse_tpu_smi,
        sample("tpu-smi-two.json").replace('"chip_num":2', '"chip_num":3'),
        "tpu-smi counts 3 chips and lists 2",
    ),
    (
        sophgo.parse_tpu_smi,
        sample("tpu-smi-two.json").replace('"chip_index_of_card":1', '"a":1,"a":2'),
        'its JSON cannot be used: the key "a" occurs twice',
    ),
    (
        sophgo.parse_tpu_smi,
        sample("tpu-smi-two.json").replace('_of_card":1', '_of_card":7'),
        "tpu-smi: chip1 is not chip 1",
    ),
    (
        sophgo.parse_tpu_smi,
        sample("tpu-smi-one.json").replace('"Active"', '["Active"]'),
        "tpu-smi: the status of a chip is a list",
    ),
    (ascend.parse_mapping, "", "npu-smi info -m begins with nothing"),
    (
        ascend.parse_mapping,
        "dcmi model initialized failed, because the device is used. ret is -8020\n",
        'npu-smi info -m begins with "dcmi model',
    ),
    (
        ascend.parse_mapping,
        sample("npu-smi-m.txt") + "| 0 | 910B3 |\n",
        'npu-smi info -m: "| 0 | 910B3 |" is not a row of it',
    ),
    (
        ascend.parse_mapping,
        sample("npu-smi-m.txt").replace("Ascend 910B3", "", 1),
        "is not a row of it",
    ),
    (
        ascend.parse_mapping,
        sample("npu-smi-m-dies.txt").replace(" 9 ", " ", 1),
        "lacks a column",
    ),
    (
        ascend.parse_mapping,
        sample("npu-smi-m.txt") * 2,
        "is not a row of it",  # the second head line
    ),
    (
        ascend.parse_mapping,
        sample("npu-smi-m.txt") + sample("npu-smi-m.txt").partition("\n")[2],
        "logic id 0 is listed twice",
    ),
    (ascend.parse_hccn, "address_0=10.0.0.1000", 'hccn.conf:1: "10.0.0.1000" is not'),
    (ascend.parse_hccn, "address_0=", 'hccn.conf:1: "" is not an IP address'),
    (
        ascend.parse_hccn,
        "address_0=10.0.0.1\naddress_0=10.0.0.2",
        "hccn.conf:2: chip 0 has two addresses",
    ),
    (nvidia.parse_csv, "0, GPU-1, 00000000:07:00.0\n", "has 3 columns, not 5"),
    (nvidia.parse_csv, "0, u, nowhere, s, n\n", 'of a GPU is "nowhere"'),
    (nvidia.parse_csv, "00, u, 0000:07:00.0, s, n\n", 'index of a chip is "00"'),
    (
        nvidia.parse_csv,
        sample("nvidia-smi.csv") * 2,
        "index 0 is listed twice",
    ),
    (
        nvidia.parse_csv,
        "".join(f"{n}, u, 0000:07:00.0, s, n\n" for n in range(1025)),
        "it lists more than 1024 chips",
    ),
]


@pytest.mark.parametrize(
    ("parse", "text", "reason"),
    BROKEN,
    ids=lambda value: getattr(value, "__name__", str(value))[:30],
)
def test_output_that_is_something_else_is_named(
    parse: Callable[[str], object], text: str, reason: str
) -> None:
    with pytest.raises(NotDetectedError) as raised:
        parse(text)

    assert reason in str(raised.value)
    assert len(str(raised.value)) < 300


PARSERS: list[tuple[Callable[[str], object], str]] = [
    (sophgo.parse_tpu_smi, "tpu-smi-eight.json"),
    (ascend.parse_mapping, "npu-smi-m-dies.txt"),
    (ascend.parse_hccn, "hccn.conf"),
    (nvidia.parse_csv, "nvidia-smi.csv"),
]


@given(st.sampled_from(PARSERS), st.data())
def test_damaged_output_ends_in_chips_or_in_a_reason(
    parser: tuple[Callable[[str], object], str], data: st.DataObject
) -> None:
    parse, name = parser
    text = sample(name)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    piece = data.draw(st.text(max_size=8) | st.just(text[start:end] * 2))

    assert "\n" not in reason_of(parse, text[:start] + piece + text[end:])


def reason_of(parse: Callable[[str], object], text: str) -> str:
    """Return why a text is refused, nothing if it is taken."""
    try:
        parse(text)
    except NotDetectedError as error:
        return str(error)
    return ""


def test_values_that_stand_for_nothing_are_none() -> None:
    assert [text_of(t) for t in ("[N/A]", "N/A", "0", "F", " x ", "\x1b[31m", 5)] == [
        *[None] * 4,
        "x",
        None,
        None,
    ]


@pytest.mark.parametrize("text", ["", "07:00.0", "0000:07:00.8", "0000:07:00.0 x", 7])
def test_what_is_no_pci_address_is_none(text: object) -> None:
    assert bus_address_of(text) is None
