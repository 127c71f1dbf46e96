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

from ranktable.cluster.discovery.machine import NotDetectedError
from ranktable.preflight.facts import SHARED_MEMORY
from ranktable.schema.text import counted, folded, quoted
from ranktable.schema.values import is_address

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.preflight.facts import Declared, Facts
    from ranktable.schema.document import SourceSpan

HCCL_BASE_PORT = 60000
HCCL_PORTS, HCCL_PORTS_BEFORE_8_2 = 32, 16
DEFAULT_MASTER_PORT = 29500
SPARE_FILES = 200
"""Open files of rank 0 besides one for each rank."""
LEAST_SHARED_MEMORY_BYTES = 1 << 30

ASCEND_LIST, ASCEND_MOUNTED = "ASCEND_RT_VISIBLE_DEVICES", "ASCEND_VISIBLE_DEVICES"
GPU_LISTS = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
_INTERFACES = ("HCCL_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME",
               "TP_SOCKET_IFNAME")  # fmt: skip
_PORT_RANGES = ("HCCL_HOST_SOCKET_PORT_RANGE", "HCCL_NPU_SOCKET_PORT_RANGE")


class DoesNotApplyError(Exception):
    """There is nothing here that a rule is about."""


class Disagreement(NamedTuple):
    """Something that differs.

    Attributes:
        message: What, with both values.
        device: Index of the device in this host's rows that it is about.
        key: ``device_id`` or ``address`` of that device.
        hint: What to do, where the rule does not say it.
    """

    message: str
    device: int | None = None
    key: str = "device_id"
    hint: str | None = None

    def span(self, declared: Declared | None) -> SourceSpan | None:
        """Return the place in the table, None if it is about no row."""
        columns = declared.report.columns if declared else None
        if self.device is None or declared is None or columns is None:
            return None
        rank = declared.node.devices[self.device].rank
        if rank not in columns.ranks:
            return None
        index = columns.ranks.index(rank)
        if self.key == "address":
            return columns.span(index, ("device_ip", "device_ip_emulator"))
        return columns.device_id_span(index)


def host(_facts: Facts, declared: Declared) -> Iterator[Disagreement]:
    """Yield that the table has no row of this host."""
    if declared.node_rank is not None:
        return
    hosts = [each for each in declared.table.hosts if each]
    if not hosts:
        raise NotDetectedError(
            "the table names no hosts; give the index of the node with --host"
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
    if not missing:
        return
    lost = [wanted[place] for place in missing]
    has = (
        f"has {counted(len(there), 'chip')} ({folded(there)})" if there else "has none"
    )
    reasons = [f"{item.what}: {item.why}" for item in facts.probe.unseen]
    hint = f"it looked for {'; '.join(reasons)}" if not there else None
    which = "chip" if len(lost) == 1 else "chips"
    yield Disagreement(
        f"the table gives this host {which} {folded(sorted(lost))}, and it {has}",
        missing[0],
        hint=hint,
    )


def health(facts: Facts, declared: Declared | None) -> Iterator[Disagreement]:
    """Yield the chips whose status is not that of a working chip."""
    if not facts.chips:
        raise NotDetectedError("no chips were found")
    if all(chip.status is None for chip in facts.probe.chips):
        raise NotDetectedError(f"no tool of {facts.probe.vendor} says a status")
    wanted = None if declared is None else declared.device_ids
    for chip in facts.probe.chips:
        is_used = wanted is None or chip.device_id in wanted
        if is_used and not chip.is_healthy:
            place = None if wanted is None else wanted.index(chip.device_id)
            yield Disagreement(
                f"chip {chip.device_id} has the status {quoted(chip.status)}", place
            )


def _need_one_of(facts: Facts, *names: str) -> None:
    if not any(facts.env.get(name) for name in names):
        raise DoesNotApplyError


def visible_text(facts: Facts, _declared: Declared | None) -> Iterator[Disagreement]:
    """Yield what a library does not read of a list of visible devices."""
    _need_one_of(facts, ASCEND_LIST, *GPU_LISTS)
    text = facts.env.get(ASCEND_LIST)
    if text is not None:
        ids, rest = read_ascend_list(text, _num_visible(facts))
        if rest:
            yield Disagreement(
                f"{ASCEND_LIST}={quoted(text)}: only {_ids(ids)} is read; "
                f"{quoted(rest)} and what follows is ignored without a message"
            )
        elif ids != sorted(ids):
            yield Disagreement(f"{ASCEND_LIST}={quoted(text)} does not ascend")
    for name in GPU_LISTS:
        text = facts.env.get(name)
        ids, rest = read_gpu_list(text or "")
        if text and rest and rest != "-1":
            yield Disagreement(
                f"{name}={quoted(text)}: only {_ids(ids)} is read, up to {quoted(rest)}"
            )


def _ids(ids: list[int]) -> str:
    return ",".join(map(str, ids)) or "nothing"


def _num_visible(facts: Facts) -> int | None:
    """Return the number of chips that logical ids may name, None if not known."""
    mounted = facts.env.get(ASCEND_MOUNTED)
    if mounted:
        return len(read_mounted(mounted))
    try:
        return len(facts.chips) or None
    except NotDetectedError:
        return None


def read_ascend_list(text: str, num_chips: int | None) -> tuple[list[int], str]:
    """Return what CANN reads of a list of visible devices, and where it stops.

    Source: hiascend, ASCEND_RT_VISIBLE_DEVICES: digits and commas; reading ends at any
    other character, and at an id that does not exist.
    """
    ids: list[int] = []
    at = 0
    while match := re.compile(r"[0-9]{1,6}").match(text, at):
        if num_chips is not None and int(match[0]) >= num_chips:
            return ids, text[at:]
        ids.append(int(match[0]))
        at = match.end()
        if at == len(text):
            return ids, ""
        if text[at] != ",":
            return ids, text[at:]
        at += 1
    return ids, text[at:]


def read_gpu_list(text: str) -> tuple[list[int], str]:
    """Return the indexes in a list of visible GPUs, and where reading stops.

    A list of UUIDs is not read here.
    """
    ids: list[int] = []
    for part in text.split(","):
        word = part.strip()
        if not word.isdigit():
            is_uuid = word.startswith(("GPU-", "MIG-", "gpu-"))
            return ids, "" if is_uuid else word
        ids.append(int(word))
    return ids, ""


def read_mounted(text: str) -> list[int]:
    """Return the physical chips that the container runtime mounts, sorted.

    Source: Ascend, ascend-docker-runtime: ``0,3-5`` or ``Ascend910-2``.
    """
    found: set[int] = set()
    for part in text.split(","):
        word = re.sub(r"^(?:Ascend\w*|npu)-(?=\d)", "", part.strip())
        ends = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", word)
        if ends:
            found.update(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
    return sorted(found)


def visible_chips(facts: Facts, declared: Declared) -> Iterator[Disagreement]:
    """Yield the difference between the visible chips and the rows of the table."""
    _need_one_of(facts, ASCEND_LIST, ASCEND_MOUNTED, *GPU_LISTS)
    for name, ids in _visible(facts):
        wanted = declared.device_ids
        rank = facts.env.get("RANK") or facts.env.get("RANK_ID") or ""
        if len(ids) == 1 and rank.isdigit():  # a list for each process
            wanted = [
                device.device_id
                for device in declared.node.devices
                if device.rank == int(rank)
            ]
        is_same = ids == wanted if "ASCEND" in name else set(ids) >= set(wanted)
        if is_same:
            continue
        if len(ids) != len(wanted):
            what = f"shows {counted(len(ids), 'chip')} ({_ids(ids)})"
            has = f"{counted(len(wanted), 'rank')} on {_ids(wanted)}"
        else:
            what, has = f"shows {_ids(ids)}", f"{_ids(wanted)} in the order of ranks"
        yield Disagreement(
            f"{name}={quoted(facts.env[name])} {what}, and the table has {has}", 0
        )


def _visible(facts: Facts) -> Iterator[tuple[str, list[int]]]:
    """Yield the physical chips that each list of visible devices shows."""
    mounted = facts.env.get(ASCEND_MOUNTED)
    text = facts.env.get(ASCEND_LIST)
    if text is not None:
        ids, _ = read_ascend_list(text, _num_visible(facts))
        yield ASCEND_LIST, _physical(facts, ids)
    elif mounted and mounted not in ("void", "all"):
        yield ASCEND_MOUNTED, read_mounted(mounted)
    for name in GPU_LISTS:
        if facts.env.get(name) and not re.search(
            "[A-Z]", facts.env[name], re.IGNORECASE
        ):
            yield name, read_gpu_list(facts.env[name])[0]


def _physical(facts: Facts, ids: list[int]) -> list[int]:
    """Return the physical ids of logical ones; a container counts its own from 0."""
    mounted = facts.env.get(ASCEND_MOUNTED)
    if mounted and (there := read_mounted(mounted)):
        return [there[each] for each in ids if each < len(there)]
    try:
        known = facts.logic_to_physical
    except NotDetectedError:
        chips = sorted(facts.chips)
        known = dict(enumerate(chips))
    return [known.get(each, each) for each in ids]


def device_ip(facts: Facts, declared: Declared) -> Iterator[Disagreement]:
    """Yield the chips whose own address is not that of the table."""
    wanted = {device.device_id: device.address for device in declared.node.devices}
    if not any(wanted.values()):
        raise DoesNotApplyError
    try:
        found, said = facts.addresses_of(wanted), "hccn_tool"
    except NotDetectedError as error:
        try:
            found, said = facts.hccn_conf, "/etc/hccn.conf"
        except NotDetectedError as other:
            raise NotDetectedError(f"{error}; {other}") from None
    for place, (chip, address) in enumerate(wanted.items()):
        there = found.get(chip, "")
        if address and not _is_same_address(address, there):
            yield Disagreement(
                f"chip {chip} has the address {there or 'of no network'} by {said}, "
                f"and the table says {address}",
                place,
                "address",
            )


def _is_same_address(one: str, other: str) -> bool:
    if ":" not in one or not is_address(other):
        return one == other
    import ipaddress  # only for IPv6, which has many forms

    return ipaddress.ip_address(one) == ipaddress.ip_address(other)


def hccn_files(facts: Facts, declared: Declared | None) -> Iterator[Disagreement]:
    """Yield the chips whose address differs between the driver and hccn.conf."""
    device_ids = facts.chips if declared is None else declared.device_ids
    written = facts.hccn_conf
    for chip, address in facts.addresses_of(device_ids).items():
        if not _is_same_address(written.get(chip, ""), address):
            yield Disagreement(
                f"chip {chip} has the address {address or 'none'} by hccn_tool, and "
                f"/etc/hccn.conf says {written.get(chip) or 'none'}"
            )


def links(facts: Facts, declared: Declared | None) -> Iterator[Disagreement]:
    """Yield the chips whose network link is not up."""
    device_ids = facts.chips if declared is None else declared.device_ids
    states = facts.links_of(device_ids)
    down = [chip for chip, state in states.items() if state != "UP"]
    if down:
        word = "chip" if len(down) == 1 else "chips"
        place = None if declared is None else device_ids.index(down[0])
        yield Disagreement(
            f"the link of {word} {folded(down)} is {states[down[0]]}", place
        )


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
    wanted, port = hccl_ports(facts, declared), facts.env.get("MASTER_PORT", "")
    if not wanted and not port:
        raise DoesNotApplyError
    listening = facts.listening
    taken = [port for port in wanted if port in listening]
    if taken:
        yield Disagreement(
            f"something listens on {_ports(taken)}; HCCL needs "
            f"{wanted[0]} to {wanted[-1]} of every host",
            hint="end the other job, or set HCCL_IF_BASE_PORT on all hosts",
        )
    if port.isdigit() and int(port) in listening and is_master(facts, declared):
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
    is_ascend = declared.is_ascend if declared is not None else facts.is_ascend
    base = facts.env.get("HCCL_IF_BASE_PORT", "")
    if not is_ascend:
        return []
    first = int(base) if base.isdigit() else HCCL_BASE_PORT
    return list(range(first, first + _num_hccl_ports(facts)))


def _num_hccl_ports(facts: Facts) -> int:
    home = facts.env.get("ASCEND_HOME_PATH", "/usr/local/Ascend/ascend-toolkit/latest")
    try:
        version = facts.version(
            f"{home}/share/info/hccl/version.info", f"{home}/version.info"
        )
    except NotDetectedError:
        return HCCL_PORTS_BEFORE_8_2
    numbers = [int(n) for n in re.findall(r"\d+", version)[:2]]
    return HCCL_PORTS if numbers >= [8, 2] else HCCL_PORTS_BEFORE_8_2


def is_master(facts: Facts, declared: Declared | None) -> bool:
    """Whether rank 0 runs on this host."""
    address = facts.env.get("MASTER_ADDR")
    if address:
        if address == facts.machine.host():
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
    first, last = facts.kernel_number("/proc/sys/net/ipv4/ip_local_port_range")[:2]
    reserved = facts.reserved_ports
    open_to_all = [p for p in wanted if first <= p <= last and p not in reserved]
    if open_to_all:
        yield Disagreement(
            f"the kernel gives {_ports(open_to_all)} to outgoing connections "
            f"({first} to {last}), and HCCL listens there"
        )


def port_settings(facts: Facts, _declared: Declared | None) -> Iterator[Disagreement]:
    """Yield settings of ports that the library refuses or misreads."""
    _need_one_of(facts, "HCCL_IF_BASE_PORT", *_PORT_RANGES)
    base = facts.env.get("HCCL_IF_BASE_PORT")
    if base is not None and not (base.isdigit() and 1024 <= int(base) <= 65520):
        yield Disagreement(f"HCCL_IF_BASE_PORT is {quoted(base)}, not 1024 to 65520")
    for name in _PORT_RANGES:
        text = facts.env.get(name)
        if text is None or text == "auto":
            continue
        ends = [re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", p) for p in text.split(",")]
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


def interfaces(facts: Facts, _declared: Declared | None) -> Iterator[Disagreement]:
    """Yield the interfaces of variables that this host does not have."""
    _need_one_of(facts, "HCCL_IF_IP", *_INTERFACES)
    for name in _INTERFACES:
        text = facts.env.get(name)
        if not text:
            continue
        there = facts.interfaces
        is_plain = name.startswith(("GLOO", "TP"))
        if is_plain and re.search(r"[\^=]", text):
            yield Disagreement(f"{name}={quoted(text)}: gloo takes plain names only")
            continue
        mode = "" if is_plain else text[: len(text) - len(text.lstrip("^="))]
        words = [word for word in text[len(mode) :].split(",") if word]
        if "^" in mode:
            continue  # what is left out need not exist
        is_exact = is_plain or "=" in mode
        found = [
            word
            for word in words
            if any(
                word == each if is_exact else each.startswith(word) for each in there
            )
        ]
        # gloo opens every interface of its list, the others look for the first.
        if not found or (is_plain and len(found) < len(words)):
            lost = [word for word in words if word not in found]
            yield Disagreement(
                f"{name}={quoted(text)}: this host has no interface "
                f"{' or '.join(lost)}; it has {', '.join(there[:8])}"
            )
    address = facts.env.get("HCCL_IF_IP")
    if address and address not in facts.addresses:
        yield Disagreement(f"HCCL_IF_IP={address} is not an address of this host")


def master_address(facts: Facts, declared: Declared | None) -> Iterator[Disagreement]:
    """Yield that the master's address is not known, or is a loopback address."""
    name, address = "MASTER_ADDR", facts.env.get("MASTER_ADDR")
    if not address and declared is not None and declared.table.world_size:
        name = "the host of rank 0"
        address = declared.table.hosts[declared.table.node_rank_of(0)]
    if not address:
        raise DoesNotApplyError
    found = facts.resolve(address)
    is_many = declared is not None and declared.table.num_nodes > 1
    if not found:
        yield Disagreement(f"{name} {quoted(address)} does not resolve on this host")
    elif is_many and all(_is_loopback(each) for each in found):
        is_own = declared is not None and declared.node_rank == 0
        says = "" if address in found else f" resolves to {found[0]}, which"
        where = "the other hosts" if is_own else "this host"
        yield Disagreement(
            f"{name} {quoted(address)}{says} is a loopback address: {where} would wait "
            f"for {'themselves' if is_own else 'itself'}"
        )


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


def own_name(facts: Facts, declared: Declared) -> Iterator[Disagreement]:
    """Yield that the name of this host is a loopback address, which gloo would tell."""
    if declared.table.num_nodes < 2 or facts.env.get("GLOO_SOCKET_IFNAME"):
        raise DoesNotApplyError
    name = facts.machine.host()
    found = facts.resolve(name)
    if found and all(_is_loopback(each) for each in found):
        yield Disagreement(f"the name of this host, {name}, resolves to {found[0]}")


def table_path(facts: Facts, declared: Declared) -> Iterator[Disagreement]:
    """Yield what makes the file of the table stale or unreadable for the job."""
    path = facts.path
    if path is None or path == "-":
        raise NotDetectedError("the table is not a file")
    if facts.machine.is_this_one:
        mounts = facts.machine.text("/proc/self/mountinfo").splitlines()
        real = os.path.realpath(path)
        points = {line.split()[4] for line in mounts if len(line.split()) > 4}
        if {real, os.path.abspath(path)} & points:
            yield Disagreement(
                f"{path} is mounted as a single file, which is never refreshed",
                hint="mount the folder of the ConfigMap, without subPath",
            )
    variable = facts.env.get("RANK_TABLE_FILE")
    if variable and not os.path.isabs(variable):
        yield Disagreement(
            f"RANK_TABLE_FILE={quoted(variable)} depends on the folder in which a "
            "process starts",
            hint="give the whole path",
        )
    if variable and facts.machine.is_this_one and not _is_same_file(variable, path):
        yield from _other_table(variable, path, declared)


def _is_same_file(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _other_table(
    variable: str, path: str, declared: Declared
) -> Iterator[Disagreement]:
    from ranktable.schema.check import check

    table = check(variable).table
    if table is None:
        yield Disagreement(f"RANK_TABLE_FILE={quoted(variable)} is not a sound table")
    elif table.digest() != declared.table.digest():
        yield Disagreement(
            f"the processes would read RANK_TABLE_FILE={quoted(variable)}, which is "
            f"another table than {path}"
        )


def open_files(facts: Facts, declared: Declared) -> Iterator[Disagreement]:
    """Yield that rank 0 can open fewer files than it needs."""
    if not is_master(facts, declared):
        raise DoesNotApplyError
    wanted, soft = (
        declared.table.world_size + SPARE_FILES,
        facts.limit("Max open files"),
    )
    if soft < wanted:
        yield Disagreement(
            f"a process may open {soft:g} files, and the store of rank 0 needs {wanted}"
        )
    (backlog,) = facts.kernel_number("/proc/sys/net/core/somaxconn")[:1]
    if backlog < declared.table.world_size:
        yield Disagreement(
            f"somaxconn is {backlog}, and {declared.table.world_size} ranks connect at "
            "once",
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
    size = facts.shared_memory_bytes
    if size < LEAST_SHARED_MEMORY_BYTES:
        yield Disagreement(f"{SHARED_MEMORY} has {size >> 20} MiB, less than 1024")


def firmware(facts: Facts, _declared: Declared | None) -> Iterator[Disagreement]:
    """Yield that the firmware is not one that the driver takes."""
    driver, found = "/usr/local/Ascend/driver/version.info", ""
    accepted = facts.version(driver, key="compatible_version_fw")
    found = facts.version("/usr/local/Ascend/firmware/version.info")
    ends = accepted.strip("[]").split(",")
    if len(ends) == 2 and not _parts(ends[0]) <= _parts(found) <= _parts(ends[1]):
        yield Disagreement(
            f"the firmware is {found}, and the driver takes {ends[0]} to {ends[1]}"
        )


def _parts(version: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", version)]
