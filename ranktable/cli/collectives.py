"""``ranktable explain --collective``: how a backend does a collective."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from ranktable.cli.output import CommandError, OutputFormat, write, write_json
from ranktable.dist.collective_errors import UnsupportedError
from ranktable.dist.collective_plan import explain
from ranktable.runtime.backends.backend import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ranktable.dist.collective_plan import CollectivePlan


def explain_collective(
    operation: str,
    backend: str | None,
    dtype: str,
    op: str,
    form: OutputFormat,
    *,
    even: bool,
) -> int:
    """Print how a collective is done on one backend, or on each.

    Args:
        operation: The collective.
        backend: A backend, None for all.
        dtype: Type of the tensors.
        op: The reduction.
        form: Form of the output.
        even: Whether all parts have the same size.

    Returns:
        The exit status: 1 if no backend can do it exactly.

    Raises:
        CommandError: There is no such collective, backend, type or reduction.
    """
    names = list(TABLES)
    if backend is not None and backend not in names:
        raise CommandError(
            f"the backend {backend!r} is not known; the known ones are "
            f"{', '.join(names)}"
        )
    wanted = names if backend is None else [backend]
    answers = {name: _answer(operation, name, dtype, op, even=even) for name in wanted}
    if form is OutputFormat.JSON:
        data = [_data(name, *answer) for name, answer in answers.items()]
        write_json(data)
    elif backend is not None:
        write(_page(*answers[backend]))
    elif len({str(answer) for answer, _ in answers.values()}) == 1:
        write(_page(*next(iter(answers.values()))))
    else:
        write(_lines({name: answer for name, (answer, _) in answers.items()}))
    return int(all(isinstance(answer, str) for answer, _ in answers.values()))


def _answer(
    operation: str, backend: str, dtype: str, op: str, *, even: bool
) -> tuple[CollectivePlan | str, CollectivePlan | None]:
    """Return a plan or why there is none, and the exact plan if it differs."""
    try:
        plan = explain(operation, backend, dtype, op, even=even)
        exact = explain(operation, backend, dtype, op, even=even, exact=True)
    except UnsupportedError as error:
        return str(error), None
    except ValueError as error:
        raise CommandError(str(error)) from error
    return plan, None if exact == plan else exact


def _page(answer: CollectivePlan | str, exact: CollectivePlan | None) -> Iterable[str]:
    if isinstance(answer, str):
        return [f"{answer}\n"]
    more = [] if exact is None else [f"with exact=True:\n{exact}\n"]
    sources = [f"source: {source}\n" for source in answer.sources]
    return [f"{answer}\n", *more, *sources]


def _lines(answers: dict[str, CollectivePlan | str]) -> Iterable[str]:
    width = max(map(len, answers))
    for name, answer in answers.items():
        if isinstance(answer, str):
            said = f"no: {answer}"
        else:
            moves = [step.volume for step in answer.steps if step.volume]
            said = f"{answer.recipe:<18} sends {', '.join(moves)}"
        yield f"{name:<{width}}  {said}\n"


def _data(
    name: str, answer: CollectivePlan | str, exact: CollectivePlan | None
) -> dict[str, object]:
    if isinstance(answer, str):
        return {"backend": name, "plan": None, "exact_plan": None, "reason": answer}
    return {
        "backend": name,
        "plan": asdict(answer),
        "exact_plan": None if exact is None else asdict(exact),
        "reason": None,
    }
