"""Checks of memory: views, storages that change, operators that fill and resize."""

# mypy: disable-error-code="no-untyped-call"
# Torch has types for few of the functions that are tried here.

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

OVERLAP = "some elements of the input tensor and the written-to tensor"


def check_a_view_shares_its_storage_and_knows_its_base() -> None:
    whole = torch.zeros(2, 3, device="tpu")
    views = [
        whole.view(3, 2),
        whole.t(),
        whole[1],
        whole.unsqueeze(0),
        whole.flatten(),
        whole.expand(4, 2, 3),
        whole.detach(),
        whole.as_strided((2,), (1,)),
        whole.view(torch.int32),
        *whole.split(1),
        *whole.unbind(),
        *whole.chunk(3, dim=1),
    ]

    storage = whole.untyped_storage().data_ptr()
    assert {view.untyped_storage().data_ptr() for view in views} == {storage}
    bases = [view._base for view in views if view._is_view()]
    assert len(bases) == len(views) - 2  # all but detach and the change of type
    assert all(base is whole for base in bases)


def check_writing_to_a_view_writes_to_its_base() -> None:
    whole = torch.zeros(2, 3, device="tpu")
    whole[1].fill_(2)
    whole.t()[0].add_(1)
    whole[:, 2:] = 7

    assert whole.tolist() == [[1, 0, 7], [3, 2, 7]]


def check_autograd_sees_writing_to_a_view() -> None:
    leaf = torch.ones(4, device="tpu", requires_grad=True)
    whole = leaf * 2
    whole[:2].mul_(3)
    torch.autograd.backward(whole.sum())

    assert leaf.grad is not None
    assert leaf.grad.tolist() == [6, 6, 2, 2]


def check_a_bucket_holds_the_gradients_that_are_views_of_it() -> None:
    # What DistributedDataParallel does.
    layer = torch.nn.Linear(2, 1, bias=False, device="tpu")
    bucket = torch.zeros(2, device="tpu")
    layer.weight.grad = bucket.view(1, 2)
    torch.autograd.backward(layer(torch.tensor([[3.0, 4.0]], device="tpu")).sum())
    assert bucket.tolist() == [3, 4]

    bucket.div_(2)
    assert layer.weight.grad.tolist() == [[1.5, 2]]


def check_parameters_can_be_put_into_one_storage() -> None:
    layer = torch.nn.Linear(2, 2, device="tpu")
    before = [parameter.detach().clone() for parameter in layer.parameters()]
    flat = torch.nn.utils.parameters_to_vector(layer.parameters()).detach()
    torch.nn.utils.vector_to_parameters(flat, layer.parameters())
    flat.mul_(2)

    for parameter, old in zip(layer.parameters(), before, strict=True):
        assert torch.equal(parameter, old * 2)


def check_views_that_change_in_place_keep_memory() -> None:
    tensor = torch.arange(6.0, device="tpu").view(2, 3)
    address = tensor.data_ptr()
    tensor.t_().unsqueeze_(0).squeeze_(0)

    assert tensor.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert tensor.data_ptr() == address


def check_an_output_of_the_right_size_is_filled_in_place() -> None:
    output = torch.zeros(3, 2, device="tpu").t()
    address, strides = output.data_ptr(), output.stride()
    returned = torch.add(torch.ones(2, 3, device="tpu"), 1, out=output)

    assert returned is output
    assert output.tolist() == [[2, 2, 2]] * 2
    assert (output.data_ptr(), output.stride()) == (address, strides)


def check_an_output_of_another_size_is_resized() -> None:
    ones = torch.ones(2, 3, device="tpu")
    for size in ((0,), (1,), (40,)):
        output = torch.zeros(size, device="tpu")
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            torch.add(ones, 1, out=output)

        assert output.tolist() == [[2, 2, 2]] * 2
        assert output.device == ones.device


def check_several_outputs_are_resized() -> None:
    values = torch.empty(0, device="tpu")
    places = torch.empty(0, dtype=torch.int64, device="tpu")
    torch.max(
        torch.tensor([[1.0, 5.0], [7.0, 2.0]], device="tpu"), 1, out=(values, places)
    )

    assert (values.tolist(), places.tolist()) == ([5, 7], [1, 0])


def check_resizing_keeps_the_first_elements() -> None:
    tensor = torch.arange(4.0, device="tpu")
    smaller = tensor.clone().resize_(2)
    larger = tensor.clone().resize_(2, 3)
    none = torch.empty(0, device="tpu").resize_(3).fill_(1)

    assert smaller.tolist() == [0, 1]
    assert larger.flatten()[:4].tolist() == [0, 1, 2, 3]
    assert larger.shape == (2, 3)
    assert none.tolist() == [1, 1, 1]


def check_a_tensor_can_be_set_to_the_memory_of_another() -> None:
    source = torch.arange(4.0, device="tpu")
    tensor: Any = torch.empty(0, device="tpu")  # the stubs lack forms of set_

    assert tensor.set_(source).tolist() == [0, 1, 2, 3]
    assert tensor.set_(source.untyped_storage(), 1, (2,)).tolist() == [1, 2]
    assert tensor.set_(source.untyped_storage()).numel() == 4
    tensor.zero_()
    assert source.tolist() == [0, 0, 0, 0]
    assert tensor.set_().numel() == 0


def check_data_of_a_parameter_can_be_replaced() -> None:
    parameter = torch.nn.Parameter(torch.zeros(2, device="tpu"))
    parameter.data = torch.ones(3, device="tpu")

    assert parameter.tolist() == [1, 1, 1]


def check_writing_to_what_is_read_elsewhere_is_refused() -> None:
    tensor = torch.arange(6.0, device="tpu")

    for write in (
        lambda: tensor[1:].add_(tensor[:-1]),
        lambda: tensor[1:].copy_(tensor[:-1]),
    ):
        with pytest.raises(RuntimeError, match=OVERLAP):
            write()
    assert tensor.add_(tensor).tolist() == [0, 2, 4, 6, 8, 10]


def check_an_output_may_share_memory_with_an_input() -> None:
    tensor = torch.arange(6.0, device="tpu")
    torch.add(tensor[1:], 1, out=tensor[:-1])

    assert tensor.tolist() == [2, 3, 4, 5, 6, 5]


def check_an_output_that_is_also_read_is_not_resized() -> None:
    tensor = torch.ones(3, device="tpu")

    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        tensor.logical_and_(torch.ones(2, 3, device="tpu"))
    assert tensor.shape == (3,)
