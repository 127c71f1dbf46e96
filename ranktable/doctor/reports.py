"""Read reports in JSON: ``kubectl get pods -o json``, and NCCL's RAS status."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ranktable.doctor.lines import Log, LogEvent
from ranktable.doctor.patterns import Evidence, LogPattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    Said = tuple[Evidence, str, dict[str, object]]

_LOST = ("NodeLost", "DeletionByTaintManager")


def report_log(data: bytes, file: str) -> Log | None:
    """Return what a report says, None if the data is not one."""
    try:
        report = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(report, dict):
        return None
    said = [*_pods(report), *_communicators(report)]
    if not said:
        return None
    log = Log(file=file, num_lines=data.count(b"\n") + 1, num_bytes=len(data))
    for kind, text, given in said:
        speaker = "kubernetes" if "pod" in given else "nccl"
        fields = {name: str(value) for name, value in given.items() if value != ""}
        mark = str(given.get("pod", given.get("group", ""))).encode()
        line = data.count(b"\n", 0, max(0, data.find(b'"' + mark + b'"'))) + 1
        pattern = LogPattern(f"{speaker}-report", speaker, kind, "", "", "")
        log.events.append(LogEvent(pattern, fields, file, line, text))
    return log


def _part(value: object, name: str) -> dict[str, object]:
    """Return an object in another one, empty if it is not there."""
    part = value.get(name) if isinstance(value, dict) else None
    return part if isinstance(part, dict) else {}


def _parts(value: object, *names: str) -> Iterator[dict[str, object]]:
    """Yield the objects of lists in an object."""
    for name in names:
        parts = value.get(name) if isinstance(value, dict) else None
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict):
                yield part


def _pods(report: dict[str, object]) -> Iterator[Said]:
    """Yield what is said of pods, and at least who they are."""
    pods = [report] if report.get("kind") == "Pod" else _parts(report, "items")
    for pod in pods:
        name, status = _part(pod, "metadata").get("name", ""), _part(pod, "status")
        if not status:
            continue
        node = _part(pod, "spec").get("nodeName", "")
        places = (name, node, status.get("podIP", ""), status.get("hostIP", ""))
        who = {"pod": name, "host": node or name, "places": " ".join(map(str, places))}
        yield Evidence.IDENTITY, f"pod {name}", who
        for kind, what, fields in _endings(status):
            yield kind, f"pod {name} on {node}: {what}", {**who, "what": what, **fields}


def _endings(status: dict[str, object]) -> Iterator[Said]:
    for container in _parts(status, "containerStatuses", "initContainerStatuses"):
        for state in ("state", "lastState"):
            ended = _part(_part(container, state), "terminated")
            reason, code = ended.get("reason"), ended.get("exitCode", 0)
            if reason == "OOMKilled":
                yield Evidence.OOM, "OOMKilled", {}
            elif code:
                yield Evidence.EXIT, f"{reason}, exit code {code}", {"exit": code}
    reasons = [status.get("reason")] if status.get("phase") == "Failed" else []
    reasons += [
        condition.get("reason")
        for condition in _parts(status, "conditions")
        if condition.get("type") == "DisruptionTarget"
        and condition.get("status") == "True"
    ]
    for why in reasons:
        if isinstance(why, str) and why:
            yield (Evidence.NODE if why in _LOST else Evidence.SCHEDULER), why, {}


def _communicators(report: dict[str, object]) -> Iterator[Said]:
    if "communicators" in report:
        yield Evidence.STATE, "", {"snapshot": "1"}
    for communicator in _parts(report, "communicators"):
        group = {
            "group": communicator.get("hash", ""),
            "group_size": communicator.get("size", ""),
        }
        counts: list[int] = []
        members: list[tuple[dict[str, object], int]] = []
        for member in _parts(communicator, "ranks"):
            done = _part(member, "collective_counts").values()
            counts.append(sum(one for one in done if isinstance(one, int)))
            members.append(({**group, **_who(member)}, counts[-1]))
        usual = sorted(counts)[len(counts) // 2] if counts else 0
        for who, count in members:
            yield Evidence.IDENTITY, f"rank {who['group_rank']}", who
            if count == min(counts) < usual:
                what = f"launched fewer operations, {count} of {max(counts)}"
                counts_of = {"launched": count, "of": usual}
                yield Evidence.STATE, what, {**who, "what": what, **counts_of}
        for member in _parts(communicator, "missing_ranks"):
            dead = _part(member, "status").get("considered_dead")
            what = "is dead for NCCL" if dead else "does not answer NCCL"
            yield Evidence.HEARTBEAT, what, {**group, **_who(member), "what": what}


def _who(member: dict[str, object]) -> dict[str, object]:
    names = {"rank": "group_rank", "host": "host", "pid": "pid", "nvml_dev": "device"}
    return {field: member.get(name, "") for name, field in names.items()}
