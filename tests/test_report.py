"""``ranktable report``: what is on a page, its Markdown and its picture."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest

from ranktable import draw, dump, load, loads
from ranktable.cluster.generate import make_table
from ranktable.layout import ParallelLayout
from ranktable.report.catalogue import RULES
from ranktable.report.picture import STATES
from ranktable.report.rule_pages import page_of
from ranktable.schema.formats import by_name, names

if TYPE_CHECKING:
    from tests.conftest import Run


ROOT = Path(__file__).parent.parent
RING = [2, 6, 7, 3, 1, 5, 4, 0]
HOSTILE = (
    *("</script><script>alert(1)</script>", "a\u202eb", "x" * 4000),
    "<img src=x onerror=alert(1)>",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    hosts = [f"n{at}" for at in range(1, 9)]
    dump(make_table([RING] * 8, hosts=hosts), tmp_path / "old.json")
    hosts[4:6] = ["n6", "n5"]
    hosts[7] = "n9"
    dump(make_table([RING] * 8, hosts=hosts), tmp_path / "new.json")
    return tmp_path


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_same_input_gives_the_same_bytes_without_a_request(
    folder: Path, run: Run
) -> None:
    given = ["report", "new.json", "--tp", "4", "--racks", "rack=4"]
    first, second = run("ranktable", *given), run("ranktable", *given)

    assert (first.status, first.out) == (0, second.out)
    assert not re.search(
        r"""(src|href)\s*=|url\(|@import|https?://(?!www\.w3)""", first.out
    )


def test_data_of_a_page(folder: Path, run: Run) -> None:
    done = run("ranktable", "report", "new.json", "--tp=4", "--pp=4", "--racks=rack=4")
    data = data_of(done.out)

    assert data["ranks"] == [[0, 1, 64]]
    assert data["hosts"][:3] == ["n1", "n2", "n3"]
    assert data["racks"] == [
        {
            "name": "rack",
            "labels": ["rack 0", "rack 1"],
            "domains": [[0, 0, 4], [1, 0, 4]],
        }
    ]
    # As the worked example of docs/plan.md has it.
    assert [round(one["bytes"] / 2**30, 2) for one in data["totals"]] == [48, 4]
    assert data["totals"][1]["bound"] == pytest.approx(data["totals"][1]["bytes"])


def test_change_has_moved_new_and_gone_chips(folder: Path, run: Run) -> None:
    done = run("ranktable", "report", "new.json", "--against", "old.json")
    change = data_of(done.out)["change"]

    assert change["moved"] == [[32, 1, 16]]
    assert change["before"] == [[40, 1, 8], [32, 1, 8]]
    assert (change["new"], change["gone"]) == ([[56, 1, 8]], [[64, 1, 8]])
    assert "nodes out: -n8" in change["lines"]


def test_change_is_told_as_diff_tells_it(folder: Path, run: Run) -> None:
    given = ["--tp", "4", "--pp", "4", "--racks", "rack=4", "--bytes", "pp=1GiB"]
    diff = run("ranktable", "diff", "old.json", "new.json", *given)
    page = run("ranktable", "report", "new.json", "--against", "old.json", *given)
    data = data_of(page.out)

    assert (diff.status, page.status) == (1, 0)
    assert data["change"]["lines"] == diff.out.splitlines()[3:]
    assert data["racks"][0]["labels"][-1] == "not in this table any more"
    assert data["hosts"][-1] == "n8"


def test_findings_of_doctor_and_validate_are_on_their_chips(
    folder: Path, run: Run
) -> None:
    cause = {"code": "RT612", "severity": "error", "message": "died", "evidence": []}
    causes = [{**cause, "ranks": [27], "host": "n4"}, {**cause, "host": "n2"}]
    (folder / "doctor.json").write_text(json.dumps({"causes": causes}))
    said = run("ranktable", "validate", "old.json", "--format", "json").out
    (folder / "validate.json").write_text(said)
    files = ["--findings", "doctor.json", "--findings", "validate.json"]
    found = data_of(run("ranktable", "report", "old.json", *files).out)["findings"]

    assert [one["cells"] for one in found[:2]] == [[27], [[8, 1, 8]]]
    assert "RT505" in {one["code"] for one in found}


def test_finding_that_validate_has_written_is_listed_once(
    folder: Path, run: Run
) -> None:
    text = (folder / "old.json").read_text()
    (folder / "old.json").write_text(text.replace('"rank":"5"', '"rank":"4"'))
    said = run("ranktable", "validate", "old.json", "--format", "json").out
    (folder / "validate.json").write_text(said)
    alone = run("ranktable", "report", "old.json")
    done = run("ranktable", "report", "old.json", "--findings", "validate.json")

    assert data_of(alone.out)["findings"]
    assert done.out == alone.out


@pytest.mark.parametrize(
    "text", ["[]", "{", "{}", '{"causes": [{}]}', '{"files": [1]}']
)
def test_other_files_are_not_findings(text: str, folder: Path, run: Run) -> None:
    (folder / "f.json").write_text(text)
    done = run("ranktable", "report", "old.json", "--findings", "f.json")

    assert done.status == 2
    assert "ranktable: --findings f.json: " in done.err


def test_table_with_errors_is_drawn_with_them(folder: Path, run: Run) -> None:
    text = (folder / "old.json").read_text()
    (folder / "old.json").write_text(
        re.sub(r'"rank":\s*"5"', '"rank":"4"', text, count=1)
    )
    done = run("ranktable", "report", "old.json")
    data = data_of(done.out)

    assert (done.status, data["is_sound"]) == (1, False)
    assert data["findings"][0]["cells"][0] == 5


def test_the_picture_of_the_documents_is_made_by_the_command(
    run: Run, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    hosts = [f"n{at}" for at in range(1, 5)]
    dump(make_table([RING] * 4, hosts=hosts), tmp_path / "cluster.json")
    made = run("ranktable", "report", "cluster.json", "--racks", "rack=2", "--svg").out
    file = ROOT / "docs" / "report.svg"
    if pytestconfig.getoption("--update-golden"):
        file.write_text(made)

    assert file.read_text() == made


def test_every_node_without_addresses_is_marked(folder: Path, run: Run) -> None:
    page = page_of(next(rule for rule in RULES if rule.code == "RT271"))
    assert page.bad is not None
    (folder / "bad.json").write_bytes(page.bad)
    found = data_of(run("ranktable", "report", "bad.json").out)["findings"]

    assert [(one["code"], one["cells"]) for one in found] == [("RT271", [0, 1])]


def test_a_notebook_shows_the_picture_of_the_command(folder: Path, run: Run) -> None:
    table = load(folder / "old.json")
    svg = run("ranktable", "report", "old.json", "--svg").out
    drawing = draw(table)

    assert drawing._repr_html_() == svg.replace("old.json: 8", "sccl-1.0: 8")
    assert repr(drawing) == "Drawing('sccl-1.0: 8 nodes, 64 ranks')"


def test_a_drawing_has_the_colours_of_its_layout(folder: Path, run: Run) -> None:
    layout = ParallelLayout(tp=8, pp=2, dp=-1, world_size=64)
    svg = run("ranktable", "report", "old.json", "--svg", "--tp=8", "--pp=2").out
    drawing = draw(load(folder / "old.json"), layout=layout)

    assert drawing.svg == svg.replace("old.json: 8", "sccl-1.0: 8")
    assert "coloured by pp" in drawing.svg


@pytest.mark.parametrize("name", names())
def test_tables_of_every_format_are_drawn(name: str) -> None:
    table = loads(json.dumps(by_name(name).example))

    assert draw(table).svg.count('class="chip"') == table.world_size


def test_all_chips_with_defects_are_marked_and_the_first_defects_listed(
    folder: Path, run: Run
) -> None:
    dump(make_table([RING] * 100), folder / "wrong.json")
    text = (folder / "wrong.json").read_text()
    wrong = re.sub(r'"rank":\s*"(\d+)"', r'"rank":"9\1"', text)
    (folder / "wrong.json").write_text(wrong)
    data = data_of(run("ranktable", "report", "wrong.json").out)

    assert len(data["findings"]) == 500 < data["num_findings"]
    assert data["states"]["error"] == [[0, 1, 800]]
    assert data["verdict"] == "not sound: 802 errors, 1 warning"


def test_hostile_names_stay_text(folder: Path, run: Run) -> None:
    dump(make_table([range(2)] * 4, hosts=HOSTILE), folder / "bad.json")
    page = run("ranktable", "report", "bad.json").out
    svg = run("ranktable", "report", "bad.json", "--svg").out
    markdown = run("ranktable", "report", "bad.json", "--markdown").out

    assert page.count("</script>") == 2
    assert not any(mark in page for mark in ("<img", "\u202e", "<script>alert"))
    assert data_of(page)["hosts"][1] == "a\\u202eb"
    assert "a\\u202eb" in "".join(ET.fromstring(svg).itertext())  # noqa: S314 - ours
    assert not any(mark in markdown for mark in ("<img", "\u202e", "<script"))


def test_earlier_page_is_replaced_and_other_files_are_kept(
    folder: Path, run: Run
) -> None:
    run("ranktable", "report", "old.json", "-o", "page.html")
    again = run("ranktable", "report", "new.json", "-o", "page.html")
    refused = run("ranktable", "report", "new.json", "-o", "old.json")

    assert (again.status, again.err) == (0, "wrote page.html: 8 nodes, 64 ranks\n")
    assert refused.status == 2


def test_markdown_has_change_traffic_and_nodes(folder: Path, run: Run) -> None:
    given = ["new.json", "--tp", "4", "--against", "old.json", "--bytes", "dp=1GiB"]
    text = run("ranktable", "report", *given, "--markdown").out

    assert "- nodes in: +n9\n" in text
    assert "| dp | 4 | 16 | 0/4 | 28.00 |\n" in text
    assert "| n\\[1-4,6,5,7,9\\] | 2,6,7,3,1,5,4,0 | 0-63, 8 each |\n" in text
    assert text.endswith("</details>\n")


def test_markdown_says_large_sizes_in_tib(folder: Path, run: Run) -> None:
    given = ["old.json", "--tp=8", "--pp=2", "--bytes=dp=3000GiB,pp=1023GiB"]
    text = run("ranktable", "report", *given, "--markdown").out

    assert re.findall("^\\| (?:dp|pp) .*", text, re.MULTILINE) == [
        "| dp | 16 | 4 | 0/16 | 140.62 TiB |",
        "| pp | 32 | 2 | 0/32 | 31.97 TiB |",
    ]
    assert "Between nodes: 172.59 TiB a step" in text


def test_page_of_100_000_chips_is_small(folder: Path, run: Run) -> None:
    hosts = [f"node-{at:05d}" for at in range(12_500)]
    dump(make_table([RING] * 12_500, hosts=hosts), folder / "big.json")
    page = run("ranktable", "report", "big.json", "--tp", "8", "--pp", "10").out

    assert len(page) < 1_500_000
    assert data_of(page)["ranks"] == [[0, 1, 100_000]]


def fills(svg: str) -> Counter[str]:
    """Return how many chips of a picture have each colour."""
    return Counter(re.findall(r'class="chip[^>]*? fill="(#\w+)"', svg))


def test_picture_of_a_change_shows_the_change_whatever_is_found(
    folder: Path, run: Run
) -> None:
    given = ["new.json", "--against", "old.json"]
    found = fills(run("ranktable", "report", *given, "--svg").out)

    # 8 chips of n8 are gone, and RT505 of the whole table colours none.
    assert found == {
        STATES["same"]: 40,
        STATES["moved"]: 16,
        STATES["new"]: 8,
        STATES["gone"]: 8,
    }


def test_error_is_framed_in_the_picture_of_a_change(folder: Path, run: Run) -> None:
    cause = {"code": "RT612", "severity": "error", "message": "died", "evidence": []}
    (folder / "doctor.json").write_text(
        json.dumps({"causes": [{**cause, "ranks": [27, 56]}]})
    )
    given = ["new.json", "--against", "old.json", "--findings", "doctor.json"]
    svg = run("ranktable", "report", *given, "--svg").out

    assert fills(svg)[STATES["moved"]] == 16
    # Rank 56 is on n9; the chip of n8 that had it before is gone, and died of nothing.
    assert svg.count(f'stroke="{STATES["error"]}"') == 3  # and once in the legend


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (["new.json"], "local rank"),
        (["new.json", "--tp=4", "--pp=4"], "pp"),
        (["new.json", "--tp=4"], "dp"),
        (["new.json", "--tp=4", "--against=old.json"], "change"),
        (["new.json", "--tp=4", "--findings=chip.json"], "status"),
        (["new.json", "--findings=table.json"], "status"),
        (["new.json", "--against=old.json", "--findings=chip.json"], "change"),
    ],
)
def test_default_colour_is_what_says_most(
    given: list[str], name: str, folder: Path, run: Run
) -> None:
    cause = {"code": "RT612", "message": "died", "evidence": []}
    for file, one in {
        "chip.json": {**cause, "severity": "warning", "ranks": [3]},
        "table.json": {**cause, "severity": "error"},
    }.items():
        (folder / file).write_text(json.dumps({"causes": [one]}))
    page = run("ranktable", "report", *given).out
    svg = run("ranktable", "report", *given, "--svg").out

    assert data_of(page)["colour"] == name
    root = ET.fromstring(svg)  # noqa: S314 - ours
    title = root[0].text or ""
    assert title.startswith("new.json: 8 nodes, 64 ranks")
    assert title.endswith(f"coloured by {name}")


def test_picture_has_a_legend_inside_its_frame(folder: Path, run: Run) -> None:
    svg = run("ranktable", "report", "new.json", "--against", "old.json", "--svg").out
    root = ET.fromstring(svg)  # noqa: S314 - ours
    texts = [each for each in root if each.get("class") == "legend"]
    left, top, width, height = map(float, root.attrib["viewBox"].split())

    assert [one.text for one in texts] == ["same 40", "moved 16", "new 8", "gone 8"]
    for one in texts:
        x, y = float(one.attrib["x"]), float(one.attrib["y"])
        assert left <= x
        assert x + 7 * len(one.text or "") <= left + width
        assert top <= y <= top + height


@pytest.mark.parametrize("by", ["causes", "findings"])
def test_all_chips_of_a_doubled_rank_are_marked(
    by: str, folder: Path, run: Run
) -> None:
    text = (folder / "old.json").read_text()
    (folder / "old.json").write_text(
        re.sub(r'"rank":\s*"5"', '"rank":"4"', text, count=1)
    )
    one = {"code": "RT612", "severity": "error", "message": "rank 4 died"}
    said = {**one, "ranks": [4], "evidence": []} if by == "causes" else one
    (folder / "f.json").write_text(json.dumps({by: [said]}))
    data = data_of(run("ranktable", "report", "old.json", "--findings=f.json").out)
    found = {each["code"]: each["cells"] for each in data["findings"]}

    assert found["RT612"] == [4, 5]
    assert sorted(found["RT202"]) == [4, 5]


def test_table_with_errors_is_drawn_with_them_also_against_another(
    folder: Path, run: Run
) -> None:
    text = (folder / "new.json").read_text()
    (folder / "new.json").write_text(
        re.sub(r'"rank":\s*"5"', '"rank":"4"', text, count=1)
    )
    given = ["report", "new.json", "--against", "old.json", "--tp", "4"]
    page = run("ranktable", *given)
    svg = run("ranktable", *given, "--svg")

    assert (page.status, svg.status) == (1, 1)
    data = data_of(page.out)
    assert (data["is_sound"], data["change"], data["colour"]) == (False, None, "status")
    assert fills(svg.out)[STATES["error"]] == 2
    assert "new.json has errors, so its layout and changes are not shown" in page.err


def test_verdict_and_findings_are_in_the_page_itself(folder: Path, run: Run) -> None:
    cause = {"code": "RT701", "severity": "error", "message": "a < b", "evidence": []}
    (folder / "f.json").write_text(json.dumps({"causes": [{**cause, "hint": "mend"}]}))
    page = run("ranktable", "report", "old.json", "--findings=f.json").out
    body = page.split('<script type="application/json"')[0]

    assert '<p id="verdict" class="error">1 error, 1 warning</p>' in body
    assert "a &lt; b" in body
    assert "Do: mend" in body
    assert body.index("a &lt; b") < body.index("RT505")
