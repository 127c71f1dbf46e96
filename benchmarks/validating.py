"""``ranktable validate`` on a large table, beside check-jsonschema."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.budgets import Result
from benchmarks.measure import command, in_turn, script
from benchmarks.results import beside, memory, seconds
from benchmarks.tables import Defect, write_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from benchmarks.budgets import Scale
    from benchmarks.measure import Bench, Cost

RIVAL = "check-jsonschema"
_NUMBER = {"type": "string", "pattern": "^[0-9]+$"}
SMALL_SCHEMA = {
    "type": "object",
    "required": ["version", "node_list"],
    "properties": {
        "version": {"const": "1.0"},
        "node_list": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["device_list"],
                "properties": {
                    "device_list": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["device_id", "rank"],
                            "properties": {"device_id": _NUMBER, "rank": _NUMBER},
                        },
                    }
                },
            },
        },
    },
}
"""What a user would write by hand: version, lists, and patterns of two keys."""

_SHAPES = (Defect.LAST_SHAPE, Defect.ALL_SHAPE)
_KEYS = {
    Defect.NONE: "sound",
    Defect.LAST_SHAPE: "one shape",
    Defect.LAST_MEANING: "one meaning",
    Defect.ALL_SHAPE: "all shape",
    Defect.ALL_MEANING: "all meaning",
    Defect.ALL_GAPS: "all gaps",
}
_ONE = {
    Defect.ALL_SHAPE: Defect.LAST_SHAPE,
    Defect.ALL_MEANING: Defect.LAST_MEANING,
    Defect.ALL_GAPS: Defect.LAST_MEANING,
}


def measure_validating(bench: Bench, scale: Scale) -> Iterator[Result]:
    """Yield the results of the command on every kind of large table."""
    costs = {}
    for defect, key in _KEYS.items():
        path = bench.folder / f"{key.replace(' ', '-')}.json"
        write_table(path, scale.large, defect=defect)
        costs[defect] = validated(bench, path, defect, scale.commands)
    for defect in (Defect.NONE, Defect.LAST_SHAPE, Defect.LAST_MEANING):
        yield _compared(f"validate {_KEYS[defect]}", *costs[defect], defect)
    for many, one in _ONE.items():
        yield _many(_KEYS[many], costs[many][0], costs[one][0], costs[many][1])
        yield _output(_KEYS[many], *costs[many], many)


def validated(
    bench: Bench, path: Path, defect: Defect, repeats: int
) -> tuple[Cost, Cost]:
    """Return the costs of validating a table, ours and the rival's.

    The exit statuses are checked, so both did find the defect; the rival sees shape
    only and takes a table with a wrong meaning for sound.
    """
    ours = command("validate", str(path))
    rival = [script(RIVAL), "--schemafile", str(schema_file(bench)), str(path)]
    jobs = {
        "ours": partial(bench.command, ours, status=int(defect != Defect.NONE)),
        "rival": partial(bench.command, rival, status=int(defect in _SHAPES)),
    }
    if defect not in _ONE:
        costs = in_turn(jobs, repeats)
        return costs["ours"], costs["rival"]
    # With many defects the rival is shown, not compared: once is enough, as it takes
    # half a minute.
    return in_turn({"ours": jobs["ours"]}, repeats)["ours"], jobs["rival"]()


def schema_file(bench: Bench) -> Path:
    """Return the JSON Schema for the rival: the small one that a user would write."""
    path = bench.folder / "schema.json"
    path.write_text(json.dumps(SMALL_SCHEMA), encoding="utf-8")
    return path


def _compared(key: str, ours: Cost, theirs: Cost, defect: Defect) -> Result:
    found = beside(key, ours, theirs, RIVAL)
    missed = ", misses it" if defect is Defect.LAST_MEANING else ""
    return replace(found, rival=found.rival + missed)


def _many(key: str, many: Cost, one: Cost, theirs: Cost) -> Result:
    found = beside(f"validate {key}", many, one, "one defect")
    rival = f"{found.rival}; {RIVAL} {seconds(theirs.cpu_s)}"
    return replace(found, rival=rival, memory=memory(many, theirs))


def _output(key: str, ours: Cost, theirs: Cost, defect: Defect) -> Result:
    missed = "" if defect in _SHAPES else ", misses all"
    return Result(
        key=f"output {key}",
        figure=ours.output_bytes / 1e3,
        ours=f"{ours.output_bytes / 1e3:.1f} kB",
        rival=f"{RIVAL} {theirs.output_bytes / 1e3:.1f} kB{missed}",
    )
