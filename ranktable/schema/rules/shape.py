"""JSON with another shape than a rank table or a site's schema: keys and values."""

from __future__ import annotations

from ranktable.schema.finding import Finding, Rule, Severity
from ranktable.schema.rules.examples import (
    PAIR,
    device,
    hccl_server,
    hccl_table,
    one_node,
    rank_2_0,
    table_2_0,
)

NOT_A_RANK_TABLE = Rule(
    code="RT110",
    name="not-a-rank-table",
    summary="nothing in the file says that it is a rank table",
    why=(
        "A rank table is an object with node_list (SCCL), server_list or rank_list "
        "(HCCL)."
    ),
    fix="Check that this is the right file.",
    readers={"torch_tpu": "KeyError: 'node_list'", "SCCL": "answers -1 for every rank"},
    seen_as=("KeyError: 'node_list'",),
    bad=b'{"version":"1.0","nodes":[]}\n',
    good=PAIR,
)
OTHER_VENDOR = Rule(
    code="RT111",
    name="other-vendor",
    summary="a file beside the rank table, or one of a format that is not in use",
    why=(
        "Many files look like rank tables: topologies, tables of all groups of a "
        "service, and forms that only an old release reads. The libraries that read "
        "RANK_TABLE_FILE today find no ranks in them. The message says who reads it."
    ),
    fix="Point RANK_TABLE_FILE at the rank table of the job.",
    readers={
        "torch_tpu": "KeyError: 'node_list'",
        "SCCL": "answers -1 for every rank",
        "HCCL": "EI0014 or EI0017, as the version and the status are",
    },
    bad=b'{"status":"completed","data_version":1,"pod_count":1,"ips":[]}\n',
    good=PAIR,
)
MISSING_KEY = Rule(
    code="RT112",
    name="missing-key",
    summary="a required key is missing",
    why=(
        "SCCL requires version, node_list, device_list, and in every device "
        "device_id and rank (or world_rank, which torch_tpu reads)."
    ),
    fix="Add the key.",
    readers={
        "torch_tpu": "KeyError: 'device_id' for the ranks of that node only; a "
        "missing version is not noticed",
        "SCCL": "answers chip -1, silently",
        "HCCL": (
            'EI0017 "Config x is missing in the ranktable file"; for a list a line '
            "in the device log only; without a version EI0017 group_count"
        ),
        "MindIE": "refuses the table",
    },
    seen_as=("KeyError: 'device_id'",),
    bad=one_node(device(0, 0), '{"rank":"1"}'),
    good=PAIR,
)
WRONG_TYPE = Rule(
    code="RT113",
    name="wrong-type",
    summary="a value has the wrong JSON type",
    why=(
        "Ranks and device ids are decimal strings or integers, lists are lists, "
        "objects are objects; null and true are not allowed."
    ),
    fix="Write a value of the type that is named.",
    readers={
        "torch_tpu": "TypeError: int() argument must be a string for null; 1 for true",
        "SCCL": "answers chip -1, silently",
        "HCCL": (
            'EI0017 "Config x is missing in the ranktable file" for a number where '
            "a string belongs; in 2.0 the text of an exception, no code"
        ),
        "MindIE": "refuses the table",
    },
    bad=one_node(device(0, 0), '{"device_id":null,"rank":"1"}'),
    good=PAIR,
)
ODD_NUMBER = Rule(
    code="RT114",
    name="odd-number",
    summary="a number that is not spelt as a plain decimal integer",
    why=(
        'Readers do not agree on "05", " 5", "5.0", "0x5", "1_5" and 5.9: Python\'s '
        "int() and C++'s stoi give the same number for some, different numbers for "
        "others, or an error. Only 0, 1, 2 ... without sign, blanks, leading zeros or "
        "fraction is safe."
    ),
    fix="Write the plain number; --fix does so if every reader reads the same number.",
    readers={
        "torch_tpu": '"0x5", "5.0", "5x": ValueError; "1_5" is 15; 5.9 is 5',
        "SCCL": '"0x5" is chip 0; "5.0" and "5x" are 5; "1_5" is 1; 5.9 is 5',
        "HCCL": 'EI0014, or takes the 0 of "0x5"',
        "MindIE": "refuses the table",
    },
    seen_as=("invalid literal for int() with base 10",),
    bad=one_node(device(0, 0), device("01", 1)),
    good=PAIR,
)
LEADING_DIGITS = Rule(
    code="RT270",
    name="leading-digits",
    severity=Severity.WARNING,
    summary="a number with other characters around it, which HCCL ignores",
    why=(
        'HCCL reads only the digits at the beginning: "3x", " 3" and "3.9" are 3 for '
        "it. Something else may be meant, and other readers refuse it."
    ),
    fix="Write only the digits; --fix does so.",
    readers={
        "HCCL": "takes the digits at the beginning",
        "MindIE": "rank_id is not a number",
    },
    bad=hccl_table(hccl_server("n1", (0, " 0", "10.0.0.1"))),
    good=hccl_table(hccl_server("n1", (0, 0, "10.0.0.1"))),
)
UNKNOWN_VERSION = Rule(
    code="RT115",
    name="unknown-version",
    summary="a version that does not exist",
    why='The only version of the SCCL rank table is "1.0".',
    fix='Write "version":"1.0".',
    readers={
        "torch_tpu": "does not look at it",
        "SCCL": "does not look at it",
        "HCCL": "EI0014 version",
    },
    bad=one_node(device(0, 0), device(1, 1), head='"version":"1.2",'),
    good=PAIR,
)
EMPTY_LIST = Rule(
    code="RT116",
    name="empty-list",
    summary="a list of nodes or devices is empty",
    why="A table without devices has no chip for any process.",
    fix="List at least one node with at least one device, or remove the empty node.",
    readers={
        "torch_tpu": "returns [] and says nothing; chip_map[rank] is an IndexError",
        "SCCL": "answers -1; the empty map is accepted and taken as chip i for rank i",
        "HCCL": "a line in the device log only: its size is zero",
        "MindIE": "refuses the table",
    },
    bad=b'{"version":"1.0","node_list":[]}\n',
    good=PAIR,
)
UNKNOWN_KEY = Rule(
    code="RT117",
    name="unknown-key",
    severity=Severity.WARNING,
    summary="a key that no reader knows",
    why="Readers ignore a key that they do not know, so a misspelt key has no effect. "
    "Its value is kept where the file is rewritten.",
    fix="Correct the spelling, or remove the key.",
    readers={
        "torch_tpu": "ignored",
        "SCCL": "ignored",
        "HCCL": "ignored",
    },
    bad=one_node('{"device_id":"0","rank":"0","local_rnak":"0"}'),
    good=one_node('{"device_id":"0","rank":"0","local_rank":"0"}'),
)

UNREAD_FORMAT = Rule(
    code="RT291",
    name="unread-file",
    summary="the reader named with --for does not read this file",
    why=(
        "Each program reads only some formats and versions. torch_npu ignores a table "
        "that is a symbolic link, as those of a mounted ConfigMap are, and xLLM aborts."
    ),
    fix="Convert the table: ranktable convert FILE --to FORMAT. Copy it, if it is a "
    "link.",
    bad=PAIR,
    good=hccl_table(hccl_server("n1", (0, 0, "10.0.0.1"))),
    options={"for": "hccl"},
)

SITE_SCHEMA = Rule(
    code="RT119",
    name="site-schema",
    summary="the file does not follow the site's own JSON Schema",
    why=(
        "ranktable validate --schema FILE checks a rank table or a cluster spec with "
        "the site's own JSON Schema, for example for names of hosts, numbers of chips "
        "or additional keys. Ask the site for the reasons of its rules."
    ),
    fix="Change the value, or the schema.",
    bad=one_node(device(0, 0), device(9, 1)),
    good=PAIR,
    options={"schema": "beside.json"},
    beside=b"""{"properties": {"node_list": {"items": {"properties": {"device_list": {
  "items": {"properties": {"device_id": {"pattern": "^[0-7]$"}}}}}}}}}
""",
)


BAD_TOPOLOGY = Rule(
    code="RT120",
    name="bad-topology",
    summary="a file of links is neither a matrix nor a list of pairs",
    why=(
        "--topology and --ring take sophgo-8 or a file, either JSON or rows of "
        "numbers. The file is a square matrix of port numbers with -1 for no link, as "
        "torch_tpu.tpu.get_topology returns it, or a list of linked pairs."
    ),
    fix="Write one pair of chips per line, for example: 0 4",
    bad=b"0 1\n1 2 3\n",
    good=b"0 1\n1 2\n",
    readers={"torch_tpu": "reads the links from the driver", "SCCL": "likewise"},
)


def _config_map(value: str) -> bytes:
    return (
        '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"rings-config-job"},\n'
        f'"data":{{"hccl.json":{value}}}}}\n'
    ).encode()


CONFIG_MAP = Rule(
    code="RT255",
    name="config-map",
    summary="the table cannot be taken out of its ConfigMap",
    why=(
        "The table is the text of a key, such as hccl.json, either plain or gzip in "
        "base64. It is judged as a file of its own, FILE#KEY. ClusterD divides a large "
        "table into several ConfigMaps; total says how many."
    ),
    fix="Put the whole table under one key, as a block of text.",
    readers={"HCCL": "EI0004: the file that the pod mounts cannot be read"},
    bad=_config_map('{"status":"initializing"}'),
    good=_config_map('"{\\"status\\":\\"initializing\\"}"'),
)

OUT_OF_RANGE = Rule(
    code="RT260",
    name="out-of-range",
    summary="a number, a text or a list is smaller or larger than its reader allows",
    why=(
        "HCCL 2.0 allows local_id and device_id up to 64, layers 0 to 7, ports 1 to "
        "65535, 8 layers and 24 addresses a layer. Other tables have other limits."
    ),
    fix="Write a value within the limits that the message names.",
    readers={
        "HCCL": (
            "2.0: text of an exception, no code; negative numbers: EI0014 with "
            '"0 ~ UINT32_MAX"; 1.x: a line in the device log only'
        )
    },
    seen_as=("0 ~ UINT32_MAX",),
    bad=table_2_0(rank_2_0(0, device_id=65)),
    good=table_2_0(rank_2_0(0, device_id=64)),
)
UNKNOWN_WORD = Rule(
    code="RT261",
    name="unknown-word",
    summary="a word that its reader does not know",
    why=(
        "addr_type is EID, IPV4 or IPV6, in capitals, although a table of the manual "
        "writes IPv4. net_type and detour have other words."
    ),
    fix="Write one of the words that the message names.",
    readers={
        "HCCL": "2.0: text of an exception, no code; 1.x: a line in the device log only"
    },
    bad=table_2_0(rank_2_0(0, addr_type="IPv4")),
    good=table_2_0(rank_2_0(0)),
)
NO_GLOBAL_RANKS = Rule(
    code="RT262",
    name="no-global-ranks",
    summary="the file does not give ranks to the processes of a job",
    why=(
        "An operator writes a placeholder first, and the table later. A placeholder "
        "is sound, but a process cannot find its chip in it."
    ),
    fix="Wait for the table (ranktable wait), or name the rank table of the job.",
    readers={"HCCL": "waits 30 minutes without a message"},
    command="mesh",
    bad=b'{"status":"initializing"}\n',
    good=hccl_table(hccl_server("n1", (0, 0, "10.0.0.1"))),
)


def no_ranks_yet() -> Finding:
    """Return RT262 for a placeholder: a note, unless its ranks are needed."""
    return NO_GLOBAL_RANKS.finding(
        None,
        "a placeholder does not give ranks to the processes of a job",
        hint="it is not complete yet: ranktable wait FILE waits until it is",
        severity=Severity.NOTE,
    )


RULES = (
    OUT_OF_RANGE,
    UNKNOWN_WORD,
    NO_GLOBAL_RANKS,
    NOT_A_RANK_TABLE,
    OTHER_VENDOR,
    MISSING_KEY,
    WRONG_TYPE,
    ODD_NUMBER,
    LEADING_DIGITS,
    UNKNOWN_VERSION,
    EMPTY_LIST,
    UNKNOWN_KEY,
    UNREAD_FORMAT,
    SITE_SCHEMA,
    BAD_TOPOLOGY,
    CONFIG_MAP,
)
