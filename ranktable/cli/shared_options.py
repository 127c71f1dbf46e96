"""Options that several commands have: the fields of a dataclass."""

from __future__ import annotations

import inspect
from dataclasses import fields
from functools import wraps
from typing import TYPE_CHECKING, Any, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Command = Callable[..., None]


def with_options(**sets: type[Any]) -> Callable[[Command], Command]:
    """Return what gives a command options in place of some of its parameters.

    Args:
        sets: For each of these parameters its dataclass. Every field has a default and
            is annotated as typer has it.
    """

    def spread(function: Command) -> Command:
        @wraps(function)
        def command(**values: Any) -> None:  # noqa: ANN401 - whatever typer has read
            for name, kind in sets.items():
                given = {each.name: values.pop(each.name) for each in fields(kind)}
                values[name] = kind(**given)
            function(**values)

        parameters = list(_parameters(function, sets))
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {each.name: each.annotation for each in parameters}
        return command

    return spread


def _parameters(
    function: Command, sets: dict[str, type[Any]]
) -> Iterator[inspect.Parameter]:
    """Yield what typer makes options and arguments of."""
    for each in inspect.signature(function, eval_str=True).parameters.values():
        if each.name not in sets:
            yield each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            continue
        types = get_type_hints(sets[each.name], include_extras=True)
        for field in fields(sets[each.name]):
            yield inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=types[field.name],
            )
