"""What the document says of backends is what plans are made of."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.capability_tables import tables

if TYPE_CHECKING:
    import pytest

DOCUMENT = Path(__file__).parent.parent / "docs" / "capability.md"
BEGIN = "<!-- the tables -->\n"


def test_document_has_the_tables_of_the_code(request: pytest.FixtureRequest) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    before, mark, _ = text.partition(BEGIN)
    expected = f"{before}{mark}\n{tables()}\n"
    if request.config.getoption("--update-golden"):
        DOCUMENT.write_text(expected, encoding="utf-8")

    assert text == expected
