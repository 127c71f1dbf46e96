"""The chip of a process: situations from the field as a table, and laws."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranktable.preflight.chips_of_ranks import ChipUser, judge_chips
from ranktable.runtime.environment import resolve_environment
from ranktable.runtime.process_chip import ProcessChip, SeenChip, process_chip
from tests.file_cases import read_cases

H100 = [SeenChip(n, f"GPU-{n:08x}-aa", "H100") for n in range(8)]
OTHERS = [SeenChip(n, f"GPU-b{n:07x}-bb", "H100") for n in range(8)]
MIXED = [H100[0], SeenChip(1, "GPU-cc", "L4")]
ALIKE = [SeenChip(0, "GPU-8932f937-d7", "H100"), SeenChip(1, "GPU-8932aaaa-11", "H100")]
NPUS = [SeenChip(n, f"NPU {n}") for n in range(8)]
BARE = [SeenChip(n) for n in range(4)]


def of(
    seen: list[SeenChip] | None, vendor: str | None = "nvidia", **env: str
) -> ProcessChip:
    return process_chip(env, resolve_environment(env, has_address=True), vendor, seen)


def ranked(rank: int, size: int, **env: str) -> dict[str, str]:
    """Return the variables of a launcher that sets LOCAL_RANK."""
    sizes = {"WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size)}
    return {"RANK": str(rank), "LOCAL_RANK": str(rank), **sizes, **env}


def task(rank: int, size: int, **env: str) -> dict[str, str]:
    """Return the variables of a task of srun on one node."""
    more = {"SLURM_STEP_NUM_TASKS": str(size), "SLURM_STEP_NUM_NODES": "1"}
    names = ("SLURM_PROCID", "SLURM_LOCALID")
    return {**dict.fromkeys(names, str(rank)), "SLURM_JOB_ID": "7", **more, **env}


def job(
    chips: list[ProcessChip], machine: str = "boot", host: str = "n1"
) -> dict[str, list[str]]:
    """Return what is said of all processes of one machine, by severity and code."""
    users = [ChipUser(rank, host, machine, chip) for rank, chip in enumerate(chips)]
    said: dict[str, list[str]] = {}
    for each in judge_chips(users, is_whole=True):
        key = f"{each.severity.value} {each.rule.code}"
        said.setdefault(key, []).append(each.message)
    return said


CUDA = "CUDA_VISIBLE_DEVICES"
SEEN: dict[str, list[SeenChip] | None] = {
    "H100": H100,
    "MIXED": MIXED,
    "ALIKE": ALIKE,
    "NPUS": NPUS,
    "BARE": BARE,
    "nothing": None,
}


def told(chip: ProcessChip) -> list[str]:
    """Return what a report says of the chip of a process."""
    said = [f"chip: {chip.identity}"] if chip.identity else []
    said += ["no chip"] * chip.is_none
    if chip.wrong or chip.hint or chip.is_doubtful:
        how = "doubtful" if chip.is_doubtful else "wrong"
        said.append(f"{how}: {chip.wrong}; {chip.hint}")
    return [*said, f"unknown: {chip.unknown}"] if chip.unknown else said


@pytest.mark.parametrize(("text", "expected"), read_cases("process-chips").items())
def test_chip_of_one_process(text: str, expected: str) -> None:
    """Judge a line of the vendor and what is seen, and one of the variables."""
    _, sees, variables = text.split("\n")[:3]
    vendor, name, *part = sees.split()
    seen = SEEN[name]
    if part and seen is not None:
        seen = seen[slice(*(int(at) if at else None for at in part[0].split(":")))]
    env = dict(each.split("=", 1) for each in variables.split())

    assert told(of(seen, vendor, **env)) == expected.split("\n")


def test_help_names_the_list_of_the_same_vendor() -> None:
    npu = of(NPUS, "ascend", **ranked(0, 1, ASCEND_RT_VISIBLE_DEVICES="9"))
    amd = of(H100, "amd", **ranked(0, 1, HIP_VISIBLE_DEVICES="9"))

    assert "ASCEND_RT_VISIBLE_DEVICES" in npu.hint
    assert "HIP_VISIBLE_DEVICES" in amd.hint


def test_help_says_what_a_program_does_that_was_given_a_chip_of_its_own() -> None:
    one = of(None, **ranked(1, 2, **{CUDA: "3"}))
    two = of(None, **ranked(2, 4, **{CUDA: "2,3"}))

    assert one.hint.endswith("let the program use device 0")
    assert "device 0" not in two.hint


@pytest.mark.parametrize(
    ("what", "chips", "said"),
    [
        ("1", [of(H100, **ranked(n, 8)) for n in range(8)], {}),
        (
            "4",
            [of([H100[n]], **task(n, 4, **{CUDA: "0"}, SLURM_GPUS_PER_TASK="1"))
             for n in range(4)],
            {"note RT720"},
        ),
        (
            "5",
            [of([SeenChip(0)], **ranked(n, 4, **{CUDA: "0"}, SLURM_STEP_GPUS=f"{n}"))
             for n in range(4)],
            {"note RT720"},
        ),
        (
            "6",
            [of(None, **task(n, 4, **{CUDA: "0"}, SLURM_GPUS_PER_TASK="1"))
             for n in range(4)],
            {"note RT720"},
        ),
        ("7", [of(H100[:4], **task(n, 4, **{CUDA: "0"})) for n in range(4)],
         {"error RT732", "note RT720"}),
        ("8", [of(H100[:4], **ranked(n, 4, **{CUDA: "0,1"})) for n in range(4)],
         {"error RT720"}),
        ("9", [of(H100[:4], **ranked(n, 8)) for n in range(8)], {"error RT720"}),
        ("9 with srun", [of(H100[:4], **task(n, 8)) for n in range(8)],
         {"error RT720", "note RT720"}),
        ("20", [of([H100[0]], **ranked(n, 2, LOCAL_RANK="0")) for n in range(2)],
         {"error RT732"}),
        ("22", [of(H100, **{**ranked(0, 8, **{CUDA: str(n)}), "RANK": str(n)})
                for n in range(8)], {}),
        ("idle", [of(H100, **ranked(n, 4)) for n in range(4)], {"note RT740"}),
        ("idle, by number alone", [of(None, **ranked(0, 1, **{CUDA: "0,1"}))], {}),
        ("same number, same set", [of(None, **ranked(0, 2, **{CUDA: "0,1"}))] * 2,
         {"error RT732"}),
        ("no chips at all", [of(None, None, **ranked(n, 2)) for n in range(2)], {}),
    ],
)  # fmt: skip
def test_chips_of_all_processes(
    what: str, chips: list[ProcessChip], said: set[str]
) -> None:
    assert set(job(chips)) == set(said), what


def test_ranks_are_said_with_what_they_lack() -> None:
    own = [of([H100[n]], **task(n, 4, SLURM_GPUS_PER_TASK="1")) for n in range(4)]
    few = [of(H100[:4], **ranked(n, 8)) for n in range(8)]
    crowd = [of(H100[:4], **ranked(n, 8)) for n in range(4)]

    (note,), (none,), (many,) = (
        job(own)["note RT720"], job(few)["error RT720"], job(crowd)["error RT720"]
    )  # fmt: skip
    assert note.startswith("the ranks 1-3 (n1) may lack a chip of their own; rank 1: ")
    assert none.startswith("the ranks 4-7 (n1) have no chip; rank 4: ")
    assert many.startswith("the ranks 0-3 (n1) have too few chips; rank 0: ")


def test_two_machines_with_one_bus_address_have_two_chips() -> None:
    chip = of([SeenChip(0, "0000:01:00.0")], **ranked(0, 1))
    users = [ChipUser(n, f"vm{n}", f"boot {n}", chip) for n in range(2)]

    assert list(judge_chips(users, is_whole=True)) == []


# Laws

LISTS = st.one_of(
    st.none(),
    st.lists(st.integers(-1, 9), max_size=5).map(lambda a: ",".join(map(str, a))),
    st.lists(st.sampled_from([c.identity for c in H100]), max_size=3).map(",".join),
    st.text("0123,- xGPUMI", max_size=8),
)


@given(
    text=LISTS,
    seen=st.one_of(st.none(), st.permutations(H100), st.just(H100[:2])),
    local=st.integers(0, 9),
    vendor=st.sampled_from(["nvidia", "amd", "ascend", "sophgo", None]),
    is_isolated=st.booleans(),
)
def test_any_process_has_one_answer(
    text: str | None,
    seen: list[SeenChip] | None,
    local: int,
    vendor: str | None,
    *,
    is_isolated: bool,
) -> None:
    env = {"LOCAL_RANK": str(local)}
    env |= {} if text is None else {CUDA: text, "ASCEND_RT_VISIBLE_DEVICES": text}
    env |= {"SLURM_GPUS_PER_TASK": "1"} if is_isolated else {}
    chip = of(seen, vendor, **env)

    has_chip = bool(chip.identity)
    assert has_chip + bool(chip.is_none) <= 1
    assert has_chip or chip.is_none or chip.unknown
    assert bool(chip.wrong) == bool(chip.hint)
    if chip.is_none and not chip.is_doubtful:
        assert chip.wrong or chip.unknown


@given(order=st.permutations(range(4)), names=st.permutations(H100[:4]))
def test_order_of_processes_and_names_of_chips_change_no_verdict(
    order: list[int], names: list[SeenChip]
) -> None:
    for text in ("0,1", "0", "3,2,1,0", "0,0", "1,2,9"):
        usual = [of(H100[:4], **ranked(n, 4, **{CUDA: text})) for n in range(4)]
        other = [of(names, **ranked(n, 4, **{CUDA: text})) for n in range(4)]

        assert set(job(usual)) == set(job([other[n] for n in order]))


@given(
    counts=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    has_uuids=st.booleans(),
    is_explicit=st.booleans(),
)
def test_processes_with_chips_of_their_own_never_give_an_error(
    counts: list[int], *, has_uuids: bool, is_explicit: bool
) -> None:
    chips, first = [], 0
    for local, count in enumerate(counts):
        seen = OTHERS[first % 8 :][:count] if has_uuids else BARE[:count]
        env = (ranked if is_explicit else task)(
            local, len(counts), SLURM_GPUS_PER_TASK=str(count),
            **{CUDA: ",".join(map(str, range(len(seen))))},
        )  # fmt: skip
        if count == 1:
            chips.append(of(seen if has_uuids else None, **env))
            first += count

    assert not [key for key in job(chips) if key.startswith("error")]


@given(ranks=st.permutations(range(8)), size=st.integers(2, 8))
def test_one_set_of_chips_is_no_clash(ranks: list[int], size: int) -> None:
    chips = [of(H100[:size], **ranked(r, size)) for r in ranks if r < size]

    assert job(chips) == {}


def as_cuda_counts(words: list[str], seen: list[SeenChip]) -> list[str]:
    """Return the identities behind a list, by the words of CUDA's guide and torch."""
    found: list[str] = []
    for word in words:
        fits = [e.identity for n, e in enumerate(seen) if word in (str(n), e.identity)]
        if not fits:
            break
        found += fits
    return found if len(set(found)) == len(found) else []


@given(
    seen=st.integers(1, 6).map(lambda count: H100[8 - count :]),
    places=st.lists(st.integers(0, 6), min_size=2, max_size=7),
    kind=st.sampled_from(["none", "numbers", "uuids", "own", "first"]),
    size=st.integers(1, 7),
)
def test_drawn_jobs_are_judged_as_cuda_counts(
    seen: list[SeenChip], places: list[int], kind: str, size: int
) -> None:
    lists: list[str | None] = [None] * size
    if kind == "numbers":
        lists = [",".join(map(str, places))] * size
    elif kind == "uuids":
        named = [H100[(8 - len(seen) + at) % 8].identity for at in places]
        lists = [",".join(named)] * size
    elif kind != "none":
        lists = [str(n) if kind == "own" else "0" for n in range(size)]
    at = [0 if kind in ("own", "first") else n for n in range(size)]
    chips, used = [], []
    for place, text in zip(at, lists, strict=True):
        env = {} if text is None else {CUDA: text}
        chips.append(of(seen, **{**ranked(place, size), **env}))
        words = [str(n) for n in range(9)] if text is None else text.split(",")
        used.append([*as_cuda_counts(words, seen)[place : place + 1], ""][0])

    known = [each for each in used if each]
    assert [each.identity for each in chips] == used
    wrong = {"error RT720"} if "" in used else set()
    wrong |= {"error RT732"} if len(set(known)) < len(known) else set()
    assert {each for each in job(chips) if each.startswith("error")} == wrong


def test_lists_of_two_vendors_are_not_judged_without_chips() -> None:
    lists = {CUDA: "2,3", "ROCR_VISIBLE_DEVICES": "2,3"}
    unknown = of(None, None, **task(0, 2, **lists))

    assert not unknown.wrong
    assert unknown.unknown
    assert of(H100[:4], **task(1, 2, **lists)).identity == H100[3].identity
    assert of(H100[:4], "amd", **task(0, 2, **lists)).is_none
    # HIP's list is read by no other vendor.
    hip = {"HIP_VISIBLE_DEVICES": "2", "ROCR_VISIBLE_DEVICES": "2"}
    assert of(None, None, **task(0, 2, **hip)).wrong


def test_step_without_chips_is_a_job_on_cpus() -> None:
    hidden = {CUDA: "NoDevFiles"}  # as Slurm writes it

    assert not of(None, None, **task(0, 2, **hidden)).wrong
    assert of(H100[:2], **task(0, 2, **hidden)).wrong


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("SLURM_GPUS_PER_TASK", "1"),
        ("SLURM_NTASKS_PER_GPU", "1"),
        ("SLURM_TRES_PER_TASK", "cpu=4,gres/gpu=1"),
        ("SLURM_TRES_BIND", "gres/gpu:single:1"),
        ("SLURM_STEP_GPUS", "3"),
    ],
)
def test_variable_that_gives_each_task_its_own_chips_is_known(
    name: str, text: str
) -> None:
    own = of(None, **task(1, 4, **{name: text, CUDA: "0"}))

    assert own.isolated_by == name
