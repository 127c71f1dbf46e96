"""``ranktable gen`` and the vendor's generator as installed commands."""

from __future__ import annotations

import ast
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ranktable
from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.generate import parse_address_list, parse_device_list

if TYPE_CHECKING:
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


def test_drop_in_adds_the_key_that_torch_tpu_reads(run: Run, tmp_path: Path) -> None:
    run(DROP_IN, "--device_id", "[[3,1]]")
    device = json.loads((tmp_path / FILE).read_text())["node_list"][0]["device_list"][1]

    assert device == {
        "device_id": 1,
        "device_ip": "127.0.0.1",
        "local_rank": "1",
        "rank": "1",
        "world_rank": "1",
    }
    assert list(device)[-1] == "world_rank"


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


def test_drop_in_takes_addresses(run: Run, tmp_path: Path) -> None:
    addresses = "[['10.0.0.1','10.0.0.2'],['10.0.0.3','10.0.0.4']]"
    done = run(DROP_IN, "--device_id", "[[0,1],[0,1]]", "--device_ip", addresses)
    table = ranktable.load(tmp_path / FILE)

    assert done.out.startswith(f"IP Addresses: {ast.literal_eval(addresses)}\n")
    assert [table.device_of(rank).address for rank in range(4)] == [
        f"10.0.0.{rank + 1}" for rank in range(4)
    ]


def test_drop_in_overwrites_the_file_that_the_variable_names(
    run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "other.json"
    path.write_text("something else")
    env = {"RANK_TABLE_FILE": str(path)}

    assert run(DROP_IN, "--device_id", "[[0]]", env=env).status == 0
    assert ranktable.read_rank_table(path) == [0]
    assert not (tmp_path / FILE).exists()


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


@pytest.mark.parametrize("argument", ["", "[[]]", "[[0,0]]", "[[-1,99]]", "['01']"])
@pytest.mark.parametrize("program", [DROP_IN, "ranktable"])
def test_command_refuses_unusable_chips_and_writes_nothing(
    program: str, argument: str, run: Run, tmp_path: Path
) -> None:
    command = ["gen"] if program == "ranktable" else []
    done = run(program, *command, "--device_id", argument)

    assert (done.status, done.out) == (2, "")
    assert REFUSED[argument] in done.err.splitlines()[0]
    assert list(tmp_path.iterdir()) == []


def test_refusal_shows_the_place(run: Run) -> None:
    done = run("ranktable", "gen", "--device-id", "[[0,1],[2,2]]")

    assert done.err.splitlines()[1:3] == ["  [[0,1],[2,2]]", "            ^"]


@pytest.mark.parametrize(
    "addresses",
    ["", "abc", "[['10.0.0.1']]", "[['10.0.0.1','x']]", "[[1,2]]", "[['::1',['::1']]]"],
)
def test_unusable_addresses_are_refused(addresses: str) -> None:
    with pytest.raises(ArgumentError):
        parse_address_list(addresses, [2])


@pytest.mark.parametrize("program", [DROP_IN, "ranktable"])
def test_command_refuses_unusable_addresses_and_writes_nothing(
    program: str, run: Run, tmp_path: Path
) -> None:
    command = ["gen"] if program == "ranktable" else []
    done = run(
        program, *command, "--device_id", "[[0,1]]", "--device_ip", "[['10.0.0.1']]"
    )

    assert done.status == 2
    assert "node 0 has 2 chips and 1 addresses" in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("program", [DROP_IN, "ranktable"])
def test_missing_folder_is_named(program: str, run: Run, tmp_path: Path) -> None:
    command = ["gen"] if program == "ranktable" else []
    env = {"RANK_TABLE_FILE": str(tmp_path / "no" / "table.json")}
    done = run(program, *command, "--device_id", "[[0]]", env=env)

    assert done.status == 2
    assert "does not exist" in done.err


def test_gen_keeps_a_different_table_unless_forced(run: Run, tmp_path: Path) -> None:
    first = run("ranktable", "gen", "--device-id", "[[0,1]]")
    same = run("ranktable", "gen", "--device-id", "[[0..1]]")
    other = run("ranktable", "gen", "--device-id", "[[1,0]]")
    kept = ranktable.read_rank_table(tmp_path / FILE)
    forced = run("ranktable", "gen", "--device-id", "[[1,0]]", "--force")

    assert [first.status, same.status, other.status, forced.status] == [0, 0, 2, 0]
    assert same.err.startswith("unchanged")
    assert "holds a different table; --force replaces it" in other.err
    assert kept == [0, 1]
    assert ranktable.read_rank_table(tmp_path / FILE) == [1, 0]


def test_gen_replaces_no_folder_and_no_pipe(run: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in ("pipe", str(tmp_path)):
        done = run("ranktable", "gen", "--device-id", "[[0]]", "-o", path, "--force")
        assert (done.status, "not a regular file" in done.err) == (2, True)


def test_gen_writes_to_a_device(run: Run, tmp_path: Path) -> None:
    (tmp_path / "nothing").symlink_to("/dev/null")
    done = [
        run("ranktable", "gen", "--device-id", "[[0]]", "-o", path)
        for path in ("/dev/null", "nothing", "/dev/full")
    ]

    assert [each.status for each in done] == [0, 0, 2]
    assert "wrote /dev/null: 1 node, 1 rank" in done[0].err
    assert "ranktable: /dev/full: no space left on device" in done[2].err
    assert all(Path(name).is_char_device() for name in ("/dev/null", "/dev/full"))
    assert [path.name for path in tmp_path.iterdir()] == ["nothing"]


def test_gen_prints_to_standard_output(run: Run) -> None:
    done = run("ranktable", "gen", "--device-id", "[[4,5]]", "-o", "-")

    assert ranktable.loads(done.out).chip_map == [4, 5]


def test_gen_follows_a_link(run: Run, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "table.json").symlink_to("real/table.json")

    run("ranktable", "gen", "--device-id", "[[0]]", "-o", "table.json")

    assert (tmp_path / "table.json").is_symlink()
    assert ranktable.read_rank_table(tmp_path / "real" / "table.json") == [0]
    assert [path.name for path in (tmp_path / "real").iterdir()] == ["table.json"]


@pytest.mark.parametrize(
    ("chips", "ring"),
    [
        ("[[0..7]]", [0, 2, 6, 7, 3, 1, 5, 4]),
        ("[[0..3]]", [0, 1, 3, 2]),
        ("[[7,6,2,3]]", [7, 6, 2, 3]),
        ("[[6,0..5,7]]", [6, 2, 0, 4, 5, 1, 3, 7]),
        ("[[5]]", [5]),
    ],
)
def test_gen_puts_chips_in_ring_order(
    chips: str, ring: list[int], run: Run, tmp_path: Path
) -> None:
    done = run("ranktable", "gen", "--device-id", chips, "--ring", "sophgo-8")

    assert done.status == 0
    assert ranktable.read_rank_table(tmp_path / FILE) == ring
    assert ranktable.check(tmp_path / FILE, topology="sophgo-8").ok


@pytest.mark.parametrize("chips", ["[[0..2]]", "[[0,1,2,4]]", "[[8,9]]"])
def test_gen_refuses_chips_that_form_no_ring(
    chips: str, run: Run, tmp_path: Path
) -> None:
    done = run("ranktable", "gen", "--device-id", chips, "--ring", "sophgo-8")

    assert done.status == 2
    assert "do not form a ring of sophgo-8" in done.err
    assert list(tmp_path.iterdir()) == []


def test_gen_refuses_a_chip_that_the_ring_has_not(run: Run, tmp_path: Path) -> None:
    found = run("ranktable", "gen", "--device-id", "[[9]]", "--ring", "sophgo-8")

    assert found.status == 2
    assert found.out == ""
    assert "RT208 chip 9 of device 0 of node 0 does not exist" in found.err
    assert list(tmp_path.iterdir()) == []


def test_gen_prints_one_note_for_each_code(run: Run) -> None:
    chips = str([list(range(4))] * 3)
    found = run("ranktable", "gen", "--device-id", chips, "-o", "table.json")

    assert found.status == 0
    said = [line.partition(":")[0] for line in found.err.splitlines()]
    assert sum(line.startswith("note[RT502]") for line in said) == 1
    assert said[-1] == "wrote table.json"


def test_gen_names_the_hosts_of_its_nodes(run: Run, tmp_path: Path) -> None:
    done = run(
        "ranktable", "gen", "--device-id", "[[0,1],[0,1]]", "--hosts", "n[08-09]"
    )
    few = run("ranktable", "gen", "--device-id", "[[0],[0]]", "--hosts", "n1")
    twice = run("ranktable", "gen", "--device-id", "[[0],[0]]", "--hosts", "n1,n1")
    bad = run("ranktable", "gen", "--device-id", "[[0],[0]]", "--hosts", "n[1")

    assert done.status == 0
    assert [n.host for n in ranktable.load(tmp_path / FILE).nodes] == ["n08", "n09"]
    assert [few.status, twice.status, bad.status] == [2, 2, 2]
    assert "--hosts: 1 host for 2 nodes" in few.err
    assert "--hosts: the host n1 is given twice" in twice.err
    assert "this bracket is not closed" in bad.err


def test_one_list_of_chips_holds_for_every_host(run: Run, tmp_path: Path) -> None:
    options = ("--device-id", "[[0..7]]", "--hosts", "box[1-4]")
    done = run("ranktable", "gen", *options, "--tp", "8", "-o", "t.json")
    table = ranktable.load(tmp_path / "t.json")

    assert done.status == 0, done.err
    assert [(node.host, len(node.devices)) for node in table.nodes] == [
        (f"box{number}", 8) for number in range(1, 5)
    ]
