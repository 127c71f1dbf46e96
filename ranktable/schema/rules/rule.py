"""A rule: its code, what it means, and what others do with the mistake."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from ranktable.schema.diagnostic import Severity
from ranktable.schema.finding import Edit, Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ranktable.schema.columns import Columns
    from ranktable.schema.document import SourceSpan
    from ranktable.schema.options import Options

    Check = Callable[[Columns, Options], Iterator[Finding]]


class Refusal(str):
    """What a reader says when it refuses a table, or that it waits in vain."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The one home of a diagnostic code; ``ranktable explain`` prints it.

    Attributes:
        code: Stable, documented, never reused.
        name: The code in words, as SARIF shows it.
        summary: The defect in one line.
        why: What goes wrong and where the rule comes from.
        fix: What to do about it.
        severity: Weight of the diagnostics it yields.
        readers: What each vendor library does with this mistake, a ``Refusal`` where
            it does not go on. ``HCCL`` is its source of August 2026.
        seen_as: Texts under which users meet it and will search for it.
        bad: A smallest file with the defect, None when no content has it.
        good: Its nearest sound neighbour.
        options: Options of ``command`` that the two files need.
        command: The command that finds it: ``validate``, ``convert`` or ``merge``.
        beside: A file that goes before either, where the defect is between two files.
        check: Yields what breaks the rule in a table; None where a reader finds it.
        is_fast: Whether every process of a job runs the check; what other rules ask
            is compared at once there, see ``fast_decode.is_surely_sound``.
        needs: The option without which there is nothing to check, None if none.
    """

    code: str
    name: str
    summary: str
    why: str
    fix: str
    severity: Severity = Severity.ERROR
    readers: Mapping[str, str] = field(default_factory=dict)
    seen_as: tuple[str, ...] = ()
    bad: bytes | None = None
    good: bytes | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    command: str = "validate"
    beside: bytes | None = None
    check: Check | None = None
    is_fast: bool = False
    needs: Literal["tp", "topology"] | None = None

    def finding(  # noqa: PLR0913 - the parts of a finding, by name
        self,
        span: SourceSpan | None,
        message: str,
        *,
        hint: str | None = None,
        related: tuple[SourceSpan, ...] = (),
        edit: Edit | None = None,
        weight: Severity | None = None,
    ) -> Finding:
        """Return a finding of this rule."""
        return Finding(self, span, message, hint, related, edit, weight)


def one_node(*devices: str, head: str = '"version":"1.0",') -> bytes:
    """Return an example: a table of one node, one device a line."""
    return nodes(devices, head=head)


def nodes(*node_list: tuple[str, ...], head: str = '"version":"1.0",') -> bytes:
    """Return an example: a table of several nodes, one device a line."""
    bodies = [
        '{"device_list":[\n  ' + ",\n  ".join(devices) + "]}" for devices in node_list
    ]
    return ("{" + head + '"node_list":[' + ",\n ".join(bodies) + "]}\n").encode()


def chips(*device_ids: int) -> bytes:
    """Return an example: one node with these chips, ranks in file order."""
    return one_node(
        *(device(device_id, rank) for rank, device_id in enumerate(device_ids))
    )


def device(device_id: int | str, rank: int | str) -> str:
    """Return an example: one device."""
    return f'{{"device_id":"{device_id}","rank":"{rank}","world_rank":"{rank}"}}'


def hccl_server(
    name: str, *devices: tuple[int | str, int | str, str | None], more: str = ""
) -> str:
    """Return an example: a server of HCCL with (chip, rank, address) of its devices."""
    listed = ",\n   ".join(
        f'{{"device_id":"{chip}",'
        + (f'"device_ip":"{address}",' if address is not None else "")
        + f'"rank_id":"{rank}"}}'
        for chip, rank, address in devices
    )
    return f'{{"server_id":"{name}",{more}"device":[\n   {listed}]}}'


def hccl_table(
    *servers: str, status: str = "completed", version: str = "1.0", more: str = ""
) -> bytes:
    """Return an example: a table of HCCL with these servers."""
    listed = ",\n  ".join(servers)
    return (
        f'{{"status":"{status}","version":"{version}","server_count":"{len(servers)}",'
        f'\n"server_list":[\n  {listed}]{more}}}\n'
    ).encode()


def pods_table(
    addresses: tuple[str | None, str | None] = ("10.0.0.1", "10.0.0.2"),
    *,
    ids: tuple[str | None, str | None] = ("1", "2"),
    pods: tuple[tuple[str, str], ...] = (("0", "n1"), ("1", "n2")),
    version: str = "1.2",
) -> bytes:
    """Return an example: servers n1 and n2 of a device each, and (pod, server)."""
    servers = []
    for rank, (address, super_id) in enumerate(zip(addresses, ids, strict=True)):
        chip = "0" if super_id is None else f'0","super_device_id":"{super_id}'
        servers.append(hccl_server(f"n{rank + 1}", (chip, rank, address)))
    of_pods: dict[str, list[str]] = {}
    for pod, server in pods:
        of_pods.setdefault(pod, []).append(f'{{"server_id":"{server}"}}')
    listed = ",\n  ".join(
        f'{{"super_pod_id":"{pod}","server_list":[{",".join(names)}]}}'
        for pod, names in of_pods.items()
    )
    more = f',\n"super_pod_list":[\n  {listed}]' if pods else ""
    return hccl_table(*servers, version=version, more=more)


PAIR = chips(0, 1)
