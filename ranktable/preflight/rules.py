"""RT701 to RT749: what is declared against what is there; ``link_rules`` has RT78x.

A rule about one host says what it needs, what it compares and where that is known from;
``comparisons`` has the functions. Its examples are folders for ``--root`` as one text:
``== PATH`` is before the content of each file. The rules about all ranks have none.
Sources: ``docs/check.md``.
"""

from __future__ import annotations

from typing import Any

from ranktable.cluster.discovery.machine import FAILED, RECORDED, recorded_name
from ranktable.preflight import comparisons
from ranktable.preflight.link_rules import OF_LINKS
from ranktable.schema.finding import Rule, Severity

_TABLE = (
    b'{"version":"1.0","node_list":[\n'
    b' {"host":"n1","device_list":[{"device_id":"0","rank":"0"},'
    b'{"device_id":"1","rank":"1"}]},\n'
    b' {"host":"n2","device_list":[{"device_id":"0","rank":"2"},'
    b'{"device_id":"1","rank":"3"}]}]}\n'
)
_NPU_TABLE = (
    b'{"status":"completed","version":"1.0","server_count":"2","server_list":[\n'
    b' {"server_id":"n1","device":[{"device_id":"0","rank_id":"0",'
    b'"device_ip":"192.168.1.1"}]},\n'
    b' {"server_id":"n2","device":[{"device_id":"0","rank_id":"1",'
    b'"device_ip":"192.168.1.2"}]}]}\n'
)


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
        beside: bytes | None = None,
        **more: Any,
    ) -> None:
        """Define a code; see the attributes."""
        beside = beside or (_NPU_TABLE if is_about_npus else _TABLE)
        super().__init__(command="check", beside=beside, **more)
        self.needs = needs
        self.compares = compares
        self.source = source
        self.is_about_table = is_about_table
        self.is_about_npus = is_about_npus


def _root(*files: tuple[str, str], chips: int = 2) -> bytes:
    """Return a recorded host n1 with SOPHGO chips and more files."""
    nodes = [(f"dev/sg-host-drv-{chip}", "") for chip in range(chips)]
    every = [("etc/hostname", "n1"), *nodes, *files]
    return "".join(
        f"== {path}\n{text}\n" if text else f"== {path}\n" for path, text in every
    ).encode()


def _npu(*files: tuple[str, str]) -> bytes:
    """Return a recorded host n1 with one NPU and more files."""
    return _root(("dev/davinci0", ""), *files, chips=0)


def _tool(words: str, output: str, ending: str = "") -> tuple[str, str]:
    return f"{RECORDED}/{recorded_name(*words.split())}{ending}", output


def _listener(port: int) -> tuple[str, str]:
    return "proc/net/tcp", f"   0: 00000000:{port:04X} 00000000:0000 0A 0 0 0"


_ASCEND = "hiascend, npu-smi and hccn_tool command references"
_TORCH = "measured with torch 2.13"

HOST = HostRule(
    code="RT701",
    name="host-not-in-table",
    summary="the table has no row of this host",
    why="The processes of this host would take the rows of another one, or find no "
    "chip. The table is of another job or allocation, or names hosts otherwise.",
    fix="Make the table again for these hosts, or name the host with --host.",
    needs=("host name", "addresses"),
    compares="the name and the addresses of this host with the hosts of the table",
    source="ranktable",
    bad=b"== etc/hostname\nn7\n== proc/net/fib_trie\n|-- 10.0.0.7\n/32 host LOCAL\n",
    good=_root(),
    find=comparisons.host,
)
CHIPS = HostRule(
    code="RT702",
    name="chips-missing",
    summary="the host does not have the chips that the table gives it",
    why="A chip was lost, or the ids are of another host. The processes on these chips "
    "fail at the start, and all others wait for them.",
    fix="`ranktable probe` shows the chips; replace the node, or correct device_id.",
    needs=("device nodes", "npu-smi, nvidia-smi or tpu-smi"),
    compares="the chips that `probe` sees with device_id",
    source="NVIDIA/aicr#1858",
    seen_as=("invalid device ordinal",),
    bad=_root(chips=1),
    good=_root(),
    find=comparisons.chips,
)
_TPU_SMI = "tpu-smi --noloop --json_format"
_STATUS = (
    '{"card_num":1,"chip_num":2,"card0":{"card_idx":0,"chip_num_of_card":2,'
    '"chip0":{"status":"Active"},"chip1":{"status":"STATUS"}}}'
)
HEALTH = HostRule(
    code="RT703",
    name="chip-unhealthy",
    summary="a chip of the table is not healthy",
    why="The vendor's tool gives it a status other than that of a working chip.",
    fix="Take the node out of the table with `ranktable fit --lost NODE`, and have the "
    "chip looked at.",
    needs=("tpu-smi", "npu-smi info"),
    compares="the status of each chip with that of a working one",
    source="sophgo/vllm-tpu",
    is_about_table=False,
    bad=_root(_tool(_TPU_SMI, _STATUS.replace("STATUS", "Fault"))),
    good=_root(_tool(_TPU_SMI, _STATUS.replace("STATUS", "Active"))),
    find=comparisons.health,
)
VISIBLE_TEXT = HostRule(
    code="RT704",
    name="visible-list-cut-off",
    summary="a library reads only the beginning of a list of visible devices",
    why="CANN takes digits and commas: a blank, a range or an id that does not exist "
    "ends the list without a message, so the process sees fewer chips. It must ascend. "
    "CUDA and HIP end it at an index or UUID that does not exist; torch sees no device "
    "at all if an entry is there twice.",
    fix="Write ids with commas only, for CANN in ascending order: 0,1,2,3.",
    needs=("the variables",),
    compares="what is written with what is read of it",
    source="hiascend, ASCEND_RT_VISIBLE_DEVICES",
    is_about_table=False,
    beside=_NPU_TABLE,
    bad=_npu(("environ", "ASCEND_RT_VISIBLE_DEVICES=0, 1,2")),
    good=_npu(("environ", "ASCEND_RT_VISIBLE_DEVICES=0")),
    find=comparisons.visible_text,
)
VISIBLE = HostRule(
    code="RT705",
    name="visible-chips-differ",
    summary="the visible devices are not the chips of the table",
    why="Each process takes the chip with its local rank among the visible ones, so it "
    "would use another chip than the one that the others look for.",
    fix="Unset the list, or give it the chips of the table in the order of the ranks.",
    needs=("the variables", "npu-smi info -m"),
    compares="the physical chips behind the list with device_id by local rank",
    source="hiascend, ASCEND_RT_VISIBLE_DEVICES; Ascend, ascend-docker-runtime",
    beside=_NPU_TABLE,
    bad=_npu(("environ", "ASCEND_VISIBLE_DEVICES=3")),
    good=_npu(("environ", "ASCEND_VISIBLE_DEVICES=0")),
    find=comparisons.visible_chips,
)
DEVICE_IP = HostRule(
    code="RT706",
    name="device-ip-differs",
    summary="the address of a chip is not the one of the table",
    why="The other chips connect to the address of the table. With one stale address "
    "among 32 NPUs everything was slow, and there was no message.",
    fix="Make the table again from the addresses that `hccn_tool -i N -ip -g` prints.",
    needs=("hccn_tool -ip", "hccn.conf"),
    compares="the address of each chip with device_ip",
    source="vllm-project/vllm-ascend#16847; " + _ASCEND,
    is_about_npus=True,
    bad=_npu(_tool("hccn_tool -i 0 -ip -g", "ipaddr:192.168.1.9")),
    good=_npu(_tool("hccn_tool -i 0 -ip -g", "ipaddr:192.168.1.1")),
    find=comparisons.device_ip,
)
HCCN_CONF = HostRule(
    code="RT707",
    name="hccn-conf-differs",
    summary="hccn.conf and the driver have different addresses",
    why="After a reset the driver takes the addresses of hccn.conf, and in a container "
    "libraries read the file. A file that was not mounted gave wrong results.",
    fix="Write hccn.conf again with hccn_tool, and mount it into the container.",
    needs=("hccn_tool -ip", "hccn.conf"),
    compares="address_N in /etc/hccn.conf with the address that the driver has",
    source=_ASCEND,
    is_about_table=False,
    is_about_npus=True,
    bad=_npu(
        ("etc/hccn.conf", "address_0=192.168.1.9"),
        _tool("hccn_tool -i 0 -ip -g", "ipaddr:192.168.1.1"),
    ),
    good=_npu(
        ("etc/hccn.conf", "address_0=192.168.1.1"),
        _tool("hccn_tool -i 0 -ip -g", "ipaddr:192.168.1.1"),
    ),
    find=comparisons.hccn_files,
)
LINK = HostRule(
    code="RT708",
    name="link-down",
    summary="the network link of a chip is down",
    why="No other host reaches this chip; the job waits until its time-out.",
    fix="Look at the cable and the optics: `hccn_tool -i N -optical -g`.",
    needs=("hccn_tool -link",),
    compares="the state of each link with UP",
    source=_ASCEND,
    is_about_table=False,
    is_about_npus=True,
    bad=_npu(_tool("hccn_tool -i 0 -link -g", "link status: DOWN")),
    good=_npu(_tool("hccn_tool -i 0 -link -g", "link status: UP")),
    find=comparisons.links,
)
_MAPPED = (
    "NPU ID  Chip ID  Chip Logic ID  Chip Name\n0  0  0  Ascend 910B3\n0  1  -  Mcu"
)
BUSY = HostRule(
    code="RT709",
    name="chip-busy",
    summary="a process still uses a chip of the table",
    why="It was left over from an earlier job, or another job has this chip; memory "
    "and ports are taken.",
    fix="See whose process it is, and end it.",
    needs=("npu-smi info", "nvidia-smi --query-compute-apps"),
    compares="the processes on each chip with none",
    source="AMD-AGI/Primus node_smoke; " + _ASCEND,
    is_about_table=False,
    seen_as=("Maybe the last training process is running",),
    beside=_NPU_TABLE,
    bad=_npu(
        _tool("npu-smi info -m", _MAPPED),
        _tool(
            "npu-smi info",
            "| NPU     Chip    | Process id    | Process name | Process memory(MB) |\n"
            "| 0       0       | 1444272       | python3      | 60970              |",
        ),
    ),
    good=_npu(
        _tool("npu-smi info -m", _MAPPED),
        _tool("npu-smi info", "| No running processes found in NPU 0 |"),
    ),
    find=comparisons.busy,
)
PORTS = HostRule(
    code="RT710",
    name="port-taken",
    summary="something listens on a port that the job needs",
    why="Another job or a process that was left over has the port. The new process "
    "fails, or ranks connect to the wrong program.",
    fix="`ss -ltnp` shows whose it is.",
    needs=("/proc/net/tcp",),
    compares="the ports of HCCL, and MASTER_PORT on the host of rank 0, with those on "
    "which something listens",
    source="vllm-project/vllm-ascend#4725, #11968; pytorch/pytorch#72816",
    is_about_table=False,
    seen_as=("EADDRINUSE", "address already in use", "EI0019"),
    beside=_NPU_TABLE,
    bad=_npu(_listener(60003)),
    good=_npu(_listener(22)),
    find=comparisons.ports,
)
PORT_RANGE = HostRule(
    code="RT711",
    name="port-not-reserved",
    summary="the kernel may give a port of HCCL to another connection",
    why="The ports from 60000 on are within the range from which the kernel takes the "
    "ports of outgoing connections, so that a start fails now and then.",
    fix="sysctl -w net.ipv4.ip_local_reserved_ports=60000-60031",
    severity=Severity.NOTE,
    needs=("/proc/sys/net/ipv4/ip_local_port_range, ip_local_reserved_ports",),
    compares="HCCL's ports with the range of the kernel",
    source="hiascend, HCCL_IF_BASE_PORT",
    is_about_table=False,
    beside=_NPU_TABLE,
    bad=_npu(
        ("proc/sys/net/ipv4/ip_local_port_range", "32768 60999"),
        ("proc/sys/net/ipv4/ip_local_reserved_ports", " "),
    ),
    good=_npu(
        ("proc/sys/net/ipv4/ip_local_port_range", "32768 60999"),
        ("proc/sys/net/ipv4/ip_local_reserved_ports", "60000-60031"),
    ),
    find=comparisons.port_range,
)
PORT_SETTING = HostRule(
    code="RT712",
    name="port-setting",
    summary="a variable with ports cannot be read",
    why="HCCL refuses a base port outside 1024 to 65520, and ranges that overlap.",
    fix="Correct the variable on all hosts; one process for each chip needs neither.",
    needs=("the variables",),
    compares="HCCL_IF_BASE_PORT and HCCL_*_SOCKET_PORT_RANGE with their form",
    source="hiascend, HCCL_HOST_SOCKET_PORT_RANGE",
    is_about_table=False,
    beside=_NPU_TABLE,
    bad=_npu(("environ", "HCCL_HOST_SOCKET_PORT_RANGE=60000-60050,60040")),
    good=_npu(("environ", "HCCL_HOST_SOCKET_PORT_RANGE=60000,60050-60100")),
    find=comparisons.port_settings,
)
_NET = "Inter-|   Receive\n face |bytes\n    lo: 1 2\n  eth0: 3 4"
INTERFACE = HostRule(
    code="RT713",
    name="no-such-interface",
    summary="a variable names a network interface or address that is not here",
    why="Gloo takes plain names and fails at once; NCCL and HCCL take the beginning "
    "of a name, `=` and `^`, and fail or wait if none matches.",
    fix="`ip -brief address` lists the interfaces; name the one of the job's network.",
    needs=("/proc/net/dev", "the variables"),
    compares="*_SOCKET_IFNAME and HCCL_IF_IP with the interfaces of this host, and "
    "with loopback in a job of several nodes",
    source="aws-samples/aws-do-eks#51; NVIDIA/nccl#913; " + _TORCH,
    is_about_table=False,
    seen_as=("Unable to find address for:", "no socket interface found"),
    bad=_root(("environ", "GLOO_SOCKET_IFNAME=eth9"), ("proc/net/dev", _NET)),
    good=_root(("environ", "GLOO_SOCKET_IFNAME=eth0"), ("proc/net/dev", _NET)),
    find=comparisons.interfaces,
)
MASTER = HostRule(
    code="RT714",
    name="master-address",
    summary="the address of rank 0 does not resolve here, or is a loopback address",
    why="Each rank asks its own host for the name. Torch then speaks of IPv6 addresses "
    "and waits; with a loopback address every host waits for itself.",
    fix="Set MASTER_ADDR to the name or address by which all hosts reach rank 0.",
    needs=("getent", "the variables"),
    compares="what MASTER_ADDR, or the host of rank 0, resolves to with an address "
    "that other hosts reach",
    source="pytorch/pytorch#73682; mlc-ai/pith-train#91; " + _TORCH,
    is_about_table=False,
    seen_as=("IPv6 network addresses of",),
    bad=_root(
        ("environ", "MASTER_ADDR=n1.invalid"),
        _tool("getent ahosts n1.invalid", "getent failed with exit status 2", FAILED),
    ),
    good=_root(
        ("environ", "MASTER_ADDR=n1.cluster"),
        _tool("getent ahosts n1.cluster", "10.0.0.1  STREAM n1.cluster"),
    ),
    find=comparisons.master_address,
)
_ELSEWHERE = ("environ", "MASTER_ADDR=10.0.0.1")
OWN_NAME = HostRule(
    code="RT715",
    name="host-name-is-loopback",
    summary="the name of this host resolves to a loopback address",
    why="Gloo tells the other ranks the address that the name of its host resolves to. "
    "They then connect to themselves.",
    fix="Set GLOO_SOCKET_IFNAME, or take the name out of the 127 lines of /etc/hosts.",
    severity=Severity.WARNING,
    needs=("getent",),
    compares="what the name of this host resolves to with an address of its network",
    source="aws-samples/aws-do-eks#69; ray-project/ray#37461",
    bad=_root(_ELSEWHERE, _tool("getent ahosts n1", "127.0.1.1  STREAM n1")),
    good=_root(_ELSEWHERE, _tool("getent ahosts n1", "10.0.0.1  STREAM n1")),
    find=comparisons.own_name,
)
_READ = ("environ", "RANK_TABLE_FILE=/job/table.json")
_MOUNT = "812 790 0:44 / {} ro - ext4 /dev/vda1 ro"
PATH = HostRule(
    code="RT716",
    name="table-path",
    summary="the processes may read another table than this one",
    why="A file that is mounted by itself is never refreshed, a relative path depends "
    "on the folder, and RANK_TABLE_FILE may name another file.",
    fix="Name the table by its whole path, in a folder that is mounted as a whole.",
    severity=Severity.WARNING,
    needs=("/proc/self/mountinfo", "the variables", "the file"),
    compares="the file that was checked with the one that processes will read",
    source="Kubernetes, Secrets and ConfigMaps, subPath",
    bad=_root(_READ, ("proc/self/mountinfo", _MOUNT.format("/job/table.json"))),
    good=_root(_READ, ("proc/self/mountinfo", _MOUNT.format("/job"))),
    find=comparisons.table_path,
)
_LIMITS = "Limit  Soft Limit  Hard Limit  Units\nMax open files  {}  1048576  files"
_BACKLOG = ("proc/sys/net/core/somaxconn", "4096")
OPEN_FILES = HostRule(
    code="RT717",
    name="too-few-open-files",
    summary="rank 0 may open fewer files than there are ranks",
    why="The store of rank 0 has a connection of every rank. Without files for them "
    "ranks see their connection reset.",
    fix="ulimit -n 65535, in the launcher that starts the processes.",
    needs=("/proc/self/limits", "/proc/sys/net/core/somaxconn"),
    compares="open files of a process on the host of rank 0 with ranks + 200, and the "
    "backlog with ranks",
    source="pytorch/pytorch#76913; " + _TORCH,
    is_about_table=False,
    seen_as=("Too many open files",),
    bad=_root(("proc/self/limits", _LIMITS.format(64)), _BACKLOG),
    good=_root(("proc/self/limits", _LIMITS.format(65535)), _BACKLOG),
    find=comparisons.open_files,
)
_LOCKED = "Max locked memory  {}  unlimited  bytes"
LOCKED_MEMORY = HostRule(
    code="RT718",
    name="too-little-locked-memory",
    summary="a process may lock too little memory for RDMA",
    why="RDMA locks its buffers; registration then fails.",
    fix="ulimit -l unlimited, or --ulimit memlock=-1 for a container.",
    severity=Severity.WARNING,
    needs=("/proc/self/limits", "/sys/class/infiniband"),
    compares="locked memory with no limit, where there is RDMA",
    source="NVIDIA/nccl-tests#206",
    is_about_table=False,
    seen_as=("ibv_reg_mr",),
    bad=_root(
        ("sys/class/infiniband/mlx5_0", ""),
        ("proc/self/limits", _LOCKED.format(65536)),
    ),
    good=_root(
        ("sys/class/infiniband/mlx5_0", ""),
        ("proc/self/limits", _LOCKED.format("unlimited")),
    ),
    find=comparisons.locked_memory,
)
_DF = (
    "Filesystem 1024-blocks Used Available Capacity Mounted on\nshm {} 0 {} 0% /dev/shm"
)
SHARED_MEMORY = HostRule(
    code="RT719",
    name="small-shared-memory",
    summary="the shared memory of the host is small",
    why="Libraries and data loaders share memory there; a container has 64 MiB unless "
    "it is told otherwise.",
    fix="--shm-size=1g or more, or an emptyDir with medium Memory.",
    severity=Severity.WARNING,
    needs=("df /dev/shm",),
    compares="its size with 1 GiB, and what is free with an eighth of it",
    source="NVIDIA/nccl#342",
    is_about_table=False,
    seen_as=("No space left on device", "creating shared memory segment"),
    bad=_root(_tool("df -Pk /dev/shm", _DF.format(65536, 65536))),
    good=_root(_tool("df -Pk /dev/shm", _DF.format(4194304, 4194304))),
    find=comparisons.shared_memory,
)
NO_CHIP = HostRule(
    code="RT720",
    name="process-without-chip",
    summary="a process finds no chip: too few are visible to it for its local rank",
    why="A process takes the device with its local rank among those that it can see. "
    "With more processes than visible chips the last ones fail with `invalid device "
    "ordinal`, and the others wait for them. Where each process was given its own "
    "chip, that is device 0 for each, and this is a note.",
    fix="Start one process for each visible chip, or unset the list of devices.",
    needs=("the variables", "npu-smi, nvidia-smi or device nodes"),
    compares="LOCAL_RANK and LOCAL_WORLD_SIZE with the chips that the process can use",
    source="mace#435; deepspeedai/DeepSpeed#3165; jax-ml/jax#29669",
    is_about_table=False,
    seen_as=("invalid device ordinal",),
    beside=_NPU_TABLE,
    bad=_npu(("environ", "LOCAL_RANK=1\nASCEND_RT_VISIBLE_DEVICES=0")),
    good=_npu(("environ", "LOCAL_RANK=0\nASCEND_RT_VISIBLE_DEVICES=0")),
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
    summary="a process of the job did not come, or ended while the others waited",
    why="The others would wait for it until their time-out, and then name nobody.",
    fix="Look at the output of this rank and at its host.",
    seen_as=("clients joined", "wait timeout after"),
    command="check --live",
)
DOUBLED = Rule(
    code="RT731",
    name="rank-came-twice",
    summary="two processes have the same rank",
    why="Torch takes whichever comes first: all seem to work, and one process fails "
    "later with a closed connection, or is never noticed.",
    fix="Give every process a RANK of its own, and end those of an earlier job; often "
    "a node was started twice, or with the node_rank of another.",
    seen_as=("Connection reset by peer",),
    command="check --live",
)
SAME_CHIP = Rule(
    code="RT732",
    name="ranks-on-one-chip",
    summary="two processes of a host would use the same chip",
    why="NCCL refuses it in the first collective, gloo never notices, and others run "
    "out of memory.",
    fix="Give each process a local rank of its own, or its own list of devices.",
    seen_as=("Duplicate GPU detected",),
    command="check --live",
)
OTHER_TABLE = Rule(
    code="RT733",
    name="other-table",
    summary="processes have different tables",
    why="Each process reads its own copy. An older file on one host puts ranks on "
    "other chips, and the job hangs in its first collective.",
    fix="Copy one file to all hosts: `ranktable show --digest FILE` on each.",
    command="check --live",
)
OTHER_SIZE = Rule(
    code="RT734",
    name="other-size",
    summary="processes differ in the size of the job, or their rank is not below it",
    why="Torch makes a smaller world without a message: two of three processes with "
    "WORLD_SIZE=2 train together, and the third waits.",
    fix="Start every process with the same WORLD_SIZE.",
    command="check --live",
)
OTHER_VERSION = Rule(
    code="RT735",
    name="other-version",
    summary="processes have different versions of a library or driver",
    why="Two versions may hang in their first collective, or give other results.",
    fix="Use one image on all hosts.",
    severity=Severity.WARNING,
    command="check --live",
)
OTHER_SETTING = Rule(
    code="RT736",
    name="other-setting",
    summary="a variable that all ranks must have alike differs",
    why="Algorithms, buffers and time-outs are chosen by each rank from its own "
    "variables. Ranks that choose otherwise hang or are slow.",
    fix="Export the variable on all hosts by the launcher, not in the files of shells.",
    command="check --live",
)
CLOCK = Rule(
    code="RT737",
    name="clock-is-off",
    summary="the clocks of two hosts differ by more than a second",
    why="Elastic agents drop nodes whose clock is off, and logs cannot be compared.",
    fix="Let a time service set the clocks of all hosts.",
    severity=Severity.WARNING,
    command="check --live",
)
MISPLACED = Rule(
    code="RT738",
    name="rank-misplaced",
    summary="a rank runs on another host than its table says",
    why="The other ranks look for it at the address of the table.",
    fix="Start with `ranktable run`, which numbers processes as the table does, or "
    "make the table from the job: `ranktable check --live -o observed.json`.",
    command="check --live",
)
UNREACHABLE = Rule(
    code="RT739",
    name="rank-0-unreachable",
    summary="a process cannot reach rank 0",
    why="The name does not resolve on its host, nothing listens there, or another "
    "program answers. Torch waits up to twice its time-out, and does not say which.",
    fix="Look at the output of rank 0; MASTER_ADDR and MASTER_PORT are those of its "
    "host on every host.",
    seen_as=("client socket has timed out",),
    command="check --live",
)

IDLE_CHIP = Rule(
    code="RT740",
    name="idle-chips",
    summary="chips that the processes of a host can use are used by none of them",
    why="There are fewer processes than chips. That may be meant: a process can use "
    "several chips.",
    fix="Start one process for each chip, or let fewer be visible.",
    severity=Severity.NOTE,
    command="check --live",
)

NO_WAY = Rule(
    code="RT741",
    name="hosts-not-connected",
    summary="a host does not reach another one on the ports that a job uses",
    why="Gloo and NCCL connect all hosts on ports that the kernel chooses. With a "
    "firewall, or an interface that others do not reach, they wait until a time-out.",
    fix="Open the ports of net.ipv4.ip_local_port_range between the hosts of the job, "
    "or name the interface of their network: GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME.",
    seen_as=("connectFullMesh failed", "No route to host"),
    command="check --live",
)

OF_RANKS: tuple[Rule, ...] = (
    MISSING, DOUBLED, SAME_CHIP, OTHER_TABLE, OTHER_SIZE, OTHER_VERSION, OTHER_SETTING,
    CLOCK, MISPLACED, UNREACHABLE, IDLE_CHIP, NO_WAY,
)  # fmt: skip
"""The rules about all ranks."""

RULES: tuple[Rule, ...] = (*OF_HOST, *OF_RANKS, *OF_LINKS)
