"""``ranktable check`` on one host: recorded folders that agree and that differ."""

from __future__ import annotations

import json
import re
import socket
from typing import TYPE_CHECKING

import pytest

from ranktable.cluster.discovery.machine import Machine
from ranktable.cluster.generate import make_table
from ranktable.preflight.here import check_here
from ranktable.preflight.rules import OF_HOST
from ranktable.report.rule_pages import page_of
from ranktable.runtime.process_chip import (
    read_ascend_list,
    read_gpu_list,
    read_mounted,
)
from ranktable.schema.check import check
from ranktable.schema.writing import dumps
from tests.conftest import HERE
from tests.file_cases import read_cases
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


def test_stale_address_is_named_at_its_row(tmp_path: Path) -> None:
    checked = checked_at(npu_host(tmp_path), hccl_table(chip2="10.40.9.9"))
    (finding,) = checked.diagnostics

    assert finding.code == "RT706"
    assert finding.message == (
        "chip 2 has the address 10.40.2.21 by hccn_tool, and the table says 10.40.9.9"
    )
    assert finding.location.pointer == "/server_list/0/device/2/device_ip"
    assert finding.location.line is not None


def test_chips_are_judged_one_by_one(tmp_path: Path) -> None:
    tree = npu_host(tmp_path)
    (tmp_path / "commands" / "hccn_tool -i 6 -ip -g.txt").unlink()
    checked = checked_at(tree, hccl_table(chip2="10.40.9.9", chip6="10.40.9.8"))

    assert [each.code for each in checked.diagnostics] == ["RT706"]
    why = {each.code: each.why for each in checked.not_checked}
    assert why["RT706"] == "chip 6: hccn_tool is not there"


def test_rank_without_a_size_is_not_checked(run: Run) -> None:
    done = run("ranktable", "check", env={"RANK": "1"})

    assert (
        "not checked: RANK=1 (environment) gives the rank, but WORLD_SIZE is not set; "
        "set or unset both (RT301 environment)"
    ) in done.out.splitlines()


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


def test_other_lists_are_read_as_their_owners_read_them() -> None:
    assert read_gpu_list("0, 2,x,3", None)[:2] == ((0, 2), "x")
    assert read_gpu_list("1gpu2,2x", None)[:2] == ((1, 2), "")
    assert read_gpu_list("1,1", None)[:2] == ((), "1")
    assert read_gpu_list("GPU-8932f937", None)[:2] == (("GPU-8932f937",), "")
    assert read_mounted("3-5,0, Ascend910-10,0") == [0, 3, 4, 5, 10]


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


# Recorded hosts from the field

GPU_QUERY = "--query-gpu=index,uuid,pci.bus_id,serial,name --format=csv,noheader"


def gpu_host(root: Path, *, tool: bool = True, count: int = 8) -> Tree:
    """Return a recorded host n1 with NVIDIA's chips."""
    tree = Tree(root, "n1")
    tree.put("/dev/null")
    for chip in range(count):
        tree.put(f"/dev/nvidia{chip}")
    rows = [
        f"{n}, GPU-5a1f0e2{n}-90c4, 00000000:{n + 1}7:00.0, 16{n}, NVIDIA H100\n"
        for n in range(count)
    ]
    if tool:
        tree.put(f"/commands/nvidia-smi {GPU_QUERY}", "".join(rows))
    return tree


def test_recorded_host_without_a_name_is_not_this_machine(tmp_path: Path) -> None:
    tree = gpu_host(tmp_path)
    (tmp_path / "etc/hostname").unlink()
    checked = checked_at(tree, table_of("0-7"))

    assert found(checked) == {}
    assert socket.gethostname() not in checked.subject
    assert "etc/hostname" in checked.not_checked[0].why


def host_of(root: Path, lines: list[str]) -> tuple[Tree, bytes | None]:
    """Return the host and the table of a case.

    ``host gpu 4 silent`` has four GPUs and no nvidia-smi, ``host npu`` is a whole host
    of Ascend; ``table 0-3 n1,n2`` has these chips on each host. Below them stand
    variables, files after ``/``, and files that are not there after ``no``.
    """
    words = {line.split()[0]: line.split()[1:] for line in lines}
    kind, *more = words["host"]
    if kind == "gpu":
        tree = gpu_host(root, count=int(more[0]), tool="silent" not in more)
    else:
        tree = npu_host(root) if kind == "npu" else Tree(root, "n1")
    for line in lines:
        if line.startswith("/"):
            path, _, text = line.partition(": ")
            tree.put(path, text.encode().decode("unicode_escape"))
        elif line.startswith("no /"):
            (root / line.removeprefix("no /")).unlink()
    variables = [line for line in lines if re.match(r"[A-Z_]+=", line)]
    tree.put("/environ", "".join(f"{line}\n" for line in variables))
    return tree, table_of(*words["table"]) if "table" in words else None


def table_of(chips: str, hosts: str = "n1,n2") -> bytes:
    """Return a table of some chips on each host, or NPUs: all, or the first of n1."""
    if chips == "npu":
        document = json.loads(hccl_table())
        if hosts.isdecimal():
            (first, _), document["server_count"] = document["server_list"], "1"
            first["device"] = first["device"][: int(hosts)]
            document["server_list"] = [first]
        return json.dumps(document, indent=1).encode()
    first, _, last = chips.partition("-")
    row = [*range(int(first), int(last) + 1)] if last else map(int, chips.split(","))
    names = hosts.split(",")
    return dumps(make_table([[*row]] * len(names), hosts=names))


@pytest.mark.parametrize(("text", "expected"), read_cases("checked-hosts").items())
def test_what_is_found_on_a_host_is_told(
    tmp_path: Path, text: str, expected: str
) -> None:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    checked = checked_at(*host_of(tmp_path / "root", lines))

    said = [
        f"{each.code} {each.severity.value}: {each.message}"
        + (f"; {each.hint}" if each.hint else "")
        for each in checked.diagnostics
    ]
    looked = {f"{each.code} not checked: {each.why}" for each in checked.not_checked}
    looked |= {f"{each.code} agrees" for each in checked.agrees}
    wanted = [] if expected == "nothing" else expected.splitlines()
    assert said == [each for each in wanted if each not in looked]
