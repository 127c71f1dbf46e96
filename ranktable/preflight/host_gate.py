"""The rules about one host, looked at by the processes of a job on all its hosts."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from ranktable.preflight import rules
from ranktable.preflight.here import Looked, compare_host
from ranktable.preflight.stored_findings import as_finding
from ranktable.schema.finding import Severity
from ranktable.schema.text import MAX_NAMED, counted, first_few
from ranktable.schema.values import is_loopback

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.preflight.facts import Declared, Facts
    from ranktable.preflight.records import ProcessRecord
    from ranktable.schema.finding import Finding

# Hosts, names and chips are compared by the records of all processes. Whoever comes has
# reached rank 0 and read its table, whatever address and path say.
_ELSEWHERE = (rules.HOST, rules.OWN_NAME, rules.NO_CHIP, rules.MASTER, rules.PATH)

_OF_PROCESS = (
    rules.VISIBLE_TEXT, rules.VISIBLE, rules.PORT_SETTING, rules.INTERFACE,
)  # fmt: skip
"""The rules about variables, which each process has itself."""


class HostSaid(NamedTuple):
    """What one process finds of its host.

    Attributes:
        found: What differs.
        agrees: Codes of what agrees.
        skipped: What could not be looked at.
    """

    found: tuple[Finding, ...]
    agrees: tuple[str, ...]
    skipped: tuple[Looked, ...]


def look_at_host(
    facts: Facts, declared: Declared | None, *, is_first: bool
) -> HostSaid:
    """Return what a process finds of its host.

    Args:
        facts: The host, with the variables of the process.
        declared: The rows of this host in the table, None without one.
        is_first: Whether no other process looks at what is the same for all of a host.
    """
    wanted = [
        rule
        for rule in rules.OF_HOST
        if rule not in _ELSEWHERE and (is_first or rule in _OF_PROCESS)
    ]
    skipped = []
    if not facts.probe.chips and not facts.is_ascend and rules.CHIPS in wanted:
        wanted.remove(rules.CHIPS)  # a job on CPUs may have a table
        if declared is not None:
            skipped.append(Looked(rules.CHIPS.code, rules.CHIPS.name, facts.no_chips))
    found, agrees, more = compare_host(wanted, facts, declared)
    plain = tuple(each._replace(span=None) for each in found)
    return HostSaid(plain, tuple(e.code for e in agrees), (*skipped, *more))


def judge_hosts(records: Sequence[ProcessRecord]) -> Iterator[Finding]:
    """Yield what differs on the hosts: each difference once, with its hosts."""
    places: dict[str, tuple[Finding, dict[str, None]]] = {}
    for record in records:
        for data in record.findings:
            key = repr(data)
            if key not in places:
                places[key] = as_finding(data), {}
            places[key][1][record.host] = None
    by_code: dict[str, list[tuple[Finding, list[str]]]] = defaultdict(list)
    for finding, on in places.values():
        by_code[finding.rule.code].append((finding, list(on)))
    for some in by_code.values():
        for finding, hosts in some[:MAX_NAMED]:
            yield finding._replace(message=f"{first_few(hosts)}: {finding.message}")
        if len(some) > MAX_NAMED:
            left = f"{len(some) - MAX_NAMED} more differences like these"
            yield some[0][0]._replace(message=left)
    yield from _loopback_names(records)
    yield from _loopback_interfaces(records)


def _loopback_names(records: Sequence[ProcessRecord]) -> Iterator[Finding]:
    """Yield the hosts whose name is a loopback address, in a job of several hosts."""
    ranks = set(loopback_ranks(records))
    told = {each.host: each.told for each in records if each.rank in ranks}
    if told:
        shown = first_few(f"{host} ({address})" for host, address in told.items())
        yield rules.OWN_NAME.finding(
            None,
            f"gloo would tell the other hosts a loopback address of "
            f"{counted(len(told), 'host')}, by its name or GLOO_SOCKET_IFNAME: {shown}",
        )


def _loopback_interfaces(records: Sequence[ProcessRecord]) -> Iterator[Finding]:
    """Yield the hosts on which NCCL or HCCL takes lo, in a job of several hosts."""
    taken = {each.host: each.loopback for each in records if each.loopback}
    if not taken or _are_on_one_machine(records):
        return
    shown = first_few(f"{host} ({setting})" for host, setting in taken.items())
    has_chips = any(each.chip.num_visible for each in records)
    yield rules.INTERFACE.finding(
        None,
        f"the loopback interface is the first that is left on "
        f"{counted(len(taken), 'host')}, and no other host reaches it: {shown}",
        severity=None if has_chips else Severity.WARNING,
    )


def _are_on_one_machine(records: Sequence[ProcessRecord]) -> bool:
    masters = {each.settings.get("MASTER_ADDR") for each in records}
    hosts = {each.host for each in records}
    return len(hosts) < 2 or any(map(is_loopback, (*masters, *hosts)))


def loopback_ranks(records: Sequence[ProcessRecord]) -> list[int]:
    """Return a rank of each host of which gloo would tell others a loopback address."""
    if _are_on_one_machine(records):
        return []
    return list({each.host: each.rank for each in records if each.told}.values())


def left_over(records: Sequence[ProcessRecord]) -> Iterator[Finding]:
    """Yield that rank 0 cannot listen, and the store of another program answers."""
    first = [each for each in records if each.rank == 0]
    if first and all(each.borrows for each in first):
        yield rules.PORTS.finding(
            None,
            f"rank 0 cannot listen on {first[0].borrows} of {first[0].host}: a store "
            "that is not of this job answers there",
            hint="end the process that was left over (`ss -ltnp` shows it), or choose "
            "another MASTER_PORT on every host",
        )


def looked_at(
    records: Sequence[ProcessRecord],
) -> tuple[list[str], list[Looked]]:
    """Return the rules that agree on all hosts, and what could not be looked at."""
    reasons: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for record in records:
        for code, name, why in record.skipped:
            reasons[code, name, why].add(record.host)
    hosts = {each.host for each in records}
    skipped = []
    for (code, name, why), some in reasons.items():
        where = "" if some == hosts else f"{first_few(sorted(some))}: "
        skipped.append(Looked(code, name, where + why))
    agrees = {code for each in records for code in each.agrees.split()}
    codes = {each.code for each in skipped}
    return sorted(agrees - codes), skipped[: 4 * MAX_NAMED]
