"""A format is added with one file and one line; every command takes it then."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.commands import Outcome, run_python
from tests.conftest import HERE

if TYPE_CHECKING:
    from pathlib import Path

MODULE = '''
"""A format of this test."""

from ranktable.schema.declare import (
    Kind, Record, KeyRole, filled_list, integer, node_list_format, text, version
)
from ranktable.schema.rules import nodes, ranks

MOST = 999_999
CARD = Record(
    name="device",
    description="A card.",
    keys=(
        integer(
            "card_id", MOST, "Its number.",
            role=KeyRole.DEVICE_ID, is_required=True, is_written=True,
        ),
        integer(
            "process", MOST, "Its rank.",
            role=KeyRole.RANK, is_required=True, is_written=True,
        ),
    ),
)
BOX = Record(
    name="box",
    description="A box.",
    keys=(
        text(
            "name", "Of the box.", "a",
            kind=Kind.HOST, role=KeyRole.HOST, is_required=True,
        ),
        filled_list("cards", CARD, "Its cards."),
    ),
)
FORMAT = node_list_format(
    name="boxes-3",
    title="Boxes of cards 3",
    description="Of this test.",
    record=Record(
        name="table",
        description="All boxes.",
        keys=(
            version("3"),
            integer("num_boxes", MOST, "Their number.", role=KeyRole.COUNT),
            filled_list("boxes", BOX, "All of them."),
        ),
    ),
    nodes_key="boxes",
    devices_key="cards",
    keeps_file_order=True,
    matches=lambda document: "boxes" in document,
    rules=(*ranks.RULES, *nodes.CHIP_RULES, nodes.WRONG_COUNT, nodes.DUPLICATE_HOST),
)
'''
TABLE = {
    "version": "3",
    "num_boxes": 2,
    "boxes": [
        {
            "name": name,
            "cards": [
                {"card_id": card, "process": 2 * box + card} for card in range(2)
            ],
        }
        for box, name in enumerate("ab")
    ],
}


class Copy:
    """The package with one more format, and a folder to work in."""

    def __init__(self, folder: Path) -> None:
        package = folder / "packages" / "ranktable"
        shutil.copytree(
            HERE.parent / "ranktable",
            package,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        formats = package / "schema" / "formats"
        (formats / "boxes.py").write_text(MODULE, encoding="utf-8")
        listed = formats / "__init__.py"
        text = listed.read_text(encoding="utf-8")
        line = "FORMATS: tuple[Format, ...] = ("
        added = f"from ranktable.schema.formats import boxes\n\n{line}boxes.FORMAT, "
        assert line in text
        listed.write_text(text.replace(line, added), encoding="utf-8")
        self.folder = folder
        self.env = {**os.environ, "PYTHONPATH": str(package.parent)}
        (folder / "t.json").write_text(json.dumps(TABLE, indent=1), encoding="utf-8")

    def run(self, *arguments: str) -> Outcome:
        command = ("-m", "ranktable", *arguments)
        return run_python(*command, cwd=self.folder, env=self.env)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy(tmp_path_factory.mktemp("format"))


def test_made_up_format_is_validated(copy: Copy) -> None:
    text = (copy.folder / "t.json").read_text(encoding="utf-8")
    (copy.folder / "bad.json").write_text(
        text.replace('"process": 3', '"process": "2"'), encoding="utf-8"
    )

    sound, bad = copy.run("validate", "t.json"), copy.run("validate", "bad.json")

    assert (sound.status, sound.out) == (0, "t.json: sound\n")
    assert bad.status == 1
    found = [line.split(": ", 1)[1] for line in bad.out.splitlines()[:2]]
    assert found[0] == 'error[RT113] process is "2", not an integer'
    assert found[1].startswith('error[RT202] rank "2" is assigned to device 0 of node')


def test_made_up_format_is_shown_and_has_a_schema(copy: Copy) -> None:
    shown, schema = copy.run("show", "t.json"), copy.run("schema", "boxes-3")

    assert shown.out == (
        "t.json: boxes-3, 2 nodes, 4 ranks\na,b: chips 0,1 -> ranks 0-3, 2 each\n"
    )
    assert json.loads(schema.out)["$defs"]["device"]["required"] == [
        "card_id",
        "process",
    ]


def test_made_up_format_is_converted(copy: Copy) -> None:
    there = copy.run("convert", "t.json", "--to", "sccl-1.0")
    hosts = copy.run("convert", "t.json", "--to", "openmpi-hostfile")

    assert json.loads(there.out)["node_list"][1]["host"] == "b"
    assert hosts.out == "a slots=2\nb slots=2\n"


def test_made_up_format_is_split_merged_and_changed(copy: Copy) -> None:
    split = copy.run("split", "t.json", "--output", "parts")
    parts = sorted(map(str, (copy.folder / "parts").iterdir()))
    merged = copy.run("merge", *parts, "-o", "-")
    other = copy.run("fit", "t.json", "--lost", "b", "--with", "c", "-o", "-")

    assert split.status == merged.status == 0, split.err + merged.err
    assert json.loads(merged.out) == TABLE
    assert [box["name"] for box in json.loads(other.out)["boxes"]] == ["a", "c"]
