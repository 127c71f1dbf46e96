"""RT001 to RT109: the file cannot be read, or is not UTF-8, JSON or YAML."""

from __future__ import annotations

from ranktable.schema.finding import Rule, Severity
from ranktable.schema.rules.examples import PAIR, one_node

MISSING_FILE = Rule(
    code="RT001",
    name="missing-file",
    summary="the file does not exist",
    why=(
        "The path does not exist, or it is a symbolic link to a file that does not "
        "exist. The second happens for a moment while a ConfigMap is replaced."
    ),
    fix="Check the path, or generate the table: ranktable gen --device-id '[[0..7]]'.",
    readers={
        "torch_tpu": "AssertionError: File not exist (before 2025: answers False)",
        "SCCL": "takes the table as not set: chip i for rank i, or CHIP_MAP",
        "HCCL": "EI0004 path",
        "torch_npu": "negotiates without a table, silently",
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
    summary="the path names a directory, a socket or a device, or a pipe without data",
    why=(
        "Every process of the node reads the rank table. A pipe gives its content to "
        "the first process only, and the others wait forever. The commands of "
        "ranktable read a pipe once, and stop after 30 s in which nothing is written."
    ),
    fix="Name a file. To check the output of a command, use: ... | ranktable validate "
    "-",
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
        "The limit of 256 MiB is enough for about a million ranks. A larger file is "
        "not a rank table, and reading it would use up the memory of the node."
    ),
    fix="Check that it is the right file; ranktable validate --max-size sets another "
    "limit.",
    readers={"torch_tpu": "reads all of it into memory", "SCCL": "likewise"},
)
NOTHING = Rule(
    code="RT008",
    name="nothing-to-judge",
    summary="nothing in the file can be judged",
    why=(
        "A gate must not be green because it looked at nothing. The keys of every "
        "ConfigMap in the manifest were looked at, and the value of none is a table; "
        "or no line of a batch script starts processes by words that can be judged."
    ),
    fix="Name the file with the table, or put the table into a ConfigMap.",
    bad=b'{"kind": "ConfigMap", "data": {"train.sh": "sleep 1"}}\n',
    good=(
        b'{"kind": "ConfigMap", "data": {"rank_table.json": "{\\"version\\": '
        b'\\"1.0\\", \\"node_list\\": [{\\"device_list\\": [{\\"device_id\\": \\"0\\", '
        b'\\"rank\\": \\"0\\", \\"world_rank\\": \\"0\\"}]}]}"}}\n'
    ),
    readers={"torch_tpu": "JSONDecodeError", "SCCL": "nlohmann parse_error.101"},
)
NOT_UTF8 = Rule(
    code="RT005",
    name="not-utf-8",
    summary="the file is not UTF-8",
    why="JSON is UTF-8 (RFC 8259, section 8.1). The byte shown is not valid UTF-8.",
    fix="Save the file as UTF-8; rank tables need only ASCII characters.",
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
    why="RFC 8259 forbids it, and some readers refuse it.",
    fix="Remove the first three bytes; ranktable validate --fix does.",
    readers={
        "torch_tpu": "JSONDecodeError: Unexpected UTF-8 BOM (decode using utf-8-sig)",
        "SCCL": "accepted",
    },
    seen_as=("Unexpected UTF-8 BOM",),
    bad=b"\xef\xbb\xbf" + PAIR,
    good=PAIR,
)


_BOTH_REFUSE = {
    "torch_tpu": "json.decoder.JSONDecodeError on every rank",
    "SCCL": "nlohmann parse_error.101",
}

_ALL_REFUSE = {
    **_BOTH_REFUSE,
    "HCCL": "EI0004 at once, without waiting",
    "MindIE": "refuses the table",
}

NOT_JSON = Rule(
    code="RT101",
    name="not-json",
    summary="the text is not JSON",
    why=(
        "JSON does not allow trailing commas, comments, missing commas, numbers with "
        "leading zeros, or text after the end (RFC 8259)."
    ),
    fix="Mend the place shown; ranktable validate --fix removes trailing commas.",
    readers=_ALL_REFUSE,
    seen_as=(
        "Expecting property name enclosed in double quotes",
        "Extra data",
    ),
    bad=b'{"version":"1.0","node_list":[{"device_list":[\n'
    b'  {"device_id":"0","rank":"0"},\n'
    b'  {"device_id":"1","rank":"1"},]}]}\n',
    good=PAIR,
)
EMPTY_FILE = Rule(
    code="RT102",
    name="empty-file",
    summary="the file is empty",
    why=(
        "Something may still be writing the table, or a command failed after the shell "
        "had emptied the file for its output."
    ),
    fix="Generate the table again; ranktable replaces files atomically.",
    readers={
        "torch_tpu": "JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
        "SCCL": "nlohmann parse_error.101",
        "HCCL": "EI0004 at once, without waiting",
        "MindIE": "refuses the table",
    },
    seen_as=("Expecting value: line 1 column 1 (char 0)",),
    bad=b"",
    good=PAIR,
)
TRUNCATED = Rule(
    code="RT103",
    name="truncated",
    summary="the file ends in the middle of the table",
    why="The file is half written or half copied. The message counts the brackets that "
    "are still open.",
    fix="Wait until it is complete, or copy it again.",
    readers=_ALL_REFUSE,
    bad=PAIR[:60] + b"\n",
    good=PAIR,
)
PYTHON_LITERAL = Rule(
    code="RT104",
    name="python-literal",
    summary="the file is Python, not JSON",
    why=(
        "tpu_gen_sccl_rank_table prints the table on standard output as a Python "
        "dictionary (single quotes, None, True). This text is not JSON."
    ),
    fix="Use the file that the generator writes, not what it prints.",
    readers=_ALL_REFUSE,
    seen_as=("Expecting property name enclosed in double quotes: line 1 column 2",),
    bad=PAIR.replace(b'"', b"'"),
    good=PAIR,
)
DUPLICATE_KEY = Rule(
    code="RT105",
    name="duplicate-key",
    summary="a key occurs twice in one object",
    why=(
        "Readers use the last value without a message, and it is not known which one "
        "was meant. If both values are the same, --fix removes one of them."
    ),
    fix="Remove one of the two.",
    readers={
        "torch_tpu": "the last value wins, silently",
        "SCCL": "the last value wins, silently",
        "HCCL": "the last value wins, silently",
    },
    bad=one_node(
        '{"device_id":"4","device_id":"6","rank":"0"}',
        '{"device_id":"5","rank":"1"}',
    ),
    good=one_node('{"device_id":"6","rank":"0"}', '{"device_id":"5","rank":"1"}'),
)
NOT_A_NUMBER = Rule(
    code="RT106",
    name="not-a-number",
    summary="a number that JSON does not have or that no program can hold",
    why="NaN and Infinity are not JSON, and no reader can hold a number of 400 digits.",
    fix="Write the number that was meant.",
    readers={
        "torch_tpu": "accepts NaN and Infinity; int() fails where one is read",
        "SCCL": "nlohmann parse_error.101, or out_of_range",
        "HCCL": "EI0004 at once, without waiting",
        "MindIE": "refuses the table",
    },
    bad=one_node('{"device_id":"0","rank":"0","load":NaN}'),
    good=one_node('{"device_id":"0","rank":"0","load":0}'),
)
NESTED_TOO_DEEPLY = Rule(
    code="RT107",
    name="nested-too-deeply",
    summary="the document is nested more than 64 levels deep",
    why="A rank table needs five levels. Deep nesting exhausts the stack of readers.",
    fix="Remove the nested value; a rank table does not need it.",
    readers={
        "torch_tpu": "RecursionError beyond Python's limit, 1,000 levels by default",
        "SCCL": "may exhaust its stack",
    },
    bad=one_node('{"device_id":"0","rank":"0","note":' + "[" * 70 + "]" * 70 + "}"),
    good=one_node('{"device_id":"0","rank":"0","note":[]}'),
)
LONE_SURROGATE = Rule(
    code="RT108",
    name="lone-surrogate",
    summary="half of a character in a string",
    why=(
        "An escape from \\ud800 to \\udfff is half of a UTF-16 pair. Alone it is not a "
        "character, and it cannot be written as UTF-8."
    ),
    fix="Remove the escape or complete the pair.",
    readers={
        "torch_tpu": "accepted",
        "SCCL": "nlohmann parse_error.101",
        "HCCL": "EI0004 at once, without waiting",
        "MindIE": "refuses the table",
    },
    bad=one_node(r'{"device_id":"0","rank":"0","note":"\ud800"}'),
    good=one_node('{"device_id":"0","rank":"0","note":""}'),
)
TOO_MANY = Rule(
    code="RT134",
    name="too-many",
    summary="more lines, hosts or processes than the limit",
    why=(
        "A file may have 2,097,152 lines and describe 1,048,576 hosts and as many "
        "processes. Brackets and counts multiply, so a short text can mean more."
    ),
    fix="Check the counts; perhaps a number has one digit too many.",
    bad=b"n1 slots=80000000\n",
    good=b"n1 slots=8\n",
    command="convert",
    options={"from": "openmpi-hostfile"},
)
NOT_YAML = Rule(
    code="RT135",
    name="not-yaml",
    summary="the text is not YAML",
    why="Usual causes are tabs in the indentation, an open bracket or an extra colon.",
    fix="Mend the place shown.",
    readers={
        "Kubernetes": "error converting YAML to JSON: yaml: line ...",
        "PyYAML": "yaml.scanner.ScannerError or ParserError",
    },
    seen_as=("error converting YAML to JSON", "yaml.scanner.ScannerError"),
    bad=b"nodes: n[1-4]\nchips: [0\nspares: n4\n",
    good=b"nodes: n[1-4]\nchips: [0]\nspares: n4\n",
    options={"spec": "yaml"},
)
REFUSED_YAML = Rule(
    code="RT136",
    name="refused-yaml",
    summary="YAML that is not read here: aliases, merge keys, tags, odd keys",
    why=(
        "With aliases a few lines can mean billions of values, and with tags a file "
        "chooses types. Manifests and cluster specs need neither of them."
    ),
    fix="Write the value out where it is used.",
    bad=b"nodes: &n 4\nchips: *n\n",
    good=b"nodes: 4\nchips: 4\n",
    options={"spec": "yaml"},
)

RULES = (
    MISSING_FILE,
    UNREADABLE_FILE,
    NOT_A_REGULAR_FILE,
    TOO_LARGE,
    NOTHING,
    NOT_UTF8,
    WIDE_ENCODING,
    BYTE_ORDER_MARK,
    NOT_JSON,
    EMPTY_FILE,
    TRUNCATED,
    PYTHON_LITERAL,
    DUPLICATE_KEY,
    NOT_A_NUMBER,
    NESTED_TOO_DEEPLY,
    LONE_SURROGATE,
    TOO_MANY,
    NOT_YAML,
    REFUSED_YAML,
)
