"""The templates that check before and during a job, each run as it is used."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from ranktable.cluster.hostfiles.launcher_formats import read_hostfile
from ranktable.cluster.pod_job import NAME
from ranktable.preflight.rules import HEALTH
from ranktable.report.rule_pages import page_of
from ranktable.schema.writing import dumps
from tests.commands import BIN, run_in_shell, run_process
from tests.pod_lists import indexed_job, listed
from tests.rule_examples import unpack
from tests.slurm_cluster import slurm_cluster
from tests.test_real_launchers import finish, needs, needs_slurm, start

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.commands import Commands
    from tests.pod_lists import Pod

CHECKS = Path(__file__).parent.parent / "templates" / "checks"
MANIFESTS = ("init-container", "pods-cronjob")


def documents(name: str) -> list[dict[str, Any]]:
    return [*yaml.safe_load_all((CHECKS / f"{name}.yaml").read_text())]


def table_of(*pods: Pod) -> bytes:
    reading = read_hostfile(listed(*pods), NAME)
    assert reading.hostfile is not None
    assert reading.hostfile.table is not None
    return dumps(reading.hostfile.table)


@pytest.mark.slow
@pytest.mark.parametrize("name", MANIFESTS)
@pytest.mark.parametrize("version", ["1.28", "1.32"])
def test_manifest_is_valid_against_the_published_schemas(
    name: str, version: str
) -> None:
    published = importlib.import_module("kubernetes_validate")  # it has no types

    for document in documents(name):
        published.validate(document, version, strict=True)


# The init container


def gate(
    commands: Commands, folder: Path, table: bytes, **env: str
) -> tuple[int, str, str]:
    """Run the init container with a table, and return status, output and errors."""
    (job,) = documents("init-container")
    (container,) = job["spec"]["template"]["spec"]["initContainers"]
    (folder / "hccl.json").write_bytes(table)
    script = container["command"][2]
    assert container["command"][:2] == ["/bin/sh", "-c"]
    given = {
        "RANK_TABLE_FILE": str(folder / "hccl.json"),
        "HOST_IP": "10.0.0.1",
        "POD_UID": "uid-of-nobody",
        "WAIT_S": "1",
        **env,
    }
    done = run_in_shell(script, folder, programs=commands.folder, env=given)
    return done.status, done.out, done.err


def test_init_container_mounts_what_it_reads() -> None:
    (job,) = documents("init-container")
    pod = job["spec"]["template"]["spec"]
    volumes = {volume["name"] for volume in pod["volumes"]}

    for container in (*pod["initContainers"], *pod["containers"]):
        mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
        variables = {one["name"]: one.get("value") for one in container["env"]}
        assert mounts.keys() <= volumes
        assert variables["RANK_TABLE_FILE"] == f"{mounts['rank-table']}/hccl.json"


def test_init_container_stops_a_pod_whose_chips_are_missing(
    commands: Commands, tmp_path: Path
) -> None:
    status, out, _ = gate(commands, tmp_path, table_of(indexed_job(0), indexed_job(1)))

    assert status == 1
    assert "error[RT702]" in out


def test_init_container_finds_the_row_of_a_pod_by_its_uid(
    commands: Commands, tmp_path: Path
) -> None:
    table = table_of(indexed_job(0), indexed_job(1)).replace(b"10.0.0.1", b"uid-1")
    named = gate(commands, tmp_path, table, POD_UID="uid-1")
    other = gate(commands, tmp_path, table)

    assert "RT701" not in named[1]
    assert "error[RT701]" in other[1]


def test_init_container_waits_for_the_operator(
    commands: Commands, tmp_path: Path
) -> None:
    status, out, err = gate(commands, tmp_path, b'{"status":"initializing"}')

    assert status == 1
    assert "initializing" in out + err


# The CronJob


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[dict[str, bytes], Path]]:
    """What the API of a cluster answers, by path, and the configuration of kubectl."""
    answers: dict[str, bytes] = {}
    kinds = [("pods", "Pod"), ("configmaps", "ConfigMap")]
    resources = [
        {"name": name, "kind": kind, "namespaced": True, "verbs": ["get", "list"]}
        for name, kind in kinds
    ]
    described = {
        "kind": "APIResourceList",
        "groupVersion": "v1",
        "resources": resources,
    }
    answers["/api"] = json.dumps({"kind": "APIVersions", "versions": ["v1"]}).encode()
    answers["/apis"] = b'{"kind":"APIGroupList","apiVersion":"v1","groups":[]}'
    answers["/api/v1"] = json.dumps(described).encode()

    class Api(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answers.get(self.path.partition("?")[0])
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(
                found or b'{"kind":"Status","code":404,"reason":"NotFound"}'
            )

        def log_message(self, *_: object) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    path = tmp_path / "kubeconfig"
    url = f"http://127.0.0.1:{server.server_port}"
    path.write_text(
        f"clusters: [{{name: c, cluster: {{server: '{url}'}}}}]\n"
        "contexts: [{name: c, context: {cluster: c, namespace: team}}]\n"
        "current-context: c\n"
    )
    yield answers, path
    server.shutdown()
    server.server_close()


@needs("kubectl")
def test_cronjob_compares_the_table_with_the_pods(
    cluster: tuple[dict[str, bytes], Path], commands: Commands, tmp_path: Path
) -> None:
    answers, configuration = cluster
    *_, cron = documents("pods-cronjob")
    pod = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    env = {each["name"]: each["value"] for each in container["env"]}
    pods = [indexed_job(at) for at in range(3)]
    data = {"hccl.json": table_of(*pods).decode(), "version": "1795430000"}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "data": data}
    config_map["metadata"] = {"name": env["TABLE"], "namespace": "team"}
    answers[f"/api/v1/namespaces/team/configmaps/{env['TABLE']}"] = json.dumps(
        config_map
    ).encode()
    given = {**env, "KUBECONFIG": str(configuration), "HOME": str(tmp_path)}

    def run() -> tuple[int, str]:
        line = shlex.join(container["command"])
        done = run_in_shell(line, tmp_path, programs=commands.folder, env=given)
        return done.status, done.out + done.err

    where = "/api/v1/namespaces/team/pods"
    answers[where] = listed(*pods).replace(b'"List"', b'"PodList"')
    good = run()
    answers[where] = listed(*pods[:2]).replace(b'"List"', b'"PodList"')
    bad = run()
    del answers[where]
    lost = run()

    assert good[0] == 0, good[1]
    assert bad[0] == 1
    assert "error[RT761] no pod that runs has ranks 4,5" in bad[1]
    assert lost[0] == 1
    assert "RT" not in lost[1]


# The prolog of Slurm


@pytest.mark.parametrize("program", ["/nowhere/ranktable", "/bin/false", "/bin/true"])
def test_prolog_lets_a_job_go_if_nothing_could_be_checked(program: str) -> None:
    env = {"RANKTABLE": program, "PATH": "/usr/bin:/bin"}

    done = run_process(["/bin/bash", CHECKS / "slurm-prolog.sh"], env=env)

    assert done.status == 0


@pytest.mark.slow
@needs_slurm
@needs("scontrol", "sinfo")
@pytest.mark.xdist_group("slurm")  # one cluster at a time
def test_prolog_drains_the_node_that_differs(tmp_path: Path) -> None:
    """A job goes to the node that agrees; the other is drained with the finding."""
    page = page_of(HEALTH)
    assert page.bad is not None
    assert page.good is not None
    unpack(page.good, tmp_path / "127.0.0.1")
    unpack(page.bad, tmp_path / "127.0.0.2")
    # What a host says is recorded here, in a folder with the name of the node.
    program = tmp_path / "ranktable"
    real = shlex.quote(str(BIN / "ranktable"))
    folder = shlex.quote(str(tmp_path))
    program.write_text(
        f'#!/bin/sh\nexec {real} "$@" --root {folder}/"$SLURMD_NODENAME"\n'
    )
    program.chmod(0o755)
    prolog = tmp_path / "prolog.sh"
    text = (CHECKS / "slurm-prolog.sh").read_text()
    prolog.write_text(text.replace("/opt/ranktable/bin/ranktable", str(program)))
    prolog.chmod(0o755)
    with slurm_cluster(f"Prolog={prolog}\nPrologFlags=Alloc\n") as variables:
        good = ["srun", "--nodelist=127.0.0.1", "echo", "it runs"]
        bad = ["sbatch", "--nodelist=127.0.0.2", "--wrap=true"]
        said = finish(start(good, tmp_path, "good", **variables), tmp_path, "good")
        finish(start(bad, tmp_path, "bad", **variables), tmp_path, "bad")
        state = wait_for_drain(tmp_path, variables)

    assert said == "it runs\n"
    assert re.search(r"127\.0\.0\.2\|drain\w*\*?\|.*error\[RT703\]", state), state
    assert not re.search(r"127\.0\.0\.1\|drain", state)


def wait_for_drain(folder: Path, variables: Mapping[str, str]) -> str:
    """Return the states of the nodes once one of them is drained."""
    states = ["sinfo", "--noheader", "--Node", "--format=%N|%T|%E"]
    end = time.monotonic() + 30
    while True:
        said = finish(start(states, folder, "states", **variables), folder, "states")
        if "|drain" in said or time.monotonic() > end:
            return said
        time.sleep(0.2)
