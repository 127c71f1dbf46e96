"""RT3xx and RT4xx: the environment of a process, and joining the process group."""

from __future__ import annotations

from ranktable.schema.document import Location
from ranktable.schema.finding import Diagnostic, RankTableError, Rule, Severity

MISSING_VARIABLE = Rule(
    code="RT301",
    name="missing-variable",
    summary="a variable that the process needs is not set",
    why=(
        "The launcher sets variables that give a process its rank, the size of the job "
        "and the rank table. A missing value is never guessed: a process with rank 0 "
        "of 1 would train alone, without a message."
    ),
    fix="Start the script with a launcher, for example torchrun, or set the variable.",
    readers={
        "torch_tpu": "AssertionError: RANK_TABLE_FILE not set; TypeError for RANK",
        "SCCL": "takes rank 0 of 1",
    },
    seen_as=(
        "RANK_TABLE_FILE not set",
        "environment variable RANK expected, but not set",
        "int() argument must be a string",
    ),
)
INVALID_VARIABLE = Rule(
    code="RT302",
    name="invalid-variable",
    summary="a variable has an invalid value",
    why=(
        "A number is plain ASCII decimal, without sign, blanks or leading zeros, and "
        "has at most nine digits. A size is at least 1, and a port at most 65535. An "
        "address has no blanks, brackets or port. Other readers use a part of the "
        "text, or 0."
    ),
    fix="Correct the variable, or let the launcher set it.",
    readers={
        "torch_tpu": "ValueError: invalid literal for int() with base 10",
        "SCCL": "reads the digits at the beginning",
    },
    seen_as=("invalid literal for int() with base 10",),
)
CONFLICTING_VARIABLES = Rule(
    code="RT303",
    name="conflicting-variables",
    summary="two variables contradict each other",
    why=(
        "Old exports and nested launchers leave variables that contradict each other. "
        "Then two processes may have the same rank, or all wait for a rank that does "
        "not exist. Ranks count from 0, so in a job of 4 processes rank 4 does not "
        "exist."
    ),
    fix=(
        "Unset the old variable; ranktable env --explain shows which launcher set "
        "what. Correct a rank, local rank or node that is not below its size."
    ),
    readers={"torch_tpu": "believes RANK", "SCCL": "believes OMPI_COMM_WORLD_RANK"},
)
TABLE_DISAGREES = Rule(
    code="RT304",
    name="table-disagrees",
    summary="the environment and the rank table contradict each other",
    why=(
        "The launcher started another number of processes than the table has chips, or "
        "put a process on another node. The job would wait for ranks that do not "
        "exist, or use chips of another host."
    ),
    fix="Start as many processes as the table has ranks, node by node, or make the "
    "table again.",
    readers={
        "torch_tpu": "IndexError at chip_map[rank], or nothing",
        "SCCL": "chip map size must be same with the nranks",
    },
    seen_as=("chip map size must be same with the nranks",),
)
CHIP_MAP_DISAGREES = Rule(
    code="RT305",
    name="chip-map-disagrees",
    summary="CHIP_MAP and the rank table contradict each other",
    why=(
        "SCCL's C++ library uses the table, and torch_tpu's Python code uses CHIP_MAP. "
        "A process would select one chip and communicate with another."
    ),
    fix="Unset CHIP_MAP; the rank table has the same chips and more.",
    readers={"torch_tpu": "takes CHIP_MAP", "SCCL": "takes the table"},
    seen_as=("CHIP_MAP",),
)
NO_BACKEND = Rule(
    code="RT401",
    name="no-backend",
    summary="the communication library is not available",
    why="The package is not installed, cannot be imported, or lacks the backend.",
    fix="Install it, or choose another backend; gloo needs only torch.",
)
OTHER_TORCH_TPU = Rule(
    code="RT402",
    name="other-torch-tpu",
    summary="the torch_tpu that is installed is Google's, not SOPHGO's",
    why=(
        "Two packages have the name torch_tpu. The one on the Python package index is "
        "for Google's TPUs. On other machines the interpreter ends if you import it, "
        "or if you import torch while it is installed."
    ),
    fix=(
        "pip uninstall torch_tpu, then install the wheel of SOPHGO. To use gloo or "
        "nccl beside it, export TORCH_DEVICE_BACKEND_AUTOLOAD=0."
    ),
    seen_as=("TPU_LIBRARY_PATH is not set", "libtpu"),
)
NO_DEVICE = Rule(
    code="RT403",
    name="no-device",
    summary="the host does not have the chip of this process",
    why="The table gives the process a chip that its host does not have.",
    fix="Correct device_id, or make the chip visible to the process.",
    seen_as=("invalid device ordinal", "sgSetDevice failed! Error Code"),
)
MISSING_PEER = Rule(
    code="RT404",
    name="missing-peer",
    summary="a process of the job did not connect, or its host cannot be reached",
    why=(
        "Every process connects to the rendezvous before communication starts. The "
        "message names the ranks that did not connect before the time-out."
    ),
    fix=(
        "Look at the output of these ranks; raise timeout_s if they are slow. If the "
        "port is taken, choose another MASTER_PORT."
    ),
    seen_as=("wait timeout after", "Timed out waiting for clients", "EI0006"),
)
PEERS_DISAGREE = Rule(
    code="RT405",
    name="peers-disagree",
    summary="two processes do not agree on the job: its table, its size or a rank",
    why=(
        "Every process reads its own copy of the table. If the files on two hosts "
        "differ, the job uses wrong chips or hangs at the first collective. The same "
        "happens if two processes have different sizes or the same rank."
    ),
    fix=(
        "Compare the files: ranktable show --digest FILE on each host. Give every "
        "process the same WORLD_SIZE and a RANK of its own."
    ),
)

RULES = (
    MISSING_VARIABLE,
    INVALID_VARIABLE,
    CONFLICTING_VARIABLES,
    TABLE_DISAGREES,
    CHIP_MAP_DISAGREES,
    NO_BACKEND,
    OTHER_TORCH_TPU,
    NO_DEVICE,
    MISSING_PEER,
    PEERS_DISAGREE,
)


def no_table_named(variable: str) -> RankTableError:
    """Return the error for a process without a rank table."""
    return RankTableError(
        [
            Diagnostic(
                code=MISSING_VARIABLE.code,
                severity=Severity.ERROR,
                location=Location(file="environment"),
                message=f"{variable} is not set, so there is no rank table to read",
                hint=f"export {variable}=/path/to/the/table.json",
            )
        ]
    )
