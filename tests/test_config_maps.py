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
from tests.conftest import CORPUS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

TABLE = (CORPUS / "hccl" / "valid" / "hccl10_multi_device_ip.json").read_text()
BAD = TABLE.replace('"rank_id": "1"', '"rank_id": "0"')
BLOCK = "".join(f"    {line}\n" for line in TABLE.splitlines())


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
    "parts": json.dumps(
        {
            "kind": "List",
            "items": [
                json.loads(in_json(TABLE[at : at + 300], total="3", cm_index=str(n)))
                for n, at in ((2, 600), (0, 0), (1, 300))
            ],
        }
    ),
}


def test_parts_are_the_whole_table() -> None:
    assert 600 < len(TABLE) < 900


@pytest.mark.parametrize("form", FORMS)
def test_table_is_read_from_its_config_map_and_put_back(form: str) -> None:
    text = FORMS[form]
    report = check(text.encode())
    bare = ranktable.loads(TABLE)

    assert (report.format, report.totals) == ("kubernetes", {})
    assert report.table is not None
    assert report.table.digest() == bare.digest()
    assert ranktable.dumps(report.table) == text.encode()
    assert json.loads(ranktable.dumps(report.table, format="hccl-1.0")) == json.loads(
        TABLE
    )
    assert ranktable.loads(text) == report.table


@pytest.mark.parametrize("form", [form for form in FORMS if form != "parts"])
def test_changed_table_is_put_into_the_same_config_map(form: str) -> None:
    table = ranktable.loads(FORMS[form])
    first = table.nodes[0]
    node = type(first)(
        devices=first.devices, host="node-x", extra=first.extra, layout=first.layout
    )
    changed = table.with_changes(nodes=(node, *table.nodes[1:]))
    written = ranktable.dumps(changed)

    assert check(written).format == "kubernetes"
    assert ranktable.loads(written).hosts[0] == "node-x"
    assert ("# of an operator" in written.decode()) == ("operator" in FORMS[form])


def test_defect_is_placed_in_the_yaml() -> None:
    text = in_yaml(BAD)
    (one,) = check(text.encode()).diagnostics
    lines = text.splitlines()
    at = [number for number, line in enumerate(lines, 1) if '"rank_id": "0"' in line]

    assert (one.code, one.location.line) == ("RT202", at[1])
    assert lines[at[1] - 1][(one.location.column or 0) - 1 :].startswith('"0"')
    assert one.location.pointer == ("/data/hccl.json/server_list/0/device/1/rank_id")


def test_defect_is_placed_in_a_json_string() -> None:
    text = in_json(BAD)
    (one,) = check(text.encode()).diagnostics
    line = text.splitlines()[(one.location.line or 0) - 1]

    assert one.code == "RT202"
    assert line[(one.location.column or 0) - 1 :].startswith('\\"0\\"')


def test_defect_of_a_packed_table_says_where_it_is_inside() -> None:
    text = in_json(packed(BAD.encode()))
    (one,) = check(text.encode()).diagnostics

    assert (one.code, one.location.line) == ("RT202", 4)
    assert one.message.endswith("of the table)")


def test_table_that_is_no_json_is_placed() -> None:
    (one,) = check(in_yaml('{"status":\n  "x",}').encode()).diagnostics

    assert (one.code, one.location.line, one.location.column) == ("RT101", 9, 10)


def placeholders() -> list[str]:
    bare = '{"status":"initializing"}'
    return [bare, '{"status":"initializing","version":"1.0"}', in_yaml(bare)]


@pytest.mark.parametrize("text", placeholders())
def test_placeholder_is_sound_and_gives_no_ranks(text: str, tmp_path: Path) -> None:
    report = check(text.encode())
    path = tmp_path / "table.json"
    path.write_text(text, "utf-8")

    assert (report.format, report.totals) == ("kubernetes", {})
    assert report.table is not None
    assert ranktable.dumps(report.table).decode().split() == text.split() or (
        json.loads(ranktable.dumps(report.table)) == json.loads(text)
    )
    with pytest.raises(ranktable.RankTableError, match="RT262"):
        read_rank_table(path)


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (in_json(key="other.json"), "RT255", "this ConfigMap has none of"),
        (in_json("H4sI!!"), "RT255", "hccl.json is not base64"),
        (in_json("H4sIAAAA"), "RT255", "hccl.json is gzip without its end"),
        (
            in_json(base64.b64encode(b"\x1f\x8b\x08\x00xxxxxxxxxxxxx").decode()),
            "RT255",
            "hccl.json is not gzip of a text",
        ),
        (in_json(TABLE, total="2", cm_index="0"), "RT255", "the table is in 2 Config"),
        (in_yaml() + "---\n" + in_yaml(), "RT255", "there are 2 ConfigMaps"),
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


def test_parts_share_one_limit() -> None:
    half = TABLE.ljust(700_000)
    items = [
        json.loads(in_json(packed(one.encode()), total="2", cm_index=str(place)))
        for place, one in enumerate([half, half])
    ]
    text = json.dumps({"kind": "List", "items": items})
    report = check(text.encode(), max_size_bytes=1_000_000)

    assert report.totals == {"RT004": 1}


@pytest.mark.parametrize("kind", ["batch.volcano.sh/v1alpha1", "batch/v1"])
@pytest.mark.parametrize("is_first", [True, False])
def test_config_map_beside_the_job_that_mounts_it_is_a_table(
    run: Callable[..., Outcome], tmp_path: Path, kind: str, *, is_first: bool
) -> None:
    job = f"apiVersion: {kind}\nkind: Job\nmetadata:\n  name: j\nspec:\n  queue: q\n"
    parts = [in_yaml(), job] if is_first else [job, in_yaml()]
    (tmp_path / "j.yaml").write_text("---\n".join(parts))
    bad = in_yaml(BAD)
    (tmp_path / "bad.yaml").write_text(f"{job}---\n{bad}")

    assert run("ranktable", "validate", "j.yaml").out == "j.yaml: sound\n"
    again = run("ranktable", "convert", "j.yaml", "--to", "hccl-1.0")
    assert json.loads(again.out) == json.loads(TABLE), again.err
    done = run("ranktable", "validate", "bad.yaml")
    line = 1 + job.count("\n") + 1 + bad[: bad.rindex('"rank_id": "0"')].count("\n")
    assert done.out.startswith(f"bad.yaml:{line}:")


def test_table_is_converted_into_a_new_config_map(
    run: Callable[..., Outcome], tmp_path: Path
) -> None:
    (tmp_path / "t.json").write_text(TABLE, "utf-8")
    made = run("ranktable", "convert", "t.json", "--to", "kubernetes", "-o", "c.yaml")
    shown = run("ranktable", "show", "c.yaml")
    back = run("ranktable", "convert", "c.yaml", "--to", "hccl-1.0")

    assert (made.status, shown.status, back.status) == (0, 0, 0), made.err + back.err
    assert "hccl-1.0, 2 nodes, " in shown.out
    assert json.loads(back.out) == json.loads(TABLE)


def test_repair_changes_the_table_in_its_block_only(
    run: Callable[..., Outcome], tmp_path: Path
) -> None:
    before = (
        "kind: ConfigMap\ndata:  # of a job\n  hccl.json: |\n"
        '    {"status": "completed", "server_list": [\n'
        '      {"server_id": "a", "device": [{"device_id": 0, "rank_id": "0"}]}]}\n'
    )
    (tmp_path / "map.yaml").write_text(before, encoding="utf-8")
    done = run("ranktable", "validate", "map.yaml", "--fix")

    after = (tmp_path / "map.yaml").read_text(encoding="utf-8")
    assert (done.status, done.out) == (0, "map.yaml: sound\n")
    assert after == before.replace('"device_id": 0', '"device_id": "0"').replace(
        '{"status"', '{"version":"1.0","status"'
    )


def test_repair_of_an_escaped_table_is_refused_with_a_reason(
    run: Callable[..., Outcome], tmp_path: Path
) -> None:
    table = '{"version":"1.0","status":"completed","server_list":[{"server_id":"a",'
    table += '"device":[{"device_id":0,"rank_id":"0"}]}]}'
    text = json.dumps({"kind": "ConfigMap", "data": {"hccl.json": table}})
    (tmp_path / "map.json").write_text(text, encoding="utf-8")
    done = run("ranktable", "validate", "map.json", "--fix")

    assert done.status == 1
    assert done.err == "map.json: only tables in blocks of YAML are repaired\n"
    assert (tmp_path / "map.json").read_text(encoding="utf-8") == text
