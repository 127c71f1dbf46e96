"""The page of ``ranktable report`` in a real browser: Chromium without a window.

A fixture fails a test whose page wrote an error or asked for anything but its own file.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ranktable import dump
from ranktable.cluster.generate import make_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import Run

    Open = Callable[..., Any]

CHROMIUM = shutil.which("chromium")
PICTURES = Path(__file__).parent / "pictures"
HAS_ALL = CHROMIUM and importlib.util.find_spec("axe_playwright_python")
pytestmark = [
    pytest.mark.skipif(
        not HAS_ALL, reason="needs chromium, playwright and axe-playwright-python"
    ),
    pytest.mark.xdist_group("browser"),  # it takes a second to start
]

RING = [2, 6, 7, 3, 1, 5, 4, 0]
LAYOUT = ("--tp=4", "--pp=4", "--racks=rack=4", "--links=sophgo-8")
HOSTILE = (
    *("</script><script>document.title='bad'</script>", "a\u202eb", "x" * 4000),
    "<img src=x onerror=document.title='bad'>",
)
CAUSE = {
    "code": "RT612",
    "severity": "error",
    "ranks": [27],
    "host": "n4",
    "message": "rank 27 stopped answering",
    "hint": "raise the memory limit",
    "evidence": [{"file": "dmesg", "line": 7, "text": "Killed process 4321"}],
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    driver = pytest.importorskip("playwright.sync_api")
    with driver.sync_playwright() as playwright:
        # Chromium refuses its sandbox to root, who runs the tests in a container.
        started = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"]
        )
        yield started
        started.close()


@pytest.fixture
def opened(browser: Any, run: Run, tmp_path: Path) -> Iterator[Open]:
    """Draw a table of the folder and open the page."""
    problems: list[str] = []
    contexts = []

    def open_page(table: str, *arguments: str, **settings: Any) -> Any:
        done = run("ranktable", "report", table, *arguments, "-o", "page.html")
        assert done.status in (0, 1), done.err
        size = {"width": 1400, "height": 900}
        context = browser.new_context(**{"viewport": size, **settings})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        url = f"file://{tmp_path}/page.html"
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda said: problems.append(said.text))
        page.on(
            "request",
            lambda one: None if one.url == url else problems.append(one.url[:99]),
        )
        page.goto(url)
        return page

    hosts = [f"n{at}" for at in range(1, 9)]
    dump(make_table([RING] * 8, hosts=hosts), tmp_path / "t.json")
    yield open_page
    for context in contexts:
        context.close()
    assert problems == []


def select(page: Any, text: str) -> str:
    """Search a text, and return the title of what is selected."""
    page.fill("#query", text)
    title: str = page.inner_text("#details h2")
    return title


def lit(page: Any) -> list[str]:
    """Return the numbers of the chips that are lit up."""
    script = "all => all.map(one => one.nextElementSibling.textContent)"
    found: list[str] = page.eval_on_selector_all("rect.on", script)
    return found


@pytest.mark.parametrize(
    ("text", "title", "ranks"),
    [
        ("12", "rank 12 on n2", [12]),
        ("rank 63", "rank 63 on n8", [63]),
        ("8-11", "ranks 8-11", [8, 9, 10, 11]),
        ("N3", "n3", [*range(16, 24)]),
        ("rack 1", "rack 1", [*range(32, 64)]),
        ("chip 7", "chip 7 of every host", [*range(2, 64, 8)]),
        ("pp 1", "pp group 1, 4 ranks", [1, 17, 33, 49]),
        ("tp 99", "Selection", []),
        ("64", "Selection", []),
    ],
)
def test_search_lights_up_the_members(
    text: str, title: str, ranks: list[int], opened: Open
) -> None:
    page = opened("t.json", *LAYOUT)

    assert select(page, text) == title
    assert lit(page) == list(map(str, ranks))
    said = page.inner_text("#found")
    count = f"{len(ranks)} chip{'s' * (len(ranks) != 1)}"
    assert said == (count if ranks else "nothing has this name")


def test_hover_and_click_name_a_chip_a_host_and_a_rack(opened: Open) -> None:
    page = opened("t.json", *LAYOUT)
    page.locator("rect.chip").nth(21).hover()

    assert page.inner_text("#tip") == "rank 21 · n3 · chip 5 · tp 1, dp 1, pp 1"
    page.locator("rect.chip").nth(21).click()
    assert page.inner_text("#details h2") == "rank 21 on n3"
    assert "closed ring 2 6 7 3 1 5 4 0" in page.inner_text("#details")
    assert page.url.endswith("#rank%2021")
    for label, title in (("n5", "n5"), ("rack 0", "rack 0")):
        box = page.locator("#map text", has_text=label).first.bounding_box()
        page.mouse.click(box["x"] + 4, box["y"] + 4)
        assert page.inner_text("#details h2") == title
    page.click("#clear")
    assert lit(page) == []


def test_keyboard_reaches_everything(opened: Open) -> None:
    page = opened("t.json", *LAYOUT)
    page.focus("#map")
    for key in ("ArrowRight", "ArrowDown", "Enter"):
        page.keyboard.press(key)

    assert page.inner_text("#details h2") == "rank 9 on n2"
    assert "n2" in page.inner_text("#said")
    for title in ("tp group 2, 4 ranks", "dp group 1, 4 ranks"):
        page.keyboard.press("g")
        assert page.inner_text("#details h2") == title
    page.keyboard.press("/")
    page.keyboard.type("n7")
    assert page.inner_text("#details h2") == "n7"
    page.keyboard.press("Escape")
    assert page.inner_text("#details h2") == "Selection"


@pytest.mark.slow
@pytest.mark.parametrize(
    "sizes", [("--tp=4", "--pp=4"), ("--tp=2", "--cp=2", "--ep=4", "--pp=2")]
)
def test_bytes_of_all_groups_are_those_of_plan(
    sizes: tuple[str, ...], opened: Open, run: Run
) -> None:
    given = "--bytes=" + ",".join(
        f"{axis}=1GiB"
        for axis in ("tp", "dp", "pp", *(["ep"] if len(sizes) > 2 else []))
    )
    page = opened("t.json", *sizes, "--racks=rack=4", given)
    plan = run("ranktable", "plan", "t.json", *sizes, "--racks=rack=4", given)
    rows = run(
        "ranktable", "plan", "t.json", *sizes, "--racks=rack=4", given, "--format=json"
    )

    assert plan.status == 0
    for row in json.loads(rows.out)["before"]["axes"]:
        sums = [0.0, 0.0]
        for group in range(row["groups"]):
            select(page, f"{row['axes']} {group}")
            cells = page.locator("#details tbody td").all_inner_texts()[-2:]
            sums = [
                a + (b != "-" and float(b)) for a, b in zip(sums, cells, strict=True)
            ]
        wanted = [(one["bytes"] or 0) / 2**30 for one in row["at"].values()]
        assert sums == pytest.approx(wanted, abs=0.01 * row["groups"])


def test_colours_follow_the_mode_and_have_a_legend(opened: Open) -> None:
    page = opened("t.json", *LAYOUT)
    fills = "all => all.map(one => one.getAttribute('fill'))"
    assert page.get_by_label("pp", exact=True).is_checked()
    found = page.eval_on_selector_all("rect.chip", fills)

    assert found[:16] == ["#77aadd"] * 16
    assert len(set(found)) == 4
    assert page.inner_text("#legend").split("\n") == ["pp 0", "1", "2", "3"]


def test_change_and_findings_are_on_the_chips(opened: Open, tmp_path: Path) -> None:
    hosts = ["n1", "n2", "n3", "n4", "n6", "n5", "n7", "n9"]
    dump(make_table([RING] * 8, hosts=hosts), tmp_path / "new.json")
    (tmp_path / "doctor.json").write_text(json.dumps({"causes": [CAUSE]}))
    page = opened("new.json", "--against=t.json", "--findings=doctor.json")

    legend = page.inner_text("#legend").split("\n")
    assert legend == ["same 40", "moved 16", "new 8", "gone 8", "error"]
    assert "dmesg:7 Killed process 4321" in page.inner_text("#findings")
    page.get_by_label("status", exact=True).check(force=True)
    legend = page.inner_text("#legend").split("\n")
    assert legend == ["sound 63", "error 1", "gone 8"]
    page.get_by_role("button", name="gone 8").click()
    assert lit(page) == list(map(str, range(56, 64)))
    page.get_by_role("button", name="show 1 chip").first.click()
    assert lit(page) == ["27"]
    page.locator("rect.chip").nth(32).hover()
    assert page.inner_text("#tip") == "rank 32 · n6 · chip 2 · was rank 40"


def test_error_without_a_chip_colours_the_header(opened: Open, tmp_path: Path) -> None:
    cause = {**CAUSE, "ranks": [], "host": None}
    (tmp_path / "check.json").write_text(json.dumps({"causes": [cause]}))
    page = opened("t.json", *LAYOUT, "--findings=check.json")

    assert page.get_attribute("#verdict", "class") == "error"
    assert page.inner_text("#verdict") == "1 error, 1 warning"
    assert page.get_by_label("status", exact=True).is_checked()


def test_100_000_chips_are_drawn_on_a_canvas_in_a_moment(
    opened: Open, tmp_path: Path
) -> None:
    hosts = [f"node-{at:05d}" for at in range(12_500)]
    dump(make_table([RING] * 12_500, hosts=hosts), tmp_path / "big.json")
    page = opened("big.json", "--tp=8", "--pp=10", "--racks=rack=32")
    assert page.locator("#overview i").count() == 391
    begin = "performance.getEntriesByType('navigation')[0].domInteractive"
    drawn = page.evaluate(
        f"performance.getEntriesByName('drawn')[0].startTime - {begin}"
    )

    assert drawn < 5000  # 400 ms alone; the machine of the tests is busy
    assert select(page, "node-00033") == "node-00033"
    page.fill("#query", "")
    area = page.locator("canvas").bounding_box()
    inside = json.loads(page.inner_text("#data") or page.text_content("#data"))[
        "picture"
    ]
    scale = area["width"] / (inside["width"] + 2)
    x, y = inside["x"][0], inside["y"][0]
    first = [each[0] if isinstance(each, list) else each for each in (x, y)]
    page.mouse.click(
        *(area[n] + (at + 3) * scale for n, at in zip("xy", first, strict=True))
    )
    assert page.inner_text("#details h2") == "rank 0 on node-00000"
    pen = "document.querySelector('canvas').getContext('2d')"
    pixel = f"([x, y]) => [...{pen}.getImageData(x, y, 1, 1).data]"
    assert page.evaluate(pixel, [at + 2 for at in first])[3] == 255


@pytest.mark.parametrize("touch", [False, True])
def test_zoom_by_buttons_and_keys(touch: bool, opened: Open) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
    page = opened("t.json", *LAYOUT, **({**phone, "is_mobile": True} if touch else {}))
    chip = page.locator("rect.chip").nth(63)

    def width() -> float:
        found: float = page.locator("#map svg").bounding_box()["width"]
        return found

    fits = width()
    page.fill("#query", "rank 63")
    page.click("#larger")
    page.click("#larger")
    area = chip.bounding_box()

    assert width() == pytest.approx(2 * fits)
    assert 0 <= area["x"] <= page.viewport_size["width"] - area["width"]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.click("#clear")
    chip.click()
    assert page.inner_text("#details h2") == "rank 63 on n8"
    page.locator("#query").press("+")
    assert width() == pytest.approx(2 * fits)
    page.locator("#map").focus()
    page.keyboard.press("-")
    assert width() == pytest.approx(1.5 * fits)
    page.keyboard.press("0")
    assert width() == fits
    assert page.is_disabled("#smaller")
    for _ in range(20):
        page.keyboard.press("+")
    assert width() == pytest.approx(8 * fits)
    assert page.is_disabled("#larger")


@pytest.mark.usefixtures("large")
def test_zoom_of_a_canvas_hits_and_shows_chips(opened: Open) -> None:
    page = opened("big.json")
    canvas = page.locator("canvas")
    before = canvas.bounding_box()["width"], page.evaluate(SHARP)
    page.fill("#query", "rank 16000")
    page.locator("#map").focus()
    page.keyboard.press("+")
    page.keyboard.press("+")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    after = canvas.bounding_box()["width"], page.evaluate(SHARP)

    assert after[0] == pytest.approx(2 * before[0], rel=0.02)
    assert after[1] > before[1]
    assert page.inner_text("#details h2") == "rank 16001 on node-02000"
    cursor = page.locator("#cursor").bounding_box()
    assert 0 <= cursor["x"] < 1400
    assert 0 <= cursor["y"] < 900


SHARP = "document.querySelector('canvas').width"


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Write a table of 16,384 chips, and what doctor says about two of them."""
    hosts = [f"node-{at:05d}" for at in range(2048)]
    dump(make_table([RING] * 2048, hosts=hosts), tmp_path / "big.json")
    causes = [
        {**CAUSE, "ranks": [16_000], "host": "node-02000"},
        {**CAUSE, "ranks": [16_001], "host": "node-02000", "severity": "warning"},
    ]
    (tmp_path / "doctor.json").write_text(json.dumps({"causes": causes}))
    return tmp_path


@pytest.mark.parametrize(
    ("racks", "cells", "culprit", "title"),
    [
        (["--racks=rack=32"], 64, "rack 62: error", "rack 62"),
        ([], 2048, "node-02000: error", "node-02000"),
    ],
)
@pytest.mark.usefixtures("large")
def test_culprit_of_16384_chips_is_on_the_first_screen(
    racks: list[str], cells: int, culprit: str, title: str, opened: Open
) -> None:
    page = opened("big.json", *racks, "--findings=doctor.json")
    cell = page.locator(f'#overview i[title="{culprit}"]')
    area = cell.bounding_box()

    assert page.locator("#overview i").count() == cells
    assert page.inner_text("#overview ul").split("\n") == [
        "error 1",
        f"sound {cells - 1:,}",
    ]
    assert page.evaluate("scrollY") == 0
    assert area["y"] + area["height"] < 900
    cell.click()
    assert page.inner_text("#details h2") == title
    assert page.evaluate("scrollY") > 0


@pytest.mark.usefixtures("large")
def test_chip_of_a_link_or_a_finding_is_scrolled_to(opened: Open) -> None:
    page = opened("big.json", "--findings=doctor.json")
    page.goto(page.url + "#rank%2016000")
    box = "document.querySelector('#map').getBoundingClientRect().top"
    data = json.loads(page.text_content("#data"))["picture"]

    assert page.inner_text("#details h2") == "rank 16000 on node-02000"
    # Where the chip is drawn, in pixels of the window.
    node = page.evaluate(
        """(picture) => {
          const unpacked = (packed) => packed.flatMap((one) => typeof one === "number"
            ? [one] : Array.from({ length: one[2] }, (_, at) => one[0] + at * one[1]));
          const area = document.querySelector("canvas").getBoundingClientRect();
          const scale = area.width / (picture.width + 2);
          return [unpacked(picture.y)[2000] * scale, area.top];
        }""",
        data,
    )
    assert node[0] > 900
    assert 60 < node[0] + node[1] < 900
    below = page.evaluate(box)
    page.evaluate("scrollTo(0, 0)")
    page.locator("#findings button").first.click()
    assert page.evaluate(box) == below
    page.evaluate("scrollTo(0, 0)")
    page.evaluate("location.hash = 'rank 16001'")
    page.wait_for_function("scrollY > 500")
    assert page.inner_text("#details h2") == "rank 16001 on node-02000"


def test_cell_of_an_overview_is_several_hosts_if_there_are_too_many(
    opened: Open, tmp_path: Path
) -> None:
    hosts = [f"node-{at:05d}" for at in range(5000)]
    dump(make_table([[0]] * 5000, hosts=hosts), tmp_path / "many.json")
    cause = {**CAUSE, "ranks": [4999], "host": None}
    (tmp_path / "doctor.json").write_text(json.dumps({"causes": [cause]}))
    page = opened("many.json", "--findings=doctor.json")
    page.locator("#overview i").last.click()

    head = "Every cell is 2 hosts, by their worst chip"
    assert page.inner_text("#overview h2") == head
    assert page.locator("#overview i").count() == 2500
    assert page.inner_text("#details h2") == "node-04998 to node-04999: error"


def test_picture_that_fits_a_screen_has_no_overview(opened: Open) -> None:
    page = opened("t.json", *LAYOUT)

    assert page.locator("#overview").count() == 0


def test_ring_of_the_only_host_is_drawn_without_a_click(
    opened: Open, tmp_path: Path
) -> None:
    dump(make_table([RING]), tmp_path / "one.json")
    page = opened("one.json", "--links=sophgo-8")

    assert "closed ring 2 6 7 3 1 5 4 0" in page.inner_text("#details")
    assert page.locator("#details svg.links").is_visible()


def test_large_bytes_are_in_tib(opened: Open) -> None:
    page = opened("t.json", *LAYOUT, "--bytes=tp=1GiB,pp=3000GiB")
    select(page, "pp 0")
    cells = page.locator("#details tbody td").all_inner_texts()

    assert cells[-2:] == ["8.79 TiB", "2.93 TiB"]  # 3 and 1 of 3000 GiB
    assert "TiB" in page.inner_text("#traffic")


@pytest.mark.parametrize("nodes", [1, 8, 200])
def test_thumb_hits_a_chip_on_a_phone(nodes: int, opened: Open, tmp_path: Path) -> None:
    dump(make_table([RING] * nodes), tmp_path / "phone.json")
    size = {"width": 390, "height": 844}
    page = opened("phone.json", viewport=size, has_touch=True, is_mobile=True)
    last = page.locator("rect.chip").last
    area = last.bounding_box()

    assert area["width"] >= 39
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    last.tap()
    assert page.inner_text("#details h2").startswith(f"rank {8 * nodes - 1} on ")


def test_findings_are_first_on_paper(opened: Open, tmp_path: Path) -> None:
    (tmp_path / "doctor.json").write_text(json.dumps({"causes": [CAUSE]}))
    page = opened("t.json", *LAYOUT, "--findings=doctor.json")
    page.emulate_media(media="print")
    finding, picture = page.locator("#findings"), page.locator("#map")

    assert finding.bounding_box()["y"] < picture.bounding_box()["y"]
    assert page.locator("#verdict").is_visible()


def test_hostile_names_stay_text(opened: Open, tmp_path: Path) -> None:
    dump(make_table([range(2)] * 4, hosts=HOSTILE), tmp_path / "bad.json")
    page = opened("bad.json", "--tp=2")
    for at, name in enumerate(HOSTILE):
        page.fill("#query", f"rank {2 * at}")
        shown = name.replace("\u202e", "\\u202e")
        assert page.locator("#details dd").first.text_content() == shown
        page.locator("rect.chip").nth(2 * at).hover()

    assert page.title() == "bad.json - ranktable"
    assert page.locator("img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_print_has_white_paper_and_no_controls(opened: Open) -> None:
    page = opened("t.json", *LAYOUT, color_scheme="dark")
    page.emulate_media(media="print")

    colour = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(colour) == "rgb(255, 255, 255)"
    assert not page.locator(".bar").is_visible()
    assert page.locator("rect.chip").first.is_visible()
    assert page.pdf().startswith(b"%PDF")


def test_picture_is_there_without_scripts(opened: Open) -> None:
    page = opened("t.json", *LAYOUT, java_script_enabled=False)

    assert page.locator("rect.chip").count() == 64
    assert page.locator("#map text", has_text="rack 1").is_visible()
    assert page.inner_text("#legend").split("\n") == ["pp 0", "1", "2", "3"]
    assert page.locator("#verdict", has_text="1 warning").is_visible()
    assert "RT505" in page.inner_text("#findings")


@pytest.mark.parametrize(
    "given",
    [
        [],
        ["--tp=4", "--pp=4"],
        ["--tp=2", "--cp=2", "--ep=4", "--pp=2"],
        ["--tp=2", "--pp=2"],
        ["--against=old.json", "--findings=doctor.json", "--tp=4"],
        ["--findings=doctor.json", "--tp=4"],
    ],
)
def test_scripts_leave_the_first_colours_and_the_legend_as_they_are(
    given: list[str], opened: Open, tmp_path: Path
) -> None:
    hosts = ["n1", "n2", "n3", "n4", "n6", "n5", "n7", "n9"]
    dump(make_table([RING] * 8, hosts=hosts), tmp_path / "old.json")
    (tmp_path / "doctor.json").write_text(json.dumps({"causes": [CAUSE]}))
    fills = "all => all.map(one => one.getAttribute('fill'))"
    seen = []
    for scripts in (False, True):
        page = opened("t.json", *given, java_script_enabled=scripts)
        colours = (
            page.eval_on_selector_all("rect.chip", fills)
            if scripts
            else [
                one.get_attribute("fill")
                for one in page.query_selector_all("rect.chip")
            ]
        )
        seen.append((colours, page.inner_text("#legend")))

    without, with_scripts = seen
    assert with_scripts[0] == without[0]
    if "0 to" not in with_scripts[1]:  # a ramp, which is drawn as five colours without
        assert with_scripts[1] == without[1]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(scheme: str, opened: Open, tmp_path: Path) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    (tmp_path / "doctor.json").write_text(json.dumps({"causes": [CAUSE]}))
    given = (*LAYOUT, "--findings=doctor.json", "--against=t.json")
    page = opened("t.json", *given, color_scheme=scheme)
    for text in ("", "rank 27", "n3"):
        page.fill("#query", text)
        # A page may call scripts of its own only; axe is called by the debugger.
        found = axe.run(page).response
        assert len(found["passes"]) > 20
        serious = [
            (one["id"], [node["html"] for node in one["nodes"]][:3])
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
        ]
        assert serious == []


COMPARE = """async ([one, other]) => {
  const pixels = async (data) => {
    const image = new Image();
    image.src = `data:image/png;base64,${data}`;
    await image.decode();
    const canvas = new OffscreenCanvas(140, 70);
    const pen = canvas.getContext("2d");
    pen.imageSmoothingQuality = "high";
    pen.drawImage(image, 0, 0, 140, 70);
    return pen.getImageData(0, 0, 140, 70).data;
  };
  const [a, b] = [await pixels(one), await pixels(other)];
  return a.reduce((sum, value, at) => sum + Math.abs(value - b[at]), 0) / a.length;
}"""
"""The mean difference of two pictures, of 255, after both were made small."""

MAX_DIFFERENCE = 3
"""Fonts differ between machines; another colour of a few chips is more than this."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_picture_looks_as_before(
    scheme: str, opened: Open, browser: Any, request: pytest.FixtureRequest
) -> None:
    page = opened("t.json", *LAYOUT, color_scheme=scheme)
    select(page, "rank 21")
    shot = page.locator("#map").screenshot()
    golden = PICTURES / f"page-{scheme}.png"
    if request.config.getoption("--update-golden"):
        golden.write_bytes(shot)
    pair = [base64.b64encode(data).decode() for data in (shot, golden.read_bytes())]
    blank = browser.new_page()
    difference = blank.evaluate(COMPARE, pair)
    blank.close()

    assert difference < MAX_DIFFERENCE
