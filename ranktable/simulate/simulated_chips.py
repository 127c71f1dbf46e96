"""The pytest fixture for simulated chips, for the tests of a project."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

from ranktable.schema.check import load
from ranktable.schema.model import RankTable
from ranktable.simulate import spawned
from ranktable.simulate.launch import launch, printed
from ranktable.simulate.processes import noted_signals, run_folder
from ranktable.simulate.requirements import refuse_missing_script, refuse_missing_torch
from ranktable.simulate.simulation import Simulation, make_boxes, make_run
from ranktable.simulate.simulation_error import SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ranktable.simulate.launch import RunOutcome
    from ranktable.simulate.simulated_run import RunFinding

    Target = str | os.PathLike[str] | Callable[..., object]


class SimulatedChips:
    """Starts ranks on simulated chips.

    Attributes:
        findings: The findings of the last job, its warnings too.
    """

    def __init__(self) -> None:
        """Start without findings."""
        self.findings: tuple[RunFinding, ...] = ()

    def spawn(
        self,
        target: Target,
        *args: object,
        nproc: int | None = None,
        nodes: int | None = None,
        rank_table: str | os.PathLike[str] | RankTable | None = None,
        faults: Sequence[str] = (),
        timeout_s: float = 60.0,
    ) -> list[Any]:
        """Run a function or a script on simulated chips, one process on each.

        Args:
            target: A function at the top of a module, which is called with the rank
                and ``args``; or the path of a script, started with ``args``.
            args: More arguments; those of a function are pickled.
            nproc: Number of ranks; with several nodes, of each node. By default 2.
            nodes: Number of simulated nodes. By default 1.
            rank_table: A table, or its file, instead of ``nproc`` and ``nodes``.
            faults: Failures to simulate: ``["hang:1@2"]``.
            timeout_s: Seconds after which a missing rank is named.

        Returns:
            The results of the function by rank, or what the script printed to standard
            output on each rank.

        Raises:
            SimulationError: The job failed; the text is one sentence with the reason.
            ValueError: The job cannot be started like this.
        """
        file, table = _table(rank_table, nproc, nodes)
        run = make_run(table, timeout_s=timeout_s, faults=faults)
        with noted_signals() as signals, run_folder() as folder:
            job = partial(Simulation, run=run, table=table, table_file=file)
            plan = _plan(job, target, args, folder)
            refuse_missing_torch()
            outcome = launch(plan, folder, signals)
            self.findings = outcome.findings
            _refuse_failure(outcome, folder)
            if callable(target):
                results = spawned.returned(folder)
                return [results[rank] for rank in range(table.world_size)]
            return printed(folder, table.world_size)


def _table(
    source: str | os.PathLike[str] | RankTable | None,
    nproc: int | None,
    nodes: int | None,
) -> tuple[str | None, RankTable]:
    """Return the file of the table, if it has one, and the table."""
    if source is None:
        sizes = (2 if nproc is None else nproc, 1 if nodes is None else nodes)
        return None, make_boxes(*sizes)
    if nproc is not None or nodes is not None:
        raise ValueError("rank_table has the sizes; leave out nproc and nodes")
    if isinstance(source, RankTable):
        return None, source
    return os.fspath(source), load(source)


def _plan(
    job: partial[Simulation], target: Target, args: tuple[object, ...], folder: Path
) -> Simulation:
    """Return the plan of a job that runs a function or a script."""
    if callable(target):
        task = spawned.task_of(target)
        module, *arguments = spawned.command_of(task, folder, *args)
        return job(script=module, arguments=arguments, is_module=True)
    script = os.fspath(target)
    refuse_missing_script(script, is_module=False)
    return job(script=script, arguments=tuple(map(str, args)), keeps_output=True)


def _refuse_failure(outcome: RunOutcome, folder: Path) -> None:
    """Raise if the job has failed."""
    if outcome.signum is not None:
        raise KeyboardInterrupt
    if not outcome.errors:
        return
    first = outcome.errors[0]
    why = None if first.rank is None else spawned.raised(folder, first.rank)
    message = first.message
    if why is not None and not why.startswith(SimulationError.__name__):
        message = f"rank {first.rank} raised {why}"
    raise SimulationError(message, () if first.rank is None else (first.rank,))
