"""For training processes: find rank and chip, and join the process group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable._lazy import attach

if TYPE_CHECKING:
    from ranktable.runtime.device_mesh import make_groups, make_mesh
    from ranktable.runtime.environment import Environment, resolve_environment
    from ranktable.runtime.errors import (
        BootstrapError,
        ConflictingVariablesError,
        InvalidVariableError,
        LaunchEnvironmentError,
        MissingVariableError,
    )
    from ranktable.runtime.process_group import Job, init_process_group
    from ranktable.runtime.table import is_rank_table_valid, read_rank_table

__all__ = [
    "BootstrapError",
    "ConflictingVariablesError",
    "Environment",
    "InvalidVariableError",
    "Job",
    "LaunchEnvironmentError",
    "MissingVariableError",
    "init_process_group",
    "is_rank_table_valid",
    "make_groups",
    "make_mesh",
    "read_rank_table",
    "resolve_environment",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "BootstrapError": "ranktable.runtime.errors",
            "ConflictingVariablesError": "ranktable.runtime.errors",
            "Environment": "ranktable.runtime.environment",
            "InvalidVariableError": "ranktable.runtime.errors",
            "Job": "ranktable.runtime.process_group",
            "LaunchEnvironmentError": "ranktable.runtime.errors",
            "MissingVariableError": "ranktable.runtime.errors",
            "init_process_group": "ranktable.runtime.process_group",
            "is_rank_table_valid": "ranktable.runtime.table",
            "make_groups": "ranktable.runtime.device_mesh",
            "make_mesh": "ranktable.runtime.device_mesh",
            "read_rank_table": "ranktable.runtime.table",
            "resolve_environment": "ranktable.runtime.environment",
        },
    )
