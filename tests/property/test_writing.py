"""Laws of writing: the short ways come to what the long ones do."""

from __future__ import annotations

import json

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from ranktable.cluster.generate import make_table
from ranktable.schema.formats.detect import FORMATS
from ranktable.schema.formats.document import DocumentReader
from ranktable.schema.model import Device, Node, RankTable
from ranktable.schema.plain import plain_columns
from ranktable.schema.quota import Quota
from ranktable.schema.writing import encode, to_document
from tests.property.strategies import json_values

ODD_NUMBER = 10**9  # a digit more than a table has

numbers = st.integers(0, 9) | st.sampled_from([-1, ODD_NUMBER, -ODD_NUMBER])
devices = st.builds(
    Device,
    rank=numbers,
    device_id=numbers,
    address=st.sampled_from([None, "", "10.0.0.1", "x"]),
    is_emulated=st.booleans(),
    extra=st.sampled_from([{}, {}, {}, {"note": 1}]),
)
nodes = st.builds(
    Node,
    devices=st.lists(devices, max_size=3).map(tuple),
    host=st.sampled_from([None, "", " ", "n1", "n2"]),
    extra=st.sampled_from([{}, {}, {}, {"rack": "r1"}]),
)
tables = st.builds(
    RankTable,
    nodes=st.lists(nodes, max_size=3).map(tuple),
    version=st.sampled_from(["1.0", "1.0", "2.0"]),
    extra=st.sampled_from([{}, {}, {}, {"status": 1}]),
)
formats = st.sampled_from(FORMATS)


@given(tables, formats)
@example(make_table([[0, 1], [0, 1]], hosts=["n1", "n2"]), FORMATS[0])
@example(make_table([[0]], addresses=[["10.0.0.1"]], hosts=["n1"]), FORMATS[1])
def test_plain_columns_are_what_is_read_from_the_document(
    table: RankTable, format_: object
) -> None:
    assert isinstance(format_, type(FORMATS[0]))
    document = to_document(table, format_)
    quota = Quota()

    columns = plain_columns(table, format_, document, quota)

    read, found = DocumentReader(format_, document, quota).read()
    if columns is not None:
        assert columns == read
        assert found == []


def test_generated_tables_are_plain() -> None:
    table = make_table([[3, 1], [0]], addresses=[["10.0.0.1", None], [None]])

    columns = plain_columns(table, FORMATS[0], to_document(table, FORMATS[0]), Quota())

    assert columns is not None


@given(json_values)
@example({"a": ": "})
@example({"a": 'b": '})
@example({'a": ': [": ", '"": "']})
@example({"a\\": {"": "\\"}})
def test_only_the_blanks_behind_keys_are_left_out(document: object) -> None:
    written = encode(document)

    assert json.loads(written) == document
    assert written.count(b'": ') == msgspec.json.encode(document).count(b'": ')
