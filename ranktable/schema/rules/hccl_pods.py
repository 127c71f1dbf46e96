"""RT279 to RT284: the super pods of Ascend's rank table 1.2."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.schema.columns import repeated
from ranktable.schema.document import SourceSpan
from ranktable.schema.finding import Rule, Severity
from ranktable.schema.rules.hccl import pod_of_servers, pods_of
from ranktable.schema.super_pods import PODS
from ranktable.schema.text import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ranktable.schema.columns import Columns
    from ranktable.schema.document import Path
    from ranktable.schema.finding import Finding
    from ranktable.schema.options import Options

SUPER_ID = "super_device_id"
_UINT32_DIGITS = 10
"""Of the largest number of 32 bits; one with fewer digits is never too large."""


def _unknown_servers(columns: Columns, _: Options) -> Iterable[tuple[str, str, Path]]:
    hosts = set(columns.hosts)
    for pod, _path, servers in pods_of(columns):
        for server, path in servers:
            if server not in hosts:
                yield pod, server, path


def _unknown_server(_: Columns, place: tuple[str, str, Path]) -> Finding:
    pod, server, path = place
    return UNKNOWN_POD_SERVER.finding(
        SourceSpan(path),
        f"super pod {quoted(pod)} names the server {quoted(server)}, which server_list "
        "lacks",
        hint="write the server_id of an entry of server_list",
    )


def _podless_servers(columns: Columns, _: Options) -> Iterable[int | None]:
    """Yield the nodes that are in no super pod; None if there are no super pods."""
    if PODS not in columns.top or None in columns.hosts:
        return
    if not columns.top[PODS]:
        yield None
        return
    of_servers = columns.once(pod_of_servers)
    lacking = [
        node for node, host in enumerate(columns.hosts) if host not in of_servers
    ]
    unknown = len(set(of_servers) - set(columns.hosts)) if lacking else 0
    if len(lacking) > unknown:  # else the unknown names are these servers, misspelt
        yield from lacking


def _podless_server(columns: Columns, node: int | None) -> Finding:
    if node is None:
        message = f"{PODS} is empty: no server is in a super pod"
        hint = "list the super pods, or remove the key"
        return SERVER_WITHOUT_POD.finding(SourceSpan((PODS,)), message, hint=hint)
    return SERVER_WITHOUT_POD.finding(
        SourceSpan((*columns.node_path(node), columns.format.host_key)),
        f"node {node}, {quoted(columns.hosts[node])}, is not in a super pod",
        hint=f"add it to the server_list of a pod in {PODS}",
    )


def _duplicate_pods(
    columns: Columns, _: Options
) -> Iterable[tuple[str, str, Path, Path]]:
    named = [
        one
        for pod, path, servers in pods_of(columns)
        for one in [("super_pod_id", pod, path), *(("server", *one) for one in servers)]
    ]
    for index, first in repeated((what, name) for what, name, _ in named):
        yield (*named[index], named[first][2])


def _duplicate_pod(_: Columns, place: tuple[str, str, Path, Path]) -> Finding:
    what, name, path, first = place
    return DUPLICATE_POD.finding(
        SourceSpan(path),
        f"the {what} {quoted(name)} is listed twice in {PODS}",
        related=(SourceSpan(first, label="first use"),),
    )


def _missing_super_ids(columns: Columns, _: Options) -> Iterable[int | None]:
    """Yield the devices without an SDID or with a wrong one; None if none has one."""
    ids = columns.optional.get(SUPER_ID)
    is_needed = bool(columns.top.get(PODS))
    if ids is None:
        if is_needed and columns.num_devices:
            yield None
        return
    if None not in ids and "" not in ids:
        texts = "".join(ids)  # type: ignore[arg-type]
        longest = max(map(len, ids), default=0)  # type: ignore[arg-type]
        if texts.isascii() and texts.isdecimal() and longest < _UINT32_DIGITS:
            return
    for index, text in enumerate(ids):
        if text is None:
            # A value of the wrong type is reported already.
            is_wrong = is_needed and not columns.is_given(index, SUPER_ID)
        else:
            is_wrong = not _is_uint32(str(text))
        if is_wrong:
            yield index


def _missing_super_id(columns: Columns, index: int | None) -> Finding:
    hint = "npu-smi info -t spod-info -i N -c C prints the SDID"
    if index is None:
        message = f"there is {PODS}, but no device has {SUPER_ID}"
        return MISSING_SUPER_ID.finding(SourceSpan((PODS,), "key"), message, hint=hint)
    text, name = columns.optional[SUPER_ID][index], columns.name(index)
    message = f"{name} has {quoted(text)} as {SUPER_ID}, not a number of 32 bits"
    if text is None:
        message = f"{name} has no {SUPER_ID}"
    span = columns.span(index, (SUPER_ID,))
    return MISSING_SUPER_ID.finding(span, message, hint=hint)


def _is_uint32(text: str) -> bool:
    is_number = text.isascii() and text.isdecimal() and len(text) <= _UINT32_DIGITS
    return is_number and int(text) < 1 << 32


def _duplicate_super_ids(columns: Columns, _: Options) -> Iterable[tuple[int, int]]:
    """Yield each device whose SDID an earlier one of its pod has, and that one."""
    ids = columns.optional.get(SUPER_ID)
    if ids is None or len(set(ids)) == len(ids):
        return
    of_servers = columns.once(pod_of_servers)
    pods = [
        of_servers.get(str(host), None if of_servers else host)
        for host in columns.hosts
    ]
    names = [
        (pods[node], super_id) if pods[node] and super_id is not None else None
        for node, start, end in columns.nodes()
        for super_id in ids[start:end]
    ]
    yield from repeated(names)


def _duplicate_super_id(columns: Columns, place: tuple[int, int]) -> Finding:
    index, first = place
    return DUPLICATE_SUPER_ID.finding(
        columns.span(index, (SUPER_ID,)),
        f"{SUPER_ID} {quoted(columns.optional[SUPER_ID][index])} is that of "
        f"{columns.name(first)} and of {columns.name(index)}"
        + (" of one super pod" if columns.once(pod_of_servers) else ""),
        hint="npu-smi info -t spod-info -i N -c C prints the SDID",
        related=(columns.span(first, (SUPER_ID,), label="first use"),),
    )


def _weight_of_super_id(columns: Columns, _: tuple[int, int]) -> Severity:
    # Without super pods, no reader uses the number.
    return Severity.ERROR if columns.once(pod_of_servers) else Severity.WARNING


def _pods_in_1_0(columns: Columns, _: Options) -> Iterator[Finding]:
    document = columns.document.data if PODS not in columns.top else {}
    is_there = isinstance(document, dict) and PODS in document
    ids = columns.optional.get(SUPER_ID, ())  # None where the value has another type
    first = next((i for i, one in enumerate(ids) if one is not None), None)
    if is_there:
        span = SourceSpan((PODS,), "key")
    elif first is not None:
        span = SourceSpan((*columns.device_path(first), SUPER_ID), "key")
    else:
        return
    yield PODS_IN_1_0.finding(
        span,
        f"version 1.0 has no {span.path[-1]}: HCCL treats every server separately",
        hint='write "version": "1.2" if this is a super pod',
    )


UNKNOWN_POD_SERVER = Rule(
    code="RT279",
    name="unknown-pod-server",
    summary="a super pod names a server that the table does not have",
    fix="Write the server_id of an entry of server_list.",
    find=_unknown_servers,
    tell=_unknown_server,
)
SERVER_WITHOUT_POD = Rule(
    code="RT280",
    name="server-without-pod",
    summary="there are super pods, and a server is in none",
    fix="Add the server to its super pod, or remove super_pod_list.",
    find=_podless_servers,
    tell=_podless_server,
)
DUPLICATE_POD = Rule(
    code="RT281",
    name="duplicate-pod",
    summary="a super pod, or a server within the super pods, is listed twice",
    fix="Put all servers of a super pod into one entry.",
    find=_duplicate_pods,
    tell=_duplicate_pod,
)
MISSING_SUPER_ID = Rule(
    code="RT282",
    name="missing-super-device-id",
    summary="there are super pods, and a device has no super_device_id",
    fix="Write the SDID of each chip, or remove super_pod_list.",
    find=_missing_super_ids,
    tell=_missing_super_id,
)
DUPLICATE_SUPER_ID = Rule(
    code="RT283",
    name="duplicate-super-device-id",
    summary="two devices of a super pod have the same super_device_id",
    fix="Write the SDID that npu-smi info -t spod-info prints for each chip.",
    find=_duplicate_super_ids,
    tell=_duplicate_super_id,
    severity_of=_weight_of_super_id,
)
PODS_IN_1_0 = Rule(
    code="RT284",
    name="pods-in-1.0",
    severity=Severity.WARNING,
    summary="a table of version 1.0 has keys of super pods",
    fix="Write version 1.2 for super pods, or remove super_pod_list.",
    find=_pods_in_1_0,
)

RULES_OF_1_2 = (
    UNKNOWN_POD_SERVER,
    SERVER_WITHOUT_POD,
    DUPLICATE_POD,
    MISSING_SUPER_ID,
    DUPLICATE_SUPER_ID,
)
RULES = (*RULES_OF_1_2, PODS_IN_1_0)
