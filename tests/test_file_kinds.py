"""Every kind of file: detected, judged in a folder and in a ConfigMap, refused."""

from __future__ import annotations

import base64
import gzip
import json
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from ranktable.cli.kinds import kind_among, kinds, kinds_like
from ranktable.cluster.specs.read_spec import SPEC
from ranktable.schema.check import TABLE
from ranktable.schema.file_kind import Source
from ranktable.schema.formats import LISTS, by_name, names

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Run


ROOT = Path(__file__).parent.parent
SOUND = {
    "cluster-spec": "nodes: 2\nchips: 4\n",
    "probe": '{"probe":1,"host":"n1","vendor":"sophgo","chips":[]}\n',
    "topology": "0 1\n1 2\n2 3\n3 0\n",
    "hccn.conf": "address_0=10.0.0.5\naddress_1=10.0.0.6\n",
    "host-file": "n1 slots=2\nn2 slots=2\n",
    "slurm-topology-conf": "SwitchName=s1 Nodes=n[1-8]\n",
}
"""A file of each kind that is neither a table nor a manifest."""

NAMED = {
    "cluster-spec": "cluster.yaml",
    "hccn.conf": "hccn.conf",
    "host-file": "hostfile",
    "slurm-topology-conf": "topology.conf",
}
WRONG = {
    "cluster-spec": "nodes: 2\nchips: 4\nrack: 1\n",
    "hccn.conf": "address_0=10.0.0.5\naddress_1=10.0.0.5\n",
    "host-file": "n1 slots=2\nn2 slots=x\n",
    "slurm-topology-conf": "SwitchName=s1 Nodes=n[1-2]\nSwitch=s2 Nodes=n3\n",
}
"""A file of each kind that a folder may hold, with an error."""


def wrong_tables() -> dict[str, dict[str, object]]:
    """Return a table of each format with an error in it."""
    tables = {}
    for name in names():
        format_ = by_name(name)
        if format_.nodes_key:
            tables[name] = {**format_.example, format_.nodes_key: []}
    return tables


TABLES = wrong_tables()


def config_map(**data: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "data": data}


def wrapped(text: str, form: str) -> str:
    """Return a manifest that holds a text under the key ``ranks``."""
    one = config_map(**{"run.sh": "#!/bin/sh\necho\n", "ranks": text})
    packed = base64.b64encode(gzip.compress(text.encode())).decode()
    bare = {"metadata": {"name": "a"}, "data": {"ranks": text}}
    made = {
        "yaml": lambda: yaml.safe_dump(one),
        "json": lambda: json.dumps(one, indent=1),
        "list": lambda: json.dumps({"kind": "List", "items": [one]}),
        "maps": lambda: json.dumps({"kind": "ConfigMapList", "items": [bare]}),
        "jq": lambda: json.dumps([{"kind": "Service"}, one]),
        "packed": lambda: yaml.safe_dump(config_map(ranks=packed)),
        "job": lambda: yaml.safe_dump_all([JOB, one]),
        "late": lambda: yaml.safe_dump_all([JOB, {**JOB, "pad": "x" * 90_000}, one]),
        "pods": lambda: json.dumps({"kind": "List", "items": [POD, one]}),
    }
    return made[form]()


JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
FORMS = ("yaml", "json", "list", "maps", "jq", "packed", "job", "late", "pods")


@pytest.mark.parametrize("format_", TABLES)
def test_a_folder_judges_a_table_of_each_format(
    format_: str, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/x.json").write_text(json.dumps(TABLES[format_]))
    named = run("ranktable", "validate", "a/x.json")
    folder = run("ranktable", "validate", "a")

    assert named.status == 1
    assert (folder.status, folder.out) == (1, named.out)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("format_", TABLES)
def test_a_folder_judges_a_table_in_a_config_map(
    format_: str, form: str, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "a").mkdir()
    run("ranktable", "gen", "--device-id", "[[0]]", "-o", "a/hccl.json")
    name = "a/x.json" if form in ("json", "list", "maps", "jq", "pods") else "a/x.yaml"
    (tmp_path / name).write_text(wrapped(json.dumps(TABLES[format_]), form))
    named = run("ranktable", "validate", name)
    folder = run("ranktable", "validate", "a")

    assert named.status == 1, named.out
    assert f"{name}#ranks:" in named.out
    assert folder.status == 1
    assert set(named.out.splitlines()[:-1]) <= set(folder.out.splitlines())


@pytest.mark.parametrize("kind", WRONG)
def test_a_config_map_is_judged_as_a_folder_is(
    kind: str, run: Run, tmp_path: Path
) -> None:
    (tmp_path / NAMED[kind]).write_text(WRONG[kind])
    alone = run("ranktable", "validate", NAMED[kind])
    for folder, text in (("bad", WRONG[kind]), ("good", SOUND[kind])):
        (tmp_path / folder).mkdir()
        data = {NAMED[kind]: text, "run.sh": "echo\n"}
        (tmp_path / folder / "x.yaml").write_text(yaml.safe_dump(config_map(**data)))
    bad = run("ranktable", "validate", "bad")
    good = run("ranktable", "validate", "good/x.yaml")

    assert (alone.status, bad.status, good.status) == (1, 1, 0), good.out + good.err
    assert bad.out == alone.out.replace(NAMED[kind], f"bad/x.yaml#{NAMED[kind]}")
    assert good.out == f"good/x.yaml#{NAMED[kind]}: sound\n"


def test_a_config_map_with_several_files_has_a_report_of_each(
    run: Run, tmp_path: Path
) -> None:
    files = {
        "hostfile": WRONG["host-file"],
        "cloud": json.dumps(TABLES["hccl-cloud"]),
        "hccl.json": json.dumps(by_name("hccl-1.0").example),
        "notes": 'the "server_list" is in hccl.json\n',
    }
    (tmp_path / "x.yaml").write_text(yaml.safe_dump(config_map(**files)))
    done = run("ranktable", "validate", "x.yaml", "--format", "json")

    reports = {one["file"]: one["ok"] for one in json.loads(done.out)["files"]}
    assert reports == {
        "x.yaml#hostfile": False,
        "x.yaml#cloud": False,
        "x.yaml#hccl.json": True,
    }


@pytest.mark.parametrize("owner", ["ownerReferences", "involvedObject", "text"])
@pytest.mark.parametrize("dump", [json.dumps, yaml.safe_dump])
def test_what_only_names_a_node_is_no_list_of_nodes(
    owner: str, dump: Callable[[object], str], run: Run, tmp_path: Path
) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    event: dict[str, object] = {**JOB, "kind": "Event", owner: node}
    if owner == "text":
        event = config_map(notes=yaml.safe_dump(node))
    (tmp_path / "x.yaml").write_text(dump({"kind": "List", "items": [event]}))
    run("ranktable", "gen", "--device-id", "[[0]]", "-o", "hccl.json")
    done = run("ranktable", "validate", ".")

    assert (done.status, done.out) == (0, "hccl.json: sound\n")
    assert done.err == "not judged: x.yaml\n"


# The registry


@pytest.mark.parametrize("kind", SOUND)
def test_a_file_is_of_one_kind(kind: str, run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(SOUND[kind])
    like = [one.name for one in kinds_like(Source("file", SOUND[kind].encode()))]
    detected = run("ranktable", "validate", "file")
    named = run("ranktable", "validate", "file", "--from", kind)

    assert like[0] == kind
    assert detected.out == named.out


def test_the_names_of_kinds_are_completed_and_differ() -> None:
    from ranktable.cli.completion import judged_formats

    found = [kind.name for kind in kinds()]
    assert len(set(found)) == len(found)
    assert set(found) <= set(judged_formats(""))


def test_each_format_has_its_list_among_those_that_are_searched() -> None:
    keys = {by_name(name).nodes_key for name in names()} - {""}

    assert keys == set(LISTS)
    for key in LISTS:
        assert kind_among(b'{"%s": [' % key.encode(), "x.json") is TABLE


def test_the_action_summarizes_what_has_the_name_of_a_table() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    workflow = (ROOT / "templates/checks/github.yml").read_text()
    editor = json.loads((ROOT / "templates/editors/vscode.json").read_text())

    assert action["inputs"]["report"]["default"].split() == list(TABLE.names)
    assert all(f"'{name}'" in workflow for name in TABLE.names)
    assert editor["json.schemas"][0]["fileMatch"] == list(TABLE.names)
    assert [*editor["yaml.schemas"].values()] == [list(SPEC.names)]
    assert all(fnmatch(name, name.lower()) for name in TABLE.names)
