"""Formats that are trees of objects: each is read, judged, shown and written back."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ranktable
from ranktable.schema.check import check
from ranktable.schema.formats import OTHERS, by_name
from tests.drawn_files import changed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Run


NAMES = [other.name for other in OTHERS]
Document = Any


def sample(name: str) -> Document:
    """Return a sound document of a format."""
    return copy.deepcopy(by_name(name).example)


def test_wrong_entry_of_a_list_is_named_with_its_list() -> None:
    address = {"rank_addr_list": [{"ports": [3]}]}
    document = {"rank_list": [{"level_list": [address]}]}
    found = check(json.dumps(document).encode()).diagnostics

    name = "rank_list[0].level_list[0].rank_addr_list[0].ports[0]"
    assert f"{name} is 3, not a string" in [one.message for one in found]


@pytest.mark.parametrize("name", NAMES)
def test_every_format_is_shown(name: str, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    file.write_text(json.dumps(sample(name)), "utf-8")
    outcome = run("ranktable", "show", str(file))

    assert outcome.status == 0, outcome.err
    assert f": {name}, " in outcome.out


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_changed_value_ends_in_a_finding_or_in_the_same_document(
    name: str, data: st.DataObject
) -> None:
    document = data.draw(changed(name))
    report = check(json.dumps(document).encode())

    assert report.ok == (report.table is not None)
    if report.table is not None:
        assert json.loads(ranktable.dumps(report.table)) == document
