"""Drawn tables that were fitted, as they were written: SCCL, HCCL 1.0 and 1.2.

Nodes lost and replaced, chips, gaps, spares, super pods, addresses, uneven nodes. The
commands that ``fit`` replaced wrote the same tables, except that ``renumber`` moved
more ranks, and that spares were in another order where a node became one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import ranktable
from ranktable.cli.table_input import part_of
from ranktable.layout import ParallelLayout, fit
from ranktable.schema.check import check_bytes
from ranktable.schema.report import Options
from tests.conftest import HERE

if TYPE_CHECKING:
    from ranktable.schema.model import RankTable

GOLDEN = HERE / "golden" / "fit.jsonl"
CASES: list[dict[str, Any]] = [*map(json.loads, GOLDEN.read_text().splitlines())]


def table_of(document: object) -> RankTable:
    data = json.dumps(document).encode()
    table = part_of(check_bytes(data, Options(is_table_wanted=True), file="t.json"))
    assert table is not None
    return table


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case["request"]))
def test_table_is_fitted_as_reviewed(
    case: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    given = dict(case["request"])
    if "using" in given:
        given["using"] = table_of(given["using"]).nodes
    layout = ParallelLayout(**case["layout"]) if case["layout"] else None

    table = fit(table_of(case["table"]), layout, **given).table

    fitted = json.loads(ranktable.dumps(table))
    fitted.pop("layout", None)
    if request.config.getoption("--update-golden"):
        case["fitted"] = fitted
        lines = [json.dumps(one, separators=(",", ":")) + "\n" for one in CASES]
        GOLDEN.write_text("".join(lines))
    assert fitted == case["fitted"]
    assert ranktable.loads(ranktable.dumps(table)).digest() == table.digest()
