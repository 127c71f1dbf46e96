"""What is read of this host, and the rows of the table that describe it.

Everything comes from files and from what tools print, through one ``Machine``. So a
folder of recorded files and outputs is read in the same way as the running machine. A
fact that cannot be read raises ``NotDetectedError``, and is never taken for agreement.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from ranktable.cluster.discovery import ascend, nvidia
from ranktable.cluster.discovery.machine import NotDetectedError
from ranktable.cluster.discovery.node_probe import probe
from ranktable.runtime.agreement import is_same_host
from ranktable.runtime.environment import Environment, resolve_environment
from ranktable.runtime.errors import LaunchEnvironmentError
from ranktable.runtime.process_chip import (
    ASCEND_LIST,
    ASCEND_MOUNTED,
    NO_CHIPS,
    VISIBLE_LISTS,
    SeenChip,
    process_chip,
    read_mounted,
)
from ranktable.schema.values import is_address, is_loopback

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ranktable.cluster.discovery.machine import Machine
    from ranktable.cluster.probes.probe_line import NodeProbe, ProbedChip
    from ranktable.runtime.process_chip import ProcessChip
    from ranktable.schema.model import Node, RankTable
    from ranktable.schema.report import Report

ENVIRON = "/environ"
"""File of a recorded folder with the variables of the job, ``NAME=value`` a line."""

TOOL_FOLDERS = ("/usr/local/Ascend/driver/tools", "/usr/local/Ascend/driver/bin")
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - it is only looked at
_RESOLVE_S = 3.0
"""For one host name; a name server that is gone would take much longer."""

_OF_JOB = re.compile(
    r"(?:HCCL|NCCL|GLOO|ASCEND|TORCH|TP|SCCL|OMPI_COMM_WORLD|PMI|PALS)_[A-Z0-9_]+|"
    r"(?:MASTER|LOCAL|NODE|GROUP|ROLE|RANK)_[A-Z_]+|RANK|WORLD_SIZE|CHIP_MAP|DEVICE_ID|"
    r"(?:CUDA|HIP|ROCR|NVIDIA)_VISIBLE_DEVICES|CUDA_DEVICE_ORDER|OMP_NUM_THREADS|"
    r"SLURM_(?:PROCID|LOCALID|NTASKS|NODEID|NNODES|JOB_ID|STEP_GPUS|JOB_GPUS|"
    r"GPUS_PER_TASK|NTASKS_PER_GPU|TRES_PER_TASK)|SLURMD_NODENAME|TORCHELASTIC_RUN_ID"
)


def variables_of_job(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a check looks at; the others may hold secrets."""
    return {name: env[name] for name in sorted(env) if _OF_JOB.fullmatch(name)}


class Process(NamedTuple):
    """A process that uses a chip."""

    chip: int
    pid: str
    name: str


@dataclass(frozen=True, kw_only=True)
class Declared:
    """The rows of a table that describe this host.

    Attributes:
        report: The report of the file, None if places in it are not wanted.
        table: The table.
        node_rank: Index of the node that this host is, None if it is not known.
        named: The names and addresses of this host that were compared with its hosts.
    """

    report: Report | None
    table: RankTable
    node_rank: int | None
    named: tuple[str, ...]

    @property
    def node(self) -> Node:
        """The node.

        Raises:
            NotDetectedError: It is not known.
        """
        if self.node_rank is None:
            raise NotDetectedError("the rows of this host are not known")
        return self.table.nodes[self.node_rank]

    @property
    def device_ids(self) -> list[int]:
        """The chips of this host, by local rank."""
        return [device.device_id for device in self.node.devices]

    @property
    def num_nodes(self) -> int:
        """The number of nodes of the job."""
        return self.table.num_nodes

    @property
    def is_first(self) -> bool:
        """Whether rank 0 is on this host."""
        return any(device.rank == 0 for device in self.node.devices)

    @property
    def is_ascend(self) -> bool:
        """Whether it is a table of HCCL."""
        return self.table.format.startswith("hccl")


_OTHERS = re.compile(r"kfd|(?:cambricon_dev|mtgpu\.|hl|neuron|accel|gcu)[0-9]+")
"""Device nodes of chips of other vendors."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """One host as far as it can be read; each fact is read when it is first needed.

    Attributes:
        machine: The host.
        env: The variables of the job.
        path: The table as it was named, None without one.
        is_live: Whether the job listens already: then its own port is not taken.
    """

    machine: Machine
    env: Mapping[str, str]
    path: str | None = None
    is_live: bool = False

    @cached_property
    def probe(self) -> NodeProbe:
        """What ``ranktable probe`` says of it."""
        return probe(self.machine)

    @property
    def chips(self) -> list[int]:
        """The chips that the driver shows.

        Raises:
            NotDetectedError: There is nothing that shows chips.
        """
        found = [chip.device_id for chip in self.probe.chips]
        if not found and not self.machine.names("/dev"):
            raise NotDetectedError("nothing shows chips: there is no /dev, and no tool")
        unread = [each for each in self.probe.unseen if each.what == nvidia.TOOL[0]]
        others = list(filter(_OTHERS.fullmatch, self.machine.names("/dev")))
        if not found and others:
            raise NotDetectedError(f"chips such as /dev/{others[0]} are not looked for")
        is_told = [each.why for each in unread] == [nvidia.NONE_LISTED]
        if not found and not is_told and unread and self.machine.numbers(*nvidia.NODES):
            # /dev/nvidiaN is not the chip N of the tool, so their numbers are unknown.
            raise NotDetectedError(f"{unread[0].what}: {unread[0].why}")
        return found

    @property
    def vendor(self) -> str | None:
        """The maker of its chips, also where no tool lists them."""
        has_nodes = bool(self.machine.numbers(*nvidia.NODES))
        return self.probe.vendor or ("nvidia" if has_nodes else None)

    @property
    def no_chips(self) -> str:
        """Why no chips were found, with what the tools say."""
        for each in self.probe.unseen:
            if each.what.endswith("-smi"):
                return f"{NO_CHIPS}: {each.why.replace('it says', f'{each.what} says')}"
        return NO_CHIPS

    @property
    def unreached(self) -> str | None:
        """Why its GPUs, or one of them, cannot be used; None if nothing says so."""
        if not self.machine.numbers(*nvidia.NODES):
            return None  # a host without GPUs may have the tool
        reasons = [
            each.why.replace("it says", "nvidia-smi says") for each in self.probe.unseen
        ]
        return next(filter(nvidia.is_unreached, reasons), None)

    @cached_property
    def seen_chips(self) -> list[SeenChip] | None:
        """The chips that this process may open, as libraries count them, if known."""
        mounted = self.env.get(ASCEND_MOUNTED, "all")
        uses_npus = self.is_ascend or (not self.probe.chips and ASCEND_LIST in self.env)
        if uses_npus and mounted != "all":
            return [SeenChip(chip, f"NPU {chip}") for chip in read_mounted(mounted)]
        if not self.probe.chips:
            return None
        found = [
            SeenChip(
                chip.device_id,
                chip.uuid
                or chip.bus_address
                or f"{self.probe.vendor} {chip.device_id}",
                chip.model or "",
            )
            for chip in self.probe.chips
        ]
        if self.is_ascend:
            with suppress(NotDetectedError):
                order = {each.device_id: each.logic_id for each in self.mapped_chips}
                found.sort(key=lambda each: order.get(each.device_id, each.device_id))
            found = [each._replace(identity=f"NPU {each.device_id}") for each in found]
        return found

    @cached_property
    def environment(self) -> Environment:
        """What the launcher says, nothing if that contradicts itself."""
        try:
            return resolve_environment(self.env, has_address=True)
        except LaunchEnvironmentError:
            return Environment()

    @cached_property
    def process_chip(self) -> ProcessChip:
        """The chip of this process."""
        chip = process_chip(
            self.env,
            self.environment,
            self.vendor,
            self.seen_chips,
            has_chips=bool(self.machine.numbers(*nvidia.NODES)),
        )
        is_missed = chip.unknown == NO_CHIPS
        return structs.replace(chip, unknown=self.no_chips) if is_missed else chip

    def chip_in_table(self, number: int | None) -> ProcessChip:
        """Return the chip of this process; without a list its table decides.

        Args:
            number: Its chip in the table, None without one.
        """
        chip = self.process_chip
        if number is None or any(name in self.env for name in VISIBLE_LISTS):
            return chip
        known = {each.device_id: each.identity for each in self.seen_chips or ()}
        unknown = "" if number in known else chip.unknown or "no such chip was found"
        return structs.replace(
            chip, device_id=number, identity=known.get(number, ""), unknown=unknown
        )

    def numbers_of_host(self, count: int) -> list[int]:
        """Return the numbers in the host of so many chips, if a variable has them.

        In a cgroup of Slurm or in a container the chips are counted from 0.
        """
        for name in ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "NVIDIA_VISIBLE_DEVICES"):
            found = read_mounted(self.env.get(name, ""))
            if len(found) == count:
                return found
        return []

    @property
    def is_ascend(self) -> bool:
        """Whether it has Ascend's chips."""
        return self.probe.vendor == "ascend"

    def run(self, *command: str) -> str:
        """Return what a tool prints.

        Raises:
            NotDetectedError: It prints nothing that can be used.
        """
        return self.machine.run(*command, folders=TOOL_FOLDERS)

    def of_chips(
        self, options: Mapping[int, str], read: Callable[[str], str]
    ) -> tuple[dict[int, str], dict[int, str]]:
        """Return what ``hccn_tool -i N OPTION -g`` says of chips; N is the physical id.

        Args:
            options: The option for each chip.
            read: Reads the output for one chip.

        Returns:
            What it says of chips, and why it says nothing of others.

        Raises:
            NotDetectedError: It says nothing of any chip.
        """
        found: dict[int, str] = {}
        unread: dict[int, str] = {}

        def ask(chip: int, option: str) -> None:
            try:
                output = self.run("hccn_tool", "-i", str(chip), *option.split(), "-g")
                found[chip] = read(output)
            except NotDetectedError as error:
                unread[chip] = str(error)

        for chip, option in options.items():
            ask(chip, option)
        if unread and not found:
            raise NotDetectedError(next(iter(unread.values())))
        return found, unread

    def addresses_of(
        self, expected: Mapping[int, str]
    ) -> tuple[dict[int, str], dict[int, str]]:
        """Return the address of each chip by hccn_tool, empty if it has none.

        Args:
            expected: The address that each chip should have: of the same family.
        """
        options = {
            chip: "-ip -inet6" if ":" in address else "-ip"
            for chip, address in expected.items()
        }
        return self.of_chips(options, _address)

    def links_of(
        self, device_ids: Iterable[int]
    ) -> tuple[dict[int, str], dict[int, str]]:
        """Return the state of the link of each chip in capitals: UP, DOWN."""
        return self.of_chips(dict.fromkeys(device_ids, "-link"), _link)

    @property
    def hccn_conf(self) -> dict[int, str]:
        """The addresses in hccn.conf by chip."""
        return ascend.parse_hccn(self.machine.text(ascend.HCCN))

    @property
    def mapped_chips(self) -> list[ascend.MappedChip]:
        """The numbers of each chip, by ``npu-smi info -m``."""
        return ascend.parse_mapping(self.run("npu-smi", "info", "-m"))

    @property
    def processes(self) -> list[Process]:
        """The processes that use chips."""
        vendor = self.probe.vendor
        if vendor == "ascend":
            by_place = {
                (each.npu_id, each.chip_id): each.device_id
                for each in self.mapped_chips
            }
            return list(_npu_processes(self.run("npu-smi", "info"), by_place))
        if vendor == "nvidia":
            by_uuid = {chip.uuid: chip.device_id for chip in self.probe.chips}
            output = self.run(
                "nvidia-smi",
                "--query-compute-apps=pid,gpu_uuid,used_memory",
                "--format=csv,noheader,nounits",
            )
            rows = [line.split(",") for line in output.splitlines()]
            return [
                Process(by_uuid[row[1].strip()], row[0].strip(), "")
                for row in rows
                if len(row) > 1 and row[1].strip() in by_uuid
            ]
        if vendor is None:
            raise NotDetectedError(self.no_chips)
        raise NotDetectedError(f"no tool of {vendor} lists processes")

    def status(self, chip: ProbedChip) -> str | None:
        """Return the status of a chip in the words of its vendor's tool."""
        return self.npu_health.get(chip.device_id) if self.is_ascend else chip.status

    @cached_property
    def npu_health(self) -> dict[int, str]:
        """The column Health of npu-smi by chip."""
        places = {
            (each.npu_id, each.chip_id): each.device_id for each in self.mapped_chips
        }
        found, npu, health = {}, -1, ""
        for line in self.run("npu-smi", "info").splitlines():
            if (row := _HEALTH_ROW.match(line)) is not None:
                npu, health = int(row[1]), row[2]
            elif health and (row := _CHIP_ROW.match(line)) is not None:
                found[places.get((npu, int(row[1])), npu)] = health
                health = ""
        return found

    @property
    def listening(self) -> set[int]:
        """The TCP ports on which something listens."""
        text = self._net("tcp", "tcp6")
        return {int(port, 16) for port in _LISTENING.findall(text)}

    def _net(self, first: str, other: str) -> str:
        """Return the text of two files of /proc/net; only the first has to be there."""
        text = self.machine.text(f"/proc/net/{first}")
        if self.machine.exists(f"/proc/net/{other}"):
            text += self.machine.text(f"/proc/net/{other}")
        return text

    @property
    def interfaces(self) -> list[str]:
        """The names of the network interfaces."""
        return re.findall(r"(?m)^\s*(\S+?):", self.machine.text("/proc/net/dev"))

    @cached_property
    def addresses(self) -> set[str]:
        """The addresses of this host, without those of loopback."""
        text = self._net("fib_trie", "if_inet6")
        found = {*_LOCAL_IPV4.findall(text)}
        found |= {_ipv6(digits) for digits in _LOCAL_IPV6.findall(text)}
        return {each for each in found if not is_loopback(each)}

    def limit(self, name: str) -> float:
        """Return the soft limit of processes: ``Max open files``."""
        text = self.machine.text("/proc/self/limits")
        found = re.search(rf"(?m)^{name}\s+(unlimited|[0-9]+)\b", text)
        if found is None:
            raise NotDetectedError(f"/proc/self/limits has no line {name}")
        return float("inf") if found[1] == "unlimited" else float(found[1])

    def kernel_numbers(self, path: str, count: int) -> list[int]:
        """Return the first numbers in a setting of the kernel below /proc/sys."""
        numbers = [int(n) for n in re.findall(r"[0-9]+", self.machine.text(path))]
        if len(numbers) < count:
            raise NotDetectedError(f"{path} has no number")
        return numbers[:count]

    def reserved(self, ports: Iterable[int]) -> set[int]:
        """Return those ports that the kernel gives to no connection by itself."""
        text = self.machine.text("/proc/sys/net/ipv4/ip_local_reserved_ports")
        ends = re.findall(r"([0-9]+)(?:-([0-9]+))?", text)
        spans = [(int(first), int(last or first)) for first, last in ends]
        return {port for port in ports if any(a <= port <= b for a, b in spans)}

    @property
    def shared_memory_bytes(self) -> tuple[int, int]:
        """The size of /dev/shm, and how much of it is free."""
        rows = self.run("df", "-Pk", SHARED_MEMORY).splitlines()
        cells = rows[-1].split() if len(rows) > 1 else []
        if len(cells) < 6 or not (cells[1].isdecimal() and cells[3].isdecimal()):
            raise NotDetectedError("df prints something else than a size of /dev/shm")
        return int(cells[1]) * 1024, int(cells[3]) * 1024

    def resolve(self, host: str) -> list[str]:
        """Return the addresses of a host name; none if it does not resolve."""
        if is_address(host):
            return [host]
        try:
            quick = replace(self.machine, timeout_s=_RESOLVE_S)
            output = quick.run("getent", "ahosts", host)
        except NotDetectedError as error:
            if "exit status 2" in str(error):  # getent's: no such key
                return []
            raise
        found = [line.split()[0] for line in output.splitlines() if line.strip()]
        return list(dict.fromkeys(found))

    def version(self, *paths: str, key: str = "Version") -> str:
        """Return a version from the first of some files that is there."""
        for path in paths:
            if not self.machine.exists(path):
                continue
            found = re.search(rf"(?mi)^{key}=\s*(\S+)", self.machine.text(path))
            if found:
                return found[1]
        raise NotDetectedError(f"{paths[0]} is not there")


def _address(output: str) -> str:
    """Return the address in ``hccn_tool -ip -g``, empty if the chip has none."""
    found = re.search(r"(?mi)^\s*(?:ipaddr|ipv6_address|ip)\s*:\s*(\S+)", output)
    return found[1] if found and is_address(found[1]) else ""


def _link(output: str) -> str:
    found = re.search(r"(?i)link status\s*:\s*(\w+)", output)
    if found is None:
        raise NotDetectedError("hccn_tool -link prints no link status")
    return found[1].upper()


_LISTENING = re.compile(r"(?m)^\s*\d+: [0-9A-F]+:([0-9A-F]{4}) \S+ 0A\b")
"""A row of /proc/net/tcp in the state TCP_LISTEN."""

_LOCAL_IPV4 = re.compile(r"\|-- ([0-9.]+)\n\s*/32 host LOCAL")
_LOCAL_IPV6 = re.compile(r"(?m)^([0-9a-f]{32}) ")


def _ipv6(digits: str) -> str:
    import ipaddress  # 10 ms, and few hosts of a job are named by such an address

    return str(ipaddress.IPv6Address(int(digits, 16)))


# The rows of a chip in npu-smi info: NPU, name and health; then chip and bus address.
_HEALTH_ROW = re.compile(r"\|\s*(\d+)\s+[A-Za-z0-9_-]+\s*\|\s*([A-Za-z]+)\s*\|")
_CHIP_ROW = re.compile(r"\|\s*(\d+)(?:\s+\d+)?\s*\|\s*[0-9A-Fa-f]+:[0-9A-Fa-f:.]+\s*\|")
_PROCESS = re.compile(
    r"\|\s*(\d+)(?:\s+(\d+))?\s*\|\s*(\d+)\s*\|\s*([^|]*?)\s*\|\s*\d+\s*\|.*"
)
_NO_PROCESSES = "No running processes found"


def _npu_processes(
    output: str, by_place: Mapping[tuple[int, int], int]
) -> Iterator[Process]:
    """Yield the processes in the table at the end of ``npu-smi info``."""
    at = output.find("Process id")
    if at < 0 and _NO_PROCESSES not in output:
        raise NotDetectedError("npu-smi info prints no table of processes")
    for line in output[max(at, 0) :].splitlines():
        row = _PROCESS.fullmatch(line.strip())
        if row is not None:
            npu, chip = int(row[1]), int(row[2] or 0)
            yield Process(by_place.get((npu, chip), npu), row[3], row[4])


def names_of(facts: Facts, host: str | None, env_host: str | None) -> tuple[str, ...]:
    """Return the names and addresses of this host, the surest first."""
    if host is not None:
        return (host,)
    names = [facts.machine.host()] if facts.machine.has_name else []
    if env_host:
        names.append(env_host)
    with suppress(NotDetectedError):
        names += sorted(facts.addresses)
    return tuple(dict.fromkeys(names))


def find_node(table: RankTable, names: Sequence[str], *, is_index: bool) -> int | None:
    """Return the index of the node that one of some names describes.

    Args:
        table: The table.
        names: Names and addresses of this host.
        is_index: Whether a number among them is the index of a node.
    """
    for name in names:
        for is_it in (str.__eq__, is_same_host):
            found = [
                node_rank
                for node_rank, node in enumerate(table.nodes)
                if any(is_it(each, name) for each in _called(node))
            ]
            if len(found) == 1:
                return found[0]
    if is_index and names[0].isdigit() and int(names[0]) < table.num_nodes:
        return int(names[0])
    is_only = table.num_nodes == 1 and table.hosts[0] is None
    return 0 if is_only and not is_index else None


def _called(node: Node) -> list[str]:
    """Return what a table calls a node; HCCL has its address beside its name."""
    more = [node.extra.get(key) for key in ("host_ip", "container_ip")]
    return [name for name in (node.host, *more) if isinstance(name, str) and name]
