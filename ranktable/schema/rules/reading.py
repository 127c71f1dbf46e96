"""RT0xx: the bytes could not be read, or are no text."""

from __future__ import annotations

from ranktable.schema.diagnostic import Severity
from ranktable.schema.rules.rule import PAIR, Rule

MISSING_FILE = Rule(
    code="RT001",
    name="missing-file",
    summary="the file does not exist",
    why=(
        "Nothing is at the path, or it is a symbolic link whose target is gone (a "
        "ConfigMap that is being replaced looks like that for a moment)."
    ),
    fix="Check the path, or generate the table: ranktable gen --device-id '[[0..7]]'.",
    readers={
        "torch_tpu": "AssertionError: File not exist (before 2025: answers False)",
        "SCCL": "takes the table as not set: chip i for rank i, or CHIP_MAP",
    },
    seen_as=("AssertionError: File not exist", "RANK_TABLE_FILE not set"),
)
UNREADABLE_FILE = Rule(
    code="RT002",
    name="unreadable-file",
    summary="the file cannot be read",
    why="The operating system refused: permissions, a loop of links, a disk error.",
    fix="Give the user of the job read permission, or mend the link.",
    readers={
        "torch_tpu": "PermissionError or OSError traceback on every rank",
        "SCCL": "takes the table as not set: chip i for rank i, or CHIP_MAP",
    },
)
NOT_A_REGULAR_FILE = Rule(
    code="RT003",
    name="not-a-regular-file",
    summary="the path names a directory, a pipe, a socket or a device",
    why=(
        "A rank table is read by every process of the node. A pipe gives its content "
        "to the first one and lets the others wait forever."
    ),
    fix="Name a file. To check what a command prints, use: ... | ranktable validate -",
    readers={
        "torch_tpu": "IsADirectoryError, or waits without end on a pipe",
        "SCCL": "not known",
    },
)
TOO_LARGE = Rule(
    code="RT004",
    name="too-large",
    summary="the file is larger than the limit",
    why=(
        "The limit of 256 MiB is about a million ranks; a larger file is not a rank "
        "table, and reading it would take the memory of the node."
    ),
    fix="Check that it is the right file; ranktable validate --max-size raises it.",
    readers={"torch_tpu": "reads all of it into memory", "SCCL": "likewise"},
)
NOT_UTF8 = Rule(
    code="RT005",
    name="not-utf-8",
    summary="the file is not UTF-8",
    why="JSON is UTF-8 (RFC 8259, section 8.1). The byte shown is no part of it.",
    fix="Save the file as UTF-8; rank tables need no other characters than ASCII.",
    readers={
        "torch_tpu": "UnicodeDecodeError: 'utf-8' codec can't decode byte",
        "SCCL": "nlohmann parse_error.101",
    },
    seen_as=("UnicodeDecodeError",),
    bad=b'{"version":"1.0","node_list":[{"device_list":[\n'
    b'  {"device_id":"0","rank":"0","note":"caf\xe9"}]}]}\n',
    good=b'{"version":"1.0","node_list":[{"device_list":[\n'
    b'  {"device_id":"0","rank":"0"}]}]}\n',
)
WIDE_ENCODING = Rule(
    code="RT006",
    name="wide-encoding",
    summary="the file is UTF-16 or UTF-32",
    why="Some editors and PowerShell's redirection write UTF-16; JSON is UTF-8.",
    fix="Convert it: iconv -f UTF-16 -t UTF-8 old.json > new.json",
    readers={
        "torch_tpu": "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff",
        "SCCL": "nlohmann parse_error.101",
    },
    bad=PAIR.decode().encode("utf-16"),
    good=PAIR,
)
BYTE_ORDER_MARK = Rule(
    code="RT007",
    name="byte-order-mark",
    severity=Severity.WARNING,
    summary="the file begins with a UTF-8 byte order mark",
    why="RFC 8259 forbids writing it, and readers may refuse it.",
    fix="Remove the first three bytes; ranktable validate --fix does.",
    readers={
        "torch_tpu": "JSONDecodeError: Unexpected UTF-8 BOM (decode using utf-8-sig)",
        "SCCL": "accepted",
    },
    seen_as=("Unexpected UTF-8 BOM",),
    bad=b"\xef\xbb\xbf" + PAIR,
    good=PAIR,
)

RULES = (
    MISSING_FILE,
    UNREADABLE_FILE,
    NOT_A_REGULAR_FILE,
    TOO_LARGE,
    NOT_UTF8,
    WIDE_ENCODING,
    BYTE_ORDER_MARK,
)
