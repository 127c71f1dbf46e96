"""Plain data to YAML, always the same for the same data."""

from __future__ import annotations


def dump_yaml(*documents: object) -> str:
    """Return documents as YAML, keys in the order given."""
    import yaml  # noqa: PLC0415 - imported where a YAML file is written

    class Dumper(yaml.SafeDumper):
        """Writes what is used twice twice; aliases are hard to read and to change."""

        def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - of none
            return True

    text: str = yaml.dump_all(
        documents,
        Dumper=Dumper,
        sort_keys=False,
        default_flow_style=False,
        width=10_000,  # a line is never folded, whatever library writes it
    )
    return text
