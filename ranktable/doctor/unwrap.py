"""Take a log out of what its launcher or collector wrapped it in.

UTF-16, JSON lines and a prefix that most lines have are taken away; what they say of
the speaker is put before each line in one form. Nobody has to describe a prefix: the
text before known messages is one if most lines have its shape, and the part of it is
the speaker under which tracebacks are whole.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import msgspec

from ranktable.doctor import tangled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Strip = Callable[[str], int]
    """Returns how long the prefixes of a line are that are known."""

HEAD_BYTES = 256 << 10
"""How much of a log is looked at to find what it is wrapped in."""

MAX_WHOLE = 1 << 20
"""How much of a line is joined that a container runtime cut."""

MAX_SHAPES = 12
MAX_FIELDS = 12
MAX_KEYS = 40
MAX_MARKS = 10_000
MAX_NESTED = 3
MAX_DEPTH = 3
"""Levels of a JSON object whose keys are looked at."""

MARK = re.compile(
    r"\x01(?:rank=(?P<rank>\d{1,7});)?(?:local_rank=(?P<local_rank>\d{1,7});)?"
    r"(?:host=(?P<host>[^;\x02]*);)?(?:pod=(?P<pod>[^;\x02]*);)?"
    r"(?:pid=(?P<pid>\d{1,9});)?(?:time=(?P<time>[^;\x02]*);)?"
    r"(?:voice=(?P<voice>[^;\x02]*);)?\x02"
)
"""The form in which a line says its speaker after this module."""
_ORDER = ("rank", "local_rank", "host", "pod", "pid", "time", "voice")

_VALUES = {
    "rank": r"\d{1,7}", "local_rank": r"\d{1,7}", "pid": r"\d{1,7}",
    "time": r".*\d\d:\d\d:\d\d.*",
}  # fmt: skip
"""What some of these have to look like; a number of seconds is no clock here."""

_FORMS = {name: re.compile(_VALUES.get(name, ".+")) for name in _ORDER}

_KEYS = {
    "rank": ("rank", "global_rank", "RANK", "process_index", "labels.rank",
             "span.rank"),
    "local_rank": ("local_rank", "LOCAL_RANK"),
    "host": ("host", "hostname", "node", "_HOSTNAME", "kubernetes.host", "node_name",
             "kubernetes.node_name", "resource.labels.node_name", "instance"),
    "pod": ("pod", "pod_name", "resource.labels.pod_name", "kubernetes.pod_name",
            "kubernetes.pod.name", "container_name", "task"),
    "pid": ("pid", "process", "_PID"),
    "time": ("time", "ts", "timestamp", "@timestamp", "asctime"),
    "voice": ("attrs.tag",),  # of Docker
}  # fmt: skip
"""Keys of JSON lines that say who speaks, and when."""
_MESSAGES = (
    "message", "msg", "log", "MESSAGE", "text", "event", "line", "body", "textPayload",
    "jsonPayload.message", "content",
)  # fmt: skip
_STACKS = (
    "exc_info", "exception", "stack_trace", "stack", "traceback", "exc_text",
    "exception.stacktrace", "error.stack_trace", "error.stack",
    "attributes.exception.stacktrace",
)  # fmt: skip
_PAIR = re.compile(r'([\w.-]{1,100})=("(?:[^"\\]|\\.)*"|[^\s"]*)(?: |$)')
_LEVELS = ("level", "levelname", "severity", "lvl", "log.level")

_ANCHOR = re.compile(
    r'Traceback \(most recent call last\):|  File "|\[rank\d+\]:|'
    r"\[[EFW]\d* ?[\d:. ]*\w+\.cpp:\d+\]|[\w.-]+:\d+:\d+ \[\d+\] (?:\S+ )?NCCL |"
    r"(?:(?<= )|^)(?:\w+\.)*[A-Z]\w+(?:Error|Exception): |"
    r"\b(?:step|iter|epoch)[^\w'\"]+\d|"
    r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ \d+ torch/|"
    r"srun: error: |(?:  host|  rank|  exitcode) +: "
)
"""Where a message begins: what stands before it is a prefix."""
_STEP = re.compile(r"\b(?:step|iter|epoch)\W+\d")
_TRACE = "Traceback (most recent call last):"
_FRAME = re.compile(r'\s+File "')
_WORD = re.compile(r"[\w./%+-]+")
_CLOCK = re.compile(
    r"\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d|^\d{8,}$|^\d+\.\d{3,}$|^[IWEF]\d{4,8}$|"
    r"^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)$"
)
_CLOCK_IN_TEXT = re.compile(r"(?:\d+[-/])*\d*[T ]*\d\d?:\d\d(?::\d\d)?(?:[.,]\d+)?")
"""Numbers with colons: seconds come again too, and are no speaker."""
_DULL = re.compile(r"(?i)(?:debug|info|warn(?:ing)?|error|critical|fatal|trace|stdout"
                   r"|stderr|[diwef])$")  # fmt: skip
_SOURCE = re.compile(r"\.(?:py|cc|cpp|cu)$")
_NAMED = re.compile(r"(?i)rank|task|proc|worker|pod|replica|actor|node|host|instance")


class Readable(Protocol):
    """Anything that bytes are read from."""

    def read(self, size: int = -1, /) -> bytes:
        """Return some bytes, none at the end."""
        ...


@dataclass
class Unwrapped:
    """A log without what it was wrapped in.

    Attributes:
        stream: What is read in its place.
        extra: Numbers of the lines that were added, in order: parts of one line.
    """

    stream: Readable
    extra: list[int] = field(default_factory=list)


def unwrapped(stream: Readable, strip: Strip) -> Unwrapped:
    """Return a log without encodings, JSON lines and prefixes that are not known."""
    head = stream.read(HEAD_BYTES)
    if b"\x1b[" in head:
        stream = _Lines(_without_colours(_Joined(head, stream)))
        head = stream.read(HEAD_BYTES)
    codec = _codec(head)
    if codec is not None:
        stream = _Lines(_decoded(head, stream, codec))
        head = stream.read(HEAD_BYTES)
    if _OF_CONTAINER.match(head):
        stream = _Lines(_whole(_lines_of(_Joined(head, stream))))
        head = stream.read(HEAD_BYTES)
    if tangled.is_tagged_within(head):
        whole = tangled.tagged_once(_lines_of(_Joined(head, stream)))
        stream = _Lines(whole)
        head = stream.read(HEAD_BYTES)
    rest = _Joined(head, stream)
    lines = [line for line in _text(head).splitlines()[:5000] if line.strip()]
    rows = [row for line in lines if (row := _row(line[strip(line) :])) is not None]
    if len(rows) > (0.2 if _says_messages(rows) else 0.6) * len(lines):
        result = Unwrapped(rest)
        message = _message_key(rows)
        voice = _voice_key(rows, message)
        is_telling = not any(_is_error(row) and _STEP.search(str(row.get(message, "")))
                             for row in rows)  # fmt: skip
        parts = _from_json(_lines_of(rest), strip, message, voice, result.extra,
                           is_telling=is_telling)  # fmt: skip
        result.stream = _Lines(parts)
        return result
    result = Unwrapped(_without_prefixes(rest, lines, strip))
    if tangled.has_text_of_trace(head):
        apart = tangled.lines_of_texts(_lines_of(result.stream), strip, result.extra)
        result.stream = _Lines(apart)
    return result


def _without_prefixes(rest: Readable, lines: Sequence[str], strip: Strip) -> Readable:
    if _DESCRIBED.search("\n".join(line[strip(line) :] for line in lines)):
        return _Lines(_described(_lines_of(rest), strip))
    if forms := _find_all(lines, strip):
        is_bare = not any(map(strip, lines))
        return _Lines(_peeled(rest, forms, strip, is_bare=is_bare))
    return rest


def _codec(head: bytes) -> str | None:
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    if len(head) > 64 and head[1:400:2].count(0) > 0.9 * len(head[1:400:2]):
        return "utf-16-le"
    if head[:3] == b"\xef\xbb\xbf":
        return "utf-8-sig"
    return None


def _decoded(head: bytes, stream: Readable, codec: str) -> Iterator[bytes]:
    import codecs

    decoder = codecs.getincrementaldecoder(codec)("replace")
    yield decoder.decode(head).encode()
    while block := stream.read(1 << 20):
        yield decoder.decode(block).encode()
    yield decoder.decode(b"", final=True).encode()


def _text(data: bytes) -> str:
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", data.decode("utf-8", "replace"))


_COLOUR = rb"\x1b\[[0-9;]*[A-Za-z]"


def _without_colours(stream: Readable) -> Iterator[bytes]:
    left = b""
    while block := stream.read(1 << 20):
        whole, end, left = (left + block).rpartition(b"\n")
        yield re.sub(_COLOUR, b"", whole + end)
    yield re.sub(_COLOUR, b"", left)


_OF_CONTAINER = re.compile(
    rb"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d) std(?P<stream>out|err) [FP] "
)
"""What a container runtime puts before each line, or part of a long one (``P``)."""


def _whole(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the lines of a container; a long one stands where its last part is."""
    parts: dict[bytes, list[bytes]] = {}
    sizes: dict[bytes, int] = {}
    for line in lines:
        found = _OF_CONTAINER.match(line) if parts or b" P " in line[:60] else None
        if found is None:
            yield line + b"\n"
            continue
        of_stream, end = found["stream"], found.end()
        if line[end - 2 : end - 1] == b"P":
            held = parts.setdefault(of_stream, [line[:end]])
            size = sizes.get(of_stream, 0) + len(line) - end
            if size <= MAX_WHOLE:
                held.append(line[end:])
                sizes[of_stream] = size
            yield b"\n"
        elif of_stream in parts:
            sizes.pop(of_stream, None)
            yield b"".join((*parts.pop(of_stream), line[end:], b"\n"))
        else:
            yield line + b"\n"
    yield from (b"".join(held) + b"\n" for held in parts.values())


class _Joined:
    """What was read already, and the rest of a stream."""

    def __init__(self, head: bytes, rest: Readable) -> None:
        self._head, self._rest = head, rest

    def read(self, size: int = -1, /) -> bytes:
        head, self._head = (
            self._head[:size] if size >= 0 else self._head,
            (self._head[size:] if size >= 0 else b""),
        )
        return head or self._rest.read(size)


class _Lines:
    """A stream of parts that are made while it is read."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts, self._left = parts, b""

    def read(self, size: int = -1, /) -> bytes:
        found = [self._left]
        length = len(self._left)
        while size < 0 or length < size:
            part = next(self._parts, None)
            if part is None:
                break
            found.append(part)
            length += len(part)
        data = b"".join(found)
        end = len(data) if size < 0 else size
        self._left = data[end:]
        return data[:end]


def _lines_of(stream: Readable) -> Iterator[bytes]:
    """Yield the lines of a stream, cut where they are very long."""
    left = b""
    while block := stream.read(1 << 20):
        *whole, left = (left + block).split(b"\n")
        yield from whole
        if len(left) > 1 << 22:
            yield left
            left = b""
    if left:
        yield left


# JSON lines


_OF_FLUENTD = re.compile(r"\d{4}-\d\d-\d\dT[^\t]{1,40}\t[^\t]{1,300}\t(?=\{)")
"""Time and tag that Fluentd writes before the record in a file."""


def _row(line: str) -> dict[str, object] | None:
    if tag := _OF_FLUENTD.match(line):
        line = line[tag.end() :]
    if not line.startswith("{"):
        return _logfmt(line)
    try:
        row = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        try:  # NaN, and what else other writers allow themselves
            row = json.loads(line)
        except (ValueError, RecursionError):
            return None
    if not isinstance(row, dict):
        return None
    for _ in range(MAX_DEPTH):
        if not any(isinstance(value, dict) for value in row.values()):
            break
        row = {
            f"{key}.{name}" if name else key: one
            for key, value in row.items()
            for name, one in (
                value.items() if isinstance(value, dict) else [("", value)]
            )
        }
    return row


def _logfmt(line: str) -> dict[str, object] | None:
    """Return the fields of ``level=error rank=4 msg="a text"``, None if it has others.

    Without quotes a line needs no help: its fields are a prefix.
    """
    if 'msg="' not in line and 'message="' not in line:
        return None
    pairs = [(found[1], found[2]) for found in _PAIR.finditer(line)]
    if _PAIR.sub("", line).strip() or not pairs:
        return None
    try:
        return {name: json.loads(text) if text[:1] == '"' else text
                for name, text in pairs}  # fmt: skip
    except ValueError:
        return None


def _says_messages(rows: Sequence[dict[str, object]]) -> bool:
    """Whether lines are of a logger, beside which a launcher may write as it likes."""
    return sum(any(key in row for key in _MESSAGES) for row in rows) > len(rows) / 2


def _message_key(rows: Sequence[dict[str, object]]) -> str:
    keys = Counter(key for row in rows for key in row if isinstance(row[key], str))
    known = next((key for key in _MESSAGES if keys[key] > len(rows) / 2), None)
    if known is not None:
        return known
    length = {key: sum(len(str(row.get(key, ""))) for row in rows) for key in keys}
    return max(length, key=lambda key: length[key], default="message")


def _voice_key(rows: Sequence[dict[str, object]], message: str) -> str | None:
    """Return the key that tells the speakers apart where none of the known ones does.

    Each of the keys that may is tried; one whose values never come again is none.
    """
    speakers = {
        tuple(value for name, value in _speaker_of_row(row).items() if name != "time")
        for row in rows
    }
    keys = sorted({key for row in rows for key in row} - {message})
    if len(speakers) > 1 or not keys or len(keys) > MAX_KEYS:
        return None
    groups = [[str(row.get(key, "")) for key in keys] for row in rows]
    texts = [str(row.get(message, "")).rstrip("\n") for row in rows]
    found = _speaking(groups, texts, [bool(_NAMED.search(key)) for key in keys])
    return keys[found[0]] if len(found) == 1 else None


def _from_json(
    lines: Iterator[bytes],
    strip: Strip,
    message: str,
    voice: str | None,
    extra: list[int],
    *,
    is_telling: bool,
) -> Iterator[bytes]:
    """Yield the messages of JSON lines with their speakers.

    Args:
        lines: The lines.
        strip: Returns how long known prefixes are.
        message: The key of what they say.
        voice: The key of who says it, None if it is one of the known ones.
        extra: The numbers of lines that are added are noted here.
        is_telling: Whether the level says something: some collectors have all that a
            program writes to its standard error as an error.
    """
    number = 0
    for line in lines:
        text = _text(line)
        start = strip(text)
        row = _row(text[start:])
        parts = (
            [line.decode("utf-8", "replace")]
            if row is None
            else _parts(row, message, is_telling=is_telling)
        )
        fields = {} if row is None else _speaker_of_row(row)
        if row is not None and voice is not None:
            fields["voice"] = str(row.get(voice, ""))
        mark = _mark(fields) if row is None else text[:start] + _mark(fields)
        for index, part in enumerate(parts):
            number += 1
            if index:
                extra.append(number)
            yield f"{mark}{part}\n".encode()


def _is_error(row: dict[str, object]) -> bool:
    level = next((str(row[name]) for name in _LEVELS if name in row), "").upper()
    return level in ("ERROR", "FATAL", "CRITICAL")


def _parts(
    row: dict[str, object], message: str, *, is_telling: bool = True
) -> list[str]:
    value = row.get(message, "")
    if isinstance(value, list):  # journald: a message that is not UTF-8
        value = bytes(one for one in value if isinstance(one, int) and one < 256)
        value = value.decode("utf-8", "replace")
    stacks = [text for name in _STACKS if isinstance(text := row.get(name), str)]
    if not value and not stacks:  # numbers of a step
        value = " ".join(f"{name}={one}" for name, one in row.items())
    text = "\n".join([str(value).rstrip("\n"), *stacks])
    if is_telling and _is_error(row) and not _ANCHOR.search(text):
        text = f"ERROR {text}"
    return text.split("\n")


def _speaker_of_row(row: dict[str, object]) -> dict[str, str]:
    found = {}
    for name, keys in _KEYS.items():
        for key in keys:
            if key in row:
                found[name] = str(row[key])
                break
    return found


_SPACED = re.compile(r"[;\x00-\x1f]")


def _mark(fields: dict[str, str]) -> str:
    said = ""
    for name, form in _FORMS.items():
        value = fields.get(name)
        if value and form.fullmatch(value := _SPACED.sub(" ", value)):
            said += f"{name}={value};"
    return f"\x01{said}\x02" if said else ""


# kubectl describe, and the sections of a launcher

_DESCRIBED = re.compile(
    r"(?m)^Name: +\S+\r?\n(?:.*\n){0,12}?Node: +\S+/|^-+Begin global rank \d+ STD"
)


def _described(lines: Iterator[bytes], strip: Strip) -> Iterator[bytes]:
    """Yield the lines that describe pods or are of a rank, each with whose it is."""
    fields: dict[str, str] = {}
    for line in lines:
        text = line.decode("utf-8", "replace").rstrip("\r")
        text = text[strip(text) :]  # whoever prints it is another pod
        if found := re.match(r"Name: +(\S+)", text):
            fields = {"pod": found[1]}
        elif found := re.match(r"Node: +([^/\s]+)", text):
            fields["host"] = found[1]
        elif found := re.match(r"-+(Begin|End) global rank (\d{1,7}) STD", text):
            fields = {"rank": found[2]} if found[1] == "Begin" else {}
        yield f"{_mark(fields)}{text}\n".encode()


# A prefix that most lines have


@dataclass
class _Form:
    """A prefix: its expression, and which of its fields are the speaker."""

    pattern: re.Pattern[str]
    voice: tuple[int, ...]
    of_rank: int | None

    def fields(self, found: re.Match[str] | dict[int, str]) -> dict[str, str]:
        """Return what the parts of a prefix say of the speaker."""
        fields = {"voice": "/".join(found[index] for index in self.voice)}
        if self.of_rank is not None:
            number = re.search(r"(\d+)\D*$", found[self.of_rank])
            fields["rank"] = number[1] if number else ""
        return fields


def _peeled(
    stream: Readable, forms: Sequence[_Form], strip: Strip, *, is_bare: bool
) -> Iterator[bytes]:
    """Yield the lines without their prefixes.

    Args:
        stream: What is read.
        forms: The prefixes, the outermost first.
        strip: Returns how long known prefixes are.
        is_bare: Whether no line has a known prefix: this is the fast way.
    """
    if is_bare and len(forms) == 1:
        yield from _peeled_fast(stream, forms[0])
        return
    for line in _lines_of(stream):
        text = line.decode("utf-8", "replace")
        for form in forms:
            text = _without(text, form, strip)
        yield f"{text}\n".encode()


def _peeled_fast(stream: Readable, form: _Form) -> Iterator[bytes]:
    pattern = re.compile(form.pattern.pattern.encode(), re.MULTILINE)
    places = sorted({*form.voice, *([form.of_rank] if form.of_rank else [])})

    @lru_cache(MAX_MARKS)
    def mark(*values: bytes) -> bytes:
        said = [value.decode("utf-8", "replace") for value in values]
        return _mark(form.fields(dict(zip(places, said, strict=True)))).encode()

    def put(found: re.Match[bytes]) -> bytes:
        return mark(*(found[place] for place in places))

    fixed: Callable[[re.Match[bytes]], bytes] | bytes = put if places else b""
    left = b""
    while block := stream.read(1 << 20):
        data = left + block
        end = data.rfind(b"\n") + 1
        end = len(data) if not end and len(data) > 1 << 22 else end
        yield pattern.sub(fixed, data[:end])
        left = data[end:]
    yield pattern.sub(fixed, left)


def _without(text: str, form: _Form, strip: Strip) -> str:
    """Return a line without a prefix; who speaks is noted in its place."""
    start = strip(text)
    found = form.pattern.match(text[start:])
    if found is None:
        return text
    fields = form.fields(found)
    return f"{text[:start]}{_mark(fields)}{text[start + found.end() :]}"


def _find_all(lines: Sequence[str], strip: Strip) -> list[_Form]:
    """Return the prefixes that most lines have, the outermost first."""
    forms: list[_Form] = []
    while len(forms) < MAX_NESTED and (form := _find(lines, strip)) is not None:
        forms.append(form)
        lines = [_without(line, form, strip) for line in lines]
    return forms


def _find(lines: Sequence[str], strip: Strip) -> _Form | None:
    """Return the prefix that the most lines have, None if they have none."""
    rests = [line[strip(line) :] for line in lines]
    shapes: Counter[str] = Counter()
    begins: dict[str, int] = {}
    for line in rests:
        found = _ANCHOR.search(line[:300])
        head = line[: found.start()] if found else ""
        begins[line] = len(head) if found else len(line)
        if 0 < len(_WORD.findall(head)) <= MAX_FIELDS and not _is_of_logger(head):
            shapes[_shape(head)] += 1
    best: list[tuple[re.Match[str], str]] = []
    for text, count in shapes.most_common(MAX_SHAPES):
        matched = ((re.match(text, line), line) for line in rests)
        hits = [(found, line[found.end() :]) for found, line in matched
                if found and line[found.end() :].strip()
                and found.end() <= begins[line]]  # fmt: skip
        if count >= 2 and len(hits) > len(best):
            best = hits
    if len(best) < max(2, 0.25 * len(rests)):
        return None
    form = _form(best[0][0].re, best)
    is_of_all = len(best) >= 0.6 * len(rests)  # of one speaker, such as a host
    return form if form.voice or is_of_all else None


def _is_of_logger(head: str) -> bool:
    """Whether a prefix is a date, time or level only: no reason to take it away."""
    words = re.findall(r"[A-Za-z]+", head)
    is_level = bool(words) and not re.search(r"\d", head)
    has_clock = re.search(r"\d\d:\d\d:\d\d", head) is not None
    return (has_clock or is_level) and all(
        _DULL.match(word) or _CLOCK.search(word) or word in "TZ" for word in words
    )


def _shape(prefix: str) -> str:
    """Return an expression: words are fields, blanks repeat, the rest is literal."""
    found, at = [], 0
    for word in _WORD.finditer(prefix):
        found += [_literal(prefix[at : word.start()]), r"([\w./%+-]+)"]
        at = word.end()
    last = prefix[at:]
    blanks = len(last) - len(last.rstrip(" "))
    end = re.escape(last.rstrip(" ")) + (" " if blanks else "")
    return "^" + "".join(found) + end


def _literal(text: str) -> str:
    return re.sub(r"(?:\\ )+", " +", re.escape(text))


def _form(pattern: re.Pattern[str], hits: Sequence[tuple[re.Match[str], str]]) -> _Form:
    head, first = hits[0][0][0], hits[0][0]
    is_named = [bool(_NAMED.search(head[: first.end(place)]))
                for place in range(1, len(first.groups()) + 1)]  # fmt: skip
    clocks = [one.span() for one in _CLOCK_IN_TEXT.finditer(head)]
    is_dull = [any(start <= first.start(place) < end for start, end in clocks)
               or bool(_SOURCE.search(head[: first.start(place)].rstrip(":")))
               for place in range(1, len(first.groups()) + 1)]  # fmt: skip
    groups = [
        [value for value, no in zip(found.groups(), is_dull, strict=True) if not no]
        for found, _ in hits
    ]
    kept = [place for place, no in enumerate(is_dull) if not no]
    texts = [text for _, text in hits]
    best = tuple(kept[i] for i in _speaking(groups, texts, [is_named[i] for i in kept]))
    return _Form(pattern, tuple(i + 1 for i in best), _rank_field(best, hits))


def _speaking(
    groups: Sequence[Sequence[str]], texts: Sequence[str], is_named: Sequence[bool]
) -> tuple[int, ...]:
    """Return the fields under which tracebacks are whole: they are the speaker.

    Args:
        groups: The fields of each line.
        texts: What each line says.
        is_named: Whether a name before the field says that it is a speaker.
    """
    places = [i for i, values in enumerate(zip(*groups, strict=True))
              if _may_be_speaker(values)]  # fmt: skip
    best: tuple[int, ...] = ()
    score = -1.0
    for pick in ((), *((i,) for i in places),
                 *((i, k) for i in places for k in places if i < k)):  # fmt: skip
        voices = ["/".join(group[i] for i in pick) for group in groups]
        counts = Counter(voices)
        spread = min(counts.values()) / max(counts.values()) if pick else 0
        named = any(is_named[i] for i in pick)
        value = _coherence(voices, texts) - 0.1 * max(0, len(pick) - 1)
        value += 0.05 * bool(pick) + 0.06 * named + 0.04 * spread
        if value > score:
            best, score = pick, value
    return best


def _may_be_speaker(values: Sequence[str]) -> bool:
    """Whether a field varies, comes again, and is no clock, level, stream or source."""
    kinds = set(values)
    return 1 < len(kinds) <= max(2, len(values) // 3) and not any(
        _CLOCK.search(one) or _DULL.match(one) or _SOURCE.search(one) for one in kinds
    )


def _rank_field(
    pick: tuple[int, ...], hits: Sequence[tuple[re.Match[str], str]]
) -> int | None:
    """Return the field that is a rank: its name says so, and it counts from 0."""
    for place in pick:
        before = hits[0][0][0][: hits[0][0].end(place + 1)]
        values = {found[place + 1] for found, _ in hits}
        numbers = {re.sub(r"^\D*", "", value) for value in values}
        is_dense = numbers == {str(number) for number in range(len(values))}
        if is_dense and re.search(r"(?i)(?<!local_)(?<!local)rank\W*\w*$", before):
            return place + 1
    return None


def _coherence(voices: Sequence[str], texts: Sequence[str]) -> float:
    """Return the share of tracebacks that are whole in the lines of each voice."""
    state: dict[str, str] = {}
    good = total = 0
    for voice, text in zip(voices, texts, strict=True):
        if text.startswith(_TRACE):
            total += 1
            state[voice] = "open"
        elif state.get(voice) == "open":
            good += bool(_FRAME.match(text))
            state[voice] = "frames"
        elif text[:1] not in (" ", "") and state.get(voice) == "frames":
            good -= not re.match(
                r"[\w.]+(?:Error|Exception|Exit|Interrupt)?(?::|$)", text
            )
            state[voice] = ""
    return good / total if total else 0.0
