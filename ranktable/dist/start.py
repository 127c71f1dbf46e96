"""``init_dist``: join the job, whatever has started this process."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from ranktable.runtime import init_process_group, resolve_environment
from ranktable.runtime.errors import MissingVariableError

if TYPE_CHECKING:
    from ranktable.runtime import Environment, Job
    from ranktable.schema.model import RankTable

_MPI: Final = frozenset({"open mpi", "mpich or intel mpi", "mvapich2", "pals", "jsrun"})
"""The launchers that scripts call ``mpi``, by their names in ``ranktable env``."""


def init_dist(  # noqa: PLR0913 - what scripts pass on
    launcher: str | None = None,
    backend: str | None = None,
    *,
    table: str | bytes | os.PathLike[str] | RankTable | None = None,
    master_addr: str | None = None,
    port: int | None = None,
    timeout: float | timedelta | None = None,
) -> Job:
    """Join this process to its job; see ``ranktable.runtime.init_process_group``.

    Args:
        launcher: The launcher: ``pytorch`` for any that sets ``RANK``, ``slurm``,
            ``mpi``, or a name that ``ranktable env`` prints. If it is given, another
            launcher is refused; None accepts any.
        backend: ``gloo``, ``nccl`` or ``sccl``, and nothing else is used then; None
            for the first whose device is here.
        table: A rank table or its path; by default ``$RANK_TABLE_FILE``.
        master_addr: Host of the rendezvous; by default the launcher's.
        port: Port there; likewise.
        timeout: Seconds until all ranks have to be there, and time-out of collectives.

    Raises:
        LaunchEnvironmentError: The environment is incomplete, contradicts itself, or is
            not that of the launcher.
        RankTableError: The table is not sound.
        BootstrapError: The backend, the device or a peer is not there.
        RuntimeError: The process has a process group already.
        ValueError: An argument is wrong.
    """
    if launcher is not None:
        has_address = master_addr is not None
        found = resolve_environment(os.environ, has_address=has_address)
        _refuse_other(launcher, found)
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    return init_process_group(
        backend,
        table=table,
        timeout_s=seconds,
        master_addr=master_addr,
        master_port=port,
    )


def _refuse_other(launcher: str, environment: Environment) -> None:
    found, variable = environment.launcher, environment.sources.get("rank")
    is_it = {"pytorch": variable == "RANK", "mpi": found in _MPI}
    if is_it.get(launcher, found == launcher):
        return
    what = (
        "no launcher says which rank this process is"
        if found is None
        else f"its rank comes from {found} ({variable})"
    )
    raise MissingVariableError(
        "RT301",
        f"init_dist was told that {launcher} started this process, but {what}; start "
        f"it with {launcher}, or leave launcher out to use the launcher that is found",
        {},
    )
