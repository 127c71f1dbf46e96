"""``ranktable convert`` as an installed command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import ranktable
from ranktable.cluster import expand_hosts
from ranktable.cluster.generate import make_table, parse_device_list
from ranktable.cluster.hostfiles.launcher_formats import LAUNCHER_FORMATS

if TYPE_CHECKING:
    from tests.conftest import Outcome, Run


READ = [form for form in LAUNCHER_FORMATS if form.read and form.write]


def table(chips: str = "[[3,1],[0,1]]", hosts: str = "n[1-2]") -> bytes:
    nodes = [[chip.device_id for chip in node] for node in parse_device_list(chips)]
    return ranktable.dumps(make_table(nodes, hosts=expand_hosts(hosts) or None))


def convert(run: Run, given: bytes, *options: str) -> Outcome:
    return run("ranktable", "convert", "-", *options, given=given)


@pytest.mark.parametrize("form", READ, ids=lambda form: form.name)
def test_every_kind_is_written_and_read_back(form: object, run: Run) -> None:
    name = form.name  # type: ignore[attr-defined]
    there = convert(run, table("[[0,1],[0,1]]"), "--to", name)
    back = convert(run, there.out.encode(), "--from", name, "--to", "sccl-1.0")

    assert (there.status, back.status) == (0, 0)
    assert ranktable.loads(back.out).chip_map == [0, 1, 0, 1]
