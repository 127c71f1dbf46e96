"""Descriptions of clusters: every kind of file, read strictly and written."""

from __future__ import annotations

import importlib

import pytest
import yaml

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.hostfiles.hostfile import (
    Host,
    Hostfile,
    LauncherFormat,
    WriterOptions,
)
from ranktable.cluster.hostfiles.launcher_formats import (
    LAUNCHER_FORMATS,
    HostfileReading,
    convert,
    detect_formats,
    format_of,
    formats_like,
    read_hostfile,
)
from ranktable.cluster.source_text import MAX_LINES, MAX_SLOTS
from tests.effort import within_cpu
from tests.file_cases import FOLDER, read_cases

READ = [form for form in LAUNCHER_FORMATS if form.read]
ODD = {
    ("openmpi-hostfile", "n1 slots=2#c\n// x\n/* a\n b */\nn2 slots=1"): "n1 2; n2 1",
    ("openmpi-hostfile", "n1 slots=2\r\n"): "refused | 1:11 RT130",
    ("openmpi-hostfile", "n\u00e9 slots=2\n"): "refused | 1:1 RT131",
    ("openmpi-hostfile", "n1 slots=1\u0662\n"): "refused | 1:10 RT132",
    ("openmpi-hostfile", "n1 slots=4\n\0\n"): "refused | 2:1 RT131",
    ("mpich-machinefile", "  # c\n\n n1 \n"): "n1 1",
    ("mpich-machinefile", "n1:2\r\n"): "n1 2",
    ("host-list", "# c\nn1 # d\n\nn1\nn2\r\n"): "n1 2; n2 ?",
    ("deepspeed-hostfile", "w slots=2 # c\r\n"): "w 2",
    ("deepspeed-hostfile", "w slots=\u0664\n"): "refused | 1:9 RT132",
    ("kubernetes-pods", '{"kind":"List","items":[]}'): "refused | RT750",
    ("kubernetes-pods", '{"kind":"Pod","metadata":{"name":"a"}}'): "a ?",
    (
        "kubernetes-pods",
        (
            '[{"kind":"Pod","metadata":{"name":"a-1"}},\n'
            '{"kind":"Pod","metadata":{"name":"a-0"}}]'
        ),
    ): "a-0 ?; a-1 ?",
}
"""Texts that a file of cases cannot have."""

ALL = {
    (path.stem, text): found
    for path in sorted((FOLDER / "hosts").iterdir())
    for text, found in read_cases(f"hosts/{path.stem}").items()
} | ODD
"""A host is its name and number of processes, ``-`` and ``?`` where they are not known,
with its chips and ranks where the text has them. What is found stands after a bar:
``line:column code``, or the code alone where there is no place."""
TWO = Hostfile(
    hosts=(
        Host(name="n1", slots=2, device_ids=(3, 1), ranks=(0, 1)),
        Host(name="n2", slots=2, device_ids=(0, 1), ranks=(2, 3)),
    )
)
EVEN = Hostfile(
    hosts=tuple(Host(name=f"n{node}", slots=2, device_ids=(0, 1)) for node in (1, 2))
)
UNEVEN = Hostfile(hosts=(Host(name="n1", slots=8), Host(name="n2", slots=4)))
INTERLEAVED = Hostfile(
    hosts=(Host(name="n1", slots=2, ranks=(0, 2)), Host(name="n2", slots=1, ranks=(1,)))
)
POD = WriterOptions(image="registry/image:tag", resource="vendor.com/chip")


def read(name: str, text: str) -> HostfileReading:
    return read_hostfile(text.encode(), format_of(name), file="x")


def said(reading: HostfileReading) -> str:
    """Return the result of reading, in the form of the cases."""
    parts = [shown(reading.hostfile)]
    for diagnostic in reading.report.diagnostics:
        place = diagnostic.location
        where = "" if place.line is None else f"{place.line}:{place.column} "
        parts.append(f"{where}{diagnostic.code}")
    return " | ".join(parts)


def shown(description: Hostfile | None) -> str:
    if description is None:
        return "refused"
    shown = "; ".join(map(host_text, description.hosts[:5]))
    more = len(description.hosts) - 5
    return shown + (f"; and {more} more" if more > 0 else "")


def host_text(host: Host) -> str:
    words = [host.name or "-", str(host.slots or "?")]
    for key, numbers in (("chips", host.device_ids), ("ranks", host.ranks)):
        if numbers:
            words += [key, ",".join(map(str, numbers))]
    return " ".join(words)


@pytest.mark.parametrize(("name", "text"), ALL)
def test_text_is_read_or_refused_at_its_place(name: str, text: str) -> None:
    assert said(read(name, text)) == ALL[name, text]


def test_every_form_has_cases_and_a_name_of_its_own() -> None:
    names = [form.name for form in LAUNCHER_FORMATS]

    assert len(set(names)) == len(names)
    assert {name for name, _ in ALL} == {form.name for form in READ}


# What is written


WRITTEN = {
    "openmpi-hostfile": "n1 slots=2\nn2 slots=2\n",
    "openmpi-rankfile": (
        "rank 0=n1 slot=3\nrank 1=n1 slot=1\nrank 2=n2 slot=0\nrank 3=n2 slot=1\n"
    ),
    "mpich-machinefile": "n1:2\nn2:2\n",
    "deepspeed-hostfile": "n1 slots=4\nn2 slots=2\n",
    "slurm-nodelist": "n[1-2] 2(x2)\n",
    "srun-hostfile": "n1\nn1\nn2\nn2\n",
    "torchrun": (
        "# host: n1\ntorchrun --nnodes 2 --node-rank 0 --nproc-per-node 2 "
        "--master-addr n1 --master-port 29500 train.py\n"
        "# host: n2\ntorchrun --nnodes 2 --node-rank 1 --nproc-per-node 2 "
        "--master-addr n1 --master-port 29500 train.py\n"
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_description_is_written(name: str) -> None:
    assert convert(TWO, name, WriterOptions()) == WRITTEN[name]


def test_node_list_repeats_only_equal_numbers_of_tasks() -> None:
    assert convert(UNEVEN, "slurm-nodelist", WriterOptions()) == "n[1-2] 8,4\n"


def test_settings_reach_what_is_written() -> None:
    script = WriterOptions(script="'a b.py' --n 1", port=1234)

    text = convert(TWO, "torchrun", script)
    assert "--master-port 1234 'a b.py' --n 1\n" in text


@pytest.mark.parametrize(
    ("name", "description", "reason"),
    [
        ("kubernetes-job", UNEVEN, "the same number of processes on every node"),
        ("jobset", UNEVEN, "the same number of processes on every node"),
        ("pytorchjob", UNEVEN, "the same number of processes on every node"),
        ("trainjob", UNEVEN, "the same number of processes on every node"),
        ("mpich-machinefile", INTERLEAVED, "the ranks of node 0 (n1) are 0,2"),
        ("slurm-nodelist", INTERLEAVED, "numbers ranks host by host"),
    ],
)
def test_what_cannot_be_expressed_is_refused_with_the_reason(
    name: str, description: Hostfile, reason: str
) -> None:
    with pytest.raises(ArgumentError) as caught:
        convert(description, name, POD)

    assert reason in caught.value.reason
    assert "\n" not in caught.value.reason


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("openmpi-hostfile", "a b"),
        ("mpich-machinefile", "fd00::1"),
        ("deepspeed-hostfile", "a\nb"),
        ("slurm-nodelist", "n[1]"),
        ("srun-hostfile", None),
        ("torchrun", "a;b"),
    ],
)
def test_host_that_no_file_can_hold_is_refused(name: str, host: str | None) -> None:
    hosts = (Host(name=host, slots=1), Host(name="n2", slots=1))

    with pytest.raises(ArgumentError, match=r"host"):
        convert(Hostfile(hosts=hosts), name, WriterOptions())


def test_two_hosts_that_are_one_to_open_mpi_are_refused() -> None:
    hosts = (Host(name="a.x", slots=1), Host(name="a.y", slots=1))

    with pytest.raises(ArgumentError, match="names are cut at the first dot"):
        convert(Hostfile(hosts=hosts), "openmpi-hostfile", WriterOptions())


# Bounds


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("openmpi-hostfile", f"n1 slots={MAX_SLOTS}\nn2 slots=1\n"),
        ("mpich-machinefile", f"n1:{MAX_SLOTS}\nn2\n"),
        ("deepspeed-hostfile", "n1 slots=99999999\n"),
        ("slurm-nodelist", "n[1-60000]x[1-60000] 1\n"),
        ("slurm-nodelist", f"n[1-2] {MAX_SLOTS}(x2)\n"),
        ("srun-hostfile", "n[1-60000]*60000\n"),
        ("openmpi-hostfile", "\n" * (MAX_LINES + 1)),
    ],
)
def test_more_than_the_limit_is_refused_at_once(name: str, text: str) -> None:
    reading = read(name, text)

    assert reading.hostfile is None
    assert set(reading.report.totals) <= {"RT134", "RT131"}


FILLED_BYTES = 1 << 22
WITHOUT_PROGRESS_S = 50


@pytest.mark.parametrize(
    "unit", ["\n", ",", "[", "{", "0", "7", " ", "(", "\\", '"', "\\\n"]
)
@pytest.mark.parametrize("head", ["", "n1\n", "n1 slots=4\n", "echo torchrun\n"])
def test_what_a_file_is_takes_time_in_proportion_to_its_size(
    head: str, unit: str
) -> None:
    text = head + unit * (FILLED_BYTES // len(unit))

    within_cpu(WITHOUT_PROGRESS_S, lambda: detect_formats(text))


@pytest.mark.parametrize(
    ("text", "count"),
    [("n1 slots=2\n", 1), ("n1 slots=2\nn2\n", 2), ("n1 slots=0\n", 2)],
)
def test_two_formats_are_one_if_both_read_the_same(text: str, count: int) -> None:
    names = [form.name for form in detect_formats(text)]

    assert names == ["openmpi-hostfile", "deepspeed-hostfile"][:count]


@pytest.mark.parametrize("name", [form.name for form in READ])
@pytest.mark.parametrize("unit", ["0", "1"])
def test_digits_beyond_what_python_converts_end_in_a_diagnostic(
    name: str, unit: str
) -> None:
    digits = unit * 4301
    reading = read(name, f"{digits}\nrank 0={digits} slot={digits}\n")

    assert reading.hostfile is None
    assert reading.report.diagnostics


def test_every_defect_is_counted_and_few_are_placed() -> None:
    reading = read("openmpi-hostfile", "n1 gpus=8\n" * 1000)

    assert reading.report.totals == {"RT130": 1000}
    assert len(reading.report.diagnostics) == 20


@pytest.mark.parametrize("name", [form.name for form in READ])
@pytest.mark.parametrize("unit", ["{", '{"a":', "[", "- ", "? ", "/*", "'", "a: "])
def test_deep_and_open_texts_end_in_diagnostics(name: str, unit: str) -> None:
    reading = read(name, unit * 20_000)

    assert reading.hostfile is None
    assert reading.report.diagnostics


# Kinds are told apart


@pytest.mark.parametrize(
    "form", [form for form in READ if form.write], ids=lambda f: f.name
)
def test_what_is_written_is_recognised(form: LauncherFormat) -> None:
    text = convert(EVEN, form, POD)
    like = [other.name for other in formats_like(text)]

    # A plain list of hosts may be anything.
    assert form.name in like or form.name == "srun-hostfile"
    assert len(like) <= 2


def test_a_list_of_addresses_is_a_host_file_of_srun() -> None:
    like = [form.name for form in formats_like("# one\n10.0.0.1\n10.0.0.1\n10.0.0.2")]

    assert like == ["srun-hostfile"]


@pytest.mark.parametrize("text", ["10.0.0.1\n10.0.0.2\n", "# one\n10.0.0.1"])
def test_list_of_addresses_once_each_does_not_tell_the_processes(text: str) -> None:
    assert [form.name for form in formats_like(text)] == ["host-list"]
    hostfile = read("host-list", text).hostfile
    assert hostfile is not None
    assert {host.slots for host in hostfile.hosts} == {None}


def test_names_may_be_cut_where_no_other_begins_alike() -> None:
    assert format_of("mpich").name == "mpich-machinefile"
    with pytest.raises(ArgumentError, match="openmpi-hostfile and openmpi-rankfile"):
        format_of("openmpi")
    with pytest.raises(ArgumentError, match="torchrum") as caught:
        format_of("torchrum")
    assert caught.value.hint == "did you mean torchrun?"


# Kubernetes


@pytest.mark.slow
def test_manifests_are_valid_against_the_published_schemas() -> None:
    published = importlib.import_module("kubernetes_validate")  # it has no types

    for document in yaml.safe_load_all(convert(EVEN, "kubernetes-job", POD)):
        published.validate(document, "1.28", strict=True)


@pytest.mark.parametrize("name", ["kubernetes-job", "jobset", "pytorchjob", "trainjob"])
def test_manifest_has_what_a_pod_needs(name: str) -> None:
    text = convert(EVEN, name, POD)

    assert "&id" not in text
    assert "registry/image:tag" in text
    assert "vendor.com/chip: 2" in text


def test_job_and_service_name_the_pods() -> None:
    service, job = yaml.safe_load_all(convert(EVEN, "kubernetes-job", POD))
    template = job["spec"]["template"]["spec"]
    (container,) = template["containers"]

    assert (service["spec"]["clusterIP"], job["spec"]["completionMode"]) == (
        "None",
        "Indexed",
    )
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    assert template["subdomain"] == service["metadata"]["name"]
    assert container["command"][:5] == [
        *("torchrun", "--nnodes", "2", "--node-rank", "$(JOB_COMPLETION_INDEX)")
    ]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (WriterOptions(), "needs an image"),
        (WriterOptions(image="i", name="Train"), "cannot begin the name of a pod"),
        (WriterOptions(image="i", name="a" * 60), "cannot begin the name of a pod"),
        (WriterOptions(image="i", script="'"), "no closing quotation"),
        (WriterOptions(image="i", script=" "), "names no script"),
        (WriterOptions(image="i", script=""), "names no script"),
        (WriterOptions(image="i", name=""), "cannot begin the name of a pod"),
        (WriterOptions(image=""), "is not the name of an image"),
        (WriterOptions(image="a b"), "is not the name of an image"),
        (WriterOptions(image="i", resource="foo"), "not the name of a resource"),
        (WriterOptions(image="i", resource=""), "not the name of a resource"),
        (WriterOptions(image="i", resource="/chip"), "not the name of a resource"),
        (WriterOptions(image="i", resource="a.b/c d"), "not the name of a resource"),
        (WriterOptions(image="i", resource="kubernetes.io/x"), "name of a resource"),
    ],
)
def test_bad_settings_are_refused(settings: WriterOptions, reason: str) -> None:
    with pytest.raises(ArgumentError, match=reason):
        convert(EVEN, "jobset", settings)


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("localhost slots=4\nn2 slots=4\n", {"RT276": 1}),
        ("n1 slots=4\n127.0.0.1 slots=4\n", {"RT276": 1}),
        ("localhost slots=4\n", {}),
        ("n1 slots=4\nn2 slots=4\n", {}),
    ],
)
def test_name_of_every_host_beside_others_is_a_warning(
    text: str, codes: dict[str, int]
) -> None:
    reading = read_hostfile(text, "openmpi-hostfile")

    assert (reading.report.totals, reading.report.ok) == (codes, True)


def test_torchrun_is_not_written_for_a_master_that_every_node_is() -> None:
    hosts = tuple(Host(name=name, slots=2) for name in ("localhost", "n2"))
    with pytest.raises(ArgumentError, match="every node would call itself"):
        convert(Hostfile(hosts=hosts), "torchrun", WriterOptions())
    convert(Hostfile(hosts=hosts[:1]), "torchrun", WriterOptions())
