"""Every format as its record declares it: sound files, and one defect at a time."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ranktable
from ranktable.schema.check import check
from ranktable.schema.formats import by_name, names, server_groups
from tests.drawn_files import SHAPE_CODES, at, broken, full, sound, validator

BESIDES = {"sccl-1.0": {"RT118", "RT502", "RT505"}}
"""What is said of a sound file of several nodes, or that one library cannot read."""
EVERY = pytest.mark.parametrize("name", names())


@pytest.mark.parametrize("name", [*names(), "server-groups"])
def test_everything_that_a_record_forbids_is_one_finding_at_its_place(
    name: str,
) -> None:
    is_read = name != "server-groups"
    record = by_name(name).record if is_read else server_groups._TABLE
    is_hccl_1 = by_name(name).is_hccl_1 if is_read else True
    option = {"format": name} if is_read else {"reader": "mindie"}

    for code, path, document in broken(record, full(record), is_hccl_1=is_hccl_1):
        if not is_read and server_groups.GROUPS not in document:
            continue  # then it is of another format
        found = check(json.dumps(document).encode(), **option).diagnostics  # type: ignore[arg-type]
        told = [(d.code, d.location.pointer) for d in found if d.code in SHAPE_CODES]
        place = "".join(f"/{step}" for step in path)

        assert told == [(code, place)]
        assert all(d.location.line for d in found if d.code in SHAPE_CODES)
        # A schema cannot limit a number that is spelt as text, and takes other keys.
        is_seen = code != "RT117" and (code, type(at(document, path))) != ("RT260", str)
        assert not (is_seen and is_read and validator(name).is_valid(document))


@EVERY
@given(data=st.data())
def test_sound_file_is_detected_and_written_back_unchanged(
    name: str, data: st.DataObject
) -> None:
    document = data.draw(sound(name))
    if name != "sccl-1.0":  # operators add keys of their own
        document["site"] = {"rack": [1]}
    report = check(json.dumps(document).encode())

    assert {*report.totals} <= BESIDES.get(name, set())
    assert report.format == name
    assert report.table is not None
    written = ranktable.dumps(report.table)
    assert json.loads(written) == document
    assert ranktable.loads(written) == report.table
