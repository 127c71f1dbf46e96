"""Read TOML: data of the package, and settings of users."""

from __future__ import annotations

import sys
from importlib import resources
from typing import Any

if sys.version_info >= (3, 11):
    from tomllib import loads
else:
    from tomli import loads

__all__ = ["data_of", "loads"]


def data_of(package: str, name: str) -> dict[str, Any]:
    """Return what a file of a package says.

    Args:
        package: Name of the package, with dots.
        name: Name of the file in its folder.
    """
    return loads(resources.files(package).joinpath(name).read_text("utf-8"))
