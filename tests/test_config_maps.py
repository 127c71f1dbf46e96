"""Tables in ConfigMaps: taken out, judged at their place in the file, put back."""

from __future__ import annotations

import base64
import gzip
import json
import tracemalloc
from typing import TYPE_CHECKING

import pytest

import ranktable
from ranktable.runtime.table import read_rank_table
from ranktable.schema.check import check
from ranktable.schema.config_map import vendor_of_jobs
from tests.conftest import CORPUS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Run

TABLE = (CORPUS / "hccl" / "valid" / "hccl10_multi_device_ip.json").read_text()
BAD = TABLE.replace('"rank_id": "1"', '"rank_id": "0"')


def in_yaml(table: str = TABLE, key: str = "hccl.json") -> str:
    body = "".join(f"    {line}\n" for line in table.splitlines())
    return (
        "# of an operator\napiVersion: v1\nkind: ConfigMap\nmetadata:\n"
        f"  name: rings-config-job\ndata:\n  {key}: |\n{body}  version: '17'\n"
    )


def in_json(table: str = TABLE, *, key: str = "hccl.json", **more: str) -> str:
    return json.dumps(
        {
            "apiVersion": "v1",
            "data": {key: table, **more},
            "kind": "ConfigMap",
            "metadata": {"name": "rings-config-job"},
        },
        indent=1,
    )


def packed(table: bytes) -> str:
    return base64.b64encode(gzip.compress(table, mtime=0)).decode()


FORMS = {
    "yaml": in_yaml(),
    "json": in_json(),
    "cce": in_yaml(key="jobstart_hccl.json"),
    "mindie": in_json(key="global_ranktable.json"),
    "packed": in_json(packed(TABLE.encode()), key="jobstart_hccl.json"),
    "packed yaml": in_yaml(packed(TABLE.encode())),
    "list": json.dumps({"kind": "List", "items": [json.loads(in_json())]}),
}


@pytest.mark.parametrize("form", FORMS)
def test_table_is_read_from_its_config_map(form: str) -> None:
    report = check(FORMS[form].encode(), file="map")

    assert (report.format, report.totals) == ("hccl-1.0", {})
    assert report.file == f"map#{report.key}"
    assert report.table == ranktable.loads(TABLE)


@pytest.mark.parametrize(
    "text", [in_yaml(BAD), in_json(BAD), in_json(packed(BAD.encode()))]
)
def test_defect_is_placed_in_the_text_of_the_table(text: str) -> None:
    (one,) = check(text.encode(), file="map.yaml").diagnostics
    (bare,) = check(BAD.encode()).diagnostics

    assert one.code == "RT202"
    assert one.location.file == "map.yaml#hccl.json"
    assert (one.location.line, one.location.column, one.location.pointer) == (
        *(bare.location.line, bare.location.column, bare.location.pointer),
    )


def placeholders() -> list[str]:
    bare = '{"status":"initializing"}'
    return [bare, '{"status":"initializing","version":"1.0"}', in_yaml(bare)]


@pytest.mark.parametrize("text", placeholders())
def test_placeholder_is_sound_and_gives_no_ranks(text: str, tmp_path: Path) -> None:
    report = check(text.encode())
    path = tmp_path / "table.json"
    path.write_text(text, "utf-8")

    assert (report.format, report.totals) == ("kubernetes", {"RT262": 1})
    assert (report.ok, report.table) == (True, None)
    for read in (read_rank_table, ranktable.load):
        with pytest.raises(ranktable.RankTableError, match="RT262"):
            read(path)


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (in_json("H4sI!!"), "RT255", "hccl.json is not base64"),
        (in_json("H4sIAAAA"), "RT255", "hccl.json is gzip without its end"),
        (
            in_json(base64.b64encode(b"\x1f\x8b\x08\x00xxxxxxxxxxxxx").decode()),
            "RT255",
            "hccl.json is not gzip of a text",
        ),
        (in_json(TABLE, total="2", cm_index="0"), "RT255", "is one of 2 parts"),
        (
            "kind: ConfigMap\ndata:\n  hccl.json: {status: x}\n",
            "RT255",
            "hccl.json is an object, not text",
        ),
        ("kind: ConfigMap\ndata: &a\n  hccl.json: *a\n", "RT136", "aliases"),
    ],
)
def test_config_map_that_holds_no_table_has_one_finding(
    text: str, code: str, message: str
) -> None:
    report = check(text.encode())

    assert report.format == "kubernetes"
    assert set(report.totals) == {code}
    assert message in report.diagnostics[0].message
    assert report.diagnostics[0].location.line is not None


@pytest.mark.parametrize("size", [2_000_000, 60_000_000])
def test_bomb_is_refused_within_the_limit(size: int) -> None:
    bomb = in_json(packed(b" " * size))
    report = check(bomb.encode(), max_size_bytes=1_000_000)

    assert report.totals == {"RT004": 1}


def test_bomb_takes_no_memory() -> None:
    file = in_json(packed(b" " * 300_000_000)).encode()
    tracemalloc.start()
    try:
        report = check(file)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert report.totals == {"RT004": 1}
    assert peak < 20 * len(file)


@pytest.mark.parametrize("kind", ["batch.volcano.sh/v1alpha1", "batch/v1"])
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("spec", ["queue: q", "a: &a {b: c}\n  d: *a", "<<: {a: b}"])
def test_config_map_beside_the_job_that_mounts_it_is_a_table(
    run: Run, tmp_path: Path, kind: str, spec: str, *, is_first: bool
) -> None:
    job = f"apiVersion: {kind}\nkind: Job\nmetadata:\n  name: j\nspec:\n  {spec}\n"
    parts = [in_yaml(), job] if is_first else [job, in_yaml()]
    (tmp_path / "j.yaml").write_text("---\n".join(parts))
    bad = in_yaml(BAD)
    (tmp_path / "bad.yaml").write_text(f"{job}---\n{bad}")

    done = run("ranktable", "validate", "j.yaml")
    assert "j.yaml#hccl.json: sound\n" in done.out
    assert "RT136" not in done.out
    again = run("ranktable", "convert", "j.yaml", "--to", "hccl-1.0")
    assert json.loads(again.out) == json.loads(TABLE), again.err
    done = run("ranktable", "validate", "bad.yaml")
    assert "bad.yaml#hccl.json:" in done.out


def test_table_is_converted_into_a_new_config_map(run: Run, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(TABLE, "utf-8")
    made = run("ranktable", "convert", "t.json", "--to", "kubernetes", "-o", "c.yaml")
    shown = run("ranktable", "show", "c.yaml")
    back = run("ranktable", "convert", "c.yaml", "--to", "hccl-1.0")

    assert (made.status, shown.status, back.status) == (0, 0, 0), made.err + back.err
    assert "hccl-1.0, 2 nodes, " in shown.out
    assert json.loads(back.out) == json.loads(TABLE)


@pytest.mark.parametrize(
    ("text", "vendor"),
    [
        ("limits: {nvidia.com/gpu: 8}", "nvidia"),
        ('"huawei.com/Ascend910": "8"', "ascend"),
        ("a: 1  # b\namd.com/gpu: 2", "amd"),
        ("# nvidia.com/gpu: 8", None),
        ("nvidia.com/gpu: 0", None),
        # Each of these took time by the square of its length once, or may.
        ("# " + "nvidia.com/gpu: 1 " * 400_000, None),
        ("sophgo" * 300_000, None),
        ("nvidia.com/gpu:" + " " * 1_000_000, None),
    ],
    ids=["list", "json", "below", "comment", "none", "long", "name", "blanks"],
)
def test_jobs_say_whose_chips_a_table_beside_them_is_about(
    text: str, vendor: str | None
) -> None:
    assert vendor_of_jobs(text) == vendor
