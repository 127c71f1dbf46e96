"""Host lists in Slurm's notation, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranktable.cluster import ArgumentError, expand_hosts, fold_hosts
from tests.effort import law

LISTS = {
    "n[1-1]-[02-2]x,a[3-3][1-2]b[4-4],c": ["n1-02x", "a31b4", "a32b4", "c"],
    "": [],
    ",": [],
    "a": ["a"],
    "a,,b": ["a", "b"],
    "b,a,b": ["b", "a", "b"],
    "node[01-04]": ["node01", "node02", "node03", "node04"],
    "n[3,1-2]": ["n3", "n1", "n2"],
    "n[8-11]": ["n8", "n9", "n10", "n11"],
    "n[08-11]": ["n08", "n09", "n10", "n11"],
    "n[001-5]": ["n001", "n002", "n003", "n004", "n005"],
    "n[998-1001]": ["n998", "n999", "n1000", "n1001"],
    "n[00998-1001]": ["n00998", "n00999", "n01000", "n01001"],
    "rack[1-2]n[1-2]": ["rack1n1", "rack1n2", "rack2n1", "rack2n2"],
    "[1-2][3-4]": ["13", "14", "23", "24"],
    "a[1],b[2-3]": ["a1", "b2", "b3"],
    "n[1-3]-ib": ["n1-ib", "n2-ib", "n3-ib"],
    "n[1-2]-ib[0-1].x": ["n1-ib0.x", "n1-ib1.x", "n2-ib0.x", "n2-ib1.x"],
    "n[1-1]": ["n1"],
    "fd00::1,10.0.0.1": ["fd00::1", "10.0.0.1"],
    "n[01]x[7],[3]": ["n01x7", "3"],
    "n[6-07,009-10]": ["n6", "n7", "n009", "n010"],
    ",n[1-2],,m[3],": ["n1", "n2", "m3"],
    "x" * 255: ["x" * 255],
    # As Slurm 22.05 folds and expands them.
    "gpu[2023010001-2023010002]": ["gpu2023010001", "gpu2023010002"],
    "n[9999999999]": ["n9999999999"],
    "n[9999999999-10000000000]": ["n9999999999", "n10000000000"],
}
BAD = {
    "n[3-1]": ("the range 3-1 counts down", 2),
    "n[]": ("a range is missing here", 2),
    "n[1,]": ("a range is missing here", 4),
    "n]": ("this bracket was not opened", 1),
    "n[1": ("this bracket is not closed", 1),
    "n[[1]]": ("brackets cannot stand within brackets", 1),
    "n[+1]": ("'+1' is not a range", 2),
    "n[1 - 2]": ("'1 - 2' is not a range", 2),
    "n[1_0]": ("'1_0' is not a range", 2),
    "n[1-2-3]": ("'1-2-3' is not a range", 2),
    "n[1-5/2]": ("'1-5/2' is not a range", 2),
    "n[0x1]": ("'0x1' is not a range", 2),
    "n[\u0661]": ("'\u0661' is not a range", 2),
    "n[1-100000000]": ("the range 1-100000000 has more than 65536 hosts", 2),
    "n[9999999999999999999]": ("'9999999999999999999' is not a range", 2),
    "a b": ("a host list has no blanks", 1),
    "a\n": ("a host list has no blanks", 1),
    "a\0": (r"'\x00' is not part of a host name", 1),
    "n[1-60000]x[1-60000]": ("this is more than 1048576 hosts", 11),
    "n[" + ",".join(["1-60000"] * 30) + "]": ("this is more than 1048576 hosts", 138),
    ",".join(["n[1-60000]"] * 30): ("this is more than 1048576 hosts", 188),
    "[1-2]" * 20 + "[1-2]": ("this is more than 1048576 hosts", 100),
    "n[[1]2]": ("brackets cannot stand within brackets", 1),
    "n[1[2]3]": ("brackets cannot stand within brackets", 1),
    "n[1]2]": ("this bracket was not opened", 5),
    "n[" + "9" * 50 + "]": (f"'{'9' * 40}...' is not a range", 2),
    # A short text must not mean gigabytes of names.
    "[1-60000]" + "x" * 251: ("a host has more than 255 characters", 9),
    "x" * 256: ("a host has more than 255 characters", 0),
    "[1-1]" * 256: ("a host has more than 255 characters", 1275),
}


@pytest.mark.parametrize("text", LISTS)
def test_list_is_expanded_in_its_order(text: str) -> None:
    assert expand_hosts(text) == LISTS[text]


@pytest.mark.parametrize("text", BAD, ids=lambda text: text[:20])
def test_malformed_list_is_refused_at_its_place(text: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        expand_hosts(text)

    assert (raised.value.reason, raised.value.position) == BAD[text]


FOLDED = {
    "n[1-3]": ["n1", "n2", "n3"],
    "n[01-03,5]": ["n01", "n02", "n03", "n5"],
    "n[9-11]": ["n9", "n10", "n11"],
    "n[3,1-2,1]": ["n3", "n1", "n2", "n1"],
    "n1,n1": ["n1", "n1"],
    "n[1-2],m[1-2]": ["n1", "n2", "m1", "m2"],
    "rack1n[1-2],rack2n[1-2]": ["rack1n1", "rack1n2", "rack2n1", "rack2n2"],
    "rack1n[1-2],rack2n1": ["rack1n1", "rack1n2", "rack2n1"],
    "n[1-2]-ib": ["n1-ib", "n2-ib"],
    "n1234567890": ["n1234567890"],
}


@pytest.mark.parametrize("text", FOLDED)
def test_hosts_are_folded_in_their_order(text: str) -> None:
    assert fold_hosts(FOLDED[text]) == text


@pytest.mark.parametrize("host", ["", "a b", "n[1]", "a,b", "a]", "\n", ",", "x" * 256])
def test_host_that_cannot_be_written_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        fold_hosts(["n1", host])


names = st.one_of(
    st.text("abx-.", min_size=1, max_size=4),
    st.builds(
        "r{}n{}{}".format,
        st.integers(0, 3),
        st.sampled_from(["0", "", "00"]),
        st.integers(0, 12),
    ),
    st.builds("n{}-ib{}".format, st.integers(8, 12), st.integers(0, 2)),
    st.from_regex(r"[a-z0-9]{1,12}", fullmatch=True),
)


@law(400)
@given(st.lists(names, max_size=30))
def test_folding_then_expanding_gives_the_same_hosts(hosts: list[str]) -> None:
    assert expand_hosts(fold_hosts(hosts)) == hosts


@law(400)
@given(st.text("n12[]-, 0", max_size=14))
def test_any_text_is_expanded_or_refused(text: str) -> None:
    try:
        hosts = expand_hosts(text)
    except ArgumentError:
        return

    assert expand_hosts(fold_hosts(hosts)) == hosts


def test_long_lists_are_expanded_and_folded_in_one_bracket() -> None:
    hosts = expand_hosts("rack[001-100]n[001-1000]")

    assert len(hosts) == 100_000
    assert fold_hosts(hosts[:2000]) == "rack001n[001-1000],rack002n[001-1000]"
