"""What each rule compares on one host: functions of facts that yield differences.

A function raises ``NotDetectedError`` if a fact that it needs cannot be read; then its
rule is listed as not checked. If there is nothing to compare, it raises
``DoesNotApplyError``, so that nothing is called agreement that was not compared.
"""

from __future__ import annotations

import os
import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from ranktable.cluster.discovery.machine import NotDetectedError
from ranktable.preflight.facts import SHARED_MEMORY
from ranktable.preflight.socket_interfaces import lost_interfaces, takes_loopback
from ranktable.runtime.launchers.slurm import isolated_by
from ranktable.runtime.process_chip import (
    ASCEND_LIST,
    ASCEND_MOUNTED,
    CUDA_LIST,
    GPU_LISTS,
    HIP_LIST,
    ROCR_LIST,
    UNORDERED,
    UNREAD_LISTS,
    VISIBLE_LISTS,
    ascends,
    hides_all,
    is_unordered,
    read_ascend_list,
    read_gpu_list,
    read_mounted,
)
from ranktable.schema.finding import Severity
from ranktable.schema.text import counted, folded, quoted
from ranktable.schema.values import is_address, is_loopback, plain_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ranktable.preflight.facts import Declared, Facts
    from ranktable.runtime.process_chip import SeenChip
    from ranktable.schema.document import SourceSpan

HCCL_BASE_PORT = 60000
HCCL_PORTS, HCCL_PORTS_BEFORE_8_2 = 32, 16
SPARE_FILES = 200
"""Open files of rank 0 besides one for each rank."""
LEAST_SHARED_MEMORY_BYTES = 1 << 30

_INTERFACES = ("HCCL_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME",
               "TP_SOCKET_IFNAME")  # fmt: skip
_MOUNTED_GPUS = "NVIDIA_VISIBLE_DEVICES"
_PORT_RANGES = ("HCCL_HOST_SOCKET_PORT_RANGE", "HCCL_NPU_SOCKET_PORT_RANGE")
_PORT_SPAN = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


class DoesNotApplyError(Exception):
    """There is nothing here that a rule is about."""


class Disagreement(NamedTuple):
    """Something that differs.

    Attributes:
        message: What, with both values.
        device: Index of the device in this host's rows that it is about.
        key: ``device_id`` or ``address`` of that device.
        hint: What to do, where the rule does not say it.
        severity: Its severity, where it is not that of the rule.
    """

    message: str
    device: int | None = None
    key: str = "device_id"
    hint: str | None = None
    severity: Severity | None = None

    def span(self, declared: Declared | None) -> SourceSpan | None:
        """Return the place in the table, None if it is about no row."""
        report = declared.report if declared else None
        columns = report.columns if report else None
        if self.device is None or declared is None or columns is None:
            return None
        rank = declared.node.devices[self.device].rank
        if rank not in columns.ranks:
            return None
        index = columns.ranks.index(rank)
        if self.key == "address":
            return columns.span(index, ("device_ip", "device_ip_emulator"))
        return columns.device_id_span(index)


def uses_npus(facts: Facts, declared: Declared | None) -> bool:
    """Whether a job on this host uses Ascend's chips, as its table or host says."""
    return facts.is_ascend or (declared is not None and declared.is_ascend)


def host(_facts: Facts, declared: Declared) -> Iterator[Disagreement]:
    """Yield that the table has no row of this host."""
    hosts = [each for each in declared.table.hosts if each]
    if not hosts:
        last = len(declared.table.nodes) - 1
        taken = f"node {declared.node_rank} is taken for this one"
        if declared.node_rank is None:
            taken = f"give the index of the node with --host, 0 to {last}"
        raise NotDetectedError(f"the table names no hosts; {taken}")
    if declared.node_rank is not None:
        return
    if not declared.named:
        raise NotDetectedError(
            "the recorded host has no /etc/hostname; name it with --host"
        )
    shown = ", ".join(hosts[:4]) + (", ..." if len(hosts) > 4 else "")
    yield Disagreement(
        f"the table has no row of this host: it is {' or '.join(declared.named[:4])}, "
        f"and the table names {shown}"
    )


def chips(facts: Facts, declared: Declared) -> Iterator[Disagreement]:
    """Yield the chips of the table that this host does not have."""
    there, wanted = facts.chips, declared.device_ids
    missing = [place for place, chip in enumerate(wanted) if chip not in there]
    if not missing or set(wanted) <= set(facts.numbers_of_host(len(there))):
        return
    own = isolated_by(facts.env)
    if own and there:  # this process sees its own chips, and the table has those of all
        raise NotDetectedError(f"each process sees its own chips ({own} is set)")
    if len(there) >= len(wanted) and "GPU-" in facts.env.get(_MOUNTED_GPUS, ""):
        raise NotDetectedError(
            f"a container counts its chips from 0, and {_MOUNTED_GPUS} has UUIDs: "
            "which numbers they have on the host is not known here"
        )
    lost = [wanted[place] for place in missing]
    has = (
        f"has {counted(len(there), 'chip')} ({folded(there)})" if there else "has none"
    )
    reasons = [
        f"{item.what}: {item.why}"
        for item in facts.probe.unseen
        if not there or item.why.startswith("it says")
    ]
    hint = f"it looked for {'; '.join(reasons)}" if reasons else None
    which = "chip" if len(lost) == 1 else "chips"
    yield Disagreement(
        f"the table gives this host {which} {folded(sorted(lost))}, and it {has}",
        missing[0],
        hint=hint,
    )


def health(facts: Facts, declared: Declared | None) -> Iterator[Disagreement]:
    """Yield the chips whose status is not that of a working chip."""
    if facts.unreached and (declared is None or not facts.probe.chips):
        which = "a GPU" if facts.probe.chips else "the GPUs"
        yield Disagreement(
            f"no program can use {which} of this host: {facts.unreached}",
            hint="have the host or its container started again, or take the node out "
            "of the table with `ranktable fit --lost NODE`",
        )
        return
    if not facts.chips:
        raise NotDetectedError(facts.no_chips)
    wanted = None if declared is None else declared.device_ids
    chips = [
        structs.replace(chip, status=facts.status(chip))
        for chip in facts.probe.chips
        if wanted is None or chip.device_id in wanted
    ]
    if all(chip.status is None for chip in chips):
        raise NotDetectedError(f"no tool of {facts.probe.vendor} says a status")
    for chip in chips:
        if not chip.is_healthy:
            place = None if wanted is None else wanted.index(chip.device_id)
            yield Disagreement(
                f"chip {chip.device_id} has the status {quoted(chip.status)}", place
            )


def _set(facts: Facts, *names: str) -> list[tuple[str, str]]:
    """Return the variables of some names that are set, with their texts.

    An empty list of devices shows none; others are unset if they are empty.
    """
    texts = [(name, facts.env.get(name)) for name in names]
    found = [
        (name, text)
        for name, text in texts
        if text or (text == "" and name.endswith("VISIBLE_DEVICES"))
    ]
    if not found:
        raise DoesNotApplyError
    return found


def _lists(facts: Facts, declared: Declared | None) -> tuple[str, ...]:
    """Return the names of the lists that the libraries of these chips read."""
    if uses_npus(facts, declared):
        return (ASCEND_LIST,)
    if facts.vendor is None and declared is None:  # lists are judged as texts
        return VISIBLE_LISTS
    # Slurm without AutoDetect sets the lists of all vendors on every host.
    return {None: GPU_LISTS, "nvidia": (CUDA_LIST, HIP_LIST)}.get(facts.vendor, ())


def visible_text(facts: Facts, declared: Declared | None) -> Iterator[Disagreement]:
    """Yield what a library does not read of a list of visible devices.

    Raises:
        NotDetectedError: No tool says which chips there are, so all may be read or not.
    """
    chips, is_unsure = facts.seen_chips, False
    for name, text in _set(facts, *_lists(facts, declared)):
        left: Sequence[SeenChip] | int | None = chips
        if name == ASCEND_LIST:
            count = _num_visible(facts)
            ids, rest, why = read_ascend_list(text, count)
        else:
            first = facts.env.get(ROCR_LIST)
            if first is not None and name == HIP_LIST:  # it counts what is left
                left = len(read_gpu_list(first, chips).entries)
            ids, rest, why = read_gpu_list(text, left)
            if (short := _half_read(text)) and not rest.strip():
                yield Disagreement(
                    f"{name}={quoted(text)} is read as {_ids(ids)}: of {quoted(short)} "
                    "only the first number is read",
                    hint=f"write numbers and commas only: {name}="
                    + ",".join(map(str, read_mounted(text) or ids)),
                )
        count = left if isinstance(left, int) else _num_visible(facts)
        meant = {int(each) for each in re.findall(r"\b[0-9]{1,6}\b", text)}
        there = sorted(each for each in meant if count is None or each < count)
        numbers = ",".join(map(str, there or range(count or 4)))
        example = f"numbers and commas only, each chip once: {name}={numbers}"
        if rest.strip() and not hides_all(rest):
            hint = f"write {'ascending ' * (name == ASCEND_LIST)}{example}"
            if rest.startswith("MIG-"):
                hint = f"give each process the UUID of its own instance in {name}"
            yield Disagreement(
                f"{name}={quoted(text)}: {_only(ids)} is read; {quoted(rest)} and what "
                f"follows is ignored without a message: {why}",
                hint=hint,
            )
        elif name == ASCEND_LIST and not ascends(ids):
            yield Disagreement(
                f"{name}={quoted(text)} does not ascend",
                hint=f"write ascending {example}",
            )
        is_unsure |= count is None and bool(ids)
    if is_unsure:
        raise NotDetectedError(
            "no tool says which chips are here, and a list ends at an entry that is "
            "none of them"
        )


def _half_read(text: str) -> str:
    """Return the first entry of a list of which only the first number is read."""
    parts = (part.strip() for part in text.split(","))
    return next((part for part in parts if re.fullmatch(r"\+?[0-9]+\D.*", part)), "")


def own_chip(facts: Facts, declared: Declared | None) -> Iterator[Disagreement]:
    """Yield that the process finds no chip behind its local rank."""
    chip = facts.process_chip
    if chip.num_visible == 0:
        is_said = declared is not None or any(visible_text(facts, declared))
        if is_said:  # by the rules about lists
            raise DoesNotApplyError
    if chip.wrong:
        severity = Severity.NOTE if chip.is_doubtful else None
        yield Disagreement(chip.wrong, hint=chip.hint, severity=severity)
    elif chip.num_visible is None and (found := _set_of(facts, UNREAD_LISTS)):
        raise NotDetectedError(f"{found[0]} is set, which is not read")
    elif chip.unknown == UNORDERED:
        raise NotDetectedError(UNORDERED)
    elif facts.environment.local_rank is None or chip.num_visible is None:
        raise DoesNotApplyError


def _set_of(facts: Facts, names: Sequence[str]) -> list[str]:
    return [name for name in names if facts.env.get(name)]


_SHOWN_IDS = 16


def _ids(ids: Sequence[int | str]) -> str:
    shown = ",".join(map(str, ids[:_SHOWN_IDS])) or "nothing"
    return shown + (",..." if len(ids) > _SHOWN_IDS else "")


def _only(ids: Sequence[int | str]) -> str:
    return f"only {_ids(ids)}" if ids else "nothing"


def _mounted(facts: Facts) -> list[int] | None:
    """Return the physical chips that the container runtime has mounted, if it says."""
    text = facts.env.get(ASCEND_MOUNTED, "all")
    return None if text == "all" else read_mounted(text)


def _num_visible(facts: Facts) -> int | None:
    """Return the number of chips that logical ids may name, None if not known."""
    mounted = _mounted(facts)
    if mounted is not None:
        return len(mounted)
    try:
        return len(facts.chips) or None
    except NotDetectedError:
        return None


def visible_chips(facts: Facts, declared: Declared) -> Iterator[Disagreement]:
    """Yield the difference between the visible chips and the rows of the table."""
    lists = _lists(facts, declared)
    mounted = _mounted(facts) if ASCEND_LIST in lists else None
    names = (*lists, ASCEND_MOUNTED) if mounted is not None else lists
    for name, text in _set(facts, *names):
        ids = _visible(facts, name, text)
        vendor, seen = facts.vendor, facts.seen_chips
        is_numbers = re.match(r"\s*\+?[0-9]", text) is not None
        if name == CUDA_LIST and is_numbers and is_unordered(facts.env, vendor, seen):
            raise NotDetectedError(UNORDERED)
        if name == ASCEND_MOUNTED and ASCEND_LIST in facts.env:
            continue
        wanted = declared.device_ids
        own = _rows_of_rank(facts, declared)
        if len(ids) == 1 and own:  # a list for each process
            wanted = own
        # A process takes the chip at its local rank; more may be visible behind it.
        both = _numberings(facts, ids, declared.device_ids)
        at = facts.environment.local_rank if facts.is_live else None
        mine = slice(0) if at is None else slice(at, at + 1)  # others look at theirs
        if any(
            each[: len(wanted)] == wanted or (own and fits and each[mine] == own)
            for each, fits in both
        ):
            continue
        if "ASCEND" not in name and not (own and len(both) > 1):
            _refuse_renumbered(facts, name, is_mapped=len(both) > 1)
        shown = _ids(both[-1][0])
        if len(ids) != len(wanted):
            what = f"shows {counted(len(ids), 'chip')} ({shown})"
            has = f"{counted(len(wanted), 'rank')} on {_ids(wanted)}"
        else:
            what, has = f"shows {shown}", f"{_ids(wanted)} in the order of ranks"
        yield Disagreement(
            f"{name}={quoted(text)} {what}, and the table has {has}",
            0,
            hint=f"unset {name}, or give it the chips of the table in the order of the "
            "ranks",
        )


def _numberings(
    facts: Facts, ids: list[int], rows: list[int]
) -> list[tuple[list[int], bool]]:
    """Return chips as they are counted here and in the host, if that is known.

    A table may have either. With each it is said whether all its rows fit to it.
    """
    seen = facts.seen_chips
    numbers = facts.numbers_of_host(len(ids if seen is None else seen))
    if not set(ids) <= set(range(len(numbers))):
        return [(ids, True)]
    return [
        (ids, set(rows) <= set(range(len(numbers)))),
        ([numbers[each] for each in ids], set(rows) <= set(numbers)),
    ]


def _refuse_renumbered(facts: Facts, name: str, *, is_mapped: bool) -> None:
    """Raise NotDetectedError if a cgroup or a container counts in another way."""
    by = isolated_by(facts.env) or next(filter(facts.env.get, ("SLURM_JOB_GPUS",)), "")
    mounted = facts.env.get(_MOUNTED_GPUS, "")
    if not is_mapped and mounted not in ("", "all", "none", "void"):
        by = by or _MOUNTED_GPUS
    if by:
        raise NotDetectedError(
            f"{name} counts the chips that were given here ({by} is set), and the "
            "table those of the host"
        )


def _rows_of_rank(facts: Facts, declared: Declared) -> list[int]:
    """Return the chip of this process, if it has a rank of this host.

    A rank of Slurm or MPI is one of the table only if the step has as many processes.
    """
    rank = plain_number(facts.env.get("RANK") or facts.env.get("RANK_ID"))
    launched = facts.environment
    if rank is None and launched.world_size == declared.table.world_size:
        rank = launched.rank
    return [each.device_id for each in declared.node.devices if each.rank == rank]


def _visible(facts: Facts, name: str, text: str) -> list[int]:
    """Return the physical chips that a list shows."""
    if name == ASCEND_LIST:
        listed = read_ascend_list(text, _num_visible(facts)).entries
        return _physical(facts, [each for each in listed if isinstance(each, int)])
    if name == ASCEND_MOUNTED:
        return read_mounted(text)
    chips = facts.seen_chips
    numbers = {chip.identity: chip.device_id for chip in chips or ()}
    entries = read_gpu_list(text, chips).entries
    ids = [numbers.get(each, -1) if isinstance(each, str) else each for each in entries]
    if -1 in ids:
        raise NotDetectedError(f"{name} has UUIDs of chips that are not known")
    return ids


def _physical(facts: Facts, ids: list[int]) -> list[int]:
    """Return the physical ids of logical ones; a container counts its own from 0."""
    mounted = _mounted(facts)
    if mounted is not None:
        return [mounted[each] for each in ids]
    try:
        known = {chip.logic_id: chip.device_id for chip in facts.mapped_chips}
    except NotDetectedError:
        known = dict(enumerate(sorted(facts.chips)))
    return [known.get(each, each) for each in ids]


def device_ip(facts: Facts, declared: Declared) -> Iterator[Disagreement]:
    """Yield the chips whose own address is not that of the table."""
    wanted = {
        device.device_id: (place, device.address)
        for place, device in enumerate(declared.node.devices)
        if device.address
    }
    if not wanted:
        raise DoesNotApplyError
    unread: dict[int, str] = {}
    try:
        expected = {chip: address for chip, (_, address) in wanted.items()}
        found, unread = facts.addresses_of(expected)
        said = "hccn_tool"
    except NotDetectedError as error:
        try:
            found, said = facts.hccn_conf, "/etc/hccn.conf"
        except NotDetectedError as other:
            raise NotDetectedError(f"{error}; {other}") from None
    for chip, (place, address) in wanted.items():
        there = found.get(chip, "")
        if chip not in unread and not _is_same_address(address, there):
            yield Disagreement(
                f"chip {chip} has {_told(there)} by {said}, and the table says "
                f"{address}",
                place,
                "address",
            )
    _refuse_unread(unread)


def _told(address: str) -> str:
    return f"the address {address}" if address else "no address"


def _refuse_unread(unread: Mapping[int, str]) -> None:
    """Raise NotDetectedError if there are chips that could not be looked at."""
    if unread:
        word = "chip" if len(unread) == 1 else "chips"
        reason = next(iter(unread.values()))
        raise NotDetectedError(f"{word} {folded(sorted(unread))}: {reason}")


def _is_same_address(one: str, other: str) -> bool:
    if ":" not in one or not is_address(other):
        return one == other
    import ipaddress  # only for IPv6, which has many forms

    return ipaddress.ip_address(one) == ipaddress.ip_address(other)


def hccn_files(facts: Facts, declared: Declared | None) -> Iterator[Disagreement]:
    """Yield the chips whose address differs between the driver and hccn.conf."""
    device_ids = facts.chips if declared is None else declared.device_ids
    written = facts.hccn_conf
    expected = {chip: written.get(chip, "") for chip in device_ids}
    found, unread = facts.addresses_of(expected)
    for chip, address in found.items():
        if not _is_same_address(expected[chip], address):
            yield Disagreement(
                f"chip {chip} has {_told(address)} by hccn_tool, and /etc/hccn.conf "
                f"says {expected[chip] or 'none'}"
            )
    _refuse_unread(unread)


def links(facts: Facts, declared: Declared | None) -> Iterator[Disagreement]:
    """Yield the chips whose network link is not up."""
    device_ids = facts.chips if declared is None else declared.device_ids
    states, unread = facts.links_of(device_ids)
    down = [chip for chip, state in states.items() if state != "UP"]
    if down:
        word = "chip" if len(down) == 1 else "chips"
        place = None if declared is None else device_ids.index(down[0])
        yield Disagreement(
            f"the link of {word} {folded(down)} is {states[down[0]]}", place
        )
    _refuse_unread(unread)


def busy(facts: Facts, declared: Declared | None) -> Iterator[Disagreement]:
    """Yield the processes that still use a chip of the table."""
    wanted = None if declared is None else declared.device_ids
    for chip, pid, name in facts.processes:
        if wanted is None or chip in wanted:
            called = f" ({name})" if name else ""
            place = None if wanted is None else wanted.index(chip)
            yield Disagreement(f"process {pid}{called} uses chip {chip}", place)


def ports(facts: Facts, declared: Declared | None) -> Iterator[Disagreement]:
    """Yield the ports of the job on which something listens already."""
    wanted = hccl_ports(facts, declared)
    port = None if facts.is_live else plain_number(facts.env.get("MASTER_PORT"))
    if not wanted and port is None:
        raise DoesNotApplyError
    listening = facts.listening
    taken = [each for each in wanted if each in listening]
    if taken:
        yield Disagreement(
            f"something listens on {_ports(taken)}; HCCL needs "
            f"{wanted[0]} to {wanted[-1]} of every host",
            hint="end the other job, or set HCCL_IF_BASE_PORT on all hosts",
        )
    if port in listening and is_master(facts, declared):
        yield Disagreement(
            f"something listens on MASTER_PORT={port} of this host, where rank 0 runs",
            hint="end the other job, or choose another MASTER_PORT on every host",
        )


def _ports(ports: list[int]) -> str:
    return f"port {ports[0]}" if len(ports) == 1 else f"the ports {folded(ports)}"


def hccl_ports(facts: Facts, declared: Declared | None) -> list[int]:
    """Return the ports that HCCL listens on at the start, none without NPUs.

    Source: hiascend, HCCL_IF_BASE_PORT: 16 ports up to CANN 8.1, then 32.
    """
    if not uses_npus(facts, declared):
        return []
    first = plain_number(facts.env.get("HCCL_IF_BASE_PORT")) or HCCL_BASE_PORT
    return list(range(first, first + _num_hccl_ports(facts)))


def _num_hccl_ports(facts: Facts) -> int:
    home = facts.env.get("ASCEND_HOME_PATH", "/usr/local/Ascend/ascend-toolkit/latest")
    try:
        version = facts.version(
            f"{home}/share/info/hccl/version.info", f"{home}/version.info"
        )
    except NotDetectedError:
        return HCCL_PORTS_BEFORE_8_2
    numbers = [int(n) for n in re.findall(r"[0-9]+", version)[:2]]
    return HCCL_PORTS if numbers >= [8, 2] else HCCL_PORTS_BEFORE_8_2


def is_master(facts: Facts, declared: Declared | None) -> bool:
    """Whether rank 0 runs on this host."""
    address = facts.env.get("MASTER_ADDR")
    if address:
        if facts.machine.has_name and address == facts.machine.host():
            return True
        try:
            return bool(set(facts.resolve(address)) & (facts.addresses | {"127.0.0.1"}))
        except NotDetectedError:
            pass
    return declared is not None and declared.node_rank is not None and declared.is_first


def port_range(facts: Facts, declared: Declared | None) -> Iterator[Disagreement]:
    """Yield that the kernel may give HCCL's ports to other connections."""
    wanted = hccl_ports(facts, declared)
    if not wanted:
        raise DoesNotApplyError
    first, last = facts.kernel_numbers("/proc/sys/net/ipv4/ip_local_port_range", 2)
    reserved = facts.reserved(wanted)
    open_to_all = [p for p in wanted if first <= p <= last and p not in reserved]
    if open_to_all:
        yield Disagreement(
            f"the kernel gives {_ports(open_to_all)} to outgoing connections "
            f"({first} to {last}), and HCCL listens there"
        )


def port_settings(facts: Facts, _declared: Declared | None) -> Iterator[Disagreement]:
    """Yield settings of ports that the library refuses or misreads."""
    for name, text in _set(facts, "HCCL_IF_BASE_PORT", *_PORT_RANGES):
        if name == "HCCL_IF_BASE_PORT":
            if not 1024 <= (plain_number(text) or 0) <= 65520:
                yield Disagreement(f"{name} is {quoted(text)}, not 1024 to 65520")
            continue
        if text == "auto":
            continue
        ends = [_PORT_SPAN.fullmatch(part) for part in text.split(",")]
        if not all(ends):
            yield Disagreement(f"{name}={quoted(text)} is not like 60000,60050-60100")
            continue
        spans = sorted((int(e[1]), int(e[2] or e[1])) for e in ends if e)
        is_wrong = any(a > b or b > 65535 for a, b in spans) or any(
            one[1] >= two[0] for one, two in pairwise(spans)
        )
        if is_wrong:
            yield Disagreement(
                f"{name}={quoted(text)} has parts that overlap or descend"
            )


def interfaces(facts: Facts, declared: Declared | None) -> Iterator[Disagreement]:
    """Yield the interfaces of variables that this host or the other hosts lack."""
    nodes = facts.environment.num_nodes if declared is None else declared.num_nodes
    if facts.is_live:  # the addresses of all processes are compared
        nodes = None
    for name, text in _set(facts, "HCCL_IF_IP", *_INTERFACES):
        if name == "HCCL_IF_IP":
            if text not in facts.addresses:
                yield Disagreement(f"{name}={text} is not an address of this host")
        elif problem := lost_interfaces(name, text, facts.interfaces):
            yield Disagreement(f"{name}={quoted(text)}: {problem}")
        elif (nodes or 1) > 1 and takes_loopback(name, text, facts.interfaces):
            which = "" if text.lstrip("=") == "lo" else " lets NCCL take lo first"
            yield Disagreement(
                f"{name}={quoted(text)}{which}: no other host reaches a loopback "
                f"interface, and the job has {counted(nodes or 1, 'node')}",
                hint=f"write {name}=^lo,{text[1:]}" if text.startswith("^") else None,
            )


def master_address(facts: Facts, declared: Declared | None) -> Iterator[Disagreement]:
    """Yield that the master's address is not known, or is a loopback address."""
    name, address = "MASTER_ADDR", facts.env.get("MASTER_ADDR")
    if not address and declared is not None:
        name = "the host of rank 0"
        address = declared.table.hosts[declared.table.node_rank_of(0)]
    if not address:
        raise DoesNotApplyError
    found = facts.resolve(address)
    is_many = declared is not None and declared.table.num_nodes > 1
    if not found:
        yield Disagreement(f"{name} {quoted(address)} does not resolve on this host")
    elif is_many and all(map(is_loopback, found)):
        is_own = declared is not None and declared.node_rank == 0
        says = "" if address in found else f" resolves to {found[0]}, which"
        where = "the other hosts" if is_own else "this host"
        yield Disagreement(
            f"{name} {quoted(address)}{says} is a loopback address: {where} would wait "
            f"for {'themselves' if is_own else 'itself'}"
        )
    elif all(map(_is_link_local, found)):
        if all(":" in each and "%" not in each for each in (address, *found)):
            yield Disagreement(
                f"{name} {quoted(address)} is a link-local address, which says nothing "
                "without an interface",
                hint="give an address of the network of the job",
            )
            return
        raise NotDetectedError(
            f"{name} {quoted(address)} is a link-local address, which only hosts on "
            "the same link reach"
        )
    elif declared is None and all(map(is_loopback, found)):
        _refuse_loopback_of_nodes(facts.environment.num_nodes or 1, address)


def _is_link_local(address: str) -> bool:
    return address.startswith("169.254.") or bool(re.match("(?i)fe[89ab]", address))


def _refuse_loopback_of_nodes(num_nodes: int, address: str) -> None:
    """Raise NotDetectedError if a launcher tells several nodes of a loopback address.

    A test starts the agents of several nodes on one machine.
    """
    if num_nodes > 1:
        raise NotDetectedError(
            f"MASTER_ADDR {quoted(address)} is a loopback address, which is right only "
            f"if all {num_nodes} nodes are on one machine"
        )


def own_name(facts: Facts, declared: Declared) -> Iterator[Disagreement]:
    """Yield that the name of this host is a loopback address, which gloo would tell."""
    if declared.table.num_nodes < 2 or facts.env.get("GLOO_SOCKET_IFNAME"):
        raise DoesNotApplyError
    if not facts.machine.has_name:
        raise NotDetectedError("the recorded host has no /etc/hostname")
    name = facts.machine.host()
    found = facts.resolve(name)
    if found and all(map(is_loopback, found)):
        yield Disagreement(f"the name of this host, {name}, resolves to {found[0]}")


def table_path(facts: Facts, declared: Declared) -> Iterator[Disagreement]:
    """Yield what makes the file of the table stale or unreadable for the job."""
    variable = facts.env.get("RANK_TABLE_FILE")
    if variable and not os.path.isabs(variable):
        yield Disagreement(
            f"RANK_TABLE_FILE={quoted(variable)} depends on the folder in which a "
            "process starts",
            hint="give the whole path",
        )
    is_here = facts.machine.is_this_one
    path = variable or (facts.path if is_here else None)
    if path is None or path == "-":
        raise NotDetectedError("it is not known from which file the processes read")
    lines = facts.machine.text("/proc/self/mountinfo").splitlines()
    points = {line.split()[4] for line in lines if len(line.split()) > 4}
    real = os.path.realpath(path) if is_here else path
    if {real, os.path.abspath(path)} & points:
        yield Disagreement(
            f"{path} is mounted as a single file, which is never refreshed",
            hint="mount the folder of the ConfigMap, without subPath",
        )
    if is_here and declared.is_ascend and os.path.islink(path):
        yield Disagreement(
            f"{path} is a link: torch_npu takes no table that is a link, and "
            "negotiates without a message",
            hint="nothing, if only HCCL itself reads it; else copy it",
            severity=Severity.NOTE,
        )
    if is_here and variable:
        yield from _other_table(variable, facts.path, declared)


def _other_table(
    variable: str, path: str | None, declared: Declared
) -> Iterator[Disagreement]:
    from ranktable.schema.check import check

    report = check(variable)
    if report.table is None:
        reason = report.diagnostics[0].message
        yield Disagreement(f"RANK_TABLE_FILE={quoted(variable)}: {reason}")
    elif report.table.digest() != declared.table.digest():
        yield Disagreement(
            f"the processes would read RANK_TABLE_FILE={quoted(variable)}, which is "
            f"another table than {path}"
        )


def open_files(facts: Facts, declared: Declared | None) -> Iterator[Disagreement]:
    """Yield that rank 0 can open fewer files than it needs."""
    size = plain_number(facts.env.get("WORLD_SIZE"))
    if declared is not None:
        size = declared.table.world_size
    if size is None or not is_master(facts, declared):
        raise DoesNotApplyError
    wanted, soft = size + SPARE_FILES, facts.limit("Max open files")
    if soft < wanted:
        yield Disagreement(
            f"a process may open {soft:g} files, and the store of rank 0 needs {wanted}"
        )
    (backlog,) = facts.kernel_numbers("/proc/sys/net/core/somaxconn", 1)
    if backlog < size:
        yield Disagreement(
            f"somaxconn is {backlog}, and {size} ranks connect at once",
            hint="sysctl -w net.core.somaxconn=65535",
        )


def locked_memory(facts: Facts, _declared: Declared | None) -> Iterator[Disagreement]:
    """Yield that a process can lock too little memory for RDMA."""
    if not facts.machine.names("/sys/class/infiniband"):
        raise DoesNotApplyError
    soft = facts.limit("Max locked memory")
    if soft != float("inf"):
        yield Disagreement(
            f"a process may lock {soft / 1024:g} KiB, and RDMA needs all"
        )


def shared_memory(facts: Facts, _declared: Declared | None) -> Iterator[Disagreement]:
    """Yield that /dev/shm is small."""
    size, free = facts.shared_memory_bytes
    if size < LEAST_SHARED_MEMORY_BYTES:
        yield Disagreement(f"{SHARED_MEMORY} has {size >> 20} MiB, less than 1024")
    elif free < min(LEAST_SHARED_MEMORY_BYTES, size // 8):
        yield Disagreement(
            f"{SHARED_MEMORY} has {size >> 20} MiB, and {free >> 20} of them are free",
            hint=f"`ls -l {SHARED_MEMORY}` shows what an earlier job left there; "
            "remove it if no process uses it",
        )
