"""The words by which resources of Kubernetes and of Slurm are known to be chips."""

from __future__ import annotations

from typing import Final

CHIP_WORDS: Final = (
    "gpu|npu|tpu|mlu|dcu|gcu|xpu|hpu|gaudi|ascend|sophon|accelerator|neuron"
)
"""For a pattern. ``neuron`` is a card with several devices for torch."""
