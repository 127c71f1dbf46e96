"""RT001 to RT109: the file cannot be read, or is not UTF-8, JSON or YAML."""

from __future__ import annotations

from ranktable.schema.finding import Rule, Severity

MISSING_FILE = Rule(
    code="RT001",
    name="missing-file",
    summary="the file does not exist",
    fix="Check the path, or generate the table: ranktable gen --device-id '[[0..7]]'.",
)
UNREADABLE_FILE = Rule(
    code="RT002",
    name="unreadable-file",
    summary="the file cannot be read",
    fix="Give the user of the job read permission, or mend the link.",
)
NOT_A_REGULAR_FILE = Rule(
    code="RT003",
    name="not-a-regular-file",
    summary="the path is a directory, a socket, a device or an empty pipe",
    fix="Name a file. To check the output of a command, use: ... | ranktable validate "
    "-",
)
TOO_LARGE = Rule(
    code="RT004",
    name="too-large",
    summary="the file is larger than the limit",
    fix="Check that it is the right file; ranktable validate --max-size sets another "
    "limit.",
)
NOTHING = Rule(
    code="RT008",
    name="nothing-to-judge",
    summary="nothing in the file can be judged",
    fix="Name the file with the table, or put the table into a ConfigMap.",
)
NOT_UTF8 = Rule(
    code="RT005",
    name="not-utf-8",
    summary="the file is not UTF-8",
    fix="Save the file as UTF-8; rank tables need only ASCII characters.",
)
WIDE_ENCODING = Rule(
    code="RT006",
    name="wide-encoding",
    summary="the file is UTF-16 or UTF-32",
    fix="Convert it: iconv -f UTF-16 -t UTF-8 old.json > new.json",
)
BYTE_ORDER_MARK = Rule(
    code="RT007",
    name="byte-order-mark",
    severity=Severity.WARNING,
    summary="the file begins with a UTF-8 byte order mark",
    fix="Remove the first three bytes; ranktable validate --fix does.",
)


NOT_JSON = Rule(
    code="RT101",
    name="not-json",
    summary="the text is not JSON",
    fix="Mend the place shown; ranktable validate --fix removes trailing commas.",
)
EMPTY_FILE = Rule(
    code="RT102",
    name="empty-file",
    summary="the file is empty",
    fix="Generate the table again; ranktable replaces files atomically.",
)
TRUNCATED = Rule(
    code="RT103",
    name="truncated",
    summary="the file ends in the middle of the table",
    fix="Wait until it is complete, or copy it again.",
)
PYTHON_LITERAL = Rule(
    code="RT104",
    name="python-literal",
    summary="the file is Python, not JSON",
    fix="Use the file that the generator writes, not what it prints.",
)
DUPLICATE_KEY = Rule(
    code="RT105",
    name="duplicate-key",
    summary="a key occurs twice in one object",
    fix="Remove one of the two.",
)
NOT_A_NUMBER = Rule(
    code="RT106",
    name="not-a-number",
    summary="a number that JSON does not have or that no program can hold",
    fix="Write the number that was meant.",
)
NESTED_TOO_DEEPLY = Rule(
    code="RT107",
    name="nested-too-deeply",
    summary="the document is nested more than 64 levels deep",
    fix="Remove the nested value; a rank table does not need it.",
)
LONE_SURROGATE = Rule(
    code="RT108",
    name="lone-surrogate",
    summary="half of a character in a string",
    fix="Remove the escape or complete the pair.",
)
TOO_MANY = Rule(
    code="RT134",
    name="too-many",
    summary="more lines, hosts or processes than the limit",
    fix="Check the counts; perhaps a number has one digit too many.",
)
NOT_YAML = Rule(
    code="RT135",
    name="not-yaml",
    summary="the text is not YAML",
    fix="Mend the place shown.",
)
REFUSED_YAML = Rule(
    code="RT136",
    name="refused-yaml",
    summary="YAML that is not read here: aliases, merge keys, tags, odd keys",
    fix="Write the value out where it is used.",
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
