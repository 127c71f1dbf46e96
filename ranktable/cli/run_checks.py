"""What ``ranktable run`` refuses before it starts anything."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ranktable.cli.failure import DEFECTS_FOUND, CommandError
from ranktable.runtime import agreement
from ranktable.runtime.environment import resolve_environment
from ranktable.runtime.errors import InvalidVariableError, LaunchEnvironmentError
from ranktable.runtime.values import read_address

if TYPE_CHECKING:
    from ranktable.runtime.environment import Environment
    from ranktable.schema.model import RankTable


def launched_by(*, is_started: bool) -> Environment:
    """Return what the environment says of this process.

    Args:
        is_started: Whether processes are to be started here, so that a launcher must
            not have started several already.

    Raises:
        CommandError: The variables contradict each other, or there are several.
    """
    try:
        environment = resolve_environment(os.environ)
    except LaunchEnvironmentError as error:
        raise CommandError(str(error), DEFECTS_FOUND) from None
    if is_started and (started := _processes_here(environment)) is not None:
        raise CommandError(
            f"{environment.launcher} started {started} processes "
            "on this node; start ranktable run once a node, it starts the others",
            DEFECTS_FOUND,
        )
    return environment


def _processes_here(environment: Environment) -> str | None:
    """Return how many processes a launcher started on this node if that is several."""
    # A pod that is told how many processes to start has started none.
    if environment.launcher is None:
        return None
    started, nodes = environment.local_world_size, environment.num_nodes
    if started not in (None, 1):
        return str(started)
    is_second = started is None and (environment.local_rank or 0) > 0
    is_crowd = nodes is not None and (environment.world_size or 0) > nodes
    return "several" if is_second or is_crowd else None


def refuse_other_node(
    environment: Environment, table: RankTable, file: str, node: int | None
) -> None:
    """Raise unless what is known of this node and its chips is in the table."""
    is_worker = environment.launcher is not None
    about_node = replace(
        environment,
        # Those of the process that starts the others, where there are any.
        rank=None,
        world_size=None,
        local_rank=None,
        local_world_size=None if is_worker else environment.local_world_size,
        # Whoever names the node may start each of them by a launcher of its own.
        num_nodes=None if is_worker and node is not None else environment.num_nodes,
        node_rank=None if is_worker and node is not None else environment.node_rank,
    )
    try:
        agreement.refuse_other_table(about_node, table, file)
    except LaunchEnvironmentError as error:
        raise CommandError(str(error), DEFECTS_FOUND) from None


def refuse_missing_script(script: str) -> None:
    """Raise unless a script is there; an option of torchrun may stand in its place."""
    path = Path(script)
    if script.startswith("-") or path.is_file():
        return
    if path.exists():
        raise CommandError(f"{script!r} is not a file that every process can read")
    raise CommandError(f"there is no script {script!r}")


def address(argument: str | None) -> str | None:
    """Return the option; torchrun would take some texts for options of its own."""
    if argument is None:
        return None
    try:
        return read_address("it", "--master-addr", argument)
    except InvalidVariableError as error:
        raise CommandError(error.message) from None
