"""What a YAML text is made of, piece by piece, with the place of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

Span = tuple[int, int]


class Event(NamedTuple):
    """A piece of a YAML text.

    Attributes:
        kind: ``Scalar``, ``Alias``, ``DocumentStart``, ``MappingEnd`` and so on.
        span: Offsets of its first character and its end.
        text: Text of a scalar.
        is_plain: Whether a scalar stands without quotation marks and tag.
        tag: Its tag, None if it has none.
    """

    kind: str
    span: Span
    text: str = ""
    is_plain: bool = False
    tag: str | None = None


class NotYamlError(Exception):
    """A text that is not YAML.

    Attributes:
        span: Offsets of the place, None if it is not known.
        reason: What is wrong.
    """

    def __init__(self, span: Span | None, reason: str) -> None:
        """Keep the parts."""
        self.span = span
        self.reason = reason
        super().__init__(reason)


def yaml_events(text: str) -> Iterator[Event]:
    """Yield the pieces of a text; nothing is expanded and nothing is built.

    Raises:
        NotYamlError: The text is not YAML from some place on.
    """
    import yaml  # noqa: PLC0415 - imported where a YAML file is read

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        for event in yaml.parse(text, Loader=loader):
            kind = type(event).__name__.removesuffix("Event")
            start, end = event.start_mark, event.end_mark
            span = (start.index if start else 0, end.index if end else 0)
            tag = getattr(event, "tag", None)
            if isinstance(event, yaml.ScalarEvent):
                yield Event(kind, span, str(event.value), event.implicit[0], tag)
            else:
                yield Event(kind, span, tag=tag)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = min(mark.index if mark else 0, max(len(text) - 1, 0))
        reason = error.problem or error.context or "it cannot be read"
        raise NotYamlError((at, at + 1), reason) from None
    except yaml.YAMLError as error:
        raise NotYamlError(None, str(error).splitlines()[0]) from None
