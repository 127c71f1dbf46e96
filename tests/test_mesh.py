"""``ranktable mesh``: text for people, folded beyond 16 ranks, and json."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ranktable import dump
from ranktable.cluster.generate import make_table
from ranktable.layout import ParallelLayout
from ranktable.layout.parallel import STYLE_NAMES
from ranktable.schema.remembered_layout import EP_STYLES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.conftest import Run

TURNED = (2, 6, 7, 3, 1, 5, 4, 0)


def saved(folder: Path, chips: Iterable[Iterable[int]], *hosts: str) -> str:
    table = make_table([tuple(node) for node in chips], hosts=hosts or None)
    dump(table, folder / "t.json")
    return "t.json"


def test_every_style_has_its_rules() -> None:
    assert set(EP_STYLES) == set(STYLE_NAMES)


def test_names_that_the_file_chose_do_not_steer_the_terminal(
    run: Run, tmp_path: Path
) -> None:
    name = saved(tmp_path, [(0,), (1,)], "a\x1b[31m", "b")

    shown = run("ranktable", "mesh", name, "--tp", "2", "--color", "never")

    assert "\x1b" not in shown.out


def test_mesh_is_what_the_layout_says(run: Run, tmp_path: Path) -> None:
    name = saved(tmp_path, [TURNED] * 4)
    layout = ParallelLayout.preset("jax", tp=2, ep=2, pp=2, dp=-1, world_size=32)

    shown = run("ranktable", "mesh", name, "--preset", "jax", "--tp", "2", "--ep", "2",
                "--pp", "2", "--format", "json")  # fmt: skip
    found = json.loads(shown.out)

    for kind in ("ep", "tp", "pp", "dp"):
        ranks = [group["ranks"] for group in found["groups"] if group["kind"] == kind]
        assert ranks == layout.groups(kind)
