"""``ranktable explain --collective``: plans on the command line, without torch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Outcome


def test_each_backend_has_a_line(run: Callable[..., Outcome]) -> None:
    done = run("ranktable", "explain", "--collective", "reduce_scatter")

    assert done.status == 0
    lines = dict(line.split(maxsplit=1) for line in done.out.splitlines())
    assert lines["sccl"] == "exchange and fold  sends (N-1)/N n"
    assert lines["nccl"] == "native             sends (N-1)/N n"


def test_one_backend_has_its_steps_and_sources(run: Callable[..., Outcome]) -> None:
    arguments = ("--collective", "all_gather", "--uneven", "--backend", "gloo")
    done = run("ranktable", "explain", *arguments, "--dtype", "int16")

    assert done.status == 0
    assert done.out.splitlines() == [
        "all_gather of int16, parts of any size on gloo: pad and trim",
        "  1. view as uint8",
        "  2. exchange the shapes  sends some bytes",
        "  3. pad to the largest size",
        "  4. all_gather           sends (N-1) n, n that of the largest",
        "  5. cut off the padding",
        "source: measured with torch 2.13; equal shapes only (pytorch/pytorch#156627)",
    ]


def test_a_device_shows_its_own_way_and_the_exact_one(
    run: Callable[..., Outcome],
) -> None:
    arguments = ("--collective", "all_reduce", "--backend", "nccl")
    done = run("ranktable", "explain", *arguments, "--dtype", "bfloat16")

    assert done.out.splitlines()[:7] == [
        "all_reduce of bfloat16 (sum) on nccl: native",
        "  1. all_reduce of bfloat16 (sum)  sends 2 (N-1)/N n",
        "with exact=True:",
        "all_reduce of bfloat16 (sum) on nccl: native",
        "  1. encode as float32 (wider: it rounds once instead of at every addition)",
        "  2. all_reduce of float32 (sum)  sends 2 (N-1)/N n x 2",
        "  3. decode as bfloat16",
    ]


def test_json_has_what_the_text_has(run: Callable[..., Outcome]) -> None:
    arguments = ("--collective", "all_reduce", "--backend", "sccl")
    done = run(
        "ranktable", "explain", *arguments, "--dtype", "float16", "--format", "json"
    )

    [found] = json.loads(done.out)
    assert found["reason"] is None
    assert found["plan"]["wire"]["dtype"] == "float16"
    assert found["exact_plan"]["wire"]["dtype"] == "float32"
    assert [step["volume"] for step in found["exact_plan"]["steps"]] == [
        None,
        "2 (N-1)/N n x 2",
        None,
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--op", "mean", "--dtype", "int8"], "the mean of int8 values is not int8"),
        (["--op", "band"], "band is for integers and bool, not for float32"),
    ],
)
def test_what_has_no_exact_result_is_refused_with_the_reason(
    run: Callable[..., Outcome], arguments: list[str], said: str
) -> None:
    done = run("ranktable", "explain", "--collective", "all_reduce", *arguments)

    assert (done.status, done.err) == (1, "")
    assert done.out.startswith(said)
    assert len(done.out.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--collective", "allreduce"], "there is no collective 'allreduce'"),
        (["--collective", "send", "--backend", "ncll"], "is not known"),
        (["--collective", "send", "--dtype", "f32"], "there is no type 'f32'"),
        (["--collective", "reduce", "--op", "avg"], "there is no reduction 'avg'"),
        (["RT202", "--collective", "send"], "explain RT202 or --collective"),
    ],
)
def test_wrong_words_are_refused(
    run: Callable[..., Outcome], arguments: list[str], said: str
) -> None:
    done = run("ranktable", "explain", *arguments)

    assert (done.status, done.out) == (2, "")
    assert said in done.err
