"""Torch's own shared libraries, which are loaded already."""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch


def library(name: str) -> ctypes.CDLL:
    """Return one of them: ``c10``, ``torch_python``.

    Raises:
        OSError: There is none of that name.
    """
    return ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / f"lib{name}.so"))
