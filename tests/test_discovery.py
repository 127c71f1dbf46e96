"""``ranktable probe``: whole nodes as trees of files, with tools that are scripts."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ranktable
from ranktable.cluster.discovery.machine import (
    MAX_OUTPUT_BYTES,
    Machine,
    NotDetectedError,
    run_command,
)
from ranktable.cluster.discovery.node_probe import CHIP_FAMILIES, probe
from tests.node_tree import SAMPLES, Tree, sophgo_node

if TYPE_CHECKING:
    from ranktable.cluster.probes.probe_line import NodeProbe
    from tests.conftest import Outcome, Run

LIMIT_S = 0.5


def seen(tree: Tree) -> NodeProbe:
    return probe(Machine(root=str(tree.root), runs_programs=True, timeout_s=LIMIT_S))


def reasons(found: NodeProbe) -> dict[str, str]:
    return {item.what: item.why for item in found.unseen}


# One vendor after the other


def test_sophgo_node_is_seen_whole(tmp_path: Path) -> None:
    found = seen(sophgo_node(tmp_path, "n1", range(8), "tpu-smi-eight.json"))

    assert (found.host, found.vendor, found.model) == ("n1", "sophgo", "BM1690")
    assert found.driver == "2026-05-04"
    assert [chip.device_id for chip in found.chips] == list(range(8))
    assert found.chips[5].bus_address == "0000:06:00.0"
    assert [chip.status for chip in found.chips].index("Fault") == 5
    assert not found.chips[5].is_healthy
    assert found.unseen == ()


def test_chips_that_sysfs_does_not_tell_apart_have_no_address(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "n1")
    for chip in range(2):
        tree.put(f"/dev/sg-host-drv-{chip}")
        tree.put(f"/sys/bus/pci/drivers/sg-host-drv/0000:01:00.{chip}/vendor", "0x1f1c")
        tree.put(f"/sys/bus/pci/drivers/sg-host-drv/0000:01:00.{chip}/device", "0x1690")
    tree.install_printing("tpu-smi", "tpu-smi-two.json")
    found = seen(tree)

    assert [chip.bus_address for chip in found.chips] == [None, None]
    assert [chip.status for chip in found.chips] == ["Active", "Active"]
    assert found.model == "BM1690"
    assert list(reasons(found)) == ["bus_address"]


def test_one_function_is_that_of_the_only_chip(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "n1")
    tree.put("/dev/sg-host-drv-0")
    tree.put("/sys/bus/pci/drivers/sg-host-drv/0000:03:00.0/vendor", "0x16c3")
    tree.put("/sys/bus/pci/drivers/sg-host-drv/0000:03:00.0/device", "0x414b")
    found = seen(tree)

    assert found.chips[0].bus_address == "0000:03:00.0"
    assert found.model == "0x16c3:0x414b"
    assert reasons(found) == {"status": "tpu-smi is not there"}


def test_driver_without_device_nodes_is_a_container_that_was_given_none(
    tmp_path: Path,
) -> None:
    tree = sophgo_node(tmp_path, "n1", range(2))
    for chip in range(2):
        (tmp_path / "dev" / f"sg-host-drv-{chip}").unlink()
    found = seen(tree)

    assert found.chips == ()
    assert "2 PCI functions of the driver" in reasons(found)["/dev/sg-host-drv-*"]
    assert "a container needs to be given them" in reasons(found)["/dev/sg-host-drv-*"]


def test_tool_that_counts_otherwise_gives_no_status(tmp_path: Path) -> None:
    found = seen(sophgo_node(tmp_path, "n1", range(8), "tpu-smi-two.json"))

    assert {chip.status for chip in found.chips} == {None}
    assert reasons(found) == {
        "status": "tpu-smi lists 2 chips, there are 8 device nodes"
    }


def test_ascend_node_has_physical_numbers_and_addresses(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "a1")
    for chip in range(8):
        tree.put(f"/dev/davinci{chip}")
    tree.put("/dev/davinci_manager")
    tree.put("/etc/hccn.conf", (SAMPLES / "hccn.conf").read_text())
    tree.put("/usr/local/Ascend/driver/version.info", "Version=25.5.1\nother=1\n")
    ascend_tool(tree, "npu-smi-m.txt")
    found = seen(tree)

    assert (found.vendor, found.model) == ("ascend", "Ascend 910B3")
    assert found.driver == "25.5.1"
    assert [c.device_id for c in found.chips] == list(range(8))
    assert found.chips[7].address == "10.40.7.21"
    assert list(reasons(found)) == ["bus_address and status"]


def ascend_tool(tree: Tree, mapping: str) -> None:
    tree.install_printing("npu-smi", mapping)


def test_ascend_container_keeps_the_numbers_of_its_device_nodes(
    tmp_path: Path,
) -> None:
    tree = Tree(tmp_path, "pod")
    for chip in (4, 5):
        tree.put(f"/dev/davinci{chip}")
    ascend_tool(tree, "npu-smi-m.txt")
    tree.put("/etc/hccn.conf", "address_4=10.40.4.21\n")
    found = seen(tree)

    assert [(c.device_id, c.address) for c in found.chips] == [
        (4, "10.40.4.21"),
        (5, None),
    ]
    assert found.model == "Ascend 910B3"  # whatever the number, there is no other
    assert reasons(found)["npu-smi"] == (
        "it lists the chips 0-7, the device nodes are 4, 5"
    )
    assert reasons(found)["address"] == "/etc/hccn.conf has none for chip 5"


def test_ascend_without_device_nodes_takes_the_physical_column(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "a1")
    ascend_tool(tree, "npu-smi-m-dies.txt")
    dies = seen(tree)
    ascend_tool(tree, "npu-smi-m.txt")
    logical = seen(tree)

    assert [chip.device_id for chip in dies.chips] == [8, 9, 10, 11]
    assert "device_id" not in reasons(dies)
    assert [chip.device_id for chip in logical.chips] == list(range(8))
    assert "npu-smi's logic ids" in reasons(logical)["device_id"]


def test_nvidia_node_names_the_card_that_its_tool_has_lost(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "g1")
    for gpu in range(4):
        tree.put(f"/dev/nvidia{gpu}")
    tree.put("/sys/module/nvidia/version", "595.71\n")
    tree.install_printing("nvidia-smi", "nvidia-smi-lost.csv")
    found = seen(tree)

    assert (found.vendor, found.driver) == ("nvidia", "595.71")
    assert found.model == "NVIDIA GeForce RTX 3080"
    assert [chip.device_id for chip in found.chips] == [0, 2, 3]
    assert reasons(found) == {
        "nvidia-smi": "it says: Unable to determine the device handle for GPU1: "
        "0000:02:00.0: Unknown Error",
        "status": "nvidia-smi has no word for it",
    }


def test_nvidia_tool_without_a_driver_says_why(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "g1")
    tree.install("nvidia-smi", "echo 'NVIDIA-SMI has failed because ...'; exit 9")

    assert reasons(seen(tree))["nvidia-smi"] == (
        "nvidia-smi failed with exit status 9: NVIDIA-SMI has failed because ..."
    )


@pytest.mark.parametrize(
    ("tool", "prints"),
    [
        ("nvidia-smi", ""),
        ("nvidia-smi", "No devices were found"),
    ],
)
def test_tool_that_lists_nothing_is_not_said_to_be_missing(
    tool: str, prints: str, tmp_path: Path
) -> None:
    tree = Tree(tmp_path, "x1")
    tree.install(tool, f"echo '{prints}'")
    found = seen(tree)

    assert reasons(found)[tool] == f"{tool} lists no chips"


def test_models_that_differ_are_those_of_the_chips(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "g1")
    rows = "0, u0, 0000:01:00.0, 0, A\\n1, u1, 0000:02:00.0, 0, B\\n"
    tree.install("nvidia-smi", f'printf "{rows}"')
    found = seen(tree)

    assert found.model is None
    assert [chip.model for chip in found.chips] == ["A", "B"]


def test_node_without_chips_says_what_was_looked_for(tmp_path: Path) -> None:
    found = seen(Tree(tmp_path, "empty"))

    assert (found.host, found.vendor, found.chips) == ("empty", None, ())
    assert [item.what for item in found.unseen] == [
        source.name for source in CHIP_FAMILIES
    ]
    assert reasons(found)["sophgo-tpuv7"] == "no /dev/sg-host-drv-N"


# Tools in trouble


def test_hanging_tool_ends_at_its_timeout(tmp_path: Path) -> None:
    tree = sophgo_node(tmp_path, "n1", range(2))
    tree.install("tpu-smi", "sleep 60")
    start = time.monotonic()
    found = seen(tree)

    assert time.monotonic() - start < 40  # the tool sleeps for 60 s
    assert len(found.chips) == 2
    assert reasons(found) == {"status": "tpu-smi did not end within 0.5 s"}


def test_everything_that_a_hanging_tool_started_is_ended(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "n1")
    pid = tmp_path / "pid"
    tree.install("tool", f"sleep 60 & echo $! > '{pid}'; trap '' TERM; wait")
    with pytest.raises(NotDetectedError):
        Machine(root=str(tmp_path), runs_programs=True, timeout_s=LIMIT_S).run("tool")

    end = time.monotonic() + 50
    while Path(f"/proc/{pid.read_text().strip()}").exists():
        state = Path(f"/proc/{pid.read_text().strip()}/stat").read_text()
        if state.rpartition(")")[2].split()[0] == "Z":
            break  # ended, and not yet fetched by its new parent
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_tool_that_hung_once_is_not_asked_again_for_each_chip(tmp_path: Path) -> None:
    tree, asked = Tree(tmp_path, "n1"), tmp_path / "asked"
    tree.install("tool", f"echo $2 >> '{asked}'; exec sleep 60")
    machine = Machine(root=str(tmp_path), runs_programs=True, timeout_s=LIMIT_S)

    for chip in range(8):
        with pytest.raises(NotDetectedError, match="tool did not end within"):
            machine.run("tool", "-i", str(chip))

    assert asked.read_text() == "0\n"


def test_tool_with_endless_output_is_stopped(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "n1")
    tree.install("tool", "exec yes")

    with pytest.raises(NotDetectedError, match=f"more than {MAX_OUTPUT_BYTES} bytes"):
        Machine(root=str(tmp_path), runs_programs=True).run("tool")


def test_pipe_that_stays_open_after_the_tool_is_not_waited_for(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "n1")
    tree.install("tool", "sleep 60 &\necho done")
    start = time.monotonic()

    assert (
        Machine(root=str(tmp_path), runs_programs=True, timeout_s=30).run("tool")
        == "done\n"
    )
    assert time.monotonic() - start < 25


def test_tool_has_no_standard_input_and_no_shell(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "n1")
    tree.install("tool", 'cat; for word in "$@"; do echo "<$word>"; done')

    assert (
        Machine(root=str(tmp_path), runs_programs=True).run("tool", "$(id)", "a b")
        == "<$(id)>\n<a b>\n"
    )


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("kill -SEGV $$", "tool failed with signal 11"),
        ("echo no >&2; exit 3", "tool failed with exit status 3: no"),
        ("exit 4", "tool failed with exit status 4"),
    ],
)
def test_tool_that_fails_is_named_with_what_it_says(
    script: str, reason: str, tmp_path: Path
) -> None:
    Tree(tmp_path, "n1").install("tool", script)

    with pytest.raises(NotDetectedError) as raised:
        Machine(root=str(tmp_path), runs_programs=True).run("tool")
    assert str(raised.value) == reason


def test_tool_that_is_no_program_is_named(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "n1")
    tree.put("/usr/bin/tool", "\x7fELF nothing").chmod(0o755)

    with pytest.raises(
        NotDetectedError, match="tool cannot be started: exec format error"
    ):
        run_command([str(tmp_path / "usr/bin/tool")], env={}, timeout_s=LIMIT_S)
    with pytest.raises(NotDetectedError, match="other is not there"):
        Machine(root=str(tmp_path), runs_programs=True).run("other")


# The command


def test_probe_prints_one_line_and_exits_0(run: Run, tmp_path: Path) -> None:
    sophgo_node(tmp_path / "n1", "n1", range(2), "tpu-smi-two.json")
    done = run("ranktable", "probe", "--root", "n1", "--run-programs")

    assert (done.status, done.err, done.out.count("\n")) == (0, "", 1)
    assert json.loads(done.out) == {
        "probe": 1,
        "host": "n1",
        "vendor": "sophgo",
        "model": "BM1690",
        "driver": "2026-05-04",
        "chips": [
            {"device_id": 0, "bus_address": "0000:01:00.0", "status": "Active"},
            {"device_id": 1, "bus_address": "0000:02:00.0", "status": "Active"},
        ],
        "unseen": [],
    }
    assert done.out.startswith('{"probe":1,"host":"n1"')


def test_probe_without_chips_prints_a_line_and_exits_1(
    run: Run, tmp_path: Path
) -> None:
    Tree(tmp_path / "n1", "n1")
    line = run("ranktable", "probe", "--root", "n1")
    text = run("ranktable", "probe", "--root", "n1", "--format", "text")

    found: dict[str, Any] = json.loads(line.out)
    assert (line.status, found["chips"], found["vendor"]) == (1, [], None)
    assert len(found["unseen"]) == len(CHIP_FAMILIES)
    assert text.status == 1
    assert text.out.splitlines()[:2] == [
        "n1: no chips",
        "  not detected: sophgo-tpuv7: no /dev/sg-host-drv-N",
    ]


def test_probe_in_words(run: Run, tmp_path: Path) -> None:
    sophgo_node(tmp_path / "n1", "n1", range(2), "tpu-smi-eight.json")
    options = ("--root", "n1", "--run-programs", "--format", "text")
    done = run("ranktable", "probe", *options)

    assert done.out.splitlines() == [
        "n1: 2 chips of sophgo, BM1690, driver 2026-05-04",
        "  chip 0  0000:01:00.0",
        "  chip 1  0000:02:00.0",
        "  not detected: status: tpu-smi lists 8 chips, there are 2 device nodes",
    ]


def test_control_characters_of_probed_files_are_escaped(
    run: Run, tmp_path: Path
) -> None:
    tree = sophgo_node(tmp_path / "n1", "n1\x1b[31m", range(1))
    tree.put("/proc/sgdrv/driver_date", "\x1b]0;x\x07\n")
    text = run("ranktable", "probe", "--root", "n1", "--format", "text")
    line = run("ranktable", "probe", "--root", "n1")

    assert "\x1b" not in text.out + line.out
    assert "n1\\x1b[31m: 1 chip" in text.out


def test_files_that_are_none_are_left_alone(tmp_path: Path) -> None:
    tree = sophgo_node(tmp_path, "n1", range(1))
    (tmp_path / "proc/sgdrv/driver_date").unlink()
    os.mkfifo(tmp_path / "proc/sgdrv/driver_date")
    tree.put("/dev/sg-host-drv-007")
    tree.put("/dev/sg-host-drv-x")
    found = seen(tree)

    assert found.driver is None
    assert [chip.device_id for chip in found.chips] == [0]


@pytest.mark.parametrize("command", ["probe", "gen"])
def test_program_below_a_root_is_run_only_where_that_is_asked_for(
    command: str, run: Run, tmp_path: Path
) -> None:
    tree = sophgo_node(tmp_path / "n1", "n1", range(2))
    mark = tmp_path / "ran"
    tree.install("tpu-smi", f"touch '{mark}'")

    run("ranktable", command, "--root", "n1")
    assert not mark.exists()

    run("ranktable", command, "--root", "n1", "--run-programs")
    assert mark.exists()


@pytest.mark.parametrize("command", ["probe", "gen"])
def test_node_below_a_root_never_gets_the_name_of_this_one(
    command: str, run: Run, tmp_path: Path
) -> None:
    sophgo_node(tmp_path / "n1", "n1", range(2), "tpu-smi-two.json")
    (tmp_path / "n1" / "etc" / "hostname").unlink()
    option = "--host" if command == "probe" else "--hosts"
    unnamed = run("ranktable", command, "--root", "n1")
    named = run("ranktable", command, "--root", "n1", option, "n7")

    assert (unnamed.status, unnamed.out) == (2, "")
    assert "n1 has no /etc/hostname" in unnamed.err
    assert named.status == 0


def test_program_that_was_not_run_is_named(run: Run, tmp_path: Path) -> None:
    sophgo_node(tmp_path / "n1", "n1", range(2), "tpu-smi-two.json")
    tree = Tree(tmp_path / "n2", "n2")
    tree.install("nvidia-smi", "exit 1")
    with_chips = run("ranktable", "probe", "--root", "n1")
    without = run("ranktable", "probe", "--root", "n2")

    why = "lies below --root and was not run; --run-programs runs it"
    assert {"what": "status", "why": f"tpu-smi {why}"} in unseen(with_chips)
    assert {"what": "nvidia-smi", "why": f"nvidia-smi {why}"} in unseen(without)


def unseen(done: Outcome) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(done.out)["unseen"]
    return found


@pytest.mark.parametrize(
    "arguments",
    [
        ("--root", "nowhere"),
        ("--timeout", "0"),
        ("--timeout", "nan"),
        ("--timeout", "inf"),
        ("--host", "a b"),
        ("--host", ""),
        ("--format", "xml"),
    ],
)
def test_wrong_usage_exits_2(arguments: tuple[str, ...], run: Run) -> None:
    done = run("ranktable", "probe", *arguments)

    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("ranktable: ")


# gen without chips


def test_gen_takes_the_chips_that_are_here(run: Run, tmp_path: Path) -> None:
    sophgo_node(tmp_path / "n1", "n1", range(8))
    made = run("ranktable", "gen", "--root", "n1", "--ring", "sophgo-8", "-o", "a.json")
    line = run("ranktable", "probe", "--root", "n1").out.encode()
    arguments = ("merge", "-", "--ring", "sophgo-8", "-o", "b.json")
    merged = run("ranktable", *arguments, given=line)

    assert (made.status, merged.status) == (0, 0)
    table = ranktable.load(tmp_path / "a.json")
    assert table.chip_map == [0, 2, 6, 7, 3, 1, 5, 4]
    assert table.nodes[0].host == "n1"
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_gen_takes_addresses_and_hosts_that_are_given(run: Run, tmp_path: Path) -> None:
    tree = Tree(tmp_path / "a1", "a1")
    tree.put("/dev/davinci0")
    tree.put("/etc/hccn.conf", "address_0=10.40.0.21\n")
    run("ranktable", "gen", "--root", "a1", "-o", "seen.json")
    given = ("--device-ip", "['10.0.0.9']", "--hosts", "other")
    run("ranktable", "gen", "--root", "a1", *given, "-o", "given.json")

    nodes = [ranktable.load(tmp_path / f"{n}.json").nodes[0] for n in ("seen", "given")]
    assert [(node.host, node.devices[0].address) for node in nodes] == [
        ("a1", "10.40.0.21"),
        ("other", "10.0.0.9"),
    ]


def test_gen_says_that_it_sees_no_chips(run: Run, tmp_path: Path) -> None:
    Tree(tmp_path / "n1", "n1")
    done = run("ranktable", "gen", "--root", "n1")

    assert (done.status, done.out) == (2, "")
    assert done.err.splitlines()[0] == (
        "ranktable: no --device-id is given, and no chips were found on n1"
    )
    assert "no /dev/sg-host-drv-N" in done.err
    assert done.err.splitlines()[-1] == (
        "help: write the chips, for example --device-id '[[0..7]]', or --spec FILE"
    )


def test_a_number_of_the_kernel_is_read_whole() -> None:
    # Such a file has size 0, and the second read of it gives nothing.
    path = "/proc/sys/net/core/somaxconn"

    assert Machine().text(path) == Path(path).read_text()
