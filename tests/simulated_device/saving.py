"""Checks of storages, copies, files, pinned memory and data loaders."""

# mypy: disable-error-code="no-untyped-call"
# Torch has types for few of the functions that are tried here.

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def saved(value: object) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


def check_a_storage_can_be_made_copied_and_moved() -> None:
    storage = torch.arange(3, dtype=torch.uint8, device="tpu:7").untyped_storage()
    copies: list[Any] = [
        storage.clone(),
        storage.cpu(),
        storage.to(device="cpu", non_blocking=True),
        storage.tpu(3),  # type: ignore[attr-defined]
        torch.UntypedStorage([0, 1, 2], device="tpu"),
        copy.deepcopy(storage),
    ]

    assert [str(one.device) for one in copies] == [
        *("tpu:7", "cpu", "cpu", "tpu:3", "tpu:5", "tpu:7")
    ]
    assert all(one.tolist() == [0, 1, 2] for one in copies)
    assert torch.UntypedStorage(4, device="tpu:2").nbytes() == 4
    assert torch.UntypedStorage(4).device.type == "cpu"
    assert torch.UntypedStorage().nbytes() == 0


def check_a_storage_is_not_resized() -> None:
    storage = torch.zeros(2, device="tpu").untyped_storage()

    with pytest.raises(RuntimeError, match="simulated tpu cannot be resized"):
        storage.resize_(0)


def check_a_deep_copy_keeps_chip_and_sharing() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).to("tpu:7")
    whole = torch.zeros(4, device="tpu:7")
    same: list[Any] = copy.deepcopy([model, whole, whole[1:]])
    again, all_of_it, part = same
    all_of_it.fill_(3)

    assert str(again[0].weight.device) == "tpu:7"
    assert part.tolist() == [3, 3, 3]
    assert whole.tolist() == [0, 0, 0, 0]


def check_a_file_returns_tensors_to_their_chip() -> None:
    whole = torch.arange(4.0, device="tpu:7")
    again, part = torch.load(saved([whole, whole[2:]]))

    assert (again.tolist(), str(again.device)) == ([0, 1, 2, 3], "tpu:7")
    assert part.untyped_storage().data_ptr() == again.untyped_storage().data_ptr()
    assert pickle.loads(pickle.dumps(whole)).tolist() == [0, 1, 2, 3]  # noqa: S301 - its own


def check_a_file_is_loaded_where_one_says() -> None:
    tensor = torch.arange(2.0, device="tpu:7")
    for place, expected in (
        ("cpu", "cpu"),
        ("tpu", "tpu:5"),
        ("tpu:3", "tpu:3"),
        (torch.device("tpu:2"), "tpu:2"),
        ({"tpu:7": "tpu:2"}, "tpu:2"),
        (lambda storage, _: storage, "cpu"),
    ):
        loaded = torch.load(saved(tensor), map_location=place)

        assert (str(loaded.device), loaded.tolist()) == (expected, [0, 1])
    assert str(torch.load(saved(tensor.cpu()), map_location="tpu:3").device) == "tpu:3"
    with pytest.raises(RuntimeError, match="tpu:4 does not exist"):
        torch.load(saved(tensor), map_location="tpu:4")


def check_models_and_optimisers_are_saved_and_loaded() -> None:
    model = nn.Linear(2, 2, device="tpu")
    optimiser = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 2, device="tpu")).sum().backward()
    optimiser.step()
    state = torch.load(saved([model.state_dict(), optimiser.state_dict()]))
    other = nn.Linear(2, 2, device="tpu:3")
    other.load_state_dict(state[0])
    torch.optim.AdamW(other.parameters()).load_state_dict(state[1])

    assert torch.equal(other.weight.cpu(), model.weight.cpu())
    assert str(other.weight.device) == "tpu:3"
    whole = torch.load(saved(model), weights_only=False)
    assert torch.equal(whole.weight, model.weight)


def check_pinned_memory_is_a_copy_that_says_so() -> None:
    host = torch.arange(2.0)
    pinned = host.pin_memory()

    assert (host.is_pinned(), pinned.is_pinned()) == (False, True)
    assert pinned.pin_memory() is pinned
    assert pinned[1:].is_pinned()
    assert pinned.to("tpu", non_blocking=True).tolist() == [0, 1]
    assert not pinned.to("tpu").is_pinned()
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        pinned.to("tpu").pin_memory()


def check_memory_can_be_pinned_as_it_is_made() -> None:
    # DistributedDataParallel(find_unused_parameters=True) does so, and asks.
    pinned = torch.zeros(2, pin_memory=True)

    assert pinned.is_pinned()
    assert not torch.zeros(2).is_pinned()
    assert pinned.tolist() == [0, 0]
    there = torch.ones(2, device="tpu", pin_memory=True)
    assert (there.tolist(), there.is_pinned()) == ([1, 1], False)


def check_data_loaders_pin_their_batches() -> None:
    data = TensorDataset(torch.arange(6.0))
    for workers in (0, 2):
        loader = DataLoader(data, batch_size=3, pin_memory=True, num_workers=workers)
        batches = [batch for (batch,) in loader]

        assert [batch.tolist() for batch in batches] == [[0, 1, 2], [3, 4, 5]]
        assert all(batch.is_pinned() for batch in batches)
