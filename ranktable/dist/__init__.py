"""Collectives for training scripts: torch's calls, complete and plain.

Every function also works without a process group; it then returns the data of this
process::

    from ranktable import dist

    dist.init_dist()
    dist.all_reduce(loss, "mean")
"""

from __future__ import annotations

from ranktable._lazy import INSTALL_TORCH

try:
    import torch  # noqa: F401 - only to say what to install
except ModuleNotFoundError as error:
    if error.name == "torch":
        error.msg = f"ranktable.dist needs torch; {INSTALL_TORCH}"
    raise

from ranktable.dist import (
    collectives,
    errors,
    groups,
    many,
    objects,
    point_to_point,
    results,
    start,
    work,
)

# Each of these modules lists its public names.
from ranktable.dist.collectives import *
from ranktable.dist.errors import *
from ranktable.dist.groups import *
from ranktable.dist.many import *
from ranktable.dist.objects import *
from ranktable.dist.point_to_point import *
from ranktable.dist.results import *
from ranktable.dist.start import *
from ranktable.dist.work import *

__all__: list[str] = []
__all__ += collectives.__all__
__all__ += errors.__all__
__all__ += groups.__all__
__all__ += many.__all__
__all__ += objects.__all__
__all__ += point_to_point.__all__
__all__ += results.__all__
__all__ += start.__all__
__all__ += work.__all__
