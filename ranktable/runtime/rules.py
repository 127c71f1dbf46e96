"""RT3xx and RT4xx: the environment of a process, and joining the process group."""

from __future__ import annotations

from ranktable.schema.document import Location
from ranktable.schema.finding import Diagnostic, RankTableError, Rule, Severity

MISSING_VARIABLE = Rule(
    code="RT301",
    name="missing-variable",
    summary="a variable that the process needs is not set",
    fix="Start the script with a launcher, for example torchrun, or set the variable.",
)
INVALID_VARIABLE = Rule(
    code="RT302",
    name="invalid-variable",
    summary="a variable has an invalid value",
    fix="Correct the variable, or let the launcher set it.",
)
CONFLICTING_VARIABLES = Rule(
    code="RT303",
    name="conflicting-variables",
    summary="two variables contradict each other",
    fix=(
        "Unset the old variable; ranktable env --explain shows which launcher set "
        "what. Correct a rank, local rank or node that is not below its size."
    ),
)
TABLE_DISAGREES = Rule(
    code="RT304",
    name="table-disagrees",
    summary="the environment and the rank table contradict each other",
    fix="Start as many processes as the table has ranks, node by node, or make the "
    "table again.",
)
CHIP_MAP_DISAGREES = Rule(
    code="RT305",
    name="chip-map-disagrees",
    summary="CHIP_MAP and the rank table contradict each other",
    fix="Unset CHIP_MAP; the rank table has the same chips and more.",
)
NO_BACKEND = Rule(
    code="RT401",
    name="no-backend",
    summary="the communication library is not available",
    fix="Install it, or choose another backend; gloo needs only torch.",
)
OTHER_TORCH_TPU = Rule(
    code="RT402",
    name="other-torch-tpu",
    summary="the torch_tpu that is installed is Google's, not SOPHGO's",
    fix=(
        "pip uninstall torch_tpu, then install the wheel of SOPHGO. To use gloo or "
        "nccl beside it, export TORCH_DEVICE_BACKEND_AUTOLOAD=0."
    ),
)
NO_DEVICE = Rule(
    code="RT403",
    name="no-device",
    summary="the host does not have the chip of this process",
    fix="Correct device_id, or make the chip visible to the process.",
)
MISSING_PEER = Rule(
    code="RT404",
    name="missing-peer",
    summary="a process did not connect, or its host cannot be reached",
    fix=(
        "Look at the output of these ranks; raise timeout_s if they are slow. If the "
        "port is taken, choose another MASTER_PORT."
    ),
)
PEERS_DISAGREE = Rule(
    code="RT405",
    name="peers-disagree",
    summary="two processes disagree on the job's table, its size or a rank",
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
