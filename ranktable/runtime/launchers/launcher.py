"""A launcher: how it is detected, and what its variables mean."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from ranktable.runtime.errors import LaunchEnvironmentError
from ranktable.runtime.values import Value, read_address, read_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    More = Callable[[Mapping[str, str]], Iterator[tuple[str, Value, str]]]

TEXT_FIELDS = ("master_addr", "host")
_PAIR = {"rank": "world_size", "world_size": "rank"}


class ClaimLevel(str, Enum):
    """What a claim describes."""

    PROCESS = "process"
    NODE = "node"


@dataclass(frozen=True, slots=True, kw_only=True)
class VariableClaim:
    """The claim of one variable.

    Attributes:
        field: Field of the environment; empty where a problem is about several.
        value: Its value, None if the text of the variable is wrong.
        variable: The variable it came from.
        text: The text of the variable.
        launcher: Name of the launcher that sets it.
        level: Whether it describes this process, or its node, pod or agent.
        problem: Why there is no value.
        needs: The variable that must be set too: a rank needs a size.
    """

    field: str
    value: Value | None
    variable: str
    text: str
    launcher: str
    level: ClaimLevel
    problem: LaunchEnvironmentError | None = None
    needs: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """One launcher; ``nesting.py`` says which of them can run inside which.

    Attributes:
        name: Name in messages.
        owns_torchs_names: Whether ``RANK`` and similar variables are its own.
        level: Level of the claims of ``fields``.
        markers: Variables that are all set where it has started the process.
        any_of: Variables of which one is set there.
        absent: Variables that are not set there; they distinguish similar launchers.
        only_where: (variable, value) pairs: where the variable is set, this is it.
        not_where: (variable, value) pairs that mean it has not started the process.
        fields: The variable of each field that can be read without more code.
        more: Claims that need more than reading a number.
        may_lack: Fields that it need not set beside the other one of a pair.
        advice: How to get a rank or a size where it is present and does not give it.
        chips: The variable with the number of chips of a node, where it is known.
        lacks: The variables that are missing then.
    """

    name: str
    owns_torchs_names: bool = False
    level: ClaimLevel = ClaimLevel.PROCESS
    markers: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    only_where: tuple[tuple[str, str], ...] = ()
    not_where: tuple[tuple[str, str], ...] = ()
    fields: Mapping[str, str] = field(default_factory=dict)
    more: More | None = None
    may_lack: tuple[str, ...] = ()
    advice: str | None = None
    chips: str = ""
    lacks: tuple[str, ...] = ("RANK", "WORLD_SIZE")

    def is_present(self, env: Mapping[str, str]) -> bool:
        """Whether it has started the process, or a process around it."""
        return (
            all(env.get(name) for name in self.markers)
            and (not self.any_of or any(env.get(name) for name in self.any_of))
            and not any(env.get(name) for name in self.absent)
            and all(
                (env.get(name) or value) == value for name, value in self.only_where
            )
            and not any(env.get(name) == value for name, value in self.not_where)
        )

    def claims(self, env: Mapping[str, str]) -> Iterator[VariableClaim]:
        """Yield the values of its variables; an empty variable counts as unset.

        A wrong value gives a claim with a problem.
        """
        for name, variable in self.fields.items():
            text = env.get(variable, "")
            if not text:
                continue
            read = read_address if name in TEXT_FIELDS else read_number
            try:
                yield self._claim(name, read(name, variable, text), variable, env)
            except LaunchEnvironmentError as error:
                yield self._claim(name, None, variable, env, error)
        if self.more is None:
            return
        try:
            for name, value, variable in self.more(env):
                yield self._claim(name, value, variable, env)
        except LaunchEnvironmentError as error:
            yield self._claim("", None, next(iter(error.variables)), env, error)

    def _claim(
        self,
        name: str,
        value: Value | None,
        variable: str,
        env: Mapping[str, str],
        problem: LaunchEnvironmentError | None = None,
    ) -> VariableClaim:
        other = _PAIR.get(name)
        return VariableClaim(
            field=name,
            value=value,
            variable=variable,
            text=env.get(variable, ""),
            launcher=self.name,
            level=self.level,
            problem=problem,
            needs=None
            if other is None or other in self.may_lack
            else self.fields.get(other, other),
        )
