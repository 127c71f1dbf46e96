"""``ranktable check`` on one host: recorded folders that agree and that differ."""

from __future__ import annotations

import json
import re
import resource
import socket
from typing import TYPE_CHECKING

import pytest

from ranktable.cluster.discovery.machine import Machine
from ranktable.cluster.generate import make_table
from ranktable.preflight.here import check_here
from ranktable.preflight.rules import CHIPS, OF_HOST
from ranktable.report.rule_pages import page_of
from ranktable.runtime.process_chip import (
    read_ascend_list,
    read_gpu_list,
    read_mounted,
)
from ranktable.schema.check import check
from ranktable.schema.finding import Severity
from ranktable.schema.values import UNSET_ADDRESS
from ranktable.schema.writing import dumps
from tests.commands import BIN, run_process
from tests.conftest import HERE
from tests.node_tree import Tree
from tests.rule_examples import check_example

if TYPE_CHECKING:
    from pathlib import Path

    from ranktable.preflight.here import Checked
    from ranktable.preflight.rules import HostRule
    from tests.conftest import Run


SAMPLES = HERE / "discovery_samples"


@pytest.mark.parametrize("rule", OF_HOST, ids=lambda rule: rule.code)
def test_host_that_differs_breaks_only_this_rule(rule: HostRule) -> None:
    checked = check_example(rule, page_of(rule).bad)

    assert {each.code for each in checked.diagnostics} == {rule.code}
    assert {each.severity for each in checked.diagnostics} == {rule.severity}


@pytest.mark.parametrize("rule", OF_HOST, ids=lambda rule: rule.code)
def test_host_that_agrees_was_looked_at(rule: HostRule) -> None:
    checked = check_example(rule, page_of(rule).good)

    assert checked.diagnostics == ()
    assert rule.code in {each.code for each in checked.agrees}


@pytest.mark.parametrize("rule", OF_HOST, ids=lambda rule: rule.code)
def test_rule_says_what_it_needs_and_compares(rule: HostRule) -> None:
    assert rule.needs
    assert rule.compares
    assert rule.source


def test_explain_says_how_a_rule_is_checked(run: Run) -> None:
    page = run("ranktable", "explain", "RT706").out

    assert "needs: hccn_tool -ip; hccn.conf\n" in page
    assert "compares: the address of each chip with device_ip\n" in page


# A whole host of Ascend, as its tools print it

NUM_NPUS = 8


def hccl_table(**changed: str) -> bytes:
    """Return a table of two hosts; ``changed`` has other addresses of n1's chips."""
    rank = iter(range(2 * NUM_NPUS))
    servers = [
        {
            "server_id": host,
            "device": [
                {
                    "device_id": str(chip),
                    "device_ip": (changed if at == 0 else {}).get(
                        f"chip{chip}", f"10.40.{chip}.2{1 + at}"
                    ),
                    "rank_id": str(next(rank)),
                }
                for chip in range(NUM_NPUS)
            ],
        }
        for at, host in enumerate(("n1", "n2"))
    ]
    table = {
        "status": "completed",
        "version": "1.0",
        "server_count": "2",
        "server_list": servers,
    }
    return json.dumps(table, indent=1).encode()


def npu_host(root: Path, *, link: str = "UP", busy: bool = False) -> Tree:
    tree = Tree(root, "n1")
    tree.put("/etc/hccn.conf", (SAMPLES / "hccn.conf").read_text())
    tree.put("/commands/npu-smi info -m", (SAMPLES / "npu-smi-m.txt").read_text())
    process = "| 7       0                 | 1444272       | python3    | 60970     |"
    lines = [f"| No running processes found in NPU {chip} |" for chip in range(7)]
    head = "| NPU     Chip              | Process id    | Process name | Process mem |"
    lines += [process if busy else "| No running processes found in NPU 7 |"]
    tree.put("/commands/npu-smi info", "\n".join([head, *lines]))
    for chip in range(NUM_NPUS):
        tree.put(f"/dev/davinci{chip}")
        address = f"ipaddr:10.40.{chip}.21\nnetmask:255.255.255.0\n"
        tree.put(f"/commands/hccn_tool -i {chip} -ip -g.txt", address)
        state = f"link status: {link if chip == 3 else 'UP'}\n"
        tree.put(f"/commands/hccn_tool -i {chip} -link -g.txt", state)
    return tree


def checked_at(tree: Tree, table: bytes | None = None, **env: str) -> Checked:
    report = None if table is None else check(table, file="hccl.json")
    return check_here(Machine(root=str(tree.root), env={}), env, report)


def found(checked: Checked) -> dict[str, str]:
    return {each.code: each.message for each in checked.diagnostics}


def test_npu_host_agrees_with_its_table(tmp_path: Path) -> None:
    checked = checked_at(npu_host(tmp_path), hccl_table())

    assert found(checked) == {}
    agrees = {each.code for each in checked.agrees}
    assert {"RT701", "RT702", "RT706", "RT707", "RT708", "RT709"} <= agrees


def test_stale_address_is_named_at_its_row(tmp_path: Path) -> None:
    checked = checked_at(npu_host(tmp_path), hccl_table(chip2="10.40.9.9"))
    (finding,) = checked.diagnostics

    assert finding.code == "RT706"
    assert finding.message == (
        "chip 2 has the address 10.40.2.21 by hccn_tool, and the table says 10.40.9.9"
    )
    assert finding.location.pointer == "/server_list/0/device/2/device_ip"
    assert finding.location.line is not None


def test_link_and_process_are_named(tmp_path: Path) -> None:
    checked = checked_at(npu_host(tmp_path, link="DOWN", busy=True), hccl_table())

    assert found(checked) == {
        "RT708": "the link of chip 3 is DOWN",
        "RT709": "process 1444272 (python3) uses chip 7",
    }


def test_what_cannot_be_looked_at_is_not_fine(tmp_path: Path) -> None:
    tree = npu_host(tmp_path)
    for file in (tmp_path / "commands").glob("hccn_tool*"):
        file.unlink()
    checked = checked_at(tree, hccl_table())

    why = {each.code: each.why for each in checked.not_checked}
    assert why["RT708"] == "hccn_tool is not there"
    assert why["RT707"] == "hccn_tool is not there"
    assert "RT706" in {each.code for each in checked.agrees}  # by hccn.conf


def test_chips_are_judged_one_by_one(tmp_path: Path) -> None:
    tree = npu_host(tmp_path)
    (tmp_path / "commands" / "hccn_tool -i 6 -ip -g.txt").unlink()
    checked = checked_at(tree, hccl_table(chip2="10.40.9.9", chip6="10.40.9.8"))

    assert [each.code for each in checked.diagnostics] == ["RT706"]
    why = {each.code: each.why for each in checked.not_checked}
    assert why["RT706"] == "chip 6: hccn_tool is not there"


def test_address_of_version_6_is_asked_for(tmp_path: Path) -> None:
    tree = npu_host(tmp_path)
    for chip in range(NUM_NPUS):
        answer = f"ipv6_address:fd00:0:0:0:0:0:{chip}:21\nprefix_length:64\n"
        tree.put(f"/commands/hccn_tool -i {chip} -ip -inet6 -g", answer)
    table = re.sub(rb"10\.40\.(\d)\.(\d+)", rb"fd00::\1:\2", hccl_table())
    stale = table.replace(b"fd00::2:21", b"fd00::2:99")

    assert "RT706" not in found(checked_at(tree, table))
    assert "fd00:0:0:0:0:0:2:21 by hccn_tool" in found(checked_at(tree, stale))["RT706"]


@pytest.mark.parametrize(
    ("mounted", "codes"), [("/job", set()), ("/job/hccl.json", {"RT716"})]
)
def test_table_that_is_mounted_by_itself_is_found(
    tmp_path: Path, mounted: str, codes: set[str]
) -> None:
    tree = npu_host(tmp_path)
    tree.put("/proc/self/mountinfo", f"8 7 0:4 / {mounted} ro - ext4 /dev/vda1 ro\n")
    checked = checked_at(tree, hccl_table(), RANK_TABLE_FILE="/job/hccl.json")

    assert set(found(checked)) == codes


def test_mounts_that_were_not_recorded_are_not_fine(tmp_path: Path) -> None:
    checked = checked_at(npu_host(tmp_path), hccl_table())

    assert "RT716" in {each.code for each in checked.not_checked}


def test_interfaces_that_are_all_left_out_are_found(tmp_path: Path) -> None:
    tree = npu_host(tmp_path)
    tree.put("/proc/net/dev", "Inter-|\n face |\n lo: 1\n eth0: 1\n")

    assert set(found(checked_at(tree, NCCL_SOCKET_IFNAME="^lo"))) == set()
    assert set(found(checked_at(tree, NCCL_SOCKET_IFNAME="^lo,eth"))) == {"RT713"}


def test_master_and_open_files_are_judged_without_a_table(tmp_path: Path) -> None:
    tree = npu_host(tmp_path)
    tree.put("/commands/getent ahosts nn.failed", "getent failed with exit status 2\n")
    tree.put("/proc/self/limits", "Max open files   1024   4096   files\n")
    tree.put("/proc/net/fib_trie", "|-- 10.0.0.1\n   /32 host LOCAL\n")

    assert set(found(checked_at(tree, MASTER_ADDR="nn"))) == {"RT714"}
    assert set(found(checked_at(tree, None, MASTER_ADDR="fe80::1"))) == {"RT714"}
    near = checked_at(tree, None, MASTER_ADDR="169.254.1.2")
    assert set(found(near)) == set()
    assert "link-local" in {e.code: e.why for e in near.not_checked}["RT714"]
    job = {"RANK": "0", "WORLD_SIZE": "4096", "MASTER_ADDR": "10.0.0.1"}
    assert set(found(checked_at(tree, None, **job))) == {"RT717"}
    nodes = {**job, "GROUP_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "x"}
    for address in ("127.0.0.1", UNSET_ADDRESS, "::", "::1"):
        own = checked_at(tree, None, **nodes | {"MASTER_ADDR": address})
        assert "loopback" in {e.code: e.why for e in own.not_checked}["RT714"]


@pytest.mark.parametrize(
    "path",
    [
        "/proc/net/tcp",
        "/proc/net/fib_trie",
        "/proc/net/if_inet6",
        "/proc/net/dev",
        "/proc/self/limits",
        "/proc/self/mountinfo",
        "/proc/sys/net/core/somaxconn",
        "/proc/sys/net/ipv4/ip_local_port_range",
        "/proc/sys/net/ipv4/ip_local_reserved_ports",
        "/etc/hccn.conf",
        "/environ",
        "/commands/npu-smi info",
        "/commands/npu-smi info -m",
        "/commands/df -Pk _dev_shm",
        "/commands/hccn_tool -i 0 -ip -g.txt",
        "/commands/hccn_tool -i 0 -link -g.txt",
    ],
)
@pytest.mark.parametrize(
    "text",
    ["", "\0\x01", "|--\n: :\n0: x:ZZ y 0A\n", "1-99999999999", "zz\n\n= \u00b2"],
)
def test_odd_contents_are_not_an_error(tmp_path: Path, path: str, text: str) -> None:
    tree = npu_host(tmp_path)
    tree.put("/proc/net/tcp", "  sl\n")
    tree.put("/proc/net/fib_trie", "|-- 10.0.0.1\n   /32 host LOCAL\n")
    tree.put("/proc/sys/net/ipv4/ip_local_port_range", "32768 60999\n")
    tree.put(path, text)
    env = {"MASTER_ADDR": "10.0.0.1", "GLOO_SOCKET_IFNAME": "eth0"}

    assert checked_at(tree, hccl_table(), **env).has_looked


def test_link_is_a_note_and_other_table_is_read_first(run: Run, tmp_path: Path) -> None:
    (tmp_path / "hccl.json").write_bytes(hccl_table())
    (tmp_path / "link.json").symlink_to("hccl.json")
    words = ("check", "--host", "0", "--select", "RT716", "--format", "concise")
    link = run("ranktable", words[0], "link.json", *words[1:])
    env = {"RANK_TABLE_FILE": "/none.json"}
    other = run("ranktable", words[0], "hccl.json", *words[1:], env=env)

    assert "note[RT716] link.json is a link: torch_npu takes no table" in link.out
    assert link.status == 0
    assert '"/none.json": the file does not exist' in other.out
    assert other.status == 1


def test_generation_of_the_chips_judges_the_version_of_the_table(
    tmp_path: Path,
) -> None:
    tree = npu_host(tmp_path)
    lines = (SAMPLES / "npu-smi-m.txt").read_text().replace("910B3", "910_9392")
    tree.put("/commands/npu-smi info -m", lines)

    assert found(checked_at(tree, hccl_table(), RANK="0", WORLD_SIZE="16")) == {}

    tree.put("/commands/npu-smi info -m", lines.replace("910_9392", "950PR"))

    assert list(found(checked_at(tree, hccl_table()))) == ["RT287"]


@pytest.mark.parametrize(
    ("text", "ids", "rest"),
    [
        ("0,1,2", [0, 1, 2], ""),
        ("1, 2,3", [1], " 2,3"),
        ("1,3,8", [1, 3], "8"),
        ("0-3", [0], "-3"),
        ("", [], ""),
    ],
)
def test_list_is_read_as_cann_reads_it(text: str, ids: list[int], rest: str) -> None:
    assert read_ascend_list(text, 8)[:2] == (tuple(ids), rest)


@pytest.mark.parametrize(
    ("text", "codes", "is_skipped"),
    [
        ("GPU-a,GPU-b", set(), False),
        ("GPU-a", {"RT705"}, False),
        ("GPU-a,MIG-b", {"RT704", "RT705"}, False),
        ("GPU-c,GPU-a", {"RT704", "RT705"}, False),
        ("1,0", {"RT705"}, False),
        ("0,0", {"RT704", "RT705"}, False),
        ("0,1", set(), False),
        ("9,0,1", {"RT704", "RT705"}, False),
        ("-1", {"RT705"}, False),
        ("", {"RT705"}, False),
    ],
)
def test_list_of_gpus_is_compared(
    tmp_path: Path, text: str, codes: set[str], *, is_skipped: bool
) -> None:
    rows = "".join(
        f"{at}, GPU-{name}1, 00000000:0{at}:00.0, [N/A], H100\n"
        for at, name in enumerate("ab")
    )
    tree = Tree(tmp_path, "n1")
    query = "--query-gpu=index,uuid,pci.bus_id,serial,name --format=csv,noheader"
    tree.put("/dev/nvidia0")
    tree.put(f"/commands/nvidia-smi {query}", rows)
    tree.put("/environ", f"CUDA_VISIBLE_DEVICES={text}\n")
    checked = checked_at(tree, page_of(CHIPS).beside or b"")

    assert set(found(checked)) == codes
    assert ("RT705" in {each.code for each in checked.not_checked}) == is_skipped


def test_other_lists_are_read_as_their_owners_read_them() -> None:
    assert read_gpu_list("0, 2,x,3", None)[:2] == ((0, 2), "x")
    assert read_gpu_list("1gpu2,2x", None)[:2] == ((1, 2), "")
    assert read_gpu_list("1,1", None)[:2] == ((), "1")
    assert read_gpu_list("GPU-8932f937", None)[:2] == (("GPU-8932f937",), "")
    assert read_mounted("3-5,0, Ascend910-10,0") == [0, 3, 4, 5, 10]


@pytest.mark.parametrize(
    ("env", "codes"),
    [
        ({"ASCEND_RT_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7"}, set()),
        ({"ASCEND_RT_VISIBLE_DEVICES": "0,1, 2,3"}, {"RT704", "RT705"}),
        ({"ASCEND_RT_VISIBLE_DEVICES": "0,2,1,3,4,5,6,7"}, {"RT704", "RT705"}),
        ({"ASCEND_VISIBLE_DEVICES": "0-7"}, set()),
        ({"ASCEND_VISIBLE_DEVICES": "0-6"}, {"RT705"}),
        ({"ASCEND_RT_VISIBLE_DEVICES": "5", "RANK": "5", "WORLD_SIZE": "16"}, set()),
        ({"HCCL_IF_BASE_PORT": "70000"}, {"RT712"}),
        ({"HCCL_NPU_SOCKET_PORT_RANGE": "auto"}, set()),
        ({"MASTER_ADDR": "127.0.0.1"}, {"RT714"}),
        ({"ASCEND_RT_VISIBLE_DEVICES": ""}, {"RT705"}),
        ({"ASCEND_RT_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7 "}, set()),
        ({"ASCEND_RT_VISIBLE_DEVICES": "0,1,2,3,4,5,6,6"}, {"RT704", "RT705"}),
        ({"ASCEND_VISIBLE_DEVICES": "void"}, {"RT705"}),
        ({"ASCEND_VISIBLE_DEVICES": "all"}, set()),
        (
            {
                "ASCEND_VISIBLE_DEVICES": "all",
                "ASCEND_RT_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7",
            },
            set(),
        ),
        ({"CUDA_VISIBLE_DEVICES": "9"}, set()),  # not a list of NPUs
        ({"MASTER_PORT": "abc"}, {"RT302"}),
        ({"RANK": "0", "WORLD_SIZE": "8"}, {"RT304"}),
        ({"RANK": "11", "WORLD_SIZE": "16"}, {"RT304"}),  # it is on n2
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, set()),  # one process a host
        ({"CHIP_MAP": "0,1,2,3,4,5,7,6"}, {"RT305"}),
        ({"CHIP_MAP": "0,1,2,3,4,5,6,7"}, set()),
        ({"HCCL_IF_BASE_PORT": "\u00b2"}, {"RT712"}),
    ],
)
def test_variables_are_judged(
    tmp_path: Path, env: dict[str, str], codes: set[str]
) -> None:
    assert set(found(checked_at(npu_host(tmp_path), hccl_table(), **env))) == codes


@pytest.mark.parametrize(
    ("name", "text", "codes"),
    [
        ("ASCEND_RT_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7", set()),
        ("ASCEND_VISIBLE_DEVICES", "0-7", set()),
        ("ASCEND_VISIBLE_DEVICES", "1-7", {"RT705"}),
    ],
)
def test_more_npus_may_be_visible_than_the_table_uses(
    tmp_path: Path, name: str, text: str, codes: set[str]
) -> None:
    table = json.loads(hccl_table())
    (first, _), table["server_count"] = table["server_list"], "1"
    table["server_list"] = [{**first, "device": first["device"][:6]}]
    checked = checked_at(npu_host(tmp_path), json.dumps(table).encode(), **{name: text})

    assert set(found(checked)) == codes


@pytest.mark.parametrize(
    ("text", "hint"),
    [("4,5,6,7", None), ("7,6,5,4", "4,5,6,7"), ("4,5,5", "4,5"), ("0,1-3", "0,1,3")],
)
def test_list_of_npus_is_judged_as_a_text_where_no_chip_is_found(
    tmp_path: Path, text: str, hint: str | None
) -> None:
    job = {"LOCAL_RANK": "0", "RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    tree = Tree(tmp_path, "n1")
    checked = checked_at(tree, None, ASCEND_RT_VISIBLE_DEVICES=text, **job)

    hints = [each.hint or "" for each in checked.diagnostics]
    assert [each.endswith(f"VISIBLE_DEVICES={hint}") for each in hints] == (
        [] if hint is None else [True]
    )


# This machine, and the command


def test_port_that_is_taken_on_this_machine_is_found(run: Run, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        done = run("ranktable", "check", env=env)

    assert f"something listens on MASTER_PORT={port} of this host" in done.out
    assert done.status == 1


def test_recording_is_judged_as_the_machine_was(run: Run, tmp_path: Path) -> None:
    (tmp_path / "hccl.json").write_bytes(hccl_table(chip2="10.40.9.9"))
    root = npu_host(tmp_path / "root").root
    env = {"ASCEND_VISIBLE_DEVICES": "0-7", "MY_TOKEN": "secret"}
    done = run("ranktable", "probe", "--root", str(root), "--record", "copy", env=env)
    assert done.status == 0
    assert "secret" not in (tmp_path / "copy" / "environ").read_text()
    one, other = (
        run("ranktable", "check", "hccl.json", "--root", folder, "--format", "json",
            env=env)
        for folder in (str(root), "copy")
    )  # fmt: skip

    assert (one.status, other.status) == (1, 1)
    assert json.loads(one.out)["findings"] == json.loads(other.out)["findings"]
    assert run("ranktable", "probe", "--record", "copy").status == 2


def test_recording_has_what_only_a_table_asks_for(run: Run, tmp_path: Path) -> None:
    run("ranktable", "probe", "--record", "copy")
    (tmp_path / "hccl.json").write_bytes(hccl_table())
    words = ("check", "hccl.json", "--root", "copy", "--host", "0", "--format", "json")
    done = json.loads(run("ranktable", *words).out)

    skipped = {each["code"] for each in done["not_checked"]}
    assert not skipped & {"RT710", "RT711", "RT715", "RT717", "RT719"}


@pytest.mark.parametrize("form", ["full", "concise", "markdown", "sarif", "github"])
def test_every_form_names_the_code(run: Run, tmp_path: Path, form: str) -> None:
    (tmp_path / "hccl.json").write_bytes(hccl_table(chip2="10.40.9.9"))
    root = npu_host(tmp_path / "root").root
    words = ("check", "hccl.json", "--root", str(root), "--format", form)
    done = run("ranktable", *words)

    assert done.status == 1
    assert "RT706" in done.out


def test_exit_status_tells_usage_from_what_could_not_be_finished(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.json").write_text("{}")
    run("ranktable", "gen", "--device-id", "[[0,1]]", "-o", "sound.json")

    assert run("ranktable", "check", "--root", "empty").status == 3
    assert run("ranktable", "check", "missing.json").status == 2
    assert run("ranktable", "check", "bad.json").status == 1
    assert run("ranktable", "check", "--root", "nowhere").status == 2
    assert run("ranktable", "check", "--host", "").status == 2
    assert run("ranktable", "check", "").status == 2
    done = run("ranktable", "check", "sound.json", "--root", "empty")
    assert (done.status, "node 0 is taken for this one" in done.out) == (3, True)
    assert run("ranktable", "check", "-", "--pods", "-", given=b"{}").status == 2


def test_rows_are_found_by_name_address_and_index(tmp_path: Path, run: Run) -> None:
    (tmp_path / "hccl.json").write_bytes(hccl_table())
    root = npu_host(tmp_path / "root").root
    words = ("check", "hccl.json", "--root", str(root))

    assert "node 1 of 2" in run("ranktable", *words, "--host", "n2").out
    assert "node 1 of 2" in run("ranktable", *words, "--host", "1").out
    assert "node 1 of 2" in run("ranktable", *words, "--host", "N2.Cluster").out
    Tree(root, "10.9.9.9")
    assert "RT701" in run("ranktable", *words).out
    assert run("ranktable", *words, "--ignore", "RT701").status in (0, 3)


def test_codes_are_selected_as_in_a_list(tmp_path: Path, run: Run) -> None:
    (tmp_path / "hccl.json").write_bytes(hccl_table())
    root = npu_host(tmp_path / "root").root
    words = ("check", "hccl.json", "--root", str(root), "--host", "7")
    Tree(root, "10.9.9.9")

    assert "RT701" in run("ranktable", *words, "--select", "RT706,RT701").out
    ignored = ("ranktable", *words, "--ignore", "RT706,RT701")
    assert "RT701" not in run(*ignored).out
    assert "1 finding ignored" in run(*ignored).out
    assert json.loads(run(*ignored, "--format", "json").out)["ignored"] == {"RT701": 1}
    assert run("ranktable", *words, "--select", "foo").status == 2


def test_check_of_a_host_takes_less_than_a_second_of_cpu_time() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run_process([BIN / "ranktable", "check"])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)

    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1


# Recorded hosts from the field

GPU_QUERY = "--query-gpu=index,uuid,pci.bus_id,serial,name --format=csv,noheader"


def gpu_host(root: Path, *, env: str = "", tool: bool = True, count: int = 8) -> Tree:
    """Return a recorded host n1 with NVIDIA's chips."""
    tree = Tree(root, "n1")
    tree.put("/dev/null")
    tree.put("/environ", env)
    for chip in range(count):
        tree.put(f"/dev/nvidia{chip}")
    rows = [
        f"{n}, GPU-5a1f0e2{n}-90c4, 00000000:{n + 1}7:00.0, 16{n}, NVIDIA H100\n"
        for n in range(count)
    ]
    if tool:
        tree.put(f"/commands/nvidia-smi {GPU_QUERY}", "".join(rows))
    return tree


IN_MPI = "OMPI_COMM_WORLD_LOCAL_SIZE=8\nLOCAL_RANK=0\n"
SIXTH_OF_MPI = """\
OMPI_COMM_WORLD_RANK=5
OMPI_COMM_WORLD_SIZE=8
OMPI_COMM_WORLD_LOCAL_RANK=5
"""


def of_eight(hosts: tuple[str, ...] = ("n1",)) -> bytes:
    return dumps(make_table([range(8)] * len(hosts), hosts=hosts))


def gpus(*rows: str) -> str:
    """Return the answer of nvidia-smi; each row has what follows the index."""
    return "".join(
        f"{n}, {row.replace('BUS', f'00000000:{n + 1}7:00.0')}\n"
        for n, row in enumerate(rows)
    )


GOOD = "GPU-5a1f0e2a-90c4, BUS, 160, NVIDIA H100"


@pytest.mark.parametrize(
    ("said", "codes"),
    [
        (gpus(GOOD, GOOD.replace("2a", "2b")), set()),
        (gpus(GOOD, "[Unknown Error], BUS, [GPU is lost], [GPU is lost]"), {"RT703"}),
        (gpus(GOOD, "GPU-5a1f0e2b-90c4, BUS, [N/A], NVIDIA H100"), set()),
        ("Unable to determine the device handle for GPU0000:3D:00.0: Unknown Error\n",
         {"RT703"}),
        ("No devices were found\n", {"RT702"}),
    ],
)  # fmt: skip
def test_gpus_that_no_program_can_use_do_not_agree(
    tmp_path: Path, said: str, codes: set[str]
) -> None:
    tree = gpu_host(tmp_path, count=2, env="CUDA_VISIBLE_DEVICES=0,1\n")
    tree.put(f"/commands/nvidia-smi {GPU_QUERY}", said)
    checked = checked_at(tree, dumps(make_table([[0, 1]], hosts=["n1"])))

    assert set(found(checked)) & {"RT702", "RT703"} == codes


def test_one_gpu_that_is_not_reached_is_told(tmp_path: Path) -> None:
    tree = gpu_host(tmp_path, count=3)
    said = "Unable to determine the device handle for GPU0000:3D:00.0: Unknown Error\n"
    tree.put(f"/commands/nvidia-smi {GPU_QUERY}", said + gpus(GOOD))
    used = checked_at(tree, dumps(make_table([[0]], hosts=["n1"])))

    assert found(used) == {}
    assert "a GPU of this host" in found(checked_at(tree))["RT703"]


def test_order_of_several_models_is_not_known(tmp_path: Path) -> None:
    table = dumps(make_table([[1]], hosts=["n1"]))
    tree = gpu_host(tmp_path, count=2, env="CUDA_VISIBLE_DEVICES=1\n")
    rows = gpus(GOOD.replace("H100", "T400"), GOOD.replace("2a", "2b"))
    tree.put(f"/commands/nvidia-smi {GPU_QUERY}", rows)
    reasons = {each.code: each.why for each in checked_at(tree, table).not_checked}
    tree.put("/environ", "CUDA_VISIBLE_DEVICES=1\nCUDA_DEVICE_ORDER=PCI_BUS_ID\n")
    told = checked_at(tree, table)

    assert "set CUDA_DEVICE_ORDER=PCI_BUS_ID" in reasons["RT705"]
    assert "RT705" in {each.code for each in told.agrees}


@pytest.mark.parametrize(
    ("text", "hint"),
    [("0-3", "=0,1,2,3"), ("0;1;2", "=0"), ("0 1 2", "=0"), ("0,1-2", "=0,1,2"),
     ("0,1", ""), ("+0, 1", ""), ("", "")],
)  # fmt: skip
def test_entry_of_which_only_the_first_number_is_read_is_found(
    tmp_path: Path, text: str, hint: str
) -> None:
    checked = checked_at(gpu_host(tmp_path, env=f"CUDA_VISIBLE_DEVICES={text}\n"))

    hints = [each.hint for each in checked.diagnostics if each.code == "RT704"]
    assert [each[-len(hint) :] for each in hints if each and hint] == [hint] * bool(
        hint
    )


def test_chips_and_lists_of_other_vendors_are_not_looked_for(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "n1")
    tree.put("/dev/kfd")
    table = dumps(make_table([[0, 1]], hosts=["n1"]))
    env = {"MLU_VISIBLE_DEVICES": "0,1", "LOCAL_RANK": "1"}
    checked = checked_at(tree, table, **env)

    assert set(found(checked)) == set()
    reasons = {each.code: each.why for each in checked.not_checked}
    assert reasons["RT702"] == "chips such as /dev/kfd are not looked for"
    assert reasons["RT720"] == "MLU_VISIBLE_DEVICES is set, which is not read"


BY_HAND = "RANK=3\nWORLD_SIZE=8\nLOCAL_RANK=0\n"
# torchrun --virtual-local-rank
VIRTUAL = "TORCHELASTIC_RUN_ID=a\nRANK=3\nWORLD_SIZE=8\nLOCAL_WORLD_SIZE=8\n"


@pytest.mark.parametrize(
    ("env", "codes"),
    [
        ("CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7\n", set()),
        ("", set()),
        ("CUDA_VISIBLE_DEVICES=7,6,5,4,3,2,1,0\n", {"RT705"}),
        ("CUDA_VISIBLE_DEVICES=0,1,9,2,3,4,5,6\n", {"RT704", "RT705"}),
        ("CUDA_VISIBLE_DEVICES=GPU-5a1f0e20,GPU-dead\n", {"RT704", "RT705"}),
        ("CUDA_VISIBLE_DEVICES=0\nSLURM_GPUS_PER_TASK=1\n", set()),
        ("CUDA_VISIBLE_DEVICES=0\nRANK=3\nWORLD_SIZE=8\nLOCAL_RANK=3\n",
         {"RT705", "RT720"}),
        (BY_HAND, {"RT304"}),
        (BY_HAND + "CUDA_VISIBLE_DEVICES=3\n", set()),
        (BY_HAND + "CUDA_VISIBLE_DEVICES=3\nLOCAL_WORLD_SIZE=1\n", set()),
        (BY_HAND + "LOCAL_WORLD_SIZE=1\n", {"RT304"}),
        (BY_HAND + "CUDA_VISIBLE_DEVICES=2\n", {"RT705"}),
        (VIRTUAL + "LOCAL_RANK=0\nCUDA_VISIBLE_DEVICES=3\n", set()),
        (VIRTUAL + "LOCAL_RANK=0\nCUDA_VISIBLE_DEVICES=2\n", {"RT705"}),
        ("SLURM_PROCID=3\nSLURM_NTASKS=8\nSLURM_LOCALID=3\n", set()),
        # A script gives each process the chip of its local rank.
        (SIXTH_OF_MPI + "CUDA_VISIBLE_DEVICES=5\n", {"note"}),
        (SIXTH_OF_MPI + "CUDA_VISIBLE_DEVICES=4\n", {"note", "RT705"}),
        (SIXTH_OF_MPI + IN_MPI + "CUDA_VISIBLE_DEVICES=5\n", set()),
        (SIXTH_OF_MPI + IN_MPI + "CUDA_VISIBLE_DEVICES=4\n", {"RT705"}),
        # One process on each host checks it: its rank is not one of the table.
        ("OMPI_COMM_WORLD_RANK=1\nOMPI_COMM_WORLD_SIZE=2\nCUDA_VISIBLE_DEVICES=1\n",
         {"RT705"}),
        # Slurm without AutoDetect sets the lists of all vendors.
        ("CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7\nROCR_VISIBLE_DEVICES=4,5,6,7\n", set()),
    ],
)  # fmt: skip
def test_lists_of_a_gpu_host_are_compared_by_local_rank(
    tmp_path: Path, env: str, codes: set[str]
) -> None:
    checked = checked_at(gpu_host(tmp_path, env=env), of_eight())

    said = {"note" if each.severity is Severity.NOTE else each.code
            for each in checked.diagnostics}  # fmt: skip
    assert said == codes
    assert not any("ASCEND" in (each.hint or "") for each in checked.diagnostics)


@pytest.mark.parametrize(("count", "codes"), [(6, set()), (4, {"RT720"})])
def test_process_beyond_the_chips_is_told_without_table_and_list(
    tmp_path: Path, count: int, codes: set[str]
) -> None:
    env = f"{SIXTH_OF_MPI}OMPI_COMM_WORLD_LOCAL_SIZE=6\n"
    checked = checked_at(gpu_host(tmp_path, env=env, count=count))

    assert set(found(checked)) == codes
    assert "RT720" in {each.code for each in checked.agrees} | codes


@pytest.mark.parametrize(
    ("count", "there", "example"),
    [(1, "is 1 device", "0"), (2, "are 2 devices", "0,1")],
)
def test_number_of_a_chip_that_is_not_there_has_help_for_this_host(
    tmp_path: Path, count: int, there: str, example: str
) -> None:
    host = gpu_host(tmp_path, env=f"CUDA_VISIBLE_DEVICES={count}\n", count=count)
    table = dumps(make_table([range(count)], hosts=["n1"]))
    each = checked_at(host, table).diagnostics
    (finding,) = (one for one in each if one.code == "RT704")

    assert finding.message.endswith(f"there {there}")
    assert (finding.hint or "").endswith(f"CUDA_VISIBLE_DEVICES={example}")


def test_help_for_a_list_keeps_the_chips_that_are_meant(tmp_path: Path) -> None:
    host = gpu_host(tmp_path, env="CUDA_VISIBLE_DEVICES=6,5,6,9\n")
    each = checked_at(host, of_eight()).diagnostics
    (finding,) = (one for one in each if one.code == "RT704")

    assert (finding.hint or "").endswith("CUDA_VISIBLE_DEVICES=5,6")


def test_cgroup_of_slurm_counts_from_0_and_the_table_from_the_host(
    tmp_path: Path,
) -> None:
    env = "SLURM_JOB_GPUS=4,5,6,7\nCUDA_VISIBLE_DEVICES=0,1,2,3\n"
    table = dumps(make_table([range(4, 8)], hosts=["n1"]))
    agrees = checked_at(gpu_host(tmp_path / "a", env=env, count=4), table)
    other = env.replace("4,5,6,7", "0,1,2,3")
    differs = checked_at(gpu_host(tmp_path / "b", env=other, count=4), table)

    assert found(agrees) == {}
    assert "RT702" in found(differs)


def test_container_counts_from_0_and_the_table_from_the_host(tmp_path: Path) -> None:
    table = dumps(make_table([range(4, 8)], hosts=["n1"]))
    env = "NVIDIA_VISIBLE_DEVICES=4,5,6,7\n"

    assert found(checked_at(gpu_host(tmp_path, env=env, count=4), table)) == {}


@pytest.mark.parametrize(
    ("rows", "text", "code"),
    [
        ([6, 7, 5], "2,3,1,0", ""),
        ([2, 3, 1], "2,3,1,0", ""),  # a table of what the container counts
        ([4, 5, 6, 7], "1,0,2,3", "RT705"),
        ([5, 4, 6, 7], "GPU-5a1f0e21,GPU-5a1f0e20,GPU-5a1f0e22,GPU-5a1f0e23", ""),
    ],
)
@pytest.mark.parametrize("variable", ["NVIDIA_VISIBLE_DEVICES", "SLURM_STEP_GPUS"])
def test_list_counts_what_was_given_and_the_table_may_count_in_the_host(
    tmp_path: Path, variable: str, rows: list[int], text: str, code: str
) -> None:
    env = f"{variable}=4,5,6,7\nCUDA_VISIBLE_DEVICES={text}\n"
    table = dumps(make_table([rows], hosts=["n1"]))
    checked = checked_at(gpu_host(tmp_path, env=env, count=4), table)

    assert set(found(checked)) == {code} - {""}
    assert not code or "shows 5,4,6,7, and" in found(checked)[code]


def test_list_of_uuids_in_a_container_is_not_numbers_of_the_host(
    tmp_path: Path,
) -> None:
    mounted = ",".join(f"GPU-5a1f0e2{n}-90c4" for n in range(4))
    env = f"NVIDIA_VISIBLE_DEVICES={mounted}\nCUDA_VISIBLE_DEVICES=0,1,2,3\n"
    table = dumps(make_table([range(4, 8)], hosts=["n1"]))
    checked = checked_at(gpu_host(tmp_path, env=env, count=4), table)

    assert found(checked) == {}
    assert {"RT702", "RT705"} <= {each.code for each in checked.not_checked}


def test_whole_list_is_not_called_read_where_no_tool_lists_the_chips(
    tmp_path: Path,
) -> None:
    env = "CUDA_VISIBLE_DEVICES=0,9,1\n"
    checked = checked_at(gpu_host(tmp_path, env=env, tool=False, count=2))

    assert "RT704" in {each.code for each in checked.not_checked}
    assert "RT704" not in {each.code for each in checked.agrees}


@pytest.mark.parametrize(("count", "codes"), [(4, set()), (3, {"RT702"})])
def test_container_with_uuids_does_not_know_the_numbers_of_the_host(
    tmp_path: Path, count: int, codes: set[str]
) -> None:
    table = dumps(make_table([range(4, 8)], hosts=["n1"]))
    env = "NVIDIA_VISIBLE_DEVICES=GPU-5a1f0e20-90c4,GPU-5a1f0e21-90c4\n"
    checked = checked_at(gpu_host(tmp_path, env=env, count=count), table)

    assert set(found(checked)) == codes
    assert "RT702" in {each.code for each in checked.not_checked} | codes


@pytest.mark.parametrize(("nodes", "is_known"), [("1", True), ("2", False)])
def test_loopback_master_of_several_nodes_is_not_called_right(
    tmp_path: Path, nodes: str, *, is_known: bool
) -> None:
    sizes = f"TORCHELASTIC_RUN_ID=x\nGROUP_RANK=0\nGROUP_WORLD_SIZE={nodes}\n"
    ranks = "RANK=2\nWORLD_SIZE=4\nLOCAL_RANK=0\nMASTER_ADDR=127.0.0.1\n"
    checked = checked_at(gpu_host(tmp_path, env=sizes + ranks))
    codes = {each.code for each in checked.not_checked}

    assert found(checked) == {}
    assert ("RT714" not in codes) is is_known


def test_task_with_its_own_chip_is_not_a_host_that_lost_the_others(
    tmp_path: Path,
) -> None:
    env = "SLURM_GPUS_PER_TASK=1\nCUDA_VISIBLE_DEVICES=0\nSLURM_STEP_GPUS=2\n"
    checked = checked_at(gpu_host(tmp_path, env=env, count=1), of_eight())

    assert found(checked) == {}
    whys = {each.code: each.why for each in checked.not_checked}
    assert "SLURM_GPUS_PER_TASK is set" in whys["RT702"]


def test_device_nodes_without_the_tool_are_no_missing_chips(tmp_path: Path) -> None:
    checked = checked_at(gpu_host(tmp_path, tool=False), of_eight())

    assert found(checked) == {}
    (why,) = [each.why for each in checked.not_checked if each.code == "RT702"]
    assert "nvidia-smi is not there" in why


@pytest.mark.parametrize(("count", "codes"), [(2, {"RT720"}), (0, set())])
def test_empty_list_is_told_where_only_device_nodes_show_chips(
    tmp_path: Path, count: int, codes: set[str]
) -> None:
    env = "CUDA_VISIBLE_DEVICES=\nLOCAL_RANK=0\nRANK=0\nWORLD_SIZE=2\n"
    tree = gpu_host(tmp_path, env=env, tool=False, count=count)

    assert set(found(checked_at(tree))) == codes


def test_reason_of_a_tool_that_fails_is_told(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "n1")
    tree.put("/dev/null")
    reason = "dcmi module initialize failed. ret is -8005"
    tree.put("/commands/npu-smi_info_-m.failed", reason)
    (finding,) = checked_at(tree, of_eight()).diagnostics

    assert (finding.code, reason in (finding.hint or "")) == ("RT702", True)


@pytest.mark.parametrize(
    ("reason", "count", "codes"),
    [
        (
            "NVIDIA-SMI couldn't communicate with the NVIDIA driver.",
            8,
            {"RT703"},
        ),
        ("exit status 18: Failed to initialize NVML: Unknown Error", 8, {"RT703"}),
        ("exit status 18: Failed to initialize NVML: Unknown Error", 0, {"RT702"}),
        ("exit status 4: Insufficient permissions", 8, set()),
    ],
)
def test_driver_that_does_not_answer_is_told(
    tmp_path: Path, reason: str, count: int, codes: set[str]
) -> None:
    tree = gpu_host(tmp_path, tool=False, count=count)
    tree.put(f"/commands/nvidia-smi {GPU_QUERY}.failed", f"nvidia-smi failed: {reason}")

    assert set(found(checked_at(tree, of_eight()))) == codes


@pytest.mark.parametrize(
    ("free", "codes"), [(0, {"RT719"}), (400000, {"RT719"}), (600000, set())]
)
def test_shared_memory_that_is_full_is_small(
    tmp_path: Path, free: int, codes: set[str]
) -> None:
    tree = gpu_host(tmp_path)
    head = "Filesystem 1024-blocks Used Available Capacity Mounted on"
    row = f"tmpfs 4194304 0 {free} 1% /dev/shm"
    tree.put("/commands/df_-Pk_dev_shm", f"{head}\n{row}\n")

    assert set(found(checked_at(tree, of_eight()))) == codes


def test_recorded_host_without_a_name_is_not_this_machine(tmp_path: Path) -> None:
    tree = gpu_host(tmp_path)
    (tmp_path / "etc/hostname").unlink()
    checked = checked_at(tree, of_eight(("n1", "n2")))

    assert found(checked) == {}
    assert socket.gethostname() not in checked.subject
    assert "etc/hostname" in checked.not_checked[0].why


@pytest.mark.parametrize(
    ("health", "codes"), [("OK", set()), ("Alarm", {"RT703"}), ("Critical", {"RT703"})]
)
def test_health_of_npu_smi_is_judged(
    tmp_path: Path, health: str, codes: set[str]
) -> None:
    tree = npu_host(tmp_path)
    rows = "".join(
        f"| {n}     910B3    | {health if n == 6 else 'OK'}     | 93.6   40   0 / 0 |\n"
        f"| 0              | 0000:C{n}:00.0  | 0       0    / 0     3345 / 65536 |\n"
        for n in range(NUM_NPUS)
    )
    text = (tmp_path / "commands/npu-smi info").read_text()
    tree.put("/commands/npu-smi info", rows + text)
    checked = checked_at(tree, hccl_table())

    assert set(found(checked)) == codes
    assert "RT703" in {each.code for each in checked.agrees} | codes
    if codes:
        assert "chip 6 has the status" in found(checked)["RT703"]


@pytest.mark.parametrize(
    ("env", "hosts", "codes"),
    [
        ("GLOO_SOCKET_IFNAME=lo\n", ("n1", "n2"), {"RT713"}),
        ("NCCL_SOCKET_IFNAME==lo\n", ("n1", "n2"), {"RT713"}),
        ("GLOO_SOCKET_IFNAME=lo\n", ("n1",), set()),
        ("GLOO_SOCKET_IFNAME=eth0\n", ("n1", "n2"), set()),
        ("NCCL_SOCKET_IFNAME=^lo\n", ("n1", "n2"), set()),
        # NCCL leaves out lo only where the variable is unset, and takes the first.
        ("NCCL_SOCKET_IFNAME=^docker0\n", ("n1", "n2"), {"RT713"}),
        ("NCCL_SOCKET_IFNAME=lo,eth0\n", ("n1", "n2"), {"RT713"}),
        ("NCCL_SOCKET_IFNAME=^docker0\n", ("n1",), set()),
        ("NCCL_SOCKET_IFNAME=^docker,lo\n", ("n1", "n2"), set()),
        ("NCCL_SOCKET_IFNAME=^=lo\n", ("n1", "n2"), set()),
        ("NCCL_SOCKET_IFNAME=ib,eth\n", ("n1", "n2"), set()),
        ("NCCL_SOCKET_IFNAME==eth0:29500\n", ("n1", "n2"), set()),
        ("NCCL_SOCKET_IFNAME==eth:29500\n", ("n1", "n2"), {"RT713"}),
        ("HCCL_SOCKET_IFNAME=eth0:29500\n", ("n1", "n2"), {"RT713"}),
    ],
)
def test_loopback_interface_reaches_no_other_host(
    tmp_path: Path, env: str, hosts: tuple[str, ...], codes: set[str]
) -> None:
    tree = gpu_host(tmp_path, env=env)
    tree.put("/proc/net/dev", "Inter-| R\n face |bytes\n    lo: 1 2\n  eth0: 3 4\n")

    assert set(found(checked_at(tree, of_eight(hosts)))) == codes
