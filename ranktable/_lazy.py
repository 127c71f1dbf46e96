"""Public names that are imported when they are first used.

Every process of a job pays for ``import ranktable``; a script that only reads its
rank table should not load the checker, the command line or the bootstrap.
"""

from __future__ import annotations

import importlib
import sys

TYPE_CHECKING = False  # as in the package itself

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

INSTALL_TORCH = "install the build that fits your machine, such as: pip install torch"


def attach(
    package: str,
    homes: Mapping[str, str],
    prepare: Callable[[object], object] = lambda value: value,
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the module-level ``__getattr__`` and ``__dir__`` of a lazy package.

    Args:
        package: ``__name__`` of the package.
        homes: The module that defines each public name.
        prepare: Called with each value, and returns what the package has.
    """

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            module = importlib.import_module(homes[name])
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            message = f"{package}.{name} needs torch; {INSTALL_TORCH}"
            raise ModuleNotFoundError(message, name="torch") from None
        value = prepare(getattr(module, name))
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return get, names
