"""Pods of Kubernetes: their table, and the table against them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from ranktable import loads
from ranktable.cluster.hostfiles.launcher_formats import detect_formats, read_hostfile
from ranktable.cluster.pod_job import NAME
from ranktable.preflight.pods import check_pods
from ranktable.schema.check import check
from ranktable.schema.writing import dumps
from tests.file_cases import read_cases
from tests.pod_lists import (
    CONFIGURATION,
    CONTROLLERS,
    REAL,
    indexed_job,
    jobset,
    kubeflow,
    listed,
    running,
    stateful_set,
    volcano,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ranktable.schema.report import Report
    from tests.conftest import Run
    from tests.pod_lists import Pod

    Controller = Callable[..., Pod]

BY_CONTROLLER = pytest.mark.parametrize(
    "controller", CONTROLLERS, ids=lambda one: one.__name__
)
BY_NAME = {one.__name__: one for one in CONTROLLERS}
TEXT_ORDER = (0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9)
"""Twelve pods as kubectl prints them: in the order of their names."""


def codes(*pods: Pod) -> list[str]:
    """Return what is found in a list, as codes and messages."""
    report = read_hostfile(listed(*pods), NAME, file="pods.json").report
    return [f"{one.code} {one.message}" for one in report.diagnostics]


def annotated(pod: Pod, **devices: Any) -> Pod:
    """Change the annotation of the device plugin of a pod."""
    told = json.loads(pod["metadata"]["annotations"][CONFIGURATION])
    pod["metadata"]["annotations"][CONFIGURATION] = json.dumps({**told, **devices})
    return pod


@BY_CONTROLLER
def test_pods_become_a_table_in_the_order_of_their_index(
    controller: Controller, run: Run, tmp_path: Path
) -> None:
    pods = [controller(at) for at in TEXT_ORDER]
    (tmp_path / "pods.json").write_bytes(listed(*pods))

    done = run("ranktable", "convert", "pods.json", "--from", NAME, "--to", "hccl-1.0")

    assert (done.status, done.err) == (0, "")
    servers = json.loads(done.out)["server_list"]
    assert [one["server_id"] for one in servers] == [f"10.0.0.{at}" for at in range(12)]
    assert servers[10] == {
        "server_id": "10.0.0.10",
        "container_ip": "10.9.0.10",
        "device": [
            {"device_id": "0", "device_ip": "192.168.10.1", "rank_id": "20"},
            {"device_id": "1", "device_ip": "192.168.10.2", "rank_id": "21"},
        ],
    }


@BY_CONTROLLER
def test_index_that_two_running_pods_have_is_refused(controller: Controller) -> None:
    again = controller(1)
    name = f"again-{again['metadata']['name'].split('-')[-1]}"
    again["metadata"] |= {"name": name, "uid": "u", "creationTimestamp": "2027"}
    again["metadata"]["annotations"].pop(CONFIGURATION)
    again["metadata"]["annotations"][REAL] = "Ascend910-6,Ascend910-7"

    (said,) = [
        one for one in codes(controller(0), controller(1), again) if "753" in one
    ]

    assert name in said
    assert controller(1)["metadata"]["name"] in said


@BY_CONTROLLER
def test_index_without_a_pod_is_refused(controller: Controller) -> None:
    found = codes(controller(0), controller(1), controller(3))

    assert [one.split()[0] for one in found] == ["RT754"]


@BY_CONTROLLER
@pytest.mark.parametrize("how", ["Failed", "Succeeded", "deleted"])
def test_old_pod_of_an_index_is_left_out(controller: Controller, how: str) -> None:
    old = controller(1)
    old["metadata"]["uid"] = "old"
    old["status"]["phase"] = "Running" if how == "deleted" else how
    if how == "deleted":
        old["metadata"]["deletionTimestamp"] = "2026-11-23T11:00:00Z"

    assert codes(old, controller(0), controller(1)) == []
    (said,) = codes(old, controller(0), controller(2))
    assert old["metadata"]["name"] in said
    assert "is being deleted" in said or f"ended ({how})" in said


@BY_CONTROLLER
@pytest.mark.parametrize("how", ["Failed", "Succeeded", "deleted"])
def test_last_pod_that_ended_is_missing(controller: Controller, how: str) -> None:
    last = controller(2)
    last["status"]["phase"] = "Running" if how == "deleted" else how
    if how == "deleted":
        last["metadata"]["deletionTimestamp"] = "2026-11-23T11:00:00Z"

    (said,) = codes(controller(0), controller(1), last)

    assert said.startswith("RT754")
    assert f"pod {last['metadata']['name']} " in said


def test_index_of_a_billion_is_bounded() -> None:
    pods = [running("solo-0", 0), running("solo-9", 1)]
    for index, pod in zip(("0", "999999999"), pods, strict=True):
        pod["metadata"]["annotations"]["hccl/rankIndex"] = index
    found = codes(*pods)

    assert len(found) == 20
    assert {one.split()[0] for one in found} == {"RT754"}


def test_pods_of_one_node_are_named_by_their_uid(run: Run, tmp_path: Path) -> None:
    pods = [stateful_set(at) for at in (0, 1)]
    for at, pod in enumerate(pods):
        pod["spec"]["nodeName"] = "node-0"
        pod["status"]["hostIP"] = "10.0.0.0"
        pod["metadata"]["annotations"].pop(REAL)
        devices = [{"device_id": str(10 - at), "device_ip": f"192.168.7.{at + 1}"}]
        annotated(pod, devices=devices)
        pod["spec"]["containers"][1]["resources"]["limits"]["huawei.com/Ascend910"] = (
            "1"
        )
    (tmp_path / "pods.json").write_bytes(listed(*pods))

    done = run("ranktable", "convert", "pods.json", "--to", "hccl-1.0")
    other = run("ranktable", "convert", "pods.json", "--to", "sccl-1.0")

    assert loads(done.out).hosts == ("uid-train-0", "uid-train-1")
    assert loads(done.out).nodes[0].extra["host_ip"] == "10.0.0.0"
    assert loads(other.out).hosts == ("10.9.0.0", "10.9.0.1")
    assert loads(other.out).chip_map == [10, 9]


def test_chips_are_sorted_as_numbers_and_super_pods_are_kept(
    run: Run, tmp_path: Path
) -> None:
    pods = [indexed_job(at, chips=12) for at in (0, 1)]
    for at, pod in enumerate(pods):
        devices = [
            {"device_id": i, "device_ip": f"10.3.{at}.{i}", "super_device_id": 100 + i}
            for i in (10, 0, 11, *range(1, 10))
        ]
        annotated(pod, devices=devices, super_pod_id=at)
    (tmp_path / "pods.json").write_bytes(listed(*pods))

    done = run("ranktable", "convert", "pods.json", "--to", "hccl-1.2")

    table = loads(done.out)
    assert table.chip_map == [*range(12)] * 2
    older = run("ranktable", "convert", "pods.json", "--to", "hccl-1.0")

    assert "cannot hold: super_pod_id of 2 nodes, super_device_id of 24" in older.err
    assert loads(older.out).chip_map == [*range(12)] * 2
    pods_of = json.loads(done.out)["super_pod_list"]
    assert "super_pod_id" not in json.loads(done.out)["server_list"][0]
    assert [one["super_pod_id"] for one in pods_of] == ["0", "1"]
    assert table.device_of(23).extra["super_device_id"] == "111"


def test_pods_that_only_count_their_chips_have_hosts(run: Run, tmp_path: Path) -> None:
    pods = [kubeflow(at) for at in (0, 1)]
    for pod in pods:
        pod["metadata"].pop("annotations")
        limits = {"nvidia.com/gpu": "4", "nvidia.com/gpumem": "80", "rdma/hca": "1"}
        pod["spec"]["containers"][1]["resources"]["limits"] = limits
    (tmp_path / "pods.json").write_bytes(listed(*pods))

    done = run("ranktable", "convert", "pods.json", "--to", "sccl-1.0")
    given = ["--device-id", "[[4..7],[0..3]]"]
    other = run("ranktable", "convert", "pods.json", "--to", "sccl-1.0", *given)

    assert "every host has the chips from 0 on" in done.err
    assert loads(done.out).chip_map == [0, 1, 2, 3] * 2
    assert loads(other.out).chip_map == [4, 5, 6, 7, 0, 1, 2, 3]
    assert loads(other.out).hosts == ("10.9.0.0", "10.9.0.1")


def test_pods_without_chips_are_no_part_of_the_job(run: Run, tmp_path: Path) -> None:
    launcher = running(
        "train-launcher-abc12", 3, labels={"volcano.sh/job-name": "train"}
    )
    launcher["metadata"]["labels"]["volcano.sh/task-spec"] = "launcher"
    launcher["metadata"].pop("annotations")
    launcher["spec"]["containers"] = [{"name": "sh"}]
    (tmp_path / "pods.json").write_bytes(listed(launcher, volcano(1), volcano(0)))

    done = run("ranktable", "convert", "pods.json", "--to", "hccl-1.0")

    assert done.err == "note: left out of what the file says: pods without chips\n"
    assert loads(done.out).hosts == ("10.0.0.0", "10.0.0.1")


def test_warnings_do_not_stop_the_conversion(run: Run, tmp_path: Path) -> None:
    pods = [stateful_set(0), stateful_set(1, chips=1), stateful_set(2)]
    for pod in pods[:2]:
        pod["spec"]["hostNetwork"] = True
        pod["spec"]["nodeName"] = "node-0"
    annotated(pods[1], devices=[{"device_id": "5", "device_ip": "192.168.1.1"}])
    pods[1]["metadata"]["annotations"] |= {
        REAL: "Ascend910-5",
        "huawei.com/kltDev": "Ascend910-4",
    }
    (tmp_path / "pods.json").write_bytes(listed(*pods))

    options = ["--to", "hccl-1.0", "--format", "concise"]
    done = run("ranktable", "convert", "pods.json", *options)

    assert done.status == 0
    for code in ("RT758", "RT759", "RT760"):
        assert code in done.err
    assert loads(done.out).chip_map == [0, 1, 5, 0, 1]


def test_several_jobs_are_named_with_the_command_to_select_one() -> None:
    other = stateful_set(0)
    other["metadata"]["ownerReferences"][0]["name"] = "web"
    report = read_hostfile(listed(volcano(0), other), NAME).report
    (found,) = report.diagnostics

    assert "team/train, team/web" in found.message
    assert "kubectl get pods -l volcano.sh/job-name=train -o json" in (found.hint or "")


@pytest.mark.parametrize(
    "text",
    [
        listed(),
        b'{"kind": "Pod", "metadata": null}',
        b'{"kind": "List", "items": {"kind": "Pod"}}',
        b'{"kind": "List", "items": [1, null, {"kind": "Job", "metadata": {}}]}',
        b'[{"kind": "Pod", "metadata": {}, "status": {"phase": "Failed"}}]',
    ],
)
def test_list_without_a_pod_is_refused(text: bytes) -> None:
    report = read_hostfile(text, NAME).report

    assert [one.code for one in report.diagnostics] == ["RT750"]


def test_one_pod_is_a_job_of_its_own() -> None:
    reading = read_hostfile(json.dumps(running("solo", 0)), NAME)

    assert reading.hostfile is not None
    assert reading.hostfile.table is not None
    assert reading.hostfile.table.chip_map == [0, 1]


@pytest.mark.parametrize("value", [None, 1, "x", [], {}, [1], {"a": 1}, [{}]])
def test_odd_values_end_in_findings(value: object) -> None:
    def replaced(data: object) -> list[Any]:
        """Return copies of plain data in each of which one value is another."""
        if isinstance(data, dict):
            pairs = data.items()
            return [
                {**data, key: new}
                for key, old in pairs
                for new in [value, *replaced(old)]
            ]
        if isinstance(data, list):
            copies = [(at, new) for at, old in enumerate(data) for new in replaced(old)]
            return [[*data[:at], new, *data[at + 1 :]] for at, new in copies]
        return []

    for pod in replaced(jobset(0)):
        report = read_hostfile(listed(pod, jobset(1)), NAME).report
        assert all("\n" not in one.message for one in report.diagnostics)


def test_format_is_detected() -> None:
    assert [one.name for one in detect_formats(listed(volcano(0)))] == [NAME]
    assert detect_formats(b'{"kind": "ConfigMap", "data": {}}') == []


# The table against the pods


def table_of(*pods: Pod) -> Report:
    """Return the report of the table of these pods."""
    reading = read_hostfile(listed(*pods), NAME)
    assert reading.hostfile is not None
    assert reading.hostfile.table is not None
    return check(dumps(reading.hostfile.table), file="hccl.json")


def differences(report: Report, *pods: Pod) -> list[str]:
    """Return what differs, as codes and messages."""
    checked = check_pods(report, listed(*pods), file="pods.json")
    assert checked.has_looked
    return [f"{one.code} {one.message}" for one in checked.diagnostics]


def pods_of(text: str) -> list[Pod]:
    """Return the pods of lines such as ``volcano 0-1 {"status": {"phase": null}}``.

    Each line has the controller, or ``pod=NAME``, the numbers, and what is other than
    usual: null removes a key, and ``devices`` are the chips of the annotation.
    """
    pods = []
    for line in text.splitlines():
        kind, numbers, *rest = line.split(maxsplit=2)
        first, _, last = numbers.partition("-")
        for at in range(int(first), int(last or first) + 1):
            name = kind.removeprefix("pod=")
            pod = running(name, at) if name != kind else BY_NAME[kind](at)
            change = json.loads(rest[0]) if rest else {}
            devices = change.pop("devices", None)
            pods.append(merged(pod, change))
            if devices is not None:
                keys = ("device_id", "device_ip")
                told = [dict(zip(keys, one, strict=True)) for one in devices]
                annotated(pods[-1], devices=told)
    return pods


def merged(old: Any, change: Any) -> Any:
    """Return plain data with changes, in lists by their places."""
    if isinstance(old, list) and isinstance(change, dict):
        return [merged(one, change.get(str(n), {})) for n, one in enumerate(old)]
    if not isinstance(change, dict):
        return change
    base = old if isinstance(old, dict) else {}
    new = {key: merged(base.get(key), one) for key, one in change.items()}
    return {key: one for key, one in {**base, **new}.items() if one is not None}


def findings_of(text: str) -> list[str]:
    """Return what is found in pods; those before ``then`` have made the table."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    if "then" not in lines:
        return codes(*pods_of("\n".join(lines)))
    end = lines.index("then")
    table, pods = (pods_of("\n".join(part)) for part in (lines[:end], lines[end + 1 :]))
    checked = check_pods(table_of(*table), listed(*pods), file="pods.json")
    assert checked.diagnostics or checked.agrees
    return [f"{one.code} {one.message}" for one in checked.diagnostics]


@pytest.mark.parametrize(("text", "found"), read_cases("pods").items())
def test_what_is_found_in_pods_is_named(text: str, found: str) -> None:
    assert findings_of(text) == ([] if found == "nothing" else found.split("\n"))


@BY_CONTROLLER
def test_table_of_the_pods_agrees_with_them(controller: Controller) -> None:
    pods = [controller(at) for at in range(12)]
    checked = check_pods(table_of(*pods), listed(*pods), file="pods.json")

    assert checked.diagnostics == ()
    assert checked.not_checked == ()
    assert [one.code for one in checked.agrees][-1] == "RT766"


@BY_CONTROLLER
def test_pod_on_another_host_makes_its_row_stale(controller: Controller) -> None:
    pods = [controller(at) for at in range(3)]
    moved = controller(1)
    moved["metadata"]["uid"] = "new"
    moved["spec"]["nodeName"] = "node-9"
    moved["status"] |= {"hostIP": "10.0.0.9", "podIP": "10.9.0.9"}

    (said,) = differences(table_of(*pods), pods[0], moved, pods[2])

    assert said == (
        'RT761 the table has ranks 2,3 on "10.0.0.1", and pod '
        f"{moved['metadata']['name']} runs on 10.0.0.9 (node-9)"
    )


@BY_CONTROLLER
def test_pod_that_ended_is_named_with_its_ranks(controller: Controller) -> None:
    pods = [controller(at) for at in range(3)]
    table = table_of(*pods)
    pods[1]["status"]["phase"] = "Failed"
    name = pods[1]["metadata"]["name"]

    found = differences(table, *pods)

    assert sorted(one.split()[0] for one in found) == ["RT754", "RT761"]
    assert all(f"pod {name} ended (Failed)" in one for one in found)


@pytest.mark.parametrize(
    "hosts", ["train-[0-2].train", "10.9.0.[0-2]", "node-[0-2]", "node-[0-2].site.org"]
)
def test_row_may_name_a_pod_or_a_host(hosts: str, run: Run, tmp_path: Path) -> None:
    pods = [stateful_set(at) for at in range(3)]
    given = ["--device-id", "[[0,1],[0,1],[0,1]]", "--hosts", hosts]
    run("ranktable", "gen", *given, "-o", "table.json")
    (tmp_path / "pods.json").write_bytes(listed(*pods))
    (tmp_path / "fewer.json").write_bytes(listed(*pods[:2]))

    good = run("ranktable", "check", "table.json", "--pods", "pods.json")
    bad = run("ranktable", "check", "table.json", "--pods", "fewer.json")

    assert (good.status, good.err) == (0, "")
    assert good.out.endswith("all that was checked agrees: 17 rules\n")
    assert bad.status == 1
    assert (
        "error[RT761]: no pod that runs has ranks 4,5, which the table has on"
        in bad.out
    )


def test_table_without_hosts_has_its_pods_in_order(run: Run, tmp_path: Path) -> None:
    run("ranktable", "gen", "--device-id", "[[0,1],[0,1]]", "-o", "table.json")
    pods = [stateful_set(0), stateful_set(1)]
    (tmp_path / "pods.json").write_bytes(listed(*pods))
    (tmp_path / "more.json").write_bytes(listed(*pods, stateful_set(2)))
    (tmp_path / "one.json").write_bytes(listed(pods[0]))

    good, more, fewer = (
        run("ranktable", "check", "table.json", "--pods", f"{name}.json")
        for name in ("pods", "more", "one")
    )

    assert good.status == 0
    assert "error[RT762]: pod train-2 on 10.0.0.2 (node-2) is not in" in more.out
    assert "error[RT761]: no pod that runs has ranks 2,3" in fewer.out


def test_what_was_not_looked_at_is_said() -> None:
    pods = [kubeflow(0), kubeflow(1)]
    table = table_of(*pods)
    for pod in pods:
        pod["metadata"].pop("annotations")
        limits = pod["spec"]["containers"][1]["resources"]["limits"]
        limits["vendor.com/npu"] = limits.pop("huawei.com/Ascend910")

    checked = check_pods(table, listed(*pods), file="pods.json")

    assert checked.diagnostics == ()
    assert [one.code for one in checked.not_checked] == [
        "RT756",
        "RT757",
        "RT760",
        "RT764",
    ]
    assert {one.why for one in checked.not_checked} == {
        "the pods do not name their chips"
    }


def test_numbers_of_chips_that_no_pod_tells_are_not_checked() -> None:
    pods = [jobset(0), jobset(1)]
    table = table_of(*pods)
    for pod in pods:
        pod["metadata"]["annotations"].pop(CONFIGURATION)
        pod["metadata"]["annotations"].pop(REAL)
        pod["spec"]["containers"] = []
    checked = check_pods(table, listed(*pods), file="pods.json")

    unknown = {each.code for each in checked.not_checked}
    assert checked.diagnostics == ()
    assert {"RT755", "RT758", "RT763"} <= unknown


def test_many_findings_are_counted() -> None:
    pods = [indexed_job(at) for at in range(60)]
    table = table_of(*pods)
    for pod in pods:
        pod["spec"]["nodeName"] += "9"
        pod["status"] |= {"hostIP": f"10.1{pod['status']['hostIP'][4:]}"}

    found = differences(table, *pods)

    assert len(found) == 20
    assert found[-1].endswith("; and 40 more like this")


def test_pods_need_no_host(run: Run, tmp_path: Path) -> None:
    (tmp_path / "pods.json").write_bytes(listed(volcano(0)))

    mixed = run("ranktable", "check", "t.json", "--pods", "pods.json", "--host", "n1")
    given = ["--device-id", "[[0,1]]", "--hosts", "10.0.0.0"]
    run("ranktable", "gen", *given, "-o", "t.json")
    none = run("ranktable", "check", "t.json", "--pods", "-", given=listed())
    broken = run("ranktable", "check", "t.json", "--pods", "-", given=b"")
    ok = run("ranktable", "check", "t.json", "--pods", "-", given=listed(volcano(0)))

    statuses = (ok.status, none.status, mixed.status, broken.status)
    assert statuses == (0, 1, 2, 3)
    assert "error[RT750]" in none.out
    assert "the pods cannot be read" in broken.err
    assert "--host and --root are about one host, not about --pods" in mixed.err


def of_ray() -> list[Pod]:
    labels = {"ray.io/cluster": "r"}
    return [
        running(f"r-worker-{name}", at, labels=labels, owner=("Ray", "r"))
        for at, name in enumerate(("abc", "q1z"))
    ]


@pytest.mark.parametrize(
    ("reason", "help"),
    [
        ("CrashLoopBackOff", "look at the last output"),
        ("ImagePullBackOff", "correct the name of its image"),
        ("ErrImagePull", "correct the name of its image"),
        ("CreateContainerConfigError", "correct what its containers"),
        ("ContainerCreating", "wait until it runs"),
    ],
)
@pytest.mark.parametrize("kind", ["initContainerStatuses", "containerStatuses"])
def test_what_does_not_end_by_waiting_is_not_waited_for(
    reason: str, help: str, kind: str
) -> None:
    pods = [volcano(0), volcano(1)]
    waiting = {"name": "main", "state": {"waiting": {"reason": reason}}}
    pods[1]["status"] |= {"phase": "Pending", kind: [waiting]}
    (found,) = read_hostfile(listed(*pods), NAME).report.diagnostics

    assert (found.code, (found.hint or "").startswith(help)) == ("RT755", True)


@pytest.mark.parametrize("change", ["", "crash", "evicted", "ray", "ray of gpus"])
def test_pods_are_judged_without_a_table(run: Run, tmp_path: Path, change: str) -> None:
    is_ray = change.startswith("ray")
    pods = of_ray() if is_ray else [kubeflow(at) for at in range(3)]
    if is_ray:  # its head has no chips
        pods.append(running("r-head-z", 2, labels={"ray.io/cluster": "r"}))
        pods[2]["spec"]["containers"][1]["resources"]["limits"] = {"cpu": "8"}
        for pod in pods if change == "ray of gpus" else pods[2:]:
            del pod["metadata"]["annotations"]
            limits = pod["spec"]["containers"][1]["resources"]["limits"]
            if limits.pop("huawei.com/Ascend910", None):
                limits["nvidia.com/gpu"] = "8"
    if change == "crash":
        waiting = {"name": "main", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
        pods[1]["status"] |= {"containerStatuses": [waiting]}
    if change == "evicted":
        pods[0]["status"] |= {"phase": "Failed", "reason": "Evicted"}
    (tmp_path / "pods.json").write_bytes(listed(*pods))
    done = run("ranktable", "check", "--pods", "pods.json", "--format", "json")

    told = [one["code"] for one in json.loads(done.out)["findings"]]
    assert told == {"crash": ["RT766"], "evicted": ["RT754"]}.get(change, [])
    assert done.status == len(told)
    unseen = {one["code"] for one in json.loads(done.out)["not_checked"]}
    assert ("RT752" in unseen) is is_ray
    assert "RT761" in unseen
