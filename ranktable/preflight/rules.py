"""RT701 to RT749: what is declared against what is there; ``link_rules`` has RT78x.

A rule about one host says what it needs, what it compares and where that is known from;
``comparisons`` has the functions. Its examples are folders for ``--root`` as one text:
``== PATH`` is before the content of each file. The rules about all ranks have none.
Sources: ``docs/check.md``.
"""

from __future__ import annotations

from typing import Any

from ranktable.preflight import comparisons
from ranktable.preflight.link_rules import OF_LINKS
from ranktable.schema.finding import Rule, Severity


class HostRule(Rule):
    """A rule about one host.

    Attributes:
        needs: The facts that it looks at, in words.
        compares: What it compares with what.
        source: Where this is known from.
        is_about_table: Whether it needs the rows of this host in a table.
        is_about_npus: Whether it is about Ascend's chips only.
    """

    def __init__(
        self,
        *,
        needs: tuple[str, ...],
        compares: str,
        source: str,
        is_about_table: bool = True,
        is_about_npus: bool = False,
        **more: Any,
    ) -> None:
        """Define a code; see the attributes."""
        super().__init__(**more)
        self.needs = needs
        self.compares = compares
        self.source = source
        self.is_about_table = is_about_table
        self.is_about_npus = is_about_npus


_ASCEND = "hiascend, npu-smi and hccn_tool command references"
_TORCH = "measured with torch 2.13"

HOST = HostRule(
    code="RT701",
    name="host-not-in-table",
    summary="the table has no row of this host",
    fix="Make the table again for these hosts, or name the host with --host.",
    needs=("host name", "addresses"),
    compares="the name and the addresses of this host with the hosts of the table",
    source="ranktable",
    find=comparisons.host,
)
CHIPS = HostRule(
    code="RT702",
    name="chips-missing",
    summary="the host does not have the chips that the table gives it",
    fix="`ranktable probe` shows the chips; replace the node, or correct device_id.",
    needs=("device nodes", "npu-smi, nvidia-smi or tpu-smi"),
    compares="the chips that `probe` sees with device_id",
    source="NVIDIA/aicr#1858",
    find=comparisons.chips,
)
HEALTH = HostRule(
    code="RT703",
    name="chip-unhealthy",
    summary="a chip of the table is not healthy",
    fix="Take the node out of the table with `ranktable fit --lost NODE`, and have the "
    "chip looked at.",
    needs=("tpu-smi", "npu-smi info"),
    compares="the status of each chip with that of a working one",
    source="sophgo/vllm-tpu",
    is_about_table=False,
    find=comparisons.health,
)
VISIBLE_TEXT = HostRule(
    code="RT704",
    name="visible-list-cut-off",
    summary="a library reads only the beginning of a list of visible devices",
    fix="Write ids with commas only, for CANN in ascending order: 0,1,2,3.",
    needs=("the variables",),
    compares="what is written with what is read of it",
    source="hiascend, ASCEND_RT_VISIBLE_DEVICES",
    is_about_table=False,
    find=comparisons.visible_text,
)
VISIBLE = HostRule(
    code="RT705",
    name="visible-chips-differ",
    summary="the visible devices are not the chips of the table",
    fix="Unset the list, or give it the chips of the table in the order of the ranks.",
    needs=("the variables", "npu-smi info -m"),
    compares="the physical chips behind the list with device_id by local rank",
    source="hiascend, ASCEND_RT_VISIBLE_DEVICES; Ascend, ascend-docker-runtime",
    find=comparisons.visible_chips,
)
DEVICE_IP = HostRule(
    code="RT706",
    name="device-ip-differs",
    summary="the address of a chip is not the one of the table",
    fix="Make the table again from the addresses that `hccn_tool -i N -ip -g` prints.",
    needs=("hccn_tool -ip", "hccn.conf"),
    compares="the address of each chip with device_ip",
    source="vllm-project/vllm-ascend#16847; " + _ASCEND,
    is_about_npus=True,
    find=comparisons.device_ip,
)
HCCN_CONF = HostRule(
    code="RT707",
    name="hccn-conf-differs",
    summary="hccn.conf and the driver have different addresses",
    fix="Write hccn.conf again with hccn_tool, and mount it into the container.",
    needs=("hccn_tool -ip", "hccn.conf"),
    compares="address_N in /etc/hccn.conf with the address that the driver has",
    source=_ASCEND,
    is_about_table=False,
    is_about_npus=True,
    find=comparisons.hccn_files,
)
LINK = HostRule(
    code="RT708",
    name="link-down",
    summary="the network link of a chip is down",
    fix="Look at the cable and the optics: `hccn_tool -i N -optical -g`.",
    needs=("hccn_tool -link",),
    compares="the state of each link with UP",
    source=_ASCEND,
    is_about_table=False,
    is_about_npus=True,
    find=comparisons.links,
)
BUSY = HostRule(
    code="RT709",
    name="chip-busy",
    summary="a process still uses a chip of the table",
    fix="See whose process it is, and end it.",
    needs=("npu-smi info", "nvidia-smi --query-compute-apps"),
    compares="the processes on each chip with none",
    source="AMD-AGI/Primus node_smoke; " + _ASCEND,
    is_about_table=False,
    find=comparisons.busy,
)
PORTS = HostRule(
    code="RT710",
    name="port-taken",
    summary="something listens on a port that the job needs",
    fix="`ss -ltnp` shows whose it is.",
    needs=("/proc/net/tcp",),
    compares="the ports of HCCL, and MASTER_PORT on the host of rank 0, with those on "
    "which something listens",
    source="vllm-project/vllm-ascend#4725, #11968; pytorch/pytorch#72816",
    is_about_table=False,
    find=comparisons.ports,
)
PORT_RANGE = HostRule(
    code="RT711",
    name="port-not-reserved",
    summary="the kernel may give a port of HCCL to another connection",
    fix="sysctl -w net.ipv4.ip_local_reserved_ports=60000-60031",
    severity=Severity.NOTE,
    needs=("/proc/sys/net/ipv4/ip_local_port_range, ip_local_reserved_ports",),
    compares="HCCL's ports with the range of the kernel",
    source="hiascend, HCCL_IF_BASE_PORT",
    is_about_table=False,
    find=comparisons.port_range,
)
PORT_SETTING = HostRule(
    code="RT712",
    name="port-setting",
    summary="a variable with ports cannot be read",
    fix="Correct the variable on all hosts; one process for each chip needs neither.",
    needs=("the variables",),
    compares="HCCL_IF_BASE_PORT and HCCL_*_SOCKET_PORT_RANGE with their form",
    source="hiascend, HCCL_HOST_SOCKET_PORT_RANGE",
    is_about_table=False,
    find=comparisons.port_settings,
)
INTERFACE = HostRule(
    code="RT713",
    name="no-such-interface",
    summary="a variable names an interface or address that is not here",
    fix="`ip -brief address` lists the interfaces; name the one of the job's network.",
    needs=("/proc/net/dev", "the variables"),
    compares="*_SOCKET_IFNAME and HCCL_IF_IP with the interfaces of this host, and "
    "with loopback in a job of several nodes",
    source="aws-samples/aws-do-eks#51; NVIDIA/nccl#913; " + _TORCH,
    is_about_table=False,
    find=comparisons.interfaces,
)
MASTER = HostRule(
    code="RT714",
    name="master-address",
    summary="the address of rank 0 does not resolve here, or is loopback",
    fix="Set MASTER_ADDR to the name or address by which all hosts reach rank 0.",
    needs=("getent", "the variables"),
    compares="what MASTER_ADDR, or the host of rank 0, resolves to with an address "
    "that other hosts reach",
    source="pytorch/pytorch#73682; mlc-ai/pith-train#91; " + _TORCH,
    is_about_table=False,
    find=comparisons.master_address,
)
OWN_NAME = HostRule(
    code="RT715",
    name="host-name-is-loopback",
    summary="the name of this host resolves to a loopback address",
    fix="Set GLOO_SOCKET_IFNAME, or take the name out of the 127 lines of /etc/hosts.",
    severity=Severity.WARNING,
    needs=("getent",),
    compares="what the name of this host resolves to with an address of its network",
    source="aws-samples/aws-do-eks#69; ray-project/ray#37461",
    find=comparisons.own_name,
)
PATH = HostRule(
    code="RT716",
    name="table-path",
    summary="the processes may read another table than this one",
    fix="Name the table by its whole path, in a folder that is mounted as a whole.",
    severity=Severity.WARNING,
    needs=("/proc/self/mountinfo", "the variables", "the file"),
    compares="the file that was checked with the one that processes will read",
    source="Kubernetes, Secrets and ConfigMaps, subPath",
    find=comparisons.table_path,
)
OPEN_FILES = HostRule(
    code="RT717",
    name="too-few-open-files",
    summary="rank 0 may open fewer files than there are ranks",
    fix="ulimit -n 65535, in the launcher that starts the processes.",
    needs=("/proc/self/limits", "/proc/sys/net/core/somaxconn"),
    compares="open files of a process on the host of rank 0 with ranks + 200, and the "
    "backlog with ranks",
    source="pytorch/pytorch#76913; " + _TORCH,
    is_about_table=False,
    find=comparisons.open_files,
)
LOCKED_MEMORY = HostRule(
    code="RT718",
    name="too-little-locked-memory",
    summary="a process may lock too little memory for RDMA",
    fix="ulimit -l unlimited, or --ulimit memlock=-1 for a container.",
    severity=Severity.WARNING,
    needs=("/proc/self/limits", "/sys/class/infiniband"),
    compares="locked memory with no limit, where there is RDMA",
    source="NVIDIA/nccl-tests#206",
    is_about_table=False,
    find=comparisons.locked_memory,
)
SHARED_MEMORY = HostRule(
    code="RT719",
    name="small-shared-memory",
    summary="the shared memory of the host is small",
    fix="--shm-size=1g or more, or an emptyDir with medium Memory.",
    severity=Severity.WARNING,
    needs=("df /dev/shm",),
    compares="its size with 1 GiB, and what is free with an eighth of it",
    source="NVIDIA/nccl#342",
    is_about_table=False,
    find=comparisons.shared_memory,
)
NO_CHIP = HostRule(
    code="RT720",
    name="process-without-chip",
    summary="a process finds no chip: too few are visible to it",
    fix="Start one process for each visible chip, or unset the list of devices.",
    needs=("the variables", "npu-smi, nvidia-smi or device nodes"),
    compares="LOCAL_RANK and LOCAL_WORLD_SIZE with the chips that the process can use",
    source="mace#435; deepspeedai/DeepSpeed#3165; jax-ml/jax#29669",
    is_about_table=False,
    find=comparisons.own_chip,
)
OF_HOST: tuple[HostRule, ...] = (
    HOST, CHIPS, HEALTH, VISIBLE_TEXT, VISIBLE, DEVICE_IP, HCCN_CONF, LINK, BUSY, PORTS,
    PORT_RANGE, PORT_SETTING, INTERFACE, MASTER, OWN_NAME, PATH, OPEN_FILES,
    LOCKED_MEMORY, SHARED_MEMORY, NO_CHIP,
)  # fmt: skip
"""The rules about one host, in the order in which they are checked."""


MISSING = Rule(
    code="RT730",
    name="process-missing",
    summary="a process did not come, or ended while the others waited",
    fix="Look at the output of this rank and at its host.",
)
DOUBLED = Rule(
    code="RT731",
    name="rank-came-twice",
    summary="two processes have the same rank",
    fix="Give every process a RANK of its own, and end those of an earlier job; often "
    "a node was started twice, or with the node_rank of another.",
)
SAME_CHIP = Rule(
    code="RT732",
    name="ranks-on-one-chip",
    summary="two processes of a host would use the same chip",
    fix="Give each process a local rank of its own, or its own list of devices.",
)
OTHER_TABLE = Rule(
    code="RT733",
    name="other-table",
    summary="processes have different tables",
    fix="Copy one file to all hosts: `ranktable show --digest FILE` on each.",
)
OTHER_SIZE = Rule(
    code="RT734",
    name="other-size",
    summary="processes differ in the job's size, or a rank is not below it",
    fix="Start every process with the same WORLD_SIZE.",
)
OTHER_VERSION = Rule(
    code="RT735",
    name="other-version",
    summary="processes have different versions of a library or driver",
    fix="Use one image on all hosts.",
    severity=Severity.WARNING,
)
OTHER_SETTING = Rule(
    code="RT736",
    name="other-setting",
    summary="a variable that all ranks must have alike differs",
    fix="Export the variable on all hosts by the launcher, not in the files of shells.",
)
CLOCK = Rule(
    code="RT737",
    name="clock-is-off",
    summary="the clocks of two hosts differ by more than a second",
    fix="Let a time service set the clocks of all hosts.",
    severity=Severity.WARNING,
)
MISPLACED = Rule(
    code="RT738",
    name="rank-misplaced",
    summary="a rank runs on another host than its table says",
    fix="Start with `ranktable run`, which numbers processes as the table does, or "
    "make the table from the job: `ranktable check --live -o observed.json`.",
)
UNREACHABLE = Rule(
    code="RT739",
    name="rank-0-unreachable",
    summary="a process cannot reach rank 0",
    fix="Look at the output of rank 0; MASTER_ADDR and MASTER_PORT are those of its "
    "host on every host.",
)

IDLE_CHIP = Rule(
    code="RT740",
    name="idle-chips",
    summary="chips that the processes of a host can use are used by none",
    fix="Start one process for each chip, or let fewer be visible.",
    severity=Severity.NOTE,
)

NO_WAY = Rule(
    code="RT741",
    name="hosts-not-connected",
    summary="a host does not reach another one on the ports that a job uses",
    fix="Open the ports of net.ipv4.ip_local_port_range between the hosts of the job, "
    "or name the interface of their network: GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME.",
)

OF_RANKS: tuple[Rule, ...] = (
    MISSING, DOUBLED, SAME_CHIP, OTHER_TABLE, OTHER_SIZE, OTHER_VERSION, OTHER_SETTING,
    CLOCK, MISPLACED, UNREACHABLE, IDLE_CHIP, NO_WAY,
)  # fmt: skip
"""The rules about all ranks."""

RULES: tuple[Rule, ...] = (*OF_HOST, *OF_RANKS, *OF_LINKS)
