"""The budgets as data: what is measured, and how much of it is allowed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How large the tables are and how often each thing is measured.

    Attributes:
        tiny: Ranks of a table for one host.
        small: Ranks where the cost of a rank begins to show.
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
    small: int = 1_000
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
    small=80,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
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

LOGS = {
    "torch": "lines of torch alone",
    "mixed": "lines of torch, HCCL and NCCL",
}
"""The logs that are searched for a culprit, and their names for people."""

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

BUDGETS = (
    *(
        Budget(
            key=f"read medium {key} loop", what=f"read {{medium}}, {name}", limit=0.6
        )
        for key, name in LAYOUTS.items()
    ),
    *(
        Budget(key=f"read large {key} loop", what=f"read {{large}}, {name}", limit=0.5)
        for key, name in LAYOUTS.items()
    ),
    *(
        Budget(
            key=f"read medium {key} orjson", what=f"read {{medium}}, {name}", limit=1.4
        )
        for key, name in LAYOUTS.items()
    ),
    *(
        Budget(
            key=f"read large {key} orjson", what=f"read {{large}}, {name}", limit=0.6
        )
        for key, name in LAYOUTS.items()
    ),
    *(
        Budget(
            key=f"read large {key} memory",
            what=f"read {{large}}, {name}: memory against the file",
            limit=4,
        )
        for key, name in LAYOUTS.items()
    ),
    Budget(
        key="bring-up",
        what="`init_process_group`'s work on a table of {large}, with hosts",
        limit=150,
        unit=Unit.MILLISECONDS,
    ),
    Budget(key="validate sound", what="validate {large}, sound", limit=0.15),
    Budget(
        key="validate one shape",
        what="validate {large}, a wrong type at the end",
        limit=0.45,
    ),
    Budget(
        key="validate one meaning",
        what="validate {large}, a repeated rank at the end",
        limit=0.45,
    ),
    Budget(
        key="validate all shape",
        what="validate {large}, every type wrong, against one",
        limit=2,
    ),
    Budget(
        key="validate all meaning",
        what="validate {large}, every rank the same, against one",
        limit=2,
    ),
    Budget(
        key="validate all gaps",
        what="validate {large}, every second rank missing, against one",
        limit=2,
    ),
    Budget(
        key="output all shape",
        what="validate {large}, every type wrong: output",
        limit=64,
        unit=Unit.KILOBYTES,
    ),
    Budget(
        key="output all meaning",
        what="validate {large}, every rank the same: output",
        limit=64,
        unit=Unit.KILOBYTES,
    ),
    Budget(
        key="output all gaps",
        what="validate {large}, every second rank missing: output",
        limit=64,
        unit=Unit.KILOBYTES,
    ),
    Budget(
        key="start",
        what="import and read {tiny}, over a bare interpreter",
        limit=45,
        unit=Unit.MILLISECONDS,
    ),
    *(
        Budget(key=f"doctor {kind}", what=f"doctor: {{log_mib}} MiB, {name}", limit=3)
        for kind, name in LOGS.items()
    ),
    *(
        Budget(
            key=f"doctor {kind} memory",
            what=f"doctor: {{log_mib}} MiB, {name}: memory",
            limit=100_000,
            unit=Unit.KILOBYTES,
        )
        for kind, name in LOGS.items()
    ),
    Budget(key="help", what="`--help`", limit=1),
    Budget(key="validate tiny", what="validate {tiny}", limit=1),
    Budget(
        key="hosts expand",
        what="expand {large} hosts, the slowest shape",
        limit=150,
        unit=Unit.MILLISECONDS,
    ),
    Budget(
        key="hosts fold",
        what="fold {large} hosts, the slowest shape",
        limit=800,
        unit=Unit.MILLISECONDS,
    ),
    Budget(
        key="detect",
        what="tell the format of {fill_mib} MiB of one character, the slowest",
        limit=10_000,
        unit=Unit.MILLISECONDS,
    ),
    Budget(
        key="spec",
        what="gen --spec of {nodes} nodes, eight chips each",
        limit=1.5,
    ),
    Budget(
        key="merge probes",
        what="merge {nodes} lines of probe",
        limit=2,
    ),
    Budget(
        key="merge files",
        what="merge {nodes} tables of one node",
        limit=5,
    ),
    Budget(
        key="merge linear",
        what="merge: time of a file among {nodes}, against a quarter of them",
        limit=1.3,
    ),
    Budget(
        key="check hccl 1.0",
        what="check {large} of HCCL 1.0, against SCCL's with hosts and addresses",
        limit=1.5,
    ),
    Budget(
        key="validate hccl 1.2",
        what="validate {pods} of HCCL 1.2",
        limit=500,
        unit=Unit.MILLISECONDS,
    ),
    *(
        Budget(
            key=f"validate hccl 2.0{key}",
            what=f"validate {{rank_list}} of HCCL 2.0{name}",
            limit=6_000,
            unit=Unit.MILLISECONDS,
        )
        for key, name in RANK_LISTS.items()
    ),
    *(
        Budget(
            key=f"validate hccl 2.0{key} memory",
            what=f"validate {{rank_list}} of HCCL 2.0{name}: memory against the file",
            limit=8,
        )
        for key, name in RANK_LISTS.items()
    ),
    *(
        Budget(
            key=f"operate {key}",
            what=f"{key}: {{layouts}} ranks, the whole command",
            limit=SLOWER_COMMANDS.get(key, 5_000),
            unit=Unit.MILLISECONDS,
        )
        for key in COMMANDS
    ),
    Budget(
        key="merge hccl linear",
        what="merge HCCL 1.0: time of a file among {nodes}, against a tenth of them",
        limit=1.3,
    ),
    Budget(
        key="linear read time",
        what="read: time of a rank, {huge} against {medium}",
        limit=2,
    ),
    Budget(
        key="linear read memory",
        what="read: memory of a rank, {huge} against {medium}",
        limit=2,
    ),
    Budget(
        key="linear check time",
        what="check: time of a rank, {huge} against {medium}",
        limit=2,
    ),
    Budget(
        key="linear check memory",
        what="check: memory of a rank, {huge} against {medium}",
        limit=2,
    ),
    Budget(
        key="simulate start",
        what="simulate {box} ranks: a job that adds up once",
        limit=1.15,
    ),
    *(
        Budget(
            key=f"simulate {size} {ranks}",
            what=f"simulate {{{ranks}}} ranks: all_reduce of {size}",
            limit=limit,
        )
        for size, limit in (("64 MiB", 1.2), ("4 bytes", 2))
        for ranks in ("few", "box")
    ),
    Budget(
        key="simulate memory",
        what="simulate {few} ranks: growth of memory over {steps} steps",
        limit=1024,
        unit=Unit.KILOBYTES,
    ),
    Budget(
        key="dist 4 bytes",
        what="all_reduce of 4 bytes: CPU beyond torch's",
        limit=15,
        unit=Unit.MICROSECONDS,
    ),
    *(
        Budget(key=f"dist {size}", what=f"all_reduce of {size}", limit=1.02)
        for size in COLLECTIVE_SIZES
    ),
    Budget(
        key="dist all_reduce_params",
        what="all_reduce_params of 300 tensors of three types",
        limit=1,
    ),
    Budget(
        key="dist collect_results",
        what="collect_results of 100,000 small results",
        limit=1,
    ),
    Budget(
        key="dist reduce_scatter",
        what="reduce_scatter of 4 MiB",
        limit=1.02,
    ),
    Budget(
        key="dist overlap",
        what="8 layers, computed while means travel",
        limit=1,
    ),
    Budget(
        key="dist memory",
        what="{shaped_steps} all_reduces of 100 shapes: growth of memory",
        limit=2048,
        unit=Unit.KILOBYTES,
    ),
    *(
        Budget(
            key=f"round {clients} {name}",
            what=f"round of {{{clients}}} clients, {name}: most requests of one",
            limit=REQUESTS + 2 * late_s,
            unit=Unit.REQUESTS,
        )
        for clients in CLIENTS
        for name, late_s in LATENESS_S.items()
    ),
    *(
        Budget(
            key=f"round linear {name}",
            what=f"round, {name}: CPU of the store for a client, {{clients}} against "
            "{few_clients}",
            limit=2,
        )
        for name in LATENESS_S
    ),
    Budget(
        key="layout groups",
        what="all 17 kinds of group of {layout} ranks",
        limit=50,
        unit=Unit.MILLISECONDS,
    ),
    Budget(
        key="layout lists",
        what="9 kinds of group of {layout} ranks",
        limit=0.2,
    ),
    Budget(
        key="layout coordinates",
        what="coordinates of a rank of {layout}",
        limit=0.2,
    ),
    Budget(
        key="layout linear",
        what="groups: time of a rank, {layouts} against {layout}",
        limit=3,  # the lists of a large layout outgrow the caches
    ),
    Budget(
        key="communicators",
        what="communicators of one rank of {large}",
        limit=400,
        unit=Unit.MILLISECONDS,
    ),
    *(
        Budget(
            key=f"change {name}, {lost}",
            what=f"fit {{changed}}, {name}, every {lost} lost: judged and encoded",
            limit=1_000,
            unit=Unit.MILLISECONDS,
        )
        for name, lost in (
            ("dp only", "sixteenth node"),
            ("dp only", "sixteenth chip or so"),
            ("tp and pp", "sixteenth node"),
        )
    ),
    *(
        Budget(
            key=f"lost {job} {what}",
            what=f"fit, {job}: {text}",
            limit=limit,
            unit=unit,
        )
        for job, known in LOSS_JOBS.items()
        for what, text, limit, unit in (
            ("loads", "ranks that load other weights", known.loads, Unit.RANKS),
            ("moves", "ranks that move", known.moves, Unit.RANKS),
            ("time", "CPU time", known.limit_ms, Unit.MILLISECONDS),
        )
    ),
    Budget(
        key="plan",
        what="plan {plan} ranks in scattered racks",
        limit=8_000,
        unit=Unit.MILLISECONDS,
    ),
    Budget(
        key="plan linear",
        what="plan: time of a rank's crossings and bound, {layouts} against {plan}",
        limit=2,
    ),
    Budget(
        key="chip order",
        what="order of 64 chips, given up",
        limit=2_000,
        unit=Unit.MILLISECONDS,
    ),
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
