"""``check --live`` on several hosts: network namespaces with names of their own."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranktable.preflight.reach import Attempt, judge_reach, peers_of
from tests.commands import BIN, torch_environment
from tests.ranks import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

HOSTS = ["n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"]


def told(failed: set[tuple[int, int]], count: int) -> list[str]:
    attempts = [
        Attempt(source, target, f"10.0.0.{target}:40000",
                "timed out" if (source, target) in failed else "")
        for source in range(count)
        for target in peers_of(source, count)
    ]  # fmt: skip
    return [each.message for each in judge_reach(attempts, HOSTS)]


@given(count=st.integers(2, 8), at=st.integers(0, 7))
def test_host_behind_a_firewall_is_named_alone(count: int, at: int) -> None:
    at %= count
    failed = {(source, at) for source in range(count)}

    (message,) = told(failed, count)
    if count > 2:
        assert message.startswith(f"{HOSTS[at]} is not reached at 10.0.0.{at}:40000")
    assert told(set(), count) == []


@given(count=st.integers(4, 8), at=st.integers(0, 7))
def test_host_that_reaches_no_other_is_named_alone(count: int, at: int) -> None:
    at %= count
    (message,) = told({(at, target) for target in range(count)}, count)

    assert message.startswith(f"{HOSTS[at]} reaches no other host: ")


def test_way_between_two_hosts_is_named_as_a_pair() -> None:
    assert told({(0, 1)}, 4) == ["n1 does not reach n2 at 10.0.0.1:40000: timed out"]
    assert len(told({(0, 1), (1, 0)}, 2)) == 2


def test_hosts_try_few_others() -> None:
    assert max(len(peers_of(place, 4096)) for place in range(4096)) == 12


# Real hosts

NAMES = ("n1", "n2", "n3")
_numbers = itertools.count()
_current = [""]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)  # noqa: S603, S607


def space(name: str) -> str:
    return f"{_current[0]}{name}"


def can_make_hosts() -> bool:
    if shutil.which("ip") is None or shutil.which("unshare") is None or os.getuid():
        return False
    # A name of its own each time: the kernel removes a namespace a while later.
    _current[0] = f"rt{os.getpid() % 10000}x{next(_numbers)}"
    probe = space("probe")
    done = subprocess.run(  # noqa: S603
        ["ip", "netns", "add", probe],  # noqa: S607
        check=False,
        capture_output=True,
    )
    if done.returncode == 0:
        ip("netns", "del", probe)
    return done.returncode == 0


@pytest.fixture
def hosts() -> Iterator[dict[str, Path]]:
    """Yield three hosts on one network, by name, with their /etc/hosts."""
    if not can_make_hosts():
        pytest.skip("no network namespaces can be made here")
    bridge = _current[0]
    files = {name: Path(f"/etc/netns/{space(name)}/hosts") for name in NAMES}
    lines = [f"192.168.78.{n} {name}" for n, name in enumerate(NAMES, 1)]
    try:
        ip("link", "add", bridge, "type", "bridge")
        ip("link", "set", bridge, "up")
        for n, name in enumerate(NAMES, 1):
            ip("netns", "add", space(name))
            files[name].parent.mkdir(parents=True, exist_ok=True)
            files[name].write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
            ip("link", "add", f"{bridge}v{n}", "type", "veth", "peer", "name", "eth0",
               "netns", space(name))  # fmt: skip
            ip("link", "set", f"{bridge}v{n}", "master", bridge, "up")
            ip("-n", space(name), "link", "set", "lo", "up")
            ip("-n", space(name), "link", "set", "eth0", "up")
            ip("-n", space(name), "addr", "add", f"192.168.78.{n}/24", "dev", "eth0")
        yield files
    finally:
        for name in NAMES:
            subprocess.run(  # noqa: S603
                ["ip", "netns", "del", space(name)], check=False,  # noqa: S607
                capture_output=True,
            )  # fmt: skip
            shutil.rmtree(files[name].parent, ignore_errors=True)
        subprocess.run(["ip", "link", "del", bridge], check=False)  # noqa: S603, S607


def check_on(*options: str, **env: str) -> dict[str, Any]:
    """Return what a job with one process on each host says."""
    port = str(free_port())
    started = []
    for rank, name in enumerate(NAMES):
        variables = {
            **torch_environment(), **env, "RANK": str(rank), "LOCAL_RANK": "0",
            "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "1", "GROUP_RANK": str(rank),
            "MASTER_ADDR": "192.168.78.1", "MASTER_PORT": port,
            "TORCHELASTIC_RUN_ID": "1", "GLOO_SOCKET_IFNAME": env.get("IFNAME", ""),
        }  # fmt: skip
        words = ["check", "--format", "json", *options]
        script = f'hostname {name}; exec "$0" "$@"'
        command = ["ip", "netns", "exec", space(name), "unshare", "--uts", "sh", "-c",
                   script, str(BIN / "ranktable"), *words]  # fmt: skip
        started.append(
            subprocess.Popen(  # noqa: S603
                command, env=variables, stdout=subprocess.PIPE, text=True
            )
        )
    outputs = [each.communicate(timeout=90)[0] for each in started]
    (said,) = [json.loads(each) for each in outputs if each]
    return dict(said)


def messages(said: dict[str, Any]) -> dict[str, str]:
    return {each["code"]: each["message"] for each in said["findings"]}


@pytest.mark.torch
def test_hosts_that_reach_each_other_agree(hosts: dict[str, Path]) -> None:
    said = check_on("--live")

    assert messages(said) == {}
    assert said["subject"] == "3 processes of 3 ranks, 3 hosts"
    assert {"RT741", "RT719", "RT737"} <= set(said["agrees"])


@pytest.mark.torch
def test_host_whose_name_is_a_loopback_address_is_named(
    hosts: dict[str, Path],
) -> None:
    hosts["n2"].write_text(hosts["n2"].read_text().replace("192.168.78.2", "127.0.1.1"))
    found = messages(check_on("--live"))

    assert list(found) == ["RT715"]
    assert found["RT715"].endswith("n2 (127.0.1.1)")


@pytest.mark.torch
def test_loopback_interface_of_all_hosts_is_named(hosts: dict[str, Path]) -> None:
    found = messages(check_on("--live", IFNAME="lo"))

    assert list(found) == ["RT715"]
    assert "3 hosts" in found["RT715"]


@pytest.mark.torch
def test_interfaces_that_are_left_out_leave_the_loopback_interface(
    hosts: dict[str, Path],
) -> None:
    wrong = check_on("--live", NCCL_SOCKET_IFNAME="^docker0")
    right = check_on("--live", NCCL_SOCKET_IFNAME="^docker0,lo")

    assert "n1 (NCCL_SOCKET_IFNAME=^docker0)" in messages(wrong)["RT713"]
    assert [each["severity"] for each in wrong["findings"]] == ["warning"]  # no chips
    assert "RT713" not in wrong["agrees"]
    assert messages(right) == {}
    assert "RT741" in right["agrees"]


@pytest.mark.torch
def test_hosts_that_do_not_reach_each_other_are_named(hosts: dict[str, Path]) -> None:
    ip("-n", space("n3"), "route", "add", "blackhole", "192.168.78.2/32")
    ip("-n", space("n2"), "route", "add", "blackhole", "192.168.78.3/32")
    found = messages(check_on("--live"))

    assert list(found) == ["RT741"]
    assert "n1" not in found["RT741"].split(" at ")[0]


def measured(said: dict[str, Any]) -> list[list[str]]:
    return [each["hosts"] for each in said["measured"]]


@pytest.mark.torch
@pytest.mark.parametrize("option", ["--live", "--links"])
def test_firewall_names_the_host_behind_it(hosts: dict[str, Path], option: str) -> None:
    if shutil.which("iptables") is None:
        pytest.skip("no iptables")
    rule = ["-A", "INPUT", "-i", "eth0", "-p", "tcp", "--syn", "--dport", "30000:65535"]
    ip("netns", "exec", space("n2"), "iptables", *rule, "-j", "DROP")
    said = check_on(option)
    found = messages(said)

    assert found["RT741"].startswith("n2 is not reached at 192.168.78.2:")
    assert set(found) <= {"RT741", "RT785"}
    if option == "--links":
        assert measured(said) == [["n1", "n3"]]
        assert "node 1 (n2)" in json.dumps(said["not_checked"])


@pytest.mark.torch
def test_links_are_measured_without_the_host_whose_name_is_loopback(
    hosts: dict[str, Path],
) -> None:
    hosts["n2"].write_text(hosts["n2"].read_text().replace("192.168.78.2", "127.0.1.1"))
    said = check_on("--links", "--size", "1")

    assert set(messages(said)) == {"RT715", "RT785"}
    assert measured(said) == [["n1", "n3"]]


@pytest.mark.torch
def test_slow_host_is_named_and_no_pair_without_it(hosts: dict[str, Path]) -> None:
    slow = ["tbf", "rate", "100mbit", "burst", "64kb", "latency", "400ms"]
    if shutil.which("tc") is None:
        pytest.skip("no tc")
    words = ["tc", "qdisc", "add", "dev", "eth0", "root", *slow]
    ip("netns", "exec", space("n3"), *words)
    said = check_on("--links", "--timeout", "30")

    assert measured(said)[0] == ["n1", "n2"]
    assert not {"RT781", "RT784"} & set(messages(said))
    for each in said["findings"]:
        is_of_slow_one = "n3" in each["message"].split(";")[0]
        assert is_of_slow_one or each["code"] == "RT785"
