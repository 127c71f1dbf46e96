"""Laws of writing: the fast ways give the same result as the slow ones."""

from __future__ import annotations

import json

import msgspec
from hypothesis import example, given

from ranktable.schema.writing import encode
from tests.property.strategies import json_values


@given(json_values)
@example({"a": ": "})
@example({"a": 'b": '})
@example({'a": ': [": ", '"": "']})
@example({"a\\": {"": "\\"}})
def test_only_the_blanks_behind_keys_are_left_out(document: object) -> None:
    written = encode(document)

    assert json.loads(written) == document
    assert written.count(b'": ') == msgspec.json.encode(document).count(b'": ')
