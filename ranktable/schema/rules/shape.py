"""JSON with another shape than a rank table or a site's schema: keys and values."""

from __future__ import annotations

from ranktable.schema.finding import Finding, Rule, Severity

NOT_A_RANK_TABLE = Rule(
    code="RT110",
    name="not-a-rank-table",
    summary="nothing in the file says that it is a rank table",
    fix="Check that this is the right file.",
)
OTHER_VENDOR = Rule(
    code="RT111",
    name="other-vendor",
    summary="a file beside the rank table, or of a format that is not used",
    fix="Point RANK_TABLE_FILE at the rank table of the job.",
)
MISSING_KEY = Rule(
    code="RT112",
    name="missing-key",
    summary="a required key is missing",
    fix="Add the key.",
)
WRONG_TYPE = Rule(
    code="RT113",
    name="wrong-type",
    summary="a value has the wrong JSON type",
    fix="Write a value of the type that is named.",
)
ODD_NUMBER = Rule(
    code="RT114",
    name="odd-number",
    summary="a number that is not spelt as a plain decimal integer",
    fix="Write the plain number; --fix does so if every reader reads the same number.",
)
LEADING_DIGITS = Rule(
    code="RT270",
    name="leading-digits",
    severity=Severity.WARNING,
    summary="a number with other characters around it, which HCCL ignores",
    fix="Write only the digits; --fix does so.",
)
UNKNOWN_VERSION = Rule(
    code="RT115",
    name="unknown-version",
    summary="a version that does not exist",
    fix='Write "version":"1.0".',
)
EMPTY_LIST = Rule(
    code="RT116",
    name="empty-list",
    summary="a list of nodes or devices is empty",
    fix="List at least one node with at least one device, or remove the empty node.",
)
UNKNOWN_KEY = Rule(
    code="RT117",
    name="unknown-key",
    severity=Severity.WARNING,
    summary="a key that no reader knows",
    fix="Correct the spelling, or remove the key.",
)

UNREAD_FORMAT = Rule(
    code="RT291",
    name="unread-file",
    summary="the reader named with --for does not read this file",
    fix="Convert the table: ranktable convert FILE --to FORMAT. Copy it, if it is a "
    "link.",
)

SITE_SCHEMA = Rule(
    code="RT119",
    name="site-schema",
    summary="the file does not follow the site's own JSON Schema",
    fix="Change the value, or the schema.",
)


BAD_TOPOLOGY = Rule(
    code="RT120",
    name="bad-topology",
    summary="a file of links is neither a matrix nor a list of pairs",
    fix="Write one pair of chips per line, for example: 0 4",
)


CONFIG_MAP = Rule(
    code="RT255",
    name="config-map",
    summary="the table cannot be taken out of its ConfigMap",
    fix="Put the whole table under one key, as a block of text.",
)

OUT_OF_RANGE = Rule(
    code="RT260",
    name="out-of-range",
    summary="a number, text or list is outside what its reader allows",
    fix="Write a value within the limits that the message names.",
)
UNKNOWN_WORD = Rule(
    code="RT261",
    name="unknown-word",
    summary="a word that its reader does not know",
    fix="Write one of the words that the message names.",
)
NO_GLOBAL_RANKS = Rule(
    code="RT262",
    name="no-global-ranks",
    summary="the file does not give ranks to the processes of a job",
    fix="Wait for the table (ranktable wait), or name the rank table of the job.",
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
