"""What every process says of itself, and what is wrong with all of it together."""

from __future__ import annotations

import os
import platform
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from contextlib import suppress
from statistics import median
from typing import TYPE_CHECKING

from msgspec import Struct

from ranktable import __version__
from ranktable.cluster.discovery.machine import NotDetectedError
from ranktable.preflight import rules
from ranktable.preflight.chips_of_ranks import ChipUser, judge_chips
from ranktable.preflight.host_gate import judge_hosts, left_over
from ranktable.runtime.agreement import is_same_host
from ranktable.runtime.process_chip import ProcessChip
from ranktable.schema.model import Device, Node, RankTable
from ranktable.schema.text import MAX_NAMED, counted, first_few, folded
from ranktable.schema.values import is_loopback

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ranktable.preflight.facts import Facts
    from ranktable.runtime.environment import Environment
    from ranktable.schema.finding import Finding, Rule

CLOCK_S = 1.0
"""Two clocks that differ by more let elastic agents drop out."""

MAX_GROUPS, MAX_SETTINGS = 3, 5

_MUST_AGREE = re.compile(
    r"HCCL_\w+|NCCL_\w+|TORCH_NCCL_\w+|TORCH_DISTRIBUTED_DEBUG|MASTER_ADDR|MASTER_PORT"
)
_MAY_DIFFER = re.compile(
    r"\w*_(?:SOCKET_IFNAME|DEBUG_FILE|LOG\w*|FILE|PATH|DIR)|HCCL_IF_IP|NCCL_IB_HCA|"
    r"NCCL_IB_GID_INDEX|NCCL_DEBUG\w*|TORCH_NCCL_DEBUG_INFO\w*|NCCL_COMM_ID|"
    r"NCCL_HOSTID"
)


class ProcessRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one process says of itself.

    Attributes:
        rank: The rank that it takes itself for.
        world_size: The number of processes that it expects.
        host: Name of its host.
        pid: Its number there.
        local_rank: Its index on its host, None if it is not known.
        local_world_size: The number of processes there, None if it is not known.
        node: The number of its node, None if it is not known.
        machine: What tells its machine from others; containers on one share it.
        chip: The chip that it would use.
        table: Digest of its table, why it cannot be read, or empty without one.
        table_size: Number of ranks of its table, 0 without one.
        placed: Host and chip of this rank in its table.
        problem: What is wrong with its environment.
        findings: What differs on its host, as plain data.
        agrees: Codes of what agrees there.
        skipped: What could not be looked at there: code, name and why.
        address: Its address for other hosts, empty if it is not known.
        port: The port on which it listens there.
        told: The loopback address that its name resolves to, else empty.
        loopback: The variable by which NCCL or HCCL takes lo, empty if none does.
        borrows: The port that it should serve, if another program has it.
        versions: Versions by the name of the package.
        settings: Variables that all ranks must have alike.
    """

    rank: int
    world_size: int
    host: str
    pid: int
    local_rank: int | None = None
    local_world_size: int | None = None
    node: int | None = None
    machine: str = ""
    chip: ProcessChip = ProcessChip()
    table: str = ""
    table_size: int = 0
    placed: tuple[str | None, int] | None = None
    problem: str = ""
    findings: tuple[tuple[str, str, str, str | None], ...] = ()
    agrees: str = ""
    skipped: tuple[tuple[str, str, str], ...] = ()
    address: str = ""
    port: int = 0
    told: str = ""
    loopback: str = ""
    borrows: str = ""
    versions: dict[str, str] = {}
    settings: dict[str, str] = {}

    @property
    def process(self) -> str:
        """Its name for messages."""
        return f"pid {self.pid} on {self.host}"


def own_record(
    environment: Environment,
    facts: Facts,
    table: RankTable | None,
    *,
    unread: str = "",
    problem: str = "",
    torch_version: str = "",
) -> ProcessRecord:
    """Return what this process says of itself.

    Args:
        environment: The facts from the launcher.
        facts: The host, with the variables of this process.
        table: The table, None without one.
        unread: Why the table cannot be read.
        problem: What is wrong with the environment.
        torch_version: Version of torch.
    """
    rank, world_size, env = environment.rank, environment.world_size, facts.env
    assert rank is not None
    assert world_size is not None
    placed, node = None, environment.node_rank
    if table is not None and rank in range(table.world_size):
        node = table.node_rank_of(rank)
        placed = table.hosts[node], table.chip_map[rank]
    return ProcessRecord(
        rank=rank,
        world_size=world_size,
        host=environment.host or platform.node(),
        pid=os.getpid(),
        local_rank=environment.local_rank,
        local_world_size=environment.local_world_size,
        node=node,
        machine=facts.machine.first_line(_BOOT_ID) or "",
        chip=facts.chip_in_table(None if placed is None else placed[1]),
        table=unread or (table.digest()[:16] if table is not None else ""),
        table_size=0 if table is None else table.world_size,
        placed=placed,
        problem=problem,
        versions=_versions(facts, torch_version),
        settings={
            # A host has many names for itself: whether one is right, another rule says.
            name: "localhost"
            if name == "MASTER_ADDR" and is_loopback(env[name])
            else env[name]
            for name in sorted(env)
            if _MUST_AGREE.fullmatch(name) and not _MAY_DIFFER.fullmatch(name)
        },
    )


_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def _versions(facts: Facts, torch_version: str) -> dict[str, str]:
    machine, env = facts.machine, facts.env
    found = {
        "ranktable": __version__,
        "python": platform.python_version(),
        "torch": torch_version,
    }
    home = env.get("ASCEND_HOME_PATH", "/usr/local/Ascend/ascend-toolkit/latest")
    for name, path in (
        ("Ascend driver", "/usr/local/Ascend/driver/version.info"),
        ("CANN", f"{home}/share/info/hccl/version.info"),
    ):
        with suppress(NotDetectedError):
            found[name] = facts.version(path)
    for name, path in (
        ("NVIDIA driver", "/sys/module/nvidia/version"),
        ("SOPHGO driver", "/proc/sgdrv/driver_date"),
    ):
        line = machine.first_line(path)
        if line is not None:
            found[name] = line
    return found


def judge(
    records: Sequence[ProcessRecord],
    table: RankTable | None,
    rows_of: Callable[[str], list[str] | None] = lambda _digest: None,
) -> list[Finding]:
    """Return what is wrong with the processes of a job.

    Args:
        records: What each process that came says of itself.
        table: The table of the process that judges, for names of missing ranks.
        rows_of: Returns the rows of the table with a digest, None if unknown.
    """
    # The order in which processes came decides nothing: if two values are as usual,
    # that of the lowest rank is taken for the right one.
    records = sorted(records, key=lambda each: (each.rank, each.host, each.pid))
    size = usual_size(records)
    ranks = {each.rank for each in records}
    return [
        *_problems(records),
        *_sizes(records, size),
        *_missing(records, size, table),
        *_doubled(records),
        *left_over(records),
        *judge_hosts(records),
        *judge_chips(chip_users(records), is_whole=ranks == set(range(size))),
        *_tables(records, rows_of),
        *_misplaced(records),
        *unlike(rules.OTHER_VERSION, [(r, r.versions) for r in records]),
        *unlike(rules.OTHER_SETTING, [(r, r.settings) for r in records]),
    ]


def chip_users(records: Sequence[ProcessRecord]) -> list[ChipUser]:
    """Return the processes with their chips and machines."""
    return [ChipUser(r.rank, r.host, r.machine or r.host, r.chip) for r in records]


def usual_size(records: Sequence[ProcessRecord]) -> int:
    """Return the size of the job that most processes expect, else the lowest rank."""
    by_rank = sorted(records, key=lambda each: each.rank)
    return Counter(each.world_size for each in by_rank).most_common(1)[0][0]


def _problems(records: Sequence[ProcessRecord]) -> Iterator[Finding]:
    wrong = [each for each in records if each.problem]
    if wrong:
        first = wrong[0]
        more = f" ({len(wrong)} processes)" if len(wrong) > 1 else ""
        message = f"rank {first.rank}, {first.process}: {first.problem}{more}"
        yield rules.OTHER_SIZE.finding(None, message)


def _sizes(records: Sequence[ProcessRecord], size: int) -> Iterator[Finding]:
    groups = _groups((each, str(each.world_size)) for each in records)
    tables = {each.table_size for each in records if each.table_size}
    if len(groups) > 1:
        yield rules.OTHER_SIZE.finding(None, f"the size of the job is {_told(groups)}")
    elif len({r.rank for r in records}) > size and not any(r.problem for r in records):
        message = f"{len(records)} processes came, and all expect {size}"
        yield rules.OTHER_SIZE.finding(None, message)
    elif tables and tables != {size} and not any(r.problem for r in records):
        has = " or ".join(map(str, sorted(tables)))
        yield rules.OTHER_SIZE.finding(
            None,
            f"the processes expect {counted(size, 'rank')}, and the table has {has}",
            hint="start one process for each rank of the table, or make the table "
            "for this job: `ranktable check --live -o observed.json` without a table",
        )


def _missing(
    records: Sequence[ProcessRecord], size: int, table: RankTable | None
) -> Iterator[Finding]:
    absent = sorted(set(range(size)) - {each.rank for each in records})
    if not absent:
        return
    # With several sizes the verdict does not wait for all ranks of the larger one.
    is_early = len({each.world_size for each in records}) > 1
    what = "had not come yet" if is_early else "did not come"
    who = named(absent, table)
    yield rules.MISSING.finding(
        None, f"{counted(len(absent), 'rank')} of {size} {what}: {who}"
    )


def named(ranks: Sequence[int], table: RankTable | None) -> str:
    """Return ranks by host, as far as a table says where they are."""
    by_host: dict[str | None, list[int]] = defaultdict(list)
    for rank in ranks:
        is_known = table is not None and rank < table.world_size
        host = table.hosts[table.node_rank_of(rank)] if table and is_known else None
        by_host[host].append(rank)
    shown = [
        folded(some) + (f" ({host})" if host else "")
        for host, some in list(by_host.items())[:MAX_NAMED]
    ]
    left = len(by_host) - len(shown)
    return "; ".join(shown) + (f"; and those of {left} more hosts" if left else "")


def _doubled(records: Sequence[ProcessRecord]) -> Iterator[Finding]:
    by_rank: dict[int, list[ProcessRecord]] = defaultdict(list)
    for each in records:
        by_rank[each.rank].append(each)
    twice = {rank: some for rank, some in sorted(by_rank.items()) if len(some) > 1}
    shown = [
        f"rank {rank} ({' and '.join(each.process for each in some[:3])})"
        for rank, some in twice.items()
    ]
    if twice:
        what = f"{counted(len(twice), 'rank')} came more than once"
        yield rules.DOUBLED.finding(None, f"{what}: {first_few(shown)}")


def _tables(
    records: Sequence[ProcessRecord], rows_of: Callable[[str], list[str] | None]
) -> Iterator[Finding]:
    groups = _groups((each, each.table[:60] or "none") for each in records)
    if len(groups) < 2:
        return
    (usual, _), (other, _) = list(groups.items())[:2]
    one, two = rows_of(usual), rows_of(other)
    first = ""
    if one is not None and two is not None:
        pairs = zip([*one, "(no row)"], [*two, "(no row)"], strict=False)
        lines = next((pair for pair in pairs if pair[0] != pair[1]), None)
        if lines is not None:
            first = f"; first difference: {lines[1]}, not {lines[0]}"
    yield rules.OTHER_TABLE.finding(None, f"the table is {_told(groups)}{first}")


def rows(table: RankTable) -> list[str]:
    """Return a line for each rank of a table, to tell two tables apart."""
    return [
        f"rank {device.rank} on chip {device.device_id}"
        + (f" of {node.host}" if node.host else "")
        + (f" at {device.address}" if device.address else "")
        for node in table.nodes
        for device in node.devices
    ]


def _misplaced(records: Sequence[ProcessRecord]) -> Iterator[Finding]:
    # A table may name hosts in another way than the hosts themselves.
    named_hosts = {each.placed[0] for each in records if each.placed}
    known = {each.host for each in records}
    is_comparable = any(
        is_same_host(host, each)
        for host in sorted(filter(None, named_hosts))[:1000]
        for each in sorted(known)[:1000]
    )
    wrong = [
        (each, each.placed[0])
        for each in records
        if each.placed
        and each.placed[0]
        and not is_same_host(each.placed[0], each.host)
    ]
    if is_comparable and wrong:
        first, host = wrong[0]
        what = f"{counted(len(wrong), 'rank')} on another host than the table says"
        where = f"rank {first.rank} on {first.host}, not {host}"
        yield rules.MISPLACED.finding(None, f"{what}: {where}")


def unlike(
    rule: Rule, values: Sequence[tuple[ProcessRecord, Mapping[str, str]]]
) -> Iterator[Finding]:
    """Yield the names whose values are not the same on all ranks."""
    names = sorted({name for _, each in values for name in each})
    found = []
    for name in names:
        groups = _groups((record, each.get(name, "unset")) for record, each in values)
        if len(groups) > 1:
            found.append(f"{name} is {_told(groups)}")
    yield from (rule.finding(None, message) for message in found[:MAX_SETTINGS])
    if len(found) > MAX_SETTINGS:
        left = len(found) - MAX_SETTINGS
        yield rule.finding(None, f"{left} more differ between ranks")


def _groups(
    values: Iterable[tuple[ProcessRecord, str]],
) -> dict[str, list[ProcessRecord]]:
    """Return the processes by value, the most usual value first."""
    by_value: dict[str, list[ProcessRecord]] = defaultdict(list)
    for record, value in values:
        by_value[value].append(record)
    return dict(sorted(by_value.items(), key=lambda item: -len(item[1])))


def _told(groups: Mapping[str, Sequence[ProcessRecord]]) -> str:
    """Return ``4 on 1022 ranks, and 5 on rank 3 (n1)``: majority, then outliers."""
    (usual, most), *others = groups.items()
    parts = [f"{usual[:60]} on {counted(len(most), 'rank')}"]
    if len(most) == 1:
        parts = [f"{usual[:60]} on {_who(most)}"]
    for value, some in others[:MAX_GROUPS]:
        parts.append(f"{value[:60]} on {_who(some)}")
    left = len(others) - MAX_GROUPS
    if left > 0:
        parts.append(f"{left} more values")
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def _who(some: Sequence[ProcessRecord]) -> str:
    ranks = sorted({each.rank for each in some})
    hosts = sorted({each.host for each in some})
    where = hosts[0] if len(hosts) == 1 else f"{len(hosts)} hosts"
    word = "rank" if len(ranks) == 1 else f"{len(ranks)} ranks:"
    return f"{word} {folded(ranks, 4)} ({where})"


def is_any_clock_off(clocks: Mapping[int, float]) -> bool:
    """Whether times that were taken at almost the same moment are far apart."""
    usual = median(clocks.values())
    return any(abs(each - usual) > CLOCK_S for each in clocks.values())


def judge_clocks(clocks: Mapping[int, tuple[float, float]]) -> Iterator[Finding]:
    """Yield the ranks whose clocks are certainly ahead of or behind most others.

    Every rank took its first time before any took its second, so a first time that is
    later than the second of another rank is that of a wrong clock, however slow the
    network is.

    Args:
        clocks: Both times of each rank.
    """
    firsts = sorted(first for first, _ in clocks.values())
    seconds = sorted(second for _, second in clocks.values())
    most = (len(clocks) - 1) // 2 + 1  # of the others
    off = {}
    for rank, (first, second) in clocks.items():
        ahead = bisect_left(seconds, first - CLOCK_S)
        behind = len(firsts) - bisect_right(firsts, second + CLOCK_S)
        if ahead >= most:
            off[rank] = first - seconds[most - 1]
        elif behind >= most:
            off[rank] = second - firsts[-most]
    if not off:
        return
    worst = max(off, key=lambda rank: abs(off[rank]))
    if len(off) == len(clocks):  # as many are ahead as are behind
        yield rules.CLOCK.finding(
            None,
            f"the clocks of two halves of the job differ by {abs(off[worst]):.1f} s: "
            f"ranks {folded(sorted(r for r in off if off[r] > 0))} are ahead",
        )
        return
    yield rules.CLOCK.finding(
        None,
        f"the clock of {counted(len(off), 'rank')} is off: {folded(sorted(off))}; "
        f"that of rank {worst} by {off[worst]:+.1f} s",
    )


def table_of(records: Sequence[ProcessRecord]) -> RankTable:
    """Return the table of a job, as its processes stand: one record for each rank."""
    by_host: dict[str, list[ProcessRecord]] = defaultdict(list)
    for each in sorted(records, key=lambda each: each.rank):
        by_host[each.host].append(each)
    nodes = [
        Node(
            host=host,
            devices=tuple(
                Device(rank=each.rank, device_id=number)
                for each, number in zip(some, _numbers(some), strict=True)
            ),
        )
        for host, some in by_host.items()
    ]
    return RankTable(nodes=nodes)


def _numbers(records: Sequence[ProcessRecord]) -> Sequence[int]:
    """Return the chips of a host; their places where each process counts its own."""
    numbers = [each.chip.device_id for each in records]
    known = [each for each in numbers if each is not None]
    is_clear = len(set(known)) == len(records)
    return known if is_clear else range(len(records))
