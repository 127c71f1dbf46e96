"""The budgets as data: what is measured, and how much of it is allowed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How large the tables are and how often each thing is measured.

    Attributes:
        tiny: Ranks of a table for one host.
        medium: Ranks of a large job; what a rank costs here is the yardstick.
        large: Ranks of the reference size.
        huge: Ranks that must still cost no more than in proportion.
        layout: Ranks of a parallel layout, a multiple of 512.
        layouts: Ranks of a large one, likewise.
        plan: Ranks of a job that is placed anew.
        changed: Ranks of a table that loses nodes, a multiple of 256.
        reads: Fresh processes for each kind of read.
        starts: Fresh processes for each start-up.
        commands: Fresh processes for each command on a large table.
        growths: Fresh processes for each size, to see the cost of a rank.
        nodes: Nodes of a cluster that is described, eight chips each.
        operations: Fresh processes for each command on a table of a whole cluster.
        pods: Ranks of a table of super pods.
        rank_list: Ranks of a table that lists the addresses of each.
        log_mib: Size of a log that is searched for a culprit.
        fill_mib: Size of a file that is nothing but one character.
        few: Ranks of a small simulated job.
        box: Ranks of a simulated job on a whole box.
        jobs: Transfers of jobs of ``box`` ranks, to see what starting one costs.
        rounds: Times that each all_reduce is timed.
        steps: Training steps over which memory must not grow.
        shaped_steps: Collectives of a hundred shapes, over which likewise.
        few_clients: Clients of a store that take part in a round.
        some_clients: More of them.
        clients: Many of them.
    """

    tiny: int = 8
    medium: int = 10_000
    large: int = 100_000
    huge: int = 1_000_000
    layout: int = 4_096
    layouts: int = 131_072
    plan: int = 16_384
    changed: int = 16_384
    reads: int = 7
    starts: int = 20
    commands: int = 3
    operations: int = 1
    growths: int = 2
    nodes: int = 10_000
    pods: int = 4_096
    rank_list: int = 65_536
    fill_mib: int = 64
    log_mib: int = 1_024
    few: int = 2
    box: int = 8
    jobs: int = 5
    rounds: int = 30
    steps: int = 300
    shaped_steps: int = 10_000
    few_clients: int = 250
    some_clients: int = 1_000
    clients: int = 2_000


QUICK = Scale(
    log_mib=4,
    medium=400,
    large=2_000,
    huge=4_000,
    layout=512,
    layouts=1_024,
    plan=1_024,
    changed=512,
    reads=1,
    starts=1,
    commands=1,
    growths=1,
    nodes=40,
    pods=256,
    rank_list=256,
    fill_mib=1,
    box=2,
    jobs=1,
    rounds=1,
    steps=20,
    shaped_steps=200,
    few_clients=4,
    some_clients=6,
    clients=8,
)
"""Small enough for a test; the figures mean nothing."""


class Unit(str, Enum):
    """What a limit counts."""

    TIMES = "x"
    MICROSECONDS = " us"
    MILLISECONDS = " ms"
    KILOBYTES = " kB"
    REQUESTS = " requests"
    RANKS = " ranks"


class Budget(NamedTuple):
    """One line of the table.

    Attributes:
        key: Name in the code.
        what: What is measured, for people; sizes stand in braces.
        limit: The largest figure that is allowed.
        unit: What the limit counts.
    """

    key: str
    what: str
    limit: float
    unit: Unit = Unit.TIMES

    def title(self, scale: Scale) -> str:
        """Return what is measured, with the sizes of a scale."""
        return self.what.format_map({k: f"{v:,}" for k, v in asdict(scale).items()})


COLLECTIVE_SIZES = {"4 KiB": 4 << 10, "1 MiB": 1 << 20, "64 MiB": 64 << 20}
"""Sizes of a collective whose overhead is a share of its time."""

SMALL_CALLS = {
    "all_reduce": ("4 bytes", 10),
    "broadcast": ("4 bytes", 10),
    "all_gather": ("1 KiB", 17),
    "reduce_scatter": ("1 KiB", 26),
}
"""Collectives of a few bytes, their sizes, and the limits in microseconds."""

CLIENTS = ("few_clients", "some_clients", "clients")
"""How many take part in a round in a store."""

LATENESS_S = {"on time": 0, "one 5 s late": 5}
"""How late the last of them comes, and how to call that."""

REQUESTS = 15
"""So many a client makes in a round, and two more a second while it waits."""

LAYOUTS = {
    "manual": "manual's layout",
    "generated": "`gen`'s layout",
    "hosts": "with hosts, as `gen --spec` and `merge` write",
    "addresses": "with hosts and addresses",
    "orders": "with two orders of chips",
    "hccl": "HCCL 1.0",
}
"""The layouts of a table that are read, and their names for people."""

RANK_LISTS = {"": "", " odd": ", a wrong EID at the end"}
"""Tables of version 2.0 that are judged, and their names for people."""

LOGS = {"torch": "lines of torch alone", "mixed": "lines of torch, HCCL and NCCL"}
"""The logs that are searched for a culprit, and their names for people."""

LONG_LOGS = {"calls": "NCCL's calls alone", "tracebacks": "tracebacks alone"}
"""Logs whose every line is read, an eighth as large."""

_SIZES = "--tp 8 --cp 2 --pp 16"
_MODEL = "--model 96x12288 --seq 4096 --micro 64"
_RACKS = "--racks racks"
COMMANDS = {
    "gen": f"gen --spec spec.yaml {_SIZES} -o out-table --force",
    "validate": "validate table.json",
    "validate hccl 1.0": "validate hccl.json",
    "validate hccl 1.2": "validate pods.json",
    "show": "show table.json",
    "show json": "show table.json --format json",
    "mesh": "mesh table.json",
    "mesh json": "mesh table.json --format json",
    "plan": f"plan table.json {_MODEL}",
    "plan racks": f"plan table.json {_MODEL} {_RACKS}",
    "plan scattered": f"plan table.json {_MODEL} --racks scattered",
    "diff": "diff table.json less.json",
    "diff sizes": f"diff hccl.json table.json {_SIZES}",
    "fit": "fit table.json --lost n[000003,000100] -o out-table --force",
    "fit racks": f"fit table.json --lost n[000003,000100] {_RACKS} -o out-table "
    "--force",
    "fit hccl 1.2": f"fit pods.json --lost n[000003,000100] {_SIZES} "
    "-o out-pods --force",
    "fit uneven": f"fit uneven.json --lost n[000003,000100] {_SIZES} "
    "-o out-table --force",
    "fit uneven racks": f"fit uneven.json --lost n[000003,000100] {_SIZES} "
    f"{_RACKS} -o out-table --force",
    "fit uneven, more": f"fit uneven.json --with x[00-31] --grow {_SIZES} "
    "-o out-table --force",
    "fit, more": "fit table.json --with x[00-31] --grow -o out-table --force",
    "fit, replaced": "fit table.json --lost n000003 --with x1 -o out-table --force",
    "fit, spares": "fit table.json --spare x[00-31] -o out-table --force",
    "split ranks": "split table.json --ranks 0-511 -o out-table --force",
    "split": "split table.json -o out-parts",
    "show digest": "show table.json --digest",
    "convert": "convert table.json --to openmpi-rankfile -o out-file --force",
    "convert hccl": "convert hccl.json --to sccl-1.0 -o out-file --force",
}
"""What operators start on a table of a whole cluster."""


class LossJob(NamedTuple):
    """A job that loses nodes, and what other searches came to.

    Attributes:
        nodes: Chips of every node.
        sizes: The layout.
        lost: The nodes that are lost.
        rack: Nodes of a rack, 0 without racks.
        loads: Most chips that may load other weights.
        moves: Most chips that may get another rank.
        limit_ms: Most CPU time.
    """

    nodes: tuple[int, ...]
    sizes: dict[str, object]
    lost: tuple[int, ...]
    rack: int
    loads: int
    moves: int
    limit_ms: int


LOSS_JOBS = {
    "64 nodes, tp 8 pp 8, 3 lost, racks": LossJob(
        (8,) * 64, {"tp": 8, "pp": 8}, (3, 17, 40), 8, 0, 248, 700
    ),
    "64 nodes, tp-pp-dp, 1 lost, racks": LossJob(
        (8,) * 64, {"tp": 8, "pp": 4, "order": "tp-pp-dp"}, (5,), 8, 0, 8, 800
    ),
    "1,024 nodes, tp 8 pp 4, 2 lost, racks": LossJob(
        (8,) * 1024, {"tp": 8, "pp": 4}, (3, 100), 16, 8, 64, 200
    ),
    "16,384 nodes, tp 8 pp 16, 103 lost": LossJob(
        (8,) * 16384,
        {"tp": 8, "pp": 16},
        tuple(range(0, 16384, 160)),
        0,
        0,
        7504,
        1_500,
    ),
    "48 uneven nodes, tp 4 pp 2, 2 lost, racks": LossJob(
        (8, 8, 4, 4, 8, 8) * 8, {"tp": 4, "pp": 2}, (5, 20), 8, 4, 208, 700
    ),
    "8 nodes, tp 4 pp 4, 1 lost": LossJob(
        (8,) * 8, {"tp": 4, "pp": 4}, (3,), 0, 4, 20, 100
    ),
}
"""Realistic jobs; the limits are what exhaustive searches came to."""

SLOWER_COMMANDS = {"fit racks": 8_000, "fit uneven racks": 8_000}
"""CPU time in milliseconds of the commands that may take longer than the others."""


def _each(
    named: Mapping[str, str], key: str, what: str, limit: float, unit: Unit = Unit.TIMES
) -> Iterator[Budget]:
    """Yield a budget for each of some things and their names for people."""
    for one, name in named.items():
        yield Budget(key.format(one), what.format(name), limit, unit)


_MS, _KB = Unit.MILLISECONDS, Unit.KILOBYTES
_ALL = {
    "shape": "every type wrong",
    "meaning": "every rank the same",
    "gaps": "every second rank missing",
}
_CHANGES = (
    "dp only, every sixteenth node",
    "dp only, every sixteenth chip or so",
    "tp and pp, every sixteenth node",
)
BUDGETS = (
    *_each(LAYOUTS, "read medium {} loop", "read {{medium}}, {}", 0.6),
    *_each(LAYOUTS, "read large {} loop", "read {{large}}, {}", 0.5),
    *_each(LAYOUTS, "read medium {} orjson", "read {{medium}}, {}", 1.4),
    *_each(LAYOUTS, "read large {} orjson", "read {{large}}, {}", 0.6),
    *_each(
        LAYOUTS,
        "read large {} memory",
        "read {{large}}, {}: memory against the file",
        4,
    ),
    Budget(
        "bring-up",
        "`init_process_group`'s work on a table of {large}, with hosts",
        150,
        _MS,
    ),
    Budget("validate sound", "validate {large}, sound", 0.15),
    Budget("validate one shape", "validate {large}, a wrong type at the end", 0.45),
    Budget(
        "validate one meaning", "validate {large}, a repeated rank at the end", 0.45
    ),
    *_each(_ALL, "validate all {}", "validate {{large}}, {}, against one", 2),
    *_each(_ALL, "output all {}", "validate {{large}}, {}: output", 64, _KB),
    Budget("start", "import and read {tiny}, over a bare interpreter", 45, _MS),
    Budget("check here", "check a recorded host, over a bare interpreter", 1000, _MS),
    *_each(LOGS, "doctor {}", "doctor: {{log_mib}} MiB, {}", 3),
    *_each(
        LOGS, "doctor {} memory", "doctor: {{log_mib}} MiB, {}: memory", 100_000, _KB
    ),
    *_each(LONG_LOGS, "doctor {}", "doctor: an eighth of {{log_mib}} MiB, {}", 100),
    *_each(LONG_LOGS, "doctor {} memory", "doctor: {}: memory", 100_000, _KB),
    Budget("help", "`--help`", 1),
    Budget("validate tiny", "validate {tiny}", 1),
    Budget("hosts expand", "expand {large} hosts, the slowest shape", 150, _MS),
    Budget("hosts fold", "fold {large} hosts, the slowest shape", 800, _MS),
    Budget(
        "detect",
        "tell the format of {fill_mib} MiB of one character, the slowest",
        10_000,
        _MS,
    ),
    Budget("spec", "gen --spec of {nodes} nodes, eight chips each", 1.5),
    Budget("merge probes", "merge {nodes} lines of probe", 2),
    Budget("merge files", "merge {nodes} tables of one node", 5),
    Budget(
        "merge linear",
        "merge: time of a file among {nodes}, against a quarter of them",
        1.3,
    ),
    Budget(
        "check hccl 1.0",
        "check {large} of HCCL 1.0, against SCCL's with hosts and addresses",
        1.5,
    ),
    Budget("validate hccl 1.2", "validate {pods} of HCCL 1.2", 500, _MS),
    *_each(
        RANK_LISTS,
        "validate hccl 2.0{}",
        "validate {{rank_list}} of HCCL 2.0{}",
        6_000,
        _MS,
    ),
    *_each(
        RANK_LISTS,
        "validate hccl 2.0{} memory",
        "validate {{rank_list}} of HCCL 2.0{}: memory against the file",
        8,
    ),
    *(
        Budget(
            f"operate {key}",
            f"{key}: {{layouts}} ranks, the whole command",
            SLOWER_COMMANDS.get(key, 5_000),
            _MS,
        )
        for key in COMMANDS
    ),
    Budget(
        "merge hccl linear",
        "merge HCCL 1.0: time of a file among {nodes}, against a tenth of them",
        1.3,
    ),
    *(
        Budget(
            f"linear {call} {cost}",
            f"{call}: {cost} of a rank, {{huge}} against {{medium}}",
            2,
        )
        for call in ("read", "check")
        for cost in ("time", "memory")
    ),
    Budget("simulate start", "simulate {box} ranks: a job that adds up once", 1.15),
    *(
        Budget(
            f"simulate {size} {ranks}",
            f"simulate {{{ranks}}} ranks: all_reduce of {size}",
            limit,
        )
        for size, limit in (("64 MiB", 1.2), ("4 bytes", 2))
        for ranks in ("few", "box")
    ),
    Budget(
        "simulate memory",
        "simulate {few} ranks: growth of memory over {steps} steps",
        1024,
        _KB,
    ),
    *(
        Budget(
            f"dist small {name}",
            f"{name} of {size}: CPU beyond torch's",
            limit_us,
            Unit.MICROSECONDS,
        )
        for name, (size, limit_us) in SMALL_CALLS.items()
    ),
    *(
        Budget(f"dist {size}", f"all_reduce of {size}", 1.02)
        for size in COLLECTIVE_SIZES
    ),
    Budget(
        "dist all_reduce_params", "all_reduce_params of 300 tensors of three types", 1
    ),
    Budget("dist collect_results", "collect_results of 100,000 small results", 1),
    Budget("dist reduce_scatter", "reduce_scatter of 4 MiB", 1.02),
    Budget("dist overlap", "8 layers, computed while means travel", 1),
    Budget(
        "dist memory",
        "{shaped_steps} all_reduces of 100 shapes: growth of memory",
        2048,
        _KB,
    ),
    *(
        Budget(
            f"round {clients} {name}",
            f"round of {{{clients}}} clients, {name}: most requests of one",
            REQUESTS + 2 * late_s,
            Unit.REQUESTS,
        )
        for clients in CLIENTS
        for name, late_s in LATENESS_S.items()
    ),
    *_each(
        {name: name for name in LATENESS_S},
        "round linear {}",
        "round, {}: CPU of the store for a client, {{clients}} against {{few_clients}}",
        2,
    ),
    Budget("layout groups", "all 17 kinds of group of {layout} ranks", 50, _MS),
    Budget("layout lists", "9 kinds of group of {layout} ranks", 0.2),
    Budget("layout coordinates", "coordinates of a rank of {layout}", 0.2),
    Budget(
        "layout linear",
        "groups: time of a rank, {layouts} against {layout}",
        3,  # the lists of a large layout outgrow the caches
    ),
    Budget("communicators", "communicators of one rank of {large}", 400, _MS),
    *_each(
        {name.replace("every ", ""): name for name in _CHANGES},
        "change {}",
        "fit {{changed}}, {} lost: judged and encoded",
        1_000,
        _MS,
    ),
    *(
        Budget(f"lost {job} {what}", f"fit, {job}: {text}", limit, unit)
        for job, known in LOSS_JOBS.items()
        for what, text, limit, unit in (
            ("loads", "ranks that load other weights", known.loads, Unit.RANKS),
            ("moves", "ranks that move", known.moves, Unit.RANKS),
            ("time", "CPU time", known.limit_ms, _MS),
        )
    ),
    Budget("plan", "plan {plan} ranks in scattered racks", 8_000, _MS),
    Budget(
        "plan linear",
        "plan: time of a rank's crossings and bound, {layouts} against {plan}",
        2,
    ),
    Budget("chip order", "order of 64 chips, given up", 2_000, _MS),
)
"""Every budget of the design, in the order in which the table shows them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a budget came to.

    Attributes:
        key: Key of the budget.
        figure: The figure to compare with the limit.
        ours: What was measured of ours, as text.
        rival: What was measured of the rival, with its name, as text.
        first: The same figure for the first call of a process, None where every
            measurement is of one.
        memory: Peak memory, ours and the rival's, as text.
    """

    key: str
    figure: float
    ours: str
    rival: str
    first: float | None = None
    memory: str = ""
