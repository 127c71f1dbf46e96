"""``ranktable gen`` and the vendor's generator as installed commands."""

from __future__ import annotations

import ast
import json
from typing import TYPE_CHECKING

import pytest

import ranktable
from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.generate import parse_address_list, parse_device_list

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Run

DROP_IN = "tpu_gen_sccl_rank_table"
FILE = "sccl_rank_table.json"


def vendor_file(chips: list[list[object]], key: str = "device_ip") -> str:
    """Return the text that the vendor's generator writes (revision bc46f06c on)."""
    rank = 0
    node_list = []
    for node in chips:
        device_list = []
        for local_rank, device_id in enumerate(node):
            device_list.append(
                {
                    "device_id": device_id,
                    key: "127.0.0.1",
                    "local_rank": str(local_rank),
                    "rank": str(rank),
                }
            )
            rank += 1
        node_list.append({"device_list": device_list})
    document = {"version": "1.0", "node_list": node_list}
    return json.dumps(document, indent=4, separators=(",", ":"))


@pytest.mark.parametrize(
    ("argument", "chips"),
    [
        ("[[0,1]]", [[0, 1]]),
        ("[[0, 1, 2, 3, 4, 5, 6, 7]]", [list(range(8))]),
        ("[['0','1']]", [["0", "1"]]),
        ('[["4", 5]]', [["4", 5]]),
        ("[[5,4],[6,7]]", [[5, 4], [6, 7]]),
        ("[[0..8]]", [list(range(9))]),
        (" [ [ 7 .. 0 ] ] ".replace(" .. ", ".."), [list(range(7, -1, -1))]),
        ("[[0,1,],]", [[0, 1]]),
    ],
)
def test_drop_in_writes_the_vendors_file_to_the_byte(
    argument: str,
    chips: list[list[object]],
    run: Run,
    tmp_path: Path,
) -> None:
    done = run(DROP_IN, "--device_id", argument, "--exact")

    text = vendor_file(chips)
    assert (done.status, done.err) == (0, "")
    assert (tmp_path / FILE).read_text() == text
    assert ast.literal_eval(done.out) == json.loads(text)
    assert ranktable.check(tmp_path / FILE).ok


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ([], "device_ip"),
        (["--emulator", "True"], "device_ip_emulator"),
        (["--emulator"], "device_ip_emulator"),
        (["--emulator", "False"], "device_ip"),
    ],
)
def test_drop_in_means_true_by_true_and_false_by_false(
    options: list[str], key: str, run: Run, tmp_path: Path
) -> None:
    run(DROP_IN, "--device_id", "[[0,1]]", "--exact", *options)

    assert (tmp_path / FILE).read_text() == vendor_file([[0, 1]], key)


REFUSED = {
    "": "the list is empty",
    "[]": "the list of nodes is empty",
    "[[]]": "node 0 has no chips",
    "[[0],[]]": "node 1 has no chips",
    "[[0,0]]": "chip 0 is listed twice in node 0",
    "[[0..3,'2']]": "chip 2 is listed twice in node 0",
    "[[-1,99]]": "chip -1 is negative",
    "[['a',None]]": "'a' is not a chip number",
    "[[None]]": "'None' is not a chip number",
    "[[0.5]]": "'0.5' is not a chip number",
    "[[0x1]]": "'0x1' is not a chip number",
    "[[01]]": "01 has a leading zero",
    "[[１]]": "'１' is not a chip number",  # noqa: RUF001
    "['01']": "every node is a list of its own",
    "[0,1,2]": "every node is a list of its own",
    "0,1,2": "a list begins with a bracket",
    "[[0,1]": "] is missing at the end",
    "[[0 1]]": "a comma is expected here",
    "[[0,,1]]": "a number or a list is expected here",
    "[[0]]]": "there is more text after the list",
    "[['0]]": "this quotation mark is not closed",
    "[[[0]]]": "a node lists chips, not lists",
    "[{0:1}]": "every node is a list of its own",
    "[[0-7]]": "'0-7' is not a chip number",
    "[[0..]]": "'0..' is not a chip number",
    "[[0..99999999999]]": "chip 99999999999 is beyond 999999",
    "abc": "a list begins with a bracket",
    "[" * 50_000: "]" * 50_000 + " is missing at the end",
}


@pytest.mark.parametrize("argument", REFUSED, ids=lambda text: text[:20])
def test_unusable_chips_are_refused(argument: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        parse_device_list(argument)

    assert REFUSED[argument] in raised.value.reason


@pytest.mark.parametrize(
    "addresses",
    ["", "abc", "[['10.0.0.1']]", "[['10.0.0.1','x']]", "[[1,2]]", "[['::1',['::1']]]"],
)
def test_unusable_addresses_are_refused(addresses: str) -> None:
    with pytest.raises(ArgumentError):
        parse_address_list(addresses, [2])
