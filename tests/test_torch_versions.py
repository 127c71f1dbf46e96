"""Versions of torch: what is too old is refused at once, with what to install."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from ranktable.runtime import BootstrapError  # noqa: E402 - after the look
from ranktable.runtime.backends.backend import choose_backend  # noqa: E402
from ranktable.runtime.torch_versions import why_too_old  # noqa: E402
from tests.ranks import run_code  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    "version", ["2.1.0", "2.8.0.post1", "2.14.1+cpu", "3.0", "own"]
)
def test_what_vendors_pin_and_what_is_newer_is_taken(version: str) -> None:
    assert why_too_old(version) is None


@pytest.mark.parametrize("version", ["1.13.1+cu117", "2.0.1"])
def test_an_older_one_is_refused_with_what_to_install(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "__version__", version)

    with pytest.raises(BootstrapError) as raised:
        choose_backend("gloo")
    assert str(raised.value) == (
        f"RT401 gloo cannot be used: torch {version} is too old: install torch 2.1 or "
        "newer (pip install 'torch>=2.1')"
    )


def test_torch_takes_the_time_out_of_a_job_that_names_none() -> None:
    made_groups = """
job = init_process_group("gloo")
import ranktable.dist
for group in (job.new_group([0, 1]), ranktable.dist.new_group([0, 1])):
    data = torch.ones(1)
    dist.all_reduce(data, group=group)
    say(data.item())
job.close()
"""

    ended = run_code(made_groups, 2)

    assert [each.status for each in ended] == [0, 0], ended
    assert [each.out for each in ended] == ["[2.0]\n[2.0]\n"] * 2


def test_job_ends_while_gloo_still_releases_a_tensor() -> None:
    joined_often = """
for _ in range(30):
    with init_process_group("gloo"):
        for _ in range(3):
            dist.all_reduce(torch.ones(4))
say("ended")
"""

    ended = run_code(joined_often, 2)

    assert [(each.status, each.out) for each in ended] == [(0, '["ended"]\n')] * 2


JOIN = """
import torch
from ranktable import dist
job = dist.init_dist(backend="gloo")
both = job.new_group([0, 1])
data = torch.ones(1)
dist.all_reduce(data, group=both)
print(data.item())
"""


def test_a_job_and_a_group_need_no_time_out() -> None:
    ended = run_code(JOIN, 2)

    assert [rank.out for rank in ended] == ["2.0\n"] * 2, ended
