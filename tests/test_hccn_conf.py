"""Huawei's hccn.conf: it is told from its keys, and judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ranktable.cluster.hccn_conf import judge_hccn_conf
from tests.conftest import CORPUS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Run

SOUND = CORPUS / "hccl" / "valid" / "hccn.conf"


def test_sound_file_is_told_from_its_keys(run: Run) -> None:
    done = run("ranktable", "validate", str(SOUND), "--format", "full")

    assert (done.status, done.out) == (0, f"{SOUND}: sound (hccn.conf)\n")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "address_0=10.0.0.1\nnetmask_0=x\nnetmask_1=x\naddress_2=10.0.0.2\n",
            ("RT112", "error", 4),
        ),
        ("address_0=10.0.0.1\naddress_2=10.0.0.2\n", ("RT112", "warning", 2)),
        ("netmask_0=x\naddress_0 = -.-.-.-\n", ("RT211", "error", 2)),
        ("address_0=10.0.0.1\naddress_1=10.0.0.1\n", ("RT214", "error", 2)),
        ("address_0=10.0.0.1\naddress_0=10.0.0.2\n", ("RT105", "error", 2)),
    ],
)
def test_one_mistake_is_found_at_its_line(
    text: str, found: tuple[str, str, int]
) -> None:
    report = judge_hccn_conf(text.encode(), file="hccn.conf")

    assert [
        (one.code, one.severity.value, one.location.line) for one in report.diagnostics
    ] == [found]


def test_device_without_an_address_is_named_where_a_table_needs_it(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "hccn.conf").write_text("address_0=10.0.0.1\n", encoding="utf-8")
    run("ranktable", "gen", "--device-id", "[[0,1]]", "-o", "t.json")
    done = run(
        *("ranktable", "convert", "t.json", "--to", "hccl-1.0", "--server-id", "n1"),
        *("--hccn-conf", "hccn.conf"),
    )

    assert (done.status, done.out) == (2, "")
    assert "hccn.conf has no address_1 of device 1 of n1" in done.err


def test_file_that_validate_calls_sound_can_be_converted(
    run: Run, tmp_path: Path
) -> None:
    text = " address_0 = 10.0.0.1\n\taddress_1=10.0.0.2\r\n"
    (tmp_path / "hccn.conf").write_text(text, encoding="utf-8")
    run("ranktable", "gen", "--device-id", "[[0,1]]", "-o", "t.json")
    judged = run("ranktable", "validate", "hccn.conf")
    done = run(
        *("ranktable", "convert", "t.json", "--to", "hccl-1.0", "--server-id", "n1"),
        *("--hccn-conf", "hccn.conf", "-o", "hccl.json"),
    )

    assert (judged.status, done.status) == (0, 0), done.err
    assert '"device_ip":"10.0.0.2"' in (tmp_path / "hccl.json").read_text()
