"""What the document says that backends can do is what they declare."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ranktable.runtime.backends.backend import BACKENDS, OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pytest

DOCUMENT = Path(__file__).parent.parent / "docs" / "bootstrap.md"
BEGIN, END = "<!-- the table -->\n", "<!-- the end of the table -->"


def listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "-"


def table() -> Iterator[str]:
    yield "| backend | reduces | by | only sends | lacks |"
    yield "|---|---|---|---|---|"
    for each in BACKENDS:
        assert each.lacks <= set(OPERATIONS)
        columns = (each.adds, each.reductions, each.moves - each.adds, each.lacks)
        yield f"| {' | '.join([f'`{each.name}`', *map(listed, columns)])} |"
    yield ""
    for each in BACKENDS:
        yield f"- {each.name}: {each.source}"


def test_document_has_the_table_of_the_backends(request: pytest.FixtureRequest) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    before, mark, rest = text.partition(BEGIN)
    lines = "\n".join(table())
    expected = f"{before}{mark}\n{lines}\n\n{END}{rest.partition(END)[2]}"
    if request.config.getoption("--update-golden"):
        DOCUMENT.write_text(expected, encoding="utf-8")

    assert text == expected
