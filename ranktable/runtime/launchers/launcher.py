"""A launcher: how to know it, and what its variables claim."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from ranktable.runtime.errors import LaunchEnvironmentError
from ranktable.runtime.values import Value, read_address, read_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    More = Callable[[Mapping[str, str]], Iterator[tuple[str, Value, str]]]


class Level(str, Enum):
    """What a claim speaks of."""

    PROCESS = "process"
    NODE = "node"


class Tier(int, Enum):
    """Where a launcher stands among nested ones, the innermost first.

    An inner launcher is the one that started this process: torchrun within srun,
    mpirun within an allocation. ``BESIDE`` is for variables that scripts set by hand;
    they shadow nothing and nothing shadows them.
    """

    BESIDE = 0
    WORKER = 1
    MPI = 2
    MANAGER = 3
    PLATFORM = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What one variable says.

    Attributes:
        field: Field of the environment; empty where a problem is about several.
        value: Its value, None if the variable holds something it cannot mean.
        variable: The variable it came from.
        text: The variable's own text.
        launcher: Name of the launcher that sets it.
        level: Whether it speaks of this process, or of its node, pod or agent.
        problem: Why there is no value.
    """

    field: str
    value: Value | None
    variable: str
    text: str
    launcher: str
    level: Level
    problem: LaunchEnvironmentError | None = None


TEXT_FIELDS = ("master_addr", "host")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """One launcher.

    Attributes:
        name: Name in messages.
        tier: Where it stands among nested launchers.
        level: Level of the claims of ``fields``.
        markers: Variables that are all set where it has started the process.
        any_of: Variables of which one is set there.
        absent: Variables that are not set there; they tell it from its likes.
        not_where: (variable, value) pairs that mean it has not started the process.
        unless: Launchers that own the same variables where they are present.
        fields: The variable of each field that it sets plainly.
        more: Claims that need more than reading a number.
        may_lack: Fields that it rightly leaves out of a pair.
        nodes_follow_ranks: Whether its node_rank counts nodes by the ranks they hold.
        advice: How processes get ranks where it is present and gives none.
    """

    name: str
    tier: Tier
    level: Level = Level.PROCESS
    markers: tuple[str, ...]
    any_of: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    not_where: tuple[tuple[str, str], ...] = ()
    unless: tuple[Launcher, ...] = ()
    fields: Mapping[str, str] = field(default_factory=dict)
    more: More | None = None
    may_lack: tuple[str, ...] = ()
    nodes_follow_ranks: bool = False
    advice: str | None = None

    def is_present(self, env: Mapping[str, str]) -> bool:
        """Whether the process was started by it, or within it."""
        return (
            all(env.get(name) for name in self.markers)
            and (not self.any_of or any(env.get(name) for name in self.any_of))
            and not any(env.get(name) for name in self.absent)
            and not any(env.get(name) == value for name, value in self.not_where)
            and not any(owner.is_present(env) for owner in self.unless)
        )

    def claims(self, env: Mapping[str, str]) -> Iterator[Claim]:
        """Yield what its variables say; an empty variable says nothing.

        A variable that holds something it cannot mean gives a claim with a problem.
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
    ) -> Claim:
        return Claim(
            field=name,
            value=value,
            variable=variable,
            text=env.get(variable, ""),
            launcher=self.name,
            level=self.level,
            problem=problem,
        )
