"""Errors of a process that cannot join its job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable._error import Error

if TYPE_CHECKING:
    from collections.abc import Mapping


class LaunchEnvironmentError(Error, ValueError):
    """The environment does not give the rank of this process.

    Attributes:
        code: The RT3xx that ``ranktable explain`` documents.
        message: What is wrong, without the code.
        variables: The variables that were read, with their values; None for unset ones.
    """

    def __init__(
        self, code: str, message: str, variables: Mapping[str, str | None]
    ) -> None:
        """Store the parts."""
        super().__init__(f"{code} {message}")
        self.code = code
        self.message = message
        self.variables = dict(variables)


class MissingVariableError(LaunchEnvironmentError):
    """A variable that is required is unset or empty."""


class InvalidVariableError(LaunchEnvironmentError):
    """A variable has an invalid value."""


class ConflictingVariablesError(LaunchEnvironmentError):
    """Variables contradict each other, or the rank table."""


class BootstrapError(Error, RuntimeError):
    """The process group could not be started.

    Attributes:
        code: The RT4xx that ``ranktable explain`` documents.
        message: What is wrong, without the code.
        ranks: The ranks that have the problem, as far as they are known.
    """

    def __init__(self, code: str, message: str, ranks: tuple[int, ...] = ()) -> None:
        """Store the parts."""
        super().__init__(f"{code} {message}")
        self.code = code
        self.message = message
        self.ranks = ranks
