"""What of a vendor's package needs a chip: it is there, and says so when it is used."""

from __future__ import annotations

from typing import NoReturn


class NeedsChip:
    """Something that a simulated chip cannot do."""

    def __init__(self, name: str, what: str) -> None:
        """Name it.

        Args:
            name: Its name for users.
            what: What it does.
        """
        self._name = name
        self._what = what

    def __call__(self, *_args: object, **_kwargs: object) -> NoReturn:
        """Raise.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(
            f"{self._name} {self._what}, and this chip is simulated: there is none"
        )
