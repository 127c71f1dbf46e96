"""The marks that stand in words of a shell for what its file does not say.

Each is one character of Unicode's private use area, and says what kind of value stands
there.
"""

from __future__ import annotations

import re
from typing import Final

UNKNOWN: Final = "\ue000"
"""Something that the file does not say."""

FIRST_HOST: Final = "\ue001"
OTHER_HOST: Final = "\ue01c"
"""A host of a job of several that is not its first one."""
HOSTS: Final = "\ue002"
"""The hosts of the job, one a word."""
NODE_LIST: Final = "\ue00a"
"""The hosts of the job as Slurm writes them: ``n[01-02]``."""
OWN_HOST: Final = "\ue003"
"""The host of the process itself, computed in every task."""
RANDOM: Final = "\ue004"
"""A random number that every task draws for itself."""
DRAWN: Final = "\ue00b"
"""Another value in every task, whatever command makes it."""
CLOCK: Final = "\ue00c"
"""The time at which a task gets there."""
JOB_ID: Final = "\ue005"
LAUNCH_NODE: Final = "\ue006"
CUT_LIST: Final = "\ue007"
"""A host list that was cut at a comma or a character, not expanded."""
ALL_ADDRESSES: Final = "\ue00d"
"""The addresses of a host, in one line with blanks."""
EACH_NODE: Final = "\ue00e"
"""A sum that has another value on every node."""
NOT_EXPORTED: Final = "\ue01a"
NOT_PASSED: Final = "\ue01b"
"""Before the name of a variable of the script that its tasks do not get."""
NOT_ASKED: Final = "\ue01d"
"""Before the name of a variable that Slurm sets with an option that is not given."""
OR_LOCALHOST: Final = "\ue008"
"""A command with ``|| echo localhost`` behind it."""
JOB_SUM: Final = "\ue009"
"""A sum with the number of the job and without a modulo."""

TASK_VARIABLES: Final = ("SLURM_NODEID", "SLURM_PROCID", "SLURM_LOCALID")
IN_TASK: Final = dict(zip(TASK_VARIABLES, "\ue010\ue011\ue012", strict=True))
"""Their values where every task expands them."""
IN_BATCH: Final = dict(zip(TASK_VARIABLES, "\ue014\ue015\ue016", strict=True))
"""Their values in the batch script, which is 0 for all of them."""

MPI_RANKS: Final = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
MPI_LOCAL_RANKS: Final = (
    *("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_NODE_RANK", "MPI_LOCALRANKID"),
)
_OF_MPI: Final = (
    *(*MPI_RANKS, *MPI_LOCAL_RANKS),
    *("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMI_SIZE"),
)
IN_MPI: Final = dict(
    zip(_OF_MPI, map(chr, range(0xE020, 0xE020 + len(_OF_MPI))), strict=True)
)
"""Their values in the processes of mpirun."""
EMPTY: Final = dict(
    zip(_OF_MPI, map(chr, range(0xE030, 0xE030 + len(_OF_MPI))), strict=True)
)
"""The same names in the batch script, where nothing has set them."""

POD_INDEX: Final = "\ue018"
"""The number that Kubernetes counts the pods of a Job or a role by."""
JOB_INDEX: Final = "\ue019"
"""The number that a JobSet counts its Jobs by."""

OWN_NAME: Final = "own name"
"""Under it a scope knows the name of the own host, with a mark for its number."""
UNSET: Final = "\ue01f"
"""A variable of an operator that sets it in other jobs only."""

MARKS: Final = re.compile("[\ue000-\uf8ff]")
_ANY_MARK: Final = re.compile(f"{UNKNOWN}+|[\ue001-\uf8ff]")

_FIXED: Final = {
    **dict.fromkeys(("SLURM_JOB_ID", "SLURM_JOBID"), JOB_ID),
    **dict.fromkeys(("SLURM_JOB_NODELIST", "SLURM_NODELIST"), NODE_LIST),
    **dict.fromkeys(("SLURM_LAUNCH_NODE_IPADDR", "SLURM_SRUN_COMM_HOST"), LAUNCH_NODE),
}
_OF_HOST: Final = ("HOSTNAME", "SLURMD_NODENAME", "SLURM_TOPOLOGY_ADDR")
VALUES_IN_TASK: Final = {
    **_FIXED,
    **IN_TASK,
    **dict.fromkeys(_OF_HOST, OWN_HOST),
    "RANDOM": RANDOM,
    **dict.fromkeys(("SRANDOM", "EPOCHREALTIME"), DRAWN),
    "EPOCHSECONDS": CLOCK,
}
PROCESS_IDS: Final = dict.fromkeys(("$", "PPID", "BASHPID"), DRAWN)
"""They are alike in the containers of pods, where they begin at 1."""
VALUES_IN_BATCH: Final = {
    **_FIXED,
    **IN_BATCH,
    **EMPTY,
    **dict.fromkeys(_OF_HOST, FIRST_HOST),
}


def without_marks(text: str) -> str:
    """Return a text in which marks that the file itself contains mean nothing."""
    return MARKS.sub(UNKNOWN, text)


def has_marks(text: str) -> bool:
    """Whether a part of a value is not in the file."""
    return MARKS.search(text) is not None


_SHOWN: Final = {
    **{
        mark: f"${name}"
        for marks in (IN_TASK, IN_BATCH, IN_MPI, EMPTY)
        for name, mark in marks.items()
    },
    JOB_ID: "$SLURM_JOB_ID",
    **dict.fromkeys((NOT_EXPORTED, NOT_PASSED, NOT_ASKED), "$"),
    LAUNCH_NODE: "$SLURM_LAUNCH_NODE_IPADDR",
    ALL_ADDRESSES: "$(hostname -I)",
    RANDOM: "$RANDOM",
    OWN_HOST: "$(hostname)",
    POD_INDEX: "(index of the pod)",
    JOB_INDEX: "(index of the Job)",
}


def shown(text: str) -> str:
    """Return a value for a message; what the file does not say is three dots."""
    return _ANY_MARK.sub(lambda match: _SHOWN.get(match[0], "..."), text)
